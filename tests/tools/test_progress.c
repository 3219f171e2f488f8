/* What a user sees: the exact text, at every width, on terminals and in logs. */
#define _GNU_SOURCE

#include "tests/fixture/check.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "session/human.h"
#include "session/rate.h"
#include "session/run.h"
#include "tools/losses.h"
#include "tools/progress.h"
#include "tools/progress_line.h"

static double now;

static double test_clock(void)
{
    return now;
}

/* A show into memory. */
typedef struct fix {
    char *text;
    size_t n, seen;
    FILE *f;
    dti_progress *p;
    int64_t step, steps, per_epoch;
} fix;

static const dti_terminal as_log = {.width = 80};
static const dti_terminal as_tty = {.tty = true, .width = 80};
static const dti_terminal as_rich_tty = {.tty = true, .utf8 = true, .colour = true, .width = 80};

static dti_progress_facts facts(int64_t epochs, int64_t steps_per_epoch)
{
    return (dti_progress_facts){.model = "lenet5",
        .policy = "keep_all",
        .precision = "fp32",
        .device = "cpu",
        .isa = "avx2",
        .data = "idx, 60000 images",
        .run_dir = "runs/lenet5-keep_all-1",
        .image = {1, 28, 28, 1},
        .classes = 10,
        .parameters = 61706,
        .batch = 32,
        .micro_batch = 16,
        .epochs = epochs,
        .steps = steps_per_epoch * (epochs > 0 ? epochs : 1),
        .steps_per_epoch = steps_per_epoch,
        .exact = true,
        .threads = 2,
        .planned = 1536000};
}

/* The stream keeps the address: one show at a time, in one place. */
static fix *begin_with(const dti_progress_facts *f, dti_terminal t)
{
    static fix x;
    dt_err err = {0};
    x = (fix){.steps = f->steps, .per_epoch = f->steps_per_epoch};
    now = 1000;
    x.f = open_memstream(&x.text, &x.n);
    assert_non_null(x.f);
    const dti_progress_view view = {.out = x.f, .terminal = t, .clock = test_clock};
    assert_ok(dti_progress_create(&x.p, f, &view, &err), &err);
    return &x;
}

static fix *begin(int64_t epochs, int64_t steps_per_epoch, dti_terminal t)
{
    const dti_progress_facts f = facts(epochs, steps_per_epoch);
    return begin_with(&f, t);
}

/* What was written since the last call; valid until more is. */
static const char *said(fix *x)
{
    fflush(x->f);
    const size_t from = x->seen;
    x->seen = x->n;
    return x->text + from;
}

static void step_of(fix *x, double seconds, double loss)
{
    const int64_t i = x->step++;
    const dt_step_report r = {.step = i + 1,
        .steps = x->steps,
        .epoch = i / x->per_epoch,
        .samples = 32,
        .loss = loss,
        .lr = 0.05,
        .step_seconds = seconds,
        .wait_seconds = seconds / 50};
    now += seconds;
    dti_progress_step(x->p, &r);
}

static void end(fix *x)
{
    dti_progress_destroy(x->p);
    fclose(x->f);
    free(x->text);
}

