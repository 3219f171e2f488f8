/* What updates that are made early, or a step late, cannot go with. */
#include "session/plan_set/plan_set_internal.h"

#include <stdio.h>

/* Whether a step that clips or finds out late that a number is none can be taken back. */
static dt_status check_early(const dt_plan_set *p, dt_err *err)
{
    char asked[DT_ASKED], name[DT_HOME_NAME_BYTES];
    const dt_session *s = p->session;
    const dt_train_opts *t = &s->opts.train;
    const dt_map *m = p->map;
    int32_t why;
    if (t->update == DT_UPDATE_EARLY && p->asked.micro_batch < p->asked.batch)
        return DT_FAIL(err, DT_E_CONFIG, "%s: " DT_EARLY_WANTS_ONE_PART,
            dt_session_asked(asked, s, "train", "update"));
    if (!m->early || (t->clip <= 0 && !t->finite))
        return DT_OK;
    if (!dt_map_undoes(m, &why))
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: a step that is clipped or looked at (clip = %g, finite = %s) must be one that can "
            "be discarded, and %s, whose home is the %s, has one generation: add '* = home disk' "
            "under [memory.layers], or set clip = 0 and finite = off, or update = step",
            dt_session_asked(asked, s, "train", "update"), t->clip, t->finite ? "on" : "off",
            dt_home_name(&m->home[why], name), dt_place_name((int)m->home[why].tier));
    if (s->context.device != DT_CPU)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s: a card does not tell how large the gradients of early updates were; set clip = 0 "
            "and finite = off, or update = step",
            dt_session_asked(asked, s, "train", "update"));
    return DT_OK;
}

/* What updates that take the gradients of the step before cannot go with. */
static dt_status check_delayed(const dt_plan_set *p, dt_err *err)
{
    char place[512], name[DT_HOME_NAME_BYTES], section[DT_NAME_BYTES];
    const char *file = NULL, *why = NULL, *by;
    int line = 0;
    const dt_session *s = p->session;
    const dt_map *m = p->map;
    if (dt_policies_delay(p->policies, &by) < 0)
        return DT_OK;
    snprintf(section, sizeof section, "policy.%s", by);
    dt_config_get(s->config, section, "delay", &file, &line);
    if (p->asked.micro_batch < p->asked.batch)
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
                "%s: [%s] delay = on: %s lives on the %s and not on the host; take it out of "
                "[memory.layers], and name %s behind other policies in memory.policy",
                dt_config_place(place, sizeof place, file, line), section,
                dt_home_name(&m->home[i], name), dt_place_name((int)m->home[i].tier), by);
    return why == NULL ? DT_OK
                       : DT_FAIL(err, DT_E_CONFIG, "%s: [%s] delay = on: %s",
                             dt_config_place(place, sizeof place, file, line), section, why);
}

/* Whether a step can be run again whose packed values do not fit. */
static dt_status check_again(const dt_plan_set *p, dt_err *err)
{
    char asked[DT_ASKED];
    bool may = false;
    for (size_t i = 0; i < p->n; i++)
        may = may || (p->planned[i]->dense && p->planned[i]->kind == DT_PROGRAM_FIRST);
    if (!may || !p->map->early || dt_map_undoes(p->map, NULL))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: a step whose packed values do not fit is run again, which updates that are made "
        "cannot be; leave the policy out that packs values by their zeros, or set update = step, "
        "or, with all that outlives a step on the disk, memory.generations = 2",
        dt_session_asked(asked, p->session, "train", "update"));
}

dt_status dti_plan_set_check_updates(const dt_plan_set *p, dt_err *err)
{
    DT_CHECK(check_early(p, err));
    DT_CHECK(check_delayed(p, err));
    return check_again(p, err);
}
