/* What the library was built from and with. */
#include "session/version.h"

#include <dnntrain.h>

#include "engine/device.h"
#include "engine/version.h"
#include "layers/onednn/onednn.h"
#include "memory/codec.h"
#include "memory/remat/remat.h"
#include "memory/tiers/uring.h"

#ifdef DT_GIT_ID
#include <git_id.h>
#else /* compiled by itself, to be looked at */
#define DT_GIT ""
#endif

const char *dt_version(void)
{
    return dt_engine_version;
}

dt_build dt_build_facts(void)
{
    return (dt_build){.version = dt_engine_version,
        .git = DT_GIT,
        .library = dt_onednn_version(),
        .io_uring = dt_uring_built(),
        .solver = dt_solver_name() != NULL,
        .lz4 = dt_codec_wants("lz4") == NULL,
        .cuda = dt_device_built(DT_CUDA)};
}
