/* The runner: one arena, and the plans that are run in it. All memory is reserved and all kernels
 * are prepared before step 0; running a plan allocates nothing. It trusts plans: verify them first.
 */
#ifndef DT_ENGINE_RUNNER_RUNNER_H
#define DT_ENGINE_RUNNER_RUNNER_H

#include "engine/driver.h"
#include "engine/feed.h"
#include "engine/plan.h"

typedef struct dt_runner dt_runner;

/**
 * struct dt_runner_opts - what a runner is made of.
 * @context:     what is planned is for, and kernels are given; NULL: the processor
 * @find_op:     descriptors of the ops that belong to no layer of the graph, by name; NULL if
 * unknown
 * @codecs:      what plans name by number; NULL: none
 * @driver:      NULL: the device's own
 * @replay:      what a plan puts on the device's queues is kept at its second run and then done
 * again as a whole, which costs the host next to nothing; the bits are the same. Where the device
 * cannot keep it, it is launched row by row
 * @arena_bytes: the largest peak of all plans
 * @tier @tier_bytes: what moved bytes wait in (NULL where there is none), and the largest peak of
 * all plans there. The input tier has neither
 * @disk_path @checksum: for the disk tier; read while the runner is made
 * @threads:     of the team, 0: all cores
 * @copy_threads: copies to and from the host, and fetches, have threads of their own. Otherwise the
 * whole team makes them where they stand in the plan. The disk always has its threads
 */
typedef struct dt_runner_opts {
    const dt_graph *graph;
    const dt_map *map;
    const dt_context *context;
    const dt_layer_desc *(*find_op)(const char *name);
    const dt_codec_set *codecs;
    const dt_driver *driver;
    bool replay;
    uint64_t arena_bytes;
    const dt_tier_desc *tier[DT_TIERS];
    uint64_t tier_bytes[DT_TIERS];
    const char *disk_path;
    bool checksum, copy_threads;
    uint64_t seed;
    int threads;
} dt_runner_opts;

/* Reserve the arena, with a guard page behind it, and the tiers, and start the threads. DT_E_NOMEM
 * when the machine refuses; what a tier says when it does. */
dt_status dt_runner_create(dt_runner **out, const dt_runner_opts *o, dt_err *err) DT_NODISCARD;
void dt_runner_destroy(dt_runner *r);

/* What the user should know of a tier; NULL when there is nothing. Lives as long as the runner. */
const char *dt_runner_note(const dt_runner *r, dt_tier tier);

/* Whether a plan is of this network with these options, this map, device and number of threads;
 * DT_E_CONFIG says what differs. dt_runner_add asks it, too, and more. One that suits is told what
 * its text leaves out: the arithmetic of each layer. */
dt_status dt_plan_suits(dt_plan *p, const dt_graph *g, const dt_map *map, const dt_context *context,
    int threads, dt_err *err) DT_NODISCARD;

/* Prepare a verified plan, which may be destroyed afterwards. It must be of the runner's graph,
 * map, device and threads, and for the ways that the graph chooses now: DT_E_CONFIG says what
 * differs from the configuration, DT_E_INTERNAL what from this program's own kernels. Somebody may
 * have changed it: each op is held against its layer, and what its tensors hold is followed from
 * the batch on; DT_E_DATA says at which op and port they do not fit. */
dt_status dt_runner_add(dt_runner *r, const dt_plan *plan, int *id, dt_err *err) DT_NODISCARD;
/* One that is not to run any more; its number may be a later one's. */
void dt_runner_drop(dt_runner *r, int id);

/* What a run of a plan is told. */
typedef struct dt_run_args {
    dt_batch batch;  /* n must be the plan's; unused by update */
    dt_batch coming; /* what a run after this one is given, if that is known; else x is NULL */
    int64_t sample0; /* of this micro-batch in the step's batch */
    int64_t step, step_labels;
    dt_hyper hyper;
    bool hold; /* leave parameters as they are: only running statistics are committed */
} dt_run_args;

/* Run a plan. The first failure of any stream ends it, with a note that names the op or the copy:
 * tensor, tier, slot and bytes. State is as it was when the plan changes none; later runs work.
 * While a device works on its own, the coming batch is made ready for it if it has an id; nothing
 * of that is seen but in the time of its run. */
dt_status dt_runner_run(dt_runner *r, int id, const dt_run_args *a, dt_err *err) DT_NODISCARD;

/* Of tensors with two generations plans write the next one, beside the one that all read. Between
 * runs: what was written since the last call becomes what is read (@keep), or is forgotten. */
