/* dnntrain: trains neural networks within memory budgets that are known before the first step.
 *
 * A run is opened from a configuration (docs/config.md), planned, asked what it takes, and trained:
 *
 *     dt_run *run = NULL;
 *     static dt_err err; // of 16 KiB
 *     dt_status st = dt_run_open(&run, "configs/lenet5_mnist.ini", NULL, 0, &err);
 *     if (st == DT_OK)
 *         st = dt_run_begin(run, NULL, &err);
 *     if (st == DT_OK)
 *         st = dt_run_end(run, dt_run_train(run, 0, &err), &err);
 *     if (st != DT_OK)
 *         fprintf(stderr, "%s", err.text);
 *     dt_run_close(run);
 *
 * The library prints nothing, sets no signal handler (CBC has SIGINT for itself while it solves an
 * integer program), and ends the process only where a promise among its own parts is broken (a line
 * on stderr, and abort). Of the environment it reads
 * XDG_CACHE_HOME and HOME, and those only when the policy auto or memory.profile = auto look for
 * what is kept for later runs: memory.cache names another folder, or none. OpenMP, oneDNN and
 * CUDA's libraries read variables of their own. Bytes are bytes of memory, times are
 * seconds, and strings are UTF-8. Of NULL in place of a run, and of a run that could not be opened,
 * calls give DT_E_CONFIG and questions answer nothing: 0, false or NULL. Calls for one run come
 * from one thread at a time. On the processor runs of different threads may be open and work at the
 * same time. A process forks before its first run, or its children exec or compute with one thread
 * (docs/library.md). What the calling thread has set of OpenMP's threads and of denormal floats is
 * as it was when a call returns; within it, an observer finds the run's. Numbers in files and texts
 * have a decimal point whatever locale is set. */
#ifndef DNNTRAIN_H
#define DNNTRAIN_H

#include <dnntrain/error.h>
#include <dnntrain/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what was built ---- */

/* @version: "0.1.0"; @git: the commit it was built from, "" when that is not known
 * @library: "oneDNN 2.6.3", what computes much of what the processor does; "" without it
 * @io_uring @cuda @solver @lz4: built with; the third of integer programs */
typedef struct dt_build {
    const char *version, *git, *library;
    bool io_uring, cuda, solver, lz4;
} dt_build;
DT_API dt_build dt_build_facts(void);

/* ---- a run ---- */

typedef struct dt_run dt_run; /* one configuration, its plans, data, run directory and weights */

/**
 * struct dt_run_observer - who is told of a run. Members may be NULL; all are called on the thread
 * that made the call which runs, and may ask about the run, but change nothing: DT_E_CONFIG from
 * calls that would. A dt_run_close from there does nothing.
 * @line:  what happens beside the steps, one line each without a newline, under a label such as
 *         "resume", "saving" or "skipped"
 * @ready: once, when the run directory is open and all is known that can be before the first step;
 *         a status other than DT_OK ends the run
 * @step @eval: after each
 * @stop:  polled between micro-batches and before what takes long: whether the run shall end
 */
typedef struct dt_run_observer {
    void *self;
    void (*line)(void *self, const char *label, const char *text);
    dt_status (*ready)(void *self, const dt_run *r, dt_err *err);
    void (*step)(void *self, const dt_step_report *report);
    void (*eval)(void *self, const dt_eval_report *report);
    bool (*stop)(void *self);
} dt_run_observer;

/**
 * dt_run_open() - read and check a configuration, and build its network.
 * @path: of an INI file
 * @set:  @n_set assignments, "train.batch=32", that replace what the file says
 *
 * Asks for no device and reads no data. DT_E_CONFIG with every problem found, file and line, and
 * what is allowed; DT_E_IO when reading breaks off; DT_E_DEVICE when what a device needs cannot be
 * loaded. The caller owns *out even on failure, when it may be NULL; it can only be closed then.
 */
