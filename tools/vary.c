/* Keys that take several values. */
#include "tools/vary.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"

static dt_status no_memory(dt_err *err)
{
    return DT_FAIL(err, DT_E_NOMEM, "no memory for values of --vary");
}

/* What other flags are for. */
static dt_status check_key(const dt_vary *v, const char *name, dt_err *err)
{
    static const struct {
        const char *key, *flag;
    } others[] = {
        {"memory.policy", "--policies 'A;B,C'"}, {"memory.device_budget", "--budgets 1GiB,2GiB"}};
    for (size_t i = 0; i < DT_COUNT(others); i++)
        if (strcmp(name, others[i].key) == 0)
            return DT_FAIL(
                err, DT_E_CONFIG, "--vary %s: that is what %s is for", name, others[i].flag);
    for (size_t k = 0; k < v->n; k++)
        if (strcmp(v->key[k].name, name) == 0)
            return DT_FAIL(err, DT_E_CONFIG,
                "--vary %s stands there twice; give all of its values in one", name);
    return DT_OK;
}

static dt_status check_bytes(const char *text, dt_err *err)
{
    for (const char *at = text; *at != '\0'; at += dt_printable(at))
        if (dt_printable(at) == 0)
            return DT_FAIL(err, DT_E_CONFIG,
                "--vary '%.200s': byte %zu, 0x%02X, is a control character or not UTF-8", text,
                (size_t)(at - text) + 1, (unsigned)(unsigned char)*at);
    return DT_OK;
}

/* "key=A,B" alone: which it may have meant. */
static dt_status no_form(const char *text, dt_err *err)
{
    char word[64], meant[128];
    const size_t n = strcspn(text, "=");
    snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, text);
    if (text[n] == '=' && strchr(word, '.') == NULL &&
        dt_run_options_meant(word, meant, sizeof meant) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "--vary '%.200s': did you mean --vary %s%.200s?", text,
            meant, text + n);
    return DT_FAIL(err, DT_E_CONFIG,
        "--vary '%.200s': write SECTION.KEY=A,B,C, as in train.precision=fp32,bf16", text);
}

static bool has(const dt_varied *k, const char *value, size_t n)
{
    for (size_t i = 0; i < k->n; i++)
        if (strlen(k->value[i]) == n && strncmp(k->value[i], value, n) == 0)
            return true;
    return false;
}

/* Without blanks around it. */
static dt_status add_value(dt_varied *k, const char *from, size_t n, dt_err *err)
{
    for (; n > 0 && (*from == ' ' || *from == '\t'); n--)
        from++;
    while (n > 0 && (from[n - 1] == ' ' || from[n - 1] == '\t'))
        n--;
    if (n == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "--vary %s: nothing stands between two separators, or at an end", k->name);
    if (has(k, from, n))
        return DT_OK;
    char *value = dt_alloc(n + 1, 1);
    if (value == NULL)
        return no_memory(err);
    memcpy(value, from, n);
    k->value[k->n++] = value;
    return DT_OK;
}

static dt_status read_values(dt_varied *k, const char *text, dt_err *err)
{
    const char between = strchr(text, ';') != NULL ? ';' : ',';
    const char stop[] = {between, '\0'};
    size_t most = 1;
    for (const char *at = text; *at != '\0'; at++)
        most += *at == between;
    if (most > DT_VARIANT_ROWS)
        return DT_FAIL(err, DT_E_CONFIG, "--vary %s: %zu values are more than %d", k->name, most,
            DT_VARIANT_ROWS);
    k->value = dt_alloc(most, sizeof *k->value);
    if (k->value == NULL)
        return no_memory(err);
    for (size_t i = 0; i < most; i++) {
        const size_t n = strcspn(text, stop);
        DT_CHECK(add_value(k, text, n, err));
        text += n + (i + 1 < most);
    }
    return DT_OK;
}

/* Before the = the last dot ends the section. */
static dt_status read_key(dt_vary *v, const char *text, dt_err *err)
{
    const size_t n = strcspn(text, "=");
    char *name = dt_strdup(text), *section = dt_strdup(text);
    dt_varied *k = &v->key[v->n];
    *k = (dt_varied){.name = name, .section = section};
    if (name == NULL || section == NULL)
        return no_memory(err);
    name[n] = section[n] = '\0';
    char *dot = strrchr(section, '.');
    if (text[n] == '\0' || dot == NULL || dot == section || dot[1] == '\0')
        return no_form(text, err);
    *dot = '\0';
    k->key = dot + 1;
    DT_CHECK(check_key(v, name, err));
    return read_values(k, text + n + 1, err);
}

static void free_text(const char *text)
{
    dt_free((void *)(uintptr_t)text);
}

static void free_key(dt_varied *k)
{
    for (size_t i = 0; i < k->n; i++)
        free_text(k->value[i]);
    dt_free(k->value);
    free_text(k->name);
    free_text(k->section);
}

dt_status dti_vary_open(dt_vary *out, const char *const *text, size_t n, dt_err *err)
{
    *out = (dt_vary){0};
    if (n > DT_VARIED_KEYS)
        return DT_FAIL(err, DT_E_CONFIG, "--vary: %zu keys are more than %d", n, DT_VARIED_KEYS);
    for (size_t i = 0; i < n; i++) {
        DT_CHECK(check_bytes(text[i], err));
        const dt_status st = read_key(out, text[i], err);
        out->n++; /* what it holds is to be freed */
        DT_CHECK(st);
    }
    return DT_OK;
}

void dti_vary_close(dt_vary *v)
{
    for (size_t k = 0; k < v->n; k++)
        free_key(&v->key[k]);
    *v = (dt_vary){0};
}

const char *dti_vary_title(const dt_vary *v, size_t key)
{
    for (size_t k = 0; k < v->n; k++)
        if (k != key && strcmp(v->key[k].key, v->key[key].key) == 0)
            return v->key[key].name;
    return v->key[key].key;
}

const char *dti_vary_value(const dt_vary *v, const dt_variant *of, size_t key, const char *none)
{
    return of->value[key] >= 0 ? v->key[key].value[of->value[key]] : none;
}

const char *dti_vary_short(const dt_vary *v, const dt_variant *of, char *to, size_t bytes)
{
    size_t at = 0;
    to[0] = '\0';
    for (size_t k = 0; k < v->n && at < bytes; k++)
        if (of->value[k] >= 0)
            at += (size_t)snprintf(
                to + at, bytes - at, "%s%s", at > 0 ? " " : "", dti_vary_value(v, of, k, ""));
    return to;
}
