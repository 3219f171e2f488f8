/* The trail of an error and the allocator that fails on request. */
#include "tests/fixture/check.h"

#include <string.h>

#include "engine/base/alloc.h"

static void notes_stand_one_a_line_innermost_first(void **state)
{
    (void)state;
    dt_err err = {0};
    assert_int_equal(DT_FAIL(&err, DT_E_DATA, "cause %d", 1), DT_E_DATA);
    assert_int_equal(DT_FAIL(&err, DT_E_IO, "while doing %s", "this"), DT_E_IO);
    assert_string_equal(err.text, "cause 1\nwhile doing this\n");
    assert_int_equal(err.code, DT_E_DATA);
    assert_int_equal(err.n, 2);
}

static void a_missing_trail_is_fine(void **state)
{
    (void)state;
    assert_int_equal(DT_FAIL(NULL, DT_E_BUSY, "nobody reads %s", "this"), DT_E_BUSY);
}

static void only_our_bugs_name_a_source_line(void **state)
{
    (void)state;
    dt_err err = {0};
    (void)DT_FAIL(&err, DT_E_DATA, "theirs");
    assert_null(strstr(err.text, "test_errors.c"));
    (void)DT_FAIL(&err, DT_E_INTERNAL, "ours");
    assert_non_null(strstr(err.text, "test_errors.c"));
}

static void a_full_trail_counts_what_is_missing(void **state)
{
    (void)state;
    dt_err err = {0};
    int kept = 0;
    for (int i = 0; i < 1000; i++)
        (void)DT_FAIL(&err, DT_E_CONFIG, "problem %d of a long list of problems in one file", i);
    assert_int_equal(err.n, 1000);
    for (const char *s = err.text; (s = strstr(s, "problem ")) != NULL; s++)
        kept++;
    char last[64];
    assert_true(kept > 100 && kept < 1000);
    snprintf(last, sizeof last, "... and %d more\n", 1000 - kept);
    assert_string_equal(err.text + err.len - strlen(last), last);
    assert_int_equal(strlen(err.text), err.len);
    assert_true(err.len < DT_ERR_BYTES);
}

/* A file may be called like the line that counts lost notes. */
static void a_note_may_read_like_the_count(void **state)
{
    (void)state;
    dt_err err = {0};
    (void)DT_FAIL(&err, DT_E_CONFIG, "open '... and 7 more.ini': no such file");
    (void)DT_FAIL(&err, DT_E_CONFIG, "... and nothing else");
    assert_string_equal(
        err.text, "open '... and 7 more.ini': no such file\n... and nothing else\n");
    dt_err_clear(&err);
    assert_int_equal(err.code, DT_OK);
    (void)DT_FAIL(&err, DT_E_IO, "again");
    assert_string_equal(err.text, "again\n");
}

/* What went wrong first is not lost when it goes wrong again, and lines stay as they were. */
static void another_trail_goes_behind_what_is_there(void **state)
{
    (void)state;
    dt_err err = {0}, more = {0};
    (void)DT_FAIL(&err, DT_E_NONFINITE, "a loss is not finite");
    (void)DT_FAIL(&more, DT_E_INTERNAL, "two\nlines of a %s", "name");
    (void)DT_FAIL(&more, DT_E_INTERNAL, "and a second");
    const char *where = strstr(more.text, " [");
    assert_non_null(where);
    assert_int_equal(dt_err_append(&err, DT_E_INTERNAL, more.text), DT_E_INTERNAL);
    assert_int_equal(err.code, DT_E_NONFINITE);
    assert_int_equal(err.n, 3);
    assert_memory_equal(err.text, "a loss is not finite\n", 21);
    assert_string_equal(err.text + 21, more.text);
    assert_int_equal(dt_err_append(&err, DT_E_IO, ""), DT_E_IO);
    assert_int_equal(err.n, 3);
    assert_int_equal(dt_err_append(NULL, DT_E_IO, "nobody listens\n"), DT_E_IO);
}

static void a_note_too_long_is_cut_to_one_line(void **state)
{
    (void)state;
    dt_err err = {0};
    char text[8000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)DT_FAIL(&err, DT_E_DATA, "%s", text);
    assert_true(err.len > 1000 && err.len < sizeof text);
    assert_true(err.text[err.len - 1] == '\n');
}

static void notes_hold_one_line_of_printable_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a\nb", "a\\nb\n"},
        {"a\r\tb\033[2J\x7F", "a\\r\\tb\\x1B[2J\\x7F\n"},
        {"gr\xC3\xBCn \xE2\x82\xAC \"a\\nb\"", "gr\xC3\xBCn \xE2\x82\xAC \"a\\nb\"\n"},
        {"\xFF\xC3(\xC2\x9B", "\\xFF\\xC3(\\xC2\\x9B\n"},
        {"", "\n"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_err err = {0};
        (void)DT_FAIL(&err, DT_E_DATA, "%s", cases[i][0]);
        assert_string_equal(err.text, cases[i][1]);
        assert_int_equal(err.len, strlen(err.text));
    }
}

