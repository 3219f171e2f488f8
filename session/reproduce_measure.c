/* One published number made again: sessions of its networks and settings, planned and simulated. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/map.h"
#include "engine/config/nearest.h"
#include "memory/usage.h"
#include "models/model.h"
#include "session/open.h"
#include "session/plan_set.h"
#include "session/session.h"
#include "session/sweep.h"
#include "session/reproduce.h"

enum { MOST_SETS = 20, MOST_BATCH = 1 << 16, FIRST_BATCH = 64, TEXT = 1024 };

/* "NAME:BATCH", or "NAME" where the batch is what is looked for. */
typedef struct network {
    char name[64];
    int64_t batch;
} network;

/* A row's settings as --set takes them: pieces of one text. */
typedef struct settings {
    char text[TEXT];
    const char *set[MOST_SETS];
    size_t n;
} settings;

static dt_status add_set(settings *s, const char *set, dt_err *err)
{
    if (s->n == MOST_SETS)
        return DT_FAIL(err, DT_E_INTERNAL, "a row has more than %d settings", MOST_SETS);
    s->set[s->n++] = set;
    return DT_OK;
}

/* Simulated on a Titan X unless the row says where; for two threads, as the library's scratch
 * depends on how many there are, so that every machine plans the same bytes. */
static dt_status split(settings *s, const char *words, dt_err *err)
{
    *s = (settings){.n = 0};
    if (strlen(words) >= TEXT)
        return DT_FAIL(err, DT_E_INTERNAL, "settings of a row have more than %d letters", TEXT);
    snprintf(s->text, sizeof s->text, "%s", words);
    DT_CHECK(add_set(s, "train.precision=fp32", err));
    DT_CHECK(add_set(s, "memory.device_budget=0", err));
    DT_CHECK(add_set(s, "device.threads=2", err));
    if (strstr(words, "memory.simulate=") == NULL)
        DT_CHECK(add_set(s, "memory.simulate=titanx", err));
    char *rest = NULL;
    for (char *at = strtok_r(s->text, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest))
        DT_CHECK(add_set(s, at, err));
    return DT_OK;
}

/* A model by its name, with 1,000 classes, or a network below configs/. */
static dt_status open_session(
    dt_session **out, const network *n, const settings *s, int64_t batch, dt_err *err)
{
    char set[64], path[256], text[256];
    settings all = *s; /* whose pieces lie in the text of *s */
    snprintf(set, sizeof set, "train.batch=%" PRId64, batch);
    DT_CHECK(add_set(&all, set, err));
    if (dt_model_find(n->name) == NULL) {
        if (!dt_session_in_configs(n->name, path, sizeof path))
            return DT_FAIL(err, DT_E_CONFIG,
                "there is neither a model '%s' nor configs/%s.ini here; start in the project's "
                "folder",
                n->name, n->name);
        return dt_session_open(out, path, all.set, all.n, err);
    }
    const int bytes = snprintf(text, sizeof text,
        "[model]\nname = %s\nclasses = 1000\n[data]\nsource = synthetic\nsamples = 65536\n"
        "[train]\nsteps = 2\nlr = 0.01\nmomentum = 0.9\n",
        n->name);
    return dti_session_open_text(out, n->name, text, (size_t)bytes, all.set, all.n, err);
}

static dt_status plan(dt_plan_set **out, const dt_session *s, const dt_plan_request *q, dt_err *err)
{
    DT_CHECK(dt_plan_set_create(out, s, q, err));
    return dti_plan_set_run(*out, false, 0, 0, err);
}

/* Bytes of the map in one role, all or only those of convolutions. */
static double persistent(const dt_plan_set *p, dt_role role, bool convolutions)
{
    double sum = 0;
    for (size_t i = 0; i < p->map->n; i++) {
        const dt_home *h = &p->map->home[i];
        if (h->role != role)
            continue;
        const dt_node *node = h->node >= 0 ? &p->session->graph->node[h->node] : NULL;
        if (!convolutions || (node != NULL && dt_graph_convolves(node)))
            sum += (double)h->bytes;
    }
    return sum;
}

