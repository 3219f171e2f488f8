/* For progress*.c only. */
#ifndef DT_TOOLS_PROGRESS_PARTS_H
#define DT_TOOLS_PROGRESS_PARTS_H

#include "session/rate.h"
#include "tools/progress.h"

enum { DTI_WINDOW = 32, DTI_BINS = 64, DTI_LINE = 1024 };

/* Mean losses of a whole run in few numbers: when all bins are full, pairs become one. */
typedef struct dti_curve {
    double sum[DTI_BINS];
    int64_t count[DTI_BINS], width; /* steps a bin */
    int bins;
} dti_curve;

void dti_curve_add(dti_curve *c, double loss);

/* The curve as blocks of eight heights, at most @width of them; nothing for fewer than two. Bytes
 * written, without the NUL. */
size_t dti_curve_draw(const dti_curve *c, char *to, size_t room, int width);

/* A redrawn or plain line: what it says. */
typedef struct dti_line {
    int64_t at, of, epoch,
        epochs; /* step in the epoch, or in the run; epoch from 1, epochs 0: none */
    double loss, lr, rate, wait, left; /* wait in [0, 1]; left in seconds */
    bool smoothed, tokens;             /* the rate is that of tokens, not of images */
} dti_line;

/* As much of it as fits @width columns, most important first. Returns the length. */
size_t dti_line_fit(const dti_line *l, int width, char to[DTI_LINE]);
/* All of it, for logs. */
size_t dti_line_plain(const dti_line *l, char to[DTI_LINE]);

/* Text that may say nothing else to a terminal. */
typedef struct dti_show {
    FILE *f;
    dt_terminal t;
    bool lost; /* writing failed: nothing more is written */
} dti_show;

void dti_show_bytes(dti_show *s, const char *text, size_t n);

struct dt_progress {
    dti_show show;
    double (*clock)(void);
    double began, drawn; /* times; drawn of the last line */
    bool on_line;        /* the cursor stands behind a redrawn line */
    int64_t tokens, epochs, done, steps, steps_per_epoch;
    uint64_t planned;
    char *run_dir;
    double loss, weight; /* smoothed: sum and its weight */
    double first_loss, last_loss;
    int64_t n, samples; /* steps seen, samples in them */
    double eval_seconds;
    bool evaluated;
    dt_eval_report eval; /* the last */
    dti_curve curve;
    struct {
        double seconds, wait, samples;
    } window[DTI_WINDOW];
    dt_rate rate;
};

void dti_show_facts(dti_show *s, const dt_progress_facts *f);
void dti_show_result(
    const dt_progress *p, dti_show *s, const dt_progress_result *r, double seconds);

#endif
