/* Tables as wide as the terminal, on stdout. */
#include "tools/columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/terminal.h"

/* The lowest rank that is above @last; -1: there is none. */
static int next_rank(const dti_table_column *column, size_t n, int last)
{
    int rank = -1;
    for (size_t i = 0; i < n; i++)
        if (column[i].rank > last && (rank < 0 || column[i].rank < rank))
            rank = column[i].rank;
    return rank;
}

void dti_columns_fit(dti_table_column *column, size_t n, int used)
{
    const int width = dti_term_width();
    for (int rank = next_rank(column, n, -1); rank >= 0; rank = next_rank(column, n, rank))
        for (size_t i = 0; i < n; i++) {
            if (column[i].rank != rank)
                continue;
            column[i].shown = used + 1 + column[i].width <= width;
            used += column[i].shown ? 1 + column[i].width : width; /* none of a higher rank */
        }
}

void dti_column(const dti_table_column *c, const char *text)
{
    if (c->shown)
        printf(" %*s", c->width, text);
}

void dti_columns_head(const dti_table_column *column, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dti_column(&column[i], column[i].title);
    putchar('\n');
}

enum { LEGEND = 512 };

static void DT_PRINTF(2, 3) put(char to[LEGEND], const char *fmt, ...)
{
    const size_t at = strlen(to);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(to + at, LEGEND - at, fmt, ap);
    va_end(ap);
}

void dti_columns_legend(const dti_table_column *column, size_t n, const char *before)
{
    char text[LEGEND] = "";
    put(text, "%s", before);
    for (size_t i = 0; i < n; i++)
        if (column[i].shown && column[i].means != NULL)
            put(text, "%s%s: %s", text[0] != '\0' ? "; " : "", column[i].title, column[i].means);
    if (text[0] != '\0')
        dti_term_wrap(stdout, 0, 2, text);
}

static bool is_hidden(const dti_table_column *c)
{
    return !c->shown && c->rank >= 0;
}

/* What the widest table would show of those that are hidden: "it" or "them" if all; "more"; "". */
static const char *shown_wider(const dti_table_column *column, size_t n, int used)
{
    const dti_table_column *next = NULL;
    int hidden = 0, width = 0;
    for (size_t i = 0; i < n; i++) {
        const dti_table_column *c = &column[i];
        used += c->shown ? 1 + c->width : 0;
        if (!is_hidden(c))
            continue;
        hidden++;
        width += 1 + c->width;
        next = next == NULL || c->rank < next->rank ? c : next;
    }
    if (next == NULL || used + 1 + next->width > DTI_TERM_WIDEST)
        return "";
    return used + width > DTI_TERM_WIDEST ? "more" : hidden > 1 ? "them" : "it";
}

void dti_columns_left_out(const dti_table_column *column, size_t n, int used)
{
    char text[LEGEND] = "";
    const char *more = shown_wider(column, n, used);
    for (size_t i = 0; i < n; i++)
        if (is_hidden(&column[i]))
            put(text, "%s%s",
                text[0] != '\0' ? ", " : "hidden for lack of width: ", column[i].title);
    if (text[0] == '\0')
        return;
    if (more[0] != '\0' && dti_terminal_of(stdout).tty)
        put(text, " (a terminal of %d columns shows %s)", DTI_TERM_WIDEST, more);
    else if (more[0] != '\0')
        put(text, " (COLUMNS=%d shows %s)", DTI_TERM_WIDEST, more);
    dti_term_wrap(stdout, 0, 2, text);
}

const char *dti_column_bytes(char to[DT_HUMAN_BYTES], uint64_t bytes)
{
    if (bytes > 0)
        return dt_human_bytes(to, bytes);
    snprintf(to, DT_HUMAN_BYTES, "-");
    return to;
}

void dti_column_end_of(const char *name, int width)
{
    enum { SHORT = 3 };
    const int n = (int)strlen(name), part = (int)strcspn(name, ".");
    const int kept = part < SHORT ? part + 1 : 0;
    if (n > width)
        printf("%.*s..%s", kept, name, name + n - width + kept + 2);
    else
        printf("%-*s", width, name);
}

void dti_column_name(const char *name, int before, int width)
{
    if ((int)strlen(name) > width)
        printf("%s\n%*s", name, before + width, "");
    else
        printf("%-*s", width, name);
}
