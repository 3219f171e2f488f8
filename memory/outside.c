/* Policies from outside: include/dnntrain/policy.h over the passes of pass.h. */
#include <dnntrain/policy.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "engine/config/outside.h"
#include "memory/pass.h"
#include "memory/policy.h"

bool dt_saved_next(const dt_program *p, dt_saved *s)
{
    dti_gap g;
    if (p == NULL || s == NULL || s->next < 0)
        return false;
    for (int32_t t = s->next; t < (int32_t)p->n_tensor; t++) {
        if (p->tensor[t].of != DT_NONE || !dti_gap_crossing(p, t, &g))
            continue;
        const dt_op *made = &p->op[dti_producer(p, t)];
        if (made->kind == DT_OP_ENCODE) /* a pass that packs has seen the value */
            continue;
        *s = (dt_saved){.next = t + 1,
            .tensor = t,
            .name = p->tensor[t].name,
            .layer = made->desc != NULL && made->node != DT_NONE ? made->desc->name : "",
            .bytes = p->tensor[t].bytes,
            .flops = made->flops,
            .repeatable = dti_repeatable(p, t)};
        return true;
    }
    s->next = (int32_t)p->n_tensor;
    return false;
}

static bool is_tensor(const dt_program *p, const dt_saved *s)
{
    return p != NULL && s != NULL && s->tensor >= 0 && s->tensor < (int32_t)p->n_tensor;
}

/* No layer makes it. */
static bool is_input(const dt_saved *s)
{
    return s->layer != NULL && s->layer[0] == '\0';
}

static dt_status find_gap(dt_program *p, const dt_saved *s, dti_gap *g, dt_err *err)
{
    if (p == NULL || s == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "the %s is NULL", p == NULL ? "program" : "dt_saved");
    if (!is_tensor(p, s))
        return DT_FAIL(err, DT_E_CONFIG,
            "there is no tensor %d; take values as dt_saved_next gives them", (int)s->tensor);
    if (!dti_gap_crossing(p, s->tensor, g))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' does not wait for backward, here or any more: each value is dealt with once",
            p->tensor[s->tensor].name);
    return dt_reasons_add(&p->reasons, &g->reason, err, "%s: %s", p->policy,
        s->reason != NULL ? s->reason : "waits for backward");
}

dt_status dt_saved_offload(dt_program *p, const dt_saved *s, dt_err *err)
{
    dti_gap g;
    DT_CHECK(find_gap(p, s, &g, err));
    return dti_offload(p, &g, NULL, err);
}

dt_status dt_saved_recompute(dt_program *p, const dt_saved *s, dt_err *err)
{
    dti_gap g;
    DT_CHECK(find_gap(p, s, &g, err));
    if (!dti_repeatable(p, s->tensor))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' cannot be made again, which dt_saved.repeatable says; keep it, or offload it",
            p->tensor[s->tensor].name);
    return dti_recompute(p, &g, NULL, err);
}

dt_status dt_saved_encode(
    dt_program *p, const dt_saved *s, const char *codec, double density, dt_err *err)
{
    dti_gap g;
    int32_t packed;
    const dt_pass_env e = {.dense = p->dense};
    DT_CHECK(find_gap(p, s, &g, err));
    if (codec == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "the name of a codec is NULL");
    const dt_codec *c = dti_codec_find(codec);
    if (c == NULL && dt_codec_wants(codec) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "codec '%s': this program was built without %s", codec,
            dt_codec_wants(codec));
    if (c == NULL || !(density > 0 && density <= 1))
        return DT_FAIL(err, DT_E_CONFIG, "codec '%s' with density %g: %s", codec, density,
            c == NULL ? "there is none of that name" : "it must be in (0, 1]");
    if (!c->exact && p->graph->dtype != DT_F32)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s rounds values of 32 bits, but train.precision is %s here; take a codec that is "
            "exact, as zvc, or train.precision = fp32",
            c->name, dt_dtype_name(p->graph->dtype));
    return dt_packs(&p->tensor[s->tensor]) ? dti_pass_encode(p, &e, &g, c, density, &packed, err)
                                           : DT_OK;
}

