#include "engine/config/config_parts.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"

dt_status dti_no_memory(const dt_config *c, dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "%s: no memory for the configuration", c->shown);
}

/* Takes s over; NULL when s is, or when memory is out. */
char *dti_own(dt_config *c, char *s)
{
    if (s == NULL || !dt_grow((void **)&c->owned, &c->owned_cap, c->n_owned, sizeof *c->owned)) {
        dt_free(s);
        return NULL;
    }
    return c->owned[c->n_owned++] = s;
}

void dt_config_destroy(dt_config *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->n; i++) {
        dt_free(c->at[i].key);
        dt_free(c->at[i].slot);
    }
    for (size_t i = 0; i < c->n_owned; i++)
        dt_free(c->owned[i]);
    dt_free(c->owned);
    dt_free(c->bound);
    dt_free(c->by_text);
    dt_free(c->at);
    dt_free(c->text);
    dt_free(c->folder);
    dt_free(c->file);
    dt_free(c);
}

/* A new section, of tidied text that lives as long as c. */
section *dti_add_section(dt_config *c, const char *text, int line, bool set)
{
    if (!dt_grow((void **)&c->at, &c->cap, c->n, sizeof *c->at))
        return NULL;
    const char *space = strchr(text, ' ');
    const char *kind = text;
    if (space != NULL) {
        char *copy = dti_own(c, dt_strdup(text));
        if (copy == NULL)
            return NULL;
        copy[space - text] = '\0';
        kind = copy;
    }
    c->at[c->n] = (section){.text = text,
        .kind = kind,
        .name = space != NULL ? space + 1 : "",
        .line = line,
        .set = set};
    return &c->at[c->n++];
}

/* Where the key's entry is, or the free slot where it would be. */
static uint32_t *slot_of(const section *s, const char *key)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (const char *c = key; *c != '\0'; c++)
        h = (h ^ (uint8_t)*c) * UINT64_C(0x100000001B3);
    for (size_t i = (size_t)(h ^ h >> 32);; i++) {
        uint32_t *at = &s->slot[i & (s->slots - 1)];
        if (*at == 0 || strcmp(s->key[*at - 1].key, key) == 0)
            return at;
    }
}

/* Room for one more entry; at most half of the slots are taken. */
static bool grow_slots(section *s)
{
    enum { LEAST = 16 };
    if (2 * (s->n + 1) <= s->slots)
        return true;
    const size_t slots = s->slots == 0 ? LEAST : 2 * s->slots;
    uint32_t *slot = dt_alloc(slots, sizeof *slot);
    if (slot == NULL)
        return false;
    dt_free(s->slot);
    s->slot = slot;
    s->slots = slots;
    for (size_t i = s->n; i-- > 0;) /* of equal keys the first is found */
        *slot_of(s, s->key[i].key) = (uint32_t)i + 1;
    return true;
}

entry *dti_add_entry(section *s, const char *key, const char *value, int line, bool set)
{
    if (!grow_slots(s) || !dt_grow((void **)&s->key, &s->cap, s->n, sizeof *s->key))
        return NULL;
    entry *e = &s->key[s->n++];
    *e = (entry){.key = key, .value = value, .line = line, .set = set};
    uint32_t *slot = slot_of(s, key);
    if (*slot == 0)
        *slot = (uint32_t)s->n;
    return e;
}

/* qsort takes no context; a config is sorted by one thread at a time, each with its own. */
static _Thread_local const section *sorting;

static int by_text(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const int order = strcmp(sorting[i].text, sorting[k].text);
    return order != 0 ? order : (i > k) - (i < k);
}

dt_status dti_sort(dt_config *c, dt_err *err)
{
    uint32_t *order = dt_alloc(c->n, sizeof *order);
    if (order == NULL)
        return dti_no_memory(c, err);
    for (size_t i = 0; i < c->n; i++)
        order[i] = (uint32_t)i;
    sorting = c->at;
    qsort(order, c->n, sizeof *order, by_text);
    dt_free(c->by_text);
    c->by_text = order;
    return DT_OK;
}

