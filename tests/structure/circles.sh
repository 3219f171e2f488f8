#!/bin/sh
# No circle among the modules of a room: a module is a header with the file of its name, and X_internal.h is a part
# of X. What one includes, the other does not need in turn, at whatever distance. Those that there are stand below,
# each with its reason; none comes to them, and one that is gone leaves the list.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"

# MODULE... : REASON
known='
engine/base/io engine/base/read_ahead engine/base/sha256 engine/base/write_behind : files are summed up on their way, and a sum of a file reads ahead
'

edges() { # FOLDER...: MODULE INCLUDED, a line each
    find "$@" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' \) -exec awk '
        function module(path) {
            sub(/^\.\//, "", path)
            sub(/\.[a-z]+$/, "", path)
            sub(/_internal$/, "", path)
            return path
        }
        FNR == 1 { from = module(FILENAME); room = from; sub(/\/.*/, "", room) }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            to = $0
            sub(/^[^"]*"/, "", to)
            sub(/".*/, "", to)
            to = module(to)
            if (to != from && index(to, room "/") == 1) print from, to
        }' {} + | LC_ALL=C sort -u
}

circles() { # of edges: the modules of each circle, a line each
    awk '
    { out[$1] = out[$1] " " $2; n[$1]++; into[$2]++; name[$1]; name[$2] }
    # What is reached from v, by going on as long as there is something new.
    function reach(v,   todo, k, parts, i, at, count) {
        split("", seen)
        todo = out[v]
        while (todo != "") {
            count = split(todo, parts, " ")
            todo = ""
            for (i = 1; i <= count; i++)
                if (!(parts[i] in seen)) {
                    seen[parts[i]]
                    todo = todo out[parts[i]]
                }
        }
        k = ""
        for (at in seen) k = k " " at
        return k " "
    }
    END {
        for (v in name) if (n[v] > 0 && into[v] > 0) reached[v] = reach(v)
        for (v in reached) {
            if (done[v] || !index(reached[v], " " v " ")) continue
            line = ""
            for (w in reached)
                if (index(reached[v], " " w " ") && index(reached[w], " " v " ")) {
                    done[w] = 1
                    line = line " " w
                }
            print substr(line, 2)
        }
    }' | while read -r line; do
        # shellcheck disable=SC2086
        printf '%s\n' $line | LC_ALL=C sort | paste -s -d ' ' -
    done | LC_ALL=C sort
}

within() { # CIRCLE LISTED: whether all modules of the one are in the other
    for one in $1; do
        case " $2 " in
        *" $one "*) ;;
        *) return 1 ;;
        esac
    done
}

# The check itself: a circle of two, one of three at a distance, a way without one, and a module with an internal header.
found=$(printf '%s\n' 'a/x a/y' 'a/y a/x' 'b/1 b/2' 'b/2 b/3' 'b/3 b/1' 'b/3 b/4' 'a/x b/1' 'c/1 c/2' 'c/1 c/3' 'c/2 c/3' | circles)
[ "$found" = 'a/x a/y
b/1 b/2 b/3' ] || { echo "self-test: it finds $found"; exit 1; }
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir -p "$temp/engine/a"
printf '#include "engine/a/two.h"\n' >"$temp/engine/a/one_internal.h"
printf '#include "engine/a/one.h"\n#include <engine/a/none.h>\n' >"$temp/engine/a/two.c"
[ "$(cd "$temp" && edges engine | circles)" = 'engine/a/one engine/a/two' ] || { echo "self-test: it misses a circle of files"; exit 1; }

failed=0
: >"$temp/found"
for room in engine memory layers data models session tools; do
    edges $room | circles >>"$temp/found"
done
while read -r circle; do
    listed=
    while IFS=: read -r modules reason; do
        [ -z "$reason" ] || ! within "$circle" "$modules" || listed=yes
    done <<E2
$known
E2
    [ -n "$listed" ] || { echo "these include each other in a circle: $circle"; failed=1; }
done <"$temp/found"
while IFS=: read -r modules reason; do
    [ -n "$reason" ] || continue
    used=
    while read -r circle; do
        ! within "$circle" "$modules" || used=yes
    done <"$temp/found"
    [ -n "$used" ] || { echo "no circle any more, take it from the list: $modules"; failed=1; }
done <<E2
$known
E2
exit $failed
