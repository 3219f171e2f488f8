/* The contract of the safetensors reader: no half-built result, no failure without a message, no
 * block left behind, and of an accepted file every tensor lies inside the data, adjoins the one
 * before, the last the end, has the size of its shape and is found by its name. */
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void check_file(const dt_st_file *f, const uint8_t *data, size_t size)
{
    uint64_t end = 0;
    for (size_t i = 0; i < dti_st_count(f); i++) {
        const dt_st_entry *e = dti_st_at(f, i);
        uint64_t bytes = dt_st_type_bytes(e->type);
        DT_ASSERT(e->rank >= 0 && e->rank <= DT_ST_RANK);
        for (int k = 0; k < e->rank; k++) {
            DT_ASSERT(e->d[k] >= 0);
            DT_ASSERT(!__builtin_mul_overflow(bytes, (uint64_t)e->d[k], &bytes));
        }
        DT_ASSERT(e->begin == end && e->bytes == bytes);
        end += bytes;
        DT_ASSERT(end <= size);
        DT_ASSERT(strlen(e->name) >= 1 && strlen(e->name) <= DT_ST_NAME_BYTES);
        DT_ASSERT(dt_st_find(f, e->name) == e);
    }
    /* behind the header and its length there is nothing else */
    uint64_t header = 0;
    for (int k = 0; k < 8; k++)
        header |= (uint64_t)data[k] << 8 * k;
    DT_ASSERT(8 + header + end == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long before = dti_alloc_live();
    dt_err err = {0};
    dt_st_file *f = NULL;
    const dt_status st = dti_st_parse(&f, "fuzz.safetensors", data, size, &err);
    DT_ASSERT((st == DT_OK) == (f != NULL));
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    if (f != NULL)
        check_file(f, data, size);
    dt_st_close(f);
    DT_ASSERT(dti_alloc_live() == before);
    return 0;
}
