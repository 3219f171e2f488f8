/* The characters of a text as tokens: what the text source reads with, and what turns tokens that a
 * network has made back into text. */
#ifndef DT_DATA_TEXT_H
#define DT_DATA_TEXT_H

#include "engine/base/compiler.h"

/* @byte: of each token, rising; @token: of each byte, -1 for one that does not occur */
typedef struct dt_vocabulary {
    int n;
    uint8_t byte[256];
    int16_t token[256];
} dt_vocabulary;

/* The distinct bytes of a text. */
void dt_vocabulary_of(dt_vocabulary *v, const uint8_t *bytes, size_t n);

#endif
