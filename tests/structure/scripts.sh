#!/bin/sh
# Every script for sh can be read to its end: one that is seldom run, as tests/long, would show a slip only then.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
n=0
for script in $(grep -rlI --exclude-dir=.git --exclude-dir='build*' '^#!/bin/sh' .); do
    case $(head -n 1 "$script") in '#!/bin/sh'*) sh -n "$script" || exit 1 ;; *) continue ;; esac
    n=$((n + 1))
done
[ "$n" -gt 30 ] || { echo "only $n scripts were found"; exit 1; }