static size_t lines_in(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/* ---- facts ---- */

static void the_facts_of_a_small_run(void **state)
{
    (void)state;
    fix *x = begin(0, 30, as_log);
    assert_string_equal(said(x), "network   lenet5, 61,706 parameters, image 28x28x1, 10 classes\n"
                                 "batch     32 in micro-batches of 16, 30 steps\n"
                                 "policy    keep_all (exact: results do not depend on it)\n"
                                 "device    cpu, 2 threads, avx2, fp32\n"
                                 "memory    1.46 MiB planned\n"
                                 "data      idx, 60000 images\n"
                                 "eval      none: no data for it (data.eval_path names some)\n"
                                 "run       runs/lenet5-keep_all-1\n"
                                 "\n");
    end(x);
}

static dti_progress_facts large_facts(void)
{
    dti_progress_facts f = facts(90, 5005);
    f.model = "resnet50";
    f.policy = "gist_lossless, fp8";
    f.exact = false;
    f.eval = "idx, 10000 images, after every epoch";
    f.micro_batch = f.batch;
    f.threads = 1;
    f.moved = "runs/mine.old-1";
    f.planned = 1234567890;
    f.budget = UINT64_C(2) << 30;
    f.host_planned = 812345678;
    f.role_bytes[DT_ROLE_WEIGHTS] = 102228128;
    f.role_bytes[DT_ROLE_GRADIENTS] = 102228128;
    f.role_bytes[DT_ROLE_ACTIVATIONS] = 824590000;
    f.role_bytes[DT_ROLE_ACTIVATION_GRADIENTS] = 205520896;
    f.arena_other = 738;
    return f;
}

static void the_facts_of_a_large_run(void **state)
{
    (void)state;
    const dti_progress_facts f = large_facts();
    fix *x = begin_with(&f, as_log);
    assert_string_equal(said(x),
        "network   resnet50, 61,706 parameters, image 28x28x1, 10 classes\n"
        "batch     32, 90 epochs of 5,005 steps\n"
        "policy    gist_lossless, fp8 (not exact: it changes results)\n"
        "device    cpu, 1 thread, avx2, fp32\n"
        "memory    1.15 GiB planned, budget 2.00 GiB, on the host 774.71 MiB; at the peak:\n"
        "          activations 786.39 MiB, activation gradients 196.00 MiB,\n"
        "          weights 97.49 MiB, gradients 97.49 MiB, unused 738 B\n"
        "data      idx, 60000 images\n"
        "eval      idx, 10000 images, after every epoch\n"
        "run       runs/lenet5-keep_all-1\n"
        "          the run that was there is now runs/mine.old-1\n"
        "\n");
    end(x);
}

/* What is at the peak stands right behind its colon. */
static void a_host_that_is_the_device_is_told_before_the_peak(void **state)
{
    (void)state;
    dti_progress_facts f = large_facts();
    f.host_is_device = true;
    fix *x = begin_with(&f, as_log);
    assert_non_null(
        strstr(said(x), ", on the host 774.71 MiB, which is the same memory here; at the peak:\n"
                        "          activations 786.39 MiB, "));
    end(x);
}

static void a_terminal_with_colours_shows_the_peak_in_the_budget(void **state)
{
    (void)state;
    const dti_progress_facts f = large_facts();
    fix *x = begin_with(&f, as_rich_tty);
    const char *text = said(x), *bar = strstr(text, "\033[36m█");
    assert_non_null(bar);
    size_t full = 0, free_part = 0;
    for (const char *c = bar; *c != '\n'; c++) {
        full += strncmp(c, "█", 3) == 0;
        free_part += strncmp(c, "░", 3) == 0;
    }
    assert_int_equal(full, 28); /* 1.15 of 2 GiB in 48 columns */
    assert_int_equal(free_part, 20);
    assert_non_null(strstr(text, "\033[36mactivations 786.39 MiB,\033[0m"));
    end(x);
}

static void logs_hold_no_escapes(void **state)
{
    (void)state;
    const dti_progress_facts f = large_facts();
    fix *x = begin_with(&f, as_log);
    for (int i = 0; i < 10; i++)
        step_of(x, 3, 1);
    const dti_progress_result r = {.status = DT_OK};
    dti_progress_note(x->p, "a note");
    dti_progress_finish(x->p, &r);
    const char *text = said(x);
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\r'));
    for (const char *c = text; *c != '\0'; c++)
        assert_true((unsigned char)*c < 128);
    end(x);
}

/* ---- the line ---- */

static dti_line sample_line(void)
{
    return (dti_line){.at = 412,
        .unit = "img",
        .of = 5005,
        .epoch = 3,
        .epochs = 90,
        .loss = 4.9131,
        .lr = 0.0612,
        .rate = 12.14,
        .wait = 0.0123,
        .left = 2292,
        .smoothed = true};
}

static void a_line_fits_any_width(void **state)
{
    (void)state;
    static const struct {
        int width;
        const char *want;
    } cases[] = {
        {130, "epoch 3/90 [##----------------------------] 412/5005  loss 4.913 (smoothed)  lr "
              "0.0612  12.1 img/s  data 1%  left 38:12"},
        {102,
            "epoch 3/90 [------] 412/5005  loss 4.913 (smoothed)  lr 0.0612  12.1 img/s  data 1%  "
            "left 38:12"},
        {101,
            "epoch 3/90 [#--------------] 412/5005  loss 4.913 (smoothed)  lr 0.0612  12.1 img/s  "
            "left 38:12"},
        {92, "epoch 3/90 [------] 412/5005  loss 4.913 (smoothed)  lr 0.0612  12.1 img/s  left "
             "38:12"},
        {80, "epoch 3/90 [------] 412/5005  loss 4.913 (smoothed)  12.1 img/s  left 38:12"},
        {79, "epoch 3/90 412/5005  loss 4.913 (smoothed)  12.1 img/s  left 38:12"},
        {70, "epoch 3/90 412/5005  loss 4.913 (smoothed)  left 38:12"},
        {58, "3/90 412/5005  loss 4.913 (smoothed)  left 38:12"},
        {52, "3/90 412/5005  loss 4.913  left 38:12"},
        {20, "3/90 412/5005  loss"},
        {1, ""},
    };
    char text[DTI_LINE];
    const dti_line l = sample_line();
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const size_t n = dti_line_fit(&(dti_line_widths){0}, &l, cases[i].width, text);
        assert_string_equal(text, cases[i].want);
        assert_int_equal(n, strlen(text));
    }
}

static void no_line_reaches_the_last_column(void **state)
{
    (void)state;
    static const double values[] = {
        0, 1e-30, 0.123456, 99.9999, 123456, 1e300, (double)NAN, -(double)INFINITY};
    for (size_t i = 0; i < DT_COUNT(values); i++)
        for (int width = 1; width < 300; width++) {
            char text[DTI_LINE];
            dti_line l = sample_line();
            l.loss = l.lr = l.rate = l.left = values[i];
            l.at = l.of = INT64_MAX;
            l.epochs = i % 2 != 0 ? INT64_MAX : 0;
            assert_true(dti_line_fit(&(dti_line_widths){0}, &l, width, text) < (size_t)width);
            assert_true(strlen(text) < (size_t)width);
        }
}

static void the_bar_fills_to_its_end(void **state)
{
    (void)state;
    char text[DTI_LINE];
    dti_line l = sample_line();
    for (l.at = 0; l.at <= 8; l.at++) {
        l.of = 8;
        dti_line_fit(&(dti_line_widths){0}, &l, 200, text);
        size_t full = 0;
        for (const char *c = text; *c != '\0'; c++)
            full += *c == '#';
        assert_int_equal(full, l.at * 30 / 8);
    }
}

/* Which parts a line has: its words, and the columns of its bar. */
static void parts_of(char to[DTI_LINE], const char *line)
{
    size_t n = 0;
    for (const char *c = line; *c != '\0'; c++)
        if ((*c >= 'a' && *c <= 'z') || *c == '[' || *c == ']' || *c == '#' || *c == '-')
            to[n++] = *c == '#' ? '-' : *c;
    to[n] = '\0';
}

/* A step of a run with warmup: what its line says grows and shrinks, as far as runs do that learn.
 */
