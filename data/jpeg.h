/* Checks of a JPEG before stb_image reads it, which trusts the counts of Huffman tables (a table of
 * more than 256 codes is written past its end) and decodes as many scans as there are. */
#ifndef DT_DATA_JPEG_H
#define DT_DATA_JPEG_H

#include "engine/base/error.h"

enum { DT_JPEG_SCANS = 500 };

/* Walks the segments as the decoder does: each lies in the file, Huffman tables have at most 256
 * codes and lie in their segment, there are at most DT_JPEG_SCANS scans. DT_E_DATA names what is
 * wrong. Whatever else may be wrong the decoder sees. */
dt_status dt_jpeg_check(const char *name, const uint8_t *bytes, size_t n, dt_err *err) DT_NODISCARD;

#endif
