/* What the library was built from and with. CMake gives DT_VERSION, the project's. */
#include "session/version.h"

#include <dnntrain.h>

#include "engine/device.h"
#include "layers/onednn/onednn.h"
#include "memory/codec.h"
#include "memory/remat/remat.h"
#include "memory/tiers/uring.h"

#ifdef DT_GIT_ID
#include <git_id.h>
#else /* compiled by itself, to be looked at */
#define DT_GIT ""
#define DT_VERSION ""
#endif

const char *dt_version(void)
{
    return DT_VERSION;
}

dt_build dt_build_facts(void)
{
    return (dt_build){.version = DT_VERSION,
        .git = DT_GIT,
        .library = dt_onednn_version(),
        .io_uring = dt_uring_built(),
        .solver = dt_solver_name() != NULL,
        .lz4 = dt_codec_wants("lz4") == NULL,
        .cuda = dt_device_built(DT_CUDA)};
}