static dti_line line_of_step(int64_t step, int64_t steps)
{
    const double done = (double)step / (double)steps;
    dti_line l = sample_line();
    l.at = step;
    l.of = steps;
    l.epochs = 0;
    l.loss = 4.2 * exp(-4 * done) + 0.05 * sin((double)step);
    l.lr = step < 50 ? 0.001 * (double)step : 0.05 * (1.02 - done);
    l.rate = 80 + 15 * sin((double)step / 7);
    l.wait = 0.15 * (1 + sin((double)step));
    l.left = 3000 * (1 - done);
    return l;
}

static void a_line_has_the_same_parts_all_along(void **state)
{
    (void)state;
    for (int width = 30; width < 140; width++) {
        char text[DTI_LINE], first[DTI_LINE], now_has[DTI_LINE];
        dti_line_widths w = {0};
        for (int64_t step = 1; step <= 1000; step++) {
            const dti_line l = line_of_step(step, 1000);
            assert_true(dti_line_fit(&w, &l, width, text) < (size_t)width);
            parts_of(step == 1 ? first : now_has, text);
            if (step > 1)
                assert_string_equal(now_has, first);
        }
    }
}

/* A value longer than was foreseen takes a part's place for good. */
static void a_part_that_went_does_not_come_back(void **state)
{
    (void)state;
    char text[DTI_LINE], before[DTI_LINE], after[DTI_LINE];
    for (int width = 44; width < 140; width++) {
        dti_line_widths w = {0};
        dti_line l = line_of_step(10, 1000);
        l.lr = 1.234e-05;
        l.loss = 1.234e-05;
        dti_line_fit(&w, &l, width, text);
        l = line_of_step(11, 1000);
        dti_line_fit(&w, &l, width, text);
        parts_of(before, text);
        l.lr = l.loss = 1;
        dti_line_fit(&w, &l, width, text);
        parts_of(after, text);
        assert_string_equal(after, before);
    }
}

static void text_is_counted_in_tokens(void **state)
{
    (void)state;
    dti_progress_facts f = facts(1, 30);
    f.tokens = 128;
    fix *x = begin_with(&f, as_log);
    said(x);
    step_of(x, 1, 2.5);
    assert_string_equal(
        said(x), "step 1/30  loss 2.500  lr 0.05  4,096 tok/s  data 2%  left 0:29\n");
    const dt_eval_report e = {.step = 1, .samples = 871, .loss = 1.5, .seconds = 1};
    dti_progress_eval(x->p, &e);
    assert_non_null(strstr(said(x), "(871 sequences, 1.0 s)"));
    dti_progress_finish(x->p, &(dti_progress_result){0});
    assert_non_null(strstr(said(x), "4,096 tokens a second in the median step"));
    end(x);
}

static void runs_without_epochs_count_steps(void **state)
{
    (void)state;
    fix *x = begin(1, 30, as_log);
    said(x);
    step_of(x, 1, 2.5);
    assert_string_equal(
        said(x), "step 1/30  loss 2.500  lr 0.05  32.0 img/s  data 2%  left 0:29\n");
    end(x);
}

static void epochs_count_their_own_steps(void **state)
{
    (void)state;
    fix *x = begin(3, 2, as_log);
    said(x);
    for (int i = 0; i < 3; i++)
        step_of(x, 1, 2.5);
    assert_string_equal(said(x),
        "epoch 1/3 1/2  loss 2.500  lr 0.05  32.0 img/s  data 2%  left 0:05\n"
        "epoch 1/3 2/2  loss 2.500  lr 0.05  32.0 img/s  data 2%  left 0:04\n"
        "epoch 2/3 1/2  loss 2.500  lr 0.05  32.0 img/s  data 2%  left 0:03\n");
    end(x);
}

/* ---- when something is said ---- */

static void logs_get_the_first_steps_some_and_the_last(void **state)
{
    (void)state;
    fix *x = begin(0, 100, as_log);
    said(x);
    for (int i = 0; i < 3; i++)
        step_of(x, 0.1, 1);
    assert_int_equal(lines_in(said(x)), 3);
    for (int i = 0; i < 49; i++)
        step_of(x, 0.1, 1);
    assert_int_equal(lines_in(said(x)), 0);
    step_of(x, 0.11, 1);
    assert_int_equal(lines_in(said(x)), 1);
    for (int i = 0; i < 46; i++)
        step_of(x, 0.01, 1);
    assert_int_equal(lines_in(said(x)), 0);
    step_of(x, 0.01, 1);
    assert_non_null(strstr(said(x), "step 100/100  "));
    end(x);
}

static void terminals_are_redrawn_ten_times_a_second_at_most(void **state)
{
    (void)state;
    fix *x = begin(0, 1001, as_tty);
    said(x);
    for (int i = 0; i < 1000; i++)
        step_of(x, 0.01, 1);
    const char *text = said(x);
    size_t drawn = 0;
    for (const char *c = text; (c = strchr(c, '\r')) != NULL; c++)
        drawn++;
    assert_in_range(drawn, 85, 101);
    assert_int_equal(lines_in(text), 0);
    end(x);
}

static void a_redrawn_line_covers_the_old_one(void **state)
{
    (void)state;
    fix *x = begin(0, 30, as_tty);
    said(x);
    step_of(x, 1, 2.5);
    assert_string_equal(
        said(x), "\rstep [------] 1/30  loss 2.500  lr 0.05  32.0 img/s  left 0:29\033[K");
    end(x);
}

static void an_unfinished_line_is_ended(void **state)
{
    (void)state;
    fix *x = begin(0, 30, as_tty);
    step_of(x, 1, 2.5);
    said(x);
    dti_progress_destroy(x->p);
    x->p = NULL;
    assert_string_equal(said(x), "\n");
    end(x);
}

