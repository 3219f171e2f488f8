/* What the optimizers share: how a parameter's gradient is taken. */
#ifndef DT_LAYERS_UPDATE_H
#define DT_LAYERS_UPDATE_H

#include "engine/kernels.h"

/* Factor of the gradients: 1, which changes no bit, unless they are clipped. */
static inline float dt_update_scale(const dt_hyper *h)
{
    return h->clipped ? h->clip : 1.0f;
}

static inline float dt_update_decay(const dt_call *c, const dt_hyper *h)
{
    return c->vector && h->no_decay ? 0.0f : h->weight_decay;
}

#endif
