/* Published numbers, and how ours are made. */
#ifndef DT_TOOLS_REPRODUCE_H
#define DT_TOOLS_REPRODUCE_H

#include "memory/accounts/account.h"

/* What a number was read from. Its tolerance goes by this, whatever comes out. */
typedef enum dti_published_kind {
    DTI_STATED, /* stated bytes and formulas: 1 % */
    DTI_FIGURE, /* bytes read from a figure: 10 % */
    DTI_TIME,   /* times of another implementation, */
    DTI_BATCH,  /* its batches, */
    DTI_MEMORY, /* and its memory: 15 % */
    DTI_PUBLISHED_KINDS
} dti_published_kind;
const char *dti_published_kind_name(dti_published_kind k);
double dti_published_tolerance(dti_published_kind k);

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

typedef enum dti_better { DTI_NEITHER, DTI_HIGHER, DTI_LOWER } dti_better;

/* What is counted: of plans, by a number of its own; or a figure of an account. */
typedef struct dti_quantity {
    int of_plan;
    const dt_account_desc *account; /* NULL: of plans */
    size_t figure;
} dti_quantity;

/* "device_mib", or "superneurons.liveness". DT_E_DATA with the nearest. */
dt_status dti_quantity_find(dti_quantity *out, const char *name, dt_err *err) DT_NODISCARD;

/**
 * struct dti_published_row - a number of a paper.
 * @paper:     which, of dti_published
 * @where:     table, figure or section
 * @what:      what it says
 * @published: above 0
 * @better:    the direction in which the number is a system's merit
 * @most:      the largest over the networks; otherwise their mean
 * @networks:  "NAME:BATCH ...", a model's name, or a file below configs/
 * @own @base: settings, "SECTION.KEY=VALUE ..."
 * @note:      what the paper leaves open, or why ours differs
 */
typedef struct dti_published_row {
    size_t paper;
    char *where, *what, *networks, *own, *base, *note;
    dti_published_kind kind;
    double published;
    dti_better better;
    dti_published_form form;
    dti_quantity quantity;
    bool most;
} dti_published_row;

/* A paper: its name here, authors, title and year, and what holds for all of its rows. */
typedef struct dti_published_paper {
    char *name, *title, *note;
} dti_published_paper;

typedef struct dti_published {
    size_t n_paper, cap_paper, n_row, cap_row;
    dti_published_paper *paper;
    dti_published_row *row;
} dti_published;

/* Read a file of rows; configs/papers/published.txt says how it is written. DT_E_DATA with
 * FILE:LINE. Release with dti_published_deinit, even after a failure. */
dt_status dti_published_read(dti_published *out, const char *path, dt_err *err) DT_NODISCARD;
dt_status dti_published_parse(
    dti_published *out, const char *text, size_t bytes, const char *path, dt_err *err) DT_NODISCARD;
void dti_published_deinit(dti_published *p);

/* Our number for a row, by plans, solvers and the simulator; nothing is run. DT_E_CONFIG when a
 * network or a setting is unknown, and what planning may fail with. */
dt_status dti_reproduce_measure(const dti_published_row *r, double *ours, dt_err *err) DT_NODISCARD;

#endif
