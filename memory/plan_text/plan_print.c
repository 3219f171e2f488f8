/* Plans as text, whole or as people read their rows. */
#include "memory/plan_text/plan_text.h"

#include <inttypes.h>
#include <string.h>

#include "memory/plan_text/plan_text_internal.h"

/* Titles of the columns; the first one makes the line a comment. */
static const char *const titles[DTI_COLUMNS] = {
    "# row", "s", "kind", "op", "tensor", "off", "bytes", "event", "over", "slot", "reason"};

static bool to_the_right(int column)
{
    return column == DTI_ROW || column == DTI_OFF || column == DTI_BYTES;
}

static void print_columns(const char *text[DTI_COLUMNS], const int width[DTI_COLUMNS], FILE *f)
{
    for (int i = 0; i < DTI_REASON; i++)
        fprintf(f, to_the_right(i) ? "%*s " : "%-*s ", width[i], text[i]);
    fprintf(f, "%s\n", text[DTI_REASON]);
}

static void print_rows(const dti_names *n, FILE *f)
{
    int width[DTI_COLUMNS];
    dti_cells c;
    const char *text[DTI_COLUMNS];
    for (int i = 0; i < DTI_COLUMNS; i++)
        width[i] = (int)strlen(titles[i]);
    for (size_t r = 0; r < n->p->n_row; r++) {
        dti_row_cells(n, r, &c);
        for (int i = 0; i < DTI_COLUMNS; i++)
            if (width[i] < (int)strlen(c.text[i]))
                width[i] = (int)strlen(c.text[i]);
    }
    memcpy(text, titles, sizeof text);
    print_columns(text, width, f);
    for (size_t r = 0; r < n->p->n_row; r++) {
        dti_row_cells(n, r, &c);
        for (int i = 0; i < DTI_COLUMNS; i++)
            text[i] = c.text[i];
        print_columns(text, width, f);
    }
}

void dt_plan_print_title(const dt_plan *p, FILE *f)
{
    char program[DTI_CELL_BYTES];
    dti_escape_name(p->program, program);
    fprintf(f, "plan '%s' for %" PRId64 " samples", program, p->batch);
}

void dt_plan_print(const dt_plan *p, FILE *f)
{
    dti_names n;
    dti_names_init(&n, p);
    fprintf(f, "dt-plan " DTI_VERSION);
    for (size_t i = 0; i < DTI_FIELDS; i++) {
        char value[DTI_CELL_BYTES];
        dti_field_text(p, &dti_fields[i], value);
        fprintf(f, " %s=%s", dti_fields[i].key, value);
    }
    fprintf(f, "\n");
    for (size_t i = 0; i < p->n_refused; i++) {
        dti_refusal_line(&n, i, f);
        fprintf(f, "\n");
    }
    for (size_t i = 0; i < p->n_node; i++) {
        dti_node_line(&n, i, f);
        fprintf(f, "\n");
    }
    for (size_t i = 0; i < p->n_tensor; i++) {
        dti_tensor_line(&n, i, f);
        fprintf(f, "\n");
    }
    for (size_t i = 0; i < p->n_op; i++) {
        dti_op_line(&n, i, f);
        fprintf(f, "\n");
    }
    print_rows(&n, f);
    dti_names_deinit(&n);
}

/* What a kind is called in short, and the kind of stream that goes without saying, of the host. */
static const struct short_name {
    char letter;
    uint8_t stream;
} short_names[] = {
    [DT_ROW_PLACE] = {'P', DT_STREAM_COMPUTE},
    [DT_ROW_RELEASE] = {'R', DT_STREAM_COMPUTE},
    [DT_ROW_COMPUTE] = {'C', DT_STREAM_COMPUTE},
    [DT_ROW_COPY_OUT] = {'O', DT_STREAM_OUT},
    [DT_ROW_COPY_IN] = {'I', DT_STREAM_IN},
    [DT_ROW_WAIT] = {'W', DT_STREAM_COMPUTE},
};
_Static_assert(DT_COUNT(short_names) == DT_ROW_KINDS, "a letter a kind");

static bool goes_without_saying(const dt_plan *p, const dt_row *r)
{
    const int kind = short_names[r->kind].stream;
    const int tier = kind == DT_STREAM_COMPUTE ? 0 : DT_TIER_HOST;
    return r->stream == dt_plan_stream(p, (dt_stream_kind)kind, tier);
}

/* P a b, R a b: one letter for a run of rows. A tensor over another stands alone. */
static bool continues(const dt_row *before, const dt_row *r)
{
    if (r->kind != before->kind || r->stream != before->stream)
        return false;
    return r->kind == DT_ROW_RELEASE ||
           (r->kind == DT_ROW_PLACE && r->over == DT_NONE && before->over == DT_NONE);
}

static bool ends_line(const dt_row *r, const dt_row *next)
{
    return (r->kind == DT_ROW_RELEASE || r->kind == DT_ROW_COMPUTE) && next->kind != DT_ROW_RELEASE;
}

static void print_short_row(
    const dt_plan *p, const dt_row *r, const dti_cells *c, bool more, FILE *f)
{
    if (more) {
        fprintf(f, " %s", c->text[DTI_TENSOR]);
        return;
    }
    if (r->kind >= DT_ROW_KINDS) {
        fprintf(f, "%s", c->text[DTI_KIND]);
        return;
    }
    fprintf(f, "%c", short_names[r->kind].letter);
    if (!goes_without_saying(p, r))
        fprintf(f, "(%s)", c->text[DTI_STREAM]);
    const char *what = c->text[r->kind == DT_ROW_COMPUTE ? DTI_OP : DTI_TENSOR];
    if (r->kind != DT_ROW_WAIT)
        fprintf(f, " %s", what);
    if (r->over != DT_NONE)
        fprintf(f, " over %s", c->text[DTI_OVER]);
    if (r->event != DT_NONE)
        fprintf(f, " %s", c->text[DTI_EVENT]);
}

/* Rows [from, to) are a line: each reason that they give, once. */
static void print_reasons(const dti_names *n, size_t from, size_t to, FILE *f)
{
    dti_cells c;
    bool any = false;
    for (size_t i = from; i < to; i++) {
        size_t same = from;
        while (n->p->row[same].reason != n->p->row[i].reason)
            same++;
        if (n->p->row[i].reason == DT_NONE || same < i)
            continue;
        dti_row_cells(n, i, &c);
        fprintf(f, any ? " | %s" : "  # %s", c.text[DTI_REASON]);
        any = true;
    }
}

void dt_plan_print_short(const dt_plan *p, FILE *f)
{
    dti_names n;
    dti_cells c;
    size_t line = 0;
    dti_names_init(&n, p);
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i], *before = i > 0 ? r - 1 : NULL;
        const bool fresh = before == NULL || ends_line(before, r);
        const bool more = !fresh && continues(before, r);
        dti_row_cells(&n, i, &c);
        if (before != NULL && fresh) {
            print_reasons(&n, line, i, f);
            line = i;
        }
        if (before != NULL && !more)
            fprintf(f, "%s", fresh ? "\n" : "; ");
        print_short_row(p, r, &c, more, f);
    }
    print_reasons(&n, line, p->n_row, f);
    if (p->n_row > 0)
        fprintf(f, "\n");
    dti_names_deinit(&n);
}
