/* Checks of text that came from outside. */
#ifndef DT_ENGINE_TEXT_H
#define DT_ENGINE_TEXT_H

#include "engine/compiler.h"

/* Offset of the first byte that is not part of valid UTF-8 (RFC 3629: no overlong forms, no
 * surrogates, nothing past U+10FFFF), or n. */
size_t dt_utf8_bad(const char *text, size_t n);

#endif
