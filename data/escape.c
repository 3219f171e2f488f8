/* File names as text for one line of a message. */
#include "data/escape.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"

enum { PIECE_BYTES = 8, HALF = (DTI_ESCAPED_BYTES - 4) / 2 };

/* Writes one character of the name and returns how many bytes of it were used. */
static size_t piece(char out[PIECE_BYTES], const unsigned char *s)
{
    static const char plain[] = "\n\t\r\\\"", letters[] = "ntr\\\"";
    const char *special = strchr(plain, *s);
    const size_t n = dt_printable((const char *)s);
    if (special != NULL) {
        snprintf(out, PIECE_BYTES, "\\%c", letters[special - plain]);
        return 1;
    }
    if (n == 0) {
        snprintf(out, PIECE_BYTES, "\\x%02X", (unsigned)*s);
        return 1;
    }
    memcpy(out, s, n);
    out[n] = '\0';
    return n;
}

/* Escape from @s for as long as whole pieces fit into @space bytes; returns the rest of the name.
 */
static const unsigned char *fill(char *out, size_t space, const unsigned char *s)
{
    size_t at = 0;
    char p[PIECE_BYTES];
    while (*s != '\0') {
        const size_t used = piece(p, s), n = strlen(p);
        if (at + n > space)
            break;
        memcpy(out + at, p, n);
        at += n;
        s += used;
    }
    out[at] = '\0';
    return s;
}

static bool continues(const unsigned char *s)
{
    return (*s & 0xC0) == 0x80;
}

dti_escaped dti_escape(const char *name)
{
    dti_escaped e;
    const unsigned char *s = (const unsigned char *)name;
    if (*fill(e.text, DTI_ESCAPED_BYTES - 1, s) == '\0')
        return e;
    const unsigned char *rest = fill(e.text, HALF, s), *tail = rest;
    char last[HALF + 1];
    /* The tail is the longest end of the name that fits; its start is found by moving it on. */
    if (strlen((const char *)rest) > HALF)
        tail = rest + strlen((const char *)rest) - HALF;
    while (continues(tail) || *fill(last, HALF, tail) != '\0')
        tail++;
    char *end = e.text + strlen(e.text);
    memcpy(end, "...", 3);
    memcpy(end + 3, last, strlen(last) + 1);
    return e;
}
