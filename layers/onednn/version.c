/* oneDNN 2 and 3 behind the same functions. */
#include "layers/onednn/version.h"

#include <string.h>

#include "engine/base/mix.h"

/* Its columns, if it has no padding but in its last columns and is one of pairs:
 * [16 inputs][columns][2], or the same where the sixteen are no block of their own. */
static int64_t columns_of(dti_blocks d)
{
    enum { PAIRS = 16, STEP = 2 * PAIRS };
    if (d.n != 2 && d.n != 3)
        return 0;
    const int64_t *pair = d.blocks + d.n - 2, *pair_of = d.block_of + d.n - 2;
    const int64_t columns = pair[0], wide = d.dims[1] * columns;
    const int64_t inputs = d.n == 3 ? STEP : 2; /* of a block */
    if (d.n == 3 && (d.blocks[0] != PAIRS || d.block_of[0] != 1))
        return 0;
    if (pair_of[0] != 0 || pair[1] != 2 || pair_of[1] != 1 || d.dims[1] % STEP != 0)
        return 0;
    return d.strides[1] == inputs * columns && d.strides[3] == wide &&
                   d.strides[2] == d.dims[3] * wide && d.strides[0] == d.dims[2] * d.dims[3] * wide
               ? columns
               : 0;
}

static bool is_left_out(const_dnnl_primitive_desc_t pd, const char *without)
{
    const char *name = "";
    if (without == NULL)
        return false;
    (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return strstr(name, without) != NULL;
}

#if DNNL_VERSION_MAJOR == 2

const dnnl_cpu_isa_t dti_isa_all = dnnl_cpu_isa_all;

dti_read_desc dti_desc_read(const dti_desc *d)
{
    return &d->d;
}

void dti_desc_free(dti_desc *d)
{
    *d = (dti_desc){0};
}

dnnl_status_t dti_desc_copy(dti_desc *out, dti_read_desc from)
{
    out->d = *from;
    return dnnl_success;
}

dnnl_status_t dti_desc_by_tag(
    dti_desc *out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&out->d, rank, dims, type, tag);
}

/* No tag names these. */
dnnl_status_t dti_desc_panels(dti_desc *out, int64_t outputs, int64_t in)
{
    const dnnl_dims_t dims = {outputs, in, 1, 1};
    const dnnl_status_t s = dti_desc_by_tag(out, 4, dims, dnnl_f32, dnnl_abcd);
    dnnl_blocking_desc_t *b = &out->d.format_desc.blocking;
    b->strides[0] = b->strides[2] = b->strides[3] = DTI_PANEL;
    b->strides[1] = DTI_PANEL * outputs;
    b->inner_nblks = 1;
    b->inner_blks[0] = DTI_PANEL;
    b->inner_idxs[0] = 1;
    return s;
}

/* The library takes a memory that begins at an offset for an empty one. */
dnnl_status_t dti_desc_rows(
    dti_desc *out, dti_read_desc whole, int64_t first, int64_t n, int64_t columns, size_t *skip)
{
    const dnnl_dims_t dims = {n, columns}, at = {first, 0};
    const dnnl_status_t s = dnnl_memory_desc_init_submemory(&out->d, whole, dims, at);
    *skip = (size_t)out->d.offset0 * sizeof(float);
    out->d.offset0 = 0;
    return s;
}

bool dti_desc_empty(dti_read_desc d)
{
    return dnnl_memory_desc_get_size(d) == 0;
}

bool dti_desc_blocks(dti_read_desc d, dnnl_data_type_t type, dti_blocks *to)
{
    const dnnl_blocking_desc_t *b = &d->format_desc.blocking;
    *to = (dti_blocks){
        d->ndims, b->inner_nblks, d->dims, b->strides, b->inner_blks, b->inner_idxs, d->offset0};
    return d->format_kind == dnnl_blocked && d->data_type == type && d->extra.flags == 0;
}

uint64_t dti_desc_number(dti_read_desc d)
{
    return dt_fnv_add(DT_FNV, d, sizeof *d);
}

/* The first implementation in the library's order that is not left out. */
static dnnl_status_t first(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    const dnnl_convolution_desc_t *op, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr, const char *without)
{
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_status_t s = dnnl_primitive_desc_iterator_create(&it, op, attr, engine, hint);
    *pd = NULL;
    while (s == dnnl_success && *pd == NULL) {
        *pd = dnnl_primitive_desc_iterator_fetch(it);
        if (*pd == NULL)
            s = dnnl_out_of_memory;
        else if (is_left_out(*pd, without)) {
            dnnl_primitive_desc_destroy(*pd);
            *pd = NULL;
            s = dnnl_primitive_desc_iterator_next(it);
        }
    }
    if (it != NULL)
        dnnl_primitive_desc_iterator_destroy(it);
    return s;
}

