/* What a plan's memory is used for: every byte of the peak has one owner. */
#include "tests/fixture/check.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "memory/plan_text/plan_text.h"
#include "memory/usage.h"
#include "memory/verify/verify.h"

/* Two 64-byte weights below; a (256), b over a (256), c (128) beside it, then d (512) alone, above
 * a hole. */
static const char text[] =
    "dt-plan 3 net=n device=cpu program=first policy=p pool=q batch=1 budget=0 persistent=128 "
    "peak=%s bound=512 host=0 disk=0 out=0 in=0 events=0 "
    "home_n=1 threads=1 streams=c:compute,o:out/host,i:in/host\n"
    "tensor w weights 64 0\n"
    "tensor m optimizer 60 64\n"
    "tensor a activations 256 -\n"
    "tensor b activation_gradients 256 -\n"
    "tensor c workspace %s -\n"
    "tensor d stash 384 -\n"
    "op make forward 0 w:a r:w\n"
    "op swap backward 0 r:a w:b w:c s:b/a\n"
    "op last backward 0 w:d\n"
    "0 c PLACE - a 128 256 - - - -\n"
    "1 c COMPUTE make - - - - - - -\n"
    "2 c PLACE - b 128 256 - a - -\n"
    "3 c PLACE - c %s %s - - - -\n"
    "4 c COMPUTE swap - - - - - - -\n"
    "5 c RELEASE - b 128 256 - - - -\n"
    "6 c RELEASE - c %s %s - - - -\n"
    "7 c PLACE - d %s 384 - - - -\n"
    "8 c COMPUTE last - - - - - - -\n"
    "9 c RELEASE - d %s 384 - - - -\n";

static dt_plan *parse(const char *peak, const char *c_off, const char *c_bytes, const char *d_off)
{
    char all[4096];
    dt_plan *p = NULL;
    dt_err err = {0};
    snprintf(all, sizeof all, text, peak, c_bytes, c_off, c_bytes, c_off, c_bytes, d_off, d_off);
    assert_ok(dti_plan_parse(&p, "plan", all, strlen(all), &err), &err);
    assert_ok(dt_verify(p, &err), &err);
    return p;
}

static uint64_t sum(const dt_usage *u)
{
    uint64_t bytes = u->unused;
    for (int i = 0; i < DT_ROLE_COUNT; i++)
        bytes += u->bytes[i];
    return bytes;
}

static void peak_is_where_the_highest_tensor_lives(void **state)
{
    (void)state;
    dt_plan *p = parse("576", "384", "100", "192");
    dt_usage u;
    dt_err err = {0};
    assert_ok(dt_plan_usage(p, &u, &err), &err);
    assert_int_equal(u.n_instant, 3);
    assert_int_equal(u.peak, 2); /* only d reaches 576 */
    assert_int_equal(u.instant[u.peak].row, 8);
    assert_int_equal(u.bytes[DT_ROLE_STASH], 384);
    assert_int_equal(u.bytes[DT_ROLE_ACTIVATIONS], 0);
    assert_int_equal(u.unused, 64 + 4); /* the hole below d, and the padding of m */
    assert_int_equal(sum(&u), p->peak);
    dt_usage_deinit(&u);
    dt_plan_destroy(p);
}

static void a_fuller_instant_below_the_peak_does_not_count(void **state)
{
    (void)state;
    dt_plan *p = parse("1408", "384", "256", "1024");
    dt_usage u;
    dt_err err = {0};
    assert_ok(dt_plan_usage(p, &u, &err), &err);
    assert_int_equal(u.instant[1].bytes, 124 + 256 + 256);
    assert_int_equal(u.instant[2].bytes, 124 + 384);
    assert_int_equal(u.peak, 2);
    assert_int_equal(u.unused, 1408 - 124 - 384);
    dt_usage_deinit(&u);
    dt_plan_destroy(p);
}

