#include "tests/gpu_check.h"

#include <stdlib.h>
#include <string.h>

bool dt_gpu_there(void)
{
    dt_err why = {0};
    const char *asked = getenv("DT_GPU");
    if (dt_device_built(DT_CUDA) && dt_device_answers(DT_CUDA, &why))
        return true;
    if (asked != NULL && strcmp(asked, "required") == 0)
        fail_msg("DT_GPU=required: %s", why.n > 0 ? why.text : "built without CUDA");
    return false;
}
