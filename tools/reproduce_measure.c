/* One published number made again: sessions of its networks and settings, planned and simulated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/map.h"
#include "memory/accounts/superneurons.h"
#include "session/predict.h"
#include "session/session.h"
#include "tools/args.h"
#include "tools/reproduce.h"

enum { MOST_SETS = 12, MOST_BATCH = 1 << 16, TEXT = 512 };

/* "NAME" or "NAME:BATCH". */
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

/* Simulated on a Titan X unless the row says where. */
static dt_status split(settings *s, const char *words, dt_err *err)
{
    *s = (settings){.n = 0};
    if (strlen(words) >= TEXT)
        return DT_FAIL(err, DT_E_INTERNAL, "settings of a row have more than %d letters", TEXT);
    snprintf(s->text, sizeof s->text, "%s", words);
    DT_CHECK(add_set(s, "train.precision=fp32", err));
    DT_CHECK(add_set(s, "memory.device_budget=0", err));
    if (strstr(words, "memory.simulate=") == NULL)
        DT_CHECK(add_set(s, "memory.simulate=titanx", err));
    char *rest = NULL;
    for (char *at = strtok_r(s->text, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest))
        DT_CHECK(add_set(s, at, err));
    return DT_OK;
}

/* A network below configs/, or a model by its name with 1,000 classes. */
static dt_status open_session(
    dt_session **out, const network *n, const settings *s, int64_t batch, dt_err *err)
{
    char set[64], path[256], text[256];
    settings all = *s; /* whose pieces lie in the text of *s */
    snprintf(set, sizeof set, "train.batch=%" PRId64, batch);
    DT_CHECK(add_set(&all, set, err));
    if (strchr(n->name, '/') != NULL) {
        if (!dti_cli_in_configs(n->name, path, sizeof path))
            return DT_FAIL(err, DT_E_CONFIG,
                "there is no configs/%s.ini here; start in the project's folder", n->name);
        return dt_session_open(out, path, all.set, all.n, err);
    }
    const int bytes = snprintf(text, sizeof text,
        "[model]\nname = %s\nclasses = 1000\n[data]\nsource = synthetic\nsamples = 65536\n"
        "[train]\nsteps = 2\nlr = 0.01\nmomentum = 0.9\n",
        n->name);
    return dt_session_open_text(out, n->name, text, (size_t)bytes, all.set, all.n, err);
}

static dt_status plan(dt_plan_set **out, const dt_session *s, int64_t batch, bool all, dt_err *err)
{
    const dt_planned *first;
    dt_plan_request q = dt_session_request(s);
    q.batch = q.micro_batch = batch;
    DT_CHECK(dt_plan_set_create(out, s, &q, err));
    return all ? dt_plan_set_run(*out, false, 0, 0, err)
               : dt_plan_set_add(*out, DT_PROGRAM_FIRST, batch, &first, err);
}

static dt_status fits(const dt_session *s, int64_t batch, bool *yes, dt_err *err)
{
    dt_plan_set *p = NULL;
    const dt_status st = plan(&p, s, batch, true, err);
    *yes = st == DT_OK && dt_plan_set_need(p).device <= s->opts.memory.device_budget;
    dt_plan_set_destroy(p);
    return st;
}

/* The largest batch that fits; larger ones take more. */
static dt_status largest_batch(const dt_session *s, double *out, dt_err *err)
{
    int64_t lo = 0, hi = 64;
    bool yes = true;
    while (yes && hi < MOST_BATCH) {
        DT_CHECK(fits(s, hi, &yes, err));
        lo = yes ? hi : lo;
        hi = yes ? 2 * hi : hi;
    }
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        DT_CHECK(fits(s, mid, &yes, err));
        *(yes ? &lo : &hi) = mid;
    }
    *out = (double)lo;
    return DT_OK;
}

/* Bytes of the map in one role, all or only those of convolutions, whose weights have rank 4. */
static double persistent(const dt_plan_set *p, dt_role role, bool convolutions)
{
    double sum = 0;
    for (size_t i = 0; i < p->map->n; i++) {
        const dt_home *h = &p->map->home[i];
        if (h->role != role)
            continue;
        const dt_node *node = h->node >= 0 ? &p->session->graph->node[h->node] : NULL;
        if (!convolutions || (node != NULL && node->info.param[0].rank == 4))
            sum += (double)h->bytes;
    }
    return sum;
}

static double features(const dt_plan_set *p, double transient)
{
    return transient + persistent(p, DT_ROLE_WEIGHTS, true) +
           persistent(p, DT_ROLE_GRADIENTS, true);
}

