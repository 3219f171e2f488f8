/* What the folder of a run stands for: its configuration and its weights. */
#define _GNU_SOURCE /* realpath */
#include "tools/of_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/checkpoint/checkpoint.h"
#include "session/human.h"

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool join(char to[DTI_RUN_PATH], const char *folder, const char *name)
{
    return snprintf(to, DTI_RUN_PATH, "%s/%s", folder, name) < DTI_RUN_PATH;
}

bool dti_config_of_run(const char *folder, char to[DTI_RUN_PATH])
{
    return join(to, folder, DT_RUN_CONFIG) && is_file(to);
}

/* *run: to be freed. */
static bool is_of_checkpoint(const char *folder, char **run, char config[DTI_RUN_PATH])
{
    *run = realpath(folder, NULL);
    return *run != NULL && !is_file(*run) && dt_run_dir_of_checkpoint(*run) &&
           dti_config_of_run(*run, config);
}

bool dti_config_of_checkpoint(const char *folder, char to[DTI_RUN_PATH])
{
    char *run;
    const bool is = is_of_checkpoint(folder, &run, to);
    free(run);
    return is;
}

static bool names_weights(const dti_cli *cli)
{
    static const char key[] = "model.weights";
    for (size_t i = 0; i < cli->n_set; i++) {
        const char *set = cli->set[i] + strspn(cli->set[i], " \t");
        const char *behind = set + strlen(key);
        if (strncmp(set, key, strlen(key)) == 0 && behind[strspn(behind, " \t")] == '=')
            return true;
    }
    return false;
}

/* The folder that the word names; false: it is something else. */
static bool find_run(const char *word, dti_run_paths *to, bool *checkpoint)
{
    char *run = NULL;
    *checkpoint = false;
    bool found = dti_config_of_run(word, to->config) &&
                 snprintf(to->run, sizeof to->run, "%s", word) < DTI_RUN_PATH;
    if (!found) {
        *checkpoint = found = is_of_checkpoint(word, &run, to->config) &&
                              snprintf(to->run, sizeof to->run, "%s", run) < DTI_RUN_PATH;
        free(run);
    }
    if (!found)
        to->run[0] = '\0';
    return found;
}

/* The folder of checkpoints of a run, or a file in it, which stand for neither. */
static dt_status check_below_run(const char *word, dt_err *err)
{
    static const char below[] = "/" DT_CHECKPOINTS;
    char config[DTI_RUN_PATH], *path = realpath(word, NULL), *cut = NULL;
    for (char *at = path; at != NULL && (at = strstr(at, below)) != NULL; at += strlen(below))
        if (at[strlen(below)] == '/' || at[strlen(below)] == '\0')
            cut = at;
    if (cut != NULL)
        *cut = '\0';
    dt_status st = DT_OK;
    if (cut != NULL && dti_config_of_run(path, config))
        st = DT_FAIL(err, DT_E_CONFIG,
            "'%s' is of the run '%s': name that folder, or the folder of one of its checkpoints",
            word, path);
    free(path);
    return st;
}

static void tell(void *self, const char *line)
{
    (void)self;
    dti_cli_notice(line);
}

/* Weights, after which step they were saved (-1: not told), and of which checkpoint they are. */
typedef struct found_weights {
    char path[DTI_RUN_PATH];
    int64_t step;
    dt_checkpoint *of;
} found_weights;

static void take_checkpoint(found_weights *to, dt_checkpoint *c)
{
    to->of = c;
    to->step = dt_checkpoint_course(c)->step;
    if (!join(to->path, dt_checkpoint_path(c), DT_CHECKPOINT_MODEL))
        to->path[0] = '\0';
}

/* Of a run that was cut short. @ended: after which step it had come to an end before; -1: never. */
static void tell_cut_short(const char *run, int64_t ended, const char *checkpoint)
{
    char line[2 * DTI_RUN_PATH + 128], how[96] = "has not come to its end";
    if (ended >= 0)
        snprintf(how, sizeof how, "went on from its end after step %" PRId64 " and was cut short",
            ended);
    snprintf(line, sizeof line, "the run in '%s' %s: these are the weights of its checkpoint '%s'",
        run, how, checkpoint);
    dti_cli_notice(line);
}

