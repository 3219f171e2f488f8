/* Numbers as text with a decimal point, whatever locale the host program has set: what is written
 * by one program is read by another, and plans and profiles are told apart by their texts. And
 * whole numbers for people. */
#ifndef DT_ENGINE_BASE_NUMBERS_TEXT_H
#define DT_ENGINE_BASE_NUMBERS_TEXT_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/compiler.h"

/* Between these two the calling thread, and no other, is in the C locale: around whole texts, and
 * other libraries that read or write numbers. Leave with what entering gave. */
locale_t dt_c_locale_enter(void);
void dt_c_locale_leave(locale_t before);

/* snprintf, vsnprintf and strtod in the C locale; errno is what the last leaves. */
int dt_snprintf(char *to, size_t room, const char *fmt, ...) DT_PRINTF(3, 4);
int dt_vsnprintf(char *to, size_t room, const char *fmt, va_list args) DT_PRINTF(3, 0);
double dt_strtod(const char *text, char **end);

enum { DT_HUMAN_BYTES = 32 }; /* enough for a number as people read it */

/* "1,234,567" for people; dt_parse_bytes reads it as well. Returns @to. */
const char *dt_human_count(char to[DT_HUMAN_BYTES], uint64_t n);

/* Fewest digits, @least of them or more, that read back as the same number; cut to @room. */
void dti_f64_text(char *to, size_t room, int least, double v);

#endif
