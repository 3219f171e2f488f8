/* The verifier on plans that are wrong in one way each (tests/plans/bad) and on those they were
 * made from (tests/plans/good). The first line of a bad plan tells what its refusal must say. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/io.h"
#include "memory/plan_text/plan_text.h"
#include "memory/verify/verify.h"
#include "tests/fixture/check.h"

/* What refusals say, and of what. Every plan in tests/plans/bad expects one of these, and each is
 * expected by some plan. */
static const struct refusal {
    const char *says, *of;
} refusals[] = {
    {"holds nothing", "a read, write, copy, release or over of a tensor that is not placed now"},
    {"not whole",
        "a read, update or copy of bytes that nothing has written since the tensor was placed"},
    {"written behind a hole", "a write that leaves bytes before it unwritten"},
    {"written to since", "a copy back from a slot that is older than the last write of an op"},
    {"part of the batch", "a fetch of what is no input"},
    {"has 4 bytes", "a slot too small for the number before packed bytes"},
    {"has 40 bytes", "a slot too small for values that take as many bytes whatever they are"},
    {"has 0 bytes", "a slot without bytes"},
    {"has no bytes", "a home in a tier without bytes"},
    {"holds nothing of it", "a copy back from a slot that does not hold the tensor, or no longer"},
    {"not waited for",
        "work on other streams on the same bytes, tensor or slot that may still go on"},
    {"never signalled", "a wait for an event that no row before it signals"},
    {"signalled twice", "a second row that signals an event"},
    {"compute stream", "a place or release on another stream"},
    {"stream that computes", "a compute on a stream of copies"},
    {"works on the host, where", "an op on the host's stream of what lies on the device"},
    {"next compute of the device", "an over before an op of the host's"},
    {"wrong stream", "a copy on a stream that is not its own"},
    {"run twice", "a second compute of an op"},
    {"never run", "an op of the table without a compute"},
    {"overlaps", "two live tensors that share bytes"},
    {"persistent region", "a transient inside it, or a persistent tensor outside it"},
    {"is persistent", "a place, release or copy of a persistent tensor"},
    {"no multiple of", "an offset that is no multiple of DT_ALIGN"},
    {"past the peak", "a tensor that ends behind the declared peak"},
    {"the peak is", "a declared peak that no tensor reaches"},
    {"disk's peak is", "a declared peak of a tier that no slot and no home reaches"},
    {"below its bound", "a declared peak below the declared bound"},
    {"over budget", "a declared peak over the budget"},
    {"has 128 bytes, not the row's", "a place or copy with other bytes than the tensor has"},
    {"placed twice", "a place of a tensor that is placed"},
    {"released but holds nothing", "a release of a tensor that is not placed now"},
    {"lies elsewhere", "a release, copy or over at another offset"},
    {"never released", "a transient that is still placed at the end"},
    {"not safe", "an over that the op does not list as safe"},
    {"larger than", "an over larger than what it lies over"},
    {"does not read", "an over that the next compute does not read and write"},
    {"past the host", "a slot that ends behind the bytes of the host tier"},
    {"no tier", "a copy out to the decoded batch"},
    {"bytes are moved", "declared sums of copies that are wrong"},
    {"not brought home", "a tensor that lives in a tier, changed and left on the device"},
    {"while an op works on it at home", "an op on the host beside a copy on the device"},
    {"by its parts", "a tensor beside parts of it, which stand for it"},
    {"elsewhere than home", "a copy of such a tensor from or to another slot than its own"},
    {"no next part", "a part of a tensor that does not begin where the one before it ends"},
    {"leave some of it out", "a tensor of which parts stand for less than the whole"},
    {"too large", "a peak that no machine has"},
    {"two generations", "a tensor of two generations of which one lies in the other"},
    {"but its algorithm", "an op whose scratch is not that of the way it names"},
};

enum { FEWEST_BAD = 60, FEWEST_GOOD = 4, MOST = 256 };

