/* Convolutions of the library's whose samples are cut into parts, each computed by one thread.
 *
 * Left to itself the library shares a convolution out among all threads in equal halves and waits
 * for the last, which on a machine that does other work is often not running. Parts are taken by
 * whoever runs (engine/base/team.h). Forward and backward-data write parts of y or dx. The gradient
 * of the weight is that of the first part, to which those of the others are added in order, so its
 * bits do not depend on who computed which; they do on how many parts there are, which is a fact of
 * the shape and of the size of the team, as the library's own cuts are.
 *
 * Where the samples cannot be cut evenly, or the weight is large, it is the library's own threads.
 */
#ifndef DT_LAYERS_CPU_SAMPLE_PARTS_H
#define DT_LAYERS_CPU_SAMPLE_PARTS_H

#include "layers/onednn/onednn.h"

/* What the direction's primitive is made for, whole or as a part. */
dt_dnnl_layout dti_sample_parts_layout(const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t n);

/* Bytes of scratch for all of it; @part: facts of that layout. */
size_t dti_sample_parts_work(
    const dt_dnnl_problem *p, dt_dnnl_kind kind, int64_t n, const dt_dnnl_facts *part);

typedef struct dti_sample_parts dti_sample_parts;

/* NULL, and DT_OK, where it is not cut. */
dt_status dti_sample_parts_create(dti_sample_parts **out, const dt_dnnl_problem *p,
    dt_dnnl_kind kind, int64_t n, dt_err *err) DT_NODISCARD;
void dti_sample_parts_destroy(dti_sample_parts *s);
dt_status dti_sample_parts_run(
    dti_sample_parts *s, const dt_dnnl_bytes *bytes, dt_err *err) DT_NODISCARD;

#endif
