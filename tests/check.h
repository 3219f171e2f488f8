/* What every test program includes: cmocka, a comparison that fails on NaN, and the optional folder
 * of reference data. */
#ifndef DT_TESTS_CHECK_H
#define DT_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/base/error.h"

/* ||got - want|| / ||want||, or infinity when anything is not finite or n is 0. */
double dt_relative_error(const float *got, const float *want, size_t n);

/* Fails, printing the trail, unless the status is the one expected and the trail holds the text. */
#define assert_ok(expr, err) dt_assert_status((expr), DT_OK, (err), NULL, #expr, __FILE__, __LINE__)
#define assert_fails(expr, status, err, text)                                                      \
    dt_assert_status((expr), (status), (err), (text), #expr, __FILE__, __LINE__)
void dt_assert_status(dt_status got, dt_status want, const dt_err *err, const char *text,
    const char *expr, const char *file, int line);

/* Whether DT_TEST_SCALE is small, as the sanitizers' presets set it. Then tests of many cases try a
 * sample of them, with each policy, network and codec still in it: builds without sanitizers try
 * them all. */
bool dt_small_scale(void);

/* Path below the folder of reference data (environment variable DT_SHARED, default ../shared from
 * the source folder), or NULL when there is none: then the test calls skip(). */
const char *dt_shared(const char *below);
/* Path below the source tree, and below a fresh temporary folder of this process. */
const char *dt_source_path(const char *below);
const char *dt_temp_path(const char *below);

#endif
