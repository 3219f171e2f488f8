/* The plan as one JSON object; the members are documented in docs/. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <string.h>

#include "tools/plan_report.h"

/* Every member is added even after one failed; only the whole counts. */
typedef struct object {
    cJSON *o;
    bool ok;
} object;

static void text(object *to, const char *key, const char *value)
{
    to->ok = cJSON_AddStringToObject(to->o, key, value) != NULL && to->ok;
}

/* cJSON keeps numbers as double: whole numbers are written as they are. */
static void whole(object *to, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    to->ok = cJSON_AddRawToObject(to->o, key, digits) != NULL && to->ok;
}

static void real(object *to, const char *key, double value, int decimals)
{
    char digits[352]; /* the largest double has 309 before the point */
    snprintf(digits, sizeof digits, "%.*f", decimals, value);
    to->ok = cJSON_AddRawToObject(to->o, key, digits) != NULL && to->ok;
}

static void null(object *to, const char *key)
{
    to->ok = cJSON_AddNullToObject(to->o, key) != NULL && to->ok;
}

static object inner(object *to, const char *key)
{
    object in = {cJSON_AddObjectToObject(to->o, key), true};
    in.ok = in.o != NULL;
    return in;
}

static void leave(object *to, const object *in)
{
    to->ok = to->ok && in->ok;
}

static void budget(object *to, uint64_t bytes)
{
    if (bytes > 0)
        whole(to, "budget", bytes);
    else
        null(to, "budget");
}

static void tiers(object *to, const dt_report *r)
{
    const dt_memory_opts *m = &r->session->opts.memory;
    object device = inner(to, "device");
    budget(&device, m->device_budget);
    whole(&device, "peak", r->need.device);
    whole(&device, "lower_bound", r->bound);
    leave(to, &device);
    object host = inner(to, "host");
    budget(&host, m->host_budget);
    whole(&host, "peak", r->need.host);
    leave(to, &host);
    object disk = inner(to, "disk");
    budget(&disk, m->disk_budget);
    whole(&disk, "peak", r->need.disk);
    leave(to, &disk);
}

/* What stands here, whatever the budgets are. */
static void machine(object *to, const dt_report *r)
{
    const dt_here *h = &r->here;
    object m = inner(to, "machine");
    if (h->memory != UINT64_MAX)
        whole(&m, "memory", h->memory);
    else
        null(&m, "memory");
    if (r->session->card.bytes > 0)
        whole(&m, "card", r->session->card.bytes);
    whole(&m, "needed", h->need);
    m.ok = cJSON_AddBoolToObject(m.o, "fits", h->fits) != NULL && m.ok;
    if (h->disk_error != 0)
        text(&m, "disk_error", strerror(h->disk_error));
    leave(to, &m);
}

static void breakdown(object *to, const dt_report *r)
{
    object b = inner(to, "breakdown");
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        whole(&b, dt_role_name((dt_role)i), r->usage.bytes[i]);
    whole(&b, "library", 0); /* everything a library works in is a tensor of the plan */
    whole(&b, "unused", r->usage.unused);
    leave(to, &b);
}

/* Nulls where nothing was measured and no card is named. */
static void leave_predicted(object *to, const dt_report *r)
{
    const dt_prediction *t = &r->time;
    const dt_costs *c = &r->session->costs;
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"step_seconds", t->seconds},
        {"compute_seconds", t->compute},
        {"stall_seconds", t->stalled},
        {"bound_seconds", t->bound},
        {"samples_per_second", t->rate},
        {"average_bytes", t->average},
    };
    object p = inner(to, "predicted");
    for (size_t i = 0; i < DT_COUNT(numbers); i++)
        if (t->known)
            real(&p, numbers[i].key, numbers[i].value, 9);
        else
            null(&p, numbers[i].key);
    for (int k = 0; k < DT_COST_SOURCES && t->known && !c->simulated; k++)
        real(&p, dt_cost_source_name(k), t->share[k], 6);
    p.ok = cJSON_AddBoolToObject(p.o, "simulated", c->simulated) != NULL && p.ok;
    text(&p, "machine", t->known ? c->name : "");
    text(&p, "profile", c->hash);
    leave(to, &p);
}

