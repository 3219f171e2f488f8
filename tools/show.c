/* dnntrain show: the network, layer by layer. */
#include "tools/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "session/open.h"
#include "session/plan_set.h"
#include "tools/args.h"
#include "tools/columns.h"
#include "session/human.h"
#include "tools/json_out.h"
#include "tools/terminal.h"

enum { LONG = 40, NAME_LEAST = 12, NAME_MOST = 27 };

typedef struct network {
    dt_session *s;
    dt_policies keep_all;
    dt_plan_set *plans;
    dti_show_row *row, total;
    size_t n;
} network;

/* As the network's author wrote it: no policy and no fate changes what is shown. */
static dt_status plain_program(network *w, const dt_program **p, dt_err *err)
{
    const dt_planned *first;
    dt_plan_request r = dt_session_request(w->s);
    r.policies = &w->keep_all;
    r.fates = NULL;
    DT_CHECK(dt_policies_open(&w->keep_all, "keep_all", NULL, err));
    DT_CHECK(dt_plan_set_create(&w->plans, w->s, &r, err));
    DT_CHECK(dt_plan_set_add(w->plans, DT_PROGRAM_FIRST, r.micro_batch, &first, err));
    *p = first->program;
    return DT_OK;
}

static dti_show_row row_of(const dt_graph *g, size_t i)
{
    const dt_node *n = &g->node[i];
    dti_show_row r = {.name = n->name, .kind = n->desc->name, .y = n->info.y};
    for (int k = 0; k < n->info.n_param; k++)
        if (!n->info.param[k].buffer)
            r.parameters += dt_param_count(&n->info.param[k]);
    return r;
}

static void add_ops(const network *w, const dt_program *p)
{
    for (size_t i = 0; i < p->n_order; i++) {
        const dt_op *op = &p->op[p->order[i]];
        const double flops = op->flops / (double)p->n;
        if (op->node != DT_NONE && op->kind == DT_OP_FORWARD)
            w->row[op->node].forward += flops;
        else if (op->node != DT_NONE && op->kind == DT_OP_BACKWARD)
            w->row[op->node].backward += flops;
    }
}

static void add_bytes(const network *w, const dt_program *p)
{
    for (size_t t = 0; t < p->n_tensor; t++) {
        const dt_tensor *x = &p->tensor[t];
        if (x->node != DT_NONE && x->role == DT_ROLE_ACTIVATIONS)
            w->row[x->node].activation += x->bytes;
        else if (x->node != DT_NONE && x->role == DT_ROLE_STASH)
            w->row[x->node].stash += x->bytes;
    }
}

static dt_status describe(network *w, dt_err *err)
{
    const dt_program *p = NULL;
    const dt_graph *g = w->s->graph;
    DT_CHECK(plain_program(w, &p, err));
    w->n = g->n_node;
    w->row = dt_alloc(w->n, sizeof *w->row);
    if (w->row == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of layers");
    for (size_t i = 0; i < w->n; i++)
        w->row[i] = row_of(g, i);
    add_ops(w, p);
    add_bytes(w, p);
    for (size_t i = 0; i < w->n; i++) {
        const dti_show_row *r = &w->row[i];
        w->total.parameters += r->parameters;
        w->total.forward += r->forward;
        w->total.backward += r->backward;
        w->total.activation += r->activation;
        w->total.stash += r->stash;
    }
    return DT_OK;
}

/* ---- a long network is mostly the same block again and again: find those ---- */

enum { LONGEST = 64 }; /* layers of a block */

/* Names of equal layers of two blocks differ in their numbers. */
static bool same_layer(const dti_show_row *a, const dti_show_row *b)
{
    return strcmp(a->kind, b->kind) == 0 && dt_alike_but_digits(a->name, b->name) &&
           a->y.h == b->y.h && a->y.w == b->y.w && a->y.c == b->y.c &&
           a->parameters == b->parameters && !(a->forward < b->forward) &&
           !(a->forward > b->forward) && a->activation == b->activation && a->stash == b->stash;
}

/* How often the @period rows from @first stand there in a row. */
static size_t count_times(const dti_show_row *row, size_t n, size_t first, size_t period)
{
    size_t i = first + period;
    while (i < n && same_layer(&row[i], &row[i - period]))
        i++;
    return (i - first) / period;
}

static size_t rows_saved(const dti_show_part *p)
{
    return (p->times - 1) * p->period;
}

/* The block that begins here and leaves out most rows; the shortest of several. */
static dti_show_part block_at(const dti_show_row *row, size_t n, size_t first)
{
    dti_show_part best = {first, 1, 1};
    for (size_t period = 2; period <= LONGEST && first + 2 * period <= n; period++) {
        const dti_show_part p = {first, period, count_times(row, n, first, period)};
        if (rows_saved(&p) > rows_saved(&best))
            best = p;
    }
    return best;
}

/* Characters that the names of a block's first and last layer begin with: those of one module have
 * more of them than the end of one and the beginning of the next. */
static size_t kinship(const dti_show_row *row, const dti_show_part *p)
{
    const char *a = row[p->first].name, *b = row[p->first + p->period - 1].name;
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n])
        n++;
    return n;
}

