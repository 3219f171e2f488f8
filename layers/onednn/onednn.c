/* Primitives: made, run, and given back. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "layers/onednn/onednn_parts.h"

enum { SLOTS = 5 };

/* Slots are in the order of dt_dnnl_bytes: x, y, weight, bias, work. */
struct dt_dnnl_op {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream; /* its own: ops of other runs may run at the same time */
    dnnl_memory_t memory[SLOTS];
    int arg[SLOTS];
    void *bound[SLOTS];
    size_t skip[2]; /* bytes of x and of y before what is meant: a reorder's rows */
};

static const int arguments[3][SLOTS] = {
    [DT_DNNL_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
        DNNL_ARG_SCRATCHPAD},
    [DT_DNNL_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, 0,
        DNNL_ARG_SCRATCHPAD},
    [DT_DNNL_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS,
        DNNL_ARG_SCRATCHPAD},
};
static const int product_arguments[3][SLOTS] = {
    [DT_DNNL_DATA] = {DNNL_ARG_DST, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, 0, DNNL_ARG_SCRATCHPAD},
    [DT_DNNL_WEIGHTS] = {DNNL_ARG_WEIGHTS, DNNL_ARG_SRC, DNNL_ARG_DST, 0, DNNL_ARG_SCRATCHPAD},
};
static const int reorder_arguments[SLOTS] = {DNNL_ARG_FROM, DNNL_ARG_TO, 0, 0, DNNL_ARG_SCRATCHPAD};

/* Takes ownership of pd. An empty scratch memory is left out. */
static dt_status build(dt_dnnl_op **out, dnnl_primitive_desc_t pd,
    const dnnl_memory_desc_t *const md[SLOTS], const int arg[SLOTS], dt_err *err)
{
    dnnl_status_t s = dnnl_success;
    dt_dnnl_op *op = dt_alloc(1, sizeof *op);
    if (op == NULL)
        s = dnnl_out_of_memory;
    for (int i = 0; i < SLOTS && s == dnnl_success; i++)
        if (md[i] != NULL && dnnl_memory_desc_get_size(md[i]) > 0) {
            op->arg[i] = arg[i];
            s = dnnl_memory_create(&op->memory[i], md[i], dti_dnnl.engine, DNNL_MEMORY_NONE);
        }
    if (s == dnnl_success)
        s = dnnl_primitive_create(&op->primitive, pd);
    if (s == dnnl_success)
        s = dnnl_stream_create(&op->stream, dti_dnnl.engine, dnnl_stream_default_flags);
    dnnl_primitive_desc_destroy(pd);
    if (s != dnnl_success) {
        dt_dnnl_destroy(op);
        return dti_dnnl_failed(s, "building a primitive", err);
    }
    *out = op;
    return DT_OK;
}

static const dnnl_memory_desc_t *operand(const_dnnl_primitive_desc_t pd, int arg)
{
    return arg == 0 ? NULL : dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
}

static dt_status create_product(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout way, dt_err *err)
{
    const int *arg = product_arguments[way.way];
    const dnnl_memory_desc_t *md[SLOTS];
    dnnl_primitive_desc_t pd;
    DT_CHECK(dti_dnnl_pd(p, way, &pd, err));
    for (int i = 0; i < SLOTS; i++)
        md[i] = operand(pd, arg[i]);
    return build(out, pd, md, arg, err);
}

dt_status dt_dnnl_create(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout way, dt_err *err)
{
    dti_dnnl_memories d;
    dnnl_primitive_desc_t pd;
    *out = NULL;
    DT_ASSERT(way.way < DT_DNNL_PLAIN);
    if (dti_dnnl_by_product(p, way.way))
        return create_product(out, p, way, err);
    DT_CHECK(dti_dnnl_descs(p, way, &d, err));
    DT_CHECK(dti_dnnl_pd(p, way, &pd, err));
    const bool bias = p->bias && way.way != DT_DNNL_DATA;
    const dnnl_memory_desc_t *const md[SLOTS] = {&d.x, &d.y, dti_dnnl_weight_of(pd, way.way),
        bias ? &d.bias : NULL, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)};
    return build(out, pd, md, arguments[way.way], err);
}

dt_status dti_dnnl_create_reorder(
    dt_dnnl_op **out, const dt_dnnl_problem *p, dt_dnnl_layout from, dt_dnnl_layout to, dt_err *err)
{
    dnnl_memory_desc_t md[2];
    dnnl_primitive_desc_t pd;
    *out = NULL;
    DT_CHECK(dti_dnnl_reorder_pd(p, from, to, md, &pd, err));
    const dnnl_memory_desc_t *const all[SLOTS] = {
        &md[0], &md[1], NULL, NULL, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)};
    return build(out, pd, all, reorder_arguments, err);
}

/* The rows of one side: a part of the weight, or a small weight by itself. The library takes a
 * memory that begins at an offset for an empty one, so the bytes before it are skipped here. */