static dt_status read_quantity(const dt_plan_set *p, dt_quantity what, double *out, dt_err *err)
{
    const double mib = 1 << 20, gib = 1 << 30;
    const dt_need need = dt_plan_set_need(p);
    const double transient = (double)need.device - (double)p->map->bytes;
    const double state = persistent(p, DT_ROLE_OPTIMIZER, false);
    const double gradients = persistent(p, DT_ROLE_GRADIENTS, false);
    const dt_score score = dt_plan_set_score(p);
    dt_prediction time;
    DT_CHECK(dt_plan_set_predict(p, &time, err));
    const double values[] = {[DT_DEVICE_MIB] = (double)need.device / mib,
        [DT_STATELESS_MIB] = ((double)need.device - state) / mib,
        [DT_WEIGHTS_MIB] = ((double)need.device - state - gradients) / mib,
        [DT_FEATURES_MIB] = features(p, transient) / mib,
        [DT_TRANSIENT_MIB] = transient / mib,
        [DT_TRANSIENT_GIB] = transient / gib,
        [DT_HOST_GIB] = (double)need.host / gib,
        [DT_MOVED_MIB] = (double)score.out / mib,
        [DT_TRAFFIC_GB] = (double)(score.out + score.in) / 1e9,
        [DT_AVERAGE_MIB] = (time.average - (double)p->map->bytes) / mib,
        [DT_SECONDS] = time.seconds,
        [DT_RATE] = time.rate};
    *out = values[what];
    return DT_OK;
}

static dt_status superneurons(
    const dt_session *s, dt_quantity what, int64_t batch, double *out, dt_err *err)
{
    dt_superneurons n;
    DT_CHECK(dt_superneurons_count(&n, s->graph, batch, err));
    const struct {
        uint64_t value;
        double unit;
    } of[] = {{n.tensors, 1}, {n.baseline, 1 << 20}, {n.liveness, 1 << 20}, {n.offloaded, 1 << 20},
        {n.speed, 1 << 20}, {n.memory, 1 << 20}, {n.speed_runs, 1}, {n.memory_runs, 1},
        {n.aware, 1 << 20}, {n.aware_runs, 1}};
    const size_t i = (size_t)what - DT_SUPERNEURONS_TENSORS;
    *out = (double)of[i].value / of[i].unit;
    return DT_OK;
}

static dt_status of_session(
    const dt_session *s, const dt_published *p, int64_t batch, double *out, dt_err *err)
{
    if (p->quantity == DT_LARGEST_BATCH)
        return largest_batch(s, out, err);
    if (p->quantity >= DT_SUPERNEURONS_TENSORS)
        return superneurons(s, p->quantity, batch, out, err);
    dt_plan_set *set = NULL;
    dt_status st = plan(&set, s, batch, true, err);
    if (st == DT_OK)
        st = read_quantity(set, p->quantity, out, err);
    dt_plan_set_destroy(set);
    return st;
}

static dt_status measure(
    const dt_published *p, const network *n, const char *words, double *out, dt_err *err)
{
    settings s;
    dt_session *session = NULL;
    DT_CHECK(split(&s, words, err));
    dt_status st = open_session(&session, n, &s, n->batch, err);
    if (st == DT_OK)
        st = of_session(session, p, n->batch, out, err);
    dt_session_close(session);
    return st;
}

/* A baseline that holds what it has for the whole step has no mean but that. */
static dt_status measure_base(const dt_published *p, const network *n, double *out, dt_err *err)
{
    dt_published base = *p;
    if (base.quantity == DT_AVERAGE_MIB)
        base.quantity = DT_TRANSIENT_MIB;
    return measure(&base, n, p->base, out, err);
}

static dt_status of_network(const dt_published *p, const network *n, double *out, dt_err *err)
{
    double own = 0, base = 0;
    DT_CHECK(measure(p, n, p->own, &own, err));
    if (p->form != DT_PLAIN)
        DT_CHECK(measure_base(p, n, &base, err));
    switch (p->form) {
    case DT_PLAIN:
        *out = own;
        break;
    case DT_RATIO:
        *out = base / own;
        break;
    case DT_LESS:
        *out = 100 * (1 - own / base);
        break;
    case DT_MORE:
        *out = 100 * (base / own - 1);
        break;
    }
    return DT_OK;
}

/* The next of the row's networks; false when there is none. */
static bool next_network(const char **at, network *n)
{
    while (**at == ' ')
        ++*at;
    const size_t bytes = strcspn(*at, " "), name = strcspn(*at, " :");
    if (bytes == 0 || name >= sizeof n->name)
        return false;
    memcpy(n->name, *at, name);
    n->name[name] = '\0';
    n->batch = name < bytes ? strtoll(*at + name + 1, NULL, 10) : 64;
    *at += bytes;
    return true;
}

dt_status dti_reproduce_measure(const dt_published *p, double *ours, dt_err *err)
{
    double sum = 0, one = 0;
    size_t count = 0;
    network n;
    for (const char *at = p->networks; next_network(&at, &n); count++) {
        DT_TRY(err, of_network(p, &n, &one, err), "while planning %s", n.name);
        sum += one;
    }
    *ours = sum / (double)count;
    return DT_OK;
}