DT_API dt_status dt_run_open(
    dt_run **out, const char *path, const char *const *set, size_t n_set, dt_err *err) DT_NODISCARD;

/* The same of @bytes bytes of text, which messages call @name. Relative paths in it count from the
 * current folder. */
DT_API dt_status dt_run_open_text(dt_run **out, const char *name, const char *text, size_t bytes,
    const char *const *set, size_t n_set, dt_err *err) DT_NODISCARD;

/* Give everything back; of a run that has begun and not ended, no more is written. NULL is fine. In
 * a child of the process that opened it the run stays the parent's, and other calls for it give
 * DT_E_CONFIG: what is open of the run directory is closed, and the rest goes as the child ends. */
DT_API void dt_run_close(dt_run *r);

/* ---- its plans ---- */

/* Make the plans of a run, without data and without memory for it: a step, an update and an
 * evaluation of full batches. DT_E_BUDGET when they do not fit the budgets, with what would; the
 * questions below are answered all the same. Before dt_run_begin, which plans again for the data
 * there is. */
DT_API dt_status dt_run_plan(dt_run *r, dt_err *err) DT_NODISCARD;

/* Take the plans of a file that `dnntrain plan CONFIG --text FILE` wrote, or of the plan.txt of a
 * run, and make none: before dt_run_plan and dt_run_begin, which refuse plans that are not of this
 * run, and name those that are missing. DT_E_DATA, with the line, when the file holds no plans:
 * then the run has those that it had. */
DT_API dt_status dt_run_take_plans(dt_run *r, const char *path, dt_err *err) DT_NODISCARD;

/* Bytes that the plans need at their peak, and what the configuration allows (0: no limit). The
 * device is where training computes; host and disk are where values wait. */
typedef struct dt_memory {
    uint64_t device, host, disk;
    uint64_t device_budget, host_budget, disk_budget;
    uint64_t out, in; /* moved away and back in the plan of the highest peak */
    bool exact;       /* the policies change no bit of what is trained */
} dt_memory;
DT_API dt_memory dt_run_memory(const dt_run *r); /* of the plans made so far */

/* What a step is predicted to take by memory.profile or the card of memory.simulate: its
 * micro-batches and the update, one after the other. @known: there is either; without, the seconds
 * are of defaults, which are good for an order alone. @waits: of the seconds, those in which ops
 * wait for copies; @rate: samples a second. DT_E_CONFIG before there are plans, DT_E_NOMEM. */
typedef struct dt_forecast {
    double seconds, waits, rate;
    bool known;
} dt_forecast;
DT_API dt_status dt_run_predict(const dt_run *r, dt_forecast *out, dt_err *err) DT_NODISCARD;

/* What lies on the device at the peak, by role: @i counts roles from 0. False when there are no
 * more, before plans are made, and where there is no memory to count. @name is static: "weights",
 * "activations" ... */
DT_API bool dt_run_role(const dt_run *r, int i, const char **name, uint64_t *bytes);

/* How many plans there are. */
DT_API size_t dt_run_plans(const dt_run *r);

/* A plan. @program: "first", "again", "update" or "eval"; @samples: of its batch; static, borrowed
 * until plans are made again. Where @plan is not below dt_run_plans, all is NULL and 0. */
typedef struct dt_plan_facts {
    const char *program, *policy;
    int64_t samples;
    uint64_t peak;
    size_t rows;
} dt_plan_facts;
DT_API dt_plan_facts dt_run_plan_facts(const dt_run *r, size_t plan);

/**
 * struct dt_plan_row - a row of a plan.
 * @kind:   "PLACE", "RELEASE", "COMPUTE", "COPY_OUT", "COPY_IN" or "WAIT"
 * @op:     of a compute row, "conv1.f"; else ""
 * @tensor: the one that is placed, released or copied; else ""
 * @reason: why the row is there; "" where the plan gives none
 * @offset @bytes: in the arena, of the tensor; 0 without one
 *
 * Texts are borrowed until plans are made again. Where @row is not below the plan's rows, all is
 * NULL and 0.
 */
