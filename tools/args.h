/* The arguments of a subcommand: words, flags, and --set assignments. One table of flags drives
 * parsing and `dnntrain SUBCOMMAND --help`. Flags and words may be mixed; "--flag=value" and "--"
 * are known. */
#ifndef DT_TOOLS_ARGS_H
#define DT_TOOLS_ARGS_H

#include "session/session.h"
#include "tools/tools.h"

enum { DTI_FLAG_VALUES = 2 };

/**
 * struct dti_flag - a flag.
 * @name:   "--json"
 * @values: what follows it, for people: "FILE" or "A B"; NULL: nothing
 * @help:   one line
 * @given:  set to true when it is there; may be NULL
 * @value:  where the words after it go, one pointer for each word of @values; NULL of one word: the
 *          flag may be repeated, and all of its words go to the dti_cli's @again; one a command
 *
 * A table ends with a row whose name is NULL.
 */
typedef struct dti_flag {
    const char *name, *values, *help;
    bool *given;
    const char **value;
} dti_flag;

/**
 * struct dti_cli - what was given.
 * @help: --help was there and has been answered: the command is done
 * @sets: whether --set is allowed
 * @set:  its assignments, in order
 * @again: the words of the command's own flag that may be repeated, in order
 *
 * All strings are borrowed from the command line.
 */
typedef struct dti_cli {
    bool help, sets;
    size_t n_word, n_set, n_again;
    const char **word, **set, **again;
} dti_cli;

/* Read the arguments of @cmd. @sets: whether --set is allowed; @max_words: how many words there may
 * be; too few is for the caller to say. DT_E_CONFIG names what is wrong, and
 * the nearest flag. Release with dti_cli_deinit even after a failure. */
dt_status dti_cli_init(dti_cli *out, const dti_command *cmd, const dti_command_args *a,
    const dti_flag *flags, bool sets, size_t max_words, dt_err *err) DT_NODISCARD;
void dti_cli_deinit(dti_cli *a);

/* DT_E_CONFIG: the word @text has no place; where it is an assignment, how it is written. */
dt_status dti_cli_too_many(
    const dti_command *cmd, const dti_cli *cli, const char *text, dt_err *err) DT_NODISCARD;

/* On stderr, behind the program's name: a line; and a session's note, and what it will say. */
void dti_cli_notice(const char *line);
void dti_cli_notice_line(const char *line); /* the first of several, which a newline ends */
/* Behind that one; the end where there is none. */
const char *dti_cli_next_line(const char *line);
void dti_cli_notice_once(const char *line); /* that is not the last one of these again */
void dti_cli_listen(dt_session *s);
void dti_cli_no_card(const dt_session *s); /* a notice of dt_session_no_card, if it says anything */
/* Only what it will say: a search that takes long to a terminal, whose owner waits for it. */
void dti_cli_watch(dt_session *s);

/* And of its [memory.layers] the lines that save nothing. */
dt_status dti_cli_idle_fates(const dt_session *s, dt_err *err) DT_NODISCARD;

/* Open a session that tells on stderr when it plans for long. */
dt_status dti_cli_session(dt_session **out, const char *path, const char *const *sets,
    size_t n_sets, dt_err *err) DT_NODISCARD;

/* Of a run of some steps: no epochs, and no evaluations that could be waited for. */
enum { DTI_SHORT_RUN = 3 };
extern const char *const dti_short_run[DTI_SHORT_RUN]; /* SECTION.KEY=VALUE */

/* "device cuda: H200   precision bf16" on stdout, of these what is asked for, and the line's end.
 */
void dti_cli_print_device(const dt_session *s, bool device, bool precision);

/* DT_E_CONFIG with the nearest name in the same folder when there is no such file; DT_OK otherwise.
 */
dt_status dti_cli_check_file(const char *path, dt_err *err) DT_NODISCARD;

/* The same of a file that is no configuration: @what it is, as in "a graph of ops". */
dt_status dti_cli_check_data(const char *path, const char *what, dt_err *err) DT_NODISCARD;

/* Every command, for help and suggestions, in the order of tools.def; NULL when there is none of
 * the name. */
const dti_command *const *dti_command_all(size_t *n);
const dti_command *dti_command_find(const char *name);
const char *const *dti_command_names(void); /* NULL-terminated, for dt_nearest */

#endif
