/* The network of docs/design.md that is worked out by hand, conv1 - bn1 - relu1 - conv2 - loss,
 * with kernels whose facts are fixed, so that its plans are the same on every machine. Its ops
 * cannot run. */
#ifndef DT_TESTS_TOY_H
#define DT_TESTS_TOY_H

#include "engine/program/program.h"

/* Batch 2 of 8x8x3 images; conv1 3x3 to 4 channels, conv2 8x8 to 10 classes. In bytes: x 1536;
 * conv1.y, bn1.y and relu1.y 2048 each, as are their gradients; bn1.mean and bn1.istd 16; conv2.y,
 * loss.prob and d.conv2 80; labels 8. */
typedef struct dt_toy {
    dt_graph *graph;
    dt_map *map;
    dt_program *first;
} dt_toy;

/* @derived: convolutions want their weight in other layouts than it lives in (256 bytes), and
 * scratch of 32 bytes a sample. */
dt_toy dt_toy_open(bool derived);
void dt_toy_close(dt_toy *t);

int32_t dt_toy_op(
    const dt_program *p, const char *name); /* in the order; fails the test if there is none */
int32_t dt_toy_tensor(const dt_program *p, const char *name); /* likewise */

#endif
