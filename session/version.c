/* What the library was built from and with. */
#include "session/version.h"

#include <dnntrain.h>

#include "engine/device.h"
#include "layers/onednn/onednn.h"
#include "memory/remat/remat.h"
#include "memory/tiers/uring.h"

#ifdef DT_GIT_ID
#include <git_id.h>
#else
#define DT_GIT ""
#endif

dt_build dt_build_facts(void)
{
    return (dt_build){.version = DT_VERSION,
        .git = DT_GIT,
        .library = dt_onednn_version(),
        .io_uring = dt_uring_built(),
        .solver = dt_solver_name() != NULL,
        .cuda = dt_device_built(DT_CUDA)};
}
