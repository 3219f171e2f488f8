/* What a session says of itself. */
#include "session/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/isa.h"
#include "engine/config/nearest.h"
#include "memory/tier.h"
#include "session/human.h"

const char *dt_session_asked(
    char to[DT_ASKED], const dt_session *s, const char *section, const char *key)
{
    const char *file = NULL;
    int line = 0;
    char at[512];
    const char *value = dt_config_get(s->config, section, key, &file, &line);
    if (value == NULL)
        snprintf(to, DT_ASKED, "[%s] %s is not given", section, key);
    else
        snprintf(to, DT_ASKED, "%s: [%s] %s = %s", dt_config_place(at, sizeof at, file, line),
            section, key, value);
    return to;
}

void dti_session_note(dt_session *s, const char *fmt, ...)
{
    va_list args;
    size_t n = strlen(s->note);
    if (n + 2 > sizeof s->note)
        return;
    if (n > 0)
        s->note[n++] = '\n';
    va_start(args, fmt);
    (void)dt_vsnprintf(s->note + n, sizeof s->note - n, fmt, args);
    va_end(args);
}

dt_status dti_session_unknown(const dt_session *s, const char *section, const char *key,
    const char *kind, const char *const *names, dt_err *err)
{
    char what[DT_ASKED + 64], asked[DT_ASKED];
    const char *file = NULL;
    int line = 0;
    const char *word = dt_config_get(s->config, section, key, &file, &line);
    snprintf(what, sizeof what, "%s: no such %s", dt_session_asked(asked, s, section, key), kind);
    return dt_unknown(what, word != NULL ? word : "", names, err);
}

dt_status dt_session_meet(dt_session *s, dt_err *err)
{
    char asked[DT_ASKED];
    if (s->context.card != NULL)
        return DT_FAIL(err, DT_E_CONFIG,
            "%s is for plans of a card that need not be here (dnntrain plan, sweep, compare, "
            "explain); leave it out, and the run takes the card that is",
            dt_session_asked(asked, s, "device", "card"));
    if (s->context.device == DT_CPU || s->card.bytes > 0)
        return DT_OK;
    DT_TRY(err, dt_device_facts(s->context.device, &s->card, err), "%s",
        dt_session_asked(asked, s, "device", "kind"));
    return DT_OK;
}

dt_status dti_check_card_budget(const dt_card *card, uint64_t budget, const char *what, dt_err *err)
{
    char size[DT_HUMAN_BYTES];
    if (budget <= dt_card_bytes(card))
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG, "%s: a %s has %s; lower it, or leave it out", what,
        card->title, dt_human_bytes(size, dt_card_bytes(card)));
}

bool dt_session_host_is_device(const dt_session *s)
{
    return s->context.device == DT_CPU && s->context.card == NULL &&
           s->opts.memory.simulate == NULL;
}

bool dti_session_spares_host(const dt_session *s)
{
    const dt_tier_desc *tier = dt_tier_desc_find(s->opts.memory.tier);
    return dt_session_host_is_device(s) && tier != NULL && tier->place == DT_TIER_DISK &&
           s->opts.memory.host_budget == 0;
}

const char *dt_session_host_note(const dt_session *s, uint64_t bytes)
{
    if (bytes == 0 || !dt_session_host_is_device(s))
        return NULL;
    return dti_session_spares_host(s)
               ? "the host is the same memory here: what lives there makes no process smaller; "
                 "zero_infinity, or 'home disk', has it on the disk"
               : "the host is the same memory here: what moves there makes no process smaller; "
                 "memory.tier = disk does";
}

const char *dt_session_no_card(const dt_session *s)
{
    if (s->context.device == DT_CPU || s->context.card != NULL ||
        dt_device_answers(s->context.device, NULL))
        return NULL;
    return "no card answers here, so plans lack the scratch of convolutions and products; "
           "device.card names one to plan for (dnntrain list cards)";
}

const char *dt_session_isa(const dt_session *s)
{
    return s->card.bytes > 0 ? s->card.about : dt_isa_name();
}

const char *dt_session_precision(const dt_session *s)
{
    return s->opts.train.precision == DT_PRECISION_TF32 ? "tf32" : dt_dtype_name(s->graph->dtype);
}

dt_plan_request dt_session_request(const dt_session *s)
{
    const dt_memory_opts *m = &s->opts.memory;
    const dt_tier_desc *named = dt_tier_desc_find(m->tier);
    return (dt_plan_request){.batch = s->opts.train.batch,
        .micro_batch = s->micro_batch,
        .policies = &s->policies,
        .fates = &s->fates,
        .algorithms = (dt_algorithm_choice)m->algorithms,
        .tier = named == NULL                  ? DT_TO_AUTO
                : named->place == DT_TIER_DISK ? DT_TO_DISK
                                               : DT_TO_HOST,
        .given = s->given.n > 0 ? &s->given : NULL,
        .given_by = s->given_by,
        .costs = &s->costs,
        .budgets = {.device = m->device_budget,
            .tier = {[DT_TIER_HOST] = m->host_budget, [DT_TIER_DISK] = m->disk_budget}}};
}

dt_account_ask dt_session_account_ask(const dt_session *s, int64_t batch)
{
    return (dt_account_ask){.batch = batch,
        .budget = s->opts.memory.device_budget,
        .host = s->opts.memory.host_budget,
        .workspace = s->opts.memory.account_workspace,
        .density = s->opts.memory.account_density,
        .figure = DT_ACCOUNT_ALL};
}

void dti_session_enter(dt_session *s)
{
    const dt_driver *d = dt_device_driver(s->context.device);
    if (s->inside++ > 0)
        return;
    (void)dt_cpu_enter(s->threads, &s->host);
    s->meant = d != NULL && d->meant != NULL ? d->meant() : -1;
}

void dti_session_leave(dt_session *s)
{
    DT_ASSERT(s->inside > 0);
    const dt_driver *d = dt_device_driver(s->context.device);
    if (--s->inside > 0)
        return;
    dt_cpu_leave(&s->host);
    if (d != NULL && d->mean != NULL)
        d->mean(s->meant);
}

dt_simulate_opts dti_session_simulate_opts(const dt_session *s)
{
    const bool card = s->context.device == DT_CUDA || s->costs.simulated;
    return (dt_simulate_opts){
        .inline_copies = !card && !s->opts.memory.copy_threads, .density = &s->densities};
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
