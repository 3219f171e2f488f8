/* Plans made once, and checked against what the configuration asks of a step. */
#include "session/run_plans.h"

#include <stdio.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/kept.h"

/* Whether a step that clips or finds out late that a number is none can be taken back. */
static dt_status check_early(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED], name[DT_HOME_NAME_BYTES];
    const dt_train_opts *t = &s->opts.train;
    const dt_map *m = s->plans->map;
    int32_t why;
    if (!m->early || (t->clip <= 0 && !t->finite))
        return DT_OK;
    if (!dt_map_undoes(m, &why))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: a step that is clipped or looked at (clip = %g, finite = %s) must be one that can "
            "be discarded, and %s, whose home is the %s, has one generation: add '* = home disk' "
            "under [memory.layers], or set clip = 0 and finite = off, or update = step",
            dt_session_asked(asked, s, "train", "update"), t->clip, t->finite ? "on" : "off",
            dt_home_name(&m->home[why], name),
            m->home[why].tier == DT_AT_DEVICE ? "device" : dt_tier_name((int)m->home[why].tier));
    if (s->context.device != DT_CPU)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: a card does not tell how large the gradients of early updates were; set clip = 0 "
            "and finite = off, or update = step",
            dt_session_asked(asked, s, "train", "update"));
    return DT_OK;
}

bool dti_cannot_run_again(const dt_plan_set *p)
{
    bool may = false;
    for (size_t i = 0; i < p->n; i++)
        may = may || (p->planned[i]->dense && p->planned[i]->kind == DT_PROGRAM_FIRST);
    return may && p->map->early && !dt_map_undoes(p->map, NULL);
}

/* Whether a step can be run again whose packed values do not fit. */
static dt_status check_again(const dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    if (!dti_cannot_run_again(s->plans))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: a step whose packed values do not fit is run again, which updates that are "
        "made cannot be; set density = 1 for the policy that packs, or update = step, or, "
        "with all that lives on on the disk, memory.generations = 2",
        dt_session_asked(asked, s, "train", "update"));
}

/* What updates that take the gradients of the step before cannot go with. */
static dt_status check_delayed(const dt_session *s, dt_err *err)
{
    char place[512], name[DT_HOME_NAME_BYTES];
    const char *file = NULL, *why = NULL;
    int line = 0;
    const dt_map *m = s->plans->map;
    if (!m->delayed)
        return DT_OK;
    dt_config_get(s->config, "policy.zero_offload", "delay", &file, &line);
    if (s->micro_batch < s->opts.train.batch)
        why = "gradients of several micro-batches are added up where they live; set micro_batch = "
              "batch";
    else if (m->early)
        why = "with train.update = early no gradient waits; set update = step";
    else if (s->opts.train.dump_gradients != NULL)
        why = "train.dump_gradients is of the gradients that a step takes; leave one of them out";
    else if (s->context.device != DT_CPU)
        why = "it is for a processor; set delay = off";
    for (size_t i = 0; i < m->n && why == NULL; i++)
        if (m->home[i].port == DT_DP && m->home[i].next == m->home[i].off)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: [policy.zero_offload] delay = on: %s lives on the %s and not on the host; "
                "take "
                "it out of [memory.layers]",
                dt_config_place(place, sizeof place, file, line), dt_home_name(&m->home[i], name),
                m->home[i].tier == DT_AT_DEVICE ? "device" : dt_tier_name((int)m->home[i].tier));
    return why == NULL ? DT_OK
                       : DT_FAIL(err, DT_E_CONFIG, "%s: [policy.zero_offload] delay = on: %s",
                             dt_config_place(place, sizeof place, file, line), why);
}

/* The set of the run's own plans. */
static dt_status own_plans(dt_session *s, dt_err *err)
{
    dt_plan_request r = dt_session_request(s);
    r.kept = true;
    if (s->plans != NULL)
        return DT_OK;
    DT_CHECK(dt_plan_set_create(&s->plans, s, &r, err));
    dt_status st = check_early(s, err);
    if (st == DT_OK)
        st = check_delayed(s, err);
    if (st != DT_OK)
        dti_session_forget(s);
    return st;
}

dt_status dti_session_plan(
    dt_session *s, dt_program_kind kind, int64_t n, const dt_planned **out, dt_err *err)
{
    DT_CHECK(own_plans(s, err));
    DT_CHECK(dt_plan_set_add(s->plans, kind, n, out, err));
    return check_again(s, err);
}

dt_status dt_session_plan_run(
    dt_session *s, bool eval, int64_t last, int64_t eval_last, dt_err *err)
{
    DT_CHECK(own_plans(s, err));
    dt_status st = dti_plan_set_run(s->plans, eval, last, eval_last, err);
    if (st == DT_OK)
        st = check_again(s, err);
    if (s->notice != NULL && dt_kept_note(s->kept)[0] != '\0')
        s->notice(dt_kept_note(s->kept));
    return st;
}

dt_status dti_session_take_plans(dt_session *s, const char *path, dt_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    dti_session_forget(s);
    dt_plans_deinit(&s->given);
    dt_free(s->given_by);
    s->given_by = dt_strdup(path);
    if (s->given_by == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for plans");
    DT_CHECK(dt_read_file(&text, &bytes, path, DT_PLANS_TEXT_BYTES, DT_E_DATA, err));
    const dt_status st = dt_plans_parse(&s->given, path, text, bytes, err);
    dt_free(text);
    return st;
}

void dti_session_forget(dt_session *s)
{
    dt_plan_set_destroy(s->plans);
    s->plans = NULL;
}
