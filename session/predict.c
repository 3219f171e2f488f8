/* A session's costs, and what its plans take by them. */
#include "session/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "layers/onednn/onednn.h"
#include "memory/codec.h"
#include "memory/step_bound.h"
#include "memory/time/card_costs.h"
#include "session/environment.h"
#include "session/profile_cache.h"
#include "session/version.h"

dt_simulate_opts dti_session_simulate_opts(const dt_session *s)
{
    const bool card = s->context.device == DT_CUDA || s->costs.simulated;
    return (dt_simulate_opts){
        .inline_copies = !card && !s->opts.memory.copy_threads, .density = &s->densities};
}

void dti_session_origin(const dt_session *s, dt_origin *to)
{
    char name[DT_FACT_BYTES];
    *to = (dt_origin){.threads = s->context.device == DT_CUDA ? 0 : s->threads};
    snprintf(to->machine, sizeof to->machine, "%s",
        s->context.device == DT_CUDA ? s->card.about : dt_cpu_name(name));
    snprintf(to->isa, sizeof to->isa, "%s", dt_session_isa(s));
    snprintf(to->precision, sizeof to->precision, "%s", dt_session_precision(s));
    snprintf(to->library, sizeof to->library, "%s", dt_onednn_version());
    snprintf(to->version, sizeof to->version, "%s", dt_version());
    snprintf(to->network, sizeof to->network, "%s", s->graph->name);
}

/* ---- what the configuration says ---- */

static dt_status read_profile(dt_session *s, const char *path, bool *measured, dt_err *err)
{
    dt_origin file, here;
    DT_CHECK(dt_profile_read(&s->costs, &s->densities, &file, measured, path, err));
    if (!*measured || s->opts.memory.any_profile)
        return DT_OK;
    dti_session_origin(s, &here);
    return dt_origin_same(&file, &here, path, err);
}

static dt_status read_named(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    bool measured;
    DT_TRY(err, read_profile(s, s->opts.memory.profile, &measured, err), "%s",
        dt_session_asked(asked, s, "memory", "profile"));
    return DT_OK;
}

/* A run goes without one that cannot be read. */
static dt_status read_kept(dt_session *s, dt_err *err)
{
    char path[DT_CACHE_PATH];
    dt_err why = {0};
    bool measured = true;
    dt_status st = dt_profile_kept(s, path, &why);
    if (st == DT_OK && access(path, F_OK) != 0) {
        snprintf(s->note, sizeof s->note,
            "memory.profile = auto: there is none of this machine and network; 'dnntrain profile "
            "CONFIG --keep' makes one");
        return DT_OK;
    }
    if (st == DT_OK)
        st = read_profile(s, path, &measured, &why);
    if (st == DT_OK && !measured)
        st = DT_FAIL(&why, DT_E_DATA, "%s: no profile", path);
    if (st == DT_E_NOMEM)
        return DT_FAIL(err, st, "no memory for the profile that is kept");
    if (st == DT_OK)
        return DT_OK;
    dt_costs_deinit(&s->costs);
    dt_densities_close(&s->densities);
    s->costs = dt_costs_default;
    snprintf(s->note, sizeof s->note, "memory.profile = auto: none is taken: %.*s",
        (int)strcspn(why.text, "\n"), why.text);
    return DT_OK;
}

static const char *card_name(size_t i)
{
    size_t n;
    return dt_card_speed_all(&n)[i].name;
}

static dt_status take_card(dt_session *s, dt_err *err)
{
    size_t n;
    (void)dt_card_speed_all(&n);
    const dt_card_speed *card = dt_card_speed_find(s->opts.memory.simulate);
    dt_costs of_card;
    if (card == NULL)
        return dti_session_unknown(s, "memory", "simulate", "card", n, card_name, err);
    dt_costs_of_card(&of_card, card);
    dt_costs_deinit(&s->costs);
    s->costs = of_card;
    return DT_OK;
}

/* ---- a step ---- */

static void add(dt_prediction *to, const dt_planned *x, const dt_timeline *t, double times)
{
    double longest = 0;
    for (int k = 0; k < DT_MAX_STREAMS; k++)
        longest = t->alone[k] > longest ? t->alone[k] : longest;
    to->seconds += times * t->seconds;
    to->compute += times * t->alone[DT_COMPUTE_STREAM];
    to->stalled += times * t->stalled;
    to->bound += times * longest;
    to->average += times * t->average * t->seconds;
    for (size_t i = 0; i < t->n; i++)
        if (x->plan->row[i].kind == DT_ROW_COMPUTE)
            to->share[t->source[i]] += times * (t->end[i] - t->begin[i]);
}

