/* The policy auto: ahead of every policy and pair, the better the more bytes it has, the same
 * twice, and without a bit's difference in what is trained. Times are of a card's constants. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <dnntrain.h>
#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/kept.h"
#include "memory/least_room.h"
#include "memory/policies/auto_front.h"
#include "memory/remat/remat.h"
#include "memory/time/card_costs.h"
#include "session/budget.h"
#include "session/open.h"
#include "session/run_plans.h"
#include "tests/fixture/parse_config.h"
#include "tests/fixture/planned.h"
#include "tests/fixture/random_graph.h"
#include "tests/fixture/run_cli.h"

/* A convolutional network with a shortcut, and one of attention. */
static const char convolutions[] =
    "[model]\nimage = 16\nclasses = 10\n[data]\nsource = synthetic\nsamples = 32\n"
    "[train]\nbatch = 8\nsteps = 3\nlr = 0.05\nmomentum = 0.9\n[device]\nkind = cpu\n"
    "[conv a]\nout = 16\nkernel = 3\npad = 1\n[batchnorm a.bn]\n[relu a.relu]\n"
    "[conv b]\nout = 16\nkernel = 3\npad = 1\n[batchnorm b.bn]\n[relu b.relu]\n"
    "[conv c]\nout = 16\nkernel = 3\npad = 1\n[batchnorm c.bn]\n[add s]\n"
    "input = c.bn, a.relu\n[relu s.relu]\n[maxpool d]\nkernel = 2\n"
    "[conv e]\nout = 32\nkernel = 3\npad = 1\n[batchnorm e.bn]\n[relu e.relu]\n"
    "[global_avgpool g]\n[fc h]\nout = 10\n";
static const char attention[] =
    "[model]\nname = gpt2\nlayers = 1\nheads = 2\nwidth = 32\nvocab = 64\ncontext = 32\n"
    "[data]\nsource = text\n[train]\nbatch = 4\nsteps = 3\nlr = 0.01\n"
    "optimizer = adamw\n[device]\nkind = cpu\n";

/* A recurrent one with attention, whose labels wait for bytes that others use. */
static const char recurrent[] =
    "[model]\ncontext = 48\nclasses = 65\n[data]\nsource = text\n"
    "[train]\nbatch = 5\nsteps = 3\nlr = 0.01\n[device]\nkind = cpu\nthreads = 1\n"
    "[embedding e]\nvocab = 65\nout = 40\n[position p]\n[layernorm l1]\n"
    "[lstm r1]\nout = 64\n[dropout d1]\n[lstm r2]\nout = 48\n[linear q]\nout = 120\n"
    "[attention at]\nheads = 4\ncausal = on\nkind = naive\n[linear o]\nout = 48\n"
    "[add ad]\ninput = o, r2\n[rmsnorm rm]\n[linear h]\nout = 160\n[gelu g]\n"
    "[linear h2]\nout = 48\n[add ad2]\ninput = h2, ad\n[linear sc]\nout = 65\n";

typedef struct planned {
    uint64_t device;
    double seconds;
} planned;

/* What the network of attention reads: where it stands. */
static const char *reads(void)
{
    static char text[4096], set[512];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = (char)('a' + (i * i / 7 + i) % 26);
    snprintf(set, sizeof set, "data.path=%s", cli_file("auto.txt", text));
    return set;
}

/* How a network is trained, whatever its policy: micro-batches, fusion and precision. */
typedef struct way {
    const char *set[3];
} way;

static const way plain = {{"train.micro_batch=0", "model.fuse=on", "train.precision=fp32"}};

/* What is set for a run under policies and a budget. */
typedef struct settings {
    char policy[160], budget[64];
    const char *set[9];
    size_t n;
} settings;

static void settle(settings *s, const way *w, const char *policies, uint64_t budget)
{
    snprintf(s->policy, sizeof s->policy, "memory.policy=%s", policies);
    snprintf(s->budget, sizeof s->budget, "memory.device_budget=%llu", (unsigned long long)budget);
    const char *const all[] = {s->policy, s->budget, "memory.simulate=p100", reads(), w->set[0],
        w->set[1], w->set[2], "policy.auto.moves=4", "policy.auto.searches=off"};
    memcpy(s->set, all, sizeof all);
    s->n = DT_COUNT(all) - (strcmp(policies, "auto") != 0 ? 2 : 0);
}

/* What a step comes to; @eval: with an evaluation, which no policy makes smaller. */
static planned plan_as(
    const char *text, const way *w, const char *policies, uint64_t budget, bool eval)
{
    settings o;
    dt_session *s = NULL;
    dt_prediction t;
    dt_err err = {0};
    settle(&o, w, policies, budget);
    assert_ok(dt_session_open(&s, cli_file("auto.ini", text), o.set, o.n, &err), &err);
    assert_ok(dt_session_plan_run(s, eval, 0, 0, &err), &err);
    assert_ok(dt_plan_set_predict(s->plans, &t, &err), &err);
    const planned p = {dt_plan_set_peak(s->plans), t.seconds};
    dt_session_close(s);
    return p;
}

static planned plan(const char *text, const char *policies, uint64_t budget)
{
    return plan_as(text, &plain, policies, budget, false);
}

/* auto's session for a network, which keeps its front from budget to budget. */
static dt_session *open_auto(const char *text)
{
    settings o;
    dt_session *s = NULL;
    dt_err err = {0};
    settle(&o, &plain, "auto", 1);
    assert_ok(dt_session_open(&s, cli_file("auto.ini", text), o.set, o.n, &err), &err);
    return s;
}

static planned plan_within(dt_session *s, uint64_t budget)
{
    dt_prediction t;
    dt_err err = {0};
    dti_session_forget(s);
    s->opts.memory.device_budget = budget;
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    assert_ok(dt_plan_set_predict(s->plans, &t, &err), &err);
    return (planned){dt_plan_set_peak(s->plans), t.seconds};
}

static void never_behind(const char *text, const char *const *others, size_t n)
{
    dt_session *s = open_auto(text);
    const planned all = plan(text, "keep_all", 0), least = plan_within(s, 1);
    planned before = {UINT64_MAX, 0};
    const int steps = dt_scaled(1, 3, 3);
    assert_true(least.device < all.device);
    for (int i = steps; i >= 0; i--) {
        const uint64_t budget =
            least.device + (all.device - least.device) * (uint64_t)i / (uint64_t)steps;
        const planned own = plan_within(s, budget);
        assert_true(own.device <= budget);
        assert_true(own.device <= before.device && own.seconds >= before.seconds);
        before = own;
        for (size_t k = 0; k < n; k++) {
            if (!dt_picked(k + (uint64_t)i, 2, 2, 1))
                continue;
            const planned other = plan(text, others[k], budget);
            if (other.device <= budget && !(own.seconds <= other.seconds * (1 + 1e-9)))
                fail_msg("auto takes %g s at %llu bytes, %s %g s", own.seconds,
                    (unsigned long long)budget, others[k], other.seconds);
        }
    }
    dt_session_close(s);
}

