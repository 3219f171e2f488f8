/* Names of a plan's section, sorted, and found by name. */
#include "memory/plan_text/plan_dict.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/alloc.h"

/* A name as it stands in the text: NAME or NAME#INDEX. */
typedef struct reference {
    char name[DT_TENSOR_NAME_BYTES];
    bool numbered;
    uint64_t index;
} reference;

static dt_status read_reference(const dti_dict *d, const dti_scan *s, dti_word w, reference *r)
{
    dti_word name = w, index;
    r->numbered = dti_word_cut(w, '#', &name, &index);
    if (r->numbered)
        DT_CHECK(dti_scan_number(s, d->what, index, INT32_MAX, &r->index));
    return dti_scan_escaped(s, d->what, name, r->name, sizeof r->name);
}

dt_status dti_dict_declare(
    dti_dict *d, const dti_scan *s, dti_word w, char name[DT_TENSOR_NAME_BYTES])
{
    reference r;
    if (!dt_grow((void **)&d->mark, &d->cap, d->n, sizeof *d->mark))
        return dti_scan_no_memory(s);
    DT_CHECK(read_reference(d, s, w, &r));
    if (r.numbered && r.index != d->n)
        return dti_scan_bad(s, "%s '%.*s' has number %zu", d->what, DTI_SHOW(w), d->n);
    memcpy(name, r.name, strlen(r.name) + 1);
    d->mark[d->n++] = (struct dti_mark){s->line, r.numbered};
    return DT_OK;
}

dt_status dti_dict_close(dti_dict *d, const dti_scan *s, const char *names, size_t each)
{
    d->names = names;
    d->each = each;
    d->sorted = dt_alloc(d->n, sizeof *d->sorted);
    if (d->sorted == NULL)
        return dti_scan_no_memory(s);
    for (size_t i = 0; i < d->n; i++)
        d->sorted[i] = (dti_entry){names + i * each, (int32_t)i};
    dti_sort_entries(d->sorted, d->n);
    for (size_t i = 1; i < d->n; i++) {
        const dti_entry *a = &d->sorted[i - 1], *b = &d->sorted[i];
        const struct dti_mark *ma = &d->mark[a->id], *mb = &d->mark[b->id];
        if (strcmp(a->text, b->text) == 0 && !(ma->numbered && mb->numbered)) {
            dti_scan at = *s;
            char name[DTI_CELL_BYTES];
            dti_escape_name(b->text, name);
            at.line = mb->line;
            return dti_scan_bad(&at,
                "%s '%.60s' is already on line %zu; tell them apart by #%" PRId32 " and #%" PRId32,
                d->what, name, ma->line, a->id, b->id);
        }
    }
    return DT_OK;
}

/* Place of the first entry that is not before text. */
static size_t lower_bound(const dti_dict *d, const char *text)
{
    size_t low = 0, high = d->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (strcmp(d->sorted[mid].text, text) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

dt_status dti_dict_find(const dti_dict *d, const dti_scan *s, dti_word w, int32_t *id)
{
    reference r;
    DT_CHECK(read_reference(d, s, w, &r));
    const size_t at = lower_bound(d, r.name);
    uint64_t i = d->n;
    if (r.numbered)
        i = r.index;
    else if (at < d->n)
        i = (uint64_t)d->sorted[at].id;
    if (i >= d->n || strcmp(d->names + i * d->each, r.name) != 0)
        return dti_scan_bad(s, "there is no %s '%.*s'", d->what, DTI_SHOW(w));
    if (!r.numbered && at + 1 < d->n && strcmp(d->sorted[at + 1].text, r.name) == 0)
        return dti_scan_bad(s, "several are called %s '%.*s'; add #NUMBER", d->what, DTI_SHOW(w));
    *id = (int32_t)i;
    return DT_OK;
}

void dti_dict_deinit(dti_dict *d)
{
    dt_free(d->mark);
    dt_free(d->sorted);
}
