/* dnntrain config: whether a configuration is right, and what it comes to, without planning. */
#include <stdio.h>

#include "session/open.h"
#include "tools/args.h"

/* Opening a session reads, binds and checks every key, and builds the network. */
static dt_status look(const dti_cli *cli, const char *path, bool quiet, dt_err *err)
{
    dt_session *s = NULL;
    DT_CHECK(dti_cli_check_file(path, err));
    const dt_status st = dti_cli_session(&s, path, cli->set, cli->n_set, err);
    if (st == DT_OK && quiet)
        printf("%s: all keys and layers are right: %s, %zu layers\n", path, s->graph->name,
            s->graph->n_node);
    else if (st == DT_OK)
        dt_config_dump(s->config, stdout);
    dt_session_close(s);
    return st;
}

static dt_status config(const dti_command_args *a, dt_err *err)
{
    const char *check = NULL;
    const dti_flag flags[] = {
        {"--check", "FILE", "say whether it is right, and where it is not", NULL, &check},
        {NULL, NULL, NULL, NULL, NULL},
    };
    dti_cli cli;
    dt_status st = dti_cli_init(&cli, &dt_command_config, a, flags, true, 1, err);
    if (st == DT_OK && !cli.help && (check != NULL) == (cli.n_word > 0))
        st = DT_FAIL(err, DT_E_CONFIG, "name one CONFIG, with --check or without; usage: %s",
            dt_command_config.usage);
    if (st == DT_OK && !cli.help)
        st = look(&cli, check != NULL ? check : cli.word[0], check != NULL, err);
    dti_cli_deinit(&cli);
    return st;
}

const dti_command dt_command_config = {
    .name = "config",
    .usage = "dnntrain config CONFIG|--check FILE [--set s.k=v]...",
    .summary = "all keys as a run would take them, or whether they are right",
    .run = config,
};