static void no_policy_is_ahead(void **state)
{
    (void)state;
    dt_take_turns(2, 4);
    static const char *const others[] = {"keep_all", "vdnn_conv", "vdnn_all", "cdma", "chen_sqrt",
        "chen_cheap", "chen_budget", "gist_lossless", "chen_cheap,vdnn_conv", "chen_sqrt,vdnn_all",
        "chen_cheap,capuchin", "vdnn_conv,rotor", "capuchin", "rotor", "capuchin,gist_lossless",
        "autoswap,gist_lossless", "chen_budget,gist_lossless"};
    const char *const nets[] = {convolutions, attention};
    for (size_t i = 0; i < DT_COUNT(nets); i++)
        if ((i + dt_test_seed()) % (uint64_t)dt_scaled(2, 2, 1) == 0)
            never_behind(nets[i], others, DT_COUNT(others));
}

/* Where the first of a pair by itself is slower than what is found, and the second, in whose plan
 * things lie elsewhere, makes it faster. */
static void no_pair_that_is_placed_better_is_ahead(void **state)
{
    (void)state;
    if (dt_small_scale())
        skip();
    const uint64_t budget = 2276224;
    const way whole = {{"train.micro_batch=5", "model.fuse=on", "train.precision=fp32"}};
    const planned pair = plan_as(recurrent, &whole, "chen_sqrt,modnn", budget, false);
    const planned own = plan_as(recurrent, &whole, "auto", budget, false);
    assert_true(pair.device <= budget && own.device <= budget);
    assert_true(own.seconds <= pair.seconds * (1 + 1e-9));
}

/* Where a policy does for the run's budget what it does without one, masks are read in place of
 * values behind that as well. */
static void no_pair_whose_first_needs_no_budget_is_ahead(void **state)
{
    (void)state;
    static const char unet[] = "[model]\nname = unet\nclasses = 4\nimage = 64\nwidth = 16\n"
                               "[data]\nsource = synthetic\nsamples = 64\n[train]\nbatch = 8\n"
                               "optimizer = adamw\n[device]\nkind = cpu\nthreads = 2\n";
    if (!dt_whole_scale())
        skip(); /* half a minute */
    const uint64_t budget = 52618578;
    const way whole = {{"train.micro_batch=8", "memory.simulate=v100", "train.precision=fp32"}};
    const planned pair = plan_as(unet, &whole, "capuchin,gist_lossless", budget, false);
    const planned own = plan_as(unet, &whole, "auto", budget, false);
    assert_true(pair.device <= budget && own.device <= budget);
    assert_true(own.seconds <= pair.seconds * (1 + 1e-9));
}

static dti_pass_cost cost_with(
    const dt_lowered *m, const char *list, const char *ini, const dt_pass_env *env)
{
    dt_policies of;
    dt_config *c_of = NULL;
    dt_program *p = NULL;
    dti_pass_cost c;
    dt_err err = {0};
    assert_ok(dt_program_copy(&p, m->program, &err), &err);
    if (ini[0] != '\0')
        assert_ok(parse_config(&c_of, "test", ini, strlen(ini), &err), &err);
    assert_ok(dt_policies_open(&of, list, c_of, &err), &err);
    assert_ok(dt_policies_apply(&of, p, env, &err), &err);
    assert_ok(dti_pass_cost_of(env, p, &c, &err), &err);
    dt_policies_close(&of);
    dt_config_destroy(c_of);
    dt_program_destroy(p);
    return c;
}

static dti_pass_cost cost_under(const dt_lowered *m, const char *list, const dt_pass_env *env)
{
    return cost_with(m, list, "", env);
}

/* Searches find something for one budget that they do not for the next; where all are made for the
 * front, less bytes never take less time. */
static void searched_over_the_front_less_bytes_take_no_less_time(void **state)
{
    (void)state;
    enum { BUDGETS = 12 };
    dt_take_turns(3, 4);
    dt_costs costs;
    dt_costs_of_card(&costs, dt_card_speed_find("p100"));
    const int nets = dt_scaled(1, 1, 6);
    for (int i = 0; i < nets; i++) {
        dt_lowered m =
            dt_program_of(dt_random_graph((uint64_t)i + dt_test_seed()), DT_PROGRAM_FIRST, 64);
        dt_kept *kept = dt_kept_create(NULL, NULL);
        dt_pass_env env = {.costs = &costs, .kept = kept};
        const uint64_t most = cost_under(&m, "keep_all", &env).device;
        dti_pass_cost before = {.device = UINT64_MAX};
        for (uint64_t k = BUDGETS; k > 0; k--) {
            env.budgets.device = most / 4 + (most - most / 4) * k / BUDGETS;
            const dti_pass_cost own =
                cost_with(&m, "auto", "[policy.auto]\nmoves = 1\nsearches = front\n", &env);
            if (own.device > env.budgets.device)
                break; /* below what any plan takes */
            assert_true(own.device <= before.device);
            assert_true(own.seconds >= before.seconds);
            before = own;
        }
        assert_true(before.device < UINT64_MAX);
        dt_kept_destroy(kept);
        dt_lowered_close(&m);
    }
}

/* Where backward reads masks in place of values, nothing leaves and nothing runs again for it: it
 * stands beside what recomputes as what offloads does. */
static void no_pair_with_what_is_read_instead_is_ahead(void **state)
{
    (void)state;
    enum { VGG_BATCH = 64 };
    if (dt_small_scale())
        skip();
    dt_costs costs;
    dt_costs_of_card(&costs, dt_card_speed_find("rtx3090"));
    dt_pass_env env = {.costs = &costs};
    dt_lowered m = dt_program_of(dt_standard("vgg16"), DT_PROGRAM_FIRST, VGG_BATCH);
    const dti_pass_cost alone = cost_under(&m, "gist_lossless", &env);
    env.budgets.device = alone.device - alone.device / 200;
    const dti_pass_cost pair = cost_under(&m, "gist_lossless,chen_budget", &env);
    const dti_pass_cost own =
        cost_with(&m, "auto", "[policy.auto]\nmoves = 0\nsearches = off\n", &env);
    assert_true(pair.device <= env.budgets.device && own.device <= env.budgets.device);
    assert_true(own.seconds <= pair.seconds * (1 + 1e-9));
    dt_lowered_close(&m);
    dt_costs_deinit(&costs);
}

