/* The plan as one JSON object; the members are documented in docs/. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "tools/json_out.h"
#include "tools/plan_intervals.h"
#include "tools/plan_report.h"

static void budget(dt_json *to, uint64_t bytes)
{
    if (bytes > 0)
        dt_json_whole(to, "budget", bytes);
    else
        dt_json_null(to, "budget");
}

static void tiers(dt_json *to, const dti_report *r)
{
    const dt_memory_opts *m = &r->session->opts.memory;
    dt_json device = dt_json_inner(to, "device");
    budget(&device, m->device_budget);
    dt_json_whole(&device, "peak", r->need.device);
    dt_json_whole(&device, "lower_bound", r->bound);
    dt_json_leave(to, &device);
    dt_json host = dt_json_inner(to, "host");
    budget(&host, m->host_budget);
    dt_json_whole(&host, "peak", r->need.tier[DT_TIER_HOST]);
    dt_json_leave(to, &host);
    dt_json disk = dt_json_inner(to, "disk");
    budget(&disk, m->disk_budget);
    dt_json_whole(&disk, "peak", r->need.tier[DT_TIER_DISK]);
    dt_json_leave(to, &disk);
}

/* Nobody knows of a card that is neither named nor here, nor limited by a budget. */
static void fits(dt_json *to, const dti_report *r, bool yes)
{
    const dt_session *s = r->session;
    if (yes && s->opts.memory.device_budget == 0 && dt_session_no_card(s) != NULL)
        dt_json_null(to, "fits");
    else
        dt_json_flag(to, "fits", yes);
}

/* What stands here, whatever the budgets are. */
static void machine(dt_json *to, const dti_report *r)
{
    const dt_here *h = &r->here;
    dt_json m = dt_json_inner(to, "machine");
    if (h->memory != UINT64_MAX)
        dt_json_whole(&m, "memory", h->memory);
    else
        dt_json_null(&m, "memory");
    if (r->session->card.bytes > 0)
        dt_json_whole(&m, "card", r->session->card.bytes);
    dt_json_whole(&m, "needed", h->need);
    fits(&m, r, h->fits && h->disk_error == 0);
    if (h->disk_error != 0)
        dt_json_text(&m, "disk_error", strerror(h->disk_error));
    dt_json_leave(to, &m);
}

static void breakdown(dt_json *to, const dti_report *r)
{
    dt_json b = dt_json_inner(to, "breakdown");
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        dt_json_whole(&b, dt_role_name((dt_role)i), r->usage.bytes[i]);
    dt_json_whole(&b, "library", 0); /* everything a library works in is a tensor of the plan */
    dt_json_whole(&b, "unused", r->usage.unused);
    dt_json_leave(to, &b);
}

/* Nulls where nothing was measured and no card is named. */
static void leave_predicted(dt_json *to, const dti_report *r)
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
        {"bound_seconds", r->least},
        {"rows_bound_seconds", t->bound},
        {"samples_per_second", t->rate},
    };
    dt_json p = dt_json_inner(to, "predicted");
    for (size_t i = 0; i < DT_COUNT(numbers); i++)
        if (t->known)
            dt_json_seconds(&p, numbers[i].key, numbers[i].value);
        else
            dt_json_null(&p, numbers[i].key);
    if (t->known)
        dt_json_real(&p, "average_bytes", t->average, 9);
    else
        dt_json_null(&p, "average_bytes");
    for (int k = 0; k < DT_COST_SOURCES && t->known && !c->simulated; k++)
        dt_json_real(&p, dt_cost_source_name(k), t->share[k], 6);
    dt_json_flag(&p, "simulated", c->simulated);
    dt_json_text(&p, "machine", t->known ? c->name : "");
    if (c->hash[0] != '\0')
        dt_json_text(&p, "profile", c->hash);
    else
        dt_json_null(&p, "profile");
    dt_json tiers = dt_json_list(&p, "by_default");
    for (int tier = 0; tier < DT_TIERS && t->known && !c->simulated; tier++)
        if (t->by_default[tier])
            dt_json_push_text(&tiers, tier == DT_TIER_INPUT ? "input" : dt_tier_name(tier));
    dt_json_leave(&p, &tiers);
    dt_json_leave(to, &p);
}