/* Those of the newest whole checkpoint where that is further than @to, which stays otherwise. */
static dt_status of_newest(const char *run, const char *checkpoints, found_weights *to, dt_err *err)
{
    const dt_teller teller = {NULL, tell};
    dt_checkpoint *newest = NULL;
    DT_CHECK(dt_checkpoint_newest(&newest, checkpoints, &teller, err));
    if (newest != NULL && dt_checkpoint_course(newest)->step > to->step) {
        tell_cut_short(run, to->step, dt_checkpoint_path(newest));
        take_checkpoint(to, newest);
    } else
        dt_checkpoint_close(newest);
    return DT_OK;
}

/* A run that went on keeps the weights of its earlier end until it comes to another. Checkpoints
 * are read only where one is further than those, as that takes as long as they are large. */
static dt_status of_run(const char *run, found_weights *to, dt_err *err)
{
    char checkpoints[DTI_RUN_PATH];
    int64_t last;
    if (join(to->path, run, DT_RUN_WEIGHTS) && is_file(to->path))
        to->step = dt_run_dir_weights_step(run);
    else
        to->path[0] = '\0';
    if (!join(checkpoints, run, DT_CHECKPOINTS))
        return DT_OK;
    DT_CHECK(dt_checkpoint_last(&last, checkpoints, err));
    return last > to->step ? of_newest(run, checkpoints, to, err) : DT_OK;
}

static dt_status of_checkpoint(const char *folder, found_weights *to, dt_err *err)
{
    dt_checkpoint *c;
    DT_CHECK(dt_checkpoint_open(&c, folder, err));
    take_checkpoint(to, c);
    return DT_OK;
}

static dt_status find_weights(
    const char *word, const dti_run_paths *run, bool checkpoint, found_weights *to, dt_err *err)
{
    DT_CHECK(checkpoint ? of_checkpoint(word, to, err) : of_run(run->run, to, err));
    if (to->path[0] == '\0')
        return DT_FAIL(err, DT_E_CONFIG,
            "the run in '%s' has left no weights, which are '%s/" DT_RUN_WEIGHTS
            "' at its end, and has no checkpoint",
            run->run, run->run);
    return DT_OK;
}

static dt_status put_weights(dti_run_paths *keep, const found_weights *w, dt_err *err)
{
    keep->step = w->step;
    if (snprintf(keep->weights, sizeof keep->weights, "model.weights=%s", w->path) >= DTI_RUN_PATH)
        return DT_FAIL(err, DT_E_CONFIG, "'%s': too long for a folder's name", keep->run);
    return DT_OK;
}

dt_status dti_cli_take_run(dti_cli *cli, dti_run_paths *keep, dt_err *err)
{
    const char *word = cli->word[0];
    found_weights weights = {.step = -1};
    bool checkpoint;
    keep->step = -1;
    if (!find_run(word, keep, &checkpoint))
        return check_below_run(word, err);
    cli->word[0] = keep->config;
    if (names_weights(cli))
        return DT_OK;
    const dt_status st = find_weights(word, keep, checkpoint, &weights, err);
    keep->held = weights.of;
    DT_CHECK(st);
    DT_CHECK(put_weights(keep, &weights, err));
    memmove(cli->set + 1, cli->set, cli->n_set * sizeof *cli->set); /* the word leaves room */
    cli->set[0] = keep->weights;
    cli->n_set++;
    return DT_OK;
}

void dti_run_paths_deinit(dti_run_paths *p)
{
    dt_checkpoint_close(p->held);
}

const char *dti_best_text(char to[DTI_BEST_TEXT], const dt_run_best *b)
{
    char loss[DT_HUMAN_BYTES], step[DT_HUMAN_BYTES], what[DT_HUMAN_BYTES + 8];
    if (b->by == DT_BEST_LOSS)
        snprintf(what, sizeof what, "loss %s", dt_human_number(loss, b->value));
    else
        snprintf(what, sizeof what, "top-1 %.2f %%", 100 * b->value);
    snprintf(to, DTI_BEST_TEXT, "%s after step %s", what, dt_human_count(step, (uint64_t)b->step));
    return to;
}

dt_run_best dti_better_than(const dti_run_paths *p)
{
    char checkpoints[DTI_RUN_PATH];
    if (p->run[0] == '\0' || p->held != NULL || !join(checkpoints, p->run, DT_CHECKPOINTS))
        return (dt_run_best){0};
    const dt_run_best b = dt_run_dir_best(p->run);
    return b.step != p->step && dt_checkpoint_there(checkpoints, b.step) ? b : (dt_run_best){0};
}
