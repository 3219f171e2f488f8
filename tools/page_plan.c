/* A plan in a page. */
#include "tools/page_plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <dnntrain.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"
#include "memory/usage.h"
#include "session/environment.h"
#include "session/human.h"
#include "session/parts.h"
#include "session/plan_set.h"
#include "tools/plan_report.h"

/* ---- what the policy saves and costs ---- */

static void saved(const dti_page *p, uint64_t kept, uint64_t taken)
{
    char now[DT_HUMAN_BYTES], then[DT_HUMAN_BYTES];
    if (kept == 0)
        return;
    dti_page_item(p, "peak", "%s; with all kept %s (%+.1f %%)", dt_human_bytes(now, taken),
        dt_human_bytes(then, kept), 100 * ((double)taken / (double)kept - 1));
}

static void moved(const dti_page *p, const dt_score *c)
{
    char out[DT_HUMAN_BYTES], in[DT_HUMAN_BYTES];
    dti_page_item(p, "moved in a step", "%s out, %s in", dt_human_bytes(out, c->out),
        dt_human_bytes(in, c->in));
    if (c->recomputes > 0)
        dti_page_item(p, "computed again", "%" PRId64 " op%s, %s, %.1f %% of the step's",
            c->recomputes, c->recomputes == 1 ? "" : "s", dt_human_flops(in, c->recompute_flops),
            c->flops > 0 ? 100 * c->recompute_flops / c->flops : 0);
    if (c->packed > 0)
        dti_page_item(p, "packed", "%s", dt_human_bytes(out, c->packed));
}

static void predicted(const dti_page *p, const dt_session *s, const dt_prediction *t)
{
    char rate[DT_HUMAN_BYTES];
    if (!t->known) {
        dti_page_item(p, "a step takes", "not predicted: nothing was measured of this machine");
        return;
    }
    dti_page_item(p, s->costs.simulated ? "a step takes, simulated" : "a step takes, predicted",
        "%.6f s (%s samples a second), of which the ops wait %.6f s; by %s", t->seconds,
        dt_human_rate(rate, t->rate), t->stalled, s->costs.name);
}

/* Of a run. */
static void measured(const dti_page *p, const dti_page_plan *v)
{
    const dt_runner_stats *m = v->moved;
    char copies[DT_HUMAN_BYTES], waits[DT_HUMAN_BYTES];
    if (m == NULL || !(m->copy_seconds + m->stall_seconds > 0) || !(v->seconds > 0))
        return;
    dti_page_item(p, "in this run", "copies took %s and waits for them %s, together %.1f %% of it",
        dt_human_seconds(copies, m->copy_seconds), dt_human_seconds(waits, m->stall_seconds),
        100 * (m->copy_seconds + m->stall_seconds) / v->seconds);
}

static void tiers(const dti_page *p, const dt_session *s)
{
    char bytes[DT_HUMAN_BYTES], most[DT_HUMAN_BYTES];
    for (int t = DT_TIER_HOST; t < DT_TIERS; t++)
        if (t != DT_TIER_INPUT && dt_plan_set_tier_peak(s->plans, (dt_tier)t) > 0)
            dti_page_item(p, dt_tier_name(t), "%s",
                dt_human_bytes(bytes, dt_plan_set_tier_peak(s->plans, (dt_tier)t)));
    if (s->opts.memory.device_budget > 0)
        dti_page_item(p, "budget", "%s", dt_human_bytes(most, s->opts.memory.device_budget));
}

dt_status dti_page_policy(const dti_page *p, const dti_page_plan *v, dt_err *err)
{
    const dt_session *s = v->session;
    const dt_score cost = dt_plan_set_score(s->plans);
    char exact_for[DT_PARTS_TEXT];
    dt_prediction t;
    DT_CHECK(dt_plan_set_predict(s->plans, &t, err));
    dti_page_section(p, "policy", "What the policy saves and costs");
    dti_page_list(p);
    dti_page_item(p, "policy", "%s%s%s", dt_session_policy(s),
        dt_session_chosen_by(s) != NULL ? ", chosen by " : "",
        dt_session_chosen_by(s) != NULL ? dt_session_chosen_by(s) : "");
    if (!dt_plan_set_exact(s->plans))
        dti_page_item(p, "results", "change by what it does");
    else if (dt_session_exact_for(exact_for, s)[0] != '\0')
        dti_page_item(p, "results", "exact %s", exact_for);
    else
        dti_page_item(p, "results", "exact: the same bits as with all kept");
    saved(p, v->saving != NULL ? v->saving->kept : 0, dt_plan_set_peak(s->plans));
    if (v->saving != NULL)
        dti_page_item(p, "note", "%s", v->saving->text);
    tiers(p, s);
    moved(p, &cost);
    predicted(p, s, &t);
    measured(p, v);
    dti_page_list_end(p);
    dti_page_section_end(p);
    return DT_OK;
}

