/* Boxes and lanes of a plan's picture, as SVG. */
#include "tools/plan_map_box.h"

#include <inttypes.h>
#include <string.h>

/* An attribute, without zeros at its end. */
static void number(FILE *f, const char *name, double v, int digits)
{
    char text[40];
    int n = snprintf(text, sizeof text, "%.*f", digits, v);
    while (n > 1 && text[n - 1] == '0' && memchr(text, '.', (size_t)n) != NULL)
        n--;
    if (text[n - 1] == '.')
        n--;
    fprintf(f, " %s=\"%.*s\"", name, n, text);
}

/* Of a letter of several bytes, an arrow, the first has all of it. */
static double letter_wide(char c)
{
    if ((c & 0x80) != 0)
        return (c & 0x40) != 0 ? 9 : 0;
    return strchr(".,'ijl|", c) != NULL      ? 3.5
           : strchr("frt-", c) != NULL       ? 4.5
           : strchr("cksvxyz", c) != NULL    ? 6.4
           : strchr("0123456789", c) != NULL ? 7
                                             : 6.8;
}

double dti_map_wide(const char *name, size_t n)
{
    double wide = 0;
    for (size_t i = 0; i < n; i++)
        wide += letter_wide(name[i]);
    return wide;
}

bool dti_map_begin(
    FILE *f, bool page, const char *class, double x, double y, double w, double h, int64_t i)
{
    const int digits = page ? 2 : 1; /* as it is enlarged there */
    fprintf(f, "<rect");
    if (class != NULL)
        fprintf(f, " class=\"%s\"", class);
    number(f, "x", x, digits);
    number(f, "y", y, digits);
    number(f, "width", w < 0.2 ? 0.2 : w, digits);
    number(f, "height", h < 0.2 ? 0.2 : h, digits);
    if (page)
        fprintf(f, " data-i=\"%" PRId64 "\"/>\n", i);
    else
        fprintf(f, "><title>");
    return !page;
}

void dti_map_end(FILE *f)
{
    fputs("</title></rect>\n", f);
}

void dti_map_lane_name(const dt_plan *p, int stream, FILE *f)
{
    const dt_stream *s = &p->stream[stream];
    if (s->kind == DT_STREAM_COMPUTE)
        fprintf(f, "%s", s->tier == DT_TIER_HOST ? "ops, host" : "ops");
    else
        fprintf(f, "%s %s", s->kind == DT_STREAM_OUT ? "to" : "from", dt_tier_name(s->tier));
}

void dti_map_lane(FILE *f, bool page, double y, double tall)
{
    const int wide = DTI_MAP_WIDTH - DTI_MAP_LEFT - DTI_MAP_RIGHT;
    fprintf(f,
        "<svg x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" viewBox=\"%d %.1f %d %.1f\">"
        "<g class=\"%s\">\n",
        DTI_MAP_LEFT, y, wide, tall, DTI_MAP_LEFT, page ? 0 : y, wide, tall,
        page ? "zoom lane" : "zoom");
}

void dti_map_lane_end(FILE *f)
{
    fputs("</g></svg>\n", f);
}

bool dti_map_begin_in_lane(
    FILE *f, bool page, double x, double y, double w, int64_t i, const char *more)
{
    fputs("<rect", f);
    number(f, "x", x, page ? 2 : 1);
    number(f, "width", w, page ? 2 : 1);
    if (!page) {
        number(f, "y", y, 1);
        fprintf(f, " height=\"%d\"><title>", DTI_MAP_LANE);
    } else {
        if (i >= 0)
            fprintf(f, " data-i=\"%" PRId64 "\"", i);
        fprintf(f, "%s/>\n", more);
    }
    return !page;
}
