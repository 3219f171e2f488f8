#!/bin/sh
# Sources are valid C for 64-bit ARM: nothing counts on x86. All that name a processor's own, and those that include
# what does, are read with every commit; of the others one in five, by DT_TEST_SEED, and with DT_TEST_SCALE=whole all.
# Those of the CUDA module, and what calls a library that a build may be without, want headers that not every machine
# has. Skipped without the cross compiler.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
cross=aarch64-linux-gnu-gcc
command -v $cross >/dev/null || exit 77

rooms=
for room in engine memory layers data models session tools; do
    [ ! -d $room ] || rooms="$rooms $room"
done
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
lz4='! -name lz4.c'
[ ! -e /usr/include/lz4.h ] || lz4=
cbc='! -name solver_cbc.c'
[ ! -e /usr/include/coin/Cbc_C_Interface.h ] || cbc=
own='x86|aarch64|__ARM|intrin|cpuid|ia32|asm|target\(|_mm[0-9]*_|__m(128|256|512)|__AVX|__AMX|__SSE'
# shellcheck disable=SC2086
find $rooms -name '*.c' ! -name '*cuda*.c' $lz4 $cbc | sort >"$temp/all"
# shellcheck disable=SC2086
grep -rlE "$own" --include='*.h' --include='*.inc' $rooms | sed 's|.*|#include "&"|' >"$temp/headers"
{ xargs grep -lE "$own" <"$temp/all" || true; xargs grep -lF -f "$temp/headers" <"$temp/all"; } | sort -u >"$temp/always"
grep -qx 'engine/base/isa.c' "$temp/always" || { echo "what names a processor's own is not known"; exit 1; }
part=5
[ "${DT_TEST_SCALE:-}" != whole ] || part=1
grep -vxF -f "$temp/always" "$temp/all" | awk -v seed="${DT_TEST_SEED:-0}" -v part=$part '(NR + seed) % part == 0' |
    cat "$temp/always" - >"$temp/sample"

# Headers of the libraries are the same for all processors, but come after the cross compiler's own.
xargs -r -n 8 -P "$(nproc)" $cross -fsyntax-only -std=c11 -D_POSIX_C_SOURCE=200809L -fopenmp -Wall -Wextra -Werror -I. \
    -Iinclude -idirafter /usr/include -idirafter /usr/include/stb \
    -idirafter /usr/include/coin <"$temp/sample"