/* ---- tables for the script: a column a list ---- */

/* From the first op at which a tensor is on the device to the last; without end where it is at
 * none. */
typedef struct span {
    double from, to;
} span;

static void place(span *s, double now)
{
    s->from = fmin(s->from, now);
    s->to = HUGE_VAL;
}

static void leave(span *s, double now)
{
    s->to = fmax(s->from, now - 1);
}

/* Of each tensor: a box of the map does not tell, as one that is too thin to see is drawn wider. */
static void find_spans(const dt_plan *p, span *of)
{
    double now = 0;
    for (size_t i = 0; i < p->n_tensor; i++)
        of[i] = (span){dt_plan_resident(&p->tensor[i]) ? 0 : HUGE_VAL, HUGE_VAL};
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        now += r->kind == DT_ROW_COMPUTE;
        if (r->kind == DT_ROW_PLACE && r->over >= 0)
            leave(&of[r->over], now);
        if (r->kind == DT_ROW_PLACE)
            place(&of[r->tensor], now);
        if (r->kind == DT_ROW_RELEASE)
            leave(&of[r->tensor], now);
    }
    for (size_t i = 0; i < p->n_tensor; i++)
        if (isfinite(of[i].from) && !isfinite(of[i].to))
            leave(&of[i], now);
}

