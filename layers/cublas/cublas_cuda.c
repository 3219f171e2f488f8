/* Inner products by cuBLASLt: a product in its descriptors, answers that are kept, ops, and running
 * them. */
#include "layers/cublas/cublas_cuda.h"

#include <cublasLt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/mix.h"
#include "engine/cuda/cuda.h"
#include "layers/cuda/weighted_cuda.h"

enum { MEMO = 1024, ALIGN = 64 };

/* The library's error in our words. */
static dt_status failed(cublasStatus_t s, const char *call, dt_err *err)
{
    return DT_FAIL(err, s == CUBLAS_STATUS_ALLOC_FAILED ? DT_E_NOMEM : DT_E_DEVICE,
        "cuBLASLt: %s: %s; CUBLASLT_LOG_LEVEL=2 tells more", call, cublasLtGetStatusString(s));
}

/* --- a product in the library's descriptors, and the choice of its algorithm --- */

/* What the library is told, and the first call that failed: after that all others do nothing. To
 * the library matrices are column-major, so that ours are the transposed ones: y' = weight x',
 * dx' = weight' dy', dweight' = x' dy. */
typedef struct product {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, d;
    cublasStatus_t status;
    const char *call;
} product;

static bool passed(product *m, cublasStatus_t s, const char *call)
{
    m->status = s;
    m->call = call;
    return s == CUBLAS_STATUS_SUCCESS;
}

static void product_drop(product *m)
{
    if (m->op != NULL)
        cublasLtMatmulDescDestroy(m->op);
    if (m->a != NULL)
        cublasLtMatrixLayoutDestroy(m->a);
    if (m->b != NULL)
        cublasLtMatrixLayoutDestroy(m->b);
    if (m->d != NULL)
        cublasLtMatrixLayoutDestroy(m->d);
    *m = (product){0};
}

static void product_set(
    product *m, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes)
{
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatmulDescSetAttribute(m->op, name, value, bytes),
            "cublasLtMatmulDescSetAttribute");
}

/* Ours {rows, columns}, a row @pitch values behind the one before. */
static void layout_apart(product *m, cublasLtMatrixLayout_t *l, cudaDataType_t type, int64_t rows,
    int64_t columns, int64_t pitch)
{
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatrixLayoutCreate(l, type, (uint64_t)columns, (uint64_t)rows, pitch),
            "cublasLtMatrixLayoutCreate");
}

static void layout(
    product *m, cublasLtMatrixLayout_t *l, cudaDataType_t type, int64_t rows, int64_t columns)
{
    layout_apart(m, l, type, rows, columns, columns);
}

static void layout_outputs(
    product *m, cublasLtMatrixLayout_t *l, cudaDataType_t type, const dti_cublas_problem *p)
{
    layout_apart(m, l, type, p->rows, p->out, p->pitch > 0 ? p->pitch : p->out);
}

static bool product_adds_bias(const dti_cublas_problem *p)
{
    return p->bias != 0 && p->direction == DTI_CUBLAS_FORWARD;
}

