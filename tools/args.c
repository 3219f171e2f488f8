/* The arguments of a command: words, flags, --set, and files that are named. */
#include "tools/args.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/config/nearest.h"
#include "engine/config/run_options.h"
#include "session/idle_fates.h"
#include "session/open.h"
#include "session/run_dir.h"
#include "tools/terminal.h"

enum { MAX_FLAGS = 32, MAX_NAMES = 512, NAME_BYTES = 256, PATH_BYTES = 4096, FLAG_INDENT = 24 };

static const dti_command *const commands[] = {
#define DT_COMMAND(name) &dt_command_##name,
#include "tools/tools.def"
#undef DT_COMMAND
};

const dti_command *const *dti_command_all(size_t *n)
{
    *n = DT_COUNT(commands);
    return commands;
}

const dti_command *dti_command_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const char *const *dti_command_names(void)
{
    static const char *names[DT_COUNT(commands) + 1];
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(commands); i++)
        names[n++] = commands[i]->name[0] != '\0' ? commands[i]->name : "train";
    names[n] = NULL;
    return names;
}

/* --- flags --- */

typedef struct parser {
    dti_cli *out;
    const dti_command *cmd;
    const dti_command_args *a;
    const dti_flag *flags;
    dti_flag row[MAX_FLAGS + 3]; /* the command's, then those that all have */
    size_t n_row, max_words;
    bool sets;
    int at;
    dt_err *err;
} parser;

static int values_of(const dti_flag *f)
{
    int n = f->values != NULL ? 1 : 0;
    for (const char *s = f->values; s != NULL && *s != '\0'; s++)
        n += *s == ' ';
    return n;
}

static const char set_flag[] = "--set", help_flag[] = "--help";

static void all_rows(parser *p, bool sets)
{
    for (const dti_flag *f = p->flags; f != NULL && f->name != NULL; f++) {
        DT_ASSERT(p->n_row < MAX_FLAGS && values_of(f) <= DTI_FLAG_VALUES);
        p->row[p->n_row++] = *f;
    }
    if (sets)
        p->row[p->n_row++] = (dti_flag){.name = set_flag,
            .values = "SECTION.KEY=VALUE",
            .help = "replace what the file says; may be repeated"};
    p->row[p->n_row++] = (dti_flag){.name = help_flag, .help = "show this"};
}

static void print_help(const parser *p)
{
    dti_term_wrap(stdout, 0, 4, p->cmd->usage);
    printf("\n");
    dti_term_wrap(stdout, 0, 0, p->cmd->summary);
    printf("\n");
    for (size_t i = 0; i < p->n_row; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", p->row[i].name, p->row[i].values != NULL ? " " : "",
            p->row[i].values != NULL ? p->row[i].values : "");
        const int at = printf("  %-20s  ", left);
        dti_term_wrap(stdout, at, FLAG_INDENT, p->row[i].help);
    }
}

static dt_status unknown_flag(const parser *p, const char *name)
{
    const char *names[MAX_FLAGS + 3] = {NULL};
    for (size_t i = 0; i < p->n_row; i++)
        names[i] = p->row[i].name;
    const char *near = dt_nearest(name, names);
    const char *sub = p->cmd->name[0] != '\0' ? " " : "";
    char meant[NAME_BYTES];
    if (near != NULL)
        return DT_FAIL(p->err, DT_E_CONFIG, "unknown flag '%s'; did you mean '%s'?", name, near);
    if (strcmp(name, "--config") == 0)
        return DT_FAIL(p->err, DT_E_CONFIG,
            "unknown flag '--config'; a configuration is named without one: %s", p->cmd->usage);
    if (name[1] == '-' && p->sets && dt_run_options_meant(name + 2, meant, sizeof meant) != NULL)
        return DT_FAIL(p->err, DT_E_CONFIG,
            "unknown flag '%s'; keys of the configuration are set by --set %s=VALUE", name, meant);
    return DT_FAIL(p->err, DT_E_CONFIG, "unknown flag '%s'; `dnntrain%s%s --help` lists the flags",
        name, sub, p->cmd->name);
}

