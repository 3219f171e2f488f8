/* What differs between oneDNN's versions 2 and 3, in the words of 3; read by onednn.c alone.
 *
 * A description of a memory is a struct in version 2 and a handle in version 3. Here it has an
 * owner, who gives it back, and readers. The functions that make one leave nothing to be given back
 * where they fail, and one may be given back twice, and when it was never made if it is all zero.
 */
#ifndef DT_LAYERS_ONEDNN_VERSION_H
#define DT_LAYERS_ONEDNN_VERSION_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if DNNL_VERSION_MAJOR < 2 || DNNL_VERSION_MAJOR > 3
#error "written for oneDNN 2 and 3"
#endif

typedef struct dti_desc {
    dnnl_memory_desc_t d;
} dti_desc;

/* DTI_ROWS: the least multiple of the outputs that a layout of an inner product's weight may keep
 * together: 16, 32 and 64; in version 3 also 48. */
#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *dti_read_desc;
enum { DTI_ROWS = 64 };
#else
typedef const_dnnl_memory_desc_t dti_read_desc;
enum { DTI_ROWS = 192 };
#endif

dti_read_desc dti_desc_read(const dti_desc *d);
void dti_desc_free(dti_desc *d);
dnnl_status_t dti_desc_copy(dti_desc *out, dti_read_desc from);
dnnl_status_t dti_desc_by_tag(
    dti_desc *out, int rank, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag);
/* Of fp32, [in / DTI_PANEL][out][DTI_PANEL]: the weight of a 1 x 1 kernel in columns of input
 * channels, whose width divides @in. */
enum { DTI_PANEL = 64 };
dnnl_status_t dti_desc_panels(dti_desc *out, int64_t outputs, int64_t in);
/* Of the rows of @whole, fp32, from @first on; @skip: bytes of it that lie before what is
 * described. */
dnnl_status_t dti_desc_rows(
    dti_desc *out, dti_read_desc whole, int64_t first, int64_t n, int64_t columns, size_t *skip);
/* Whether it is of no bytes: there is nothing to be handed over. */
bool dti_desc_empty(dti_read_desc d);
/* A layout in blocks: the inner ones, @n, and the dimension that each is of, the innermost one
 * last; borrowed from a description. */
typedef struct dti_blocks {
    int rank, n;
    const int64_t *dims, *strides, *blocks, *block_of;
    int64_t offset;
} dti_blocks;
/* False: it lies otherwise, or is of another type. */
bool dti_desc_blocks(dti_read_desc d, dnnl_data_type_t type, dti_blocks *to);
/* The columns n of a weight of bf16 that lies as [out / n][height][width][in / 32][16][n][2]: pairs
 * of inputs, as a product of pairs wants its second factor. 0: it lies otherwise. */
int64_t dti_desc_pairs(dti_read_desc d);

/* Whether a weight of bf16 and of one tap lies as [out][in]. */
bool dti_desc_plain_rows(dti_read_desc d);
/* Equal numbers, equal descriptions. */
uint64_t dti_desc_number(dti_read_desc d);

/* The operands of a direction; a gradient has the description of what it is the gradient of.
 * @bias: NULL without one
 * @stride and so on: of a convolution; NULL in an inner product
 * @without: no implementation of a convolution in whose name this stands; NULL: any */
typedef struct dti_operands {
    dti_read_desc x, weight, bias, y;
    const int64_t *stride, *dilation, *pad;
    const char *without;
} dti_operands;

typedef enum dti_direction { DTI_FORWARD, DTI_DATA, DTI_WEIGHTS } dti_direction;

/* A direction's primitive description, of a convolution or of an inner product.
 * @hint: that of forward; NULL there */
dnnl_status_t dti_pd_direction(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
    dti_direction direction, const dti_operands *of, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr);
/* c = a b. */
dnnl_status_t dti_pd_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dti_read_desc a,
    dti_read_desc b, dti_read_desc c, const_dnnl_primitive_attr_t attr);

/* A result is added to what is there. */
dnnl_status_t dti_post_ops_add(dnnl_post_ops_t ops);

/* All that the processor has, as a limit. */
extern const dnnl_cpu_isa_t dti_isa_all;

#endif
