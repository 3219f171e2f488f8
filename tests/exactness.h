/* Whether a way of training leaves the bits that keep_all leaves. */
#ifndef DT_TESTS_EXACTNESS_H
#define DT_TESTS_EXACTNESS_H

#include <stdint.h>

/* What a way of training is made of; each factor has levels 0, 1, ... */
typedef enum dt_factor {
    DT_BY_NETWORK,
    DT_BY_POLICY,    /* exact policies, some one after the other, and fates of [memory.layers] */
    DT_BY_TIER,      /* host, disk */
    DT_BY_COPY,      /* inline, threads */
    DT_BY_DELAY,     /* none, random; nothing without copy threads or disk */
    DT_BY_MICRO,     /* micro-batches of a step: 1, 2 */
    DT_BY_FUSE,      /* off, on */
    DT_BY_PRECISION, /* fp32, bf16; where the processor has AVX-512 */
    DT_BY_ROOMS,     /* of layers with several ways: the fastest, the smallest, both mixed */
    DT_FACTORS
} dt_factor;

typedef struct dt_way {
    int level[DT_FACTORS];
    uint64_t seed; /* of the delays and of the pool */
} dt_way;

int dt_levels(dt_factor f);

/* More networks follow those levels: level dt_levels(DT_BY_NETWORK) + i, of so many. */
int dt_wide_networks(void);
const char *dt_level_name(dt_factor f, int level);

/* What one run showed. */
typedef struct dt_exactness {
    uint64_t peak, kept_peak, moved; /* bytes; moved in all runs of all plans */
    int reruns;                      /* steps whose packed values did not fit */
} dt_exactness;

/* Train some steps and compare parameters, optimizer state, buffers and metrics with keep_all's of
 * the same network, micro-batches, fusion, precision and table of algorithms; and what each plan
 * takes with what it says. Fails the test with the tensor's name. What keep_all leaves is kept
 * until dt_exactness_end.
 */
dt_exactness dt_assert_exact(const dt_way *w);
void dt_exactness_end(void);

/* "vgg11, vdnn_all, disk, ..." */
void dt_way_text(const dt_way *w, char *to, int bytes);

#endif
