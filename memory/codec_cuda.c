/* The codecs' kernels by name, and the op that packs a value and unpacks it, on a CUDA device. A
 * codec without a file NAME_cuda.cu has no kernels. */
#include <string.h>

#include "engine/cuda/cuda.h"
#include "memory/codec_op.h"

#define DT_CODEC(n) extern const dt_cuda_codec dt_cuda_codec_##n __attribute__((weak));
#include "memory/codecs/codecs.def"
#undef DT_CODEC

#define DT_CODEC(n) {#n, &dt_cuda_codec_##n},
static const struct entry {
    const char *name;
    const dt_cuda_codec *codec;
} table[] = {
#include "memory/codecs/codecs.def"
};
#undef DT_CODEC

const dt_cuda_codec *dt_cuda_codec_find(const char *name)
{
    for (size_t i = 0; i < DT_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].codec;
    return NULL;
}

/* Packed bytes that were damaged on the device have the step discarded, as those that did not fit.
 */
static dt_status run(const dt_call *c, void *state, const dt_args *a, dt_err *err)
{
    const dt_cuda_codec *k = dt_cuda_codec_find(c->codec->name);
    const size_t count = (size_t)c->count;
    (void)state;
    if (k == NULL)
        return DT_FAIL(err, DT_E_DEVICE, "codec '%s' has no cuda kernels", c->codec->name);
    if (c->form == DT_BACKWARD)
        return k->decode(
            a->port[DT_X], c->packed, a->port[DT_Y], count, a->overflow, a->queue, err);
    if (k->encode_samples == NULL)
        return k->encode(
            a->port[DT_X], count, a->port[DT_Y], c->packed, a->overflow, a->queue, err);
    const dt_rounding by = dti_rounding_of(c, a);
    return k->encode_samples(
        a->port[DT_X], count, &by, a->port[DT_Y], c->packed, a->overflow, a->queue, err);
}

extern const dt_kernels dt_codec_cuda;
const dt_kernels dt_codec_cuda = {.run = run};
