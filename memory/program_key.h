/* What a plan and its seconds depend on, of a program: two that searches of one network come to are
 * the same when these are. */
#ifndef DT_MEMORY_PROGRAM_KEY_H
#define DT_MEMORY_PROGRAM_KEY_H

#include "engine/base/sha256.h"
#include "engine/program/program.h"

/* Add to a sum: the order, its ops, all tensors and the alternatives. Not: graph, map, device and
 * table of algorithms, which are the same for all programs of a search, and reasons. */
void dti_program_key(const dt_program *p, dt_sha256 *sum);

#endif
