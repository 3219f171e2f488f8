/* What classes are called, as a run writes it down. */
#include <stdlib.h>
#include <string.h>

#include "data/class_names.h"
#include "engine/base/alloc.h"
#include "tests/fixture/check.h"
#include "tests/fixture/data_files.h"

static const char *odd_name(const dt_source *s, int32_t label)
{
    static char longest[DTI_CLASS_NAME_BYTES + 3];
    (void)s;
    memset(longest, 'a', DTI_CLASS_NAME_BYTES - 1);
    memcpy(longest + DTI_CLASS_NAME_BYTES - 1, "\xC3\xA4", 3); /* half of it has room */
    const char *const names[] = {"red", "two\nlines", "\xFFtab\t\x1B[0m", "caf\xC3\xA9", longest};
    return label >= 0 && (size_t)label < DT_COUNT(names) ? names[label] : NULL;
}

static void names_of_any_bytes_are_written_and_read(void **state)
{
    (void)state;
    enum { CLASSES = 7 };
    const dt_source_desc desc = {.name = "odd", .class_name = odd_name};
    const dt_source source = {.desc = &desc};
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    assert_true(dt_class_names_known(&source));
    dt_class_names_print(&source, CLASSES, f);
    fclose(f);
    dt_err err = {0};
    dt_class_names names;
    assert_ok(dti_class_names_parse(&names, "x", text, n, CLASSES, &err), &err);
    assert_string_equal(dt_class_names_of(&names, 0), "red");
    assert_string_equal(dt_class_names_of(&names, 1), "two?lines");
    assert_string_equal(dt_class_names_of(&names, 2), "?tab??[0m");
    assert_string_equal(dt_class_names_of(&names, 3), "caf\xC3\xA9");
    assert_int_equal(strlen(dt_class_names_of(&names, 4)), DTI_CLASS_NAME_BYTES - 1);
    assert_null(dt_class_names_of(&names, 5));
    assert_null(dt_class_names_of(&names, CLASSES));
    assert_null(dt_class_names_of(&names, -1));
    dt_class_names_deinit(&names);
    free(text);
}

/* As they are written, so that what no line holds makes no difference. */
static void names_that_are_others_now_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
    } all[] = {{"red\ntwo?lines\n?tab??[0m\n", NULL},
        {"red\nblue\n?tab??[0m\n", "class 1 is called 'two?lines' in the data, and 'blue' in"},
        {"red\ntwo?lines\n\n", "class 2 is called '?tab??[0m' in the data, and '(none)' in"}};
    const dt_source_desc desc = {.name = "odd", .class_name = odd_name}, bare = {.name = "none"};
    const dt_source source = {.desc = &desc}, nameless = {.desc = &bare};
    for (size_t i = 0; i < DT_COUNT(all); i++) {
        dt_err err = {0};
        dt_class_names names;
        assert_ok(
            dti_class_names_parse(&names, "x", all[i].text, strlen(all[i].text), 3, &err), &err);
        assert_ok(dt_class_names_check(&names, &nameless, &err), &err);
        if (all[i].told == NULL)
            assert_ok(dt_class_names_check(&names, &source, &err), &err);
        else
            assert_fails(dt_class_names_check(&names, &source, &err), DT_E_DATA, &err, all[i].told);
        dt_class_names_deinit(&names);
    }
}

/* Nobody renames a byte. */
static void of_a_text_the_remedy_is_its_vocabulary(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_class_names names;
    const char *path = dt_temp_path("bytes.txt");
    const dt_source_opts o = {
        .path = path, .shape = {1, 1, 1, 1}, .classes = 3, .labels = 1, .tokens = true};
    put_folder(dt_temp_path("."));
    put_file(path, "!abab!!ab", 9);
    dt_source *s = NULL;
    assert_ok(dt_source_text.open(&dt_source_text, &s, &o, &err), &err);
    assert_ok(dti_class_names_parse(&names, "x", "a\nb\n\n", 5, 3, &err), &err);
    assert_fails(dt_class_names_check(&names, s, &err), DT_E_DATA, &err, "set data.vocab to that");
    assert_null(strstr(err.text, "change the name"));
    dt_class_names_deinit(&names);
    s->desc->close(s);
    err = (dt_err){0};
    assert_fails(dt_class_names_read(&names, path, 2, true, &err), DT_E_DATA, &err,
        "put the run's own back, and set model.vocab as that run had it");
    assert_null(strstr(err.text, "remove that file"));
}

