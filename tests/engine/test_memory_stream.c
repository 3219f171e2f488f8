/* Streams into memory: the text is whole, or there is an error. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/memory_stream.h"
#include "tests/fixture/check.h"

enum { LINES = 5000 };

static void print_lines(FILE *f)
{
    for (int i = 0; i < LINES; i++)
        fprintf(f, "line %d of a text\n", i);
}

static void a_text_is_what_was_printed(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_memory_stream m;
    char line[64], *at;
    assert_ok(dt_memory_open(&m, "a text", &err), &err);
    print_lines(m.f);
    assert_ok(dt_memory_close(&m, DT_OK, &err), &err);
    assert_int_equal(strlen(m.text), m.n);
    at = m.text;
    for (int i = 0; i < LINES; i++, at += strlen(line)) {
        snprintf(line, sizeof line, "line %d of a text\n", i);
        assert_memory_equal(at, line, strlen(line));
    }
    assert_string_equal(at, "");
    dt_free(m.text);
}

static void a_text_may_be_empty_or_hold_any_byte(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_memory_stream m;
    assert_ok(dt_memory_open(&m, "nothing", &err), &err);
    assert_ok(dt_memory_close(&m, DT_OK, &err), &err);
    assert_int_equal(m.n, 0);
    assert_string_equal(m.text, "");
    dt_free(m.text);
    assert_ok(dt_memory_open(&m, "three bytes", &err), &err);
    assert_int_equal(fwrite("a\0b", 1, 3, m.f), 3);
    assert_ok(dt_memory_close(&m, DT_OK, &err), &err);
    assert_int_equal(m.n, 3);
    assert_memory_equal(m.text, "a\0b", 4);
    dt_free(m.text);
}

/* Whichever block is refused, also one of those in the middle, after which there would be memory
 * again. */
static void a_text_that_finds_no_memory_is_an_error(void **state)
{
    (void)state;
    int failed = 0;
    const long live = dti_alloc_live();
    for (long k = 1;; k++) {
        dt_err err = {0};
        dt_memory_stream m;
        dti_alloc_fail_at(k);
        dt_status st = dt_memory_open(&m, "a text", &err);
        if (st == DT_OK) {
            print_lines(m.f);
            st = dt_memory_close(&m, DT_OK, &err);
        }
        const bool past = dti_alloc_fail_at(0) > 0;
        if (past) {
            assert_ok(st, &err);
            dt_free(m.text);
            break;
        }
        assert_fails(st, DT_E_NOMEM, &err, "no memory for a text");
        assert_null(m.text);
        failed++;
    }
    assert_true(failed > 4);
    assert_int_equal(dti_alloc_live(), live);
}

static void a_printer_that_failed_is_not_talked_over(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_memory_stream m;
    assert_ok(dt_memory_open(&m, "a text", &err), &err);
    assert_int_equal(dt_memory_close(&m, DT_E_DATA, &err), DT_E_DATA);
    assert_null(m.text);
    assert_int_equal(err.n, 0);
}

DT_TEST_GROUP(memory_stream)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_what_was_printed),
        cmocka_unit_test(a_text_may_be_empty_or_hold_any_byte),
        cmocka_unit_test(a_text_that_finds_no_memory_is_an_error),
        cmocka_unit_test(a_printer_that_failed_is_not_talked_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