/* ---- quantities of plans ---- */

/**
 * struct planned - what quantities are read from.
 * @transient: bytes at the peak, without what outlives a step
 */
typedef struct planned {
    const dt_plan_set *set;
    dt_need need;
    dt_score score;
    dt_prediction time;
    double transient;
} planned;

enum { MIB = 1 << 20, GIB = 1 << 30 };

static double device_mib(const planned *p)
{
    return (double)p->need.device / MIB;
}

static double device_gb(const planned *p)
{
    return (double)p->need.device / 1e9;
}

static double device_gib(const planned *p)
{
    return (double)p->need.device / GIB;
}

static double stateless_mib(const planned *p)
{
    return device_mib(p) - persistent(p->set, DT_ROLE_OPTIMIZER, false) / MIB;
}

static double weights_mib(const planned *p)
{
    return stateless_mib(p) - persistent(p->set, DT_ROLE_GRADIENTS, false) / MIB;
}

static double features_mib(const planned *p)
{
    return (p->transient + persistent(p->set, DT_ROLE_WEIGHTS, true) +
               persistent(p->set, DT_ROLE_GRADIENTS, true)) /
           MIB;
}

static double transient_mib(const planned *p)
{
    return p->transient / MIB;
}

static double transient_gib(const planned *p)
{
    return p->transient / GIB;
}

static double transient_gb(const planned *p)
{
    return p->transient / 1e9;
}

/* Of a step that is run once; NULL: there is none. */
static const dt_plan *first_plan(const dt_plan_set *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->planned[i]->kind == DT_PROGRAM_FIRST && !p->planned[i]->dense)
            return p->planned[i]->plan;
    return NULL;
}

/* What waits when forward has ended: alive before the first op of backward, without what outlives a
 * step. NaN: no memory to count it. */
static double waiting_mib(const planned *p)
{
    double bytes = (double)NAN;
    const dt_plan *x = first_plan(p->set);
    dt_usage u = {0};
    if (x == NULL || dt_plan_usage(x, &u, NULL) != DT_OK)
        u.n_instant = 0;
    for (size_t k = u.n_instant; k-- > 0;) {
        const dt_row *r = &x->row[u.instant[k].row];
        if (r->kind == DT_ROW_COMPUTE && x->op[r->op].kind == DT_OP_BACKWARD)
            bytes = (double)u.instant[k].bytes - (double)p->set->map->bytes;
    }
    dt_usage_deinit(&u);
    return bytes / MIB;
}

static double host_mib(const planned *p)
{
    return (double)p->need.tier[DT_TIER_HOST] / MIB;
}

static double host_share(const planned *p)
{
    const double host = (double)p->need.tier[DT_TIER_HOST];
    return 100 * host / (host + weights_mib(p) * MIB);
}

static double moved_mib(const planned *p)
{
    return (double)p->score.out / MIB;
}

static double traffic_gb(const planned *p)
{
    return (double)(p->score.out + p->score.in) / 1e9;
}

static double average_mib(const planned *p)
{
    return (p->time.average - (double)p->set->map->bytes) / MIB;
}

static double seconds(const planned *p)
{
    return p->time.seconds;
}

static double rate(const planned *p)
{
    return p->time.rate;
}

static double parameters_b(const planned *p)
{
    return (double)dt_graph_parameters(p->set->session->graph) / 1e9;
}

/* Of a trained parameter: it, what its update keeps, and its gradient. */
static double state_bytes(const planned *p)
{
    const double sum = persistent(p->set, DT_ROLE_WEIGHTS, false) +
                       persistent(p->set, DT_ROLE_OPTIMIZER, false) +
                       persistent(p->set, DT_ROLE_GRADIENTS, false);
    return sum / 1e9 / parameters_b(p);
}

/* @steady: of a baseline that holds all it has for the whole step; NULL: the same. Without @of it
 * is no plan's but the largest batch, of the multiples of @step. */
