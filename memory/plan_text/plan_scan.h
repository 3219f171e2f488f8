/* Inside the plan parser: lines, words and numbers of a text that may be anything. */
#ifndef DT_MEMORY_PLAN_TEXT_PLAN_SCAN_H
#define DT_MEMORY_PLAN_TEXT_PLAN_SCAN_H

#include "engine/base/error.h"

/**
 * struct dti_scan - a place in the text.
 * @name:     of the file, for messages
 * @line:     number of the current line, from 1
 * @at @end:  what is left of it
 * @next @stop: what follows it
 */
typedef struct dti_scan {
    const char *name;
    size_t line;
    const char *at, *end, *next, *stop;
    dt_err *err;
} dti_scan;

/* A stretch of printable ASCII. */
typedef struct dti_word {
    const char *p;
    size_t n;
} dti_word;

/* For "%.*s": long values are cut. */
#define DTI_SHOW(w) ((w).n < 60 ? (int)(w).n : 60), (w).p
dt_status dti_scan_bad(const dti_scan *s, const char *fmt, ...) DT_PRINTF(2, 3); /* DT_E_DATA */
dt_status dti_scan_no_memory(const dti_scan *s);

/* Go to the next line that is no comment and not blank; *more is false at the end of the text. */
dt_status dti_scan_line(dti_scan *s, bool *more) DT_NODISCARD;

/* The next word of the line, or one of no bytes at its end; the rest of the line without blanks
 * around. */
dti_word dti_scan_word(dti_scan *s);
dti_word dti_scan_rest(dti_scan *s);

bool dti_word_is(dti_word w, const char *text);
/* Take text off the front of *w, if it begins so. */
bool dti_word_take(dti_word *w, const char *text);
/* What is before the last c, which is dropped, and after it; false without a c. */
bool dti_word_cut(dti_word w, char c, dti_word *before, dti_word *after);

/* Decimal, without sign, blanks or leading zeros, at most @most. */
dt_status dti_scan_number(
    const dti_scan *s, const char *what, dti_word w, uint64_t most, uint64_t *out) DT_NODISCARD;
/* Finite and not negative. */
dt_status dti_scan_real(const dti_scan *s, const char *what, dti_word w, double *out) DT_NODISCARD;
/* Undo the escapes; to holds @bytes, NUL included. */
dt_status dti_scan_escaped(
    const dti_scan *s, const char *what, dti_word w, char *to, size_t bytes) DT_NODISCARD;

#endif
