/* The state of a softmax in tiles (layers/loss/softmax_tile.h), as the processor's kernels and the
 * card's keep it: sums as two floats, the greatest scores in order, and what a loss makes of it. */
#ifndef DT_LAYERS_LOSS_SOFTMAX_STATE_H
#define DT_LAYERS_LOSS_SOFTMAX_STATE_H

#include <float.h>

#include "layers/elementwise/curves.h"
#include "layers/loss/softmax_tile.h"

DT_INLINE void dti_state_put_sum(float *to, double sum)
{
    to[0] = (float)sum;
    to[1] = isfinite(sum) ? (float)(sum - (double)to[0]) : 0.0f;
}

DT_INLINE double dti_state_sum(const float *from)
{
    return (double)from[0] + (double)from[1];
}

/* Of no scores. */
DT_INLINE void dti_state_begin(float *s)
{
    for (int k = 0; k < DTI_TILE_STATE; k++)
        s[k] = 0.0f;
    s[DTI_TILE_MOST] = -INFINITY;
    for (int k = 0; k < DTI_TILE_BEST_N; k++) {
        s[DTI_TILE_BEST + k] = -FLT_MAX;
        s[DTI_TILE_CLASS + k] = DTI_TILE_NO_CLASS;
    }
}

/* A score that may be among the best; equal ones that are there already are of lower classes. */
DT_INLINE void dti_state_insert(float *s, float score, float of)
{
    int k = DTI_TILE_BEST_N - 1;
    if (!(score > s[DTI_TILE_BEST + k]))
        return;
    for (; k > 0 &&
           (score > s[DTI_TILE_BEST + k - 1] || s[DTI_TILE_CLASS + k - 1] == DTI_TILE_NO_CLASS);
         k--) {
        s[DTI_TILE_BEST + k] = s[DTI_TILE_BEST + k - 1];
        s[DTI_TILE_CLASS + k] = s[DTI_TILE_CLASS + k - 1];
    }
    s[DTI_TILE_BEST + k] = score;
    s[DTI_TILE_CLASS + k] = of;
}

/* How many classes come before the label, five at most: those of a greater score, or of an equal
 * one and lower. With a NaN anywhere there is no ranking. */
DT_INLINE int dti_state_rank(const float *s, int32_t label)
{
    int before = 0;
    if (isnan(s[DTI_TILE_SUM]))
        return DTI_TILE_BEST_N;
    for (int k = 0; k < DTI_TILE_BEST_N; k++) {
        const float v = s[DTI_TILE_BEST + k], of = s[DTI_TILE_CLASS + k];
        before += of != DTI_TILE_NO_CLASS &&
                  (v > s[DTI_TILE_OWN] || (v == s[DTI_TILE_OWN] && of < (float)label));
    }
    return before;
}

/* The loss of a position, a share of whose label is spread over all classes. */
DT_INLINE double dti_state_loss(const float *s, int64_t classes, float smooth)
{
    const double all = (double)s[DTI_TILE_MOST] + log(dti_state_sum(&s[DTI_TILE_SUM]));
    const double loss = all - (double)s[DTI_TILE_OWN];
    if (smooth == 0)
        return loss; /* not a term with 0 times infinity */
    return (1 - (double)smooth) * loss +
           (double)smooth * (all - dti_state_sum(&s[DTI_TILE_TOTAL]) / (double)classes);
}

#endif
