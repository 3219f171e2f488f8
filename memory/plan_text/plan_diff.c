/* What differs between two plans, line by line. */
#include "memory/plan_text/plan_text.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"
#include "memory/plan_text/plan_text_internal.h"

/* A section of both plans: how many lines, and how to write one. */
typedef struct part {
    size_t n[2];
    void (*line)(const dti_names *n, size_t i, FILE *f);
    bool numbered; /* the line's number is shown, but is no difference */
} part;

/* The lines of one side. */
typedef struct lines {
    char *text;    /* of all of them */
    char **start;  /* of each line, ended by NUL */
    int32_t *same; /* by line: number of its class of equal lines */
    size_t n;
} lines;

/* A pair of equal lines, and the pair before it in the longest sequence that ends here. */
typedef struct pair {
    int32_t a, b, before;
} pair;

enum { MOST_PAIRS = 50 << 20 }; /* looked at, before a section is printed whole */

static void print_one(const part *p, const dti_names *n, size_t i, char sign, FILE *f)
{
    fprintf(f, "%c ", sign);
    if (p->numbered)
        fprintf(f, "%zu ", i);
    p->line(n, i, f);
    fprintf(f, "\n");
}

static void lines_deinit(lines *l)
{
    dt_free(l->text);
    dt_free(l->start);
    dt_free(l->same);
}

static bool lines_init(lines *l, const part *p, const dti_names *n, int side)
{
    dt_memory_stream text;
    *l = (lines){.n = p->n[side]};
    if (dt_memory_open(&text, "", NULL) != DT_OK)
        return false;
    for (size_t i = 0; i < l->n; i++) {
        p->line(n, i, text.f);
        fputc('\0', text.f);
    }
    if (dt_memory_close(&text, DT_OK, NULL) != DT_OK)
        return false;
    l->text = text.text;
    l->start = dt_alloc(l->n, sizeof *l->start);
    l->same = dt_alloc(l->n, sizeof *l->same);
    if (l->start == NULL || l->same == NULL)
        return false;
    char *at = l->text;
    for (size_t i = 0; i < l->n; i++, at += strlen(at) + 1)
        l->start[i] = at;
    return true;
}

/* Give equal lines of both sides the same number. first[k] .. first[k + 1] is then the range in
 * @order of b's lines of class k, ascending. */
static bool classify(lines v[2], int32_t **order, int32_t **first)
{
    const size_t n = v[0].n + v[1].n;
    dti_entry *all = dt_alloc(n, sizeof *all);
    *order = dt_alloc(v[1].n, sizeof **order);
    *first = dt_alloc(n + 1, sizeof **first);
    const bool good = all != NULL && *order != NULL && *first != NULL;
    if (good) {
        int32_t k = -1, used = 0;
        for (size_t i = 0; i < n; i++)
            all[i] = (dti_entry){i < v[0].n ? v[0].start[i] : v[1].start[i - v[0].n], (int32_t)i};
        dti_sort_entries(all, n);
        for (size_t i = 0; i < n; i++) {
            if (i == 0 || strcmp(all[i - 1].text, all[i].text) != 0)
                (*first)[++k] = used;
            const size_t id = (size_t)all[i].id;
            if (id < v[0].n) {
                v[0].same[id] = k;
            } else {
                v[1].same[id - v[0].n] = k;
                (*order)[used++] = (int32_t)(id - v[0].n);
            }
        }
        (*first)[k + 1] = used;
    }
    dt_free(all);
    return good;
}

/* Longest sequences by length: ends[k] is the pair that ends one of k + 1 pairs soonest in b. */
typedef struct chains {
    pair *pair;
    size_t n_pair, cap_pair;
    int32_t *ends;
    size_t n;
} chains;