/* A row at a time where a block that begins soon leaves out more, or as much in whole modules. */
static dti_show_part part_at(const dti_show_row *row, size_t n, size_t first)
{
    const dti_show_part here = block_at(row, n, first);
    for (size_t i = first + 1; i < first + here.period && i < n; i++) {
        const dti_show_part later = block_at(row, n, i);
        if (rows_saved(&later) > rows_saved(&here) ||
            (rows_saved(&later) == rows_saved(&here) && kinship(row, &later) > kinship(row, &here)))
            return (dti_show_part){first, 1, 1};
    }
    return here;
}

size_t dti_show_fold(const dti_show_row *row, size_t n, dti_show_part *part)
{
    size_t n_part = 0;
    for (size_t i = 0; i < n; i += part[n_part].period * part[n_part].times, n_part++)
        part[n_part] = part_at(row, n, i);
    return n_part;
}

/* ---- for people ---- */

static void shape(char to[48], const dt_shape *y)
{
    if (y->h == 1 && y->w == 1)
        snprintf(to, 48, "%" PRId64, y->c);
    else if (y->w == 1)
        snprintf(to, 48, "%" PRId64 "x%" PRId64, y->h, y->c);
    else
        snprintf(to, 48, "%" PRId64 "x%" PRId64 "x%" PRId64, y->h, y->w, y->c);
}

/* A blank for nothing: a column of zeros hides what is there. */
static const char *bytes(char to[DT_HUMAN_BYTES], uint64_t n)
{
    return n > 0 ? dt_human_bytes(to, n) : "";
}

/* Millions of operations, to one place. */
static const char *millions(char to[DT_HUMAN_BYTES], double flops)
{
    const uint64_t tenths = (uint64_t)(flops / 1e5 + 0.5);
    if (flops <= 0)
        return "";
    if (tenths == 0)
        return "< 0.1";
    dt_human_count(to, tenths / 10);
    const size_t n = strlen(to);
    snprintf(to + n, DT_HUMAN_BYTES - n, ".%d", (int)(tenths % 10));
    return to;
}

enum { OUTPUT, PARAMETERS, MFLOP, ACTIVATION, STASH, COLUMNS };

/* How wide a table's columns are, and which there is room for. */
typedef struct layout {
    int name, kind;
    dti_table_column column[COLUMNS];
} layout;

static void widen(int *width, const char *text)
{
    const int n = (int)strlen(text);
    *width = n > *width ? n : *width;
}

/* By what is never left out. */
static int used_by(const layout *t)
{
    return t->name + 1 + t->kind;
}

