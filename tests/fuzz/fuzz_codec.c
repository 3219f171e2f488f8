/* The contract of decoding: values or a message, never both, no byte outside the buffers; what one
 * codec takes, it packs again, and an exact one then gives the same values. Of the input, byte 0
 * names the codec and the next two the number of values. */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/codec.h"
#include "tests/fuzz/fuzz.h"

static void again(const dt_codec *c, const uint8_t *x, size_t count)
{
    const size_t capacity = c->capacity(count, 1.0);
    uint8_t *packed = dt_alloc(capacity, 1), *back = dt_alloc(count, 4);
    size_t used = 0;
    DT_ASSERT(packed != NULL && back != NULL);
    DT_ASSERT(c->encode(x, count, packed, capacity, &used) && used <= capacity);
    DT_ASSERT(c->decode(packed, used, back, count, NULL) == DT_OK);
    DT_ASSERT(!c->exact || memcmp(x, back, 4 * count) == 0);
    dt_free(back);
    dt_free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n;
    const dt_codec *const *all = dt_codec_all(&n);
    if (size < 3)
        return 0;
    const dt_codec *c = all[data[0] % n];
    const size_t count = data[1] | (size_t)data[2] << 8, used = size - 3;
    uint8_t *packed = dt_alloc(used, 1), *x = dt_alloc(count, 4); /* of exactly these bytes */
    dt_err err = {0};
    DT_ASSERT(packed != NULL && x != NULL);
    memcpy(packed, data + 3, used);
    const dt_status st = c->decode(packed, used, x, count, &err);
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    if (st == DT_OK)
        again(c, x, count);
    dt_free(x);
    dt_free(packed);
    return 0;
}