/* One that leaves parameters where they are unless it is told otherwise, and that this build has.
 */
static bool is_held_against(const dt_policy *p, bool disk)
{
    return p->exact && !dti_policy_has_homes(p) && p->rung == NULL &&
           strcmp(p->name, "auto") != 0 && (disk || !p->to_disk) &&
           (!p->solver || dt_solver_name() != NULL);
}

static void not_behind(
    const dt_lowered *m, const dt_pass_env *env, const dti_pass_cost *own, const char *list)
{
    const dti_pass_cost c = cost_under(m, list, env);
    if (c.device <= env->budgets.device &&
        !(own->device <= env->budgets.device && own->seconds <= c.seconds * (1 + 1e-9)))
        fail_msg("auto takes %g s in %llu of %llu bytes, %s %g s", own->seconds,
            (unsigned long long)own->device, (unsigned long long)env->budgets.device, list,
            c.seconds);
}

/* By itself, and, where it goes by a budget, with masks read in place of values behind it. */
static void no_exact_policy_is_ahead_of(const dt_lowered *m, const dt_pass_env *env)
{
    size_t n;
    const dt_policy *const *all = dt_policy_all(&n);
    const bool disk = env->lower->tier == DT_TIER_DISK;
    const dti_pass_cost own = cost_under(m, "auto", env);
    for (size_t i = 0; i < n; i++) {
        char list[DT_POLICY_LIST];
        if (!is_held_against(all[i], disk) || !dt_picked(i, 4, 2, 1))
            continue;
        not_behind(m, env, &own, all[i]->name);
        snprintf(list, sizeof list, "%s,gist_lossless", all[i]->name);
        if (all[i]->by_budget && !all[i]->searches)
            not_behind(m, env, &own, list);
    }
}

/* Small networks whose values take megabytes, on a card, to the host and to a disk; those that
 * search are held against it like the others. */
static void no_exact_policy_is_ahead(void **state)
{
    (void)state;
    enum { SAMPLES = 16384 };
    if (dt_small_scale())
        skip(); /* minutes under sanitizers, where what it compares has groups of its own */
    dt_costs costs;
    dt_costs_of_card(&costs, dt_card_speed_find("p100"));
    for (int graph = 1; graph <= (dt_whole_scale() ? 16 : 1); graph++) {
        const uint64_t seed = (uint64_t)graph + 100 * dt_test_seed();
        const dt_lower_opts lower = {
            .pool = dt_pool_find("greedy"), .tier = graph % 3 == 0 ? DT_TIER_DISK : DT_TIER_HOST};
        dt_pass_env env = {.costs = &costs, .lower = &lower, .kept = dt_kept_create(NULL, NULL)};
        dt_lowered m = dt_program_of(dt_random_graph(seed), DT_PROGRAM_FIRST, SAMPLES);
        const uint64_t all = cost_under(&m, "keep_all", &env).device;
        for (uint64_t part = 5; part < 8; part++) {
            if (!dt_picked(part, 3, 3, 1))
                continue;
            env.budgets.device = all / 8 * part;
            no_exact_policy_is_ahead_of(&m, &env);
        }
        dt_lowered_close(&m);
        dt_kept_destroy(env.kept);
    }
    dt_costs_deinit(&costs);
}

static void count_try(void *tries)
{
    ++*(int64_t *)tries;
}

static int64_t tries_within(const dt_lowered *m, uint64_t budget)
{
    int64_t tries = 0;
    const dt_pass_env env = {.budgets.device = budget, .tries = count_try, .listener = &tries};
    dt_program *p;
    dt_err err = {0};
    assert_ok(dt_program_copy(&p, m->program, &err), &err);
    dt_rewrite_with(p, "auto", NULL, &env);
    dt_program_destroy(p);
    return tries;
}

/* Below what an op needs at once little is tried. */
static void what_fits_nowhere_is_not_searched_for(void **state)
{
    (void)state;
    dt_lowered m = dt_program_of(dt_standard("lenet5"), DT_PROGRAM_FIRST, 64);
    int32_t op;
    const uint64_t least = dt_least_room(m.program, &op);
    const int64_t may = tries_within(&m, least), in_vain = tries_within(&m, least - 1);
    if (!(in_vain < may / 4))
        fail_msg("%lld plans tried where none fits, %lld where one may", (long long)in_vain,
            (long long)may);
    dt_lowered_close(&m);
}

/* Planned again, nothing is searched for again, and the plan is the same. */
static void a_front_is_kept(void **state)
{
    (void)state;
    dt_take_turns(0, 4);
    const planned all = plan(convolutions, "keep_all", 0);
    for (int dense = 0; dense < 2; dense++) {
        if (!dt_picked((uint64_t)dense, 2, 2, 1))
            continue;
        char most[64];
        const char *sets[] = {"memory.policy=auto", most, "memory.simulate=p100",
            dense > 0 ? "policy.auto.lossy=on" : "policy.auto.lossy=off", "policy.auto.moves=1",
            "policy.auto.searches=off"};
        dt_session *s = NULL;
        dt_prediction a, b;
        dt_err err = {0};
        snprintf(
            most, sizeof most, "memory.device_budget=%llu", (unsigned long long)all.device / 2);
        assert_ok(
            dt_session_open(&s, cli_file("auto.ini", convolutions), sets, DT_COUNT(sets), &err),
            &err);
        assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
        const uint64_t peak = dt_plan_set_peak(s->plans);
        const size_t kept = dti_kept_count(s->kept);
        assert_true(kept > 0);
        assert_ok(dt_plan_set_predict(s->plans, &a, &err), &err);
        dti_session_forget(s);
        assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
        assert_ok(dt_plan_set_predict(s->plans, &b, &err), &err);
        assert_int_equal(dti_kept_count(s->kept), kept);
        assert_true(dt_plan_set_peak(s->plans) == peak);
        assert_true(memcmp(&a.seconds, &b.seconds, sizeof a.seconds) == 0);
        dti_session_forget(s);
        const dt_planned *x; /* another size is another program */
        assert_ok(dti_session_plan(s, DT_PROGRAM_FIRST, 4, &x, &err), &err);
        assert_true(dti_kept_count(s->kept) > kept);
        dt_session_close(s);
    }
}