static void sources_without_names_have_none(void **state)
{
    (void)state;
    const dt_source_desc desc = {.name = "none"};
    const dt_source source = {.desc = &desc};
    assert_false(dt_class_names_known(&source));
}

static void lines_may_end_as_other_systems_end_them(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_class_names names;
    assert_ok(dti_class_names_parse(&names, "x", "a\r\n\r\nc\n", 7, 3, &err), &err);
    assert_string_equal(names.name[0], "a");
    assert_string_equal(names.name[1], "");
    assert_string_equal(names.name[2], "c");
    dt_class_names_deinit(&names);
}

static void damaged_names_are_refused_with_their_line(void **state)
{
    (void)state;
    static char too_long[DTI_CLASS_NAME_BYTES + 7];
    memset(too_long, 'x', sizeof too_long);
    memcpy(too_long, "a\n", 2);
    memcpy(too_long + sizeof too_long - 3, "\nc", 2);
    too_long[sizeof too_long - 1] = '\n';
    const struct {
        const char *text;
        size_t n;
        const char *says;
    } wrong[] = {
        {"", 0, "names:1: no whole line, where the network has 3 classes"},
        {"a\nb\n", 4, "names:3: no whole line, where the network has 3 classes"},
        {"a\nb\nc", 5, "names:3: no whole line"},
        {"a\nb\nc\nd\n", 8, "names:4: a line more than the network has classes, 3"},
        {"a\nb\nc\n\n", 7, "names:4: a line more"},
        {"a\nb\0b\nc\n", 8, "names:2: a NUL in a class's name"},
        {"a\nb\x1B[2J\nc\n", 9, "names:2: byte 2 of a class's name, 0x1B, is not printable UTF-8"},
        {"a\nb\nc\xFF\n", 7, "names:3: byte 2 of a class's name, 0xFF, is not printable UTF-8"},
        {"a\rb\nb\nc\n", 8, "names:1: byte 2 of a class's name, 0x0D"},
        {too_long, sizeof too_long, "names:2: a class's name of 257 bytes; at most 255 are read"},
    };
    const long live = dti_alloc_live();
    for (size_t i = 0; i < DT_COUNT(wrong); i++) {
        dt_err err = {0};
        dt_class_names names;
        assert_fails(dti_class_names_parse(&names, "names", wrong[i].text, wrong[i].n, 3, &err),
            DT_E_DATA, &err, wrong[i].says);
        assert_int_equal(names.n, 0);
        assert_int_equal(dti_alloc_live(), live);
    }
}

static void a_file_of_names_is_refused_with_a_remedy(void **state)
{
    (void)state;
    dt_err err = {0};
    dt_class_names names;
    const char *path = dt_temp_path("names.txt");
    put_folder(dt_temp_path("."));
    put_file(path, "a\n", 2);
    assert_fails(dt_class_names_read(&names, path, 2, false, &err), DT_E_DATA, &err,
        "remove that file to have classes called by the folders of data.path");
    err = (dt_err){0};
    assert_ok(dt_class_names_read(&names, path, 1, false, &err), &err);
    assert_string_equal(dt_class_names_of(&names, 0), "a");
    dt_class_names_deinit(&names);
}

static void every_allocation_of_names_may_fail(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    dt_status st;
    long k = 1;
    do {
        dt_err err = {0};
        dt_class_names names;
        dti_alloc_fail_at(k++);
        st = dti_class_names_parse(&names, "names", "a\nb\n", 4, 2, &err);
        dti_alloc_fail_at(0);
        assert_true(st == DT_OK || st == DT_E_NOMEM);
        dt_class_names_deinit(&names);
        assert_int_equal(dti_alloc_live(), live);
    } while (st != DT_OK);
    assert_true(k > 2);
}

DT_TEST_GROUP(class_names)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_any_bytes_are_written_and_read),
        cmocka_unit_test(names_that_are_others_now_are_refused),
        cmocka_unit_test(of_a_text_the_remedy_is_its_vocabulary),
        cmocka_unit_test(sources_without_names_have_none),
        cmocka_unit_test(lines_may_end_as_other_systems_end_them),
        cmocka_unit_test(damaged_names_are_refused_with_their_line),
        cmocka_unit_test(a_file_of_names_is_refused_with_a_remedy),
        cmocka_unit_test(every_allocation_of_names_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
