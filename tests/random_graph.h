/* Small networks at random, the same for the same seed: chains with branches, values read by
 * several layers, cheap layers mostly, since preparing a convolution takes milliseconds. */
#ifndef DT_TESTS_RANDOM_GRAPH_H
#define DT_TESTS_RANDOM_GRAPH_H

#include "engine/graph.h"

/* Numbers for tests, from a counter. */
typedef struct dt_dice {
    uint64_t seed, rolled;
} dt_dice;

uint32_t dt_roll(dt_dice *d, uint32_t below);         /* [0, below) */
int64_t dt_roll_in(dt_dice *d, int64_t a, int64_t b); /* [a, b] */

/* A network with one loss; a failure fails the test. The caller owns it. */
dt_graph *dt_random_graph(uint64_t seed);

/* How often the most read value of the network is read. */
int dt_most_readers(const dt_graph *g);

#endif