/* What auto comes to with what is kept; *more: what it has put there besides. */
static dti_pass_cost cost_keeping(
    const dt_lowered *m, const dt_pass_env *env, dt_kept *kept, size_t *more)
{
    dt_pass_env own = *env;
    own.kept = kept;
    const size_t before = dti_kept_count(kept);
    const dti_pass_cost c =
        cost_with(m, "auto", "[policy.auto]\nmoves = 0\nsearches = off\n", &own);
    *more = dti_kept_count(kept) - before;
    return c;
}

/* A front that was made under one env is none under the other, and is found again under its own. */
static void assert_apart(
    const char *what, const dt_lowered *m, const dt_pass_env *a, const dt_pass_env *b)
{
    size_t more;
    dt_kept *kept = dt_kept_create(NULL, NULL), *fresh = dt_kept_create(NULL, NULL);
    (void)cost_keeping(m, a, kept, &more);
    const dti_pass_cost got = cost_keeping(m, b, kept, &more);
    if (more == 0)
        fail_msg("%s: a front of others is taken", what);
    const dti_pass_cost want = cost_keeping(m, b, fresh, &more);
    assert_memory_equal(&got, &want, sizeof got);
    (void)cost_keeping(m, b, kept, &more);
    assert_int_equal(more, 0);
    dt_kept_destroy(kept);
    dt_kept_destroy(fresh);
}

static void densities_of_all(dt_densities *d, double share)
{
    dt_err err = {0};
    assert_ok(dt_densities_add(d, "*", share, share, &err), &err);
}

/* What plans are made and timed by besides their ops: shares of zeros, codecs, links that are used.
 * The network is one whose best plan goes by the shares. */
static void a_front_is_of_its_densities_and_rates(void **state)
{
    (void)state;
    dt_take_turns(0, 4);
    dt_costs costs, codec, disk;
    dt_costs_of_card(&costs, dt_card_speed_find("p100"));
    codec = disk = costs;
    codec.codec /= 1000;
    disk.link[DT_TIER_DISK][DT_FROM_TIER].rate /= 1000;
    disk.thread_link[DT_TIER_DISK][DT_FROM_TIER].rate /= 1000;
    const dt_lower_opts to_disk = {.pool = dt_pool_find("best_fit"), .tier = DT_TIER_DISK};
    dt_densities few = {0}, most = {0};
    densities_of_all(&few, 0.1);
    densities_of_all(&most, 0.9);
    dt_lowered m = dt_program_of(dt_random_graph(6), DT_PROGRAM_FIRST, 4096);
    dt_pass_env with = {.costs = &costs}, other;
    with.budgets.device = cost_under(&m, "keep_all", &with).device / 2;
    other = with;
    other.costs = &codec;
    assert_apart("a codec", &m, &with, &other);
    other = with;
    other.density = &few;
    assert_apart("densities beside none", &m, &with, &other);
    with.density = &few;
    other.density = &most;
    assert_apart("densities", &m, &with, &other);
    with.lower = other.lower = &to_disk;
    other.density = &few;
    other.costs = &disk;
    assert_apart("a disk", &m, &with, &other);
    dt_lowered_close(&m);
    dt_densities_close(&few);
    dt_densities_close(&most);
}

/* Copies that are packed in more or less room are the same ops on the same tensors. */
static void a_front_is_of_what_policies_before_wrote(void **state)
{
    (void)state;
    dt_take_turns(1, 4);
    static const char *const room[] = {
        "[policy.cdma]\ndensity = 0.1\n", "[policy.cdma]\ndensity = 0.9\n"};
    dt_kept *kept = dt_kept_create(NULL, NULL);
    dt_pass_env env = {.costs = &dt_costs_default};
    for (size_t i = 0; i < DT_COUNT(room); i++) {
        size_t more;
        dt_lowered m = dt_program_of(dt_standard("lenet5"), DT_PROGRAM_FIRST, 64);
        env.budgets.device = cost_under(&m, "keep_all", &env).device;
        dt_rewrite_with(m.program, "cdma", room[i], &env);
        (void)cost_keeping(&m, &env, kept, &more);
        if (more == 0)
            fail_msg("a front for copies of other room is taken");
        dt_lowered_close(&m);
    }
    dt_kept_destroy(kept);
}

/* Its program where all that outlives a step lives in a tier. */
static void live_in(dt_lowered *m, dt_tier tier)
{
    dt_err err = {0};
    assert_ok(dt_map_create(&m->map, m->graph, NULL, 16, 1, &err), &err);
    dt_tier *all = dt_alloc(m->map->n, sizeof *all);
    assert_non_null(all);
    for (size_t k = 0; k < m->map->n; k++)
        all[k] = tier;
    assert_ok(dt_map_settle(m->map, all, false, &err), &err);
    m->program = dt_program_on(m->graph, m->map, DT_PROGRAM_FIRST, 16);
    dt_free(all);
}

/* Weights and gradients on the host and on the disk are the same ops on the same tensors. */
static void a_front_is_of_its_homes(void **state)
{
    (void)state;
    dt_take_turns(2, 4);
    static const dt_tier tier[] = {DT_TIER_HOST, DT_TIER_DISK};
    dt_lowered m = {.graph = dt_random_graph(6)};
    const dt_pass_env env = {.costs = &dt_costs_default};
    dt_kept *kept = dt_kept_create(NULL, NULL);
    size_t more;
    for (size_t i = 0; i < DT_COUNT(tier); i++) {
        live_in(&m, tier[i]);
        (void)cost_keeping(&m, &env, kept, &more);
        assert_true(more > 0);
        (void)cost_keeping(&m, &env, kept, &more);
        assert_int_equal(more, 0);
        dt_program_destroy(m.program);
        dt_map_destroy(m.map);
    }
    dt_graph_destroy(m.graph);
    dt_kept_destroy(kept);
}

/* Where no plan fits as much as comes ahead, auto searches a second time, with less of it. */
static void a_second_search_leaves_no_memory_behind(void **state)
{
    (void)state;
    const long before = dti_alloc_live();
    const dt_lower_opts lower = {
        .pool = dt_pool_find("greedy"), .policy = "", .ahead = {[DT_TIER_HOST] = UINT64_MAX}};
    const dt_pass_env env = {.costs = &dt_costs_default, .lower = &lower, .budgets = {.device = 1}};
    dt_lowered m = {.graph = dt_random_graph(6)};
    live_in(&m, DT_TIER_HOST);
    dt_rewrite_with(m.program, "auto", NULL, &env);
    dt_program_destroy(m.program);
    dt_map_destroy(m.map);
    dt_graph_destroy(m.graph);
    assert_int_equal(dti_alloc_live(), before);
}