typedef struct dt_plan_row {
    const char *kind, *op, *tensor, *reason;
    uint64_t offset, bytes;
} dt_plan_row;
DT_API dt_plan_row dt_run_plan_row(const dt_run *r, size_t plan, size_t row);

/* ---- training ---- */

/**
 * dt_run_begin() - everything before the first step.
 * @o: copied; NULL: nobody is told
 *
 * Plan, open the data, reserve memory, open the run directory (with checkpoint.resume: the one to
 * go on with), run each plan once, and set the first weights or those of the checkpoint. What can
 * be refused is refused before a folder is made: DT_E_CONFIG, DT_E_DATA, DT_E_BUDGET, DT_E_NOMEM,
 * DT_E_IO, DT_E_DEVICE, DT_E_BUSY. DT_E_STOPPED when the observer asks for it. After a failure the
 * run can only be closed.
 */
DT_API dt_status dt_run_begin(dt_run *r, const dt_run_observer *o, dt_err *err) DT_NODISCARD;

/* Train until @until steps of the run are done, those before a resume counted; 0, or more than it
 * has: all of them; below 0 DT_E_CONFIG, and nothing is done. DT_OK with fewer steps:
 * train.patience is at its end, and further calls make none. Evaluates and saves where the
 * configuration says so. A step that failed is discarded whole, so the weights stand as dt_run_step
 * says; but where an update itself failed, which train.update = early and a disk make possible,
 * some are updated and some are not, and nothing of the run can be saved any more. DT_E_NONFINITE,
 * DT_E_DATA, DT_E_IO, DT_E_DEVICE; DT_E_BUSY as dt_run_save; DT_E_STOPPED when the observer asks
 * for it. */
DT_API dt_status dt_run_train(dt_run *r, int64_t until, dt_err *err) DT_NODISCARD;

DT_API int64_t dt_run_step(const dt_run *r);  /* steps done */
DT_API int64_t dt_run_steps(const dt_run *r); /* in all, once begun */

/* Write checkpoints/step-N of the run directory for the last whole step, and remove those that the
 * configuration does not keep. DT_E_IO, DT_E_NOMEM; DT_E_BUSY where the run directory has become
 * another's; DT_E_CONFIG before the run has begun, after it
 * has ended, and behind an update that failed. */
DT_API dt_status dt_run_save(dt_run *r, dt_err *err) DT_NODISCARD;

/* Write the weights as they stand to a safetensors file, with PyTorch's names and layouts, whole or
 * not at all. DT_E_IO, DT_E_NOMEM; DT_E_CONFIG before there are weights, and behind an update that
 * failed. */
DT_API dt_status dt_run_save_weights(dt_run *r, const char *path, dt_err *err) DT_NODISCARD;

/* What the network has learned, under PyTorch's names ("layer1.0.conv1.weight"): a parameter, or
 * running statistics. @d: @rank dimensions, row-major, in PyTorch's layout (a convolution's: out,
 * in, height, width); @count: their product; @trained: steps change it by its gradient, unlike
 * statistics and what train.freeze names. */
enum { DT_WEIGHT_NAME = 192 };
typedef struct dt_weight {
    char name[DT_WEIGHT_NAME];
    int rank;
    int64_t d[4], count;
    bool trained;
} dt_weight;

/* The @i-th, from 0, of a run that is open; false when there are no more. */
DT_API bool dt_run_weight(const dt_run *r, size_t i, dt_weight *to);

/* The @count values of a weight as they stand, in fp32. DT_E_CONFIG for a name or a count that is
 * not the network's, and as dt_run_save_weights; DT_E_NOMEM, DT_E_IO, DT_E_DEVICE. */
DT_API dt_status dt_run_read_weight(
    dt_run *r, const char *name, float *to, size_t count, dt_err *err) DT_NODISCARD;