static dt_err err;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the .plan files of a folder, sorted; each is freed by the caller. */
static size_t list(const char *folder, char *names[MOST])
{
    size_t n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot == NULL || strcmp(dot, ".plan") != 0)
            continue;
        assert_true(n < MOST);
        names[n] = dt_strdup(e->d_name);
        assert_non_null(names[n++]);
    }
    closedir(d);
    qsort(names, n, sizeof *names, compare_names);
    return n;
}

static dt_plan *load(const char *folder, const char *name, char **text)
{
    char path[4096];
    size_t bytes;
    dt_plan *p = NULL;
    assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
    memset(&err, 0, sizeof err);
    assert_ok(dt_read_file(text, &bytes, path, DTI_PLAN_TEXT_BYTES, DT_E_DATA, &err), &err);
    assert_ok(dti_plan_parse(&p, name, *text, bytes, &err), &err);
    return p;
}

static void good_plans_pass(void **state)
{
    (void)state;
    const char *folder = dt_source_path("tests/plans/good");
    char *names[MOST], *text;
    const size_t n = list(folder, names);
    assert_true(n >= FEWEST_GOOD);
    for (size_t i = 0; i < n; i++) {
        dt_plan *p = load(folder, names[i], &text);
        if (dt_verify(p, &err) != DT_OK)
            fail_msg("good/%s is refused: %s", names[i], err.text);
        assert_int_equal(err.n, 0);
        dt_plan_destroy(p);
        dt_free(text);
        dt_free(names[i]);
    }
}

/* The rest of the first line; the text is cut there. */
static const char *expected(const char *name, char *text)
{
    static const char start[] = "# refused: ";
    char *end = strchr(text, '\n');
    if (end == NULL || strncmp(text, start, sizeof start - 1) != 0 ||
        end == text + sizeof start - 1)
        fail_msg("bad/%s does not begin with '%s...'", name, start);
    *end = '\0';
    return text + sizeof start - 1;
}

/* Whether a refusal of a row names the line that begins with the row's number. @rest: from line 2
 * on
 */
static bool names_its_line(const char *says, const char *rest)
{
    long row, line;
    if (strncmp(says, "row ", 4) != 0)
        return true; /* of the plan as a whole */
    if (sscanf(says, "row %ld, on line %ld: ", &row, &line) != 2)
        return false;
    for (long at = 2; at < line && rest != NULL; at++) {
        rest = strchr(rest, '\n');
        rest = rest != NULL ? rest + 1 : NULL;
    }
    return rest != NULL && strtol(rest, NULL, 10) == row;
}

static void bad_plans_are_refused_for_what_is_wrong_with_them(void **state)
{
    (void)state;
    const char *folder = dt_source_path("tests/plans/bad");
    char *names[MOST], *text;
    bool used[DT_COUNT(refusals)] = {false};
    const size_t n = list(folder, names);
    int wrong = 0;
    assert_true(n >= FEWEST_BAD);
    for (size_t i = 0; i < n; i++) {
        dt_plan *p = load(folder, names[i], &text);
        const char *says = expected(names[i], text);
        bool known = false;
        for (size_t k = 0; k < DT_COUNT(refusals); k++)
            if (strcmp(refusals[k].says, says) == 0)
                known = used[k] = true;
        const dt_status st = dt_verify(p, &err);
        if (!known || st != DT_E_DATA || strstr(err.text, says) == NULL) {
            print_error("bad/%s: expected '%s'%s, got %s: %s\n", names[i], says,
                known ? "" : ", which is not in the table", dt_status_name(st), err.text);
            wrong++;
        }
        if (!names_its_line(err.text, text + strlen(text) + 1))
            fail_msg("bad/%s: no line, or not the row's: %s", names[i], err.text);
        dt_plan_destroy(p);
        dt_free(text);
        dt_free(names[i]);
    }
    for (size_t k = 0; k < DT_COUNT(refusals); k++)
        if (!used[k]) {
            print_error("no bad plan expects '%s'\n", refusals[k].says);
            wrong++;
        }
    assert_int_equal(wrong, 0);
}