/* Plans that are tried for a budget where all that outlives a step lives on the host, and comes as
 * far ahead as @ahead; *peak: of what is found. @kept: what is found, or NULL. */
static int64_t tries_ahead(uint64_t ahead, uint64_t budget, dt_kept *kept, uint64_t *peak)
{
    int64_t tries = 0;
    dti_pass_cost c;
    dt_err err = {0};
    const dt_lower_opts lower = {.pool = dt_pool_find("greedy"),
        .policy = "",
        .ahead = {[DT_TIER_HOST] = ahead},
        .keep_to = budget};
    const dt_pass_env env = {.costs = &dt_costs_default,
        .lower = &lower,
        .budgets.device = budget,
        .kept = kept,
        .tries = count_try,
        .listener = &tries};
    dt_lowered m = {.graph = dt_random_graph(6)};
    live_in(&m, DT_TIER_HOST);
    dt_rewrite_with(m.program, "auto", "[policy.auto]\nsearches = off\n", &env);
    assert_ok(dti_pass_cost_of(&env, m.program, &c, &err), &err);
    *peak = c.device;
    dt_program_destroy(m.program);
    dt_map_destroy(m.map);
    dt_graph_destroy(m.graph);
    return tries;
}

/* A budget that no plan keeps to with all that may come ahead is not searched for twice. */
static void what_comes_ahead_is_given_up_soon(void **state)
{
    (void)state;
    uint64_t least, peak;
    (void)tries_ahead(0, 1, NULL, &least);
    const uint64_t budget = least + least / 8;
    const int64_t without = tries_ahead(0, budget, NULL, &peak);
    assert_true(peak <= budget);
    const int64_t with = tries_ahead(UINT64_MAX, budget, NULL, &peak);
    assert_true(peak <= budget);
    if (with > without + without / 4)
        fail_msg("%lld plans tried with what comes ahead, %lld without", (long long)with,
            (long long)without);
}

/* Nor is anything searched for that was kept, whether less ahead is faster among it. */
static void what_was_found_with_less_ahead_is_kept(void **state)
{
    (void)state;
    uint64_t least, first, again;
    (void)tries_ahead(0, 1, NULL, &least);
    for (uint64_t k = 0; k < 6; k++) {
        const uint64_t budget = least + least * k / 4, ahead = least / 16;
        dt_kept *kept = dt_kept_create(NULL, NULL);
        const int64_t tried = tries_ahead(ahead, budget, kept, &first);
        const int64_t later = tries_ahead(ahead, budget, kept, &again);
        assert_true(first == again && tried > 0);
        if (later > tried / 16)
            fail_msg("budget %d: %lld plans tried, then %lld", (int)k, (long long)tried,
                (long long)later);
        dt_kept_destroy(kept);
    }
}

/* What a policy comes to where all that outlives a step lives on the host and may come ahead
 * altogether, but for what the budget has no room for. */
static dti_pass_cost cost_ahead(uint64_t graph, const char *policy, uint64_t budget)
{
    dti_pass_cost c;
    dt_err err = {0};
    dt_costs costs;
    dt_costs_of_card(&costs, dt_card_speed_find("v100"));
    const dt_lower_opts lower = {.pool = dt_pool_find("greedy"),
        .policy = "",
        .ahead = {[DT_TIER_HOST] = UINT64_MAX},
        .keep_to = budget};
    const dt_pass_env env = {.costs = &costs, .lower = &lower, .budgets.device = budget};
    dt_lowered m = {.graph = dt_random_graph(graph)};
    live_in(&m, DT_TIER_HOST);
    const bool is_auto = strcmp(policy, "auto") == 0;
    dt_rewrite_with(m.program, policy, is_auto ? "[policy.auto]\nsearches = off\n" : NULL, &env);
    assert_ok(dti_pass_cost_of(&env, m.program, &c, &err), &err);
    dt_program_destroy(m.program);
    dt_map_destroy(m.map);
    dt_graph_destroy(m.graph);
    dt_costs_deinit(&costs);
    return c;
}

/* Where its second search, with less ahead, is not to go by the bytes of the first, and where what
 * fits with all ahead is slower than with less: within the budget, and not behind keep_all. */
static void with_less_ahead_it_is_behind_nobody(void **state)
{
    (void)state;
    static const uint64_t graph[] = {9, 12, 17, 57};
    for (size_t g = 0; g < DT_COUNT(graph); g++) {
        if (!dt_picked(g, 4, 1, 1))
            continue;
        const uint64_t least = cost_ahead(graph[g], "auto", 1).device;
        const uint64_t most = cost_ahead(graph[g], "keep_all", 0).device;
        for (uint64_t part = 0; part < 8; part += 7) {
            const uint64_t budget = least + (most - least) / 8 * part;
            const dti_pass_cost own = cost_ahead(graph[g], "auto", budget);
            const dti_pass_cost all = cost_ahead(graph[g], "keep_all", budget);
            if (own.device > budget || (all.device <= budget && !(own.seconds <= all.seconds)))
                fail_msg("graph %d, budget %llu: auto takes %llu bytes and %.9g s, keep_all "
                         "%llu and %.9g",
                    (int)graph[g], (unsigned long long)budget, (unsigned long long)own.device,
                    own.seconds, (unsigned long long)all.device, all.seconds);
        }
    }
}

/* What auto makes of a program with what a folder has of it: its peak; and how much is kept. */
static bool stem_is(const void *stem, char *to, size_t bytes)
{
    return snprintf(to, bytes, "%s", (const char *)stem) < (int)bytes;
}

static uint64_t peak_with(const char *stem, size_t *kept, bool *noted)
{
    const dt_costs *costs = &dt_costs_default;
    dt_kept *k = dt_kept_create(stem != NULL ? stem_is : NULL, stem);
    const dt_pass_env env = {.kept = k, .costs = costs, .budgets = {.device = 600000}};
    dt_lowered m = dt_program_of(dt_random_graph(5), DT_PROGRAM_FIRST, 16);
    dt_policies auto_alone;
    dti_pass_cost c;
    dt_err err = {0};
    assert_ok(dt_policies_open(&auto_alone, "auto", NULL, &err), &err);
    assert_ok(dt_program_index(m.program, &err), &err);
    assert_ok(dt_policies_apply(&auto_alone, m.program, &env, &err), &err);
    assert_ok(dti_pass_cost_of(&env, m.program, &c, &err), &err);
    *kept = dti_kept_count(k);
    *noted = dt_kept_note(k)[0] != '\0';
    dt_policies_close(&auto_alone);
    dt_lowered_close(&m);
    dt_kept_destroy(k);
    return c.device;
}