static void work(object *to, const dt_report *r)
{
    object t = inner(to, "transfers");
    whole(&t, "out", r->cost.out);
    whole(&t, "in", r->cost.in);
    leave(to, &t);
    object c = inner(to, "recompute");
    whole(&c, "ops", (uint64_t)r->cost.recomputes);
    real(&c, "flops", r->cost.recompute_flops, 0);
    leave(to, &c);
    leave_predicted(to, r);
}

static bool add_number(cJSON *list, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    return cJSON_AddItemToArray(list, cJSON_CreateRaw(digits));
}

/* An object more of a list; where that fails, the members have nowhere to go. */
static object one_more(object *to, cJSON *list)
{
    object o = {cJSON_CreateObject(), true};
    o.ok = cJSON_AddItemToArray(list, o.o);
    to->ok = to->ok && o.ok;
    return o;
}

/* What a row with a reason decides; NULL: it gives none. */
static const char *fate_of(const dt_plan *p, const dt_row *r)
{
    if (r->reason == DT_NONE)
        return NULL;
    if (r->kind == DT_ROW_PLACE)
        return "in place";
    if (r->kind == DT_ROW_COPY_OUT)
        return "offload";
    if (r->kind == DT_ROW_COPY_IN)
        return r->tier == DT_TIER_INPUT ? "fetch again" : "prefetch";
    switch ((dt_op_kind)p->op[r->op].kind) {
    case DT_OP_RECOMPUTE:
    case DT_OP_REORDER:
        return "recompute";
    case DT_OP_ENCODE:
        return "encode";
    case DT_OP_DECODE:
        return "decode";
    case DT_OP_FORWARD:
    case DT_OP_BACKWARD:
    case DT_OP_UPDATE:
    case DT_OP_FETCH:
    case DT_OP_OUT:
    case DT_OP_IN:
    case DT_OP_KINDS:
        break;
    }
    return strncmp(p->reason[r->reason], "algorithm ", 10) == 0 ? "algorithm" : "alternative";
}

/* What an op of the plan makes: the first tensor that it writes. */
static int32_t made_by(const dt_plan *p, const dt_plan_op *op)
{
    for (int32_t a = op->first; a < op->first + op->n; a++)
        if (p->arg[a].mode == DT_WRITE && p->arg[a].port != DT_WORK)
            return p->arg[a].tensor;
    return DT_NONE;
}

/* Every decision with its reason, as its place in a table. */
static void decisions(object *to, const dt_plan *p)
{
    cJSON *table = cJSON_AddArrayToObject(to->o, "reasons");
    cJSON *list = cJSON_AddArrayToObject(to->o, "decisions");
    to->ok = table != NULL && list != NULL && to->ok;
    for (size_t i = 0; i < p->n_reason && to->ok; i++)
        to->ok = cJSON_AddItemToArray(table, cJSON_CreateString(p->reason[i]));
    for (size_t i = 0; i < p->n_row && to->ok; i++) {
        const dt_row *r = &p->row[i];
        const char *fate = fate_of(p, r);
        if (fate == NULL)
            continue;
        const int32_t tensor = r->op == DT_NONE ? r->tensor : made_by(p, &p->op[r->op]);
        object o = one_more(to, list);
        text(&o, "fate", fate);
        if (r->op != DT_NONE)
            text(&o, "op", p->op[r->op].name);
        if (tensor != DT_NONE) {
            text(&o, "tensor", p->tensor[tensor].name);
            whole(&o, "bytes", p->tensor[tensor].bytes);
        }
        whole(&o, "reason", (uint64_t)r->reason);
        leave(to, &o);
    }
}