/* Text cannot hold these: the parser refuses them. */
static void no_tensor(dt_plan *p)
{
    p->row[0].tensor = (int32_t)p->n_tensor;
}
static void negative_tensor(dt_plan *p)
{
    p->row[0].tensor = -1;
}
static void no_op(dt_plan *p)
{
    p->row[4].op = (int32_t)p->n_op;
}
static void negative_op(dt_plan *p)
{
    p->row[4].op = -1;
}
static void no_event(dt_plan *p)
{
    p->row[3].event = p->n_event;
}
static void negative_event(dt_plan *p)
{
    p->row[3].event = -1;
}
static void signals_no_event(dt_plan *p)
{
    p->row[4].event = p->n_event;
}
static void negative_events(dt_plan *p)
{
    p->n_event = -1;
}
static void no_over(dt_plan *p)
{
    p->row[2].over = (int32_t)p->n_tensor;
}
static void no_kind(dt_plan *p)
{
    p->row[0].kind = DT_ROW_KINDS;
}
static void no_wait_stream(dt_plan *p)
{
    p->row[3].stream = (uint8_t)p->n_stream;
}
static void no_copy_stream(dt_plan *p)
{
    p->row[1].stream = (uint8_t)p->n_stream;
}
static void no_compute_stream(dt_plan *p)
{
    p->row[4].stream = (uint8_t)p->n_stream;
}
static void no_place_stream(dt_plan *p)
{
    p->row[0].stream = (uint8_t)p->n_stream;
}
static void no_streams(dt_plan *p)
{
    p->n_stream = 0;
}
static void many_streams(dt_plan *p)
{
    p->n_stream = DT_MAX_STREAMS + 1;
}
static void no_stream_kind(dt_plan *p)
{
    p->stream[1].kind = DT_STREAM_KINDS;
}
static void two_computing_streams(dt_plan *p)
{
    p->stream[1] = p->stream[0];
}
static void first_stream_copies(dt_plan *p)
{
    p->stream[0] = p->stream[1];
}
static void stream_of_no_tier(dt_plan *p)
{
    p->stream[1].tier = DT_TIERS;
}
static void stream_of_input(dt_plan *p)
{
    p->stream[2].tier = DT_TIER_INPUT;
}
static void streams_change_places(dt_plan *p)
{
    const dt_stream out = p->stream[1];
    p->stream[1] = p->stream[2];
    p->stream[2] = out;
}
static void no_row_tier(dt_plan *p)
{
    p->row[1].tier = DT_TIERS;
}
static void no_arg(dt_plan *p)
{
    p->op[p->n_op - 1].n++;
}
static void negative_args(dt_plan *p)
{
    p->op[0].n = -1;
}
static void negative_first(dt_plan *p)
{
    p->op[0].first = -1;
}
static void far_first(dt_plan *p)
{
    p->op[0].first = INT32_MAX;
}
static void no_arg_tensor(dt_plan *p)
{
    p->arg[0].tensor = (int32_t)p->n_tensor;
}
static void negative_arg_tensor(dt_plan *p)
{
    p->arg[0].tensor = -1;
}
static void arg_past_tensor(dt_plan *p)
{
    p->arg[0].to++;
}
static void arg_backwards(dt_plan *p)
{
    p->arg[0].from = p->arg[0].to + 1;
}
static void many_safe(dt_plan *p)
{
    p->op[0].n_safe = DT_MAX_OVER + 1;
}
static void negative_safe(dt_plan *p)
{
    p->op[0].n_safe = -1;
}

#define BREAK(how)                                                                                 \
    {                                                                                              \
#how, how                                                                                  \
    }
