/* What is given beside what it goes by. */
#include "memory/only_with.h"

#include <stdio.h>
#include <string.h>

static const char *fallback(const dt_opt *opts, const char *key)
{
    while (strcmp(opts->key, key) != 0)
        opts++;
    return opts->fallback;
}

static dt_status check(
    const dt_config *c, const char *name, const dt_opt *opts, const dti_only_with *w, dt_err *err)
{
    char section[80], place[512];
    const char *file = NULL, *other = NULL;
    int line = 0, other_line = 0;
    bool counts = false, is_default = false;
    snprintf(section, sizeof section, "policy.%s", name);
    const char *given = dt_config_get(c, section, w->key, &file, &line);
    const char *by = dt_config_get(c, section, w->with, &other, &other_line);
    if (given == NULL)
        return DT_OK;
    DT_CHECK(dt_config_same(c, section, w->with, by, w->value, &counts, err));
    DT_CHECK(dt_config_same(c, section, w->key, given, NULL, &is_default, err));
    if (counts || is_default)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: [%s] %s = %s goes unused with %s = %s; leave it out, or set %s = %s",
        dt_config_place(place, sizeof place, file, line), section, w->key, given, w->with,
        by != NULL ? by : fallback(opts, w->with), w->with, w->value);
}

dt_status dti_only_with_check(
    const dt_config *c, const char *name, const dt_opt *opts, const dti_only_with *all, dt_err *err)
{
    for (; all != NULL && all->key != NULL; all++)
        DT_CHECK(check(c, name, opts, all, err));
    return DT_OK;
}