double dt_saved_offload_seconds(const dt_pass_env *e, const dt_saved *s)
{
    if (e == NULL || s == NULL)
        return 0;
    if (is_input(s))
        return dti_pass_copy_seconds(e, DT_TIER_INPUT, DT_ROW_COPY_IN, s->bytes);
    return dti_pass_store_seconds(e, s->bytes) + dti_pass_fetch_seconds(e, s->bytes);
}

/* Of the ops behind the first @n, which are those that run again. */
static dt_status seconds_behind(
    const dt_pass_env *e, dt_program *q, size_t n, double *sum, dt_err *err)
{
    double *seconds = dt_alloc(q->n_op + 1, sizeof *seconds);
    const dt_status st =
        seconds != NULL ? dti_pass_op_seconds(e, q, seconds, err) : dti_pass_no_memory(err);
    *sum = 0;
    for (size_t i = n; st == DT_OK && i < q->n_op; i++)
        *sum += seconds[i];
    dt_free(seconds);
    return st;
}

/* What would run again is found by doing so on a copy. */
double dt_saved_recompute_seconds(const dt_program *p, const dt_pass_env *e, const dt_saved *s)
{
    dti_gap g;
    dt_program *q = NULL;
    double seconds = 0;
    if (e == NULL || !is_tensor(p, s) || !dti_gap_crossing(p, s->tensor, &g) ||
        !dti_repeatable(p, s->tensor))
        return HUGE_VAL;
    dt_status st = dt_program_copy(&q, p, NULL);
    if (st == DT_OK)
        st = dti_recompute(q, &g, NULL, NULL);
    if (st == DT_OK)
        st = seconds_behind(e, q, p->n_op, &seconds, NULL);
    dt_program_destroy(q);
    return st == DT_OK ? seconds : HUGE_VAL;
}

const void *dt_policy_options(const dt_pass_env *e)
{
    return e != NULL ? e->opts : NULL;
}

uint64_t dt_policy_budget(const dt_pass_env *e)
{
    return e != NULL ? e->budgets.device : 0;
}

static struct {
    dt_policy policy;
    dt_opt row[DT_OUTSIDE_OPTIONS + 1];
} outside[DT_OUTSIDE_POLICIES];
static size_t n_outside;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER; /* of both */

/* The caller holds the lock. */
static dt_status add(const dt_policy_spec *s, dt_err *err)
{
    if (dt_policy_find(s->name) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "policy '%s': there is one of that name", s->name);
    if (n_outside == DT_OUTSIDE_POLICIES)
        return DT_FAIL(
            err, DT_E_CONFIG, "policy '%s': %d are registered already", s->name, (int)n_outside);
    dt_opt *row = outside[n_outside].row;
    for (size_t i = 0; i < s->n_options; i++)
        row[i] = s->options[i];
    outside[n_outside].policy = (dt_policy){.name = s->name,
        .summary = s->summary,
        .exact = s->exact,
        .outside = true,
        .opts = s->n_options > 0 ? row : NULL,
        .opts_bytes = s->options_bytes,
        .pass = s->pass};
    dti_policy_add(&outside[n_outside++].policy);
    return DT_OK;
}

dt_status dt_register_policy(const dt_policy_spec *s, dt_err *err)
{
    if (s == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "a policy's dt_policy_spec is NULL");
    DT_CHECK(dt_outside_check("policy", s->name, s->options, s->n_options, s->options_bytes, err));
    if (s->pass == NULL || s->summary == NULL)
        return DT_FAIL(err, DT_E_CONFIG, "policy '%s': it needs a summary and a pass", s->name);
    pthread_mutex_lock(&registering);
    const dt_status st = add(s, err);
    pthread_mutex_unlock(&registering);
    return st;
}
