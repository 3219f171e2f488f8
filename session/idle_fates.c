/* Lines of [memory.layers] that change nothing. */
#include "session/idle_fates.h"

#include <stdio.h>

#include "engine/base/alloc.h"
#include "engine/program/program.h"
#include "session/plan_set.h"

enum { MOST_TOLD = 8, LINE_BYTES = 1024 };

/* The name of its codec stands before what begins with a blank. */
static const char *why(const dt_session *s, const dt_fate_line *l, dt_fate_done done)
{
    if (!l->holds)
        return "of each layer that it names a line behind it says what happens";
    if (done == DT_FATE_NO_SMALLER && l->codec->sparse && s->densities.n == 0)
        return " packs by zeros, which nobody has counted: `dnntrain profile` does, for "
               "memory.profile";
    if (done == DT_FATE_NO_SMALLER)
        return l->codec->sparse ? " makes nothing of that smaller by the zeros that were counted"
                                : " makes nothing of that smaller";
    return l->pin == DT_PIN_MOVE ? "nothing of what it names waits for backward"
           : l->pin == DT_PIN_ENCODE
               ? "nothing of what it names waits for backward and can be packed"
               : "nothing of what it names waits for backward and can be "
                 "computed again";
}

static void tell_line(
    const dt_session *s, const dt_fate_line *l, dt_fate_done done, const dt_teller *tell)
{
    char place[512], text[LINE_BYTES];
    const char *file = NULL, *reason = why(s, l, done);
    int number = 0;
    (void)dt_config_get(s->config, DT_LAYER_FATES, l->glob, &file, &number);
    snprintf(text, sizeof text, "%s: [" DT_LAYER_FATES "] %s saves nothing: %s%s",
        dt_config_place(place, sizeof place, file, number), l->text,
        reason[0] == ' ' ? l->codec->name : "", reason);
    tell->tell(tell->self, text);
}

static void tell_all(const dt_session *s, const dt_fate_done *done, const dt_teller *tell)
{
    size_t told = 0, more = 0;
    for (size_t i = 0; i < s->fates.n_line; i++) {
        const dt_fate_line *l = &s->fates.line[i];
        const bool idle = l->pin != DT_PIN_KEEP && done[i] != DT_FATE_DONE;
        if (idle && told < MOST_TOLD)
            tell_line(s, l, done[i], tell);
        more += idle && told == MOST_TOLD;
        told += idle && told < MOST_TOLD;
    }
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "[" DT_LAYER_FATES "]: %zu more line%s nothing", more,
        more == 1 ? " saves" : "s save");
    if (more > 0)
        tell->tell(tell->self, text);
}

/* In a program that keeps all without them: policies leave alone what fates have set. */
static dt_status try_all(const dt_session *s, dt_program *p, const dt_teller *tell, dt_err *err)
{
    const dt_pass_env env = {.density = &s->densities};
    dt_fate_done *done = dt_alloc(s->fates.n_line, sizeof *done);
    if (done == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the lines of [" DT_LAYER_FATES "]");
    const dt_status st = dt_layer_fates_apply(&s->fates, p, &env, done, err);
    if (st == DT_OK)
        tell_all(s, done, tell);
    dt_free(done);
    return st;
}

dt_status dt_session_idle_fates(const dt_session *s, const dt_teller *tell, dt_err *err)
{
    const dt_layer_fates homes = {.homes = s->fates.homes}; /* and no lines */
    dt_plan_request r = dt_session_request(s);
    dt_policies keep_all;
    dt_plan_set *plans = NULL;
    dt_program *p = NULL;
    if (s->fates.n_line == 0 || r.given != NULL)
        return DT_OK;
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    r.policies = &keep_all;
    r.fates = &homes;
    r.quick = r.hasty = true;
    if (st == DT_OK)
        st = dt_plan_set_create(&plans, s, &r, err);
    if (st == DT_OK)
        st = dti_plan_set_program(plans, DT_PROGRAM_FIRST, s->micro_batch, &p, err);
    if (st == DT_OK)
        st = try_all(s, p, tell, err);
    dt_program_destroy(p);
    dt_plan_set_destroy(plans);
    dt_policies_close(&keep_all);
    return st;
}
