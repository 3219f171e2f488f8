/* dnntrain explain: what becomes of a tensor, of what a layer makes, or of all that a policy deals
 * with, and by which rule. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "engine/config/options.h"
#include "engine/tier.h"
#include "memory/policy.h"
#include "session/human.h"
#include "session/open.h"
#include "session/parts.h"
#include "session/run_plans.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "tools/plan_report.h"
#include "tools/plan_why.h"
#include "tools/terminal.h"
#include "tools/value_draw.h"

enum { LEAST_NAME = 24, LEAST_LEFT = 8, MOST_NAME = 28, REASON = 4, SETS = 64 };

typedef struct explained {
    const dt_session *s;
    const dt_planned *x;
    dt_timeline time;
    dti_value_view view;
} explained;

/* Columns for names. */
static int wider(int left, const char *name)
{
    const int n = (int)strlen(name);
    return n > MOST_NAME ? MOST_NAME : n > left ? n : left;
}

/* ---- a layer ---- */

static bool begins_with(const char *tensor, const char *layer, size_t n)
{
    return strncmp(tensor, layer, n) == 0 && strchr(".'", tensor[n]) != NULL;
}

/* Whether a layer's name is a whole part of a tensor's, from its beginning or behind a first part:
 * "c4" of "d.c4", "c4.y", "g.c4.weight". */
static bool is_of(const char *tensor, const char *layer)
{
    const size_t n = strlen(layer);
    const char *dot = strchr(tensor, '.');
    return begins_with(tensor, layer, n) || (dot != NULL && begins_with(dot + 1, layer, n));
}

/* Of several layers that a tensor's name has in it, it belongs to the one of the longest name. */
static const dt_node *layer_of(const dt_graph *g, const char *tensor)
{
    const dt_node *best = NULL;
    for (size_t i = 0; i < g->n_node; i++)
        if (is_of(tensor, g->node[i].name) &&
            (best == NULL || strlen(g->node[i].name) > strlen(best->name)))
            best = &g->node[i];
    return best;
}

/* What is done about its wait: the last row that does something tells. */
static void print_fate(const dti_value_view *w)
{
    const char *fate = NULL, *reason = "";
    for (size_t i = 0; i < w->p->n_row; i++) {
        const dt_row *r = &w->p->row[i];
        const char *now = r->kind != DT_ROW_PLACE ? dti_value_fate(w, r) : NULL;
        if (now == NULL)
            continue;
        fate = now;
        reason = r->reason >= 0 ? w->p->reason[r->reason] : "no reason is given";
    }
    if (fate != NULL) {
        const int at = printf("    %s: ", fate);
        dti_term_wrap(stdout, at, REASON, reason);
    } else if (w->next > 0)
        printf("    kept\n");
}

static void print_tensor(dti_value_view *w, int32_t tensor, int width)
{
    const dt_plan_tensor *t = &w->p->tensor[tensor];
    char role[DT_HUMAN_BYTES], size[DT_HUMAN_BYTES];
    dti_value_look(w, tensor);
    printf("  ");
    dti_column_name(t->name, 2, width);
    printf(" %-20s %11s", dt_human_role(role, (dt_role)t->role), dt_human_bytes(size, t->bytes));
    if (dt_plan_resident(t))
        printf("  stays\n");
    else if (w->next > 0)
        printf("  idle %" PRId64 " op%s\n", w->ops, w->ops == 1 ? "" : "s");
    else
        printf("  never idle\n");
    if (!dt_plan_resident(t))
        print_fate(w);
}

static bool belongs(const explained *e, size_t tensor, const dt_node *layer)
{
    const char *name = e->view.p->tensor[tensor].name;
    return e->view.value[tensor] == (int32_t)tensor && is_of(name, layer->name) &&
           layer_of(e->s->graph, name) == layer;
}

