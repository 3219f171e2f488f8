/* The contract of the check of CIFAR-10's files: what passes is whole records with good labels;
 * what does not leaves a message. The first byte is the number of classes. */
#include "data/cifar10.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const int64_t classes = data[0];
    const size_t n = size - 1;
    dt_err err = {0};
    const dt_status st = dti_cifar10_check("fuzz.bin", data + 1, n, classes, &err);
    DT_ASSERT(st == DT_OK || st == DT_E_DATA);
    DT_ASSERT((st == DT_OK) == (err.n == 0));
    if (st == DT_OK) {
        DT_ASSERT(n > 0 && n % DTI_CIFAR_RECORD == 0);
        for (size_t i = 1; i < size; i += DTI_CIFAR_RECORD)
            DT_ASSERT(data[i] < 10 && data[i] < classes);
    }
    return 0;
}
