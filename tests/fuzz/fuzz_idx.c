/* The contract of the IDX reader: whole results or none, no failure without a message, no block
 * left behind, no more bytes than the input could hold. The first two bytes say where the file of
 * labels begins. */
#include "data/idx.h"
#include "engine/base/alloc.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    if (size < 2)
        return 0;
    size_t split = (size_t)data[0] << 8 | data[1];
    const uint8_t *bytes = data + 2;
    const size_t n = size - 2;
    split = split < n ? split : n;
    const dti_idx_file images = {"images", bytes, split},
                       labels = {"labels", bytes + split, n - split};
    dt_err err = {0};
    dti_idx x;
    const dt_status st = dti_idx_parse(&x, &images, &labels, 10, &err);
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (st == DT_OK) {
        DT_ASSERT(x.n > 0 && x.h > 0 && x.w > 0);
        DT_ASSERT((uint64_t)(x.n * x.h * x.w) <= (uint64_t)n * 1032 + 65536);
        for (int64_t i = 0; i < x.n; i++)
            DT_ASSERT(x.labels[i] < 10);
    }
    dti_idx_free(&x);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
