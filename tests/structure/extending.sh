#!/bin/sh
# docs/extending.md quotes docs/extending/*.diff to the letter, each once, and each can be applied to this tree;
# what they add is C that the tree's headers know.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
command -v patch >/dev/null || exit 77

differs() { # PAGE DIFF...: what the page quotes beside the diffs
    awk '
        FNR == 1 && ++nth > 1 { whole[nth] = ""; name[nth] = FILENAME }
        nth > 1 { whole[nth] = whole[nth] $0 "\n"; next }
        /^```diff$/ { inside = 1; quoted[++n] = ""; next }
        /^```$/ { inside = 0 }
        inside { quoted[n] = quoted[n] $0 "\n" }
        END {
            for (k = 2; k <= nth; k++) {
                found = 0
                for (i = 1; i <= n; i++) found += quoted[i] == whole[k]
                if (found != 1) print name[k] " stands in the page " found " times"
            }
            if (nth - 1 != n) print "the page quotes " n + 0 " diffs of " nth - 1
        }' "$@"
}

# The check itself: one that is quoted, one that is not, one quote too many.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
printf -- '--- a/x\n+y\n' >"$temp/one.diff"
printf -- '--- a/x\n+z\n' >"$temp/two.diff"
printf 'Text.\n\n```diff\n+\n```\n\n```diff\n--- a/x\n+y\n```\n' >"$temp/page.md"
[ "$(differs "$temp/page.md" "$temp"/*.diff | wc -l)" = 1 ] || { echo "the check misses quotes"; exit 1; }

found=$(differs docs/extending.md docs/extending/*.diff)
for diff in docs/extending/*.diff; do
    patch -p1 --fuzz=0 --dry-run <"$diff" >"$temp/said" 2>&1 ||
        found="$found
$diff does not fit this tree any more: $(tail -n 1 "$temp/said")"
done
# On a copy; the whole of it is built by tests/long.
mkdir "$temp/tree"
for room in engine memory layers data models session include tests; do
    cp -r "$room" "$temp/tree/"
done
mkdir "$temp/tree/docs" && cp docs/config.md "$temp/tree/docs/"
[ -n "$found" ] || for diff in docs/extending/*.diff; do
    patch -p1 -s --fuzz=0 -d "$temp/tree" <"$diff"
done
for file in $(sed -n '/^--- .dev.null$/{n;s#^+++ b/\(.*\.c\)$#\1#p;}' docs/extending/*.diff); do
    [ -n "$found" ] || (cd "$temp/tree" && ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -I. -Iinclude -fopenmp -Wall -Wextra \
        -Wconversion -Werror -fsyntax-only "$file") >"$temp/said" 2>&1 || found="$found
$(head -n 3 "$temp/said")"
done
[ -z "$found" ] || { echo "$found"; exit 1; }