static const struct {
    const char *name;
    double (*of)(const planned *p);
    double (*steady)(const planned *p);
    int64_t step;
} quantities[] = {
    {"device_mib", device_mib, NULL, 0},
    {"device_gb", device_gb, NULL, 0},
    {"device_gib", device_gib, NULL, 0},
    {"stateless_mib", stateless_mib, NULL, 0},
    {"weights_mib", weights_mib, NULL, 0},
    {"features_mib", features_mib, NULL, 0},
    {"transient_mib", transient_mib, NULL, 0},
    {"transient_gib", transient_gib, NULL, 0},
    {"transient_gb", transient_gb, NULL, 0},
    {"waiting_mib", waiting_mib, NULL, 0},
    {"host_mib", host_mib, NULL, 0},
    {"host_share", host_share, NULL, 0},
    {"moved_mib", moved_mib, NULL, 0},
    {"traffic_gb", traffic_gb, NULL, 0},
    {"average_mib", average_mib, transient_mib, 0},
    {"seconds", seconds, NULL, 0},
    {"rate", rate, NULL, 0},
    {"state_bytes", state_bytes, NULL, 0},
    {"parameters_b", parameters_b, NULL, 0},
    {"largest_batch", NULL, NULL, 1},
    {"largest_batch_16", NULL, NULL, 16},
};

static dt_status find_figure(dti_quantity *out, const char *name, const char *dot, dt_err *err)
{
    char account[64];
    snprintf(account, sizeof account, "%.*s", (int)(dot - name), name);
    out->account = dt_account_find(account);
    for (size_t i = 0; out->account != NULL && i < out->account->n; i++)
        if (strcmp(out->account->figure[i].name, dot + 1) == 0) {
            out->figure = i;
            return DT_OK;
        }
    return DT_FAIL(err, DT_E_DATA,
        "there is no figure '%.60s' of an account; `dnntrain plan CONFIG --set "
        "memory.account=NAME` shows those that there are",
        name);
}

dt_status dti_quantity_find(dti_quantity *out, const char *name, dt_err *err)
{
    const char *names[DT_COUNT(quantities) + 1] = {NULL};
    const char *dot = strchr(name, '.');
    *out = (dti_quantity){0};
    if (dot != NULL)
        return find_figure(out, name, dot, err);
    for (size_t i = 0; i < DT_COUNT(quantities); i++) {
        names[i] = quantities[i].name;
        if (strcmp(names[i], name) == 0) {
            out->of_plan = (int)i;
            return DT_OK;
        }
    }
    const char *near = dt_nearest(name, names);
    return near != NULL ? DT_FAIL(err, DT_E_DATA,
                              "there is no quantity '%.40s'; did you mean '%s'?", name, near)
                        : DT_FAIL(err, DT_E_DATA, "there is no quantity '%.40s'", name);
}

/* A policy may have cut the batch in parts when the session was opened. */
static dt_status of_plans(const dt_session *s, int quantity, bool steady, double *out, dt_err *err)
{
    planned p = {0};
    dt_plan_set *set = NULL;
    const dt_plan_request q = dt_session_request(s);
    dt_status st = plan(&set, s, &q, err);
    if (st == DT_OK)
        st = dt_plan_set_predict(set, &p.time, err);
    if (st == DT_OK) {
        p.set = set;
        p.need = dt_plan_set_need(set);
        p.score = dt_plan_set_score(set);
        p.transient = (double)p.need.device - (double)set->map->bytes;
        /* what does not keep to its budget is no answer */
        const uint64_t budget = s->opts.memory.device_budget;
        if (budget > 0 && p.need.device > budget)
            *out = (double)NAN;
        else
            *out = steady && quantities[quantity].steady != NULL ? quantities[quantity].steady(&p)
                                                                 : quantities[quantity].of(&p);
    }
    dt_plan_set_destroy(set);
    return st;
}

static dt_status of_account(
    const dt_session *s, const dti_quantity *q, int64_t batch, double *out, dt_err *err)
{
    double value[DT_ACCOUNT_FIGURES];
    dt_account_ask ask = dt_session_account_ask(s, batch);
    ask.figure = (int)q->figure;
    DT_CHECK(q->account->count(s->graph, &ask, value, err));
    *out = value[q->figure];
    return DT_OK;
}

