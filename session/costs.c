/* What the configuration says of costs, and their scale. */
#include "session/costs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/time/card_costs.h"
#include "memory/time/cost_file.h"
#include "session/origin.h"
#include "session/plan_set.h"
#include "session/profile_cache.h"

/* ---- what the configuration says ---- */

/* What is taken although it was measured elsewhere is taken with a word. */
static void note_origin(
    dt_session *s, const dt_origin *file, const dt_origin *here, const char *path)
{
    char what[DT_ORIGIN_DIFFERS];
    if (dt_origin_differs(file, here, what))
        snprintf(s->note, sizeof s->note,
            "%.150s: measured elsewhere, and memory.any_profile = on: %.300s", path, what);
}

/* Of one version, but maybe of other kernels: a commit may change what an op takes. */
static void note_build(
    dt_session *s, const dt_origin *file, const dt_origin *here, const char *path)
{
    if (s->note[0] == '\0' && dt_origin_other_build(file, here))
        snprintf(s->note, sizeof s->note,
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
        note_origin(s, &file, &here, path);
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

/* ---- cards ---- */

static const char own[] = "own";

static dt_status unknown_card(const dt_session *s, dt_err *err)
{
    enum { MOST = 64 };
    const char *names[MOST + 2] = {own};
    const char *const *all = dt_card_speed_names();
    for (size_t n = 1; n <= MOST && all[n - 1] != NULL; n++)
        names[n] = all[n - 1];
    return dti_session_unknown(s, "memory", "simulate", "card", names, err);
}

/* As much of a title as leaves the numbers room, and no part of a letter. */
static int title_bytes(const char *title)
{
    enum { MOST = 40 };
    size_t n = strlen(title);
    for (n = n < MOST ? n : MOST; n > 0 && ((unsigned char)title[n] & 0xc0) == 0x80; n--)
        ;
    return (int)n;
}

/* Title and numbers, so that no two that differ are called the same. */
static void name_own(const dt_card_opts *o, const dt_card_speed *like, char *to, size_t bytes)
{
    const struct {
        const char *key;
        double value;
    } said[] = {{"fp32", o->fp32}, {"half", o->half}, {"bandwidth", o->bandwidth},
        {"link", o->link}, {"disk_out", o->disk_out}, {"disk_in", o->disk_in}};
    size_t at = o->title != NULL
                    ? (size_t)snprintf(to, bytes, "%.*s", title_bytes(o->title), o->title)
                : like != NULL ? (size_t)snprintf(to, bytes, "like %.32s", like->title)
                               : (size_t)snprintf(to, bytes, "own card");
    for (size_t i = 0; i < DT_COUNT(said) && at < bytes; i++)
        if (said[i].value > 0)
            at += (size_t)snprintf(to + at, bytes - at, ", %s %.6g", said[i].key, said[i].value);
}

static dt_status lacks(const dt_session *s, const char *what, dt_err *err)
{
    char asked[DT_ASKED];
    return DT_FAIL(err, DT_E_CONFIG, "%s: [card] says no %s; give its number, or like = CARD",
        dt_session_asked(asked, s, "memory", "simulate"), what);
}

static bool is_said(double number)
{
    return number > 0;
}

/* Seconds are to stay numbers that one can read. */
static dt_status check_own(const dt_session *s, const dt_card_opts *o, dt_err *err)
{
    static const double least = 1e-3;
    const struct {
        const char *key;
        double value;
        bool wanted;
    } rows[] = {{"fp32", o->fp32, true}, {"half", o->half, false},
        {"bandwidth", o->bandwidth, true}, {"link", o->link, true},
        {"disk_out", o->disk_out, false}, {"disk_in", o->disk_in, false}};
    char asked[DT_ASKED];
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        if (rows[i].wanted && o->like == NULL && !is_said(rows[i].value))
            return lacks(s, rows[i].key, err);
        if (is_said(rows[i].value) && rows[i].value < least)
            return DT_FAIL(err, DT_E_CONFIG, "%s: must be 0, or %g and more",
                dt_session_asked(asked, s, "card", rows[i].key), least);
    }
    return DT_OK;
}

/* That of [card]: what a data sheet says, over the card that it is like. */
static dt_status take_own(dt_session *s, dt_costs *to, dt_err *err)
{
    const dt_card_opts *o = &s->opts.card;
    const dt_card_speed *like = o->like != NULL ? dt_card_speed_find(o->like) : NULL;
    const dt_card_sheet sheet = {o->fp32, o->half, o->bandwidth, o->link, o->disk_out, o->disk_in};
    dt_card_speed card = {.title = ""};
    if (o->like != NULL && like == NULL)
        return dti_session_unknown(s, "card", "like", "card", dt_card_speed_names(), err);
    DT_CHECK(check_own(s, o, err));
    if (like != NULL)
        card = *like;
    dt_card_take_sheet(&card, &sheet);
    dt_costs_of_card(to, &card);
    name_own(o, like, to->name, sizeof to->name);
    return DT_OK;
}

static dt_status take_card(dt_session *s, dt_err *err)
{
    const char *name = s->opts.memory.simulate;
    const dt_card_speed *card = dt_card_speed_find(name);
    const bool is_own = strcmp(name, own) == 0;
    dt_costs of_card;
    if (card == NULL && !is_own)
        return unknown_card(s, err);
    if (is_own)
        DT_CHECK(take_own(s, &of_card, err));
    else
        dt_costs_of_card(&of_card, card);
    dt_costs_deinit(&s->costs);
    s->costs = of_card;
    return DT_OK;
}

/* Its keys would be read by nobody. */
static dt_status check_no_card(const dt_session *s, dt_err *err)
{
    const dt_card_opts *o = &s->opts.card;
    const struct {
        const char *key;
        bool given;
    } rows[] = {{"title", o->title != NULL}, {"like", o->like != NULL}, {"fp32", is_said(o->fp32)},
        {"half", is_said(o->half)}, {"bandwidth", is_said(o->bandwidth)},
        {"link", is_said(o->link)}, {"disk_out", is_said(o->disk_out)},
        {"disk_in", is_said(o->disk_in)}};
    char asked[DT_ASKED];
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        if (rows[i].given)
            return DT_FAIL(err, DT_E_CONFIG,
                "%s: no card is simulated; set memory.simulate = own, or leave [card] out",
                dt_session_asked(asked, s, "card", rows[i].key));
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

dt_status dti_session_read_costs(dt_session *s, dt_err *err)
{
    const dt_memory_opts *m = &s->opts.memory;
    char asked[DT_ASKED];
    s->costs = dt_costs_default;
    if (m->profile != NULL && strcmp(m->profile, "auto") == 0)
        DT_CHECK(read_kept(s, err));
    else if (m->profile != NULL)
        DT_CHECK(read_named(s, err));
    if (m->simulate == NULL)
        DT_CHECK(check_no_card(s, err));
    else
        DT_CHECK(take_card(s, err));
    if (m->simulate == NULL && m->calibrate > 0)
        return DT_FAIL(err, DT_E_CONFIG, "%s: it scales a card's constants: set memory.simulate",
            dt_session_asked(asked, s, "memory", "calibrate"));
    return m->calibrate > 0 ? calibrate(s, err) : DT_OK;
}
