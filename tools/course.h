/* The course of a run as its metrics.jsonl tells it: all of it, whoever went on with it and when.
 */
#ifndef DT_TOOLS_COURSE_H
#define DT_TOOLS_COURSE_H

#include "engine/base/error.h"

/* Columns of numbers, a row a step or an evaluation; NaN where a line has none. */
enum { DTI_STEP, DTI_LOSS, DTI_LR, DTI_RATE, DTI_TOP1, DTI_COLUMNS };

typedef struct dti_course_table {
    double *v[DTI_COLUMNS];
    size_t n, cap;
} dti_course_table;

bool dti_course_room(dti_course_table *t) DT_NODISCARD; /* for a row more; false: no memory */
void dti_course_table_deinit(dti_course_table *t);

/**
 * struct dti_course - what was read; zero-initialised. Release with dti_course_deinit.
 * @each: of so many lines one is read, as a long run has more than a picture shows
 * @bad:  lines that are none
 * @why:  it could not be read; "": it could
 */
typedef struct dti_course {
    dti_course_table train, eval;
    size_t each, line, bad;
    char why[256];
} dti_course;

/* Of the run in @folder. DT_E_NOMEM; all else is @why. */
dt_status dti_course_read(dti_course *c, const char *folder, dt_err *err) DT_NODISCARD;
void dti_course_deinit(dti_course *c);

#endif