/* As wide as their widest cell; long names lose their beginning before a column is left out. */
static void lay_out(layout *t, const network *w)
{
    *t = (layout){NAME_LEAST, 4,
        {[OUTPUT] = {"output", 6, 0, NULL, false},
            [PARAMETERS] = {"parameters", 10, 1, NULL, false},
            [MFLOP] = {"MFLOP", 6, 2, NULL, false},
            [ACTIVATION] = {"activation", 10, 3, NULL, false},
            [STASH] = {"stash", 5, 4, NULL, false}}};
    for (size_t i = 0; i <= w->n; i++) {
        const dti_show_row *r = i < w->n ? &w->row[i] : &w->total;
        char text[48];
        if (i < w->n) {
            t->name = (int)strlen(r->name) + 2 > t->name ? (int)strlen(r->name) + 2 : t->name;
            widen(&t->kind, r->kind);
            shape(text, &r->y);
            widen(&t->column[OUTPUT].width, text);
        }
        widen(&t->column[PARAMETERS].width, dt_human_count(text, (uint64_t)r->parameters));
        widen(&t->column[MFLOP].width, millions(text, r->forward));
        widen(&t->column[ACTIVATION].width, bytes(text, r->activation));
        widen(&t->column[STASH].width, bytes(text, r->stash));
    }
    t->name = t->name < NAME_MOST ? t->name : NAME_MOST;
    dti_columns_fit(t->column, COLUMNS, used_by(t));
}

static void print_row(const dti_show_row *r, const char *mark, const layout *t)
{
    char y[48] = "", count[DT_HUMAN_BYTES], flops[DT_HUMAN_BYTES], a[DT_HUMAN_BYTES],
         b[DT_HUMAN_BYTES];
    if (r->kind[0] != '\0')
        shape(y, &r->y);
    const char *const cells[COLUMNS] = {y,
        r->parameters > 0 ? dt_human_count(count, (uint64_t)r->parameters) : "",
        millions(flops, r->forward), bytes(a, r->activation), bytes(b, r->stash)};
    printf("%s", mark);
    dti_column_end_of(r->name, t->name - (int)strlen(mark));
    printf(" %-*s", t->kind, r->kind);
    for (int i = 0; i < COLUMNS; i++)
        dti_column(&t->column[i], cells[i]);
    putchar('\n');
}

static void print_part(const network *w, const dti_show_part *p, const layout *t)
{
    const bool folded = p->times > 1;
    for (size_t i = p->first; i < p->first + p->period; i++)
        print_row(&w->row[i], folded ? "| " : "", t);
    if (folded)
        printf("| %zu times these %zu layers, to %s\n", p->times, p->period,
            w->row[p->first + p->times * p->period - 1].name);
}

