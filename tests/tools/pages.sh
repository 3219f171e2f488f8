#!/bin/sh
# Runs every command of pages as a reader would, and compares what it prints with what the page shows.
# sh pages.sh DNNTRAIN SOURCE PAGE...
#
# A block that begins with ```console holds commands, `$ ` before them (a line that ends in \ goes on), and below each
# all that it prints, on stdout and stderr; a line `...` stands for any lines. The commands of a page are run by one shell,
# and all pages in one folder with ./dnntrain and configs, one after the other, as a reader goes through them: what a page
# leaves there is in nobody's way. Each command ends with 0, or with 4, which is: does not fit.
#
# Compared to the letter, but for seconds: a number before s, ms, µs, img/s or `images a second`, and m:ss, is any number,
# unless the command simulates a card (memory.simulate), whose seconds are computed, not measured.
# What follows "planned in" is always free, and blanks at the end of a line do not count. Bytes are those of DT_ISA=avx2.
# Half of the pages are run with each DT_TEST_SEED, which a commit gives; with DT_TEST_SCALE=whole all, as the tutorial is,
# whose pages stand on each other and take 19 s together.
set -eu
binary=$1
source=$(cd "$2" && pwd)
shift 2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
export LC_ALL=C.UTF-8 COLUMNS=80 TERM=xterm DT_ISA=avx2 XDG_CACHE_HOME="$temp/cache"
unset NO_COLOR DT_TRACE || true

# Writes N.cmd and N.want for each command of a page, N from 1, and says how many.
split() { # PAGE FOLDER
    awk -v to="$2" '
        /^```console$/ { inside = 1; next }
        /^```$/ { inside = 0; more = 0; next }
        inside && more { print > cmd; more = /\\$/; next }
        inside && /^\$ / {
            n++; cmd = to "/" n ".cmd"; want = to "/" n ".want"
            print substr($0, 3) > cmd; printf "" > want; more = /\\$/; next
        }
        inside && n { print > want }
        END { print n + 0 }' "$1"
}

mask() { # COMMAND-FILE: stdin to stdout
    if grep -q 'memory\.simulate' "$1"; then
        sed -E 's/^planned in .*/planned in #/; s/ +$//'
    else
        sed -E 's/^planned in .*/planned in #/
            s/ *[0-9][0-9.,]* (s|ms|µs|img\/s|images a second)([^a-z]|$)/ # \1\2/g
            s/[0-9]+:[0-9][0-9]/#/g
            s/ +$//'
    fi
}

# Whether GOT is WANT, whose lines `...` stand for any lines; else says which line of WANT is not found, and what stands there.
same() { # WANT GOT
    awk '
        FNR == NR { want[++nw] = $0; next }
        { got[++ng] = $0 }
        function holds(w, end, g) { # lines w..end of want stand at g
            for (k = w; k <= end; k++) if (g + k - w > ng || got[g + k - w] != want[k]) return 0
            return 1
        }
        END {
            g = 1; w = 1; free = 0
            while (w <= nw) {
                if (want[w] == "...") { free = 1; w++; continue }
                for (end = w; end < nw && want[end + 1] != "..."; ) end++
                if (end == nw && free && g < ng - (end - w)) g = ng - (end - w)
                while (!holds(w, end, g)) {
                    if (!free || g > ng) {
                        for (k = w; !free && k < end && got[g + k - w] == want[k]; ) k++
                        print "  shown:   " want[k]; print "  printed: " (free ? "nowhere" : got[g + k - w]); exit 1
                    }
                    g++
                }
                g += end - w + 1; w = end + 1; free = 0
            }
            if (!free && g <= ng) { print "  printed, and not shown: " got[g]; exit 1 }
        }' "$1" "$2"
}

mkdir "$temp/here"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$binary" >"$temp/here/dnntrain"
chmod +x "$temp/here/dnntrain"
ln -s "$source/configs" "$temp/here/configs"

try() { # PAGE: 0 when all is as it shows
    folder=$(mktemp -d "$temp/page.XXXXXX")
    n=$(split "$1" "$folder")
    [ "$n" -gt 0 ] || { echo "$1: no commands"; return 1; }
    i=0
    while [ $((i += 1)) -le "$n" ]; do
        printf '{\n%s\n} >"%s/%d.got" 2>&1\necho $? >"%s/%d.code"\n' "$(cat "$folder/$i.cmd")" "$folder" $i "$folder" $i
    done >"$folder/script"
    (cd "$temp/here" && sh "$folder/script" </dev/null)
    i=0 bad=0
    while [ $((i += 1)) -le "$n" ]; do
        mask "$folder/$i.cmd" <"$folder/$i.want" >"$folder/want"
        mask "$folder/$i.cmd" <"$folder/$i.got" >"$folder/got"
        case $(cat "$folder/$i.code") in 0 | 4) code= ;; *) code="ends with $(cat "$folder/$i.code")" ;; esac
        if ! same "$folder/want" "$folder/got" >"$folder/said" || [ -n "$code" ]; then
            echo "$1: \$ $(cat "$folder/$i.cmd")"
            [ -z "$code" ] || echo "  $code"
            cat "$folder/said"
            bad=1
        fi
    done
    return $bad
}

# The check itself: a page that holds, and one of each kind of drift.
page() { # LINES: a page of one block
    printf '```console\n%b\n```\n' "$1" >"$temp/page.md"
}
holds='$ echo one; echo 2.5 s; echo three; \\\\\n    echo four\none\n1 s\n...\nfour'
page "$holds"
try "$temp/page.md" || { echo "the check refuses what holds"; exit 1; }
for drift in 's/^one$/two/' 's/^four$/five/' 's/^1 s$/1/' 's/^\.\.\.$//' '/^one$/d' 's/; echo three/; exit 3/' \
    's/echo 2.5 s/echo 2.5 s # memory.simulate/' 's/echo one/false; : echo one/'; do
    page "$holds"
    sed -i "/^\`/!{$drift;}" "$temp/page.md"
    ! try "$temp/page.md" >/dev/null 2>&1 || { echo "the check misses $drift"; exit 1; }
done

status=0
i=${DT_TEST_SEED:-0}
for page in "$@"; do
    i=$((i + 1))
    [ "${DT_TEST_SCALE:-}" = whole ] || [ $((i % 2)) = 0 ] || continue
    try "$page" || status=1
done
exit $status
