/* Lines of [memory.layers] that change nothing. */
#include "session/idle_fates.h"

#include <stdio.h>

#include "engine/program/program.h"
#include "session/plan_set.h"

enum { MOST_TOLD = 8, LINE_BYTES = 1024 };

/* Whether a program has the line as a reason: only what is done has one. It is added where not, so
 * that lines of one text are told once. */
static dt_status is_idle(const dt_fate_line *l, dt_program *p, bool *idle, dt_err *err)
{
    const size_t before = p->reasons.n;
    int32_t number;
    *idle = false;
    if (l->pin == DT_PIN_KEEP)
        return DT_OK;
    DT_CHECK(dt_layer_fate_reason(p, l->text, &number, err));
    *idle = p->reasons.n > before;
    return DT_OK;
}

static const char *why(const dt_fate_line *l)
{
    if (!l->holds)
        return "of each layer that it names a line behind it says what happens";
    return l->pin == DT_PIN_MOVE ? "nothing of what it names waits for backward"
           : l->pin == DT_PIN_ENCODE
               ? "nothing of what it names waits for backward and can be packed"
               : "nothing of what it names waits for backward and can be "
                 "computed again";
}

static void tell_line(const dt_session *s, const dt_fate_line *l, const dt_teller *tell)
{
    char place[512], text[LINE_BYTES];
    const char *file = NULL;
    int number = 0;
    (void)dt_config_get(s->config, DT_LAYER_FATES, l->glob, &file, &number);
    snprintf(text, sizeof text, "%s: [" DT_LAYER_FATES "] %s saves nothing: %s",
        dt_config_place(place, sizeof place, file, number), l->text, why(l));
    tell->tell(tell->self, text);
}

static dt_status tell_all(const dt_session *s, dt_program *p, const dt_teller *tell, dt_err *err)
{
    size_t told = 0, more = 0;
    for (size_t i = 0; i < s->fates.n_line; i++) {
        bool idle;
        DT_CHECK(is_idle(&s->fates.line[i], p, &idle, err));
        if (idle && told < MOST_TOLD)
            tell_line(s, &s->fates.line[i], tell);
        more += idle && told == MOST_TOLD;
        told += idle && told < MOST_TOLD;
    }
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "[" DT_LAYER_FATES "]: %zu more lines save nothing", more);
    if (more > 0)
        tell->tell(tell->self, text);
    return DT_OK;
}

dt_status dt_session_idle_fates(const dt_session *s, const dt_teller *tell, dt_err *err)
{
    dt_plan_request r = dt_session_request(s);
    dt_policies keep_all;
    dt_plan_set *plans = NULL;
    dt_program *p = NULL;
    if (s->fates.n_line == 0 || r.given != NULL)
        return DT_OK;
    dt_status st = dt_policies_open(&keep_all, "keep_all", NULL, err);
    r.policies = &keep_all; /* fates are set before policies, which leave them alone */
    r.quick = r.hasty = true;
    if (st == DT_OK)
        st = dt_plan_set_create(&plans, s, &r, err);
    if (st == DT_OK)
        st = dti_plan_set_program(plans, DT_PROGRAM_FIRST, s->micro_batch, &p, err);
    if (st == DT_OK)
        st = tell_all(s, p, tell, err);
    dt_program_destroy(p);
    dt_plan_set_destroy(plans);
    dt_policies_close(&keep_all);
    return st;
}