static dt_status take_values(parser *p, const dti_flag *f, const char *inner)
{
    const int n = values_of(f);
    if (inner != NULL && n != 1)
        return DT_FAIL(p->err, DT_E_CONFIG, "%s takes %s; leave out '=%s'", f->name,
            n == 0 ? "no value" : f->values, inner);
    for (int i = 0; i < n; i++) {
        if (inner == NULL && p->at >= p->a->n)
            return DT_FAIL(p->err, DT_E_CONFIG, "%s needs %s after it", f->name, f->values);
        const char *value = inner != NULL ? inner : p->a->arg[p->at++];
        if (f->name == set_flag)
            p->out->set[p->out->n_set++] = value;
        else if (f->value == NULL)
            p->out->again[p->out->n_again++] = value;
        else
            f->value[i] = value;
    }
    if (f->given != NULL)
        *f->given = true;
    if (f->name == help_flag)
        p->out->help = true;
    return DT_OK;
}

static dt_status take_flag(parser *p, const char *text)
{
    const char *inner = strchr(text, '=');
    const size_t n = inner != NULL ? (size_t)(inner - text) : strlen(text);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, text);
    if (strcmp(name, "-h") == 0)
        snprintf(name, sizeof name, "%s", help_flag);
    for (size_t i = 0; i < p->n_row; i++)
        if (strcmp(p->row[i].name, name) == 0)
            return take_values(p, &p->row[i], inner != NULL ? inner + 1 : NULL);
    return unknown_flag(p, name);
}

static dt_status parse(parser *p)
{
    bool flags = true;
    while (p->at < p->a->n) {
        const char *text = p->a->arg[p->at++];
        if (flags && strcmp(text, "--") == 0) {
            flags = false;
        } else if (flags && text[0] == '-' && text[1] != '\0') {
            DT_CHECK(take_flag(p, text));
        } else if (p->out->n_word == p->max_words) {
            return dti_cli_too_many(p->cmd, p->out, text, p->err);
        } else {
            p->out->word[p->out->n_word++] = text;
        }
    }
    if (p->out->help)
        print_help(p);
    return DT_OK;
}

dt_status dti_cli_too_many(
    const dti_command *cmd, const dti_cli *cli, const char *text, dt_err *err)
{
    char key[NAME_BYTES], meant[NAME_BYTES];
    const char *equals = strchr(text, '='), *last = cli->n_set > 0 ? cli->set[cli->n_set - 1] : "=";
    if (strchr(last, '=') == NULL) { /* the value behind it is a word, maybe the one before @text */
        const bool before =
            cli->n_word > 0 && access(text, F_OK) == 0 && access(cli->word[0], F_OK) != 0;
        const char *value = before ? cli->word[0] : text;
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is one argument too many; write --set %s=%s", value,
            last, value);
    }
    snprintf(key, sizeof key, "%.*s",
        equals != NULL && equals - text < NAME_BYTES ? (int)(equals - text) : 0, text);
    if (cli->sets && strchr(key, '.') != NULL)
        return DT_FAIL(
            err, DT_E_CONFIG, "'%s' is one argument too many; write --set %s", text, text);
    if (cli->sets && key[0] != '\0' && dt_run_options_meant(key, meant, sizeof meant) != NULL)
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is one argument too many; write --set %s%s", text,
            meant, equals);
    return DT_FAIL(err, DT_E_CONFIG, "'%s' is one argument too many; usage: %s", text, cmd->usage);
}

