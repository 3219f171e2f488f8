/* Shares of values that are not zero, read from a profile's file. */
#include "memory/density.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/config/config.h"
#include "engine/base/text.h"

static const dt_opt share = {"share", DT_OPT_F64, 0, NULL, 0, 1, NULL, NULL, NULL};

static dt_named texts_of(const dt_densities *d)
{
    return (dt_named){d->line, sizeof *d->line, offsetof(dt_density, glob), true};
}

/* The last line so far is to be found. */
static void add_text(dt_densities *d)
{
    const size_t at = d->n - 1;
    dt_density *line = &d->line[at];
    dt_names_add(&d->names, texts_of(d), at);
    d->line[dt_names_find(&d->names, texts_of(d), line->glob) - 1].last = at;
    line->before = d->pattern;
    if (strpbrk(line->glob, "*?") != NULL)
        d->pattern = d->n;
}

dt_status dt_densities_add(
    dt_densities *d, const char *glob, double value, double mean, dt_err *err)
{
    char *own = NULL;
    if (dt_names_grow(&d->names, texts_of(d), d->n) &&
        dt_grow(&d->line, &d->cap, d->n, sizeof *d->line))
        own = dt_strdup(glob);
    if (own == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for densities");
    d->line[d->n++] = (dt_density){.glob = own, .share = value, .mean = mean};
    add_text(d);
    return DT_OK;
}

static dt_status add(
    dt_densities *d, const char *glob, const char *value, const char *at, dt_err *err)
{
    double v = 0;
    DT_TRY(
        err, dt_opt_read(&share, value, &v, err), "%s: [density] %.100s = %.100s", at, glob, value);
    return dt_densities_add(d, glob, v, v, err);
}

static dt_status read_section(dt_densities *d, dt_config *c, size_t section, dt_err *err)
{
    const dt_section s = dt_config_section(c, section);
    dt_status first = DT_OK;
    char at[512];
    if (strcmp(s.text, "density") != 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: [%s]: a profile has only a section [density]",
            dt_config_place(at, sizeof at, s.file, s.line), s.text);
    for (size_t i = 0; i < dt_config_key_count(c, section); i++) {
        const char *key, *value;
        int line;
        dt_config_key(c, section, i, &key, &value, &line);
        dt_config_place(at, sizeof at, s.file, line);
        const dt_status st = add(d, key, value, at, err);
        first = first != DT_OK ? first : st;
    }
    return first;
}

dt_status dti_densities_open(dt_densities *out, const char *path, dt_err *err)
{
    dt_config *c = NULL;
    *out = (dt_densities){0};
    dt_status st = dt_config_load(&c, path, err);
    for (size_t i = 0; st == DT_OK && i < dt_config_section_count(c); i++)
        st = read_section(out, c, i, err);
    dt_config_destroy(c);
    return st;
}

void dt_densities_close(dt_densities *d)
{
    for (size_t i = 0; i < d->n; i++)
        dt_free(d->line[i].glob);
    dt_free(d->line);
    dt_names_deinit(&d->names);
    *d = (dt_densities){0};
}

/* The last line that matches; d->n: none does. */
static size_t find(const dt_densities *d, const char *tensor)
{
    const size_t first = dt_names_find(&d->names, texts_of(d), tensor);
    const size_t named = first > 0 ? d->line[first - 1].last + 1 : 0;
    for (size_t i = d->pattern; i > named; i = d->line[i - 1].before)
        if (dt_glob(d->line[i - 1].glob, tensor))
            return i - 1;
    return named > 0 ? named - 1 : d->n;
}

dt_status dt_densities_put(
    dt_densities *d, const char *tensor, double value, double mean, dt_err *err)
{
    const size_t i = find(d, tensor);
    if (i == d->n || strcmp(d->line[i].glob, tensor) != 0)
        return dt_densities_add(d, tensor, value, mean, err);
    d->line[i].share = value;
    d->line[i].mean = mean;
    return DT_OK;
}

double dt_densities_of(const dt_densities *d, const char *tensor)
{
    const size_t i = find(d, tensor);
    return i < d->n ? d->line[i].share : -1;
}

double dt_densities_mean(const dt_densities *d, const char *tensor)
{
    const size_t i = find(d, tensor);
    return i < d->n ? d->line[i].mean : -1;
}

void dti_densities_sum(const dt_densities *d, dt_sha256 *sum)
{
    for (size_t i = 0; i < d->n; i++) {
        const double value[] = {d->line[i].share, d->line[i].mean};
        dt_sha256_add_text(sum, d->line[i].glob);
        dt_sha256_add(sum, value, sizeof value);
    }
}
