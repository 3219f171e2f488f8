/* Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174, algorithm 1 and
 * section 4.3: cut the network into about sqrt(n) segments, keep only the value at each cut, and
 * run each segment's forward again when backward comes to it. What is kept and what one segment
 * needs are then both of size sqrt(n), for one more forward at most.
 *
 * Every sqrt(|C|)-th of the split points C is kept, as in Checkmate's version of this rule
 * (Jain et al., MLSys 2020, appendix B). Ours differs from the paper in three things. Split points
 * are found, not given: values that alone cross from what is before them to what comes after. Only
 * values that backward reads anyway are split points. What follows the last value kept is not
 * dropped: backward begins with it, so running it again would lower no peak. Where split points are
 * far apart, as in U-Net, whose halves are joined by four values beside the one at the bottom, any
 * value may be kept with all that is read across it: Checkmate's linearised candidates.
 *
 * With root = values as many are kept as OpenAI's release of 2018 keeps for TensorFlow
 * (cybertronai/gradient-checkpointing, "memory"): every |C| / sqrt(n)-th, rounded up, n being all
 * values that backward reads. Where split points are few among these, as in residual networks,
 * segments are shorter. */
#include <math.h>

#include "engine/base/alloc.h"
#include "memory/policies/chen.h"
#include "memory/policy.h"

typedef struct options {
    int cuts, root;
} options;

enum { OF_CUTS, OF_VALUES };

static const char *const roots[] = {"cuts", "values", NULL};

#define AT(f) offsetof(options, f)
/* clang-format off */
static const dt_opt opts[] = {
    {"cuts", DT_OPT_ENUM, AT(cuts), "auto", 0, 0, dti_chen_cuts_names, NULL, "where the network may be cut; points: where a single value crosses; linear: after any value, and all that cross are kept; auto: points, or linear if those leave over half of the bytes in one segment"},
    {"root", DT_OPT_ENUM, AT(root), "cuts", 0, 0, roots,               NULL, "number whose square root is the number of segments; cuts: of places where the network may be cut; values: of values that backward reads, which makes more segments"},
    {NULL,   DT_OPT_I64,  0,        NULL,   0, 0, NULL,                NULL, NULL},
};
/* clang-format on */

static size_t distance(const dti_chen *c, int root)
{
    size_t n = 0;
    if (root == OF_CUTS)
        return (size_t)sqrt((double)c->n_split);
    for (size_t i = 0; i < c->n; i++)
        n += c->value[i].read_back;
    return (size_t)ceil((double)c->n_split / sqrt((double)n));
}

static void keep_every(const dti_chen *c, size_t every, bool *keep)
{
    size_t seen = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->value[i].split)
            keep[i] = ++seen % every == 0;
}

static dt_status chen_sqrt(dt_program *p, const dt_pass_env *env, dt_err *err)
{
    dti_chen c;
    const options *o = env->opts;
    dt_status st = dti_chen_open(&c, p, err);
    if (st == DT_OK)
        (void)dti_chen_cut(&c, (dti_chen_cuts)o->cuts);
    bool *keep = st == DT_OK ? dt_alloc(c.n + 1, sizeof *keep) : NULL;
    if (st == DT_OK && keep == NULL)
        st = dti_pass_no_memory(err);
    if (st == DT_OK && c.n_split > 0) {
        keep_every(&c, distance(&c, o->root), keep);
        st = dti_chen_keep(&c, keep, err);
        if (st == DT_OK)
            st = dti_chen_rewrite(&c, err);
    }
    dt_free(keep);
    dti_chen_close(&c);
    return st;
}

const dt_policy dt_policy_chen_sqrt = {
    .name = "chen_sqrt",
    .summary = "keep sqrt(n) values, run the segments between them again (Chen 2016)",
    .exact = true,
    .opts = opts,
    .opts_bytes = sizeof(options),
    .pass = chen_sqrt,
};