dt_status dti_cli_init(dti_cli *out, const dti_command *cmd, const dti_command_args *a,
    const dti_flag *flags, bool sets, size_t max_words, dt_err *err)
{
    *out = (dti_cli){.word = dt_alloc((size_t)a->n + 1, sizeof *out->word),
        .set = dt_alloc((size_t)a->n, sizeof *out->set),
        .again = dt_alloc((size_t)a->n, sizeof *out->again),
        .sets = sets};
    if (out->word == NULL || out->set == NULL || out->again == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for the arguments");
    parser p = {.out = out,
        .cmd = cmd,
        .a = a,
        .flags = flags,
        .max_words = max_words,
        .sets = sets,
        .err = err};
    all_rows(&p, sets);
    return parse(&p);
}

void dti_cli_deinit(dti_cli *a)
{
    dt_free(a->word);
    dt_free(a->set);
    dt_free(a->again);
    *a = (dti_cli){0};
}

/* --- files --- */

/* Names in a folder, as far as they fit. */
static size_t folder_names(const char *folder, char (*to)[NAME_BYTES], const char **names)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    if (d == NULL)
        return 0;
    for (const struct dirent *e; n < MAX_NAMES && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(to[n], NAME_BYTES, "%s", e->d_name);
            names[n] = to[n];
            n++;
        }
    closedir(d);
    return n;
}

/* The shortest name that goes on where @base has its suffix: lenet.ini means lenet5_mnist.ini. */
static const char *longer_name(const char *base, const char *const *names)
{
    const char *dot = strrchr(base, '.'), *best = NULL;
    const size_t stem = dot != NULL ? (size_t)(dot - base) : 0;
    for (; *names != NULL && stem > 0; names++) {
        const char *end = strrchr(*names, '.');
        if (strncmp(*names, base, stem) == 0 && end != NULL && strcmp(end, dot) == 0 &&
            (best == NULL || strlen(*names) < strlen(best)))
            best = *names;
    }
    return best;
}

static dt_status missing(const char *path, dt_err *err)
{
    char folder[PATH_BYTES] = ".";
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const int to_slash = slash != NULL ? (int)(slash - path) + 1 : 0;
    if (to_slash > 0)
        snprintf(folder, sizeof folder, "%.*s", to_slash, path);
    char config[PATH_BYTES];
    if (*base != '\0' && dt_session_in_configs(base, config, sizeof config))
        return DT_FAIL(err, DT_E_CONFIG, "there is no file '%s'; did you mean '%s'?", path, config);
    char(*text)[NAME_BYTES] = dt_alloc(MAX_NAMES, NAME_BYTES);
    const char **names = dt_alloc(MAX_NAMES + 1, sizeof *names);
    const char *near = NULL;
    if (text != NULL && names != NULL && folder_names(folder, text, names) > 0)
        near = longer_name(base, names);
    if (near == NULL && names != NULL)
        near = dt_nearest(base, names);
    const dt_status st =
        near != NULL
            ? DT_FAIL(err, DT_E_CONFIG, "there is no file '%s'; did you mean '%.*s%s'?", path,
                  to_slash, path, near)
            : DT_FAIL(err, DT_E_CONFIG, "there is no file '%s'; name one that exists", path);
    dt_free(names);
    dt_free(text);
    return st;
}