static dnnl_status_t convolution(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    dti_direction direction, const dti_operands *of, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t s;
    if (direction == DTI_FORWARD)
        s = dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_training,
            dnnl_convolution_direct, of->x, of->weight, of->bias, of->y, of->stride, of->dilation,
            of->pad, of->pad);
    else if (direction == DTI_DATA)
        s = dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, of->x,
            of->weight, of->y, of->stride, of->dilation, of->pad, of->pad);
    else
        s = dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, of->x,
            of->weight, of->bias, of->y, of->stride, of->dilation, of->pad, of->pad);
    return s == dnnl_success ? first(pd, engine, &op, hint, attr, of->without) : s;
}

dnnl_status_t dti_pd_direction(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    dti_direction direction, const dti_operands *of, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    dnnl_status_t s;
    if (of->stride != NULL)
        return convolution(pd, engine, direction, of, hint, attr);
    if (direction == DTI_FORWARD)
        s = dnnl_inner_product_forward_desc_init(
            &op, dnnl_forward_training, of->x, of->weight, of->bias, of->y);
    else if (direction == DTI_DATA)
        s = dnnl_inner_product_backward_data_desc_init(&op, of->x, of->weight, of->y);
    else
        s = dnnl_inner_product_backward_weights_desc_init(&op, of->x, of->weight, of->bias, of->y);
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &op, attr, engine, hint) : s;
}

dnnl_status_t dti_pd_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dti_read_desc a,
    dti_read_desc b, dti_read_desc c, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t op;
    const dnnl_status_t s = dnnl_matmul_desc_init(&op, a, b, NULL, c);
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &op, attr, engine, NULL) : s;
}

dnnl_status_t dti_post_ops_add(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0F);
}

#else

const dnnl_cpu_isa_t dti_isa_all = dnnl_cpu_isa_default;

dti_read_desc dti_desc_read(const dti_desc *d)
{
    return d->d;
}

void dti_desc_free(dti_desc *d)
{
    if (d->d != NULL)
        dnnl_memory_desc_destroy(d->d);
    d->d = NULL;
}

dnnl_status_t dti_desc_copy(dti_desc *out, dti_read_desc from)
{
    out->d = NULL;
    return dnnl_memory_desc_clone(&out->d, from);
}

dnnl_status_t dti_desc_by_tag(
    dti_desc *out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    out->d = NULL;
    return dnnl_memory_desc_create_with_tag(&out->d, rank, dims, type, tag);
}

dnnl_status_t dti_desc_panels(dti_desc *out, int64_t outputs, int64_t in)
{
    const dnnl_dims_t dims = {outputs, in, 1, 1};
    return dti_desc_by_tag(out, 4, dims, dnnl_f32, dnnl_Bcda64b);
}

dnnl_status_t dti_desc_rows(
    dti_desc *out, dti_read_desc whole, int64_t first, int64_t n, int64_t columns, size_t *skip)
{
    const dnnl_dims_t dims = {n, columns}, at = {first, 0};
    *skip = 0; /* the description says itself where it begins */
    out->d = NULL;
    return dnnl_memory_desc_create_submemory(&out->d, whole, dims, at);
}

/* A query of one number, or of a list of them. */
static int64_t number_of(dti_read_desc d, dnnl_query_t what)
{
    int64_t n = 0;
    return dnnl_memory_desc_query(d, what, &n) == dnnl_success ? n : -1;
}

/* The library gives no size to what begins at an offset. */
bool dti_desc_empty(dti_read_desc d)
{
    return dnnl_memory_desc_get_size(d) == 0 && number_of(d, dnnl_query_submemory_offset_s64) <= 0;
}

static int count_of(dti_read_desc d, dnnl_query_t what)
{
    int n = 0;
    return dnnl_memory_desc_query(d, what, &n) == dnnl_success ? n : -1;
}

static uint64_t mixed(uint64_t h, int64_t value)
{
    return dt_fnv_add(h, &value, sizeof value);
}

static uint64_t mixed_list(uint64_t h, dti_read_desc d, dnnl_query_t what, int n)
{
    const dnnl_dims_t *list = NULL;
    if (dnnl_memory_desc_query(d, what, &list) != dnnl_success || list == NULL)
        return mixed(h, -1);
    for (int i = 0; i < n; i++)
        h = mixed(h, (*list)[i]);
    return h;
}

static const int64_t *list_of(dti_read_desc d, dnnl_query_t what)
{
    const dnnl_dims_t *list = NULL;
    return dnnl_memory_desc_query(d, what, &list) == dnnl_success && list != NULL ? *list : NULL;
}

