/* The rules by which an engine is allowed. */
#include "layers/cudnn/cudnn_choose.h"

const char *dti_cudnn_refusal(const dt_cudnn_candidate *c, const dt_cudnn_rules *r)
{
    if (c->engine < 0)
        return "nothing is known of it";
    if (c->notes & DT_CUDNN_NONDETERMINISTIC)
        return "other bits every time";
    if (c->notes & (DT_CUDNN_DOWN_CONVERT | DT_CUDNN_REDUCED_SUMS))
        return "computes with fewer bits";
    if (c->notes & (DT_CUDNN_WINOGRAD_4 | DT_CUDNN_WINOGRAD_6 | DT_CUDNN_WINOGRAD_13))
        return "Winograd's method on large tiles loses digits";
    if (!r->bf16 && !r->tf32 && (c->notes & DT_CUDNN_TENSOR_CORE))
        return "rounds fp32 to TF32";
    if (c->behaviours & (DT_CUDNN_INT8_FILTER | DT_CUDNN_INT8_BIAS))
        return "wants another layout";
    if (!r->compiled && (c->behaviours & DT_CUDNN_RUNTIME_COMPILED))
        return "has to be compiled";
    if (c->tried && c->ready && c->work_bytes > r->work_bytes)
        return "wants too much scratch";
    return NULL;
}

bool dti_cudnn_is_algorithm(
    const dt_cudnn_candidate *c, const dt_cudnn_candidate *last, const dt_cudnn_rules *r)
{
    return c->tried && c->ready && dti_cudnn_refusal(c, r) == NULL &&
           (last == NULL || c->work_bytes < last->work_bytes);
}
