/* Intervals as text, the format of public collections of hard cases: an optional first line
 * `id,lower,upper,size`, then a line an interval of four integers in decimal. Nothing else: no
 * blanks, comments or empty lines. CRLF is accepted. */
#ifndef DT_MEMORY_POOLS_POOL_FILE_H
#define DT_MEMORY_POOLS_POOL_FILE_H

#include <stdio.h>

#include "memory/pools/pool.h"

enum { DT_POOL_FILE_BYTES = 16 << 20 }; /* that are read unless more are allowed */

/* Read a file of at most max_bytes; align is 1. The caller frees *v with dt_free. DT_E_DATA, with
 * FILE:LINE, when a line is not as above, a number does not fit 64 bits, size is negative or lower
 * is not below upper, or an id is there twice; also when the file cannot be read or is larger. On
 * failure *v is NULL and *n 0. */
dt_status dt_pool_file_read(
    dt_interval **v, size_t *n, const char *path, size_t max_bytes, dt_err *err) DT_NODISCARD;

/* Write what dt_pool_file_read reads; bytes are rounded up to align, which the format has not. */
dt_status dt_pool_file_write(
    const dt_interval *v, size_t n, const char *path, dt_err *err) DT_NODISCARD;
/* The same to a stream, whose own errors are its owner's to see. */
dt_status dt_pool_file_print(const dt_interval *v, size_t n, FILE *f, dt_err *err) DT_NODISCARD;

#endif