static void explain_layer(explained *e, const dt_node *layer)
{
    dti_value_view *w = &e->view;
    const dt_shape *y = &layer->info.y;
    printf("%s   layer %s, output %" PRId64 "x%" PRId64 "x%" PRId64 ", program '%s'\n", layer->name,
        layer->desc->name, y->h, y->w, y->c, w->p->program);
    int name = LEAST_NAME, left = LEAST_LEFT;
    for (size_t i = 0; i < w->p->n_tensor; i++)
        if (belongs(e, i, layer)) {
            name = wider(name, w->p->tensor[i].name);
            if (!dt_plan_resident(&w->p->tensor[i]))
                left = wider(left, w->p->tensor[i].name);
        }
    for (size_t i = 0; i < w->p->n_tensor; i++)
        if (belongs(e, i, layer))
            print_tensor(w, (int32_t)i, name);
    dti_value_draw_head(w, left);
    for (size_t i = 0; i < w->p->n_tensor; i++)
        if (belongs(e, i, layer) && !dt_plan_resident(&w->p->tensor[i])) {
            w->tensor = (int32_t)i;
            dti_value_draw(w, left);
        }
    dti_value_draw_legend(left);
}

/* ---- a policy ---- */

/* What it was opened with; NULL: it is none of the session's. */
static const void *options_of(const dt_session *s, const dt_policy *p)
{
    for (size_t i = 0; i < s->policies.n; i++)
        if (s->policies.pass[i].policy == p)
            return s->policies.pass[i].opts;
    return NULL;
}

static void print_options(const dt_session *s, const dt_policy *p)
{
    const void *opts = options_of(s, p);
    for (const dt_opt *o = p->opts; opts != NULL && o != NULL && o->key != NULL; o++) {
        char allowed[128];
        dt_opt_allowed(o, allowed, sizeof allowed);
        printf("option    policy.%s.%s = ", p->name, o->key);
        dt_opt_print(stdout, o, opts);
        printf(" (%s)\n", allowed);
    }
}

/* A ladder's plan is that of the rung that fits, auto's has the rules of what it found best. */
static bool takes_others(const dt_policy *p)
{
    return p->n_rung > 0 || p->takes_homes;
}

/* The reason of a row as far as it is the policy's own; all of it where others' are; NULL: neither
 * is. */
static const char *reason_of(const dti_value_view *w, const dt_row *r, const dt_policy *p)
{
    const size_t n = strlen(p->name);
    const char *reason = r->reason >= 0 ? w->p->reason[r->reason] : "";
    if (strncmp(reason, p->name, n) == 0 && reason[n] == ':')
        return reason + n + 2;
    return takes_others(p) && reason[0] != '\0' ? reason : NULL;
}

static void print_decision(const dt_plan_tensor *t, const char *fate)
{
    char size[DT_HUMAN_BYTES];
    printf("  ");
    dti_column_name(t->name, 2, MOST_NAME);
    printf(" %11s  %s\n", dt_human_bytes(size, t->bytes), fate);
}

/* What becomes of values by its rules, each once; whether anything does. */
static bool print_fates(explained *e, const dt_policy *p)
{
    dti_value_view *w = &e->view;
    int32_t last = -1;
    for (size_t i = 0; i < w->p->n_row; i++) {
        const dt_row *r = &w->p->row[i];
        const char *reason = reason_of(w, r, p);
        for (size_t k = 0; reason != NULL && k < w->p->n_tensor; k++) {
            w->tensor = (int32_t)k;
            const char *fate = w->value[k] == (int32_t)k ? dti_value_fate(w, r) : NULL;
            if (fate == NULL || strcmp(fate, "in place") == 0 || (int32_t)k == last)
                continue;
            last = (int32_t)k;
            print_decision(&w->p->tensor[k], fate);
            printf("%*s", REASON, "");
            dti_term_wrap(stdout, REASON, REASON, reason);
        }
    }
    return last >= 0;
}

