/* Finding the engines of a convolution: what the library offers, tried in its order. */
#include "layers/cudnn/cudnn_plan_cuda.h"

#include "engine/base/alloc.h"
#include "engine/base/mix.h"

_Static_assert(
    1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE == DTI_CUDNN_TENSOR_CORE &&
        1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS == DTI_CUDNN_DOWN_CONVERT &&
        1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION == DTI_CUDNN_REDUCED_SUMS &&
        1 << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC == DTI_CUDNN_NONDETERMINISTIC &&
        1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 == DTI_CUDNN_WINOGRAD_4 &&
        1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 == DTI_CUDNN_WINOGRAD_6 &&
        1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 == DTI_CUDNN_WINOGRAD_13,
    "notes are bits");
_Static_assert(
    1 << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION == DTI_CUDNN_RUNTIME_COMPILED &&
        1 << CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER == DTI_CUDNN_INT8_FILTER &&
        1 << CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER == DTI_CUDNN_INT8_BIAS,
    "behaviours are bits");

enum { MOST_CONFIGS = 24, MOST_NOTES = 32 };

typedef struct search {
    const dti_cudnn_target *of;
    dti_cudnn_plan *to;
    dti_cudnn_rules rules;
    bool many;            /* go on after the first algorithm */
    cudnnStatus_t status; /* of the last thing that was refused, and what was asked */
    const char *call;
} search;

