/* Options as rows. A table of rows drives parsing, range checks, defaults, help, the
 * effective-config dump and the reference page; values land in a struct of the table's owner. */
#ifndef DT_ENGINE_CONFIG_OPTIONS_H
#define DT_ENGINE_CONFIG_OPTIONS_H

#include <stdio.h>

#include "engine/base/error.h"

typedef enum dt_opt_type {
    DT_OPT_I64,   /* int64_t */
    DT_OPT_F64,   /* double; finite, "C" locale */
    DT_OPT_BOOL,  /* bool; true false on off yes no 1 0 */
    DT_OPT_ENUM,  /* int; index into choices */
    DT_OPT_STR,   /* const char *; owned by the config */
    DT_OPT_PATH,  /* const char *; relative paths count from the INI file's folder */
    DT_OPT_BYTES, /* uint64_t; a bare number is bytes, KiB MiB GiB TiB and KB MB GB TB are units; a
                     fraction takes a unit and is cut to whole bytes */
    DT_OPT_LIST   /* const char *; comma-separated names; dt_config_bind removes the blanks around
                     commas */
} dt_opt_type;

/**
 * struct dt_opt - one option.
 * @key:      name in the INI file
 * @type:     how the text is read and what lies at @at
 * @at:       offsetof the value in the owner's struct
 * @fallback: default as text, read by the same parser; NULL: the key is required;
 *            "" leaves a string NULL and a number 0
 * @min @max: inclusive range of numbers and bytes; ignored when both are 0. A max of 2^63 or more
 * stands for the largest int64_t
 * @choices:  NULL-terminated words of an enum
 * @unit @help: for people; unit may be NULL
 *
 * A table ends with a row whose key is NULL.
 */
typedef struct dt_opt {
    const char *key;
    dt_opt_type type;
    size_t at;
    const char *fallback;
    double min, max;
    const char *const *choices;
    const char *unit, *help;
} dt_opt;

/* Read one value as its row says into target + row->at. On failure (DT_E_CONFIG, target untouched)
 * the note says what is wrong with the value and what is allowed, without key, file or line: the
 * caller knows those. An empty text is no number; it makes a string NULL where the default is "",
 * and is refused elsewhere. Strings point into @text, which must live as long as the target. */
dt_status dt_opt_read(const dt_opt *row, const char *text, void *target, dt_err *err) DT_NODISCARD;

/* Fill every value of the table with its default; required keys are left zero. A default its own
 * row refuses is our bug and ends the program. */
void dt_opt_defaults(const dt_opt *rows, void *target);

/* Print the value as the INI file would write it: dt_opt_read gives the same value back. */
void dt_opt_print(FILE *f, const dt_opt *row, const void *target);

/* What a value of this row may be, for help: "1..64", "fp32, bf16", "on or off". */
void dt_opt_allowed(const dt_opt *row, char *text, size_t room);

/* Take one whole number or real from text that must hold nothing else; false otherwise, or when it
 * is out of the type's range. Neither looks at the locale. For lists of numbers. */
bool dt_parse_i64(const char *text, int64_t *out) DT_NODISCARD;
bool dt_parse_f64(const char *text, double *out) DT_NODISCARD;

/* The word of @words (NULL-terminated) that @word may have meant, or NULL: what other programs call
 * so (foreign.def), the nearest in edit distance if it is close, or the only one that @word is a
 * part of. */
const char *dt_nearest(const char *word, const char *const *words);

/* DT_E_CONFIG: "WHAT; did you mean 'NEAREST'? There are: ALL", where @word is none of @words. */
dt_status dt_unknown(
    const char *what, const char *word, const char *const *words, dt_err *err) DT_NODISCARD;

#endif
