/* The largest part of a batch that a policy's rule allows, by bisection. */
#include "session/parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/config/config.h"
#include "session/plan_set.h"

/* A choice under way; @keep_all: under which programs are asked about. */
typedef struct choice {
    dt_session *s;
    const dt_parts *parts;
    const void *opts;
    dt_policies keep_all;
} choice;

static dt_status fits(const choice *c, int64_t samples, bool *yes, dt_err *err)
{
    const dt_session *s = c->s;
    dt_plan_set *set = NULL;
    dt_program *program = NULL;
    dt_plan_request r = dt_session_request(s);
    r.policies = &c->keep_all;
    r.fates = NULL;
    r.given = NULL;
    r.micro_batch = samples;
    r.algorithms = DT_ALGORITHMS_FAST;
    const dt_program_kind kind = samples < r.batch ? DT_PROGRAM_AGAIN : DT_PROGRAM_FIRST;
    const dt_pass_env env = {.opts = c->opts, .budgets = r.budgets};
    dt_status st = dt_plan_set_create(&set, s, &r, err);
    if (st == DT_OK)
        st = dti_plan_set_program(set, kind, samples, &program, err);
    if (st == DT_OK)
        st = c->parts->fit(program, &env, yes, err);
    dt_program_destroy(program);
    dt_plan_set_destroy(set);
    return st;
}

/* The most samples that fit; 1 where even that does not. */
static dt_status find_most(const choice *c, int64_t *most, dt_err *err)
{
    int64_t low = 1, high = c->s->opts.train.batch;
    bool yes = false;
    DT_CHECK(fits(c, high, &yes, err));
    while (!yes && low < high - 1) {
        const int64_t mid = low + (high - low) / 2;
        bool mid_fits = false;
        DT_CHECK(fits(c, mid, &mid_fits, err));
        if (mid_fits)
            low = mid;
        else
            high = mid;
    }
    *most = yes ? high : low;
    return DT_OK;
}

static dt_status choose(choice *c, dt_err *err)
{
    int64_t most = 0;
    dt_session *s = c->s;
    const int64_t batch = s->opts.train.batch;
    DT_CHECK(dt_policies_open(&c->keep_all, "keep_all", NULL, err));
    DT_CHECK(find_most(c, &most, err));
    s->micro_batch = most < batch ? c->parts->round(most) : batch;
    while (batch % s->micro_batch != 0)
        s->micro_batch--;
    return DT_OK;
}

/* The first policy that takes a batch in parts, or their number. */
static size_t find_rule(const dt_policies *p)
{
    size_t i = 0;
    while (i < p->n && p->pass[i].policy->parts == NULL)
        i++;
    return i;
}

bool dti_session_names_parts(const dt_session *s)
{
    int64_t n = 0;
    int line;
    const char *file, *text = dt_config_get(s->config, "train", "micro_batch", &file, &line);
    return text != NULL && (!dt_parse_i64(text, &n) || n != 0);
}

static void note(dt_session *s, const char *policy)
{
    if (s->micro_batch == s->opts.train.batch)
        return;
    s->parts_by = policy;
    dti_session_note(s,
        "policy %s takes batches of %" PRId64 " in parts: train.micro_batch = %" PRId64 "%s",
        policy, s->opts.train.batch, s->micro_batch,
        dt_graph_batch_statistics(s->graph) ? ", over which batch norms have their statistics"
                                            : "");
}

bool dti_session_leaves_parts_to(const dt_session *s, const dt_policies *p)
{
    return find_rule(p) < p->n && !dti_session_names_parts(s) &&
           s->opts.train.update != DT_UPDATE_EARLY && s->opts.memory.account == NULL;
}

dt_status dti_session_choose_parts(dt_session *s, dt_err *err)
{
    const dt_policies *p = &s->policies;
    const size_t i = find_rule(p);
    if (!dti_session_leaves_parts_to(s, p))
        return DT_OK;
    choice c = {.s = s, .parts = p->pass[i].policy->parts, .opts = p->pass[i].opts};
    const dt_status st = choose(&c, err);
    dt_policies_close(&c.keep_all);
    if (st == DT_OK)
        note(s, p->pass[i].policy->name);
    return st;
}

const char *dt_session_exact_for(char to[DT_PARTS_TEXT], const dt_session *s)
{
    to[0] = '\0';
    if (s->parts_by != NULL)
        snprintf(to, DT_PARTS_TEXT,
            "for parts of %" PRId64 ", as keep_all with train.micro_batch = %" PRId64,
            s->micro_batch, s->micro_batch);
    return to;
}