/* One number for all settings of an engine. */
static uint64_t settings(cudnnBackendDescriptor_t config)
{
    dti_cudnn_bag knobs = {0};
    uint64_t h = DT_FNV;
    for (int i = 0; i < DTI_CUDNN_KEPT; i++)
        (void)dti_cudnn_add(&knobs, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const int64_t n = dti_cudnn_get(
        config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, knobs.n, knobs.d);
    for (int64_t i = 0; i < n; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        (void)dti_cudnn_get(
            knobs.d[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        (void)dti_cudnn_get(
            knobs.d[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
        h = dt_fnv_word(dt_fnv_word(h, (uint64_t)type), (uint64_t)value);
    }
    dti_cudnn_drop(&knobs);
    return h;
}

/* Bits of an engine's notes; false when the library does not say. */
static bool read_notes(cudnnBackendDescriptor_t engine, dti_cudnn_candidate *c)
{
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    cudnnBackendBehaviorNote_t behaviours[MOST_NOTES];
    int64_t n = dti_cudnn_get(
        engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, notes);
    int64_t m = dti_cudnn_get(
        engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, MOST_NOTES, behaviours);
    if (n < 0 || m < 0)
        return false;
    while (n-- > 0)
        c->notes |= 1U << (unsigned)notes[n];
    while (m-- > 0)
        c->behaviours |= 1U << (unsigned)behaviours[m];
    return true;
}

static dti_cudnn_candidate describe(cudnnBackendDescriptor_t config)
{
    dti_cudnn_candidate c = {.engine = -1, .knobs = settings(config)};
    dti_cudnn_bag b = {0};
    int64_t engine = -1;
    cudnnBackendDescriptor_t d = dti_cudnn_add(&b, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (d != NULL &&
        dti_cudnn_get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d) ==
            1 &&
        dti_cudnn_get(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &engine) == 1 &&
        read_notes(d, &c))
        c.engine = engine;
    dti_cudnn_drop(&b);
    return c;
}

/* An algorithm of fewer bytes than all before it. In a full table it takes the place of the last.
 */
static void keep_algorithm(
    dti_cudnn_plan *to, cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t plan, int at)
{
    if (to->n_algorithm == DT_MAX_ALGORITHMS) {
        cudnnBackendDestroyDescriptor(to->kept.d[--to->kept.n]);
        cudnnBackendDestroyDescriptor(to->kept.d[--to->kept.n]);
        to->n_algorithm--;
    }
    DT_ASSERT(to->kept.n + 2 <= DTI_CUDNN_KEPT);
    to->kept.d[to->kept.n++] = config;
    to->kept.d[to->kept.n++] = plan;
    to->algorithm[to->n_algorithm++] = (dti_cudnn_algorithm){plan, at};
}

/* Prepare row @at of the table, and keep what was prepared if it is an algorithm. */
static bool try_config(search *s, cudnnBackendDescriptor_t config, int at)
{
    dti_cudnn_plan *to = s->to;
    dti_cudnn_candidate *c = &to->table[at];
    dti_cudnn_bag b = {0};
    int64_t bytes = 0;
    const cudnnBackendDescriptor_t plan =
        dti_cudnn_add(&b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    dti_cudnn_aim(&b, plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, s->of);
    dti_cudnn_set(&b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        1, &config);
    dti_cudnn_finish(&b, plan);
    c->tried = true;
    c->ready = b.status == CUDNN_STATUS_SUCCESS &&
               dti_cudnn_get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                   &bytes) == 1;
    c->work_bytes = bytes > 0 ? (size_t)bytes : 0;
    const dti_cudnn_candidate *last =
        to->n_algorithm > 0 ? &to->table[to->algorithm[to->n_algorithm - 1].at] : NULL;
    if (dti_cudnn_is_algorithm(c, last, &s->rules)) {
        keep_algorithm(to, config, plan, at);
        return true;
    }
    s->status = b.status;
    s->call = b.call;
    dti_cudnn_drop(&b);
    return false;
}

/* Go through what the library proposes; true when no more is to be looked for. Every proposal is
 * written down, and settings that are kept leave the bag. */
static bool take_algorithms(search *s, dti_cudnn_bag *proposed, int first, int64_t n)
{
    dti_cudnn_plan *to = s->to;
    for (int64_t i = 0; i < n && to->n_table < DTI_CUDNN_TABLE; i++) {
        const cudnnBackendDescriptor_t config = proposed->d[first + i];
        const int at = to->n_table++;
        to->table[at] = describe(config);
        if (dti_cudnn_refusal(&to->table[at], &s->rules) != NULL || !try_config(s, config, at))
            continue;
        proposed->d[first + i] = NULL;
        if (!s->many || to->table[at].work_bytes == 0)
            return true;
    }
    return false;
}

static bool ask(search *s, cudnnBackendDescriptor_t of, cudnnBackendHeurMode_t mode)
{
    dti_cudnn_bag b = {0};
    const cudnnBackendDescriptor_t d = dti_cudnn_add(&b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    dti_cudnn_set(
        &b, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of);
    dti_cudnn_aim(&b, d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, s->of);
    dti_cudnn_set(&b, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    dti_cudnn_finish(&b, d);
    const int first = b.n;
    for (int i = 0; i < MOST_CONFIGS; i++)
        (void)dti_cudnn_add(&b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    bool done = false;
    if (b.status == CUDNN_STATUS_SUCCESS) {
        const int64_t n = dti_cudnn_get(d, CUDNN_ATTR_ENGINEHEUR_RESULTS,
            CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS, &b.d[first]);
        done = take_algorithms(s, &b, first, n);
    } else {
        s->status = b.status;
        s->call = b.call;
    }
    dti_cudnn_drop(&b);
    return done;
}

/* What is tried one after another: what the library's heuristics propose, before what it falls back
 * to, which may be many times slower; of these, engines that need no compiler first. */
static const struct attempt {
    bool fallback, compiled;
} attempts[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};

static bool attempt(search *s, const dti_cudnn_problem *p, const struct attempt *a)
{
    static const cudnnBackendHeurMode_t modes[] = {
        CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
    const size_t last = DT_COUNT(modes) - 1, from = a->fallback ? last : 0;
    dti_cudnn_bag *kept = &s->to->kept;
    *kept = (dti_cudnn_bag){0};
    s->to->n_table = 0;
    s->rules.compiled = a->compiled;
    const cudnnBackendDescriptor_t of = dti_cudnn_graph(kept, s->of, p);
    bool done = false;
    for (size_t i = from; i <= last && !done && kept->status == CUDNN_STATUS_SUCCESS; i++) {
        if (i == last && !a->fallback && s->to->n_algorithm == 0)
            break; /* it may add to what is proposed, and takes no turn of its own yet */
        done = ask(s, of, modes[i]);
    }
    if (s->to->n_algorithm > 0)
        return true;
    if (kept->status != CUDNN_STATUS_SUCCESS) {
        s->status = kept->status;
        s->call = kept->call;
    }
    dti_cudnn_drop(kept);
    return false;
}

static size_t most_work(const dti_cudnn_problem *p)
{
    const int64_t x = p->n * p->c * p->h * p->w, y = p->n * p->out * p->p * p->q;
    const size_t copies = (size_t)(x + y + dti_cudnn_weights(p)) * sizeof(float);
    return copies > DTI_CUDNN_WORK ? copies : DTI_CUDNN_WORK;
}

/* The library does not have it, as opposed to: it is broken. */
static bool unsupported(cudnnStatus_t s)
{
    const int category = CUDNN_STATUS_CATEGORY((int)s);
    return s == CUDNN_STATUS_SUCCESS || category == 2000 || category == 3000;
}

dt_status dti_cudnn_find(
    dti_cudnn_plan **out, const dti_cudnn_target *of, const dti_cudnn_problem *p, dt_err *err)
{
    *out = NULL;
    dti_cudnn_plan *to = dt_alloc(1, sizeof *to);
    if (to == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory to prepare a convolution");
    to->users = 1;
    search s = {.of = of,
        .to = to,
        .rules = {p->bf16 != 0, p->tf32 != 0, false, most_work(p)},
        .many = p->many != 0};
    for (size_t i = 0; i < DT_COUNT(attempts); i++)
        if (attempt(&s, p, &attempts[i])) {
            *out = to;
            return DT_OK;
        }
    to->status = s.status;
    if (unsupported(s.status)) {
        *out = to;
        return DT_OK;
    }
    dti_cudnn_release(to);
    return dti_cudnn_failed(s.status, s.call, err);
}

void dti_cudnn_release(dti_cudnn_plan *plan)
{
    if (plan == NULL || --plan->users > 0)
        return;
    dti_cudnn_drop(&plan->kept);
    dt_free(plan);
}
