#!/bin/sh
# Calls that are not used here, each with what is used instead, marks of unfinished work, clocks, and names that
# have a word of the field's.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"

# PATTERN of names, WHERE it is refused (code: all but tests), the reason.
table='
gets|strcpy|strcat|sprintf|vsprintf|stpcpy   code   no bound: snprintf
atoi|atol|atoll|atof                         code   no errors: strtol, strtod with checks
strtok|asctime|ctime|gmtime|localtime        code   shared state: the _r functions
s?rand|s?random|drand48                      all    not repeatable: engine/base/philox.h
alloca                                       all    the stack has no error
malloc|calloc|realloc|strdup|strndup         code   engine/base/alloc.h
assert                                       all    vanishes in release: DT_ASSERT
assert_float_equal|assert_float_not_equal    all    passes NaN: dt_relative_error'

rooms=
for room in engine memory layers data models session tools include examples; do
    [ ! -d $room ] || rooms="$rooms $room"
done

calls() { # PATTERN FOLDER...: calls of these names, comments left out
    names=$1
    shift
    find "$@" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) ! -path engine/base/alloc.c -exec awk -v names="$names" '
        FNR == 1 { inside = 0 }
        {
            line = $0
            if (inside) {
                if (!sub(/^.*\*\//, "", line)) next
                inside = 0
            }
            gsub(/\/\*[^*]*\*\//, "", line)
            sub(/\/\/.*/, "", line)
            if (sub(/\/\*.*/, "", line)) inside = 1
            gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
            if (line ~ "(^|[^A-Za-z0-9_.>])(" names ")[ \t]*\\(") {
                printf "%s:%d: %s\n", FILENAME, FNR, $0
                wrong = 1
            }
        }
        END { exit wrong }' {} +
}

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
printf '/* gets(x) and\n gets(y) */\nint a = fgets(b) + q->gets(c); f("gets(d)"); // gets(e)\n' >"$temp/good.c"
calls 'gets' "$temp" >"$temp/out" || { cat "$temp/out"; echo "self-test: all of it is fine"; exit 1; }
printf 'int a = gets (b);\n' >"$temp/bad.c"
! calls 'gets' "$temp" >"$temp/out" || { echo "self-test: a call was missed"; exit 1; }

echo "$table" | {
    status=0
    while read -r names where why; do
        [ -n "$names" ] || continue
        more=
        [ "$where" = code ] || more=tests
        # shellcheck disable=SC2086 # one word a room
        if ! calls "$names" $rooms $more; then
            echo "  refused: $why"
            status=1
        fi
    done
    exit $status
} || failed=1

# shellcheck disable=SC2086
if grep -rnE 'TO[D]O|FIX[M]E|\bXX[X]\b|HA[C]K|not (yet )?implemente[d]' $rooms tests CMakeLists.txt dnntrain .ci; then
    echo "  refused: unfinished work"
    failed=1
fi
# shellcheck disable=SC2086
if grep -rnE '(^|[^A-Za-z0-9_.>])(time|gettimeofday|clock)\(|CLOCK_REALTIME' $rooms --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.inc' |
    grep -v '^session/environment\.c:'; then
    echo "  refused: a clock that may go back: CLOCK_MONOTONIC; dates are session/environment.c's"
    failed=1
fi

# WORDS of names, the ROOMS in whose code they are refused, the word of the field's.
names='
ways            all                  algorithms, directions
rooms           all                  limits, scratch
mate|abroad|heard|together  all      say what it is
way             layers,data,models   an algorithm, a direction, a layout
room            layers,data,models   scratch, shared memory, a limit, a buffer
narrow|turned   layers,data,models   to_bf16; transposed
dear|course|teller  layers,data,models  say what it is'

named() { # WORDS FOLDER...: names that have one of them as a part, comments and strings left out
    words=$1
    shift
    find "$@" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' \) -exec awk -v words="$words" '
        FNR == 1 { inside = 0 }
        {
            line = $0
            if (inside) {
                if (!sub(/^.*\*\//, "", line)) next
                inside = 0
            }
            gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
            gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)
            sub(/\/\/.*/, "", line)
            if (sub(/\/\*.*/, "", line)) inside = 1
            if (tolower(line) ~ "(^|[^a-z0-9])(" words ")([^a-z0-9]|$)") {
                printf "%s:%d: %s\n", FILENAME, FNR, $0
                wrong = 1
            }
        }
        END { exit wrong }' {} +
}

rm "$temp"/*
printf '/* a way and\n a room */\nint away = f("way"), halfway; // way\n' >"$temp/good.c"
named 'way|room' "$temp" >"$temp/out" || { cat "$temp/out"; echo "self-test: all of it is fine"; exit 1; }
printf 'int n_way;\n' >"$temp/bad.c"
! named 'way|room' "$temp" >"$temp/out" || { echo "self-test: a name was missed"; exit 1; }

echo "$names" | {
    status=0
    while read -r words where why; do
        [ -n "$words" ] || continue
        folders=
        for room in $rooms; do
            case ,$where, in *,all,* | *,$room,*) folders="$folders $room" ;; esac
        done
        # shellcheck disable=SC2086
        if [ -n "$folders" ] && ! named "$words" $folders; then
            echo "  refused: $why"
            status=1
        fi
    done
    exit $status
} || failed=1
exit ${failed:-0}