static void pairs_in_place_count_once(void **state)
{
    (void)state;
    dt_plan *p = parse("576", "384", "100", "192");
    dt_usage u;
    dt_err err = {0};
    assert_ok(dt_plan_usage(p, &u, &err), &err);
    assert_int_equal(u.instant[0].bytes, 124 + 256);
    assert_int_equal(u.instant[1].bytes, 124 + 256 + 100);
    assert_int_equal(u.instant[2].bytes, 124 + 384);
    dt_usage_deinit(&u);
    dt_plan_destroy(p);
}

static void of_instants_at_the_peak_the_fullest_counts(void **state)
{
    (void)state;
    static const struct {
        const char *c_off, *c_bytes;
        size_t peak;
    } cases[] = {
        {"448", "64", 2},  /* c ends at the peak too, but less is alive then */
        {"384", "128", 1}, /* as much: the first */
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_plan *p = parse("512", cases[i].c_off, cases[i].c_bytes, "128");
        dt_usage u;
        dt_err err = {0};
        assert_ok(dt_plan_usage(p, &u, &err), &err);
        assert_int_equal(u.peak, cases[i].peak);
        assert_int_equal(u.unused, 4);
        assert_int_equal(sum(&u), p->peak);
        dt_usage_deinit(&u);
        dt_plan_destroy(p);
    }
}

static void live_tensors_come_largest_first(void **state)
{
    (void)state;
    dt_plan *p = parse("576", "384", "100", "192");
    dt_usage u;
    dt_err err = {0};
    assert_ok(dt_plan_usage(p, &u, &err), &err);
    assert_int_equal(u.n_live, 3);
    assert_string_equal(p->tensor[u.live[0]].name, "d");
    assert_string_equal(p->tensor[u.live[1]].name, "w");
    assert_string_equal(p->tensor[u.live[2]].name, "m");
    dt_usage_deinit(&u);
    dt_plan_destroy(p);
}

static void a_plan_that_does_nothing_has_no_instant(void **state)
{
    (void)state;
    static const char empty[] =
        "dt-plan 3 net=n device=cpu program=update policy=p pool=q batch=1 budget=0 persistent=64 "
        "peak=64 bound=64 host=0 disk=0 out=0 in=0 events=0 "
        "home_n=1 threads=1 streams=c:compute,o:out/host,i:in/host\n"
        "tensor w weights 60 0\n";
    dt_plan *p = NULL;
    dt_usage u;
    dt_err err = {0};
    assert_ok(dti_plan_parse(&p, "plan", empty, sizeof empty - 1, &err), &err);
    assert_ok(dt_plan_usage(p, &u, &err), &err);
    assert_int_equal(u.n_instant, 0);
    assert_int_equal(u.peak, 0);
    assert_int_equal(u.bytes[DT_ROLE_WEIGHTS], 60);
    assert_int_equal(u.unused, 4);
    dt_usage_deinit(&u);
    dt_plan_destroy(p);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    dt_plan *p = parse("576", "384", "100", "192");
    const long live = dti_alloc_live();
    dt_status st = DT_E_NOMEM;
    for (long k = 1; st != DT_OK; k++) {
        dt_usage u;
        dt_err err = {0};
        dti_alloc_fail_at(k);
        st = dt_plan_usage(p, &u, &err);
        dti_alloc_fail_at(0);
        dt_usage_deinit(&u);
        assert_int_equal(dti_alloc_live(), live);
        assert_true(st == DT_OK || st == DT_E_NOMEM);
        assert_in_range(k, 1, 20);
    }
    dt_plan_destroy(p);
}

DT_TEST_GROUP(usage)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_is_where_the_highest_tensor_lives),
        cmocka_unit_test(a_fuller_instant_below_the_peak_does_not_count),
        cmocka_unit_test(pairs_in_place_count_once),
        cmocka_unit_test(of_instants_at_the_peak_the_fullest_counts),
        cmocka_unit_test(live_tensors_come_largest_first),
        cmocka_unit_test(a_plan_that_does_nothing_has_no_instant),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
