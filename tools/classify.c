/* dnntrain classify: what a trained network takes pictures for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/alloc.h"
#include "engine/base/text.h"
#include "session/run.h"
#include "tools/json_out.h"
#include "tools/mask.h"
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

/* @mask: the file that it was written to; "": none */
static void put_one(
    dt_json *list, const dt_run *r, const char *path, const dt_sample *s, const char *mask)
{
    char class[CLASS_BYTES];
    dt_json one = dt_json_element(list);
    dt_json_text(&one, "picture", path);
    if (mask[0] != '\0')
        dt_json_text(&one, "mask", mask);
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

/* Nothing is in the way of any mask; before one is written. */
static dt_status check_masks(const dt_run *r, const dti_cli *cli, const char *folder, dt_err *err)
{
    char path[DTI_MASK_PATH];
    if (folder == NULL)
        return DT_OK;
    if (r->s->graph->classes > DTI_MASK_CLASSES)
        return DT_FAIL(err, DT_E_CONFIG,
            "--masks: a mask tells %d classes apart, and the network %lld", DTI_MASK_CLASSES,
            (long long)r->s->graph->classes);
    for (size_t i = 1; i < cli->n_word; i++) {
        DT_CHECK(dti_mask_path(path, folder, cli->word[i], err));
        for (size_t k = 1; k < i; k++)
            if (dti_mask_alike(cli->word[k], cli->word[i]))
                return DT_FAIL(err, DT_E_CONFIG,
                    "the masks of '%s' and '%s' would both be '%s'; classify them by themselves, "
                    "with another folder for --masks",
                    cli->word[k], cli->word[i], path);
    }
    return DT_OK;
}

/* The folder is made for the first, so that a refusal leaves none. */
static dt_status write_mask(char path[DTI_MASK_PATH], const char *folder, const char *picture,
    const dt_mask *m, dt_err *err)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return DT_FAIL(err, DT_E_IO, "make folder '%s': %s", folder, strerror(errno));
    DT_CHECK(dti_mask_path(path, folder, picture, err));
    return dti_mask_write(path, m, err);
}

/* @mask: where it was written; "": nowhere */
static dt_status classify_one(dt_run *r, const char *picture, const char *folder, dt_sample *s,
    char mask[DTI_MASK_PATH], dt_err *err)
{
    dt_mask m = {0};
    mask[0] = '\0';
    dt_status st = dt_run_classify(r, picture, s, folder != NULL ? &m : NULL, err);
    if (st == DT_OK && folder != NULL)
        st = write_mask(mask, folder, picture, &m, err);
    dt_free(m.class);
    return st;
}

static dt_status classify_all(
    dt_run *r, const dti_cli *cli, const char *folder, bool json, dt_err *err)
{
    char mask[DTI_MASK_PATH];
    dt_json list = dt_json_begin_list();
    dt_status st = check_weights(r, err);
    if (st == DT_OK)
        st = check_masks(r, cli, folder, err);
    for (size_t i = 1; st == DT_OK && i < cli->n_word; i++) {
        dt_sample s;
        st = classify_one(r, cli->word[i], folder, &s, mask, err);
        if (st == DT_OK && json)
            put_one(&list, r, cli->word[i], &s, mask);
        else if (st == DT_OK)
            print_one(r, cli->word[i], &s);
    }
    if (st == DT_OK && json)
        return dti_json_out(&list, err);
    dt_json_drop(&list);
    return st;
}

typedef struct classify_flags {
    bool json;
    const char *masks;
} classify_flags;

static dt_status ask(
    const dti_cli *cli, const dti_run_paths *paths, const classify_flags *f, dt_err *err)
{
    dt_run *r = NULL;
    dt_status st = dt_run_open(&r, cli->word[0], cli->set, cli->n_set, err);
    if (st == DT_OK && paths->run[0] != '\0')
        st = dt_run_take_classes(r, paths->run, err);
    if (st == DT_OK)
        st = classify_all(r, cli, f->masks, f->json, err);
    dt_run_close(r);
    return st;
}

/* Pictures are files, and the shell lists those of a folder. */
static dt_status check_pictures(const dti_cli *cli, dt_err *err)
{
    struct stat st;
    for (size_t i = 1; i < cli->n_word; i++)
        if (stat(cli->word[i], &st) == 0 && S_ISDIR(st.st_mode))
            return DT_FAIL(err, DT_E_CONFIG,
                "'%s' is a folder; name pictures, as %s/* does, or %s/*/* where there is a folder "
                "a class",
                cli->word[i], cli->word[i], cli->word[i]);
    return DT_OK;
}

static dt_status classify(const dti_command_args *a, dt_err *err)
{
    classify_flags f = {0};
    dti_run_paths paths = {0};
    dti_cli cli;
    const dti_flag flags[] = {
        {"--json", NULL, "as a list of objects", &f.json, NULL},
        {"--masks", "FOLDER", "write the class of each pixel, a PNG a picture", NULL, &f.masks},
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
            st = check_pictures(&cli, err);
        if (st == DT_OK)
            st = ask(&cli, &paths, &f, err);
    }
    dti_run_paths_deinit(&paths);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_classify = {
    .name = "classify",
    .usage = "dnntrain classify RUN|CONFIG PICTURE... [--set model.weights=FILE]... [--json] "
             "[--masks FOLDER]",
    .summary = "what a trained network takes pictures for, the likeliest classes first",
    .run = classify,
};
