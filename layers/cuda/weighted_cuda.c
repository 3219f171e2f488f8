/* What plans for the card are made for, and weights turned on the host. */
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

void dti_cuda_transpose(const float *from, float *to, int64_t n, int64_t a, int64_t b)
{
#pragma omp parallel for collapse(2)
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < b; j++)
            for (int64_t i = 0; i < a; i++)
                to[(k * b + j) * a + i] = from[(k * a + i) * b + j];
}