static dt_status of_session(const dt_session *s, const dti_quantity *q, bool steady, int64_t batch,
    double *out, dt_err *err)
{
    if (q->account != NULL)
        return of_account(s, q, batch, out, err);
    if (quantities[q->of_plan].of != NULL)
        return of_plans(s, q->of_plan, steady, out, err);
    int64_t largest = 0;
    DT_CHECK(dti_largest_batch(s, FIRST_BATCH, &largest, err));
    *out = (double)(largest - largest % quantities[q->of_plan].step);
    return DT_OK;
}

/* @steady: of a baseline that holds what it has for the whole step. */
static dt_status measure(const dti_quantity *q, const network *n, const char *words, bool steady,
    double *out, dt_err *err)
{
    settings s;
    dt_session *session = NULL;
    DT_CHECK(split(&s, words, err));
    dt_status st = open_session(&session, n, &s, n->batch, err);
    if (st == DT_OK)
        st = of_session(session, q, steady, n->batch, out, err);
    dt_session_close(session);
    return st;
}

static dt_status of_network(const dt_published_row *r, const network *n, double *out, dt_err *err)
{
    double own = 0, base = 0;
    DT_CHECK(measure(&r->quantity, n, r->own, false, &own, err));
    if (r->form != DTI_PLAIN)
        DT_CHECK(measure(&r->quantity, n, r->base, true, &base, err));
    const double made[] = {[DTI_PLAIN] = own,
        [DTI_RATIO] = base / own,
        [DTI_LESS] = 100 * (1 - own / base),
        [DTI_MORE] = 100 * (base / own - 1),
        [DTI_EXTRA] = 100 * (own / base - 1),
        [DTI_ADDED] = own - base};
    *out = fabs(made[r->form]) < 1e-9 ? 0 : made[r->form];
    return DT_OK;
}

/* The next of the row's networks; *there is false when there is none. */
static dt_status next_network(const char **at, network *n, bool *there, dt_err *err)
{
    *at += strspn(*at, " ");
    const size_t bytes = strcspn(*at, " "), name = strcspn(*at, " :");
    char digits[24];
    *there = bytes > 0;
    if (!*there)
        return DT_OK;
    const size_t rest = bytes > name ? bytes - name - 1 : 0;
    if (name == 0 || name >= sizeof n->name || rest >= sizeof digits)
        return DT_FAIL(err, DT_E_DATA, "'%.60s' is no NETWORK:BATCH", *at);
    snprintf(n->name, sizeof n->name, "%.*s", (int)name, *at);
    snprintf(digits, sizeof digits, "%.*s", (int)rest, *at + name + 1);
    n->batch = FIRST_BATCH;
    if (bytes > name && (!dt_parse_i64(digits, &n->batch) || n->batch < 1 || n->batch > MOST_BATCH))
        return DT_FAIL(err, DT_E_DATA, "'%.60s': a batch is 1 to %d", *at, MOST_BATCH);
    *at += bytes;
    return DT_OK;
}

dt_status dt_reproduce_measure(const dt_published_row *r, double *ours, dt_err *err)
{
    double sum = 0, most = -HUGE_VAL, one = 0;
    size_t count = 0;
    network n;
    bool there = true;
    for (const char *at = r->networks; there;) {
        DT_CHECK(next_network(&at, &n, &there, err));
        if (!there)
            break;
        DT_TRY(err, of_network(r, &n, &one, err), "while planning %s", n.name);
        sum += one;
        if (one > most || isnan(one)) /* fmax would forget what does not fit */
            most = one;
        count++;
    }
    *ours = r->most ? most : sum / (double)count;
    return DT_OK;
}

/* ---- what a note leaves open ---- */

bool dti_quantity_is_batch(const dti_quantity *q)
{
    return q->account == NULL && quantities[q->of_plan].of == NULL;
}