static void work(dt_json *to, const dti_report *r)
{
    dt_json t = dt_json_inner(to, "transfers");
    dt_json_whole(&t, "out", r->cost.out);
    dt_json_whole(&t, "in", r->cost.in);
    dt_json_whole(&t, "expected_out", r->traffic.out);
    dt_json_whole(&t, "expected_in", r->traffic.in);
    dt_json_whole(&t, "packed_room", r->traffic.room);
    dt_json_whole(&t, "packed_unknown", r->traffic.unknown);
    dt_json_leave(to, &t);
    dt_json c = dt_json_inner(to, "recompute");
    dt_json_whole(&c, "ops", (uint64_t)r->cost.recomputes);
    dt_json_real(&c, "flops", r->cost.recompute_flops, 0);
    dt_json_leave(to, &c);
    leave_predicted(to, r);
}

const char *dti_plan_fate(const dt_plan *p, const dt_row *r)
{
    if (r->reason == DT_NONE)
        return NULL;
    if (r->kind == DT_ROW_PLACE)
        return r->over != DT_NONE ? "in place" : NULL;
    if (r->kind == DT_ROW_COPY_OUT)
        return "offload";
    if (r->kind == DT_ROW_COPY_IN)
        return r->tier == DT_TIER_INPUT ? "fetch again" : "prefetch";
    if (r->kind != DT_ROW_COMPUTE) /* in a plan by hand any row may have a reason */
        return NULL;
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

int32_t dti_plan_made(const dt_plan *p, int32_t i)
{
    const dt_plan_op *op = &p->op[i];
    for (int32_t a = op->first; a < op->first + op->n; a++)
        if (p->arg[a].mode == DT_WRITE && p->arg[a].port != DT_WORK)
            return p->arg[a].tensor;
    return DT_NONE;
}

/* Every decision with its reason, as its place in a table. */
static void decisions(dt_json *to, const dt_plan *p)
{
    dt_json table = dt_json_list(to, "reasons"), list = dt_json_list(to, "decisions");
    for (size_t i = 0; i < p->n_reason; i++)
        dt_json_push_text(&table, p->reason[i]);
    for (size_t i = 0; i < p->n_row && list.ok; i++) {
        const dt_row *r = &p->row[i];
        const char *fate = dti_plan_fate(p, r);
        if (fate == NULL)
            continue;
        const int32_t tensor = r->op == DT_NONE ? r->tensor : dti_plan_made(p, r->op);
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "fate", fate);
        if (r->op != DT_NONE)
            dt_json_text(&o, "op", p->op[r->op].name);
        if (tensor != DT_NONE) {
            dt_json_text(&o, "tensor", p->tensor[tensor].name);
            dt_json_whole(&o, "bytes", p->tensor[tensor].bytes);
        }
        dt_json_whole(&o, "reason", (uint64_t)r->reason);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &table);
    dt_json_leave(to, &list);
}

static void programs(dt_json *to, const dt_session *s)
{
    dt_json list = dt_json_list(to, "programs");
    for (size_t i = 0; i < s->plans->n && list.ok; i++) {
        const dt_plan *p = s->plans->planned[i]->plan;
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "program", p->program);
        dt_json_whole(&o, "samples", (uint64_t)s->plans->planned[i]->n);
        dt_json_flag(&o, "dense", s->plans->planned[i]->dense);
        dt_json_whole(&o, "ops", p->n_op);
        dt_json_whole(&o, "peak", p->peak);
        dt_json_whole(&o, "lower_bound", p->bound);
        dt_json_whole(&o, "in", p->in_bytes);
        decisions(&o, p);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &list);
}

/* Of the plan with the highest peak: what is alive there, largest first, and how much of all is
 * alive, persistent tensors included, at each op and copy. */
static void at_the_top(dt_json *to, const dti_report *r)
{
    enum { LARGEST = 8 };
    const dt_plan *p = r->top->plan;
    const dt_usage *u = &r->usage;
    dt_json list = dt_json_list(to, "largest");
    for (size_t i = 0; i < u->n_live && i < LARGEST; i++) {
        const dt_plan_tensor *t = &p->tensor[u->live[i]];
        dt_json o = dt_json_element(&list);
        dt_json_text(&o, "tensor", t->name);
        dt_json_text(&o, "role", dt_role_name((dt_role)t->role));
        dt_json_whole(&o, "bytes", t->bytes);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &list);
    dt_json live = dt_json_list(to, "live");
    for (size_t i = 0; i < u->n_instant; i++)
        dt_json_push(&live, u->instant[i].bytes);
    dt_json_leave(to, &live);
}

