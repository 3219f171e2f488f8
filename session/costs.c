/* What the configuration says of costs, and their scale. */
#include "session/costs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/time/card_costs.h"
#include "memory/time/cost_file.h"
#include "session/origin.h"
#include "session/own_card.h"
#include "session/plan_set.h"
#include "session/profile_cache.h"

/* ---- what the configuration says ---- */

/* What is taken although it was measured elsewhere is taken with a word. Whether it was. */
static bool note_origin(
    dt_session *s, const dt_origin *file, const dt_origin *here, const char *path)
{
    char what[DT_ORIGIN_DIFFERS];
    if (!dt_origin_differs(file, here, what))
        return false;
    dti_session_note(
        s, "%.150s: measured elsewhere, and memory.any_profile = on: %.300s", path, what);
    return true;
}

/* Of one version, but maybe of other kernels: a commit may change what an op takes. */
static void note_build(
    dt_session *s, const dt_origin *file, const dt_origin *here, const char *path)
{
    if (dt_origin_other_build(file, here))
        dti_session_note(s,
            "%.150s: measured by build %.40s of this version, and this is %.40s; if ops changed "
            "since, 'dnntrain profile' measures them anew",
            path, file->build, here->build);
}

static dt_status read_profile(dt_session *s, const char *path, bool *measured, dt_err *err)
{
    dt_origin file, here;
    DT_CHECK(dt_profile_read(&s->costs, &s->densities, &file, measured, path, err));
    if (!*measured)
        return DT_OK;
    dti_session_origin(s, &here);
    if (s->opts.memory.any_profile) {
        if (!note_origin(s, &file, &here, path))
            note_build(s, &file, &here, path);
        return DT_OK;
    }
    DT_CHECK(dt_origin_same(&file, &here, path, err));
    note_build(s, &file, &here, path);
    return DT_OK;
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
        dti_session_note(s,
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
    dti_session_note(
        s, "memory.profile = auto: none is taken: %.*s", (int)strcspn(why.text, "\n"), why.text);
    return DT_OK;
}

/* ---- cards ---- */

static dt_status unknown_card(const dt_session *s, dt_err *err)
{
    enum { MOST = 64 };
    const char *names[MOST + 2] = {dti_own_card};
    const char *const *all = dt_card_speed_names();
    for (size_t n = 1; n <= MOST && all[n - 1] != NULL; n++)
        names[n] = all[n - 1];
    return dti_session_unknown(s, "memory", "simulate", "card", names, err);
}

static dt_status take_card(dt_session *s, dt_err *err)
{
    const char *name = s->opts.memory.simulate;
    const dt_card_speed *card = dt_card_speed_find(name);
    const bool is_own = strcmp(name, dti_own_card) == 0;
    dt_card_speed speed;
    if (card == NULL && !is_own)
        return unknown_card(s, err);
    if (is_own)
        DT_CHECK(dti_own_card_speed(s, &speed, err));
    else
        speed = *card;
    if (s->context.tf32)
        dt_card_take_tf32(&speed);
    dt_costs_deinit(&s->costs);
    dt_costs_of_card(&s->costs, &speed);
    if (is_own)
        dti_own_card_name(s, s->costs.name, sizeof s->costs.name);
    return DT_OK;
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
        DT_CHECK(dti_plan_set_predict_by(kept, c, &at, err));
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
        st = dti_plan_set_run(kept, false, 0, 0, err);
    if (st == DT_OK)
        st = find_scale(kept, &c, (double)r.batch / s->opts.memory.calibrate, err);
    s->costs.scale = st == DT_OK ? c.scale : 1;
    dt_plan_set_destroy(kept);
    dt_policies_close(&keep_all);
    return st;
}

dt_status dti_session_read_costs(dt_session *s, double scale, dt_err *err)
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
    if (m->simulate == NULL || strcmp(m->simulate, dti_own_card) != 0)
        DT_CHECK(dti_own_card_unused(s, err));
    if (m->simulate == NULL && m->calibrate > 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: it scales a card's constants: set memory.simulate",
            dt_session_asked(asked, s, "memory", "calibrate"));
    if (scale > 0)
        s->costs.scale = scale;
    return m->calibrate > 0 && !(scale > 0) ? calibrate(s, err) : DT_OK;
}
