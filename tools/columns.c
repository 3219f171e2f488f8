/* Tables as wide as the terminal, on stdout. */
#include "tools/columns.h"

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

void dti_columns_left_out(const dti_table_column *column, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        if (!column[i].shown && column[i].rank >= 0) {
            printf("%s %s", any ? "," : "no room for:", column[i].title);
            any = true;
        }
    if (any)
        printf("; with COLUMNS=100 there is\n");
}

const char *dti_column_bytes(char to[DT_HUMAN_BYTES], uint64_t bytes)
{
    if (bytes > 0)
        return dt_human_bytes(to, bytes);
    snprintf(to, DT_HUMAN_BYTES, "-");
    return to;
}

void dti_column_name(const char *name, int before, int width)
{
    if ((int)strlen(name) > width)
        printf("%s\n%*s", name, before + width, "");
    else
        printf("%-*s", width, name);
}
