/* Names of what is kept for later runs, and what is merged when a profile is measured again. */
#include "session/profile_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "session/origin.h"

/* As the XDG Base Directory Specification has it: a path that is not absolute does not count. */
static dt_status user_folder(char *to, size_t bytes, int *n, dt_err *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] == '/')
        *n = snprintf(to, bytes, "%s/dnntrain", cache);
    else if (home != NULL && home[0] == '/')
        *n = snprintf(to, bytes, "%s/.cache/dnntrain", home);
    else
        return DT_FAIL(err, DT_E_CONFIG,
            "neither XDG_CACHE_HOME nor HOME is a folder in which a profile could be kept; set one "
            "of them, or memory.cache, or name a file in memory.profile");
    return DT_OK;
}

static dt_status cache_path(
    const dt_session *s, char *to, size_t bytes, const char *name, dt_err *err)
{
    const char *cache = s->opts.memory.cache;
    int n = 0;
    if (strcmp(cache, "none") == 0)
        return DT_FAIL(err, DT_E_CONFIG,
            "with memory.cache = none nothing is kept; name a folder there, or a file in "
            "memory.profile");
    if (strcmp(cache, "auto") == 0)
        DT_CHECK(user_folder(to, bytes, &n, err));
    else
        n = snprintf(to, bytes, "%s", cache);
    if (n >= 0 && (size_t)n < bytes)
        n += snprintf(to + n, bytes - (size_t)n, "/%s", name);
    return n >= 0 && (size_t)n < bytes
               ? DT_OK
               : DT_FAIL(err, DT_E_CONFIG, "memory.cache, XDG_CACHE_HOME or HOME is too long");
}

dt_status dt_profile_kept(const dt_session *s, char to[DT_CACHE_PATH], dt_err *err)
{
    char text[6 * DT_ORIGIN_BYTES + 32], sum[DT_SHA256_TEXT], name[DT_SHA256_TEXT + 16];
    dt_origin o;
    dt_sha256 hash;
    if (s->context.device != DT_CPU)
        return DT_FAIL(err, DT_E_CONFIG,
            "profiles of a card are not kept; write one by 'dnntrain profile CONFIG --out FILE', "
            "and name it in memory.profile");
    dti_session_origin(s, &o);
    const int n = snprintf(text, sizeof text, "%s\n%s\n%s\n%" PRId64 "\n%s\n%s\n%s\n", o.machine,
        o.isa, o.precision, o.threads, o.library, o.version, o.network);
    dt_sha256_init(&hash);
    dt_sha256_add(&hash, text, (size_t)n);
    dt_sha256_text(&hash, sum);
    snprintf(name, sizeof name, "profile-%s.json", sum);
    return cache_path(s, to, DT_CACHE_PATH, name, err);
}

/* What the file has besides, unless another build measured it: the file has one build for all. Of
 * two measurements of an op the new one counts. */
static dt_status merge(dt_profile *p, const char *path, dt_err *err)
{
    dt_err why = {0};
    dt_profile old = {.step = 0};
    bool measured = false;
    dt_status st = dt_profile_read(&old.costs, &old.densities, &old.origin, &measured, path, &why);
    if (st == DT_OK && measured)
        st = dt_origin_same(&old.origin, &p->origin, path, &why);
    const bool ours = st == DT_OK && measured && !dt_origin_other_build(&old.origin, &p->origin);
    if (ours)
        st = dt_costs_merge(&p->costs, &old.costs, err);
    else if (st == DT_E_NOMEM)
        (void)DT_FAIL(err, st, "no memory for the profile that is kept");
    dt_profile_deinit(&old);
    return ours || st == DT_E_NOMEM ? st : DT_OK;
}

dt_status dt_profile_keep(const dt_session *s, dt_profile *p, char path[DT_CACHE_PATH], dt_err *err)
{
    char *text = NULL;
    size_t n = 0;
    DT_CHECK(dt_profile_kept(s, path, err));
    DT_CHECK(merge(p, path, err));
    DT_CHECK(dt_profile_text(&text, &n, &p->costs, &p->densities, &p->origin, err));
    dt_status st = dt_make_above(path, err);
    if (st == DT_OK)
        st = dt_write_file(path, text, n, err);
    dt_free(text);
    return st;
}

bool dti_keeps_fronts(const dt_build *b)
{
    return strstr(b->git, "dirty") == NULL;
}

bool dti_fronts_kept(const void *session, char *to, size_t bytes)
{
    const dt_build b = dt_build_facts();
    char name[160];
    dt_err none = {0};
    snprintf(name, sizeof name, "front-%s-%.40s-", b.version, b.git[0] != '\0' ? b.git : "release");
    return dti_keeps_fronts(&b) && cache_path(session, to, bytes, name, &none) == DT_OK;
}