static dt_status predict_by(
    const dt_plan_set *p, const dt_costs *c, dt_prediction *out, dt_err *err)
{
    const dt_simulate_opts o = dti_session_simulate_opts(p->session);
    double parts = 0;
    *out = (dt_prediction){.known = c->simulated || c->hash[0] != '\0'};
    for (size_t i = 0; i < p->n; i++) {
        const dt_planned *x = p->planned[i];
        const double times = (double)dti_plan_set_times(p, x);
        dt_timeline t;
        if (times <= 0)
            continue;
        const dt_status st = dt_simulate(&t, x->plan, c, &o, err);
        if (st == DT_OK)
            add(out, x, &t, times);
        dt_timeline_deinit(&t);
        DT_CHECK(st);
    }
    out->average = out->seconds > 0 ? out->average / out->seconds : 0;
    for (int k = 0; k < DT_COST_SOURCES; k++)
        parts += out->share[k];
    for (int k = 0; k < DT_COST_SOURCES && parts > 0; k++)
        out->share[k] /= parts;
    out->seconds += c->rest;
    out->bound += c->rest;
    out->rate = out->seconds > 0 ? (double)p->asked.batch / out->seconds : 0;
    return DT_OK;
}

/* ---- what it moves ---- */

/* The codec of a copied value whose size goes by its zeros; NULL: it has another, or none. */
static const dt_codec *sparse_codec(const dt_row *r)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    const bool packed = r->codec > 0 && (size_t)r->codec <= n;
    return packed && all[r->codec - 1]->sparse ? all[r->codec - 1] : NULL;
}

static void add_copy(
    dt_traffic *to, const dt_session *s, const dt_plan *p, const dt_row *r, uint64_t times)
{
    const dt_codec *codec = sparse_codec(r);
    const bool out = r->kind == DT_ROW_COPY_OUT;
    uint64_t bytes = r->tier == DT_TIER_INPUT ? r->bytes : r->stored;
    if (codec != NULL) {
        const double mean = dt_densities_mean(&s->densities, p->tensor[r->tensor].name);
        const uint64_t packed = dt_packed_bytes(codec, r->bytes / sizeof(float), mean);
        bytes = mean >= 0 && packed < bytes ? packed : bytes;
        to->room += out ? times * r->stored : 0;
        to->unknown += out && mean < 0 ? times * r->stored : 0;
    }
    *(out ? &to->out : &to->in) += times * bytes;
}

dt_traffic dt_plan_set_traffic(const dt_plan_set *p)
{
    dt_traffic sum = {0};
    for (size_t i = 0; i < p->n; i++) {
        const dt_plan *x = p->planned[i]->plan;
        const int64_t times = dti_plan_set_times(p, p->planned[i]);
        for (size_t k = 0; times > 0 && k < x->n_row; k++)
            if (x->row[k].kind == DT_ROW_COPY_OUT || x->row[k].kind == DT_ROW_COPY_IN)
                add_copy(&sum, p->session, x, &x->row[k], (uint64_t)times);
    }
    return sum;
}

/* ---- what no plan is below ---- */

static dt_status bound_of(const dt_plan_set *kept, uint64_t budget, double *seconds, dt_err *err)
{
    const dt_session *s = kept->session;
    const dt_simulate_opts o = dti_session_simulate_opts(s);
    const dt_pass_env env = {.machine = &o,
        .density = s->densities.n > 0 ? &s->densities : NULL,
        .pool = dt_pool_find(s->opts.memory.pool),
        .costs = kept->asked.costs};
    *seconds = s->costs.rest;
    for (size_t i = 0; i < kept->n; i++) {
        const dt_planned *x = kept->planned[i];
        const double times = (double)dti_plan_set_times(kept, x);
        dt_timeline t = {0};
        double least = 0;
        if (times <= 0)
            continue;
        dt_status st = x->kind == DT_PROGRAM_UPDATE
                           ? dt_simulate(&t, x->plan, &s->costs, &o, err)
                           : dt_step_bound(x->program, &env, budget, &least, err);
        *seconds += times * (x->kind == DT_PROGRAM_UPDATE ? t.alone[DT_COMPUTE_STREAM] : least);
        dt_timeline_deinit(&t);
        DT_CHECK(st);
    }
    return DT_OK;
}

