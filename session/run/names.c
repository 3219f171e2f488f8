/* What classes and tokens are called: as the run has written down that learned them, else as the
 * data calls them. */
#define _GNU_SOURCE /* realpath */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/weights.h"
#include "session/run/run_internal.h"

static bool is_text(const dt_session *s)
{
    return strcmp(s->opts.data.source, dt_source_text.name) == 0;
}

dt_status dt_run_take_classes(dt_run *r, const char *folder, dt_err *err)
{
    const size_t room = strlen(folder) + sizeof "/" DT_RUN_CLASSES;
    char *path = dt_alloc(room, 1);
    if (path == NULL)
        return DT_FAIL(err, DT_E_NOMEM, "no memory for a file name");
    snprintf(path, room, "%s/" DT_RUN_CLASSES, folder);
    dt_status st = DT_OK;
    if (access(path, F_OK) == 0) {
        dt_class_names_deinit(&r->names);
        st = dt_class_names_read(&r->names, path, r->s->graph->classes, is_text(r->s), err);
    }
    dt_free(path);
    return st;
}

const char *dt_run_class(const dt_run *r, int32_t label)
{
    if (r->names.n > 0)
        return dt_class_names_of(&r->names, label);
    const dt_source *s = r->feeds.train;
    return s != NULL && s->desc->class_name != NULL ? s->desc->class_name(s, label) : NULL;
}

/* The run that a file of weights is of, by where it lies: among its checkpoints, or in one of them,
 * whose folder the first call cuts off. NULL: of none. free() it. */
static char *run_of_weights(const char *path)
{
    char *folder = realpath(path, NULL);
    const char *file = folder != NULL ? strrchr(folder, '/') : NULL;
    if (file == NULL || strcmp(file + 1, DT_CHECKPOINT_MODEL) != 0 ||
        !(dt_run_dir_of_checkpoint(folder) || dt_run_dir_of_checkpoint(folder))) {
        free(folder);
        return NULL;
    }
    return folder;
}

dt_status dti_run_take_learned(dt_run *r, const char *fresh, dt_err *err)
{
    const dt_session *s = r->s;
    if (s->opts.model.weights == NULL || dt_graph_label_kind(s->graph) != DT_LABEL_CLASS ||
        dt_weights_name_anew(s->graph, fresh))
        return DT_OK;
    char *run = run_of_weights(s->opts.model.weights);
    const dt_status st = run != NULL ? dt_run_take_classes(r, run, err) : DT_OK;
    free(run);
    return st;
}

dt_status dti_run_check_learned(dt_run *r, const dt_source *source, const char *fresh, dt_err *err)
{
    char asked[DT_ASKED];
    dt_status st = dti_run_take_learned(r, fresh, err);
    if (st == DT_OK)
        st = dt_class_names_check(&r->names, source, err);
    if (st == DT_E_DATA)
        (void)DT_FAIL(err, st, "%s%s", dt_session_asked(asked, r->s, "model", "weights"),
            is_text(r->s) ? ""
                          : "; or begin with another head: model.fresh names the weights of the "
                            "last layer, as fc.*");
    return st;
}