/* What stands for them, in the order of dti_reproduce_blanks. */
typedef struct blanks {
    char text[3][128];
} blanks;

const char *const dti_reproduce_blanks[] = {"{room}", "{held}", "{where}", NULL};

/* Bytes of the largest output of a layer, of a sample. */
static double largest_map(const dt_graph *g)
{
    int64_t most = 1;
    for (size_t i = 0; i < g->n_node; i++) {
        const int64_t here = dt_shape_sample(&g->node[i].info.y);
        most = here > most ? here : most;
    }
    return (double)most * sizeof(float);
}

/* The layer at whose op the peak is: "backward of layer1.2.bn3". */
static dt_status where_peak_is(const dt_plan_set *set, char *to, size_t bytes, dt_err *err)
{
    const dt_plan *x = first_plan(set);
    dt_usage u = {0};
    dt_status st = x != NULL ? dt_plan_usage(x, &u, err) : DT_OK;
    size_t row = st == DT_OK && u.peak < u.n_instant ? (size_t)u.instant[u.peak].row : SIZE_MAX;
    while (x != NULL && row < x->n_row && x->row[row].kind != DT_ROW_COMPUTE)
        row++; /* a copy: to the op behind it */
    if (x != NULL && row < x->n_row && x->op[x->row[row].op].node >= 0) {
        const dt_plan_op *op = &x->op[x->row[row].op];
        snprintf(to, bytes, "%s of %s", op->kind == DT_OP_BACKWARD ? "backward" : "forward",
            set->session->graph->node[op->node].name);
    }
    dt_usage_deinit(&u);
    return st;
}

/* @batch: ours */
static dt_status look(const dt_session *s, int64_t batch, double published, blanks *b, dt_err *err)
{
    dt_plan_set *set = NULL;
    const dt_plan_request q = dt_session_request(s);
    dt_status st = plan(&set, s, &q, err);
    if (st == DT_OK) {
        const double map = largest_map(s->graph), stays = (double)set->map->bytes;
        const double held = (double)dt_plan_set_need(set).device - stays;
        snprintf(b->text[0], sizeof b->text[0], "%.1f",
            ((double)s->opts.memory.device_budget - stays) / published / map);
        snprintf(b->text[1], sizeof b->text[1], "%.1f", held / (double)batch / map);
        st = where_peak_is(set, b->text[2], sizeof b->text[2], err);
    }
    dt_plan_set_destroy(set);
    return st;
}

static dt_status find_blanks(const dt_published_row *r, double ours, blanks *b, dt_err *err)
{
    settings s;
    network n;
    bool there;
    dt_session *session = NULL;
    const char *at = r->networks;
    const int64_t batch = ours >= 1 ? (int64_t)ours : 1;
    *b = (blanks){.text = {"-", "-", "an op"}};
    DT_CHECK(next_network(&at, &n, &there, err));
    DT_CHECK(split(&s, r->own, err));
    dt_status st = open_session(&session, &n, &s, batch, err);
    if (st == DT_OK)
        st = look(session, batch, r->published, b, err);
    dt_session_close(session);
    return st;
}

dt_status dt_reproduce_note(
    char *to, size_t bytes, const dt_published_row *r, double ours, dt_err *err)
{
    blanks b;
    size_t n = 0;
    if (strchr(r->note, '{') != NULL)
        DT_CHECK(find_blanks(r, ours, &b, err));
    for (const char *at = r->note; *at != '\0' && n + 1 < bytes;) {
        const char *put = at;
        size_t take = 1, skip = 1;
        for (size_t i = 0; *at == '{' && dti_reproduce_blanks[i] != NULL; i++)
            if (strncmp(at, dti_reproduce_blanks[i], strlen(dti_reproduce_blanks[i])) == 0) {
                put = b.text[i];
                take = strlen(put);
                skip = strlen(dti_reproduce_blanks[i]);
            }
        take = take < bytes - 1 - n ? take : bytes - 1 - n;
        memcpy(to + n, put, take);
        n += take;
        at += skip;
    }
    to[n] = '\0';
    return DT_OK;
}