void dti_runner_settle(dt_runner *r, bool keep);
/* Until it is called once more, tensors with two generations are read as this step wrote them, not
 * as the steps before left them. */
void dti_runner_turn(dt_runner *r);

/* Sum up the squares of each gradient right before the early update that it is for, so that
 * dti_runner_norm and dti_runner_nonfinite answer for gradients that are gone. DT_E_DEVICE where
 * the device works later than it is told to. */
dt_status dti_runner_watch(dt_runner *r, bool on, dt_err *err) DT_NODISCARD;

/* For tools that look at values: called on the thread of the ops, after each, for every tensor that
 * the op wrote for all of the plan's samples. @bytes hold until it returns. */
typedef struct dt_probe {
    void *self;
    void (*wrote)(void *self, const dt_plan_tensor *t, const void *bytes);
} dt_probe;

/* Borrowed, until the next; NULL: none. */
void dt_runner_set_probe(dt_runner *r, const dt_probe *p);

/**
 * struct dt_trace_row - a row that was executed.
 * @plan @row: number of the plan, and of the row in it
 * @step:   of the run
 * @kind:   DT_ROW_COMPUTE, DT_ROW_COPY_OUT or DT_ROW_COPY_IN
 * @stream: of the runner, whose row it is
 * @worker: what did it: rows of one are done one after the other. On the processor its thread, 0
 * for the calling one; on a device that works on its own, the queue
 * @op:     COMPUTE: row of the plan's table; otherwise -1
 * @name:   of the op or the tensor
 * @bytes:  copies: as they were moved, packed or not; COMPUTE: of the tensors that it touched
 * @begin @end: seconds, on the clock of dt_seconds
 */
typedef struct dt_trace_row {
    int plan;
    int32_t row, op;
    int64_t step;
    dt_row_kind kind;
    int stream;
    int worker;
    dt_tier tier;
    const char *name;
    uint64_t bytes;
    double begin, end;
} dt_trace_row;

/* For tools that measure: told of all rows of a run, in the plan's order, when it has succeeded. */
typedef struct dt_trace {
    void *self;
    void (*ran)(void *self, const dt_trace_row *row);
} dt_trace;

/* Borrowed, until the next; NULL: none, which costs nothing. Set after all plans have been added. A
 * device that works on its own is told its rows one by one then, and nothing is kept or fused. */
dt_status dt_runner_set_trace(dt_runner *r, const dt_trace *t, dt_err *err) DT_NODISCARD;

/* Why a plan that was to be kept is launched row by row; NULL: there is none such. */
const char *dt_runner_not_kept(const dt_runner *r);

/* Look, in place of a probe, at what each op makes in the runs that follow. Afterwards: who was the
 * first to make a value that is not finite, as "layer 'c1' (conv), forward, ..."; NULL: nobody. */
void dti_runner_blame(dt_runner *r, bool on);
const char *dti_runner_blamed(const dt_runner *r);

/* Whether packed bytes did not fit in the last run: then what it computed is not to be used. */
bool dti_runner_overflowed(const dt_runner *r);

/**
 * struct dt_runner_stats - what moving has cost so far, checked runs included.
 * @out @in: bytes moved, by tier: of packed ones those in use
 * @copy_seconds:  in which the calling thread made copies
 * @stall_seconds: in which it was blocked until copies of other threads were done
 */
typedef struct dt_runner_stats {
    uint64_t out[DT_TIERS], in[DT_TIERS];
    double copy_seconds, stall_seconds;
} dt_runner_stats;

/* Between runs. */
dt_runner_stats dt_runner_get_stats(const dt_runner *r);
void dt_runner_reset_stats(dt_runner *r);
void dt_runner_put_stats(dt_runner *r, const dt_runner_stats *s); /* as they were */

/* What a checked run found. */
typedef struct dt_measure {
    uint64_t peak;           /* end of the highest tensor any of whose bytes changed */
    uint64_t tier[DT_TIERS]; /* of tiers: end of the highest slot any of whose bytes changed */
} dt_measure;

/* Run a plan once, row by row on the calling thread, in an arena filled with a pattern, and look at
 * every byte: what an op changes must lie in the tensors it writes, padding included, and all the
 * rest of the arena must keep the pattern. The contents of persistent tensors are lost: initialise
 * them afterwards. DT_E_INTERNAL names the op and tensor beside which a byte changed. */
dt_status dt_runner_check(
    dt_runner *r, int id, const dt_run_args *a, dt_measure *m, dt_err *err) DT_NODISCARD;

int64_t dti_runner_sample(const dt_runner *r); /* floats of one image */
int64_t dti_runner_labels(const dt_runner *r); /* labels of one image */
dt_label_kind dti_runner_label_kind(const dt_runner *r);