static void programs(object *to, const dt_session *s)
{
    cJSON *list = cJSON_AddArrayToObject(to->o, "programs");
    to->ok = list != NULL && to->ok;
    for (size_t i = 0; i < s->plans->n && to->ok; i++) {
        const dt_plan *p = s->plans->planned[i]->plan;
        object o = one_more(to, list);
        text(&o, "program", p->program);
        whole(&o, "samples", (uint64_t)s->plans->planned[i]->n);
        o.ok = cJSON_AddBoolToObject(o.o, "dense", s->plans->planned[i]->dense) != NULL && o.ok;
        whole(&o, "ops", p->n_op);
        whole(&o, "peak", p->peak);
        whole(&o, "lower_bound", p->bound);
        whole(&o, "in", p->in_bytes);
        decisions(&o, p);
        leave(to, &o);
    }
}

/* Of the plan with the highest peak: what is alive there, largest first, and how much of all is
 * alive, persistent tensors included, at each op and copy. */
static void at_the_top(object *to, const dt_report *r)
{
    enum { LARGEST = 8 };
    const dt_plan *p = r->top->plan;
    const dt_usage *u = &r->usage;
    cJSON *list = cJSON_AddArrayToObject(to->o, "largest");
    to->ok = list != NULL && to->ok;
    for (size_t i = 0; i < u->n_live && i < LARGEST && to->ok; i++) {
        const dt_plan_tensor *t = &p->tensor[u->live[i]];
        object o = one_more(to, list);
        text(&o, "tensor", t->name);
        text(&o, "role", dt_role_name((dt_role)t->role));
        whole(&o, "bytes", t->bytes);
        leave(to, &o);
    }
    cJSON *live = cJSON_AddArrayToObject(to->o, "live");
    to->ok = live != NULL && to->ok;
    for (size_t i = 0; i < u->n_instant && to->ok; i++)
        to->ok = add_number(live, u->instant[i].bytes);
}

/* Rungs of a ladder that do not fit. */
static void refused(object *to, const dt_plan_set *p)
{
    cJSON *all = cJSON_AddArrayToObject(to->o, "refused");
    to->ok = all != NULL && to->ok;
    for (size_t i = 0; i < p->n_refused && to->ok; i++) {
        object one = one_more(to, all);
        text(&one, "policy", p->refused[i].policy);
        text(&one, "algorithms", dt_algorithms_name((int)p->refused[i].algorithms));
        text(&one, "why", p->refused[i].why);
        leave(to, &one);
    }
}

static void fill(object *to, const dt_report *r)
{
    const dt_session *s = r->session;
    text(to, "model", s->graph->name);
    whole(to, "batch", (uint64_t)s->opts.train.batch);
    text(to, "policy", dt_session_policy(s));
    if (dt_session_chosen_by(s) != NULL)
        text(to, "chosen_by", dt_session_chosen_by(s));
    if (dt_session_chosen_by(s) != NULL)
        refused(to, s->plans);
    text(to, "algorithms", dt_algorithms_name((int)s->plans->algorithms));
    text(to, "device_kind", dt_device_name(s->context.device));
    if (s->context.card != NULL)
        text(to, "card", s->context.card->name);
    text(to, "pool", s->opts.memory.pool);
    text(to, "precision", dti_report_precision(r));
    to->ok = cJSON_AddBoolToObject(to->o, "exact", dt_plan_set_exact(s->plans)) != NULL && to->ok;
    to->ok = cJSON_AddBoolToObject(to->o, "fits", r->fits) != NULL && to->ok;
    tiers(to, r);
    machine(to, r);
    whole(to, "keep_all_peak", r->saving.kept);
    if (r->saving.text[0] != '\0')
        text(to, "in_vain", r->saving.text);
    breakdown(to, r);
    work(to, r);
    text(to, "peak_layer", dti_report_peak_layer(r));
    at_the_top(to, r);
    programs(to, s);
    object seconds = inner(to, "plan_seconds");
    real(&seconds, "cold", r->cold, 6);
    real(&seconds, "warm", r->warm, 6);
    leave(to, &seconds);
}

dt_status dti_report_json(const dt_report *r, dt_err *err)
{
    object o = {cJSON_CreateObject(), true};
    if (o.o != NULL)
        fill(&o, r);
    char *printed = o.o != NULL && o.ok ? cJSON_Print(o.o) : NULL;
    cJSON_Delete(o.o);
    if (printed == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the report");
    puts(printed);
    cJSON_free(printed);
    return DT_OK;
}
