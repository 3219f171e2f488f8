/* The contract of decoding: a picture or a message, never both, no block left behind, nothing
 * beyond what the limits allow. Large pictures are left to the tests. */
#include <string.h>

#include "data/decode.h"
#include "engine/base/alloc.h"
#include "tests/fuzz/fuzz.h"

/* The same bytes are the same picture. */
static void decode_again(const dti_picture *p, const uint8_t *data, size_t size)
{
    dti_picture q;
    DT_ASSERT(dti_decode(&q, "fuzz", data, size, NULL) == DT_OK);
    DT_ASSERT(q.w == p->w && q.h == p->h && q.c == p->c);
    DT_ASSERT(memcmp(q.px, p->px, (size_t)(p->w * p->h * p->c)) == 0);
    dt_free(q.px);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dti_picture p;
    const dt_status st = dti_decode(&p, "fuzz", data, size, &err);
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    DT_ASSERT((st == DT_OK) == (err.n == 0) && (st == DT_OK) == (p.px != NULL));
    if (st == DT_OK) {
        DT_ASSERT(p.w > 0 && p.h > 0 && (p.c == 1 || p.c == 3));
        DT_ASSERT(p.w <= 32768 && p.h <= 32768 && p.w * p.h <= 64 << 20);
        DT_ASSERT(p.w * p.h <= 1 << 20 || (uint64_t)(p.w * p.h) <= 2000 * (uint64_t)size);
        uint64_t sum = 0; /* every pixel can be read */
        for (int64_t i = 0; i < p.w * p.h * p.c; i++)
            sum += p.px[i];
        DT_ASSERT(sum <= 255u * (uint64_t)(p.w * p.h * p.c));
        decode_again(&p, data, size);
    }
    dt_free(p.px);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