static void escaped_notes_fill_a_trail_no_further_than_it_goes(void **state)
{
    (void)state;
    dt_err err = {0};
    char text[2001];
    memset(text, '\001', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 20; i++)
        (void)DT_FAIL(&err, DT_E_DATA, "%s", text);
    assert_int_equal(err.len, strlen(err.text));
    assert_true(err.len < DT_ERR_BYTES);
    assert_non_null(strstr(err.text, "... and "));
}

static dt_status tries(dt_status inner, dt_err *err)
{
    DT_TRY(err, inner, "while trying");
    return DT_OK;
}

static void try_passes_a_failure_on_with_a_note(void **state)
{
    (void)state;
    dt_err err = {0};
    assert_int_equal(tries(DT_OK, &err), DT_OK);
    assert_int_equal(err.n, 0);
    assert_int_equal(tries(DT_E_DEVICE, &err), DT_E_DEVICE);
    assert_string_equal(err.text, "while trying\n");
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    static const dt_status all[] = {DT_OK, DT_E_INTERNAL, DT_E_CONFIG, DT_E_DATA, DT_E_BUDGET,
        DT_E_NOMEM, DT_E_IO, DT_E_NONFINITE, DT_E_DEVICE, DT_E_BUSY, DT_E_STOPPED};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        assert_string_not_equal(dt_status_name(all[i]), "unknown");
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(dt_status_name(all[i]), dt_status_name(all[k]));
    }
}

static void the_chosen_allocation_fails_once(void **state)
{
    (void)state;
    const long before = dti_alloc_live();
    dti_alloc_fail_at(2);
    char *a = dt_alloc(1, 1), *b = dt_alloc(1, 1), *c = dt_strdup("c");
    dti_alloc_fail_at(0);
    assert_non_null(a);
    assert_null(b);
    assert_string_equal(c, "c");
    assert_int_equal(dti_alloc_live(), before + 2);
    dt_free(a);
    dt_free(b);
    dt_free(c);
    assert_int_equal(dti_alloc_live(), before);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    const long before = dti_alloc_live();
    assert_null(dt_alloc(SIZE_MAX / 2, 3));
    void *p = dt_alloc(4, 1);
    assert_null(dt_realloc(p, SIZE_MAX, 2));
    dt_free(p);
    assert_int_equal(dti_alloc_live(), before);
}

static void a_growing_array_keeps_its_content(void **state)
{
    (void)state;
    int *p = NULL;
    size_t cap = 0;
    for (size_t n = 0; n < 1000; n++) {
        assert_true(dt_grow(&p, &cap, n, sizeof *p));
        assert_true(cap > n);
        p[n] = (int)n;
    }
    const size_t full = cap;
    dti_alloc_fail_at(1);
    assert_false(dt_grow(&p, &cap, full, sizeof *p));
    dti_alloc_fail_at(0);
    assert_int_equal(cap, full);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], i);
    dt_free(p);
}

static void an_array_grows_as_far_as_asked(void **state)
{
    (void)state;
    char *p = NULL;
    size_t cap = 0;
    assert_true(dt_grow(&p, &cap, 5000, sizeof *p));
    assert_true(cap > 5000);
    memset(p, 1, 5001);
    const char *const before = p;
    const size_t full = cap;
    assert_false(dt_grow(&p, &cap, SIZE_MAX - 1, sizeof *p));
    assert_false(dt_grow(&p, &cap, SIZE_MAX, sizeof *p));
    assert_ptr_equal(p, before);
    assert_int_equal(cap, full);
    dt_free(p);
}

#define T(f) cmocka_unit_test(f)
DT_TEST_GROUP(errors)
{
    const struct CMUnitTest tests[] = {T(notes_stand_one_a_line_innermost_first),
        T(a_missing_trail_is_fine), T(only_our_bugs_name_a_source_line),
        T(a_full_trail_counts_what_is_missing), T(a_note_may_read_like_the_count),
        T(another_trail_goes_behind_what_is_there), T(a_note_too_long_is_cut_to_one_line),
        T(try_passes_a_failure_on_with_a_note), T(notes_hold_one_line_of_printable_text),
        T(escaped_notes_fill_a_trail_no_further_than_it_goes), T(every_status_has_a_name),
        T(the_chosen_allocation_fails_once), T(sizes_that_overflow_are_refused),
        T(a_growing_array_keeps_its_content), T(an_array_grows_as_far_as_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
