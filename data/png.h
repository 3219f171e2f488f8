/* Checks of a PNG that stb_image leaves out: it verifies no checksum, and inflates whatever the
 * data holds. */
#ifndef DT_DATA_PNG_H
#define DT_DATA_PNG_H

#include "engine/base/error.h"

bool dt_png_is(const uint8_t *bytes, size_t n);

/* Every chunk whole and with the right checksum, up to IEND; and the pixel data, where inflating it
 * could take more than 256 MiB, no longer than width and height allow. DT_E_DATA names what is
 * wrong. */
dt_status dt_png_check(const char *name, const uint8_t *bytes, size_t n, dt_err *err) DT_NODISCARD;

#endif
