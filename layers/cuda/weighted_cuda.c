/* What plans for the card are made for. */
#include "layers/cuda/weighted_cuda.h"

/* Read by threads that plan while another may set them. */
static _Atomic(const dt_card *) card;
static _Atomic bool tf32;

void dt_cuda_plan_for(const dt_card *c)
{
    card = c;
}

const dt_card *dti_cuda_planned_for(void)
{
    return card;
}

void dt_cuda_allow_tf32(bool yes)
{
    tf32 = yes;
}

bool dti_cuda_tf32(void)
{
    return tf32;
}
