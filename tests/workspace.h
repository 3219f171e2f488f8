/* A folder in which tests run the program, and proof that a run has changed nothing there. It holds
 * "older", a finished run that no later one may touch. */
#ifndef DT_TESTS_WORKSPACE_H
#define DT_TESTS_WORKSPACE_H

#include <stdbool.h>

/* Path in the workspace; like dt_temp_path, good for a few calls. The first call makes the
 * workspace, and everything runs in it from then on. */
const char *in_workspace(const char *below);

/* The folders above it are made. */
void put_text(const char *below, const char *text);

bool is_there(const char *below);
void remove_all(const char *below); /* a file, or a folder with all it holds */

/* What stands below: kind, size, contents (as a checksum) and target of everything, sorted by name,
 * a line each; dt_free it. Fails on a temporary file of the program. */
char *snapshot(const char *below);

/* Compares, showing both, and frees @before. */
void assert_unchanged(char *before, const char *below);

#endif