static void notes_and_evaluations_stand_above_the_line(void **state)
{
    (void)state;
    fix *x = begin(3, 10, as_tty);
    step_of(x, 1, 2.5);
    said(x);
    dti_progress_note(x->p, "skipped %d images", 2);
    assert_string_equal(said(x), "\r\033[Kskipped 2 images\n");
    step_of(x, 0.01, 2.5); /* and the line comes back at once */
    assert_non_null(strstr(said(x), "epoch 1/3"));
    const dt_eval_report e = {.step = 20,
        .epoch = 1,
        .samples = 10000,
        .loss = 1.2341,
        .top1 = 0.6784,
        .top5 = 0.901,
        .seconds = 12.34};
    dti_progress_eval(x->p, &e);
    assert_string_equal(said(x),
        "\r\033[Keval epoch 2: loss 1.234  top-1 67.8 %  top-5 90.1 %  (10000 images, 12.3 s)\n");
    end(x);
}

/* All that a run tells has room behind its label; what is longer ends in dots, and between two
 * characters, wherever that is. */
static void a_long_note_is_cut(void **state)
{
    (void)state;
    enum { BYTES = 3, MOST = DT_RUN_LINE_BYTES / BYTES };
    static char text[2 * DT_RUN_LINE_BYTES];
    for (size_t i = 0; i < 2 * MOST; i++)
        memcpy(text + BYTES * i, "\xe2\x82\xac", BYTES);
    fix *x = begin(0, 30, as_log);
    said(x);
    for (int before = 9; before < 9 + BYTES; before++) {
        dti_progress_note(x->p, "%-*s %.*s", before, "resume", BYTES * MOST, text);
        const char *got = said(x);
        assert_int_equal(strlen(got), before + 1 + BYTES * MOST + 1);
        dti_progress_note(x->p, "%-*s %s", before, "resume", text);
        got = said(x);
        const size_t n = strlen(got);
        assert_in_range(n, DT_RUN_LINE_BYTES, DT_RUN_LINE_BYTES + 16);
        assert_string_equal(got + n - 4, "...\n");
        assert_int_equal(dt_utf8_bad(got, n), n);
        assert_int_equal(lines_in(got), 1);
    }
    end(x);
}

/* ---- numbers ---- */

static void time_left_forgets_the_slow_first_step(void **state)
{
    (void)state;
    fix *x = begin(0, 100, as_log);
    said(x);
    step_of(x, 60, 1);
    assert_non_null(strstr(said(x), "left 1:39:00"));
    step_of(x, 2, 1);
    assert_non_null(strstr(said(x), "  16.0 img/s  data 2%  left 3:16\n"));
    end(x);
}

static void time_left_follows_the_latest_steps(void **state)
{
    (void)state;
    fix *x = begin(0, 1000, as_log);
    for (int i = 0; i < 500; i++)
        step_of(x, 10, 1);
    said(x);
    for (int i = 0; i < DTI_PROGRESS_WINDOW; i++)
        step_of(x, 1, 1);
    step_of(x, 7, 1);
    const char *text = said(x);
    assert_non_null(strstr(text, "step 533/1000"));
    assert_non_null(strstr(text, "left 9:15")); /* 467 * (31 + 7) / 32 */
    end(x);
}

static void time_left_counts_evaluations(void **state)
{
    (void)state;
    fix *x = begin(2, 10, as_log);
    for (int i = 0; i < 10; i++)
        step_of(x, 6, 1);
    const dt_eval_report e = {.step = 10, .samples = 10, .seconds = 50};
    dti_progress_eval(x->p, &e);
    said(x);
    step_of(x, 6, 1);
    assert_non_null(strstr(said(x), "left 1:35")); /* 9 * (6 + 50 / 11) */
    end(x);
}

static void the_shown_loss_is_smoothed_on_terminals(void **state)
{
    (void)state;
    fix *x = begin(0, 100, (dti_terminal){.tty = true, .width = 200});
    step_of(x, 1, 4);
    step_of(x, 1, 2);
    assert_non_null(strstr(said(x), "loss 2.947 (smoothed)")); /* (0.9 * 4 + 2) / 1.9 */
    step_of(x, 1, (double)NAN);
    const char *text = said(x);
    assert_non_null(strstr(text, "loss nan  "));
    step_of(x, 1, 2);
    assert_non_null(strstr(said(x), "loss 2.598 (smoothed)"));
    end(x);
}

static void the_rate_is_a_median_without_the_first_step(void **state)
{
    (void)state;
    fix *x = begin(0, 100000, as_log);
    assert_true(isnan(dti_progress_rate(x->p)));
    step_of(x, 64, 1);
    assert_true(dti_progress_rate(x->p) == 0.5);
    step_of(x, 1, 1);
    assert_true(dti_progress_rate(x->p) == 32);
    step_of(x, 2, 1);
    assert_true(dti_progress_rate(x->p) == 24);
    step_of(x, 1000, 1);
    assert_true(dti_progress_rate(x->p) == 16);
    for (int i = 0; i < DTI_RATE_STEPS + 10; i++)
        step_of(x, 4, 1);
    assert_true(dti_progress_rate(x->p) == 8);
    end(x);
}