/* Without a budget a run takes what is fastest, and no more than one that keeps all. */
static void no_budget_is_that_of_keep_all(void **state)
{
    (void)state;
    const dt_pass_env env = {.costs = &dt_costs_default};
    for (int graph = 1; graph <= 24; graph++) {
        if (!dt_picked((uint64_t)graph, 8, 6, 1))
            continue;
        dt_lowered m = dt_program_of(dt_random_graph((uint64_t)graph), DT_PROGRAM_FIRST, 16);
        dt_policies auto_alone;
        dti_pass_cost all, c;
        dt_err err = {0};
        assert_ok(dt_policies_open(&auto_alone, "auto", NULL, &err), &err);
        assert_ok(dt_program_index(m.program, &err), &err);
        assert_ok(dti_pass_cost_of(&env, m.program, &all, &err), &err);
        assert_ok(dt_policies_apply(&auto_alone, m.program, &env, &err), &err);
        assert_ok(dti_pass_cost_of(&env, m.program, &c, &err), &err);
        assert_true(c.device <= all.device && c.seconds <= all.seconds);
        dt_policies_close(&auto_alone);
        dt_lowered_close(&m);
    }
}

/* A front's file in the folder; empty: there is none. */
static void find_file(const char *folder, char path[512])
{
    DIR *d = opendir(folder);
    path[0] = '\0';
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, "front-", 6) == 0)
            snprintf(path, 512, "%s/%.200s", folder, e->d_name);
    if (d != NULL)
        closedir(d);
}

static void overwrite(const char *path, const char *text, size_t n)
{
    dt_err err = {0};
    assert_ok(dt_write_file(path, text, n, &err), &err);
}

/* A second run takes the file; a damaged or foreign one it does not, says so, and makes it anew. */
static void a_front_is_kept_in_a_file(void **state)
{
    (void)state;
    dt_take_turns(1, 4);
    char folder[256], stem[300], path[512], *text;
    size_t kept, bytes;
    bool noted;
    dt_err err = {0};
    snprintf(folder, sizeof folder, "%s.d", cli_file("fronts", ""));
    snprintf(stem, sizeof stem, "%s/front-", folder);
    const uint64_t peak = peak_with(stem, &kept, &noted);
    assert_true(kept > 0 && !noted);
    assert_int_equal(peak_with(NULL, &kept, &noted), peak);
    find_file(folder, path);
    assert_true(path[0] != '\0');
    assert_int_equal(peak_with(stem, &kept, &noted), peak);
    assert_true(kept == 0 && !noted); /* it came from the file */
    assert_ok(dt_read_file(&text, &bytes, path, 1 << 26, DT_E_DATA, &err), &err);
    for (int damage = 0; damage < 4; damage++) {
        if (!dt_picked((uint64_t)damage, 2, 2, 1))
            continue;
        char *bad = dt_alloc(bytes + 1, 1);
        size_t n = bytes;
        memcpy(bad, text, bytes);
        if (damage == 0)
            n = bytes / 2;
        else if (damage == 1)
            bad[bytes - 3] ^= 1;
        else if (damage == 2)
            n = 0;
        else
            bad[20] ^= 1; /* the key: of another program */
        overwrite(path, bad, n);
        assert_int_equal(peak_with(stem, &kept, &noted), peak);
        assert_true(kept > 0 && noted);
        assert_int_equal(peak_with(stem, &kept, &noted), peak);
        assert_true(kept == 0 && !noted);
        dt_free(bad);
    }
    dt_free(text);
}

/* The name of a policy from outside does not tell what it does, so no file has what it led to. It
 * stays registered, so this test is the last. */
static void with_policies_from_outside_no_file_is_taken_or_made(void **state)
{
    (void)state;
    static dt_policy outside;
    char folder[256], stem[300], path[512];
    size_t kept;
    bool noted;
    snprintf(folder, sizeof folder, "%s.d", cli_file("outside", ""));
    snprintf(stem, sizeof stem, "%s/front-", folder);
    outside = *dt_policy_find("vdnn_all");
    outside.name = "outside";
    dti_policy_add(&outside);
    const uint64_t peak = peak_with(stem, &kept, &noted);
    find_file(folder, path);
    assert_string_equal(path, "");
    assert_int_equal(peak_with(stem, &kept, &noted), peak);
    assert_true(kept > 0 && !noted);
}

/* Text that is no front, whatever its sum. */
static void what_is_no_front_is_not_taken(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "1", "0 2 1 2\n",
        "1 3 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 - =000\n", "1 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 - =03\n",
        "1 2 1 2\n1 1 0 0 0 0 1 1 1 nan - =00\n", "1 2 1 2\n1 1 0 0 0 0 1 1 1 -1 - =00\n",
        "1 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 - auto\n",
        "1 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 - nobody\n",
        "1 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 nobody keep_all\n",
        "1 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 auto =00\n",
        "1 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 - keep_all",
        "1 2 1 2\n1 0 0 0 0 1 1 1 0x1p+0 keep_all\n",
        "2 2 1 2\n1 1 0 0 0 0 1 1 1 0x1p+0 - keep_all\n", "9999999 2 1 2\n"};
    for (size_t i = 0; i < DT_COUNT(bad); i++)
        assert_null(dti_front_parse(bad[i], 2));
    dti_front *f = dti_front_parse("2 2 1 2\n9 7 5 1 0 1 1 1 1 0x1p+0 vdnn_all chen_sqrt\n"
                                   "1 1 0 0 0 0 1 1 1 0x1p+0 - =02\n",
        2);
    assert_non_null(f);
    assert_true(f->plan[0].aim == 9 && f->plan[0].budget == 7 && f->plan[0].early == 5);
    assert_true(f->plan[0].offloads && f->plan[1].early == 0);
    assert_string_equal(f->plan[0].then, "vdnn_all");
    assert_true(f->plan[1].then[0] == '\0' && f->plan[1].fate[1] == 2);
    size_t bytes;
    char *again = dti_front_text(f, &bytes);
    assert_non_null(again);
    assert_true(again[bytes - 1] == '\n' && strstr(again, " vdnn_all chen_sqrt\n") != NULL);
    dt_free(again);
    dti_front_destroy(f);
}

