/* Sessions of different devices, cards and precisions in one process, in two threads at once, on a
 * model of a card: each plans what it plans alone, and trains the bits that it trains alone. */
#include <dnntrain.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"
#include "engine/driver.h"
#include "session/open.h"
#include "session/run.h"
#include "session/run_plans.h"
#include "session/session.h"
#include "tests/fixture/check.h"

enum { SETS = 8, SET_BYTES = 512, PLANS = 12 };

static const char net[] =
    "[model]\nimage = 12\nclasses = 4\n[data]\nsource = synthetic\nsamples = 16\n"
    "[train]\nbatch = 4\nsteps = 3\nlr = 0.05\n[device]\nthreads = 1\n"
    "[conv c1]\nout = 8\nkernel = 3\npad = 1\n[relu r1]\n[maxpool p]\nkernel = 2\nstride = 2\n"
    "[conv c2]\nout = 8\nkernel = 3\npad = 1\n[relu r2]\n[fc f]\nout = 4\n";

/* What one thread does, and what came of it. */
typedef struct job {
    const char *how[SETS]; /* up to the first that is NULL */
    char dir[SET_BYTES];
    dt_status st;
    dt_err err;
    uint64_t peak[PLANS];
    char sha[DT_SHA256_TEXT];
    pthread_barrier_t *together;
} job;

static dt_status open_run(dt_run **run, job *j)
{
    const char *sets[SETS + 1];
    size_t n = 0;
    for (; n < SETS && j->how[n] != NULL; n++)
        sets[n] = j->how[n];
    sets[n++] = j->dir;
    return dt_run_open_text(run, "net", net, strlen(net), sets, n, &j->err);
}

static dt_status train(job *j)
{
    dt_run *run = NULL;
    char weights[SET_BYTES + 64];
    uint64_t bytes;
    dt_status st = open_run(&run, j);
    if (st == DT_OK)
        st = dt_run_begin(run, NULL, &j->err);
    if (st == DT_OK)
        st = dt_run_train(run, 0, &j->err);
    if (st == DT_OK)
        st = dt_run_end(run, DT_OK, &j->err);
    dt_run_close(run);
    snprintf(
        weights, sizeof weights, "%s/checkpoints/model.safetensors", j->dir + strlen("run.dir="));
    return st == DT_OK ? dti_sha256_file(weights, j->sha, &bytes, DT_E_DATA, &j->err) : st;
}

/* Again and again, so that one thread plans while the other opens. */
static dt_status plan(job *j)
{
    dt_status st = DT_OK;
    for (int i = 0; i < PLANS && st == DT_OK; i++) {
        dt_run *run = NULL;
        st = open_run(&run, j);
        if (st == DT_OK)
            st = dt_run_plan(run, &j->err);
        if (st == DT_OK)
            j->peak[i] = dt_run_memory(run).device;
        dt_run_close(run);
    }
    return st;
}

/* No assertion in threads: they belong to the one that runs the tests. */
static void *train_thread(void *arg)
{
    job *j = arg;
    if (j->together != NULL)
        pthread_barrier_wait(j->together);
    j->st = train(j);
    return NULL;
}

static void *plan_thread(void *arg)
{
    job *j = arg;
    if (j->together != NULL)
        pthread_barrier_wait(j->together);
    j->st = plan(j);
    return NULL;
}

static job *new_job(const char *const how[SETS])
{
    static int next;
    char name[32];
    job *j = dt_alloc(1, sizeof *j);
    assert_non_null(j);
    memcpy(j->how, how, sizeof j->how);
    snprintf(name, sizeof name, "card-session%d", next++);
    snprintf(j->dir, sizeof j->dir, "run.dir=%s", dt_temp_path(name));
    return j;
}

