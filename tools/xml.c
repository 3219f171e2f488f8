/* Text inside SVG and HTML. */
#include "tools/xml.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/text.h"

static const char *escape_of(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

static bool is_control(char c)
{
    return ((unsigned char)c < ' ' && c != '\n' && c != '\t') || c == 0x7f;
}

/* Bytes beyond the first of a character. */
static bool goes_on(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* U+FFFE and U+FFFF, which are UTF-8 and not XML: a strict viewer shows nothing of a file that has
 * them. */
static bool is_no_character(const char *c)
{
    return strncmp(c, "\xef\xbf\xbe", 3) == 0 || strncmp(c, "\xef\xbf\xbf", 3) == 0;
}

void dti_xml_cut(FILE *f, const char *text, size_t most)
{
    const size_t n = strlen(text);
    size_t bad = dt_utf8_bad(text, n), shown = 0, characters = 0;
    for (size_t i = 0; i < n; i++)
        characters += !goes_on(text[i]);
    for (size_t i = 0; i < n; i++) {
        const bool is_bad = i == bad;
        if (is_bad)
            bad = i + 1 + dt_utf8_bad(text + i + 1, n - i - 1);
        if (is_bad || !goes_on(text[i])) {
            if (characters > most && shown + 1 >= most) {
                fputs("\xe2\x80\xa6", f);
                return;
            }
            shown++;
        }
        const char *as = escape_of(text[i]);
        const bool is_none = is_no_character(text + i);
        if (as != NULL)
            fputs(as, f);
        else
            putc(is_bad || is_none || is_control(text[i]) ? '?' : text[i], f);
        i += is_none ? 2 : 0;
    }
}

void dti_xml_text(FILE *f, const char *text)
{
    dti_xml_cut(f, text, SIZE_MAX);
}
