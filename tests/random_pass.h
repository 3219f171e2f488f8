/* A policy that no one would want: legal alternatives, moves, clones and splits, at random. What
 * memory policies are made of must hold under any use of it. */
#ifndef DT_TESTS_RANDOM_PASS_H
#define DT_TESTS_RANDOM_PASS_H

#include "memory/pass.h"

/* How many of each were made. Refetches bring an input again; clones are the ops that recomputes
 * inserted; disk, packed and encoded moves are among the moves. */
typedef struct dt_fates {
    int64_t moves, refetches, recomputes, clones, alternatives, splits, encodes;
    int64_t disk_moves, packed_moves, encoded_moves;
} dt_fates;

/* Adds to *f. What a primitive refuses with DT_E_CONFIG is not counted; any other failure is handed
 * on. */
dt_status dt_random_pass(dt_program *p, uint64_t seed, dt_fates *f, dt_err *err) DT_NODISCARD;

#endif
