/* What a configuration says about a run besides the network's own layers: one struct for each
 * section, and the table that reads, checks and documents them. Only keys that do something exist.
 */
#ifndef DT_ENGINE_CONFIG_RUN_OPTIONS_H
#define DT_ENGINE_CONFIG_RUN_OPTIONS_H

#include "engine/config/config.h"

enum { DT_RUN_CHANNELS = 3, DT_RUN_MILESTONES = 64, DT_RUN_STAGES = 8, DT_RUN_DEFAULT_STEPS = 100 };

typedef enum dti_attention_choice {
    DTI_ATTENTION_IS_EFFICIENT,
    DTI_ATTENTION_IS_NAIVE
} dti_attention_choice;

typedef struct dt_model_section {
    const char *name;       /* NULL: the network is made of the file's layer sections */
    int64_t classes, image; /* 0: what the data or the model says */
    int64_t channels;       /* of the input; 0: the model's own */
    int64_t width;          /* channels of the first stage, or of every token; 0: the model's own */
    int64_t layers, heads, vocab, context; /* of transformers; 0: the model's own */
    const char *counts_text;               /* as written, or NULL */
    int n_count;                           /* 0: the model's own */
    int64_t count[DT_RUN_STAGES];          /* of blocks of each stage */
    int attention;                         /* dti_attention_choice */
    int64_t tiles, head_tiles;             /* of linear layers, of a vocabulary; 0: whole */
    double dropout;                        /* below 0: the model's own */
    bool fuse;                             /* run a layer and the ReLU behind it as one */
    const char *weights;                   /* safetensors file to start from, or NULL */
    const char *fresh;                     /* globs of what is not taken from it, or NULL */
} dt_model_section;

typedef enum dt_on_error { DT_ON_ERROR_FAIL, DT_ON_ERROR_SKIP } dt_on_error;

typedef enum dt_target { DT_TARGET_LABELS, DT_TARGET_INPUT } dt_target;

typedef struct dt_data_opts {
    const char *source, *path, *eval_path, *vocab; /* paths may be NULL */
    bool augment, shuffle;
    const char *mean_text, *std_text;                  /* as written, or NULL */
    int n_mean, n_std;                                 /* 0: the source's own */
    float mean[DT_RUN_CHANNELS], std[DT_RUN_CHANNELS]; /* one number is repeated for all channels */
    int on_error;                                      /* dt_on_error */
    int target;                                        /* dt_target */
    int64_t cutout, max_skips, samples, ahead, ignore_label;
    double eval_share; /* held out of path's samples; 0: none */
} dt_data_opts;

typedef enum dti_optimizer {
    DTI_OPTIMIZER_SGD,
    DTI_OPTIMIZER_ADAM,
    DTI_OPTIMIZER_ADAMW,
    DTI_OPTIMIZER_LION
} dti_optimizer;
typedef enum dt_states { DT_STATES_FP32, DT_STATES_8BIT } dt_states;
typedef enum dt_schedule {
    DT_SCHEDULE_CONSTANT,
    DT_SCHEDULE_STEP,
    DT_SCHEDULE_COSINE,
    DT_SCHEDULE_LINEAR
} dt_schedule;
typedef enum dt_precision {
    DT_PRECISION_FP32,
    DT_PRECISION_TF32, /* fp32 of which products may take the upper 19 bits; of CUDA devices */
    DT_PRECISION_BF16,
    DT_PRECISION_AUTO /* by the device */
} dt_precision;

typedef enum dt_update_choice { DT_UPDATE_STEP, DT_UPDATE_EARLY } dt_update_choice;

/* Why early updates want micro_batch = batch: micro-batches are asked for, or chosen later. */
#define DT_EARLY_WANTS_ONE_PART                                                                    \
    "gradients of several micro-batches are whole only at the end of a step; set micro_batch = "   \
    "batch, or update = step"

typedef struct dt_train_opts {
    int64_t batch, micro_batch; /* micro_batch divides batch; never 0 after binding */
    int64_t steps, epochs;      /* 0: no such limit; one at least is above 0 after binding */
    int optimizer, schedule, precision;
    int states; /* dt_states */
    double lr, momentum, weight_decay, gamma;
    double beta1, beta2, eps, final_lr;
    bool nesterov, no_decay, finite;
    int update; /* dt_update_choice */
    const char *warmup_text;
    int64_t warmup_steps, warmup_epochs; /* one of them is 0 */
    const char *freeze;                  /* names of layers and globs, or NULL */
    const char *rates;                   /* the same with factors of lr, or NULL */
    double clip, label_smoothing;        /* clip 0: not clipped */
    const char *milestones_text;
    int n_milestone;
    int64_t milestone[DT_RUN_MILESTONES]; /* epochs, rising */
    int64_t seed, eval_every;             /* 0: only at the end */
    int64_t patience;                     /* evaluations; 0: without end */
    const char *dump_gradients;           /* safetensors file to write, or NULL */
    bool drop_last, report;
} dt_train_opts;

