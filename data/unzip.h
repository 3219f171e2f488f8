/* A stream of bytes from memory, plain or gzip. Unlike zlib's gzread it knows that it reads gzip:
 * damage, a cut end and bytes behind the end are errors, and the reader says how much it will take.
 */
#ifndef DT_DATA_UNZIP_H
#define DT_DATA_UNZIP_H

#define ZLIB_CONST /* input is const */
#include <zlib.h>

#include "engine/base/error.h"

/* zlib's memory, for every stream of its. */
voidpf dt_zip_alloc(voidpf self, uInt n, uInt each);
void dt_zip_free(voidpf self, voidpf p);

typedef struct dti_unzip {
    const char *name;
    const uint8_t *p; /* what is left, when plain */
    size_t n;         /* bytes not yet handed to zlib, or left when plain */
    uint64_t given;   /* bytes read so far */
    bool gzip, ended;
    z_stream z;
} dti_unzip;

/* Bytes that begin as gzip does are inflated. @name and @bytes are borrowed. Close it, also after
 * an error. */
dt_status dti_unzip_open(
    dti_unzip *u, const char *name, const uint8_t *bytes, size_t n, dt_err *err) DT_NODISCARD;
void dti_unzip_close(dti_unzip *u);

/* The most bytes that can still come: deflate yields at most 1032 from one. */
uint64_t dti_unzip_most(const dti_unzip *u);

/* Exactly n bytes, or DT_E_DATA. */
dt_status dti_unzip_read(dti_unzip *u, void *to, size_t n, dt_err *err) DT_NODISCARD;

/* DT_E_DATA unless the stream ends here, whole, with its checksum right and nothing behind it. */
dt_status dti_unzip_end(dti_unzip *u, dt_err *err) DT_NODISCARD;

#endif
