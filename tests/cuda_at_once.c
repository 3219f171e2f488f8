/* A launch runs its kernel before it returns. */
#include "tests/cuda_host.h"

void dt_host_launch(void *queue, const dt_host_job *job, const void *given, size_t bytes)
{
    (void)queue, (void)bytes;
    dt_host_run(job, given);
}
