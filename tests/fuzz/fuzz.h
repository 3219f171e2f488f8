/* The entry point that libFuzzer and the replay program share. */
#ifndef DT_TESTS_FUZZ_FUZZ_H
#define DT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