/* Where a persistent tensor (entry of the map) lies, in reach of the device: NULL in a tier that
 * has no map. Its first bytes, copied from there: all of one that lives in a tier. */
void *dt_runner_home(dt_runner *r, int32_t home);
dt_status dti_runner_read(
    dt_runner *r, int32_t home, void *to, size_t bytes, dt_err *err) DT_NODISCARD;

/* Zero all that persists: enough where weights are loaded, which are all of them. */
dt_status dt_runner_clear(dt_runner *r, dt_err *err) DT_NODISCARD;
/* Fill parameters from their initialisers (keyed by seed and place), running statistics likewise,
 * zero the rest. */
dt_status dt_runner_init(dt_runner *r, dt_err *err) DT_NODISCARD;

/* In *bad, the first persistent tensor of a port (DT_DP: gradients, DT_Q: running statistics to be)
 * that holds a value which is not finite; -1 when all values are. Fails only when a device does. */
dt_status dti_runner_nonfinite(dt_runner *r, dt_port port, int32_t *bad, dt_err *err) DT_NODISCARD;

/* The Euclidean norm of all persistent tensors of a port, taken together, and in *bad what
 * dti_runner_nonfinite says, in the same pass. The same bits on any number of threads. */
dt_status dti_runner_norm(
    dt_runner *r, dt_port port, double *norm, int32_t *bad, dt_err *err) DT_NODISCARD;

/* A moment in 8 bits, read and written as fp32 in the layout that it lives in, from value 0 on to
 * its end, when no plan runs. *out is NULL, and nothing is to be closed, where @h is no such. What
 * begins behind the start begins at a multiple of DT_PART_UNIT values. A value that was read and is
 * written again has the bits that it had. dti_moment_bytes: of memory that one takes. */
typedef struct dti_moment dti_moment;
dt_status dti_moment_open(
    dti_moment **out, dt_runner *r, const dt_home *h, dt_err *err) DT_NODISCARD;
void dti_moment_close(dti_moment *m);
dt_status dti_moment_read(dti_moment *m, size_t at, float *to, size_t n, dt_err *err) DT_NODISCARD;
dt_status dti_moment_write(
    dti_moment *m, size_t at, const float *from, size_t n, dt_err *err) DT_NODISCARD;
uint64_t dti_moment_bytes(const dt_map *m, const dt_home *h);

/**
 * struct dti_passage - the values of a parameter, or of what has its layout, on their way between
 * that and PyTorch's, a piece after the other, when no plan runs.
 * @piece: values [at, at + n) in PyTorch's layout
 * @row @step: values that go together, and those of a piece
 * @lives: all of it as it lives; NULL: that is PyTorch's layout
 * @borrowed: @lives is a copy, as the processor does not reach the home, or it is no fp32
 * @moment: what it is then; NULL: it is fp32
 *
 * Both take room of the arena that no persistent tensor has, where there is enough. Otherwise they
 * are memory of their own: a piece is DTI_PIECE bytes, or a row, or the whole where a layout cannot
 * be cut; a copy is the whole.
 */
enum { DTI_PIECE = 8 << 20 };
typedef struct dti_passage {
    dt_runner *runner;
    int32_t home;
    int64_t row, step;
    size_t at, n, all;
    float *piece;
    void *lives;
    dti_moment *moment;
    bool borrowed, piece_owned, lives_owned;
} dti_passage;

/* Out of the home: get while next says that there is a piece. Into it: fill and put while it says
 * so; a copy reaches the home with the last piece. A zeroed one may be closed. DT_E_NOMEM. */
dt_status dti_passage_open(dti_passage *w, dt_runner *r, int32_t home, dt_err *err) DT_NODISCARD;
bool dti_passage_next(dti_passage *w);
dt_status dti_passage_get(dti_passage *w, dt_err *err) DT_NODISCARD;
dt_status dti_passage_put(dti_passage *w, dt_err *err) DT_NODISCARD;
void dti_passage_close(dti_passage *w);

/* For a file that is written a piece after the other: values from byte @at on of a tensor that
 * persists, whose passage *w is. It begins zeroed, is opened at byte 0, and is closed when all is
 * written. */
dt_status dti_passage_give(dti_passage *w, dt_runner *r, int32_t home, size_t at,
    const void **bytes, size_t *n, dt_err *err) DT_NODISCARD;

/* What a passage takes at most of memory of its own, for planning: of @o graph, map, context and
 * arena_bytes. */
uint64_t dt_passage_outside(const dt_runner_opts *o);

#endif
