/* A network in memory, trained a step at a time, evaluated and saved: train FOLDER [SET]... */
#include <dnntrain.h>

#include <stdio.h>
#include <string.h>

static const char config[] = "[model]\nname = lenet5\n[data]\nsource = synthetic\nsamples = 64\n"
                             "[train]\nbatch = 16\nepochs = 2\nlr = 0.05\n";

static void step(void *self, const dt_step_report *r)
{
    (void)self;
    printf("step %lld of %lld: loss %.4f\n", (long long)r->step, (long long)r->steps, r->loss);
}

static dt_status train(dt_run *run, dt_err *err)
{
    const dt_run_observer show = {.step = step};
    DT_CHECK(dt_run_begin(run, &show, err));
    dt_status st = DT_OK;
    for (int64_t was = -1; st == DT_OK && was < dt_run_step(run);) { /* until there is none left */
        was = dt_run_step(run);
        st = dt_run_train(run, was + 1, err);
        if (st == DT_OK && was + 1 == 4)
            st = dt_run_save(run, err);
    }
    return dt_run_end(run, st, err);
}

int main(int argc, char **argv)
{
    static dt_err err;
    char dir[4096];
    const char *set[16] = {dir};
    size_t n = 1;
    dt_run *run = NULL;
    if (argc < 2 || argc > 16 ||
        snprintf(dir, sizeof dir, "run.dir=%s", argv[1]) >= (int)sizeof dir) {
        fprintf(stderr, "usage: train FOLDER [SECTION.KEY=VALUE]..., at most 14 of them\n");
        return DT_E_CONFIG;
    }
    for (int i = 2; i < argc; i++)
        set[n++] = argv[i];
    dt_status st = dt_run_open_text(&run, "lenet", config, strlen(config), set, n, &err);
    if (st == DT_OK)
        st = train(run, &err);
    if (st == DT_OK)
        printf("trained; the weights are in %s/checkpoints\n", dt_run_folder(run));
    else
        fprintf(stderr, "%s", err.text);
    dt_run_close(run);
    return (int)st;
}
