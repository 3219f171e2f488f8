/* Published numbers, and how ours are made. */
#ifndef DT_SESSION_REPRODUCE_H
#define DT_SESSION_REPRODUCE_H

#include "memory/accounts/account.h"

/* What a number was read from. Its tolerance goes by this, whatever comes out. */
typedef enum dt_published_kind {
    DT_STATED, /* stated bytes and formulas: 1 % */
    DT_FIGURE, /* bytes read from a figure: 10 % */
    DT_TIME,   /* times of another implementation, */
    DT_BATCH,  /* its batches, */
    DT_MEMORY, /* and its memory: 15 % */
    DT_PUBLISHED_KINDS
} dt_published_kind;
const char *dt_published_kind_name(dt_published_kind k);
double dt_published_tolerance(dt_published_kind k);

/* What is made of a quantity of the row's own settings, and of its base's. */
typedef enum dti_published_form {
    DTI_PLAIN, /* own */
    DTI_RATIO, /* base ÷ own */
    DTI_LESS,  /* 100 (1 - own ÷ base) */
    DTI_MORE,  /* 100 (base ÷ own - 1) */
    DTI_EXTRA, /* 100 (own ÷ base - 1) */
    DTI_ADDED, /* own - base */
    DTI_PUBLISHED_FORMS
} dti_published_form;

typedef enum dt_better { DT_NEITHER, DT_HIGHER, DT_LOWER } dt_better;

/* What is counted: of plans, by a number of its own; or a figure of an account. */
typedef struct dti_quantity {
    int of_plan;
    const dt_account_desc *account; /* NULL: of plans */
    size_t figure;
} dti_quantity;

/* "device_mib", or "superneurons.liveness". DT_E_DATA with the nearest. */
dt_status dti_quantity_find(dti_quantity *out, const char *name, dt_err *err) DT_NODISCARD;
/* Whether it is the largest batch. */
bool dti_quantity_is_batch(const dti_quantity *q);

/**
 * struct dt_published_row - a number of a paper.
 * @paper:     which, of dt_published
 * @where:     table, figure or section
 * @what:      what it says
 * @published: above 0
 * @better:    the direction in which the number is a system's merit
 * @rival:     that system is not the paper's own but one that it ran beside it
 * @most:      the largest over the networks; otherwise their mean
 * @networks:  "NAME:BATCH ...", a model's name, or a file below configs/
 * @own @base: settings, "SECTION.KEY=VALUE ..."
 * @note:      what the paper leaves open, or why ours differs; may have blanks
 */
typedef struct dt_published_row {
    size_t paper;
    char *where, *what, *networks, *own, *base, *note;
    dt_published_kind kind;
    double published;
    dt_better better;
    dti_published_form form;
    dti_quantity quantity;
    bool most, rival;
} dt_published_row;

/* A paper: its name here, authors, title and year, and what holds for all of its rows. */
typedef struct dt_published_paper {
    char *name, *title, *note;
} dt_published_paper;

typedef struct dt_published {
    size_t n_paper, cap_paper, n_row, cap_row;
    dt_published_paper *paper;
    dt_published_row *row;
} dt_published;

/* Read a file of rows; configs/papers/published.txt says how it is written. DT_E_DATA with
 * FILE:LINE. Release with dt_published_deinit, even after a failure. */
dt_status dt_published_read(dt_published *out, const char *path, dt_err *err) DT_NODISCARD;
dt_status dti_published_parse(
    dt_published *out, const char *text, size_t bytes, const char *path, dt_err *err) DT_NODISCARD;
void dt_published_deinit(dt_published *p);

/* Our number for a row, by plans, solvers and the simulator; nothing is run. Not a number where a
 * plan does not keep to the row's budget. DT_E_CONFIG when a network or a setting is unknown, and
 * what planning may fail with. */
dt_status dt_reproduce_measure(const dt_published_row *r, double *ours, dt_err *err) DT_NODISCARD;

/* A row's note with its blanks filled in from our plan at our largest batch, NULL-terminated below:
 * {room}, how many of the largest feature map per sample the budget has room for at the published
 * batch, beside what outlives a step; {held}, how many our plan holds; {where} its peak is. */
extern const char *const dti_reproduce_blanks[];
dt_status dt_reproduce_note(
    char *to, size_t bytes, const dt_published_row *r, double ours, dt_err *err) DT_NODISCARD;

#endif
