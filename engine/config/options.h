/* Options as rows. A table of rows drives parsing, range checks, defaults, help, the
 * effective-config dump and the reference page; values land in a struct of the table's owner. */
#ifndef DT_ENGINE_CONFIG_OPTIONS_H
#define DT_ENGINE_CONFIG_OPTIONS_H

#include <stdio.h>

#include <dnntrain/options.h>

#include "engine/base/error.h"

/* Read one value as its row says into target + row->at. On failure (DT_E_CONFIG, target untouched)
 * the note says what is wrong with the value and what is allowed, without key, file or line: the
 * caller knows those. An empty text is no number; it makes a string NULL where the default is "",
 * and is refused elsewhere. Strings point into @text, which must live as long as the target. */
dt_status dt_opt_read(const dt_opt *row, const char *text, void *target, dt_err *err) DT_NODISCARD;

/* What a value of this type takes in its struct; 0 for a number that is no type. */
size_t dti_opt_bytes(dt_opt_type t);

/* Fill every value of the table with its default; required keys are left zero. A default its own
 * row refuses is our bug and ends the program. */
void dt_opt_defaults(const dt_opt *rows, void *target);

/* Print the value as the INI file would write it: dt_opt_read gives the same value back. */
void dt_opt_print(FILE *f, const dt_opt *row, const void *target);

/* What a value of this row may be, for help: "1..64", "fp32, bf16", "on or off". */
void dt_opt_allowed(const dt_opt *row, char *text, size_t room);

/* Sides (engine/shape.h) as they are written: "3", "1x7". */
typedef struct dt_sides_text {
    char s[48];
} dt_sides_text;
dt_sides_text dt_sides_print(int64_t sides);

/* Take one whole number or real from text that must hold nothing else; false otherwise, or when it
 * is out of the type's range. Neither looks at the locale. For lists of numbers. */
bool dt_parse_i64(const char *text, int64_t *out) DT_NODISCARD;
bool dt_parse_f64(const char *text, double *out) DT_NODISCARD;

/* Bytes with or without a unit: "512", "1.5GiB". DT_E_CONFIG says what is wrong, without the text.
 */
dt_status dt_parse_bytes(const char *text, uint64_t *out, dt_err *err) DT_NODISCARD;

#endif
