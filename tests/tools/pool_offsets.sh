#!/bin/sh
# Offsets that `dnntrain pool` prints, judged by awk, which shares no code with it: no two intervals share
# an instant and a byte, the highest end is the peak told, and exact is never above greedy.
# sh pool_offsets.sh DNNTRAIN
set -eu
binary=$1
shared=${DT_SHARED:-../shared}/data/dsa
command -v awk >/dev/null || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Sorted by time, so that only neighbours in time are compared.
judge() { # FILE: prints the highest end
    tail -n +2 "$1" | sort -t, -k2,2n -k3,3n | awk -F, '
        $4 > 0 {
            kept = 0
            for (i = 1; i <= live; i++) {
                if (upper[i] <= $2) continue
                kept++
                upper[kept] = upper[i]; off[kept] = off[i]; end[kept] = end[i]; id[kept] = id[i]
                if ($5 < end[kept] && off[kept] < $5 + $4) {
                    print "intervals " id[kept] " and " $1 " overlap" > "/dev/stderr"
                    exit 1
                }
            }
            live = kept + 1
            upper[live] = $3; off[live] = $5; end[live] = $5 + $4; id[live] = $1
            if (end[live] > peak) peak = end[live]
        }
        END { printf "%.0f\n", peak }'
}

told() { # WORDS: the peak that is told
    "$binary" pool "$@" --json | awk -F: '/"peak"/ { gsub(/[^0-9]/, "", $2); print $2 }'
}

check() { # WORDS
    before=
    for pool in best_fit greedy 'exact --nodes 20000'; do
        "$binary" pool "$@" --pool $pool --csv >"$dir/offsets.csv"
        peak=$(judge "$dir/offsets.csv")
        [ "$peak" = "$(told "$@" --pool $pool)" ] ||
            { echo "$* by $pool: the offsets end at $peak"; exit 1; }
        [ -z "$before" ] || [ "$peak" -le "$before" ] ||
            { echo "$*: $pool at $peak is above the one before it, $before"; exit 1; }
        before=$peak
        echo "$* by $pool: $peak"
    done
}

# All in whole runs; else what is made up of one seed and one file, others with each DT_TEST_SEED.
turn=$((${DT_TEST_SEED:-0} % 3))
seeds=$((turn + 1)) many=1000
files=$(echo A D somas_resnet50 | cut -d' ' -f$((turn + 1)))
[ "${DT_TEST_SCALE:-}" != whole ] || { seeds='1 2 3' many=12000 files='A D somas_resnet50'; }
for seed in $seeds; do
    check --random 300 --seed "$seed"
done
check --random $many
for file in $files; do
    [ ! -e "$shared/$file.csv" ] || check "$shared/$file.csv"
done