static void numbers_read_well(void **state)
{
    (void)state;
    char t[DT_HUMAN_BYTES], exact[DT_HUMAN_EXACT];
    assert_string_equal(dt_human_bytes(t, 0), "0 B");
    assert_string_equal(dt_human_bytes(t, 1023), "1023 B");
    assert_string_equal(dt_human_bytes(t, 1024), "1.00 KiB");
    assert_string_equal(dt_human_bytes(t, (1 << 20) - 1), "1.00 MiB");
    assert_string_equal(dt_human_bytes(t, UINT64_MAX), "16.00 EiB");
    assert_string_equal(dt_human_exact(exact, 0), "0 B (0 bytes)");
    assert_string_equal(dt_human_exact(exact, 1), "1 B (1 byte)");
    assert_string_equal(dt_human_exact(exact, 2048), "2.00 KiB (2,048 bytes)");
    assert_string_equal(dt_human_seconds(t, 0), "0.0 ms");
    assert_string_equal(dt_human_seconds(t, 36e-6), "0.036 ms");
    assert_string_equal(dt_human_seconds(t, 99.99e-6), "0.1 ms");
    assert_string_equal(dt_human_seconds(t, 100e-6), "0.1 ms");
    assert_string_equal(dt_human_seconds(t, 0.0173), "17.3 ms");
    assert_string_equal(dt_human_seconds(t, 0.9999), "999.9 ms");
    assert_string_equal(dt_human_seconds(t, 0.99996), "1.0 s");
    assert_string_equal(dt_human_seconds(t, 16.2064), "16.2 s");
    assert_string_equal(dt_human_seconds(t, 59.94), "59.9 s");
    assert_string_equal(dt_human_seconds(t, 59.96), "1:00");
    assert_string_equal(dt_human_seconds(t, (double)NAN), "--:--");
    assert_string_equal(dt_human_step(t, 0), "0.000000");
    assert_string_equal(dt_human_step(t, 12.5e-6), "1.25e-05");
    assert_string_equal(dt_human_step(t, 0.00012584), "0.0001258");
    assert_string_equal(dt_human_step(t, 0.0012584), "0.001258");
    assert_string_equal(dt_human_step(t, 12.5), "12.500000");
    assert_string_equal(dt_human_time(t, 0.4), "0:00");
    assert_string_equal(dt_human_time(t, 59.6), "1:00");
    assert_string_equal(dt_human_time(t, 3599.6), "1:00:00");
    assert_string_equal(dt_human_time(t, 359999), "99:59:59");
    assert_string_equal(dt_human_time(t, 360000), "4 d 04 h");
    assert_string_equal(dt_human_time(t, (double)NAN), "--:--");
    assert_string_equal(dt_human_time(t, -1), "--:--");
    assert_string_equal(dt_human_time(t, 1e300), "--:--");
    assert_string_equal(dt_human_number(t, 0), "0.00000");
    assert_string_equal(dt_human_number(t, 0.0123456), "0.01235");
    assert_string_equal(dt_human_number(t, 4.9131), "4.913");
    assert_string_equal(dt_human_number(t, 123.456), "123.5");
    assert_string_equal(dt_human_number(t, 1e-5), "1.000e-05");
    assert_string_equal(dt_human_number(t, -1e9), "-1.000e+09");
    assert_string_equal(dt_human_number(t, -(double)INFINITY), "-inf");
    assert_string_equal(dt_human_rate(t, 0), "0.00");
    assert_string_equal(dt_human_rate(t, 0.00123), "0.0012");
    assert_string_equal(dt_human_rate(t, 0.123), "0.12");
    assert_string_equal(dt_human_rate(t, 12.14), "12.1");
    assert_string_equal(dt_human_rate(t, 99.96), "100");
    assert_string_equal(dt_human_rate(t, 12345.6), "12,346");
    assert_string_equal(dt_human_rate(t, (double)INFINITY), "-");
}

/* ---- the curve ---- */

static void the_curve_keeps_the_whole_run_in_few_numbers(void **state)
{
    (void)state;
    dti_loss_curve c = {0};
    const int steps = 10000;
    for (int i = 0; i < steps; i++)
        dti_loss_curve_add(&c, i % 2 != 0 ? (double)NAN : (double)i);
    assert_in_range(c.bins, DTI_BINS / 2, DTI_BINS);
    double sum = 0;
    int64_t count = 0;
    for (int i = 0; i < c.bins; i++) {
        sum += c.sum[i];
        count += c.count[i];
    }
    assert_int_equal(count, steps / 2);
    assert_true(sum == (double)(steps / 2) * (steps / 2 - 1));
}

static void the_curve_is_drawn_from_highest_to_lowest(void **state)
{
    (void)state;
    char text[DTI_BINS * 4 + 1];
    dti_loss_curve c = {0};
    assert_int_equal(dti_loss_curve_draw(&c, text, sizeof text, 80), 0);
    dti_loss_curve_add(&c, 8);
    assert_int_equal(dti_loss_curve_draw(&c, text, sizeof text, 80), 0);
    for (int i = 7; i >= 1; i--)
        dti_loss_curve_add(&c, i);
    assert_int_equal(dti_loss_curve_draw(&c, text, sizeof text, 80), 24);
    assert_string_equal(text, "█▇▆▅▄▃▂▁");
    dti_loss_curve_draw(&c, text, sizeof text, 4);
    assert_string_equal(text, "█▆▃▁");
    dti_loss_curve_draw(&c, text, 8, 80); /* no half characters */
    assert_string_equal(text, "█▇");
}

static void a_flat_curve_is_flat(void **state)
{
    (void)state;
    char text[DTI_BINS * 4 + 1];
    dti_loss_curve c = {0};
    for (int i = 0; i < 3; i++)
        dti_loss_curve_add(&c, 1);
    dti_loss_curve_draw(&c, text, sizeof text, 80);
    assert_string_equal(text, "▁▁▁");
}

/* ---- results ---- */

