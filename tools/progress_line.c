/* The line of a run as text, as wide as the terminal. */
#include "tools/progress_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "session/human.h"

/* Parts of the line that may go, the most important first: a narrow line loses the highest bit. */
enum part {
    SMOOTHED = 1,  /* before all: else the last step's loss below contradicts the line */
    WORD = 1 << 1, /* "epoch " */
    RATE = 1 << 2, /* "12.1 img/s", tok/s or row/s */
    BAR = 1 << 3,
    RATE_OF_LEARNING = 1 << 4,
    DATA = 1 << 5, /* "data 1%" */
    ALL = (1 << 6) - 1
};

enum { BAR_LEAST = 6, BAR_MOST = 30 };
static const char smoothed[] = " (smoothed)";

/* The values of a line as text. */
typedef struct texts {
    char epoch[48], at[48], loss[DT_HUMAN_BYTES], lr[DT_HUMAN_BYTES], rate[DT_HUMAN_BYTES + 8],
        data[DT_HUMAN_BYTES], left[DT_HUMAN_BYTES];
} texts;

static void write_values(texts *t, const dti_line *l)
{
    char rate[DT_HUMAN_BYTES];
    t->epoch[0] = '\0';
    if (l->epochs > 0)
        snprintf(t->epoch, sizeof t->epoch, "%" PRId64 "/%" PRId64 " ", l->epoch, l->epochs);
    snprintf(t->at, sizeof t->at, "%" PRId64 "/%" PRId64, l->at, l->of);
    dt_human_number(t->loss, l->loss);
    snprintf(t->lr, sizeof t->lr, "%.4g", l->lr);
    snprintf(t->rate, sizeof t->rate, "%s %s/s", dt_human_rate(rate, l->rate), l->unit);
    snprintf(t->data, sizeof t->data, "%.0f%%", 100 * l->wait);
    dt_human_time(t->left, l->left);
}

static void DT_PRINTF(3, 4) put(char to[DTI_LINE], size_t *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(to + *at, DTI_LINE - *at, fmt, ap);
    va_end(ap);
    *at = n >= 0 && *at + (size_t)n < DTI_LINE ? *at + (size_t)n : DTI_LINE - 1;
}

static void put_bar(char to[DTI_LINE], size_t *at, const dti_line *l, int width)
{
    const int full = l->of > 0 ? (int)((double)l->at / (double)l->of * width + 1e-9) : 0;
    put(to, at, "[");
    for (int i = 0; i < width; i++)
        put(to, at, "%s", i < full ? "#" : "-");
    put(to, at, "] ");
}

/* @bar: columns of the bar without its brackets; 0: none. */
static size_t compose(const dti_line *l, const texts *t, unsigned parts, int bar, char to[DTI_LINE])
{
    size_t at = 0;
    to[0] = '\0';
    put(to, &at, "%s%s", (parts & WORD) == 0 ? "" : l->epochs > 0 ? "epoch " : "step ", t->epoch);
    if (bar > 0)
        put_bar(to, &at, l, bar);
    put(to, &at, "%s  loss %s", t->at, t->loss);
    if ((parts & SMOOTHED) != 0 && l->smoothed)
        put(to, &at, "%s", smoothed);
    if ((parts & RATE_OF_LEARNING) != 0)
        put(to, &at, "  lr %s", t->lr);
    if ((parts & RATE) != 0)
        put(to, &at, "  %s", t->rate);
    if ((parts & DATA) != 0)
        put(to, &at, "  data %s", t->data);
    put(to, &at, "  left %s", t->left);
    return at;
}

size_t dti_line_plain(const dti_line *l, char to[DTI_LINE])
{
    texts t;
    write_values(&t, l);
    return compose(l, &t, ALL, 0, to);
}

/* ---- the same parts from step to step ---- */

static void reserve(int *width, const char *text)
{
    const int n = (int)strlen(text);
    *width = n > *width ? n : *width;
}

/* What counts up is as long as what it counts to; other values have been as long before, or are
 * likely to be. */
static void reserve_all(dti_line_widths *w, const texts *t)
{
    reserve(&w->epoch, t->epoch);
    reserve(&w->at, t->at);
    reserve(&w->loss, "0.09876");
    reserve(&w->loss, t->loss);
    reserve(&w->lr, "0.01234");
    reserve(&w->lr, t->lr);
    reserve(&w->rate, t->rate);
    reserve(&w->data, "99%");
    reserve(&w->data, t->data);
    reserve(&w->left, t->left);
}

/* Columns of these parts without the bar, however short the values are now. */
static int columns(const dti_line *l, const dti_line_widths *w, unsigned parts)
{
    static const texts none;
    char ignored[DTI_LINE];
    dti_line widest = *l;
    widest.smoothed = true;
    int n = (int)compose(&widest, &none, parts, 0, ignored) + w->epoch + w->at + w->loss + w->left;
    n += (parts & RATE_OF_LEARNING) != 0 ? w->lr : 0;
    n += (parts & RATE) != 0 ? w->rate : 0;
    return n + ((parts & DATA) != 0 ? w->data : 0);
}

size_t dti_line_fit(dti_line_widths *w, const dti_line *l, int width, char to[DTI_LINE])
{
    const int room = width > 1 ? width - 1 : 0; /* a full last column would wrap */
    texts t, last;
    dti_line end = *l;
    unsigned parts = ALL;
    end.at = l->of;
    end.epoch = l->epochs;
    write_values(&t, l);
    write_values(&last, &end);
    reserve_all(w, &t);
    reserve_all(w, &last);
    while (parts != 0 && columns(l, w, parts) + ((parts & BAR) != 0 ? BAR_LEAST + 3 : 0) > room)
        parts >>= 1;
    const int spare = room - columns(l, w, parts) - 3;
    size_t n = compose(l, &t, parts,
        (parts & BAR) == 0 ? 0
        : spare < BAR_MOST ? spare
                           : BAR_MOST,
        to);
    if (n > (size_t)room)
        to[n = (size_t)room] = '\0';
    return n;
}