/* @fused: the library is to add the bias itself, if there is one to add. */
static void product_describe(product *m, const dti_cublas_problem *p, bool fused)
{
    const cudaDataType_t type = p->bf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasComputeType_t sums = p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *const bias = (const void *)(uintptr_t)ALIGN; /* stands for one as well aligned */
    *m = (product){0};
    passed(m, cublasLtMatmulDescCreate(&m->op, sums, CUDA_R_32F), "cublasLtMatmulDescCreate");
    if (p->direction == DTI_CUBLAS_FORWARD) {
        product_set(m, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
        layout(m, &m->a, type, p->out, p->in);
        layout(m, &m->b, type, p->rows, p->in);
        layout_outputs(m, &m->d, type, p);
    } else if (p->direction == DTI_CUBLAS_DATA) {
        layout(m, &m->a, type, p->out, p->in);
        layout_outputs(m, &m->b, type, p);
        layout(m, &m->d, p->sums ? CUDA_R_32F : type, p->rows, p->in);
    } else {
        product_set(m, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed);
        layout(m, &m->a, type, p->rows, p->in);
        layout_outputs(m, &m->b, type, p);
        layout(m, &m->d, CUDA_R_32F, p->out, p->in);
    }
    if (!fused || !product_adds_bias(p))
        return;
    product_set(m, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    product_set(m, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static void prefer(product *m, cublasLtMatmulPreference_t to,
    cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t bytes)
{
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatmulPreferenceSetAttribute(to, name, value, bytes),
            "cublasLtMatmulPreferenceSetAttribute");
}

/* Sums in one piece, or in pieces added up afterwards in fp32: the same bits every time. */
static void prefer_all(product *m, cublasLtMatmulPreference_t to)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = DTI_CUBLAS_WORK;
    const uint32_t align = 16,
                   sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(m, to, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    prefer(m, to, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    for (size_t i = 0; i < DT_COUNT(operands); i++)
        prefer(m, to, operands[i], &align, sizeof align);
}

/* The algorithm that the library thinks best, of those with sums in one order. */
static void choose_algorithm(
    product *m, cublasLtHandle_t handle, cublasLtMatmulHeuristicResult_t *best)
{
    cublasLtMatmulPreference_t wishes = NULL;
    int n = 0;
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m, cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    prefer_all(m, wishes);
    if (m->status == CUBLAS_STATUS_SUCCESS)
        passed(m,
            cublasLtMatmulAlgoGetHeuristic(
                handle, m->op, m->a, m->b, m->d, m->d, wishes, 1, best, &n),
            "cublasLtMatmulAlgoGetHeuristic");
    if (m->status == CUBLAS_STATUS_SUCCESS && n == 0)
        passed(m, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    if (m->status == CUBLAS_STATUS_SUCCESS) /* the rest of it counts only if this does */
        passed(m, best->state, "cublasLtMatmulAlgoGetHeuristic");
    if (wishes != NULL)
        cublasLtMatmulPreferenceDestroy(wishes);
}

static uint32_t setting(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t name)
{
    uint32_t value = 0;
    size_t written;
    return cublasLtMatmulAlgoConfigGetAttribute(algo, name, &value, sizeof value, &written) ==
                   CUBLAS_STATUS_SUCCESS
               ? value
               : 0;
}

/* --- answered questions --- */

/* @fused: the library adds the bias; else a kernel of ours does, after it */
typedef struct answer {
    bool used, fused;
    dti_cublas_problem p;
    cublasLtMatmulAlgo_t algo;
    size_t scratch; /* of the algorithm alone */
    dti_cublas_facts facts;
} answer;

_Static_assert(sizeof(dti_cublas_problem) == 9 * 8, "a key has no padding");

/* @started: it was tried to make the handle, with @status; @handle: NULL then: no device answers
 * @memo:    open addressing, forgotten as a whole when it fills up
 * @lock:    of all of it */
struct dti_cublas {
    const dt_card *card;
    bool started;
    cublasLtHandle_t handle;
    cublasStatus_t status;
    pthread_mutex_t lock;
    size_t memo_used;
    answer memo[MEMO];
};

dt_status dti_cublas_open(dti_cublas **out, const dt_card *card, dt_err *err)
{
    dti_cublas *lib = *out = dt_alloc(1, sizeof *lib);
    if (lib == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for what cuBLASLt answers");
    lib->card = card;
    pthread_mutex_init(&lib->lock, NULL);
    return DT_OK;
}

void dti_cublas_close(dti_cublas *lib)
{
    if (lib == NULL)
        return;
    if (lib->handle != NULL)
        (void)cublasLtDestroy(lib->handle);
    pthread_mutex_destroy(&lib->lock);
    dt_free(lib);
}

/* The entry of this problem, or the free one where it belongs. */
static answer *memo_find(dti_cublas *lib, const dti_cublas_problem *p)
{
    for (size_t i = dt_mix_place(p, sizeof *p, MEMO);; i++) {
        answer *e = &lib->memo[i % MEMO];
        if (!e->used || memcmp(&e->p, p, sizeof *p) == 0)
            return e;
    }
}

/* Behind the algorithm's scratch lies the bias in bf16, which the library wants as y is. */
static size_t bias_at(size_t scratch)
{
    return (scratch + ALIGN - 1) / ALIGN * ALIGN;
}

static bool casts_bias(const dti_cublas_problem *p, bool fused)
{
    return fused && product_adds_bias(p) && p->bf16 != 0;
}

/* Bytes for all that is wanted around an algorithm's scratch. */
static size_t work_around(const dti_cublas_problem *p, bool fused, size_t scratch)
{
    return dti_cuda_aligned_bytes(
        casts_bias(p, fused) ? bias_at(scratch) + (size_t)p->out * sizeof(dt_bf16) : scratch);
}

/* What the library would do, and the call that failed otherwise. */
static cublasStatus_t choose(const dti_cublas *lib, const dti_cublas_problem *p, bool fused,
    cublasLtMatmulHeuristicResult_t *best, const char **call)
{
    product m;
    product_describe(&m, p, fused);
    choose_algorithm(&m, lib->handle, best);
    const cublasStatus_t s = m.status;
    *call = m.call;
    product_drop(&m);
    return s;
}

static dt_status find_answer(
    const dti_cublas *lib, const dti_cublas_problem *p, answer *to, dt_err *err)
{
    cublasLtMatmulHeuristicResult_t best = {0};
    const char *call;
    to->fused = true;
    cublasStatus_t s = choose(lib, p, true, &best, &call);
    if (s == CUBLAS_STATUS_NOT_SUPPORTED && product_adds_bias(p)) {
        to->fused = false;
        s = choose(lib, p, false, &best, &call);
    }
    if (s != CUBLAS_STATUS_SUCCESS)
        return DT_FAIL(err, failed(s, call, err),
            "product of %" PRId64 " rows, %" PRId64 " inputs and %" PRId64 " outputs in %s",
            p->rows, p->in, p->out, p->bf16 ? "bf16" : "fp32");
    to->used = true;
    to->p = *p;
    to->algo = best.algo;
    to->scratch = best.workspaceSize;
    to->facts.work_bytes = work_around(p, to->fused, to->scratch);
    snprintf(to->facts.impl, sizeof to->facts.impl,
        "cublaslt %" PRIu32 " tile %" PRIu32 " stages %" PRIu32 " parts %" PRIu32 "%s",
        setting(&best.algo, CUBLASLT_ALGO_CONFIG_ID),
        setting(&best.algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
        setting(&best.algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
        setting(&best.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), to->fused ? "" : " bias");
    return DT_OK;
}

/* The caller holds the lock. */
static dt_status answer_locked(
    dti_cublas *lib, const dti_cublas_problem *p, answer *to, bool *absent, dt_err *err)
{
    if (!lib->started && dt_cuda_answers(NULL) && dt_cuda_enter(NULL) == DT_OK)
        lib->status = cublasLtCreate(&lib->handle);
    lib->started = true;
    if (lib->status != CUBLAS_STATUS_SUCCESS)
        return failed(lib->status, "cublasLtCreate", err);
    *absent = lib->handle == NULL;
    if (*absent)
        return DT_OK;
    answer *e = memo_find(lib, p);
    if (!e->used && lib->memo_used >= MEMO * 3 / 4) {
        memset(lib->memo, 0, sizeof lib->memo);
        lib->memo_used = 0;
        e = memo_find(lib, p);
    }
    if (!e->used) {
        DT_CHECK(find_answer(lib, p, e, err));
        lib->memo_used++;
    }
    *to = *e;
    return DT_OK;
}

/* *absent: no device answers, and *to is as it was. */
static dt_status answer_of(
    dti_cublas *lib, const dti_cublas_problem *p, answer *to, bool *absent, dt_err *err)
{
    *absent = false;
    pthread_mutex_lock(&lib->lock);
    const dt_status st = answer_locked(lib, p, to, absent, err);
    pthread_mutex_unlock(&lib->lock);
    return st;
}

dt_status dti_cublas_ask(
    dti_cublas *lib, const dti_cublas_problem *p, dti_cublas_facts *f, dt_err *err)
{
    answer a;
    bool absent;
    if (lib->card != NULL) {
        *f = (dti_cublas_facts){
            work_around(p, true, DTI_CUBLAS_WORK), "cublaslt, not asked: scratch for any"};
        return DT_OK;
    }
    DT_CHECK(answer_of(lib, p, &a, &absent, err));
    if (absent)
        *f = (dti_cublas_facts){.impl = "cublaslt, not asked: no card"};
    else
        *f = a.facts;
    return DT_OK;
}

/* --- ops --- */

struct dti_cublas_op {
    dti_cublas *lib;
    dti_cublas_problem p;
    product m;
    cublasLtMatmulAlgo_t algo;
    size_t scratch; /* of the algorithm alone */
    bool fused;
};

static dt_status prepare(dti_cublas_op *op, dt_err *err)
{
    answer a;
    bool absent;
    DT_CHECK(answer_of(op->lib, &op->p, &a, &absent, err));
    if (absent)
        return dt_cuda_absent(err);
    op->algo = a.algo;
    op->scratch = a.scratch;
    op->fused = a.fused;
    product_describe(&op->m, &op->p, op->fused);
    return op->m.status == CUBLAS_STATUS_SUCCESS ? DT_OK : failed(op->m.status, op->m.call, err);
}

dt_status dti_cublas_create(
    dti_cublas *lib, dti_cublas_op **out, const dti_cublas_problem *p, dt_err *err)
{
    *out = NULL;
    if (lib->card != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "what is planned for a card by name (%s) is not run here: leave out device.card",
            lib->card->name);
    dti_cublas_op *op = dt_alloc(1, sizeof *op);
    if (op == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a product");
    op->lib = lib;
    op->p = *p;
    const dt_status st = prepare(op, err);
    if (st != DT_OK) {
        dti_cublas_destroy(op);
        return st;
    }
    *out = op;
    return DT_OK;
}

void dti_cublas_destroy(dti_cublas_op *op)
{
    if (op == NULL)
        return;
    product_drop(&op->m);
    dt_free(op);
}

/* The bias where the library wants it. */
static dt_status bind_bias(
    dti_cublas_op *op, void *queue, const dti_cublas_bytes *bytes, dt_err *err)
{
    void *bias = bytes->bias;
    if (casts_bias(&op->p, op->fused)) {
        bias = dti_cuda_scratch(bytes->work) + bias_at(op->scratch);
        DT_CHECK(dti_cuda_to_bf16(queue, bias, bytes->bias, op->p.out, err));
    }
    product_set(&op->m, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    return op->m.status == CUBLAS_STATUS_SUCCESS ? DT_OK : failed(op->m.status, op->m.call, err);
}

dt_status dti_cublas_run(dti_cublas_op *op, void *queue, const dti_cublas_bytes *bytes, dt_err *err)
{
    const float one = 1, zero = 0;
    const bool forward = op->p.direction == DTI_CUBLAS_FORWARD,
               data = op->p.direction == DTI_CUBLAS_DATA;
    const void *a = forward || data ? bytes->weight : bytes->x, *b = forward ? bytes->x : bytes->y;
    void *d = forward ? bytes->y : data ? bytes->x : bytes->weight;
    const product *m = &op->m;
    const bool bias = product_adds_bias(&op->p);
    if (bias && op->fused)
        DT_CHECK(bind_bias(op, queue, bytes, err));
    const cublasStatus_t s =
        cublasLtMatmul(op->lib->handle, m->op, &one, a, m->a, b, m->b, bytes->add ? &one : &zero, d,
            m->d, d, m->d, &op->algo, dti_cuda_scratch(bytes->work), op->scratch, queue);
    if (s != CUBLAS_STATUS_SUCCESS)
        return failed(s, "cublasLtMatmul", err);
    return bias && !op->fused
               ? dti_cuda_add_bias(queue, op->p.bf16 ? DT_BF16 : DT_F32, bytes->y, bytes->bias,
                     op->p.rows, op->p.out, op->p.pitch > 0 ? op->p.pitch : op->p.out, err)
               : DT_OK;
}
