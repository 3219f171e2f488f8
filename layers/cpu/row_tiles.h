/* The gradient of an inner product's weight, added to the one that is there: some rows of it at a
 * time are made whole in scratch by the library, which cannot add by itself, and then added. So the
 * second gradient is a tile and not a weight. */
#ifndef DT_LAYERS_CPU_ROW_TILES_H
#define DT_LAYERS_CPU_ROW_TILES_H

#include "layers/onednn/onednn.h"

/* The most samples at which a tile has the bits of the whole: so many are one block of the
 * library's sums. Several blocks it may share out among threads that rows do not keep busy, and
 * add up what they make (2.6.3). */
enum { DTI_ROW_TILES_MOST = 64 };

/* Whether there is more than one tile, and rows of the weight, which lives as @home, can be added
 * to by themselves. */
bool dti_row_tiles_can(const dt_dnnl_problem *p, int64_t n, dt_dnnl_layout home);

/* The rest is for what can. Bytes of scratch, and the library's name of what runs. */
dt_status dti_row_tiles_ask(
    const dt_dnnl_problem *p, int64_t n, dt_dnnl_facts *f, dt_err *err) DT_NODISCARD;

typedef struct dti_row_tiles dti_row_tiles;
dt_status dti_row_tiles_create(dti_row_tiles **out, const dt_dnnl_problem *p, int64_t n,
    dt_dnnl_layout home, dt_err *err) DT_NODISCARD;
void dti_row_tiles_destroy(dti_row_tiles *t);

/* Bytes as of dt_dnnl_run. The weight's gradient is added; the bias's where @add_bias, else
 * written.
 */
dt_status dti_row_tiles_run(
    dti_row_tiles *t, const dt_dnnl_bytes *b, bool add_bias, dt_err *err) DT_NODISCARD;

#endif