static void the_same_twice(void **state)
{
    (void)state;
    dt_take_turns(3, 4);
    const planned all = plan(convolutions, "keep_all", 0);
    const planned a = plan(convolutions, "auto", all.device / 2);
    const planned b = plan(convolutions, "auto", all.device / 2);
    assert_true(a.device == b.device && memcmp(&a.seconds, &b.seconds, sizeof a.seconds) == 0);
}

/* The bytes of the weights after training. */
static char *trained(
    const char *text, const way *w, const char *policies, uint64_t budget, size_t *bytes)
{
    settings o;
    char folder[512], *weights = NULL;
    const char *sets[DT_COUNT(o.set) + 2] = {folder, "run.overwrite=on"};
    dt_run *r = NULL;
    dt_err err = {0};
    const char *file = cli_file("auto.safetensors", "");
    settle(&o, w, policies, budget);
    memcpy(sets + 2, o.set, o.n * sizeof *sets);
    snprintf(folder, sizeof folder, "run.dir=%s.run", cli_file("auto.run", ""));
    assert_ok(dt_run_open_text(&r, "net", text, strlen(text), sets, o.n + 2, &err), &err);
    assert_ok(dt_run_begin(r, NULL, &err), &err);
    assert_ok(dt_run_end(r, dt_run_train(r, 0, &err), &err), &err);
    assert_ok(dt_run_save_weights(r, file, &err), &err);
    dt_run_close(r);
    assert_ok(dt_read_file(&weights, bytes, file, (size_t)1 << 28, DT_E_IO, &err), &err);
    return weights;
}

/* At what others take at the least, or half way from it to keep_all's peak. */
static void no_bit_differs_on(const char *net, const way *w, uint64_t only)
{
    static const char *const others[] = {"vdnn_all", "chen_sqrt", "chen_sqrt,vdnn_all"};
    size_t n, m;
    const uint64_t all = plan_as(net, w, "keep_all", 0, true).device;
    uint64_t least = all;
    for (size_t i = 0; i < DT_COUNT(others); i++) {
        const uint64_t other = plan_as(net, w, others[i], 0, true).device;
        least = other < least ? other : least;
    }
    assert_true(least < all);
    char *want = trained(net, w, "keep_all", 0, &n);
    for (uint64_t part = 0; part <= 1; part++) {
        const uint64_t budget = least + (all - least) * part / 2;
        if (dt_scaled(1, 1, 0) != 0 && part != only)
            continue;
        char *got = trained(net, w, "auto", budget, &m);
        assert_int_equal(m, n);
        assert_memory_equal(got, want, n);
        dt_free(got);
    }
    dt_free(want);
}

static void no_bit_differs(void **state)
{
    (void)state;
    dt_take_turns(2, 4);
    static const way parts = {{"train.micro_batch=2", "model.fuse=off", "train.precision=fp32"}};
    static const way narrow = {{"train.micro_batch=0", "model.fuse=on", "train.precision=bf16"}};
    static const struct {
        const char *net;
        const way *w;
    } cases[] = {{convolutions, &plain}, {attention, &plain}, {convolutions, &parts},
        {convolutions, &narrow}};
    for (size_t i = 0; i < DT_COUNT(cases); i++)
        if ((i + dt_test_seed()) % (uint64_t)dt_scaled(4, 4, 1) == 0)
            no_bit_differs_on(cases[i].net, cases[i].w, (i + dt_test_seed()) / 2 % 2);
}

static uint64_t resident(void)
{
    unsigned long all, here;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &here), 2);
    fclose(f);
    return (uint64_t)here * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A search goes through hundreds of programs; what it leaves to the run is one. */
