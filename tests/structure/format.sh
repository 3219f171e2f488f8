#!/bin/sh
# Every source has the format of .clang-format; to repair one: clang-format-14 -i FILE. Skipped without
# clang-format 14, as others differ.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
command -v clang-format-14 >/dev/null || exit 77

set --
for room in engine memory layers data models session tools include examples tests; do
    [ ! -d "$room" ] || set -- "$@" "$room"
done
find "$@" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) -print0 |
    xargs -0 -n 32 -P "$(nproc)" clang-format-14 --dry-run -Werror