/* First length whose end is not before line j of b. */
static size_t place_of(const chains *c, int32_t j)
{
    size_t low = 0, high = c->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (c->pair[c->ends[mid]].b < j)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool extend(chains *c, int32_t i, int32_t j)
{
    const size_t k = place_of(c, j);
    if (k < c->n && c->pair[c->ends[k]].b == j)
        return true;
    if (!dt_grow(&c->pair, &c->cap_pair, c->n_pair, sizeof *c->pair))
        return false;
    c->pair[c->n_pair] = (pair){i, j, k > 0 ? c->ends[k - 1] : -1};
    c->ends[k] = (int32_t)c->n_pair++;
    c->n += k == c->n;
    return true;
}

/* Hunt and Szymanski: for each line of a, the equal ones of b from the last to the first, so that
 * none of them follows another. Marks in keep what is common; how both begin and end is so without
 * a search. */
static bool find_common(lines v[2], const int32_t *order, const int32_t *first, bool *keep[2])
{
    chains c = {.ends = dt_alloc(v[0].n, sizeof *c.ends)};
    bool good = c.ends != NULL;
    size_t from = 0, end[2] = {v[0].n, v[1].n}, seen = 0;
    for (; from < end[0] && from < end[1] && v[0].same[from] == v[1].same[from]; from++)
        keep[0][from] = keep[1][from] = true;
    while (end[0] > from && end[1] > from && v[0].same[end[0] - 1] == v[1].same[end[1] - 1])
        keep[0][--end[0]] = keep[1][--end[1]] = true;
    for (size_t i = from; good && i < end[0]; i++) {
        const int32_t k = v[0].same[i];
        for (int32_t j = first[k + 1]; good && j-- > first[k];)
            if ((size_t)order[j] >= from && (size_t)order[j] < end[1])
                good = ++seen < MOST_PAIRS && extend(&c, (int32_t)i, order[j]);
    }
    if (good && c.n > 0)
        for (int32_t at = c.ends[c.n - 1]; at >= 0; at = c.pair[at].before)
            keep[0][c.pair[at].a] = keep[1][c.pair[at].b] = true;
    dt_free(c.pair);
    dt_free(c.ends);
    return good;
}

/* What is common to both sides, or NULLs. */
static bool compare(const part *p, const dti_names n[2], bool *keep[2])
{
    lines v[2] = {{.n = 0}, {.n = 0}};
    int32_t *order = NULL, *first = NULL;
    keep[0] = dt_alloc(p->n[0], sizeof **keep);
    keep[1] = dt_alloc(p->n[1], sizeof **keep);
    const bool good = keep[0] != NULL && keep[1] != NULL && lines_init(&v[0], p, &n[0], 0) &&
                      lines_init(&v[1], p, &n[1], 1) && classify(v, &order, &first) &&
                      find_common(v, order, first, keep);
    lines_deinit(&v[0]);
    lines_deinit(&v[1]);
    dt_free(order);
    dt_free(first);
    return good;
}

static bool diff_part(const part *p, const dti_names n[2], FILE *f)
{
    bool *keep[2], differs = false;
    const bool known = compare(p, n, keep);
    for (size_t i = 0, j = 0; i < p->n[0] || j < p->n[1];) {
        if (i < p->n[0] && (!known || !keep[0][i])) {
            print_one(p, &n[0], i++, '-', f);
            differs = true;
        } else if (j < p->n[1] && (!known || !keep[1][j])) {
            print_one(p, &n[1], j++, '+', f);
            differs = true;
        } else {
            i++;
            j++;
        }
    }
    dt_free(keep[0]);
    dt_free(keep[1]);
    return differs;
}

static bool diff_header(const dt_plan *a, const dt_plan *b, FILE *f)
{
    bool differs = false;
    for (size_t i = 0; i < DTI_FIELDS; i++) {
        char x[DTI_CELL_BYTES], y[DTI_CELL_BYTES];
        dti_field_text(a, &dti_fields[i], x);
        dti_field_text(b, &dti_fields[i], y);
        if (strcmp(x, y) != 0) {
            fprintf(f, "- %s=%s\n+ %s=%s\n", dti_fields[i].key, x, dti_fields[i].key, y);
            differs = true;
        }
    }
    return differs;
}

bool dt_plan_diff(const dt_plan *a, const dt_plan *b, FILE *f)
{
    const part parts[] = {
        {{a->n_refused, b->n_refused}, dti_refusal_line, false},
        {{a->n_node, b->n_node}, dti_node_line, false},
        {{a->n_tensor, b->n_tensor}, dti_tensor_line, false},
        {{a->n_op, b->n_op}, dti_op_line, false},
        {{a->n_row, b->n_row}, dti_row_line, true},
    };
    dti_names n[2];
    dti_names_init(&n[0], a);
    dti_names_init(&n[1], b);
    bool differs = diff_header(a, b, f);
    for (size_t i = 0; i < DT_COUNT(parts); i++)
        differs = diff_part(&parts[i], n, f) || differs;
    dti_names_deinit(&n[0]);
    dti_names_deinit(&n[1]);
    return differs;
}