static void the_results_of_a_run(void **state)
{
    (void)state;
    fix *x = begin(1, 4, (dti_terminal){.utf8 = true, .width = 80});
    for (int i = 0; i < 4; i++)
        step_of(x, 0.5, 4 - i);
    const dt_eval_report e = {
        .step = 4, .samples = 100, .loss = 1.5, .top1 = 0.5, .top5 = 1, .seconds = 1};
    dti_progress_eval(x->p, &e);
    now += 1;
    said(x);
    const dti_progress_result r = {.status = DT_OK,
        .measured = 1536000,
        .process_peak = 20 << 20,
        .outside = 19 << 20,
        .files = "plan.txt, model.safetensors",
        .lost = 2,
        .why = "write 'metrics.jsonl': No space left\n"};
    dti_progress_finish(x->p, &r);
    assert_string_equal(said(x),
        "\n"
        "done      after 4 of 4 steps\n"
        "memory    planned 1,536,000 bytes = measured 1,536,000 bytes (1.46 MiB)\n"
        "          the whole process 20.00 MiB at its peak, 19.00 MiB of it outside the plan\n"
        "speed     64.0 images a second in the median step, 42.7 over all: 128 images in 3.0 s\n"
        "loss      4.000 at first, 2.369 at the end, smoothed (-40.8 %)\n"
        "          █▆▃▁\n"
        "eval      loss 1.500, top-1 50.00 %, top-5 100.00 %\n"
        "written   runs/lenet5-keep_all-1: plan.txt, model.safetensors\n"
        "          2 lines of metrics are lost: write 'metrics.jsonl': No space left\n");
    end(x);
}

static void of_a_card_the_rest_is_what_its_memory_holds(void **state)
{
    (void)state;
    fix *x = begin(1, 1, (dti_terminal){.width = 200});
    const dti_progress_result r = {
        .measured = 1536000, .process_peak = 20 << 20, .outside = 500 << 20, .card = true};
    dti_progress_finish(x->p, &r);
    assert_non_null(
        strstr(said(x), "          the process 20.00 MiB of the host's at its peak; 500.00 MiB of "
                        "the card's are in "
                        "use outside the plan: CUDA's, its libraries' and other programs'\n"));
    end(x);
}

static void one_of_a_thing_is_not_many(void **state)
{
    (void)state;
    fix *x = begin(1, 1, as_log);
    assert_non_null(strstr(said(x), "1 epoch of 1 step\n"));
    step_of(x, 0.5, 4);
    dti_progress_finish(x->p, &(dti_progress_result){.status = DT_OK, .lost = 1, .why = "full"});
    const char *text = said(x);
    assert_non_null(strstr(text, "after 1 of 1 step\n"));
    assert_non_null(strstr(text, "1 line of metrics is lost: full\n"));
    end(x);
}

static size_t widest(const char *text)
{
    size_t most = 0;
    for (; *text != '\0'; text += strcspn(text, "\n") + 1) {
        const size_t n = strcspn(text, "\n");
        most = n > most ? n : most;
    }
    return most;
}

static void on_a_terminal_results_stay_within_its_width(void **state)
{
    (void)state;
    const dti_progress_result r = {.status = DT_OK,
        .measured = 1536000,
        .process_peak = 20 << 20,
        .outside = 19 << 20,
        .files = "checkpoints/model.safetensors, metrics.jsonl, summary.json"};
    for (int width = 74; width < 120; width++) {
        fix *x = begin(0, 2, (dti_terminal){.tty = true, .width = width});
        assert_true(widest(said(x)) < (size_t)width);
        step_of(x, 0.5, 4);
        step_of(x, 0.5, 3);
        said(x);
        dti_progress_finish(x->p, &r);
        const char *text = said(x);
        assert_true(widest(text) < (size_t)width);
        if (width == 80)
            assert_non_null(strstr(text, "of it outside the\n          plan\n"));
        end(x);
    }
}

/* From the first loss to those that follow for long. */
static void change_is(double first, double last, const char *want)
{
    enum { LONG = 400 };
    fix *x = begin(1, LONG, as_log);
    step_of(x, 0.5, first);
    for (int i = 1; i < LONG; i++)
        step_of(x, 0.5, last);
    said(x);
    dti_progress_finish(x->p, &(dti_progress_result){.status = DT_OK});
    const char *at = strstr(said(x), " at the end");
    assert_non_null(at);
    at += strlen(" at the end");
    if (isfinite(last)) {
        assert_memory_equal(at, ", smoothed", 10);
        at += 10;
    }
    assert_int_equal(strcspn(at, "\n"), strlen(want));
    assert_memory_equal(at, want, strlen(want));
    end(x);
}

/* On the terminal the last line of steps and the results say the same. */
static void the_loss_at_the_end_is_the_smoothed_one(void **state)
{
    (void)state;
    fix *x = begin(1, 4, (dti_terminal){.tty = true, .width = 200});
    step_of(x, 1, 4);
    step_of(x, 1, 4);
    step_of(x, 1, 4);
    said(x);
    step_of(x, 1, 1);
    assert_non_null(strstr(said(x), "loss 3.128 (smoothed)"));
    dti_progress_finish(x->p, &(dti_progress_result){.status = DT_OK});
    assert_non_null(strstr(said(x), "4.000 at first, 3.128 at the end, smoothed (-21.8 %)\n"));
    end(x);
}

/* Its first loss, its curve, its samples and its time are those of all of it. */
static void a_run_that_goes_on_tells_of_the_whole_run(void **state)
{
    (void)state;
    dti_progress_facts f = facts(1, 4);
    f.done = 2;
    f.done_samples = 64;
    f.done_seconds = 10;
    f.first_loss = 4;
    fix *x = begin_with(&f, (dti_terminal){.utf8 = true, .width = 80});
    dti_progress_past(x->p, 4, 8);
    dti_progress_past(x->p, 3, 32);
    x->step = 2;
    step_of(x, 1, 2);
    step_of(x, 1, 1);
    said(x);
    dti_progress_finish(x->p, &(dti_progress_result){.status = DT_OK});
    assert_string_equal(said(x),
        "\n"
        "done      after 4 of 4 steps\n"
        "memory    planned 1,536,000 bytes, not measured\n"
        "speed     32.0 images a second in the median step, 10.7 over all: 128 images in 12.0 s\n"
        "loss      4.000 at first, 2.369 at the end, smoothed (-40.8 %)\n"
        "          █▆▃▁\n"
        "written   runs/lenet5-keep_all-1\n");
    end(x);
}