static const struct breaking {
    const char *name;
    void (*how)(dt_plan *p);
} breakings[] = {BREAK(no_tensor), BREAK(negative_tensor), BREAK(no_op), BREAK(negative_op),
    BREAK(no_event), BREAK(negative_event), BREAK(signals_no_event), BREAK(negative_events),
    BREAK(no_over), BREAK(no_kind), BREAK(no_wait_stream), BREAK(no_copy_stream),
    BREAK(no_compute_stream), BREAK(no_place_stream), BREAK(no_streams), BREAK(many_streams),
    BREAK(no_stream_kind), BREAK(two_computing_streams), BREAK(first_stream_copies),
    BREAK(stream_of_no_tier), BREAK(stream_of_input), BREAK(streams_change_places),
    BREAK(no_row_tier), BREAK(no_arg), BREAK(negative_args), BREAK(negative_first),
    BREAK(far_first), BREAK(no_arg_tensor), BREAK(negative_arg_tensor), BREAK(arg_past_tensor),
    BREAK(arg_backwards), BREAK(many_safe), BREAK(negative_safe)};

static void indices_out_of_range_are_refused(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < DT_COUNT(breakings); i++) {
        char *text;
        dt_plan *p = load(dt_source_path("tests/plans/good"), "moved.plan", &text);
        breakings[i].how(p);
        const dt_status st = dt_verify(p, &err);
        if (st != DT_E_DATA || err.n == 0) {
            print_error("%s: got %s\n", breakings[i].name, dt_status_name(st));
            wrong++;
        }
        dt_plan_destroy(p);
        dt_free(text);
    }
    assert_int_equal(wrong, 0);
}

static void no_wait_of_the_good_plans_can_be_left_out(void **state)
{
    (void)state;
    const char *folder = dt_source_path("tests/plans/good");
    char *names[MOST], *text;
    size_t tried = 0;
    const size_t n = list(folder, names);
    for (size_t i = 0; i < n; i++) {
        dt_plan *p = load(folder, names[i], &text);
        for (size_t r = 0; r < p->n_row; r++) {
            if (p->row[r].kind != DT_ROW_WAIT)
                continue;
            dt_plan less = *p;
            less.row = dt_alloc(p->n_row, sizeof *less.row);
            assert_non_null(less.row);
            less.n_row--;
            memcpy(less.row, p->row, r * sizeof *less.row);
            memcpy(less.row + r, p->row + r + 1, (p->n_row - r - 1) * sizeof *less.row);
            memset(&err, 0, sizeof err);
            if (dt_verify(&less, &err) != DT_E_DATA || strstr(err.text, "waited") == NULL)
                fail_msg("good/%s without row %zu: %s", names[i], r, err.text);
            dt_free(less.row);
            tried++;
        }
        dt_plan_destroy(p);
        dt_free(text);
        dt_free(names[i]);
    }
    assert_true(tried >= 10);
}

static void running_out_of_memory_is_said(void **state)
{
    (void)state;
    char *text;
    dt_plan *p = load(dt_source_path("tests/plans/good"), "moved.plan", &text);
    const long live = dti_alloc_live();
    for (long k = 1;; k++) {
        memset(&err, 0, sizeof err);
        dti_alloc_fail_at(k);
        const dt_status st = dt_verify(p, &err);
        dti_alloc_fail_at(0);
        assert_int_equal(dti_alloc_live(), live);
        if (st == DT_OK) {
            assert_true(k > 1);
            break;
        }
        assert_int_equal(st, DT_E_NOMEM);
        assert_true(err.n > 0);
    }
    dt_plan_destroy(p);
    dt_free(text);
}

DT_TEST_GROUP(bad_plans)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_plans_pass),
        cmocka_unit_test(bad_plans_are_refused_for_what_is_wrong_with_them),
        cmocka_unit_test(indices_out_of_range_are_refused),
        cmocka_unit_test(no_wait_of_the_good_plans_can_be_left_out),
        cmocka_unit_test(running_out_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
