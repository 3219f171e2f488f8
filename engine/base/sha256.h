/* SHA-256 (FIPS 180-4), so that what we sum up can be checked with sha256sum. By the instructions
 * of x86-64 processors that have them, which is five times as fast. */
#ifndef DT_ENGINE_BASE_SHA256_H
#define DT_ENGINE_BASE_SHA256_H

#include "engine/base/error.h"

enum { DT_SHA256_TEXT = 65 }; /* 64 hexadecimal digits and a NUL */

typedef struct dt_sha256 {
    uint32_t h[8];
    uint64_t bytes; /* so far */
    uint8_t block[64];
} dt_sha256;

void dt_sha256_init(dt_sha256 *s);
void dt_sha256_add(dt_sha256 *s, const void *bytes, size_t n);
/* A text and its NUL, which ends it where another follows. */
void dt_sha256_add_text(dt_sha256 *s, const char *text);
/* Ends the sum; @s is used up. */
void dt_sha256_text(dt_sha256 *s, char to[DT_SHA256_TEXT]);

/* For tests: whether the processor's instructions are used from now on; false where it has none. */
bool dti_sha256_fast(bool allowed);

/* Of a whole regular file, and its size. @wrong is the status of a file that is missing or none;
 * DT_E_DATA when it shrinks, DT_E_IO, DT_E_NOMEM. */
dt_status dti_sha256_file(const char *path, char to[DT_SHA256_TEXT], uint64_t *bytes,
    dt_status wrong, dt_err *err) DT_NODISCARD;

#endif