/* What lives elsewhere, where it may be the policy that says so; whether anything does. */
static bool print_homes(const dt_plan *plan, const dt_policy *p)
{
    bool any = false;
    for (size_t i = 0; (p->home != NULL || takes_others(p)) && i < plan->n_tensor; i++) {
        const dt_plan_tensor *t = &plan->tensor[i];
        char where[32];
        if (!t->persistent || dt_plan_resident(t))
            continue;
        snprintf(where, sizeof where, "lives on the %s", dt_tier_name(t->tier));
        print_decision(t, where);
        any = true;
    }
    return any;
}

static void print_decisions(explained *e, const dt_policy *p)
{
    const bool fates = print_fates(e, p), homes = print_homes(e->x->plan, p);
    if (!fates && !homes)
        printf("  nothing\n");
}

static void print_exact(const dt_session *s, const dt_policy *p)
{
    char parts[DT_PARTS_TEXT];
    if (!p->exact)
        printf("results   change\n");
    else if (p->parts != NULL && dt_session_exact_for(parts, s)[0] != '\0')
        printf("exact     %s\n", parts);
    else
        printf("exact     it changes no bit of what is trained\n");
}

static dt_status explain_policy(explained *e, const dt_policy *p, dt_err *err)
{
    dti_report r;
    char now[DT_HUMAN_BYTES], kept[DT_HUMAN_BYTES], moved[DT_HUMAN_BYTES];
    dt_status st = dti_report_init(&r, e->s, err);
    if (st == DT_OK) {
        const int at = printf("%s   ", p->name);
        dti_term_wrap(stdout, at, REASON, p->summary);
        print_exact(e->s, p);
        print_options(e->s, p);
        printf("here      %s under %s", dt_human_bytes(now, r.top->plan->peak),
            dt_session_policy(e->s));
        if (r.saving.kept > 0)
            printf(", %s with all kept", dt_human_bytes(kept, r.saving.kept));
        printf("\ncosts     a step moves %s out, and runs %" PRId64 " op%s again\n",
            dt_human_bytes(moved, r.cost.out), r.cost.recomputes,
            r.cost.recomputes == 1 ? "" : "s");
        if (r.saving.text[0] != '\0')
            dti_term_wrap(stdout, 0, REASON, r.saving.text);
        printf("what it deals with in program '%s'\n", e->x->plan->program);
        print_decisions(e, p);
    }
    dti_report_deinit(&r);
    return st;
}

/* ---- the command ---- */

static dt_status unknown(const explained *e, const char *word, dt_err *err)
{
    size_t n_policy, n = 0;
    const dt_policy *const *all = dt_policy_all(&n_policy);
    const dt_plan *p = e->x->plan;
    const char **names = dti_value_names(e->s->graph, p, n_policy, &n);
    if (names == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to look for '%s'", word);
    for (size_t i = 0; i < n_policy; i++)
        names[n++] = all[i]->name;
    const char *near = dt_nearest(word, names);
    const dt_status st =
        near != NULL
            ? DT_FAIL(err, DT_E_CONFIG,
                  "'%s' is no tensor of program '%s', no layer and no policy; did you mean '%s'?",
                  word, p->program, near)
            : DT_FAIL(err, DT_E_CONFIG,
                  "'%s' is no tensor of program '%s', no layer and no policy; `dnntrain show` "
                  "lists "
                  "the layers, `dnntrain plan CONFIG --rows` the tensors, `dnntrain list policies` "
                  "the policies",
                  word, p->program);
    dt_free(names);
    return st;
}

static dt_status explain_word(explained *e, const char *word, dt_err *err)
{
    char now[DTI_NOW_BYTES];
    if (dti_value_told_fused(e->s->graph, word, now))
        word = now;
    const dt_policy *policy = dt_policy_find(word);
    const int32_t tensor = dti_value_find(e->x->plan, word);
    const int32_t layer = dt_graph_find(e->s->graph, word);
    if (tensor >= 0) {
        DT_CHECK(dti_plan_why(e->s, e->x->plan, &e->time, word, err));
        const int left = wider(LEAST_LEFT, word);
        e->view.tensor = tensor;
        dti_value_draw_head(&e->view, left);
        dti_value_draw(&e->view, left);
        dti_value_draw_legend(left);
        return DT_OK;
    }
    if (layer >= 0) {
        explain_layer(e, &e->s->graph->node[layer]);
        return DT_OK;
    }
    return policy != NULL ? explain_policy(e, policy, err) : unknown(e, word, err);
}

static dt_status explain_planned(explained *e, const char *program, const char *word, dt_err *err)
{
    dt_prediction known;
    DT_CHECK(dti_find_program(e->s, program, &e->x, err));
    DT_CHECK(dt_plan_set_predict(e->s->plans, &known, err));
    dt_status st = dt_session_simulate(e->s, e->x->plan, &e->time, err);
    if (st == DT_OK)
        st = dti_value_init(&e->view, e->s, e->x->plan, &e->time, err);
    if (st == DT_OK && !known.known && dti_value_find(e->x->plan, word) >= 0)
        dti_cli_notice("seconds are of defaults; memory.profile or memory.simulate says by what");
    if (st == DT_OK)
        st = explain_word(e, word, err);
    dti_value_deinit(&e->view);
    dt_timeline_deinit(&e->time);
    return st;
}

/* Whether a list of policies has one of the name. */
static bool lists(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || strchr(", ", at[-1]) != NULL) && strchr(", ", at[n]) != NULL)
            return true;
    return false;
}

