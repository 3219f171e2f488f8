/* The classes of a picture's pixels as a file. */
#ifndef DT_TOOLS_MASK_H
#define DT_TOOLS_MASK_H

#include "session/run.h"

enum { DTI_MASK_CLASSES = 256, DTI_MASK_PATH = 4096 };

/* Where the mask of @picture goes: FOLDER/NAME.png. DT_E_IO when that is too long, DT_E_CONFIG when
 * something is there: neither a mask nor the picture itself is written over. */
dt_status dti_mask_path(
    char to[DTI_MASK_PATH], const char *folder, const char *picture, dt_err *err) DT_NODISCARD;

/* Whether the masks of both are called so. */
bool dti_mask_alike(const char *picture, const char *other);

/* PNG (ISO/IEC 15948) with a palette: a pixel's number is its class, and the colours are those of
 * the masks of Pascal VOC (Everingham et al. 2010), in which class 0 is black. Classes are below
 * DTI_MASK_CLASSES. DT_E_IO, DT_E_NOMEM. */
dt_status dti_mask_write(const char *path, const dt_mask *m, dt_err *err) DT_NODISCARD;

#endif