static dt_status print_layers(const network *w, bool all, const layout *t, dt_err *err)
{
    dti_show_part *part = dt_alloc(w->n, sizeof *part);
    if (part == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a table of layers");
    size_t n = 0;
    if (all || w->n <= LONG)
        for (; n < w->n; n++)
            part[n] = (dti_show_part){n, 1, 1};
    else
        n = dti_show_fold(w->row, w->n, part);
    for (size_t i = 0; i < n; i++)
        print_part(w, &part[i], t);
    dt_free(part);
    return DT_OK;
}

static dt_status table(const network *w, bool all, dt_err *err)
{
    const dt_graph *g = w->s->graph;
    const int64_t micro = w->s->micro_batch;
    layout t;
    char in[48], count[DT_HUMAN_BYTES], text[256];
    char forward[DT_HUMAN_BYTES], backward[DT_HUMAN_BYTES];
    const bool classes = dt_graph_label_kind(g) == DT_LABEL_CLASS;
    const int64_t gives = classes ? g->classes : dt_graph_labels(g);
    lay_out(&t, w);
    shape(in, &g->input);
    printf("%s   input %s, %" PRId64 " %s%s, %zu layers\noperations for a sample, bytes for %s of "
           "%" PRId64 "\n\n",
        g->name, in, gives, classes ? "classes" : "value", classes || gives == 1 ? "" : "s", w->n,
        micro == w->s->opts.train.batch ? "a batch" : "a micro-batch", micro);
    printf("%-*s %-*s", t.name, "layer", t.kind, "kind");
    dti_columns_head(t.column, COLUMNS);
    DT_CHECK(print_layers(w, all, &t, err));
    dti_show_row total = w->total;
    total.name = "total";
    total.kind = "";
    print_row(&total, "", &t);
    putchar('\n');
    dti_columns_left_out(t.column, COLUMNS, used_by(&t));
    snprintf(text, sizeof text,
        "forward %s and backward %s a sample, a multiply-add being two;\n%s parameters\n"
        "Not all bytes are there at once: `dnntrain plan` tells what a step takes.",
        dt_human_flops(forward, w->total.forward), dt_human_flops(backward, w->total.backward),
        dt_human_count(count, (uint64_t)w->total.parameters));
    dti_term_wrap(stdout, 0, 0, text);
    return DT_OK;
}

/* ---- as JSON ---- */

static void numbers(dt_json *to, const dti_show_row *r)
{
    dt_json_whole(to, "parameters", (uint64_t)r->parameters);
    dt_json_real(to, "forward_flops", r->forward, 0);
    dt_json_real(to, "backward_flops", r->backward, 0);
    dt_json_whole(to, "activation_bytes", r->activation);
    dt_json_whole(to, "stash_bytes", r->stash);
}

static void shape_list(dt_json *to, const char *key, const dt_shape *y)
{
    dt_json list = dt_json_list(to, key);
    dt_json_push(&list, (uint64_t)y->h);
    dt_json_push(&list, (uint64_t)y->w);
    dt_json_push(&list, (uint64_t)y->c);
    dt_json_leave(to, &list);
}

static dt_status json(const network *w, dt_err *err)
{
    const dt_graph *g = w->s->graph;
    dt_json j = dt_json_begin();
    dt_json_text(&j, "model", g->name);
    shape_list(&j, "input", &g->input);
    if (dt_graph_label_kind(g) == DT_LABEL_CLASS)
        dt_json_whole(&j, "classes", (uint64_t)g->classes);
    else
        dt_json_whole(&j, "values", (uint64_t)dt_graph_labels(g));
    dt_json_whole(&j, "micro_batch", (uint64_t)w->s->micro_batch);
    dt_json layers = dt_json_list(&j, "layers");
    for (size_t i = 0; i < w->n; i++) {
        dt_json row = dt_json_element(&layers);
        dt_json_text(&row, "name", w->row[i].name);
        dt_json_text(&row, "kind", w->row[i].kind);
        shape_list(&row, "output", &w->row[i].y);
        numbers(&row, &w->row[i]);
        dt_json_leave(&layers, &row);
    }
    dt_json_leave(&j, &layers);
    dt_json total = dt_json_inner(&j, "total");
    numbers(&total, &w->total);
    dt_json_leave(&j, &total);
    return dti_json_out(&j, err);
}

/* ---- the command ---- */

static dt_status show_config(const dti_cli *cli, bool as_json, bool all, dt_err *err)
{
    network w = {0};
    if (cli->n_word == 0)
        return DT_FAIL(err, DT_E_CONFIG, "name a CONFIG; usage: %s", dt_command_show.usage);
    DT_CHECK(dti_cli_check_file(cli->word[0], err));
    dt_status st = dti_cli_session(&w.s, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK)
        st = describe(&w, err);
    if (st == DT_OK)
        st = as_json ? json(&w, err) : table(&w, all, err);
    dt_free(w.row);
    dt_plan_set_destroy(w.plans);
    dt_policies_close(&w.keep_all);
    dt_session_close(w.s);
    return st;
}

static dt_status show(const dti_command_args *a, dt_err *err)
{
    bool as_json = false, all = false;
    const dti_flag flags[] = {
        {"--json", NULL, "as one object, layer by layer", &as_json, NULL},
        {"--all", NULL, "every layer of a long network, repeated blocks too", &all, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_show, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help)
        st = show_config(&cli, as_json, all, err);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_show = {
    .name = "show",
    .usage = "dnntrain show CONFIG [--set s.k=v]... [--json] [--all]",
    .summary = "the network layer by layer: shapes, parameters, operations, bytes",
    .run = show,
};
