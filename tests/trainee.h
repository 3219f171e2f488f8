/* A small network in a runner with the plans of a training run, whose moves go where a test wants
 * them to go. */
#ifndef DT_TESTS_TRAINEE_H
#define DT_TESTS_TRAINEE_H

#include "engine/runner/runner.h"
#include "memory/pass.h"

/**
 * struct dt_trainee_opts - how to train.
 * @policies: default vdnn_all
 * @tight: then move all that is left for backward, away at once and back at the last moment
 * @tier:  where moves go: DT_TIER_HOST (also for 0) or DT_TIER_DISK
 * @desc:  that tier; NULL: the real one
 * @codec: of moves of fp32 values; NULL: none
 * @density: of that codec
 * @encode @encode_density: a codec for what ReLUs keep for backward; NULL: none
 * @driver @replay: of a device that works on its own; NULL: none
 * @optimizer: NULL: sgd
 * @edit:  changes the plan of program @edited, by default the first micro-batch, after it was
 * verified; may be NULL
 */
typedef struct dt_trainee_opts {
    const char *policies;
    dt_tier tier;
    const dt_tier_desc *desc;
    const dt_codec *codec, *encode;
    double density, encode_density;
    bool tight, copy_threads;
    uint64_t delay_seed;
    const dt_driver *driver;
    bool replay;
    const dt_layer_desc *optimizer;
    void (*edit)(dt_plan *p, void *arg);
    dt_program_kind edited;
    void *arg;
} dt_trainee_opts;

enum { DT_TRAINEE_BATCH = 4, DT_TRAINEE_MICROS = 2 };

typedef struct dt_trainee {
    dt_graph *graph;
    dt_map *map;
    dt_program *program[DT_PROGRAM_KINDS];
    dt_plan *plan[DT_PROGRAM_KINDS];
    int id[DT_PROGRAM_KINDS];
    dt_runner *runner;
    float *x;
    int32_t *labels;
} dt_trainee;

/* Networks of 32x32 images: convolutions, ReLU, mean pool, classifier, of floats only; and
 * resnet18, narrow. */
dt_graph *dt_trainee_plain(void);
dt_graph *dt_trainee_resnet(void);

/* Takes the graph. Failures fail the test. */
dt_trainee dt_trainee_open(dt_graph *g, const dt_trainee_opts *o);
void dt_trainee_close(dt_trainee *t);

dt_run_args dt_trainee_args(const dt_trainee *t, int64_t step, int micro);
/* One program of step 0's first micro-batch. */
dt_status dt_trainee_run(dt_trainee *t, dt_program_kind kind, dt_err *err) DT_NODISCARD;
/* A step of two micro-batches, and its update. */
dt_status dt_trainee_step(dt_trainee *t, int64_t step, dt_err *err) DT_NODISCARD;
/* All that outlives a step, after a new start and so many steps; dt_free it. */
unsigned char *dt_trainee_train(dt_trainee *t, int64_t steps);

/* The same bits in all that outlives a step, padding aside; else fails the test, if @what. */
bool dt_trainee_same(
    const dt_trainee *t, const unsigned char *want, const unsigned char *got, const char *what);

#endif
