/* The curve of live bytes, as a picture of blocks. */
#include <inttypes.h>
#include <string.h>

#include "tools/plan_report.h"
#include "tools/term.h"

enum { ROWS = 8, LEFT = 12, MOST_COLUMNS = 96 };
static const double mib = 1 << 20;

/* The instants a column shows: from its share of them, at least one. */
static void span(const dt_usage *u, int column, int columns, size_t *from, size_t *to)
{
    *from = u->n_instant * (size_t)column / (size_t)columns;
    *to = u->n_instant * ((size_t)column + 1) / (size_t)columns;
    if (*to == *from)
        *to = *from + 1;
}

static int eighths(double bytes, double peak)
{
    const double x = peak > 0 ? bytes / peak * ROWS * 8 + 0.5 : 0;
    return x > ROWS * 8 ? ROWS * 8 : (int)x;
}

/* How high each column is, in eighths of a row: the most that is alive in it, so that no peak is
 * lost between two. */
static void heights(const dt_report *r, int columns, int *to)
{
    for (int x = 0; x < columns; x++) {
        size_t from, end;
        uint64_t most = 0;
        span(&r->usage, x, columns, &from, &end);
        for (size_t i = from; i < end; i++)
            most = r->usage.instant[i].bytes > most ? r->usage.instant[i].bytes : most;
        to[x] = eighths((double)most, (double)r->need.device);
    }
}

/* One row of cells, without blanks at its end. */
static void cells(const int *height, int columns, int row, int base)
{
    int end = 0;
    for (int x = 0; x < columns; x++)
        end = height[x] > row * 8 ? x + 1 : end;
    for (int x = 0; x < end; x++) {
        const int fill = height[x] - row * 8;
        fputs(dt_term_cell(fill < 0 ? 0 : fill > 8 ? 8 : fill, row * 8 + 8 <= base), stdout);
    }
    putchar('\n');
}

/* The instant of the first backward op; n_instant without one. */
static size_t turn(const dt_report *r)
{
    const dt_plan *p = r->top->plan;
    size_t i = 0;
    for (; i < r->usage.n_instant; i++) {
        const dt_row *row = &p->row[r->usage.instant[i].row];
        if (row->kind == DT_ROW_COMPUTE && p->op[row->op].kind == DT_OP_BACKWARD)
            break;
    }
    return i;
}

static void put_at(char *line, int columns, int at, const char *text)
{
    const int n = (int)strlen(text);
    at = at > columns - n ? columns - n : at;
    if (at >= 0)
        memcpy(line + at, text, (size_t)n);
}

static void print_marks(const char *line, int columns)
{
    while (columns > 0 && line[columns - 1] == ' ')
        columns--;
    printf("%*s%.*s\n", LEFT, "", columns, line);
}

/* Below the curve: where backward begins, and where the peak is. */
static void marks(const dt_report *r, int columns)
{
    char line[MOST_COLUMNS];
    const dt_usage *u = &r->usage;
    const size_t n = u->n_instant, back = turn(r);
    const int peak = (int)(u->peak * (size_t)columns / n);
    memset(line, ' ', sizeof line);
    put_at(line, columns, 0, r->top->kind == DT_PROGRAM_UPDATE ? "update" : "forward");
    if (back < n)
        put_at(line, columns, (int)(back * (size_t)columns / n), "| backward");
    print_marks(line, columns);
    memset(line, ' ', sizeof line);
    if (peak <= columns - 6)
        put_at(line, columns, peak, "^ peak");
    else
        put_at(line, columns, peak - 5, "peak ^");
    print_marks(line, columns);
}

static int persistent_eighths(const dt_report *r)
{
    return eighths((double)r->top->plan->persistent, (double)r->need.device);
}

bool dt_report_curve_shows_base(const dt_report *r)
{
    return persistent_eighths(r) >= 8;
}

void dt_report_curve(const dt_report *r, int columns)
{
    const size_t n = r->usage.n_instant;
    int height[MOST_COLUMNS];
    columns = columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
    if (n == 0)
        return;
    if (n < (size_t)columns) /* few ops: all equally wide */
        columns = columns / (int)n * (int)n;
    heights(r, columns, height);
    const int base = persistent_eighths(r);
    for (int row = ROWS - 1; row >= 0; row--) {
        if (row == ROWS - 1 || row == 0)
            printf("%9.1f %s ", row == 0 ? 0.0 : (double)r->need.device / mib,
                dt_term_unicode() ? "┤" : "|");
        else
            printf("%9s %s ", "", dt_term_unicode() ? "│" : "|");
        cells(height, columns, row, base);
    }
    marks(r, columns);
}