/* Put the @count values of a weight, in fp32, in place of those that stand there; what is trained,
 * evaluated and saved from now on has them. A pending evaluation or checkpoint of this step has
 * them as well, and what an optimizer has gathered stays. DT_E_DATA for a value that is not finite,
 * otherwise as dt_run_read_weight; nothing has changed then, but where a disk or a device fails on
 * the way: no weights are whole after that, and none are saved. */
DT_API dt_status dt_run_write_weight(
    dt_run *r, const char *name, const float *from, size_t count, dt_err *err) DT_NODISCARD;

/* What the network, with its weights as they stand, makes of @n samples: of each the score of
 * every class before softmax, to @to. @x: n * h * w * c values, as a source gives them; @count:
 * n * classes, or where a sample has several labels n * labels * classes. Where the loss is of
 * values, n times what the network gives, in rows, columns and channels, of bce before the sigmoid.
 * Of a run that has not begun: the weights are those of model.weights or the first ones, nothing is
 * written, its plans take the place of those of dt_run_plan, and it can no longer begin.
 * DT_E_CONFIG for another count, and where it trains and holds nothing out, or by plans that were
 * given (dt_run_take_plans), as it has no plan of an evaluation to ask then; DT_E_DATA for tokens
 * that are none; DT_E_BUDGET, DT_E_NOMEM, DT_E_IO, DT_E_DEVICE. */
DT_API dt_status dt_run_scores(
    dt_run *r, const float *x, int64_t n, float *to, size_t count, dt_err *err) DT_NODISCARD;

/* One pass over the data kept apart, with the weights as they stand; of a run that has not begun,
 * those of model.weights or the first ones, and nothing is written; its plans take the place of
 * those of dt_run_plan, and it can no longer begin. @o: as for begin, told of this evaluation;
 * NULL: who is told already. stop is polled after each batch. DT_E_NONFINITE when the loss is not
 * finite. @report: NULL: the observer's alone. */
DT_API dt_status dt_run_evaluate(
    dt_run *r, const dt_run_observer *o, dt_eval_report *report, dt_err *err) DT_NODISCARD;

enum { DT_GENERATE_CHARACTERS = 1000000, DT_GENERATE_TEMPERATURE = 100 }; /* at most */

/**
 * struct dt_generate_opts - what a network of text writes.
 * @count:  characters, 1 to DT_GENERATE_CHARACTERS
 * @prompt: what it goes on from; NULL: the beginning of the text kept apart
 * @temperature: 0: always the likeliest character; 1: as the network sees it; more: freer, to
 *          DT_GENERATE_TEMPERATURE
 * @seed:   of the draws: the same seed, weights and machine, the same text
 * @character: told each as it comes, those of the prompt first; false ends the text; may be NULL
 */
typedef struct dt_generate_opts {
    int64_t count;
    const char *prompt;
    double temperature;
    uint64_t seed;
    void *self;
    bool (*character)(void *self, char c);
} dt_generate_opts;

/* Text by a causal network whose data.source is text, with model.weights or the first ones: of a
 * run that neither trains nor evaluates, and nothing else is written. Before the next character it
 * is shown as many as its context holds. DT_E_CONFIG for another source, or for a prompt with
 * characters that the text it learned from does not have; DT_E_NONFINITE; DT_E_STOPPED. */
DT_API dt_status dt_run_generate(dt_run *r, const dt_generate_opts *o, dt_err *err) DT_NODISCARD;

/* The end of a run that has begun, @st being what the last dt_run_train gave: a checkpoint of the
 * last whole step unless there is one, the weights, and summary.json. Gives @st, or what went wrong
 * here. */
DT_API dt_status dt_run_end(dt_run *r, dt_status st, dt_err *err) DT_NODISCARD;

/* The run directory, once begun; NULL before. Borrowed from the run. */
DT_API const char *dt_run_folder(const dt_run *r);

#ifdef __cplusplus
}
#endif

#endif