typedef enum dt_device_choice { DT_DEVICE_AUTO, DT_DEVICE_CPU, DT_DEVICE_CUDA } dt_device_choice;

typedef struct dt_device_opts {
    int kind;         /* dt_device_choice */
    const char *card; /* to plan for; NULL: the one that is here */
    int64_t threads;  /* 0: all cores */
} dt_device_opts;

typedef enum dt_tier_choice { DT_TO_AUTO, DT_TO_HOST, DT_TO_DISK } dt_tier_choice;

typedef enum dt_algorithm_choice {
    DT_ALGORITHMS_FAST,
    DT_ALGORITHMS_SMALL,
    DT_ALGORITHMS_FIT
} dt_algorithm_choice;
const char *dt_algorithms_name(int how); /* as in the configuration */

typedef struct dt_memory_opts {
    const char *policy;                               /* names, comma-separated */
    bool masks;                                       /* see dt_program_opts */
    int algorithms;                                   /* dt_algorithm_choice */
    uint64_t device_budget, host_budget, disk_budget; /* bytes; 0: none */
    const char *pool;
    const char *tier;      /* "auto", or a tier's name */
    const char *disk_path; /* folder; NULL: the program's choice */
    uint64_t ahead;        /* bytes on their way from homes in a tier, and as many to them */
    uint64_t slice;        /* most bytes of one of these that an update brings at once; 0: any */
    int64_t generations;   /* of what steps change and the disk holds: 1 or 2 */
    bool copy_threads, checksum;
    const char *profile;        /* file, "auto", or NULL */
    const char *cache;          /* folder, "auto" or "none" */
    bool any_profile;           /* even one of another machine */
    const char *simulate;       /* name of a card, or NULL */
    double calibrate;           /* samples a second with all kept; 0: not given */
    const char *account;        /* name of a way of counting, or NULL */
    uint64_t account_workspace; /* bytes of the largest one that it assumes */
    double account_density;     /* share of values behind a ReLU that are not zero */
} dt_memory_opts;

/* As data sheets say it; 0: not given. */
typedef struct dt_card_opts {
    const char *title, *like; /* NULL: not given */
    double fp32, half;        /* 10^12 operations a second */
    double bandwidth, link;   /* 10^9 bytes a second */
    double disk_out, disk_in;
} dt_card_opts;

typedef enum dt_best { DT_BEST_OFF, DT_BEST_LOSS, DT_BEST_TOP1 } dt_best;
const char *dt_best_name(dt_best b);

typedef struct dt_checkpoint_opts {
    const char *every;                 /* as written */
    int64_t every_steps, every_epochs; /* at most one is above 0; 0: only at the end */
    int64_t keep_last;                 /* 0: all */
    int best;                          /* dt_best */
    const char *resume;                /* "no", "auto" or a folder */
} dt_checkpoint_opts;

typedef struct dt_dir_opts {
    const char *dir; /* NULL: the program's choice */
    bool overwrite;
} dt_dir_opts;

typedef struct dt_run_options {
    dt_model_section model;
    dt_data_opts data;
    dt_train_opts train;
    dt_device_opts device;
    dt_memory_opts memory;
    dt_card_opts card;
    dt_checkpoint_opts checkpoint;
    dt_dir_opts run;
} dt_run_options;

/* A section: its rows fill the struct at @offset of dt_run_options. The table ends with a NULL
 * name. */
typedef struct dt_run_section {
    const char *name;
    const dt_opt *rows;
    size_t offset;
    const char *help;
} dt_run_section;
extern const dt_run_section dt_run_sections[];

/* Bind every section and check what keys mean together. All problems are reported; the status is
 * that of the first. Strings live as long as @c. Layer sections are not looked at: bind those, then
 * call dt_config_check_known. */
dt_status dt_run_options_bind(dt_config *c, dt_run_options *o, dt_err *err) DT_NODISCARD;

/* The path that a key names, as it was resolved; NULL: it is no key of paths, or names none. */
const char *dt_run_options_path(
    const dt_run_options *o, const dt_run_section *of, const dt_opt *row);

/* The "SECTION.KEY" that a word may stand for: itself where it begins with a section, a key's name,
 * or what others call one; NULL: none. */
const char *dt_run_options_meant(const char *word, char *to, size_t bytes);

/* The optimizer's op, that of moments in 8 bits (NULL: there are none), and the moments that each
 * parameter has under it. */
const char *dt_optimizer_name(const dt_train_opts *t);
const char *dt_optimizer_packed(const dt_train_opts *t);
/* The optimizer of such an op, and whether the op is that of moments in 8 bits; NULL: of none. */
const char *dt_optimizer_of(const char *op, bool *packed);
int dt_optimizer_state(const dt_train_opts *t);

/* Whether the schedule goes down to final_lr. */
bool dti_schedule_falls(const dt_train_opts *t);

/* The reference of all sections and keys, as Markdown that also reads well as it is. */
void dt_run_options_help(FILE *f);

#endif