section *dti_find_section(const dt_config *c, const char *text)
{
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        section *s = &c->at[c->by_text[mid]];
        const int order = strcmp(text, s->text);
        if (order == 0)
            return s;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

entry *dti_find_entry(const section *s, const char *key)
{
    const uint32_t at = s != NULL && s->slots > 0 ? *slot_of(s, key) : 0;
    return at > 0 ? &s->key[at - 1] : NULL;
}

/* Cut a copy of "section.key=value" into its parts. */
static bool cut_assignment(char *s, char **key, char **value)
{
    char *equals = strchr(s, '=');
    if (equals == NULL)
        return false;
    *equals = '\0';
    const size_t globs = strlen(DT_CONFIG_GLOBS);
    const bool glob = strncmp(s, DT_CONFIG_GLOBS ".", globs + 1) == 0;
    char *dot = glob ? s + globs : strrchr(s, '.');
    if (dot == NULL)
        return false;
    *dot = '\0';
    *key = dti_skip_blanks(dot + 1);
    *value = dti_skip_blanks(equals + 1);
    dti_cut_blanks(*key);
    dti_cut_blanks(*value);
    return **key != '\0' && strpbrk(*key, " \t\"") == NULL && strpbrk(s, "[]") == NULL &&
           dti_tidy_section(s);
}

dt_status dt_config_set(dt_config *c, const char *assignment, dt_err *err)
{
    char *text = dti_own(c, dt_strdup(assignment)), *key, *value;
    if (text == NULL)
        return dti_no_memory(c, err);
    const size_t n = strlen(text), control = dti_control_at(text, n), wrong = dt_utf8_bad(text, n);
    const size_t bad = control < wrong ? control : wrong;
    if (bad < n)
        return DT_FAIL(err, DT_E_CONFIG, "--set '%.200s': byte %zu, 0x%02X, is %s", assignment,
            bad + 1, (unsigned)(uint8_t)text[bad],
            control < wrong ? "a control character" : "not UTF-8");
    if (!cut_assignment(text, &key, &value))
        return DT_FAIL(err, DT_E_CONFIG, "--set '%.200s': write section.key=value", assignment);
    section *s = dti_find_section(c, text);
    if (s == NULL) {
        s = dti_add_section(c, text, 0, true);
        if (s == NULL)
            return dti_no_memory(c, err);
        const dt_status st = dti_sort(c, err);
        if (st != DT_OK) {
            c->n--; /* or a search would look behind the old order */
            return st;
        }
    }
    entry *e = dti_find_entry(s, key);
    if (e == NULL)
        e = dti_add_entry(s, key, value, 0, true);
    if (e == NULL)
        return dti_no_memory(c, err);
    *e = (entry){.key = e->key, .value = value, .set = true};
    return DT_OK;
}

size_t dt_config_section_count(const dt_config *c)
{
    return c->n;
}

dt_section dt_config_section(const dt_config *c, size_t i)
{
    const section *s = &c->at[i];
    return (dt_section){s->text, s->kind, s->name, s->set ? DTI_SET : c->file, s->line};
}

size_t dt_config_key_count(const dt_config *c, size_t i)
{
    return c->at[i].n;
}

void dt_config_key(
    const dt_config *c, size_t at, size_t i, const char **key, const char **value, int *line)
{
    const entry *e = &c->at[at].key[i];
    *key = e->key;
    *value = e->value;
    *line = e->line;
}

const char *dt_config_get(
    const dt_config *c, const char *text, const char *key, const char **file, int *line)
{
    const entry *e = dti_find_entry(dti_find_section(c, text), key);
    if (e == NULL)
        return NULL;
    *file = e->set ? DTI_SET : c->file;
    *line = e->line;
    return e->value;
}

const char *dt_config_place(char *to, size_t bytes, const char *file, int line)
{
    if (file == NULL)
        snprintf(to, bytes, "default");
    else if (line > 0)
        snprintf(to, bytes, "%s:%d", file, line);
    else
        snprintf(to, bytes, "%s", file);
    return to;
}
