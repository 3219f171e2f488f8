/* The characters of a text as tokens: what the text source reads with, and what turns tokens that a
 * network has made back into text. */
#ifndef DT_DATA_TEXT_H
#define DT_DATA_TEXT_H

#include "engine/base/error.h"

/* @byte: of each token, rising; @token: of each byte, -1 for one that does not occur */
typedef struct dt_vocabulary {
    int n;
    uint8_t byte[256];
    int16_t token[256];
} dt_vocabulary;

/* The distinct bytes of a text. */
void dt_vocabulary_of(dt_vocabulary *v, const uint8_t *bytes, size_t n);

/* What a byte is called among the names of classes: itself where it is printable ASCII, but \x20
 * and \x5C for a blank and a backslash; else \x and two digits. */
enum { DTI_BYTE_NAME = 5 };
void dti_byte_name(char to[DTI_BYTE_NAME], uint8_t byte);
/* Of @n such names, behind which there may be empty ones. DT_E_DATA where they are no rising bytes.
 */
dt_status dt_vocabulary_named(
    dt_vocabulary *v, const char *const *name, int64_t n, dt_err *err) DT_NODISCARD;

/* Of a file of such names, a line each, as a run writes them down (classes.txt). DT_E_DATA names
 * it.
 */
dt_status dt_vocabulary_read(dt_vocabulary *v, const char *path, dt_err *err) DT_NODISCARD;

#endif