/* Whether a folder is that of a run. */
static bool is_run(const char *path)
{
    char inner[PATH_BYTES];
    struct stat st;
    const int n = snprintf(inner, sizeof inner, "%s/" DT_CHECKPOINTS, path);
    return n > 0 && (size_t)n < sizeof inner && stat(inner, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Some of the configurations in a folder, or what else to name. */
static dt_status a_folder(const char *path, dt_err *err)
{
    enum { SOME = 4 };
    if (is_run(path))
        return DT_FAIL(err, DT_E_CONFIG,
            "'%s' is a run: `dnntrain %s --resume` goes on with it, `dnntrain eval %s` evaluates "
            "it; its configuration is '%s/" DT_RUN_CONFIG "'",
            path, path, path, path);
    if (access(path, R_OK | X_OK) != 0)
        return DT_FAIL(err, DT_E_CONFIG, "'%s': %s", path, strerror(errno));
    char(*text)[NAME_BYTES] = dt_alloc(MAX_NAMES, NAME_BYTES);
    const char **names = dt_alloc(MAX_NAMES + 1, sizeof *names);
    char some[SOME * (NAME_BYTES + 8)] = "";
    size_t found = 0, at = 0;
    const size_t n = text != NULL && names != NULL ? folder_names(path, text, names) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *end = strrchr(names[i], '.');
        if (end != NULL && strcmp(end, ".ini") == 0 && found++ < SOME)
            at +=
                (size_t)snprintf(some + at, sizeof some - at, "%s%s", at > 0 ? ", " : "", names[i]);
    }
    dt_free(names);
    dt_free(text);
    if (found == 0)
        return DT_FAIL(
            err, DT_E_CONFIG, "'%s' is a folder; name a configuration, which is a file", path);
    if (found == 1)
        return DT_FAIL(
            err, DT_E_CONFIG, "'%s' is a folder; did you mean '%s/%s'?", path, path, some);
    return DT_FAIL(err, DT_E_CONFIG,
        "'%s' is a folder; name one of the %zu configurations in it: %s%s", path, found, some,
        found > SOME ? ", ..." : "");
}

dt_status dti_cli_check_data(const char *path, const char *what, dt_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return DT_FAIL(err, DT_E_CONFIG, "'%s' is a folder; name %s, which is a file", path, what);
    return dti_cli_check_file(path, err);
}

dt_status dti_cli_check_file(const char *path, dt_err *err)
{
    struct stat st;
    const bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return a_folder(path, err);
    if (there || (errno != ENOENT && errno != ENOTDIR))
        return DT_OK;
    return missing(path, err);
}

void dti_cli_notice(const char *line)
{
    dti_term_say("%s", line);
}

/* One program is searched for again and again, with other homes for what lives on and for other
 * policies. */
void dti_cli_notice_once(const char *line)
{
    static char last[160];
    if (strcmp(line, last) == 0)
        return;
    snprintf(last, sizeof last, "%s", line);
    dti_cli_notice(line);
}

void dti_cli_watch(dt_session *s)
{
    s->notice = dti_cli_notice;
    s->searching =
        dti_terminal_of(stderr).tty ? dti_cli_notice_once : NULL; /* logs are read later */
}

void dti_cli_notice_line(const char *line)
{
    dti_term_say("%.*s", (int)strcspn(line, "\n"), line);
}

const char *dti_cli_next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

void dti_cli_listen(dt_session *s)
{
    dti_cli_watch(s);
    for (const char *line = s->note; *line != '\0'; line = dti_cli_next_line(line))
        dti_cli_notice_line(line);
}

void dti_cli_no_card(const dt_session *s)
{
    const char *line = dt_session_no_card(s);
    if (line != NULL)
        dti_cli_notice_once(line);
}

static void tell(void *self, const char *line)
{
    (void)self;
    dti_cli_notice(line);
}

dt_status dti_cli_idle_fates(const dt_session *s, dt_err *err)
{
    return dt_session_idle_fates(s, &(dt_teller){NULL, tell}, err);
}

const char *const dti_short_run[DTI_SHORT_RUN] = {
    "train.epochs=0", "train.eval_every=0", "train.patience=0"};

dt_status dti_cli_session(
    dt_session **out, const char *path, const char *const *sets, size_t n_sets, dt_err *err)
{
    const dt_status st = dt_session_open(out, path, sets, n_sets, err);
    if (st == DT_OK)
        dti_cli_listen(*out);
    return st;
}

void dti_cli_print_device(const dt_session *s, bool device, bool precision)
{
    const dt_card *card = s->context.card;
    if (device)
        printf("device %s%s%s", dt_device_name(s->context.device), card != NULL ? ": " : "",
            card != NULL ? card->title : "");
    if (precision)
        printf("%sprecision %s", device ? "   " : "", dt_session_precision(s));
    if (device || precision)
        putchar('\n');
}