/* A policy that the configuration does not name is planned with in place of its own. */
static dt_status explain_config(
    const char *path, const char *word, const char *program, dti_cli *cli, dt_err *err)
{
    dt_session *s = NULL;
    char policy[128];
    const char *sets[SETS + 1];
    size_t n = 0;
    if (access(path, F_OK) != 0 && access(word, F_OK) == 0)
        return DT_FAIL(
            err, DT_E_CONFIG, "the configuration comes first: dnntrain explain %s %s", word, path);
    DT_CHECK(dti_cli_check_file(path, err));
    if (cli->n_set > SETS)
        return DT_FAIL(err, DT_E_CONFIG, "%zu times --set; at most %d", cli->n_set, SETS);
    for (; n < cli->n_set; n++)
        sets[n] = cli->set[n];
    dt_status st = dti_cli_session(&s, path, sets, n, err);
    if (st == DT_OK && dt_policy_find(word) != NULL && !lists(s->opts.memory.policy, word)) {
        dt_session_close(s);
        s = NULL;
        snprintf(policy, sizeof policy, "memory.policy=%s", word);
        sets[n++] = policy;
        st = dti_cli_session(&s, path, sets, n, err);
    }
    if (st == DT_OK) {
        dti_cli_no_card(s);
        st = dt_session_plan_run(s, true, 0, 0, err);
    }
    explained e = {.s = s};
    if (st == DT_OK)
        st = explain_planned(&e, program != NULL ? program : "first", word, err);
    dt_session_close(s);
    return st;
}

static dt_status explain(const dti_command_args *a, dt_err *err)
{
    const char *program = NULL;
    const dti_flag flags[] = {
        {"--program", "NAME", "in which plan: first (default), again, update or eval", NULL,
            &program},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_explain, a, flags, true, 2, err);
    if (st == DT_OK && !cli.help && cli.n_word < 2)
        st = DT_FAIL(err, DT_E_CONFIG, "name a CONFIG and what to explain; usage: %s",
            dt_command_explain.usage);
    if (st == DT_OK && !cli.help)
        st = explain_config(cli.word[0], cli.word[1], program, &cli, err);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_explain = {
    .name = "explain",
    .usage = "dnntrain explain CONFIG TENSOR|LAYER|POLICY [--set s.k=v]...",
    .summary = "where it is made, read and idle, what is done with it, and by which rule",
    .run = explain,
};