dt_status dt_plan_set_bound(const dt_plan_set *p, uint64_t budget, double *seconds, dt_err *err)
{
    dt_policies keep_all;
    dt_plan_set *kept = NULL;
    dt_plan_request r = p->asked;
    r.policies = &keep_all;
    r.fates = NULL;
    r.given = NULL;
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    if (st == DT_OK)
        st = dt_plan_set_create(&kept, p->session, &r, err);
    if (st == DT_OK)
        st = dt_plan_set_run(kept, false, 0, 0, err);
    if (st == DT_OK)
        st = bound_of(kept, budget > 0 ? budget : UINT64_MAX, seconds, err);
    dt_plan_set_destroy(kept);
    dt_policies_close(&keep_all);
    return st;
}

/* ---- calibration ---- */

/* The scale by which a step of these plans takes so many seconds. Seconds grow with it. */
static dt_status find_scale(const dt_plan_set *kept, dt_costs *c, double seconds, dt_err *err)
{
    const double least = 1e-4, most = 1e4, off = 1e-3;
    double low = least, high = most;
    dt_prediction at = {.seconds = 0};
    for (int i = 0; i < 60; i++) {
        c->scale = (low + high) / 2;
        DT_CHECK(predict_by(kept, c, &at, err));
        *(at.seconds < seconds ? &low : &high) = c->scale;
    }
    if (fabs(at.seconds - seconds) <= off * seconds)
        return DT_OK;
    const dt_session *s = kept->session;
    char asked[DT_ASKED];
    return DT_FAIL(err, DT_E_CONFIG,
        "%s: with ops taking from %g to %g of what %s's constants say, keep_all comes to %.3g "
        "samples a second at %s; is it that network's rate, in samples a second?",
        dt_session_asked(asked, s, "memory", "calibrate"), least, most, s->opts.memory.simulate,
        at.rate, at.seconds > seconds ? "most" : "least");
}

/* By a step that keeps all, with everything else as it is asked for. */
static dt_status calibrate(dt_session *s, dt_err *err)
{
    dt_costs c = s->costs; /* borrows its tables */
    dt_policies keep_all;
    dt_plan_set *kept = NULL;
    dt_plan_request r = dt_session_request(s);
    r.policies = &keep_all;
    r.fates = NULL;
    r.batch = s->opts.train.batch;
    r.micro_batch = s->opts.train.batch;
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    if (st == DT_OK)
        st = dt_plan_set_create(&kept, s, &r, err);
    if (st == DT_OK)
        st = dt_plan_set_run(kept, false, 0, 0, err);
    if (st == DT_OK)
        st = find_scale(kept, &c, (double)r.batch / s->opts.memory.calibrate, err);
    s->costs.scale = st == DT_OK ? c.scale : 1;
    dt_plan_set_destroy(kept);
    dt_policies_close(&keep_all);
    return st;
}

dt_status dti_session_read_costs(dt_session *s, dt_err *err)
{
    const dt_memory_opts *m = &s->opts.memory;
    char asked[DT_ASKED];
    s->costs = dt_costs_default;
    if (m->profile != NULL && strcmp(m->profile, "auto") == 0)
        DT_CHECK(read_kept(s, err));
    else if (m->profile != NULL)
        DT_CHECK(read_named(s, err));
    if (m->simulate != NULL)
        DT_CHECK(take_card(s, err));
    else if (m->calibrate > 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: it scales a card's constants: set memory.simulate",
            dt_session_asked(asked, s, "memory", "calibrate"));
    return m->calibrate > 0 ? calibrate(s, err) : DT_OK;
}

dt_status dt_plan_set_predict(const dt_plan_set *p, dt_prediction *out, dt_err *err)
{
    return predict_by(p, &p->session->costs, out, err);
}

double dt_predict_moving(const dt_session *s, double ops, double bytes)
{
    const dt_simulate_opts o = dti_session_simulate_opts(s);
    const dt_tier tier = dt_session_request(s).tier == DT_TO_DISK ? DT_TIER_DISK : DT_TIER_HOST;
    const bool here = o.inline_copies && tier == DT_TIER_HOST;
    const dt_link *link = here ? s->costs.link[tier] : s->costs.thread_link[tier];
    const double out = bytes / link[DT_TO_TIER].rate, in = bytes / link[DT_FROM_TIER].rate;
    if (here)
        return ops + out + in;
    const double longer = out > in ? out : in;
    return ops > longer ? ops : longer;
}

dt_status dt_session_simulate(const dt_session *s, const dt_plan *p, dt_timeline *out, dt_err *err)
{
    const dt_simulate_opts o = dti_session_simulate_opts(s);
    return dt_simulate(out, p, &s->costs, &o, err);
}
