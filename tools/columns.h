/* Tables of which as many columns are shown as there is room for on the terminal. */
#ifndef DT_TOOLS_COLUMNS_H
#define DT_TOOLS_COLUMNS_H

#include <stddef.h>

#include "session/human.h"

/**
 * struct dti_table_column - one of them, right-aligned.
 * @width: of its cells, a blank before them not counted
 * @rank:  those of the lowest stay when there is no room for all; below 0: not in this table
 * @means: what the title stands for, for the legend; NULL: it says so itself
 * @shown: as dti_columns_fit has decided
 */
typedef struct dti_table_column {
    const char *title;
    int width, rank;
    const char *means;
    bool shown;
} dti_table_column;

/* Show what there is room for beside @used columns of the terminal. */
void dti_columns_fit(dti_table_column *column, size_t n, int used);
/* Titles, and the end of the line. */
void dti_columns_head(const dti_table_column *column, size_t n);
/* One cell, if its column is shown. */
void dti_column(const dti_table_column *c, const char *text);
/* What the columns that are shown mean, behind what is said @before that, which may be "". */
void dti_columns_legend(const dti_table_column *column, size_t n, const char *before);
/* A line that names the columns for which there was no room beside @used columns of the terminal;
 * none if there was. */
void dti_columns_left_out(const dti_table_column *column, size_t n, int used);

/* Bytes as dt_human_bytes has them; "-" for none. */
const char *dti_column_bytes(char to[DT_HUMAN_BYTES], uint64_t bytes);

/* A name, left-aligned in @width behind @before characters; a longer one has a line of its own. */
void dti_column_name(const char *name, int before, int width);

/* A name, left-aligned in @width; of a longer one ".." stands for what is before its end, as the
 * end of a path tells more, and behind a short first part: "g." and "m0." say of what it is. */
void dti_column_end_of(const char *name, int width);

#endif