static void a_change_of_loss_is_read_at_a_glance(void **state)
{
    (void)state;
    change_is(4, 3, " (-25.0 %)");
    change_is(4, 4, " (+0.0 %)");
    change_is(4, 0, " (-100.0 %)");
    change_is(4, 40, " (+900.0 %)");
    change_is(4, 40.1, " (more than 10-fold)");
    change_is(4, 404, " (more than 100-fold)");
    change_is(2.3, 5.3e15, " (more than 1000-fold)");
    change_is(4, (double)INFINITY, "");
    change_is(4, (double)NAN, "");
    change_is((double)NAN, 4, "");
    change_is(0, 4, "");
}

static void equal_means_equal_to_the_byte(void **state)
{
    (void)state;
    fix *x = begin(1, 4, as_log);
    said(x);
    const dti_progress_result r = {.status = DT_OK, .measured = 1536001};
    dti_progress_finish(x->p, &r);
    const char *text = said(x);
    assert_non_null(strstr(text, "planned 1,536,000 bytes but measured 1,536,001 bytes"));
    assert_null(strstr(text, " = "));
    end(x);
}

static void a_run_that_ends_before_its_first_step(void **state)
{
    (void)state;
    fix *x = begin(1, 4, as_tty);
    said(x);
    const dti_progress_result r = {.status = DT_E_DATA};
    dti_progress_finish(x->p, &r);
    assert_string_equal(said(x), "\n"
                                 "failed    after 0 of 4 steps\n"
                                 "memory    planned 1,536,000 bytes, not measured\n"
                                 "written   runs/lenet5-keep_all-1\n");
    end(x);
}

static void a_stopped_run_keeps_its_last_line(void **state)
{
    (void)state;
    fix *x = begin(1, 4, as_tty);
    step_of(x, 1, 1);
    said(x);
    const dti_progress_result r = {.status = DT_E_STOPPED};
    dti_progress_finish(x->p, &r);
    assert_non_null(strstr(said(x), "\n\nstopped   after 1 of 4 steps\n"));
    end(x);
}

/* ---- streams that fail ---- */

static void a_broken_pipe_ends_the_show_only(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    close(fd[0]);
    FILE *f = fdopen(fd[1], "w");
    assert_non_null(f);
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    const dti_progress_facts facts_of = facts(0, 100);
    const dti_progress_view view = {.out = f, .terminal = as_tty, .clock = test_clock};
    fix x = {.steps = 100, .per_epoch = 100};
    dt_err err = {0};
    assert_ok(dti_progress_create(&x.p, &facts_of, &view, &err), &err);
    assert_true(ferror(f));
    clearerr(f);
    for (int i = 0; i < 100; i++)
        step_of(&x, 1, 1);
    const dti_progress_result r = {.status = DT_OK};
    dti_progress_finish(x.p, &r);
    assert_false(ferror(f));                   /* nothing was written after the first failure */
    assert_true(dti_progress_rate(x.p) == 32); /* counted all the same */
    dti_progress_destroy(x.p);
    fclose(f);
    signal(SIGPIPE, old);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const long live = dti_alloc_live();
    const dti_progress_facts f = facts(0, 1);
    FILE *null = fopen("/dev/null", "w");
    assert_non_null(null);
    const dti_progress_view view = {.out = null, .terminal = as_log};
    for (long k = 1; k <= 3; k++) {
        dti_progress *p = NULL;
        dti_alloc_fail_at(k);
        const dt_status st = dti_progress_create(&p, &f, &view, NULL);
        dti_alloc_fail_at(0);
        assert_int_equal(st, DT_E_NOMEM);
        assert_null(p);
        assert_int_equal(dti_alloc_live(), live);
    }
    fclose(null);
}

static void steps_need_no_memory(void **state)
{
    (void)state;
    fix *x = begin(0, 10, as_tty);
    dti_alloc_fail_at(1);
    for (int i = 0; i < 10; i++)
        step_of(x, 1, 1);
    void *p = dt_alloc(1, 1); /* the failure is still to come */
    assert_null(p);
    end(x);
}

/* ---- terminals ---- */

static void a_file_is_no_terminal(void **state)
{
    (void)state;
    FILE *f = fopen("/dev/null", "w");
    assert_non_null(f);
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
    const dti_terminal t = dti_terminal_of(f);
    assert_false(t.tty);
    assert_false(t.colour);
    assert_int_equal(dti_terminal_width(&t, f), 80);
    setenv("COLUMNS", "120", 1);
    assert_int_equal(dti_terminal_width(&t, f), 120);
    setenv("COLUMNS", "many", 1);
    assert_int_equal(dti_terminal_width(&t, f), 80);
    unsetenv("COLUMNS");
    fclose(f);
}

static void a_terminal_is_asked_for_its_width_each_time(void **state)
{
    (void)state;
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        skip();
    FILE *f = fopen(ptsname(master), "w");
    if (f == NULL)
        skip();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    dti_terminal t = dti_terminal_of(f);
    assert_true(t.tty && t.colour);
    for (unsigned short w = 40; w < 43; w++) {
        const struct winsize size = {.ws_col = w, .ws_row = 24};
        assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
        assert_int_equal(dti_terminal_width(&t, f), w);
    }
    setenv("NO_COLOR", "1", 1);
    t = dti_terminal_of(f);
    assert_true(t.tty && !t.colour);
    setenv("TERM", "dumb", 1);
    t = dti_terminal_of(f);
    assert_false(t.tty);
    unsetenv("NO_COLOR");
    fclose(f);
    close(master);
}

