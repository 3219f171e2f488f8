/* Checks of text that came from outside. */
#ifndef DT_ENGINE_BASE_TEXT_H
#define DT_ENGINE_BASE_TEXT_H

#include "engine/base/compiler.h"

/* Offset of the first byte that is not part of valid UTF-8 (RFC 3629: no overlong forms, no
 * surrogates, nothing past U+10FFFF), or n. */
size_t dt_utf8_bad(const char *text, size_t n);

/* Behind the byte order mark with which some editors begin a text in UTF-8; without one @text. */
const char *dt_behind_mark(const char *text, size_t n);

/* A '?' in place of each such byte. */
void dt_utf8_mend(char *text);

/* Length of the printable UTF-8 character that a NUL-terminated text begins with; 0 for a control
 * character (C1 included), for a byte that is not valid UTF-8, and at the end. */
size_t dt_printable(const char *text);

/* A '?' in place of each byte of a line that begins none of these, and of each newline within it:
 * what strangers have written could speak for the program, or to the terminal. */
void dt_text_clean(char *text);

/* The decimal digits from *at on, before @end, and *at behind the last of them: 0 of none. False
 * when their number is beyond 64 bits. */
bool dt_scan_u64(const char **at, const char *end, uint64_t *out) DT_NODISCARD;

/* A letter of ASCII as a small one; any other byte as it is, whatever the locale: in Turkish an I
 * is no large i. */
static inline char dt_small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether two texts, or their first @n bytes, are the same but for large and small letters of
 * ASCII. */
bool dt_alike(const char *a, const char *b);
bool dt_begin_alike(const char *a, const char *b, size_t n);

/* Whether two texts are the same but for digits, of which each may have any number anywhere. */
bool dt_alike_but_digits(const char *a, const char *b);

bool dt_ends_with(const char *text, const char *end);

/* Whether the whole of @name is matched: * stands for any text, ? for one character. */
bool dt_glob(const char *glob, const char *name);
bool dti_glob_n(const char *glob, size_t n, const char *name); /* by a glob of @n bytes */

/* The next of some globs with commas between them (NULL: none): *n bytes, without the blanks around
 * it. *globs is moved behind it. NULL at the end. */
const char *dt_next_glob(const char **globs, size_t *n);
bool dti_glob_any(const char *globs, const char *name); /* by one of them; NULL: none */

#endif
