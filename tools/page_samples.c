/* Pictures in a page, as BMP files (Microsoft's format of Windows 3) in base64 (RFC 4648). */
#include <string.h>

#include "tools/page_run.h"

enum {
    HEADER = 54,
    ROW_BYTES = 4 * DT_SAMPLE_SIDE,
    BMP_BYTES = HEADER + ROW_BYTES * DT_SAMPLE_SIDE
};
_Static_assert(3 * DT_SAMPLE_SIDE <= ROW_BYTES, "a row and its padding");

static void put_number(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> 8 * i);
}

/* Rows from below, of blue, green and red, each to a multiple of four bytes; how many bytes. */
static size_t bmp(const dt_sample *s, uint8_t to[BMP_BYTES])
{
    const size_t row = ((size_t)s->w * 3 + 3) / 4 * 4, bytes = HEADER + row * (size_t)s->h;
    memset(to, 0, bytes);
    memcpy(to, "BM", 2);
    put_number(to + 2, (uint32_t)bytes);
    put_number(to + 10, HEADER);
    put_number(to + 14, 40); /* of the second header, from here on */
    put_number(to + 18, (uint32_t)s->w);
    put_number(to + 22, (uint32_t)s->h);
    to[26] = 1;
    to[28] = 24;
    put_number(to + 34, (uint32_t)(bytes - HEADER));
    for (int y = 0; y < s->h; y++)
        for (int x = 0; x < s->w; x++)
            for (int c = 0; c < 3; c++)
                to[HEADER + row * (size_t)(s->h - 1 - y) + (size_t)(3 * x + c)] =
                    s->rgb[(y * s->w + x) * 3 + 2 - c];
    return bytes;
}

static void base64(FILE *f, const uint8_t *v, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t three = (uint32_t)v[i] << 16 | (uint32_t)(i + 1 < n ? v[i + 1] : 0) << 8 |
                               (i + 2 < n ? v[i + 2] : 0);
        putc(digit[three >> 18], f);
        putc(digit[three >> 12 & 63], f);
        putc(i + 1 < n ? digit[three >> 6 & 63] : '=', f);
        putc(i + 2 < n ? digit[three & 63] : '=', f);
    }
}

static void put_class(const dti_page *p, const dt_run *r, int32_t label)
{
    if (label < 0) { /* it does not count */
        fputs("no class", p->f);
        return;
    }
    const char *name = dt_run_class(r, label);
    if (name != NULL)
        dti_xml_text(p->f, name);
    else
        fprintf(p->f, "class %d", (int)label);
}

static void one(const dti_page *p, const dt_run *r, const dt_sample *s)
{
    uint8_t file[BMP_BYTES];
    const bool right = s->n_guess > 0 && s->guess[0] == s->label;
    fprintf(p->f, "<figure%s><img alt=\"", right || s->label < 0 ? "" : " class=\"wrong\"");
    put_class(p, r, s->label);
    fputs("\" src=\"data:image/bmp;base64,", p->f);
    base64(p->f, file, bmp(s, file));
    fputs("\"><figcaption>", p->f);
    put_class(p, r, s->label);
    for (int k = 0; k < s->n_guess; k++) {
        fprintf(p->f, "<br><span>%s", k > 0 ? "" : right ? "right" : "taken for ");
        if (k > 0 || !right)
            put_class(p, r, s->guess[k]);
        fprintf(p->f, ", %.0f&#8239;%%</span>", 100 * s->share[k]);
    }
    fputs("</figcaption></figure>\n", p->f);
}

void dti_page_samples(const dti_page *p, const dt_run *r, const dt_sample *v, size_t n)
{
    if (n == 0)
        return;
    dti_page_section(p, "samples", "What it makes of pictures it has not learned from");
    fputs("<div class=\"samples\">\n", p->f);
    for (size_t i = 0; i < n; i++)
        one(p, r, &v[i]);
    fputs("</div>\n<p class=\"hint\">What each is, and the likeliest classes by the network; a "
          "dashed "
          "frame where it is wrong.</p>\n",
        p->f);
    dti_page_section_end(p);
}
