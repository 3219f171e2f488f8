#!/bin/sh
# Every source is valid C for 64-bit ARM: nothing counts on x86. Those of the CUDA module, and the codec of a library
# that a build may be without, want headers that not every machine has. Skipped without the cross compiler.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
cross=aarch64-linux-gnu-gcc
command -v $cross >/dev/null || exit 77

rooms=
for room in engine memory layers data models session tools; do
    [ ! -d $room ] || rooms="$rooms $room"
done
lz4='! -name lz4.c'
[ ! -e /usr/include/lz4.h ] || lz4=
# Headers of the libraries are the same for all processors, but come after the cross compiler's own.
# shellcheck disable=SC2086
find $rooms -name '*.c' ! -name '*cuda*.c' $lz4 -print0 | xargs -0 -r -n 8 -P "$(nproc)" $cross -fsyntax-only -std=c11 \
    -D_POSIX_C_SOURCE=200809L -fopenmp -Wall -Wextra -Werror -I. -Iinclude -idirafter /usr/include \
    -idirafter /usr/include/stb
