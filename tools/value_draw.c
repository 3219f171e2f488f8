/* Values over ops: a column an op, or several where there is no room for all. A column shows of its
 * ops what matters most: that the value is made, else read, else that it is on the device. */
#include "tools/value_draw.h"

#include <stdio.h>
#include <string.h>

#include "tools/columns.h"
#include "tools/terminal.h"

enum { MOST = 128 };

static size_t ops_of(const dt_plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_row; i++)
        n += p->row[i].kind == DT_ROW_COMPUTE;
    return n;
}

static size_t columns(size_t ops, int left)
{
    const int room = dti_term_width() - left - 2;
    const size_t most = room < 16 ? 16 : room > MOST ? MOST : (size_t)room;
    return ops < most ? ops : most;
}

static size_t first_backward(const dt_plan *p)
{
    size_t op = 0;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == DT_ROW_COMPUTE) {
            if (p->op[p->row[i].op].kind == DT_OP_BACKWARD)
                return op;
            op++;
        }
    return op;
}

void dti_value_draw_head(const dti_value_view *w, int left)
{
    const size_t ops = ops_of(w->p), n = columns(ops, left), at = first_backward(w->p);
    printf("%*s  ", left, "");
    if (at > 0 && at < ops) {
        const int forward = (int)(at * n / ops); /* columns, perhaps fewer than the word's */
        printf("%-*.*s| backward\n", forward, forward, "forward");
    } else {
        printf("the %zu ops of '%s'\n", ops, w->p->program);
    }
}

void dti_value_draw_legend(int left)
{
    static const char text[] = "  W made  R read  A made again  = on the device  . not there";
    const int most = dti_term_width() - (int)strlen(text);
    printf("%*s%s\n", left < most ? left : most, "", text);
}

/* What an op does with the value: 'W', 'A', 'R'; 0: nothing. */
static char mark_of(const dti_value_view *w, size_t row)
{
    const int mode = dti_value_touches(w, row, w->value[w->tensor]);
    const int kind = mode >= 0 ? dti_value_op(w, row)->kind : DT_OP_KINDS;
    if (mode < 0)
        return 0;
    if (mode == DT_READ)
        return 'R';
    return kind == DT_OP_RECOMPUTE || kind == DT_OP_DECODE ? 'A' : 'W';
}

/* Whether it is on the device from a row on, if it was @before. */
static bool there_after(const dti_value_view *w, const dt_row *r, bool before)
{
    const int32_t value = w->value[w->tensor];
    if (r->kind == DT_ROW_PLACE && w->value[r->tensor] == value)
        return true;
    if (r->kind == DT_ROW_PLACE && r->over >= 0 && w->value[r->over] == value)
        return false;
    return before && !(r->kind == DT_ROW_RELEASE && w->value[r->tensor] == value);
}

void dti_value_draw(const dti_value_view *w, int left)
{
    static const char order[] = " .=RAW"; /* what matters more comes later */
    char line[MOST + 1];
    const size_t ops = ops_of(w->p), n = columns(ops, left);
    bool there = dt_plan_resident(&w->p->tensor[w->tensor]);
    memset(line, ' ', n);
    line[n] = '\0';
    for (size_t i = 0, op = 0; i < w->p->n_row; i++) {
        there = there_after(w, &w->p->row[i], there);
        if (w->p->row[i].kind != DT_ROW_COMPUTE)
            continue;
        const char mark = mark_of(w, i), now = mark != 0 ? mark : there ? '=' : '.';
        char *to = &line[op++ * n / ops];
        if (strchr(order, now) > strchr(order, *to))
            *to = now;
    }
    dti_column_end_of(w->p->tensor[w->tensor].name, left);
    printf("  %s\n", line);
}