bool dti_desc_blocks(dti_read_desc d, dnnl_data_type_t type, dti_blocks *to)
{
    *to = (dti_blocks){count_of(d, dnnl_query_ndims_s32), count_of(d, dnnl_query_inner_nblks_s32),
        list_of(d, dnnl_query_dims), list_of(d, dnnl_query_strides),
        list_of(d, dnnl_query_inner_blks), list_of(d, dnnl_query_inner_idxs),
        number_of(d, dnnl_query_submemory_offset_s64)};
    dnnl_data_type_t own = dnnl_data_type_undef;
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    return dnnl_memory_desc_query(d, dnnl_query_data_type, &own) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_format_kind, &kind) == dnnl_success &&
           kind == dnnl_blocked && own == type && to->dims != NULL && to->strides != NULL &&
           (to->n == 0 || (to->blocks != NULL && to->block_of != NULL)) && to->offset >= 0;
}

uint64_t dti_desc_number(dti_read_desc d)
{
    const int rank = count_of(d, dnnl_query_ndims_s32),
              blocks = count_of(d, dnnl_query_inner_nblks_s32);
    dnnl_data_type_t type = dnnl_data_type_undef;
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    uint64_t h = DT_FNV;
    if (dnnl_memory_desc_query(d, dnnl_query_data_type, &type) == dnnl_success)
        h = mixed(h, (int64_t)type);
    if (dnnl_memory_desc_query(d, dnnl_query_format_kind, &kind) == dnnl_success)
        h = mixed(h, (int64_t)kind);
    h = mixed(mixed(h, rank), blocks);
    h = mixed(h, number_of(d, dnnl_query_submemory_offset_s64));
    h = mixed_list(h, d, dnnl_query_dims, rank);
    h = mixed_list(h, d, dnnl_query_padded_dims, rank);
    h = mixed_list(h, d, dnnl_query_strides, rank);
    h = mixed_list(h, d, dnnl_query_inner_blks, blocks);
    return mixed_list(h, d, dnnl_query_inner_idxs, blocks);
}

static dnnl_status_t fastest(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    dti_direction direction, const dti_operands *of, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    if (direction == DTI_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training,
            dnnl_convolution_direct, of->x, of->weight, of->bias, of->y, of->stride, of->dilation,
            of->pad, of->pad, attr);
    if (direction == DTI_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, engine,
            dnnl_convolution_direct, of->x, of->weight, of->y, of->stride, of->dilation, of->pad,
            of->pad, hint, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, engine,
        dnnl_convolution_direct, of->x, of->weight, of->bias, of->y, of->stride, of->dilation,
        of->pad, of->pad, hint, attr);
}

static dnnl_status_t convolution(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    dti_direction direction, const dti_operands *of, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_status_t s = fastest(pd, engine, direction, of, hint, attr);
    if (s != dnnl_success)
        return s;
    while (s == dnnl_success && is_left_out(*pd, of->without))
        s = dnnl_primitive_desc_next_impl(*pd);
    if (s != dnnl_success) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
    }
    return s;
}

dnnl_status_t dti_pd_direction(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    dti_direction direction, const dti_operands *of, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    if (of->stride != NULL)
        return convolution(pd, engine, direction, of, hint, attr);
    if (direction == DTI_FORWARD)
        return dnnl_inner_product_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, of->x, of->weight, of->bias, of->y, attr);
    if (direction == DTI_DATA)
        return dnnl_inner_product_backward_data_primitive_desc_create(
            pd, engine, of->x, of->weight, of->y, hint, attr);
    return dnnl_inner_product_backward_weights_primitive_desc_create(
        pd, engine, of->x, of->weight, of->bias, of->y, hint, attr);
}

dnnl_status_t dti_pd_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dti_read_desc a,
    dti_read_desc b, dti_read_desc c, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, a, b, NULL, c, attr);
}

dnnl_status_t dti_post_ops_add(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0F, 0, dnnl_data_type_undef);
}

#endif

/* Of four dimensions. */
static bool read_bf16(dti_read_desc d, dti_blocks *to)
{
    return dti_desc_blocks(d, dnnl_bf16, to) && to->rank == 4 && to->offset == 0;
}

/* Whether a weight with @out outputs, those that fill its last columns among them, is all there is:
 * nobody says what else the library keeps with it, but its size does. */
static bool is_all(dti_read_desc d, const dti_blocks *b, int64_t out)
{
    return dnnl_memory_desc_get_size(d) == (size_t)(out * b->dims[1] * b->dims[2] * b->dims[3]) * 2;
}

int64_t dti_desc_pairs(dti_read_desc d)
{
    dti_blocks b;
    const int64_t columns = read_bf16(d, &b) ? columns_of(b) : 0;
    if (columns == 0)
        return 0;
    const int64_t out = (b.dims[0] + columns - 1) / columns * columns;
    return is_all(d, &b, out) ? columns : 0;
}

bool dti_desc_plain_rows(dti_read_desc d)
{
    dti_blocks b;
    return read_bf16(d, &b) && b.n == 0 && b.dims[2] * b.dims[3] == 1 && b.strides[1] == 1 &&
           b.strides[0] == b.dims[1] && is_all(d, &b, b.dims[0]);
}