/* The same with what runs there, and when where costs are known. */
static dt_status curve(dt_json *to, const dti_report *r, dt_err *err)
{
    const dt_plan *p = r->top->plan;
    dt_timeline time;
    dt_json list = dt_json_list(to, "curve");
    const dt_status st = dt_session_simulate(r->session, p, &time, err);
    for (size_t i = 0; st == DT_OK && i < r->usage.n_instant && list.ok; i++) {
        const dt_row *row = &p->row[r->usage.instant[i].row];
        dt_json o = dt_json_element(&list);
        dt_json_text(
            &o, "name", row->op != DT_NONE ? p->op[row->op].name : p->tensor[row->tensor].name);
        dt_json_whole(&o, "bytes", r->usage.instant[i].bytes);
        if (r->time.known)
            dt_json_seconds(&o, "begin", time.begin[r->usage.instant[i].row]);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &list);
    dt_timeline_deinit(&time);
    return st;
}

/* What is placed in it, and for how long. */
static dt_status intervals(dt_json *to, const dti_report *r, dt_err *err)
{
    dt_interval *v = NULL;
    size_t n = 0;
    DT_CHECK(dti_plan_find_intervals(r->top->plan, &v, &n, err));
    dt_json list = dt_json_list(to, "intervals");
    for (size_t i = 0; i < n && list.ok; i++) {
        dt_json o = dt_json_element(&list);
        dt_json_whole(&o, "lower", (uint64_t)v[i].lower);
        dt_json_whole(&o, "upper", (uint64_t)v[i].upper);
        dt_json_whole(&o, "size", v[i].bytes);
        dt_json_leave(&list, &o);
    }
    dt_json_leave(to, &list);
    dt_free(v);
    return DT_OK;
}

/* Rungs of a ladder that do not fit. */
static void refused(dt_json *to, const dt_plan_set *p)
{
    dt_json all = dt_json_list(to, "refused");
    for (size_t i = 0; i < p->n_refused; i++) {
        dt_json one = dt_json_element(&all);
        dt_json_text(&one, "policy", p->refused[i].policy);
        dt_json_text(&one, "algorithms", dt_algorithms_name((int)p->refused[i].algorithms));
        dt_json_text(&one, "why", p->refused[i].why);
        dt_json_leave(&all, &one);
    }
    dt_json_leave(to, &all);
}

static void fill(dt_json *to, const dti_report *r)
{
    char above[DT_ABOVE_TEXT];
    const dt_session *s = r->session;
    dt_json_text(to, "model", s->graph->name);
    dt_json_whole(to, "batch", (uint64_t)s->opts.train.batch);
    dt_json_text(to, "policy", dt_session_policy(s));
    if (dt_session_chosen_by(s) != NULL)
        dt_json_text(to, "chosen_by", dt_session_chosen_by(s));
    if (dt_session_chosen_by(s) != NULL)
        refused(to, s->plans);
    dt_json_text(to, "algorithms", dt_algorithms_name((int)s->plans->algorithms));
    dt_json_text(to, "device_kind", dt_device_name(s->context.device));
    if (s->context.card != NULL)
        dt_json_text(to, "card", s->context.card->name);
    dt_json_text(to, "pool", s->opts.memory.pool);
    dt_json_text(to, "precision", dti_report_precision(r));
    dt_json_flag(to, "exact", dt_plan_set_exact(s->plans));
    if (s->parts_by != NULL)
        dt_json_text(to, "parts_by", s->parts_by);
    fits(to, r, r->fits);
    tiers(to, r);
    machine(to, r);
    dt_json_whole(to, "keep_all_peak", r->saving.kept);
    if (r->saving.text[0] != '\0')
        dt_json_text(to, "in_vain", r->saving.text);
    if (dt_plan_set_above(above, s->plans)[0] != '\0')
        dt_json_text(to, "above", above);
    breakdown(to, r);
    work(to, r);
    dt_json_text(to, "peak_layer", dti_report_peak_layer(r));
    at_the_top(to, r);
    programs(to, s);
    dt_json_real(to, "plan_seconds", r->seconds, 6);
}

dt_status dti_report_json(const dti_report *r, dt_err *err)
{
    dt_json o = dt_json_begin();
    fill(&o, r);
    dt_status st = curve(&o, r, err);
    if (st == DT_OK)
        st = intervals(&o, r, err);
    const dt_status printed = st == DT_OK ? dti_json_out(&o, err) : st;
    if (st != DT_OK)
        dt_json_drop(&o);
    return printed;
}