static void the_environment_tells_the_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *all, *ctype, *lang, *term, *no_color;
        bool utf8;
    } cases[] = {
        {NULL, NULL, NULL, "xterm", NULL, false},
        {NULL, NULL, "C.UTF-8", "xterm", NULL, true},
        {NULL, NULL, "de_DE.utf8@euro", "xterm", NULL, true},
        {"C", NULL, "en_US.UTF-8", "xterm", NULL, false},
        {"", "de_DE.ISO-8859-1", "en_US.UTF-8", "xterm", NULL, false},
        {"en_US.UTF-8", "C", NULL, "xterm", NULL, true},
        {NULL, NULL, "C.UTF-8", "dumb", NULL, false},
        {NULL, NULL, "C.UTF-8", NULL, NULL, true},
        {NULL, NULL, "C.UTF-8", "xterm", "1", true},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG", "TERM", "NO_COLOR"};
        const char *const values[] = {
            cases[i].all, cases[i].ctype, cases[i].lang, cases[i].term, cases[i].no_color};
        for (size_t k = 0; k < DT_COUNT(names); k++)
            if (values[k] != NULL)
                setenv(names[k], values[k], 1);
            else
                unsetenv(names[k]);
        assert_int_equal(dti_terminal_of(stderr).utf8, cases[i].utf8);
        assert_int_equal(dti_term_unicode(), cases[i].utf8); /* one rule for all that is drawn */
    }
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
}

/* Finite ones of a file that somebody edited, whose sums and differences are not. */
static void losses_beyond_all_bounds_have_a_curve(void **state)
{
    (void)state;
    static const double all[][4] = {
        {1e308, -1e308, 1, 2}, {1.7e308, 1.7e308, 1.7e308, 1.7e308}, {-1.7e308, 1.7e308, 0, 0}};
    for (size_t k = 0; k < DT_COUNT(all); k++)
        for (int copies = 1; copies <= 64; copies *= 8) {
            char curve[4 * DTI_BINS];
            dti_loss_curve c = {.bins = 0};
            for (int i = 0; i < 4 * copies; i++)
                dti_loss_curve_add(&c, all[k][i % 4]);
            const size_t n = dti_loss_curve_draw(&c, curve, sizeof curve, 30);
            assert_int_equal(n, 3 * (c.bins < 30 ? c.bins : 30));
            assert_int_equal(strlen(curve), n);
        }
}

DT_TEST_GROUP(progress)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_facts_of_a_small_run),
        cmocka_unit_test(losses_beyond_all_bounds_have_a_curve),
        cmocka_unit_test(the_facts_of_a_large_run),
        cmocka_unit_test(a_host_that_is_the_device_is_told_before_the_peak),
        cmocka_unit_test(a_terminal_with_colours_shows_the_peak_in_the_budget),
        cmocka_unit_test(logs_hold_no_escapes),
        cmocka_unit_test(a_line_fits_any_width),
        cmocka_unit_test(no_line_reaches_the_last_column),
        cmocka_unit_test(a_line_has_the_same_parts_all_along),
        cmocka_unit_test(a_part_that_went_does_not_come_back),
        cmocka_unit_test(the_bar_fills_to_its_end),
        cmocka_unit_test(text_is_counted_in_tokens),
        cmocka_unit_test(runs_without_epochs_count_steps),
        cmocka_unit_test(epochs_count_their_own_steps),
        cmocka_unit_test(logs_get_the_first_steps_some_and_the_last),
        cmocka_unit_test(terminals_are_redrawn_ten_times_a_second_at_most),
        cmocka_unit_test(a_redrawn_line_covers_the_old_one),
        cmocka_unit_test(an_unfinished_line_is_ended),
        cmocka_unit_test(notes_and_evaluations_stand_above_the_line),
        cmocka_unit_test(a_long_note_is_cut),
        cmocka_unit_test(time_left_forgets_the_slow_first_step),
        cmocka_unit_test(time_left_follows_the_latest_steps),
        cmocka_unit_test(time_left_counts_evaluations),
        cmocka_unit_test(the_shown_loss_is_smoothed_on_terminals),
        cmocka_unit_test(the_rate_is_a_median_without_the_first_step),
        cmocka_unit_test(numbers_read_well),
        cmocka_unit_test(the_curve_keeps_the_whole_run_in_few_numbers),
        cmocka_unit_test(the_curve_is_drawn_from_highest_to_lowest),
        cmocka_unit_test(a_flat_curve_is_flat),
        cmocka_unit_test(the_results_of_a_run),
        cmocka_unit_test(of_a_card_the_rest_is_what_its_memory_holds),
        cmocka_unit_test(one_of_a_thing_is_not_many),
        cmocka_unit_test(on_a_terminal_results_stay_within_its_width),
        cmocka_unit_test(a_change_of_loss_is_read_at_a_glance),
        cmocka_unit_test(the_loss_at_the_end_is_the_smoothed_one),
        cmocka_unit_test(a_run_that_goes_on_tells_of_the_whole_run),
        cmocka_unit_test(equal_means_equal_to_the_byte),
        cmocka_unit_test(a_run_that_ends_before_its_first_step),
        cmocka_unit_test(a_stopped_run_keeps_its_last_line),
        cmocka_unit_test(a_broken_pipe_ends_the_show_only),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(steps_need_no_memory),
        cmocka_unit_test(a_file_is_no_terminal),
        cmocka_unit_test(a_terminal_is_asked_for_its_width_each_time),
        cmocka_unit_test(the_environment_tells_the_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
