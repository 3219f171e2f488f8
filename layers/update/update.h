/* What the optimizers do to one element, on any device. */
#ifndef DT_LAYERS_UPDATE_UPDATE_H
#define DT_LAYERS_UPDATE_UPDATE_H

#include <math.h>
#include <string.h>

#include "engine/kernels.h"
#include "layers/cpu/tasks.h"

/* How a parameter learns. @scale: of the gradient, 1, which changes no bit, unless gradients are
 * clipped. @decay: share of the weight added to it. @lr: by its own rate. */
typedef struct dti_gradient {
    float scale, decay;
    double lr;
} dti_gradient;

DT_INLINE dti_gradient dti_gradient_of(const dt_hyper *h, bool vector, float rate)
{
    dti_gradient g;
    g.scale = h->clipped ? h->clip : 1.0f;
    g.decay = vector && h->no_decay ? 0.0f : h->weight_decay;
    g.lr = dt_call_rate(h->lr, rate);
    return g;
}

DT_INLINE float dti_gradient_at(dti_gradient g, float dw, float w)
{
    return dw * g.scale + g.decay * w;
}

/* Numbers of a step of SGD. */
typedef struct dti_sgd {
    dti_gradient g;
    float lr, momentum;
    bool nesterov;
} dti_sgd;

DT_INLINE dti_sgd dti_sgd_of(const dt_hyper *h, bool vector, float rate)
{
    dti_sgd k;
    k.g = dti_gradient_of(h, vector, rate);
    k.lr = (float)k.g.lr;
    k.momentum = h->momentum;
    k.nesterov = h->nesterov;
    return k;
}

/* Moves the weight, without momentum. */
DT_INLINE void dti_sgd_plain_at(const dti_sgd *k, float dw, float *w)
{
    *w -= k->lr * dti_gradient_at(k->g, dw, *w);
}

/* Moves weight and momentum. Nesterov's step is one further along the momentum. */
DT_INLINE void dti_sgd_at(const dti_sgd *k, float dw, float *w, float *m)
{
    const float g = dti_gradient_at(k->g, dw, *w);
    *m = k->momentum * *m + g;
    *w -= k->lr * (k->nesterov ? g + k->momentum * *m : *m);
}

/* Numbers of a step of Adam. */
typedef struct dti_adam {
    dti_gradient g;
    double correction;              /* of the first moment */
    float keep1, keep2, new1, new2; /* of the moments and of the gradient in them */
    float shrink, rate, over, eps;  /* of the weight; lr / correction; 1 / sqrt(correction2) */
} dti_adam;

/* Those that are the same for all parameters. */
DT_INLINE dti_adam dti_adam_of(const dt_hyper *h)
{
    dti_adam k;
    memset(&k, 0, sizeof k);
    k.correction = h->correction1;
    k.keep1 = (float)h->beta1;
    k.keep2 = (float)h->beta2;
    k.new1 = (float)(1 - h->beta1);
    k.new2 = (float)(1 - h->beta2);
    k.over = (float)(1 / sqrt(h->correction2));
    k.eps = h->eps;
    return k;
}

/* With those of one. @decoupled: decay shrinks the weight, and is not added to the gradient. */
DT_INLINE dti_adam dti_adam_for(dti_adam k, dti_gradient g, bool decoupled)
{
    k.g = g;
    k.shrink = decoupled ? (float)(1 - g.lr * (double)g.decay) : 1.0f;
    k.g.decay = decoupled ? 0.0f : g.decay;
    k.rate = (float)(g.lr / k.correction);
    return k;
}

/* Moves weight and moments. */
DT_INLINE void dti_adam_at(const dti_adam *k, float dw, float *w, float *m, float *v)
{
    const float g = dti_gradient_at(k->g, dw, *w);
    *m = k->keep1 * *m + k->new1 * g;
    *v = k->keep2 * *v + k->new2 * (g * g);
    *w = k->shrink * *w - k->rate * *m / (sqrtf(*v) * k->over + k->eps);
}

/* Numbers of a step of Lion. */
typedef struct dti_lion {
    dti_gradient g;
    float keep1, keep2, new1, new2; /* of the moment and of the gradient: in the step, and kept */
    float shrink, lr;               /* of the weight; the length of the step */
} dti_lion;

DT_INLINE dti_lion dti_lion_of(const dt_hyper *h, bool vector, float rate)
{
    dti_lion k;
    k.g = dti_gradient_of(h, vector, rate);
    k.shrink = (float)(1 - k.g.lr * (double)k.g.decay);
    k.g.decay = 0.0f;
    k.keep1 = (float)h->beta1;
    k.keep2 = (float)h->beta2;
    k.new1 = (float)(1 - h->beta1);
    k.new2 = (float)(1 - h->beta2);
    k.lr = (float)k.g.lr;
    return k;
}

/* Moves weight and moment. A NaN has no sign, and stays one. */
DT_INLINE void dti_lion_at(const dti_lion *k, float dw, float *w, float *m)
{
    const float g = dti_gradient_at(k->g, dw, *w);
    const float mean = k->keep1 * *m + k->new1 * g;
    const float sign = mean > 0.0f ? 1.0f : mean < 0.0f ? -1.0f : mean;
    *w = k->shrink * *w - k->lr * sign;
    *m = k->keep2 * *m + k->new2 * g;
}

#endif
