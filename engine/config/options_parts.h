/* For options*.c only: numbers as text. */
#ifndef DT_ENGINE_CONFIG_OPTIONS_PARTS_H
#define DT_ENGINE_CONFIG_OPTIONS_PARTS_H

#include "engine/config/options.h"

/* An optional sign and digits, nothing else; likewise a decimal number. Either may be out of its
 * type's range. */
bool dti_looks_whole(const char *s);
bool dti_looks_real(const char *s);

/* Fewest digits that read back as the same number. */
void dti_print_f64(FILE *f, double v);

/* The note says what is wrong, without the text. */
dt_status dti_parse_bytes(const char *text, uint64_t *out, dt_err *err) DT_NODISCARD;
/* In the largest unit that leaves no fraction. */
void dti_print_bytes(char *text, size_t room, uint64_t v);

#endif