static void what_a_search_took_is_there_for_the_run(void **state)
{
    (void)state;
    NEED_LIMITS();
    enum { LEFT = 8 << 20 };
    const char *sets[] = {"policy.auto.moves=0", "memory.device_budget=200MiB"};
    const char *file = cli_file("auto.ini",
        "[model]\nname = resnet32\nimage = 32\nclasses = 4\n[data]\nsamples = 8\n"
        "[train]\nbatch = 2\n[device]\nkind = cpu\n[memory]\npolicy = auto\n");
    const char *keeps[] = {"memory.policy=keep_all"};
    dt_session *s = NULL;
    dt_err err = {0};
    assert_ok(dt_session_open(&s, file, keeps, DT_COUNT(keeps), &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err); /* what the library sets up once */
    dt_session_close(s);
    assert_ok(dt_session_open(&s, file, sets, DT_COUNT(sets), &err), &err);
    dt_alloc_trim();
    const uint64_t before = resident();
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    const uint64_t full = resident();
    assert_ok(dti_session_check_run(s, true, &err), &err);
    const uint64_t now = resident();
    dt_session_close(s);
    assert_true(full > before + 2 * (uint64_t)LEFT); /* or there is nothing to see */
    assert_true(now < before + LEFT);
}

static struct {
    int n;
    char line[512];
} told;

static void listener(const char *line)
{
    told.n++;
    snprintf(told.line, sizeof told.line, "%s", line);
}

/* Once for each program that is planned, of every policy that tries plans. */
static void a_search_that_takes_long_is_told(void **state)
{
    (void)state;
    dt_take_turns(3, 4);
    static const struct {
        const char *policy;
        double patience;
        const char *budget, *tells;
    } rows[] = {{"memory.policy=auto", 0, "0", "trying plans of 'first', 8 samples; may"},
        {"memory.policy=auto", 0, "1GiB", "trying plans of 'first', 8 samples, 1.00 GiB; may"},
        {"memory.policy=auto", 1e9, "0", NULL},
        {"memory.policy=memonger", 0, "0", "trying plans of 'first', 8 samples; may"},
        {"memory.policy=vdnn_all", 0, "0", NULL}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        dt_session *s = NULL;
        dt_err err = {0};
        told.n = 0;
        char budget[64];
        snprintf(budget, sizeof budget, "memory.device_budget=%s", rows[i].budget);
        const char *sets[] = {rows[i].policy, budget, "memory.cache=none"}; /* searched each time */
        assert_ok(
            dt_session_open(&s, cli_file("auto.ini", convolutions), sets, DT_COUNT(sets), &err),
            &err);
        s->searching = listener;
        s->patience = rows[i].patience;
        assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
        dt_session_close(s);
        assert_int_equal(told.n, rows[i].tells != NULL); /* of 'first': no micro-batch follows */
        if (rows[i].tells != NULL)
            assert_has(told.line, rows[i].tells);
    }
}

/* U-Net of 512 pixels, planned under a policy; close the session. */
static dt_session *unet_of(const char *policy, int batch, uint64_t budget)
{
    static const char text[] =
        "[model]\nname = unet\nclasses = 2\nimage = 512\nwidth = 64\n[data]\nsource = synthetic\n"
        "samples = 256\n[train]\nprecision = fp32\n[memory]\nhost_budget = 1\ncache = none\n";
    char set[4][64];
    snprintf(set[0], sizeof set[0], "memory.policy=%s", policy);
    snprintf(set[1], sizeof set[1], "train.batch=%d", batch);
    snprintf(set[2], sizeof set[2], "train.micro_batch=%d", batch);
    snprintf(set[3], sizeof set[3], "memory.device_budget=%llu", (unsigned long long)budget);
    const char *const all[] = {set[0], set[1], set[2], set[3]};
    dt_session *s = NULL;
    dt_err err = {0};
    assert_ok(dt_session_open(&s, cli_file("unet.ini", text), all, DT_COUNT(all), &err), &err);
    assert_ok(dt_session_plan_run(s, false, 0, 0, &err), &err);
    return s;
}

static uint64_t unet_kept_whole(int batch)
{
    dt_session *s = unet_of("keep_all", batch, 0);
    const uint64_t peak = dt_plan_set_peak(s->plans);
    dt_session_close(s);
    return peak;
}

/* In 16e9 bytes, by recomputing alone, as there is no room on the host: three times the batch that
 * is kept whole, with less than one more forward. */
static void unet_takes_three_times_the_batch(void **state)
{
    (void)state;
    enum { KEPT = 12 };
    const uint64_t device = 16000000000;
    double forward = 0;
    assert_true(unet_kept_whole(KEPT) <= device && unet_kept_whole(KEPT + 1) > device);
    dt_session *s = unet_of("auto", 3 * KEPT, device);
    const dt_score score = dt_plan_set_score(s->plans);
    const dt_program *p = s->plans->planned[0]->program;
    for (size_t k = 0; k < p->n_order; k++)
        if (p->op[p->order[k]].kind == DT_OP_FORWARD)
            forward += p->op[p->order[k]].flops;
    assert_true(dt_plan_set_peak(s->plans) <= device && score.out == 0);
    assert_true(score.recompute_flops > 0 && score.recompute_flops <= forward);
    print_message("%.2f of a forward again\n", score.recompute_flops / forward);
    dt_session_close(s);
}

static int placed;

static dt_status place_counted(dt_interval *v, size_t n, uint64_t *peak, dt_err *err)
{
    placed++;
    return dt_pool_find("best_fit")->place(v, n, peak, err);
}

static dt_status search_counted(
    dt_interval *v, size_t n, dt_pool_effort *effort, uint64_t *peak, dt_err *err)
{
    (void)effort;
    return place_counted(v, n, peak, err);
}

/* One that searches for a placement may take seconds of each: what stands in for it places all that
 * is tried, also the program as it came, which the values' fates are thought over by. */
static void a_pool_that_searches_places_nothing_that_is_tried(void **state)
{
    (void)state;
    dt_pool_desc slow = {.name = "slow",
        .summary = "-",
        .place = place_counted,
        .search = search_counted,
        .tries = dt_pool_find("greedy")};
    dt_pass_env env = {.costs = &dt_costs_default, .pool = &slow};
    dt_lowered m = dt_program_of(dt_random_graph(6), DT_PROGRAM_FIRST, 16);
    placed = 0;
    env.budgets.device = cost_under(&m, "keep_all", &env).device * 3 / 4;
    (void)cost_with(&m, "auto", "[policy.auto]\nmoves = 1\nsearches = off\n", &env);
    assert_int_equal(placed, 0);
    dt_lowered_close(&m);
}

static void lossy_says_that_results_change(void **state)
{
    (void)state;
    const char *sets[] = {"memory.policy=auto", "policy.auto.lossy=on"};
    for (size_t n = 1; n <= DT_COUNT(sets); n++) {
        dt_session *s = NULL;
        dt_err err = {0};
        const char *file = cli_file("auto.ini", convolutions);
        assert_ok(dt_session_open(&s, file, sets, n, &err), &err);
        assert_int_equal(dt_policies_exact(&s->policies), n == 1);
        dt_session_close(s);
    }
}

DT_TEST_GROUP(auto)
{
    const struct CMUnitTest tests[] = {
        /* first, as those behind it leave holes in the heap */
        cmocka_unit_test(what_a_search_took_is_there_for_the_run),
        cmocka_unit_test(no_policy_is_ahead),
        cmocka_unit_test(no_pair_with_what_is_read_instead_is_ahead),
        cmocka_unit_test(no_pair_that_is_placed_better_is_ahead),
        cmocka_unit_test(no_pair_whose_first_needs_no_budget_is_ahead),
        cmocka_unit_test(no_exact_policy_is_ahead),
        cmocka_unit_test(a_front_is_kept),
        cmocka_unit_test(a_front_is_of_its_densities_and_rates),
        cmocka_unit_test(a_front_is_of_what_policies_before_wrote),
        cmocka_unit_test(a_front_is_of_its_homes),
        cmocka_unit_test(a_second_search_leaves_no_memory_behind),
        cmocka_unit_test(what_comes_ahead_is_given_up_soon),
        cmocka_unit_test(what_was_found_with_less_ahead_is_kept),
        cmocka_unit_test(with_less_ahead_it_is_behind_nobody),
        cmocka_unit_test(a_front_is_kept_in_a_file),
        cmocka_unit_test(no_budget_is_that_of_keep_all),
        cmocka_unit_test(what_fits_nowhere_is_not_searched_for),
        cmocka_unit_test(what_is_no_front_is_not_taken),
        cmocka_unit_test(the_same_twice),
        cmocka_unit_test(no_bit_differs),
        cmocka_unit_test(a_search_that_takes_long_is_told),
        cmocka_unit_test(unet_takes_three_times_the_batch),
        cmocka_unit_test(lossy_says_that_results_change),
        cmocka_unit_test(searched_over_the_front_less_bytes_take_no_less_time),
        cmocka_unit_test(a_pool_that_searches_places_nothing_that_is_tried),
        cmocka_unit_test(with_policies_from_outside_no_file_is_taken_or_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
