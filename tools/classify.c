/* dnntrain classify: what a trained network takes pictures for. */
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "session/run.h"
#include "tools/json_out.h"
#include "tools/of_run.h"

enum { NAME_COLUMNS = 40, CLASS_BYTES = 256 };

static const char *class_of(const dt_run *r, int32_t label, char to[CLASS_BYTES])
{
    const char *name = dt_run_class(r, label);
    if (name == NULL)
        snprintf(to, CLASS_BYTES, "class %d", (int)label);
    return name != NULL ? name : to;
}

/* Of a file or a folder, whose name may have any bytes. */
static void print_name(const char *name)
{
    for (size_t n; *name != '\0'; name += n > 0 ? n : 1) {
        n = dt_printable(name);
        printf("%.*s", n > 0 ? (int)n : 1, n > 0 ? name : "?");
    }
}

static void print_one(const dt_run *r, const char *path, const dt_sample *s)
{
    char class[CLASS_BYTES];
    print_name(path);
    printf("%s", strlen(path) > NAME_COLUMNS ? "\n    " : "   ");
    for (int k = 0; k < s->n_guess; k++) {
        printf("%s", k > 0 ? ", " : "");
        print_name(class_of(r, s->guess[k], class));
        printf(" %.1f %%", 100 * s->share[k]);
    }
    printf("%s\n", s->n_guess == 0 ? "no score is finite" : "");
    fflush(stdout); /* one after the other, as they come */
}

static void put_one(dt_json *list, const dt_run *r, const char *path, const dt_sample *s)
{
    char class[CLASS_BYTES];
    dt_json one = dt_json_element(list);
    dt_json_text(&one, "picture", path);
    dt_json guesses = dt_json_list(&one, "classes");
    for (int k = 0; k < s->n_guess; k++) {
        dt_json guess = dt_json_element(&guesses);
        dt_json_text(&guess, "name", class_of(r, s->guess[k], class));
        dt_json_whole(&guess, "class", (uint64_t)s->guess[k]);
        dt_json_real(&guess, "share", s->share[k], 6);
        dt_json_leave(&guesses, &guess);
    }
    dt_json_leave(&one, &guesses);
    dt_json_leave(list, &one);
}

static dt_status check_weights(const dt_run *r, dt_err *err)
{
    if (r->s->opts.model.weights != NULL)
        return DT_OK;
    return DT_FAIL(err, DT_E_CONFIG,
        "no weights to classify with: name the folder of a run in place of CONFIG, or a file with "
        "--set model.weights=FILE");
}

static dt_status classify_all(dt_run *r, const dti_cli *cli, bool json, dt_err *err)
{
    dt_json list = dt_json_begin_list();
    dt_status st = check_weights(r, err);
    for (size_t i = 1; st == DT_OK && i < cli->n_word; i++) {
        dt_sample s;
        st = dt_run_classify(r, cli->word[i], &s, err);
        if (st == DT_OK && json)
            put_one(&list, r, cli->word[i], &s);
        else if (st == DT_OK)
            print_one(r, cli->word[i], &s);
    }
    if (st == DT_OK && json)
        return dti_json_out(&list, err);
    dt_json_drop(&list);
    return st;
}

static dt_status classify(const dti_command_args *a, dt_err *err)
{
    bool json = false;
    dt_run *r = NULL;
    dti_run_paths paths = {0};
    dti_cli cli;
    const dti_flag flags[] = {
        {"--json", NULL, "as a list of objects", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dt_status st = dti_cli_init(&cli, &dt_command_classify, a, flags, true, SIZE_MAX, err);
    if (st == DT_OK && !cli.help) {
        st = cli.n_word > 1 ? dti_cli_take_run(&cli, &paths, err)
                            : DT_FAIL(err, DT_E_CONFIG, "name a RUN and a PICTURE; usage: %s",
                                  dt_command_classify.usage);
        if (st == DT_OK)
            st = dti_cli_check_file(cli.word[0], err);
        if (st == DT_OK)
            st = dt_run_open(&r, cli.word[0], cli.set, cli.n_set, err);
        if (st == DT_OK && paths.run[0] != '\0')
            st = dt_run_take_classes(r, paths.run, err);
        if (st == DT_OK)
            st = classify_all(r, &cli, json, err);
        dt_run_close(r);
    }
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_classify = {
    .name = "classify",
    .usage = "dnntrain classify RUN|CONFIG PICTURE... [--set model.weights=FILE]... [--json]",
    .summary = "what a trained network takes pictures for, the likeliest classes first",
    .run = classify,
};
