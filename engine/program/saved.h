/* What a node's backward keeps of forward's values where it may choose: a value, or a bit for each.
 */
#ifndef DT_ENGINE_PROGRAM_SAVED_H
#define DT_ENGINE_PROGRAM_SAVED_H

#include "engine/graph.h"

/* The alternative with which a layer's backward reads no value of X or Y; -1: there is none. */
int dt_value_free(const dt_layer_desc *d);

/* The one with which it finds no sign in such a value, which it may read; -1: there is none. */
int dt_sign_free(const dt_layer_desc *d);

/* By node, the one whose value tells the sign of its own: itself, or the one that alone reads it
 * and keeps the sign, so that this value need not be kept beside that. */
void dti_find_signs(const dt_graph *g, int32_t *sign);

/* Set the alternative of each node whose backward alone would read its value, which another one's
 * holds as well, and can do without: of a ReLU before a concatenation the mask, a bit a value.
 * @sign: as found;
 * @alt: by node, 0. DT_E_NOMEM. */
dt_status dti_choose_masks(
    const dt_graph *g, const int32_t *sign, uint8_t *alt, dt_err *err) DT_NODISCARD;

#endif