static dt_status rows_desc(const dt_dnnl_problem *p, dt_dnnl_layout layout, int64_t first,
    int64_t n, dnnl_memory_desc_t *d, size_t *skip, dt_err *err)
{
    const dnnl_dims_t dims = {n, p->c}, at = {first, 0};
    dnnl_memory_desc_t whole;
    *skip = 0;
    if (layout.way == DT_DNNL_PLAIN) {
        DT_ONEDNN_TRY(err, dnnl_memory_desc_init_by_tag(d, 2, dims, dnnl_f32, dnnl_ab));
        return DT_OK;
    }
    DT_CHECK(dti_dnnl_layout(p, layout, &whole, err));
    DT_ONEDNN_TRY(err, dnnl_memory_desc_init_submemory(d, &whole, dims, at));
    *skip = (size_t)d->offset0 * sizeof(float);
    d->offset0 = 0;
    return DT_OK;
}

dt_status dti_dnnl_create_reorder_rows(dt_dnnl_op **out, const dt_dnnl_problem *p,
    dt_dnnl_layout from, dt_dnnl_layout to, int64_t first, int64_t n, dt_err *err)
{
    dnnl_memory_desc_t md[2];
    dnnl_primitive_desc_t pd;
    size_t skip[2];
    *out = NULL;
    DT_ASSERT(p->fc && (from.way == DT_DNNL_PLAIN) != (to.way == DT_DNNL_PLAIN));
    DT_CHECK(dti_dnnl_ready(err));
    DT_CHECK(rows_desc(p, from, first, n, &md[0], &skip[0], err));
    DT_CHECK(rows_desc(p, to, first, n, &md[1], &skip[1], err));
    DT_ONEDNN_TRY(err, dnnl_reorder_primitive_desc_create(
                           &pd, &md[0], dti_dnnl.engine, &md[1], dti_dnnl.engine, dti_dnnl.attr));
    const dnnl_memory_desc_t *const all[SLOTS] = {&md[0], &md[1]};
    if (dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)) >
        0) {
        dnnl_primitive_desc_destroy(pd);
        return DT_FAIL(err, DT_E_DEVICE, "oneDNN wants scratch memory to reorder rows");
    }
    DT_CHECK(build(out, pd, all, reorder_arguments, err));
    memcpy((*out)->skip, skip, sizeof skip);
    return DT_OK;
}

void dt_dnnl_destroy(dt_dnnl_op *op)
{
    if (op == NULL)
        return;
    for (int i = 0; i < SLOTS; i++)
        if (op->memory[i] != NULL)
            dnnl_memory_destroy(op->memory[i]);
    if (op->primitive != NULL)
        dnnl_primitive_destroy(op->primitive);
    if (op->stream != NULL)
        dnnl_stream_destroy(op->stream);
    dt_free(op);
}

dt_status dt_dnnl_run(dt_dnnl_op *op, const dt_dnnl_bytes *b, dt_err *err)
{
    DT_ASSERT(b->x != NULL && b->y != NULL);
    void *const bytes[SLOTS] = {
        (char *)b->x + op->skip[0], (char *)b->y + op->skip[1], b->weight, b->bias, b->work};
    dnnl_exec_arg_t args[SLOTS];
    int n = 0;
    for (int i = 0; i < SLOTS; i++) {
        if (op->memory[i] == NULL)
            continue;
        DT_ASSERT(bytes[i] != NULL);
        /* Setting a handle also clears the padding behind it, so it is done when it changes. */
        if (op->bound[i] != bytes[i])
            DT_ONEDNN_TRY(err, dnnl_memory_set_data_handle(op->memory[i], bytes[i]));
        op->bound[i] = bytes[i];
        args[n++] = (dnnl_exec_arg_t){op->arg[i], op->memory[i]};
    }
    DT_ONEDNN_TRY(err, dnnl_primitive_execute(op->primitive, op->stream, n, args));
    DT_ONEDNN_TRY(err, dnnl_stream_wait(op->stream));
    return DT_OK;
}

static bool has(dnnl_cpu_isa_t wanted)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return ((unsigned)isa & (unsigned)wanted) == (unsigned)wanted;
}

bool dt_onednn_avx512(void)
{
    return has(dnnl_cpu_isa_avx512_core);
}

bool dt_onednn_bf16(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
}

const char *dt_onednn_isa(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } known[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"}, {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx2, "avx2"}, {dnnl_cpu_isa_avx, "avx"}, {dnnl_cpu_isa_sse41, "sse41"}};
    for (size_t i = 0; i < DT_COUNT(known); i++)
        if (has(known[i].isa))
            return known[i].name;
    return "plain";
}

dt_status dt_onednn_limit(dt_isa isa, dt_err *err)
{
    static const dnnl_cpu_isa_t most[] = {[DT_ISA_PLAIN] = dnnl_cpu_isa_sse41,
        [DT_ISA_AVX2] = dnnl_cpu_isa_avx2,
        [DT_ISA_AVX512] = dnnl_cpu_isa_avx512_core,
        [DT_ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [DT_ISA_AMX] = dnnl_cpu_isa_all};
    if (dnnl_set_max_cpu_isa(most[isa]) != dnnl_success)
        return DT_FAIL(err, DT_E_CONFIG,
            "oneDNN takes no limit of instruction sets: it was used before, or built without");
    return DT_OK;
}

static char version[48];

static void write_version(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, sizeof version, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

const char *dt_onednn_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_version);
    return version;
}
