/* The rules by which an engine is allowed. */
#include "layers/cudnn/cudnn_choose.h"

const char *dti_cudnn_refusal(const dti_cudnn_candidate *c, const dti_cudnn_rules *r)
{
    if (c->engine < 0)
        return "nothing is known of it";
    if (c->notes & DTI_CUDNN_NONDETERMINISTIC)
        return "other bits every time";
    if (c->notes & (DTI_CUDNN_DOWN_CONVERT | DTI_CUDNN_REDUCED_SUMS))
        return "computes with fewer bits";
    if (c->notes & (DTI_CUDNN_WINOGRAD_4 | DTI_CUDNN_WINOGRAD_6 | DTI_CUDNN_WINOGRAD_13))
        return "Winograd's method on large tiles loses digits";
    if (!r->bf16 && !r->tf32 && (c->notes & DTI_CUDNN_TENSOR_CORE))
        return "rounds fp32 to TF32";
    if (c->behaviours & (DTI_CUDNN_INT8_FILTER | DTI_CUDNN_INT8_BIAS))
        return "wants another layout";
    if (!r->compiled && (c->behaviours & DTI_CUDNN_RUNTIME_COMPILED))
        return "has to be compiled";
    if (c->tried && c->ready && c->work_bytes > r->work_bytes)
        return "wants too much scratch";
    return NULL;
}

bool dti_cudnn_is_algorithm(
    const dti_cudnn_candidate *c, const dti_cudnn_candidate *last, const dti_cudnn_rules *r)
{
    return c->tried && c->ready && dti_cudnn_refusal(c, r) == NULL &&
           (last == NULL || c->work_bytes < last->work_bytes);
}
