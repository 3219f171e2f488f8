/* What users get wrong, and what they are told of it. */
#include "tests/fixture/run_cli.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/json.h"

#define LENET "[model]\nname = lenet5\n[data]\nsamples = 64\n[train]\nbatch = 16\nsteps = 1\n"

static const char *lenet(void)
{
    return cli_file("lenet.ini", LENET);
}

static cJSON *plan_json(const char *words, const char *file)
{
    cJSON *o = NULL;
    dt_err err = {0};
    ran r = cli_run(words, file);
    assert_code(&r, 0);
    assert_ok(dt_json_parse(&o, r.out, strlen(r.out), 8, 65536, &err), &err);
    cli_done(&r);
    return o;
}

/* ---- the machine ---- */

static void a_missing_folder_of_the_disk_tier_is_no_lack_of_memory(void **state)
{
    NEED_BINARY();
    ran r = cli_run("FILE --set memory.policy=vdnn_all --set memory.tier=disk "
                    "--set memory.disk_path=/nope",
        lenet());
    assert_code(&r, DT_E_IO);
    assert_has(r.err, "create the disk tier's file in '/nope': No such file or directory");
    assert_has_not(r.err, "which this machine does not give");
    cli_done(&r);
    const char *plan = "plan FILE --set memory.policy=vdnn_all --set memory.tier=disk "
                       "--set memory.disk_path=/nope";
    r = cli_run(plan, lenet());
    assert_code(&r, 0);
    assert_has(r.out, "\ndisk folder  '/nope': No such file or directory; a run here would be");
    cli_done(&r);
    r = cli_run("plan FILE --set memory.disk_path=/nope", lenet()); /* nothing is moved */
    assert_code(&r, 0);
    assert_has_not(r.out, "/nope");
    cli_done(&r);
}

static void a_plan_tells_what_this_machine_lacks(void **state)
{
    NEED_BINARY();
    ran r = cli_run(
        "plan FILE --set train.batch=8192", cli_file("large.ini", "[model]\nname = resnet50\n"));
    assert_code(&r, 0);
    assert_has(r.out, "no budget given");
    assert_has(r.out, "\nthis machine has less: ");
    cli_done(&r);
    r = cli_run("plan FILE", lenet());
    assert_code(&r, 0);
    assert_has_not(r.out, "this machine");
    cli_done(&r);
    for (int large = 0; large < 2; large++) {
        cJSON *o = plan_json(large ? "plan FILE --json --set train.batch=8192" : "plan FILE --json",
            cli_file("large.ini", large ? "[model]\nname = resnet50\n" : LENET));
        const cJSON *m = cJSON_GetObjectItemCaseSensitive(o, "machine");
        const cJSON *fits = cJSON_GetObjectItemCaseSensitive(m, "fits");
        assert_true(large ? cJSON_IsFalse(fits) : cJSON_IsTrue(fits));
        const cJSON *memory = cJSON_GetObjectItemCaseSensitive(m, "memory"),
                    *needed = cJSON_GetObjectItemCaseSensitive(m, "needed");
        assert_true(cJSON_IsNumber(memory) && cJSON_IsNumber(needed));
        assert_true((needed->valuedouble > memory->valuedouble) == (large != 0));
        assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "fits"))); /* the budgets */
        cJSON_Delete(o);
    }
}

DT_TEST_GROUP(mistakes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_folder_of_the_disk_tier_is_no_lack_of_memory),
        cmocka_unit_test(a_plan_tells_what_this_machine_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
