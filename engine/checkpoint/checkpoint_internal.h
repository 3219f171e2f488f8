/* What the files of checkpoints share; besides them only their tests include this. checkpoint.c has
 * the folder, checkpoint_hold.c who reads one meanwhile, checkpoint_manifest.c and
 * checkpoint_state.c the files in it that are not weights, weights.c those that are. */
#ifndef DT_ENGINE_CHECKPOINT_CHECKPOINT_INTERNAL_H
#define DT_ENGINE_CHECKPOINT_CHECKPOINT_INTERNAL_H

#include <cjson/cJSON.h>

#include "engine/base/sha256.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/files.h"
#include "engine/checkpoint/weights.h"

enum { DTI_PATH_BYTES = 4096, DTI_MANIFEST_BYTES = 1 << 20 };

/* ---- manifest ---- */

typedef struct dti_file {
    uint64_t bytes;
    char sha[DT_SHA256_TEXT];
} dti_file;

typedef struct dti_manifest {
    int64_t step, epoch;
    dti_file model, state;
    size_t n_fact;
    dt_fact *fact; /* texts belong to json */
    cJSON *json;
} dti_manifest;

/* Everything but its own checksum. DT_E_DATA names what is missing or wrong; *m is then empty. */
dt_status dti_manifest_parse(
    dti_manifest *m, const char *name, const char *text, size_t n, dt_err *err) DT_NODISCARD;
void dti_manifest_deinit(dti_manifest *m);

/* Read the manifest of a checkpoint, its checksum included. */
dt_status dti_manifest_read(dti_manifest *m, const char *folder, dt_err *err) DT_NODISCARD;
/* The text of one that will be read again, for the file at @path; free() it, also after an error.
 * Of *m fact and json are not used. */
dt_status dti_manifest_text(char **text, size_t *n, const char *path, const dti_manifest *m,
    const dt_fact *facts, size_t n_facts, dt_err *err) DT_NODISCARD;
/* Write it; fact and json are not used. */
dt_status dti_manifest_write(const dti_manifest *m, const char *folder, const dt_fact *facts,
    size_t n_facts, dt_err *err) DT_NODISCARD;

/* ---- state ---- */

/* DT_E_CONFIG when a file could not list all of it. */
dt_status dti_state_check(const char *path, const dt_trained *t, dt_err *err) DT_NODISCARD;
/* All bytes of the file are added to @sum on their way. */
dt_status dti_state_save(const char *path, const dt_trained *t, const dt_course *c, dt_sha256 *sum,
    dt_err *err) DT_NODISCARD;
/* Looks at everything, then puts the optimizer state. @t NULL: the numbers only. */
dt_status dti_state_load(
    const char *path, const dt_trained *t, dt_course *c, dt_err *err) DT_NODISCARD;
/* Whether a home is saved with it. */
bool dti_is_state(const dt_trained *t, const dt_home *h);

/* ---- who reads it ---- */

/* Have pruning leave the folder @path where it is until it is let go.
 * DT_E_DATA when it is not there, or about to go. Where the file system knows no locks the folder
 * is as free as before. */
dt_status dti_hold(int *fd, const char *path, dt_err *err) DT_NODISCARD;
/* To remove it: false while somebody holds it. */
bool dti_hold_alone(int *fd, const char *path);
void dti_let_go(int *fd);

/* ---- the folder ---- */

/* FOLDER/NAME; DT_E_IO when that is too long for a path. */
dt_status dti_path(
    char to[DTI_PATH_BYTES], const char *folder, const char *name, dt_err *err) DT_NODISCARD;

#endif
