/* Options as rows. A table of rows drives parsing, range checks, defaults, help, the
 * effective-config dump and the reference page; values land in a struct of the table's owner. */
#ifndef DNNTRAIN_OPTIONS_H
#define DNNTRAIN_OPTIONS_H

#include <stddef.h>

typedef enum dt_opt_type {
    DT_OPT_I64,   /* int64_t */
    DT_OPT_F64,   /* double; finite, "C" locale */
    DT_OPT_BOOL,  /* bool; true false on off yes no 1 0 */
    DT_OPT_ENUM,  /* int; index into choices */
    DT_OPT_STR,   /* const char *; owned by the config */
    DT_OPT_PATH,  /* const char *; relative paths count from the INI file's folder */
    DT_OPT_BYTES, /* uint64_t; a bare number is bytes, KiB MiB GiB TiB and KB MB GB TB are units; a
                     fraction takes a unit and is cut to whole bytes */
    DT_OPT_LIST,  /* const char *; comma-separated names; dt_config_bind removes the blanks around
                     commas */
    DT_OPT_SIDES  /* int64_t; a height and a width, "1x7", or one number that is both: the height,
                     and  2^32 times (width + 1) where that is another */
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
 * @choices:  NULL-terminated words of an enum; of a path, a word that stands for none; else NULL
 * @unit @help: for people; unit may be NULL
 *
 * Tables that are registered from outside come with their count.
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

#endif