static dt_status add_spans(dt_json *to, const dt_plan *p, dt_err *err)
{
    span *of = dt_alloc(p->n_tensor, sizeof *of);
    if (of == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the tensors of a page");
    find_spans(p, of);
    dt_json first = dt_json_list(to, "from"), last = dt_json_list(to, "to");
    for (size_t i = 0; i < p->n_tensor; i++) {
        dt_json_push_real(&first, of[i].from);
        dt_json_push_real(&last, of[i].to);
    }
    dt_json_leave(to, &first);
    dt_json_leave(to, &last);
    dt_free(of);
    return DT_OK;
}

static dt_status add_tensors(dt_json *to, const dt_plan *p, dt_err *err)
{
    dt_json name = dt_json_list(to, "name"), role = dt_json_list(to, "role");
    dt_json bytes = dt_json_list(to, "bytes"), stays = dt_json_list(to, "stays");
    for (size_t i = 0; i < p->n_tensor; i++) {
        dt_json_push_text(&name, p->tensor[i].name);
        dt_json_push(&role, p->tensor[i].role);
        dt_json_push(&bytes, p->tensor[i].bytes);
        dt_json_push(&stays, dt_plan_resident(&p->tensor[i]));
    }
    dt_json_leave(to, &name);
    dt_json_leave(to, &role);
    dt_json_leave(to, &bytes);
    dt_json_leave(to, &stays);
    return add_spans(to, p, err);
}

/* Tensors that an op reads (@reads), or writes and changes. */
static void add_touched(dt_json *list, const dt_plan *p, const dt_plan_op *op, bool reads)
{
    dt_json one = dt_json_inner_list(list);
    for (int32_t a = op->first; a < op->first + op->n; a++)
        if ((p->arg[a].mode == DT_READ) == reads)
            dt_json_push(&one, (uint64_t)p->arg[a].tensor);
    dt_json_leave(list, &one);
}

static void add_ops(dt_json *to, const dt_plan *p)
{
    dt_json name = dt_json_list(to, "name"), kind = dt_json_list(to, "kind");
    dt_json reads = dt_json_list(to, "reads"), writes = dt_json_list(to, "writes");
    for (size_t i = 0; i < p->n_op; i++) {
        dt_json_push_text(&name, p->op[i].name);
        dt_json_push(&kind, p->op[i].kind);
        add_touched(&reads, p, &p->op[i], true);
        add_touched(&writes, p, &p->op[i], false);
    }
    dt_json_leave(to, &name);
    dt_json_leave(to, &kind);
    dt_json_leave(to, &reads);
    dt_json_leave(to, &writes);
}

/* Every decision: of which tensor, what, and why. */
static void add_fates(dt_json *to, const dt_plan *p)
{
    dt_json reasons = dt_json_list(to, "reason"), list = dt_json_list(to, "fate");
    for (size_t i = 0; i < p->n_reason; i++)
        dt_json_push_text(&reasons, p->reason[i]);
    for (size_t i = 0; i < p->n_row; i++) {
        const dt_row *r = &p->row[i];
        const char *fate = dti_plan_fate(p, r);
        const int32_t tensor = fate == NULL       ? DT_NONE
                               : r->op == DT_NONE ? r->tensor
                                                  : dti_plan_made(p, r->op);
        if (tensor == DT_NONE)
            continue;
        dt_json one = dt_json_inner_list(&list);
        dt_json_push(&one, (uint64_t)tensor);
        dt_json_push_text(&one, fate);
        dt_json_push(&one, (uint64_t)r->reason);
        dt_json_leave(&list, &one);
    }
    dt_json_leave(to, &reasons);
    dt_json_leave(to, &list);
}

static dt_status add_plan(dt_json *to, const dt_plan *p, double seconds, dt_err *err)
{
    char human[DT_HUMAN_BYTES];
    dt_json plan = dt_json_inner(to, "plan");
    dt_json roles = dt_json_list(&plan, "roles"), kinds = dt_json_list(&plan, "kinds");
    dt_json_whole(&plan, "peak", p->peak);
    dt_json_seconds(&plan, "seconds", seconds);
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        dt_json_push_text(&roles, dt_human_role(human, (dt_role)i));
    for (int i = 0; i < DT_OP_KINDS; i++)
        dt_json_push_text(&kinds, dt_op_kind_name((dt_op_kind)i));
    dt_json_leave(&plan, &roles);
    dt_json_leave(&plan, &kinds);
    dt_json tensors = dt_json_inner(&plan, "tensor"), ops = dt_json_inner(&plan, "op");
    const dt_status st = add_tensors(&tensors, p, err);
    add_ops(&ops, p);
    dt_json_leave(&plan, &tensors);
    dt_json_leave(&plan, &ops);
    add_fates(&plan, p);
    dt_json_leave(to, &plan);
    return st;
}

/* ---- the map ---- */

static const char tools_of_map[] =
    "<div class=\"bar\"><input id=\"find\" type=\"search\" placeholder=\"find a tensor: name, "
    "role, what is done\" aria-label=\"find a tensor\" autocomplete=\"off\" spellcheck=\"false\">"
    "<span class=\"zooming\"><button type=\"button\" data-zoom=\"in\" aria-label=\"zoom in\">+"
    "</button><button type=\"button\" data-zoom=\"out\" aria-label=\"zoom out\">&minus;</button>"
    "<button type=\"button\" data-zoom=\"all\">whole</button></span></div>\n"
    "<p class=\"hint\">Upwards addresses, across the ops in their order. Ctrl and the wheel, "
    "a double click, or + and &minus; zoom; dragging or the arrow keys move; 0 shows all again; a "
    "click on a box or a row, or Enter on it, chooses its tensor.</p>\n";
static const char table_of_map[] =
    "<p id=\"chosen\" aria-live=\"polite\" hidden></p>\n<div class=\"rows\"><table id=\"tensors\">"
    "<thead><tr><th scope=\"col\"><button type=\"button\" data-by=\"name\">tensor</button></th>"
    "<th scope=\"col\"><button type=\"button\" data-by=\"role\">role</button></th>"
    "<th scope=\"col\" class=\"number\"><button type=\"button\" data-by=\"bytes\">bytes</button>"
    "</th><th scope=\"col\" class=\"number\"><button type=\"button\" data-by=\"from\">ops</button>"
    "</th><th scope=\"col\">what is done</th></tr></thead><tbody></tbody></table></div>\n"
    "<p class=\"hint\"><span id=\"count\"></span> <button type=\"button\" id=\"more\" hidden>more"
    "</button></p>\n";

dt_status dti_page_map(dti_page *p, const dti_page_plan *v, dt_err *err)
{
    dt_prediction known;
    dt_timeline time = {0};
    DT_CHECK(dt_plan_set_predict(v->session->plans, &known, err));
    dt_status st = known.known ? dt_session_simulate(v->session, v->plan, &time, err) : DT_OK;
    const dti_plan_picture picture = {v->plan, known.known ? &time : NULL, v->measured,
        v->session->opts.memory.device_budget, &v->session->costs};
    double seconds = known.known ? time.seconds : 0;
    if (v->measured != NULL && v->measured->seconds > seconds)
        seconds = v->measured->seconds;
    dti_page_section(p, "map", "The plan");
    fputs(tools_of_map, p->f);
    if (st == DT_OK) /* else there are no times */
        dti_plan_map_key(&picture, p->f);
    fputs("<div class=\"wide\" id=\"maps\">\n", p->f);
    if (st == DT_OK)
        st = dti_plan_map_part(&picture, p->f, err);
    fputs("</div>\n", p->f);
    fputs(table_of_map, p->f);
    dti_page_section_end(p);
    const dt_status added = add_plan(&p->data, v->plan, seconds, st == DT_OK ? err : NULL);
    dt_timeline_deinit(&time);
    return st != DT_OK ? st : added;
}

/* ---- the machine ---- */

dt_status dti_page_machine(const dti_page *p, const dt_session *s, dt_err *err)
{
    char fact[DT_FACT_BYTES];
    dt_memory_stream text;
    const dt_build build = dt_build_facts();
    DT_CHECK(dt_memory_open(&text, "the configuration", err));
    dt_config_dump(s->config, text.f);
    DT_CHECK(dt_memory_close(&text, DT_OK, err));
    dti_page_section(p, "machine", "Machine and configuration");
    dti_page_list(p);
    dti_page_item(p, "dnntrain", "%s%s%s%s%s", build.version, build.git[0] != '\0' ? " (" : "",
        build.git, build.git[0] != '\0' ? "), " : ", ", build.library);
    dti_page_item(p, "device", "%s, %s", dt_device_name(s->context.device), dt_session_isa(s));
    if (s->context.card != NULL)
        dti_page_item(p, "planned for", "%s", s->context.card->name);
    dti_page_item(p, "processor", "%s, %d thread%s", dt_cpu_name(fact), s->threads,
        s->threads == 1 ? "" : "s");
    dti_page_item(p, "system", "%s", dt_system_name(fact));
    dti_page_item(p, "written", "%s", dt_date(fact));
    dti_page_list_end(p);
    fputs("<details><summary>every key of the configuration, and where it comes "
          "from</summary>\n<pre>",
        p->f);
    dti_xml_text(p->f, text.text);
    fputs("</pre></details>\n", p->f);
    dti_page_section_end(p);
    dt_free(text.text);
    return DT_OK;
}

/* ---- a plan by itself ---- */

static void begin(dti_page *p, const dti_page_plan *v, FILE *f)
{
    char title[512], about[512], peak[DT_HUMAN_BYTES];
    const dt_session *s = v->session;
    snprintf(title, sizeof title, "%s, %.180s", s->graph->name, dt_session_policy(s));
    snprintf(about, sizeof about,
        "%s at the peak for %" PRId64 " samples at once; program '%s', precision %s, device %s",
        dt_human_bytes(peak, v->plan->peak), v->plan->batch, v->plan->program,
        dt_session_precision(s), dt_device_name(s->context.device));
    dti_page_begin(p, f, title, about);
}

dt_status dti_page_of_plan(const void *page_plan, FILE *f, dt_err *err)
{
    const dti_page_plan *v = page_plan;
    dti_page p;
    begin(&p, v, f);
    dt_status st = dti_page_policy(&p, v, err);
    if (st == DT_OK)
        st = dti_page_map(&p, v, err);
    if (st == DT_OK)
        st = dti_page_machine(&p, v->session, err);
    const dt_status ended = dti_page_end(&p, st == DT_OK ? err : NULL);
    return st != DT_OK ? st : ended;
}
