/* The folder of a run, or of one of its checkpoints, in the place of a configuration. */
#ifndef DT_TOOLS_OF_RUN_H
#define DT_TOOLS_OF_RUN_H

#include "session/run_dir.h"
#include "tools/args.h"

enum { DTI_RUN_PATH = 4096 };

/* "FOLDER/config.ini", when there is such a file: the configuration of the run in that folder; and
 * of the run of which the folder is a checkpoint. */
bool dti_config_of_run(const char *folder, char to[DTI_RUN_PATH]);
bool dti_config_of_checkpoint(const char *folder, char to[DTI_RUN_PATH]);

/* What such a folder stands for; texts that a dti_cli has borrowed. @run: the folder of the run;
 * "": the word was something else. */
typedef struct dti_run_paths {
    char run[DTI_RUN_PATH], config[DTI_RUN_PATH], weights[DTI_RUN_PATH];
    int64_t step; /* after which the weights were saved; -1: not told, or not of the run */
    struct dt_checkpoint *held; /* that they are of, which no run prunes meanwhile; NULL: none */
} dti_run_paths;

/* Where the first word is such a folder: the run's configuration takes the word's place, and unless
 * --set names weights, these come before all that --set says: of a checkpoint its own; of a run
 * those that it left at its end, or those of its newest whole checkpoint where that is further,
 * which is told.
 * @keep: empty; as long as @cli, then dti_run_paths_deinit. DT_E_CONFIG where weights are wanted
 * and there are none, DT_E_DATA where checkpoints are damaged; DT_OK, and nothing done, where the
 * word is something else. */
dt_status dti_cli_take_run(dti_cli *cli, dti_run_paths *keep, dt_err *err) DT_NODISCARD;
void dti_run_paths_deinit(dti_run_paths *p);

/* "loss 0.123 after step 1,200" */
enum { DTI_BEST_TEXT = 80 };
const char *dti_best_text(char to[DTI_BEST_TEXT], const dt_run_best *b);
/* The best evaluation of the run whose last weights were taken, where those are others and a
 * checkpoint of it is there; a step of 0: it is not so. */
dt_run_best dti_better_than(const dti_run_paths *p);

#endif