/* What has failed in whichever of the two. */
static void both(void *(*thread)(void *), job *a, job *b)
{
    pthread_t at[2];
    pthread_barrier_t together;
    job *const j[2] = {a, b};
    assert_int_equal(pthread_barrier_init(&together, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        j[i]->together = &together;
        assert_int_equal(pthread_create(&at[i], NULL, thread, j[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(at[i], NULL), 0);
    pthread_barrier_destroy(&together);
    for (int i = 0; i < 2; i++)
        assert_ok(j[i]->st, &j[i]->err);
}

static job *alone(void *(*thread)(void *), const char *const how[SETS])
{
    job *j = new_job(how);
    thread(j);
    assert_ok(j->st, &j->err);
    return j;
}

static const char *const settings[][SETS] = {
    {"device.kind=cuda", "train.precision=fp32", "memory.policy=vdnn_all"},
    {"device.kind=cuda", "train.precision=tf32"},
    {"device.kind=cuda", "train.precision=bf16", "memory.policy=chen_sqrt"},
    {"device.kind=cpu", "train.precision=fp32"},
};

static void two_threads_train_what_each_trains_alone(void **state)
{
    static const size_t pairs[][2] = {{0, 1}, {1, 2}, {2, 0}, {3, 1}, {0, 0}};
    job *want[DT_COUNT(settings)];
    (void)state;
    for (size_t i = 0; i < DT_COUNT(settings); i++)
        want[i] = alone(train_thread, settings[i]);
    for (size_t i = 0; i < DT_COUNT(settings); i++)
        for (size_t k = 0; k < i; k++) /* else nothing would be seen of the other's */
            assert_string_not_equal(want[i]->sha, want[k]->sha);
    for (size_t i = 0; i < DT_COUNT(pairs); i++) {
        job *a = new_job(settings[pairs[i][0]]), *b = new_job(settings[pairs[i][1]]);
        both(train_thread, a, b);
        assert_string_equal(a->sha, want[pairs[i][0]]->sha);
        assert_string_equal(b->sha, want[pairs[i][1]]->sha);
        dt_free(a);
        dt_free(b);
    }
    for (size_t i = 0; i < DT_COUNT(settings); i++)
        dt_free(want[i]);
}

/* ZeRO-Offload: parameters, gradients and optimizer state live on the host, and its processor makes
 * the updates, to the bits of a card that makes them itself. */
static void the_host_updates_for_a_card(void **state)
{
    static const char *const more[][2] = {{"train.optimizer=adamw"}, {"train.momentum=0.9"},
        {"train.optimizer=lion"}, {"train.optimizer=adam", "train.clip=0.01"},
        {"train.micro_batch=2"}, {"train.update=early", "train.finite=off"}};
    (void)state;
    for (size_t i = 0; i < DT_COUNT(more); i++) {
        job *want = alone(
            train_thread, (const char *const[SETS]){"device.kind=cuda", more[i][0], more[i][1]});
        job *host = alone(train_thread, (const char *const[SETS]){"device.kind=cuda",
                                            "memory.policy=zero_offload", more[i][0], more[i][1]});
        job *card = alone(train_thread,
            (const char *const[SETS]){"device.kind=cuda", "memory.policy=zero_offload",
                "policy.zero_offload.parameters=device", more[i][0], more[i][1]});
        assert_string_equal(host->sha, want->sha);
        assert_string_equal(card->sha, want->sha);
        dt_free(want);
        dt_free(host);
        dt_free(card);
    }
}

/* A host program may mean another card in the thread that calls, before and between its calls. */
static void *elsewhere_thread(void *arg)
{
    job *j = arg;
    dt_run *run = NULL;
    const dt_driver *d = dt_device_answers(DT_CUDA, &j->err) ? dt_device_driver(DT_CUDA) : NULL;
    if (d == NULL) {
        j->st = DT_E_DEVICE;
        return NULL;
    }
    d->mean(1);
    j->st = open_run(&run, j);
    for (int step = 0; step < 2 && j->st == DT_OK; step++) {
        j->st = step == 0 ? dt_run_begin(run, NULL, &j->err) : dt_run_train(run, 0, &j->err);
        if (d->meant() != 1)
            j->st = DT_FAIL(
                &j->err, DT_E_INTERNAL, "the thread means card %d behind a call", d->meant());
    }
    if (j->st == DT_OK)
        j->st = dt_run_end(run, DT_OK, &j->err);
    dt_run_close(run);
    return NULL;
}

static void the_card_of_a_host_program_stays_its_own(void **state)
{
    pthread_t at;
    job *j = new_job((const char *const[SETS]){"device.kind=cuda", "memory.policy=vdnn_all"});
    (void)state;
    assert_int_equal(pthread_create(&at, NULL, elsewhere_thread, j), 0);
    assert_int_equal(pthread_join(at, NULL), 0);
    assert_ok(j->st, &j->err);
    dt_free(j);
}

/* In a trace what the host's processor computes stands on a stream of its own. */
static void a_trace_tells_the_host_from_the_card(void **state)
{
    char dir[SET_BYTES], path[SET_BYTES], line[512], stream[16], kind[16];
    int host[2] = {0}, others[2] = {0}; /* ops of updates, and of what is before them */
    dt_run *run = NULL;
    dt_err err = {0};
    (void)state;
    snprintf(dir, sizeof dir, "run.dir=%s", dt_temp_path("card-trace"));
    snprintf(path, sizeof path, "%s", dt_temp_path("card-trace.csv"));
    const char *const how[] = {"device.kind=cuda", "memory.policy=zero_offload", dir};
    assert_ok(dt_run_open_text(&run, "net", net, strlen(net), how, DT_COUNT(how), &err), &err);
    assert_ok(dt_run_trace(run, path, &err), &err);
    assert_ok(dt_run_begin(run, NULL, &err), &err);
    assert_ok(dt_run_train(run, 0, &err), &err);
    assert_ok(dt_run_end(run, DT_OK, &err), &err);
    dt_run_close(run);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "%*[^,],%*[^,],%*[^,],%*[^,],%15[^,],%*[^,],%15[^,]", stream, kind) == 2 &&
            strcmp(kind, "compute") == 0) {
            const bool updates = strstr(line, ",update,") != NULL;
            if (strcmp(stream, "host") == 0)
                host[updates]++;
            else
                others[updates]++;
        }
    assert_int_equal(fclose(f), 0);
    assert_true(host[true] > 0 && others[false] > 0);
    assert_int_equal(host[false], 0);
    assert_int_equal(others[true], 0);
}

/* An update for which the device holds nothing and nothing moves; where parameters stay it does. */
static void such_updates_take_nothing_of_the_card(void **state)
{
    static const char *const where[] = {"host", "device"};
    (void)state;
    for (size_t i = 0; i < DT_COUNT(where); i++) {
        char set[64];
        snprintf(set, sizeof set, "policy.zero_offload.parameters=%s", where[i]);
        const char *const how[] = {
            "device.kind=cuda", "memory.policy=zero_offload", set, "train.momentum=0.9"};
        dt_session *s = NULL;
        dt_err err = {0};
        const dt_planned *p = NULL;
        int hosts = 0, copies = 0;
        assert_ok(
            dti_session_open_text(&s, "net", net, strlen(net), how, DT_COUNT(how), &err), &err);
        assert_ok(dti_session_plan(s, DT_PROGRAM_UPDATE, 0, &p, &err), &err);
        for (size_t k = 0; k < p->plan->n_op; k++)
            hosts += p->plan->op[k].on_host;
        for (size_t k = 0; k < p->plan->n_row; k++)
            copies +=
                p->plan->row[k].kind == DT_ROW_COPY_IN || p->plan->row[k].kind == DT_ROW_COPY_OUT;
        assert_int_equal(hosts, i == 0 ? (int)p->plan->n_op : 0);
        assert_int_equal(copies > 0, i == 1);
        dt_session_close(s);
    }
}

/* With a batch of one sample the scratch, by which cards differ, is in the peak. */
static const char *const cards[][SETS] = {
    {"device.card=h200", "train.precision=tf32", "train.batch=1"},
    {"device.card=l4", "train.precision=fp32", "train.batch=1"},
    {"device.kind=cuda", "train.precision=tf32", "train.batch=1"},
};

static void two_threads_plan_what_each_plans_alone(void **state)
{
    job *want[DT_COUNT(cards)];
    (void)state;
    for (size_t i = 0; i < DT_COUNT(cards); i++)
        want[i] = alone(plan_thread, cards[i]);
    for (size_t i = 0; i < DT_COUNT(cards); i++)
        for (size_t k = 0; k < i; k++)
            assert_true(want[i]->peak[0] != want[k]->peak[0]);
    for (size_t i = 0; i < DT_COUNT(cards); i++) {
        const size_t other = (i + 1) % DT_COUNT(cards);
        job *a = new_job(cards[i]), *b = new_job(cards[other]);
        both(plan_thread, a, b);
        assert_memory_equal(a->peak, want[i]->peak, sizeof a->peak);
        assert_memory_equal(b->peak, want[other]->peak, sizeof b->peak);
        dt_free(a);
        dt_free(b);
    }
    for (size_t i = 0; i < DT_COUNT(cards); i++)
        dt_free(want[i]);
}

/* So that blocks that the module leaves show, and each of its calls can be made to fail. */
static void what_the_module_asks_for_is_counted_with_the_programs(void **state)
{
    (void)state;
    dt_context c;
    dt_err err = {0};
    assert_true(dt_device_answers(DT_CUDA, &err));
    const long live = dti_alloc_live();
    assert_ok(dt_context_open(&c, DT_CUDA, NULL, false, &err), &err);
    assert_true(dti_alloc_live() > live);
    dt_context_close(&c);
    assert_int_equal(dti_alloc_live(), live);
    dti_alloc_fail_at(1);
    const dt_status st = dt_context_open(&c, DT_CUDA, NULL, false, &err);
    assert_true(dti_alloc_fail_at(0) <= 0);
    assert_fails(st, DT_E_NOMEM, &err, "no memory");
    dt_context_close(&c);
}

DT_TEST_GROUP(card_sessions)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_train_what_each_trains_alone),
        cmocka_unit_test(the_host_updates_for_a_card),
        cmocka_unit_test(the_card_of_a_host_program_stays_its_own),
        cmocka_unit_test(a_trace_tells_the_host_from_the_card),
        cmocka_unit_test(such_updates_take_nothing_of_the_card),
        cmocka_unit_test(two_threads_plan_what_each_plans_alone),
        cmocka_unit_test(what_the_module_asks_for_is_counted_with_the_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
