/* Fronts: copies, and text: a line of numbers, then a line a plan. */
#include "memory/policies/auto_front.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/numbers_text.h"

enum { LINE = 320, SHORTEST = 24 }; /* of a plan, without its fates */

/* A session may read what an older program has written. */
_Static_assert(DTI_KEEP == 0 && DTI_RECOMPUTE == 1 && DTI_OFFLOAD == 2 && DTI_FATES == 3,
    "files hold these numbers");

dt_status dti_found_copy(dti_found *to, const dti_found *from, size_t n_value, dt_err *err)
{
    *to = *from;
    if (from->fate == NULL)
        return DT_OK;
    to->fate = dt_alloc(n_value + 1, 1);
    if (to->fate == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a search");
    memcpy(to->fate, from->fate, n_value);
    return DT_OK;
}

void dti_found_deinit(dti_found *f)
{
    dt_free(f->fate);
    f->fate = NULL;
}

void dti_front_destroy(void *front)
{
    dti_front *f = front;
    if (f == NULL)
        return;
    for (size_t i = 0; f->plan != NULL && i < f->n; i++)
        dti_found_deinit(&f->plan[i]);
    dt_free(f->plan);
    dt_free(f);
}

static dti_front *create(size_t n, size_t n_value)
{
    dti_front *f = dt_alloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    *f = (dti_front){.n = n, .n_value = n_value, .plan = dt_alloc(n + 1, sizeof *f->plan)};
    if (f->plan != NULL)
        return f;
    dt_free(f);
    return NULL;
}

dti_front *dti_front_copy(const dti_front *from)
{
    dti_front *f = create(from->n, from->n_value);
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < f->n; i++)
        ok = dti_found_copy(&f->plan[i], &from->plan[i], f->n_value, NULL) == DT_OK;
    if (ok) {
        f->least = from->least;
        f->most = from->most;
        return f;
    }
    dti_front_destroy(f);
    return NULL;
}

char *dti_front_text(const dti_front *f, size_t *bytes)
{
    char *to = dt_alloc((f->n + 1) * (LINE + f->n_value) + 1, 1);
    size_t at = 0;
    if (to == NULL)
        return NULL;
    at += (size_t)snprintf(
        to, LINE, "%zu %zu %" PRIu64 " %" PRIu64 "\n", f->n, f->n_value, f->least, f->most);
    for (size_t i = 0; i < f->n; i++) {
        const dti_found *x = &f->plan[i];
        at += (size_t)dt_snprintf(to + at, LINE,
            "%" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64
            " %a %s %s",
            x->aim, x->budget, x->early, x->offloads, x->encodes, x->recomputes, x->cost.device,
            x->cost.tier[DT_TIER_HOST], x->cost.tier[DT_TIER_DISK], x->cost.seconds,
            x->then[0] != '\0' ? x->then : "-", x->fate == NULL ? x->list : "=");
        for (size_t k = 0; x->fate != NULL && k < f->n_value; k++)
            to[at++] = (char)('0' + x->fate[k]);
        to[at++] = '\n';
    }
    *bytes = at;
    return to;
}

bool dti_auto_may_take(const dt_policy *p)
{
    return p != &dt_policy_auto && p->rung == NULL;
}

static bool is_known(const char *name)
{
    const dt_policy *p = dt_policy_find(name);
    return p != NULL && dti_auto_may_take(p);
}

static bool parse_fates(dti_found *x, const char *from, size_t n)
{
    x->fate = dt_alloc(n + 1, 1);
    for (size_t k = 0; x->fate != NULL && k < n; k++) {
        if (from[k] < '0' || from[k] >= '0' + DTI_FATES)
            return false;
        x->fate[k] = (uint8_t)(from[k] - '0');
    }
    return x->fate != NULL && from[n] == '\n';
}

static bool parse_plan(dti_found *x, const char *line, size_t n_value)
{
    int offloads, encodes, recomputes, at = 0;
    char head[LINE]; /* sscanf measures all that is behind, which may be megabytes */
    snprintf(head, sizeof head, "%.*s", LINE - 1, line);
    const locale_t before = dt_c_locale_enter();
    const int got = sscanf(head,
        "%" SCNu64 " %" SCNu64 " %" SCNu64 " %d %d %d %" SCNu64 " %" SCNu64 " %" SCNu64
        " %la %63s %n",
        &x->aim, &x->budget, &x->early, &offloads, &encodes, &recomputes, &x->cost.device,
        &x->cost.tier[DT_TIER_HOST], &x->cost.tier[DT_TIER_DISK], &x->cost.seconds, x->then, &at);
    dt_c_locale_leave(before);
    const char *rest = line + at;
    const size_t n = strcspn(rest, "\n");
    if (got != 11 || at == 0 || !isfinite(x->cost.seconds) || !(x->cost.seconds > 0) ||
        rest[n] != '\n')
        return false;
    if (strcmp(x->then, "-") == 0)
        x->then[0] = '\0';
    else if (!is_known(x->then))
        return false;
    x->offloads = offloads != 0;
    x->encodes = encodes != 0;
    x->recomputes = recomputes != 0;
    if (rest[0] == '=')
        return n == n_value + 1 && parse_fates(x, rest + 1, n_value);
    snprintf(x->list, sizeof x->list, "%.*s", (int)(n < sizeof x->list ? n : 0), rest);
    return is_known(x->list);
}

dti_front *dti_front_parse(const char *text, size_t n_value)
{
    size_t n, values;
    uint64_t least, most;
    if (sscanf(text, "%zu %zu %" SCNu64 " %" SCNu64, &n, &values, &least, &most) != 4 || n == 0 ||
        n > strlen(text) / SHORTEST || values != n_value)
        return NULL;
    dti_front *f = create(n, n_value);
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        const char *end = strchr(text, '\n');
        ok = end != NULL && parse_plan(&f->plan[i], end + 1, n_value);
        text = ok ? end + 1 : text;
    }
    if (ok) {
        f->least = least;
        f->most = most;
        return f;
    }
    dti_front_destroy(f);
    return NULL;
}
