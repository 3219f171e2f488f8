#!/bin/sh
# Every header compiles alone, and twice over, as C11; those of engine/ and include/ together as C++17 too, because
# CUDA sources and others' programs include them. Its guard is its path. Headers of the CUDA device that include NVIDIA's need those; those of
# its kernels are read as tests read them, where a processor's thread stands for one of the card.
# Functions that a header declares and that give a status are DT_NODISCARD.
# Every file of code begins with a comment that says what it is, and so does every script and every file of CMake's, behind
# its #! line where it has one.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
warn='-Wall -Wextra -Wpedantic -Wundef -Werror'
failed=0
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

try() { # LANGUAGE COMPILER...
    language=$1
    shift
    # shellcheck disable=SC2086
    if ! "$@" $warn -D_POSIX_C_SOURCE=200809L -fopenmp -I. -Iinclude $(pkg-config --cflags cmocka 2>/dev/null) -fsyntax-only "$temp/alone.c"; then
        echo "$header does not compile as $language"
        failed=1
    fi
}

has() { # HEADER
    printf '#include <%s>\n' "$1" | "${CC:-cc}" -fsyntax-only -x c - 2>/dev/null
}

no_nvidia() { # HEADER: it includes one that is not here
    for theirs in $(sed -n 's/^#include <\(cu[A-Za-z_]*\.h\)>.*/\1/p' "$1"); do
        has "$theirs" || return 0
    done
    return 1
}

unsaid() { # FOLDER...: files that do not begin with a comment; fails where there is one
    find "$@" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' \) \
        -exec awk 'FNR == 1 && !/^\/\*|^\/\// { print FILENAME " does not begin with what it is"; wrong = 1 }
            END { exit wrong }' {} +
}

# One that has no dot in its name is a script by its #!; a docstring says it of Python, "#" alone or a word to a tool does not.
unsaid_script() { # FOLDER...
    find "$@" -type f \( -name '*.sh' -o -name '*.py' -o -name '*.awk' -o -name '*.cmake' -o -name CMakeLists.txt -o ! -name '*.*' \) \
        ! -path '*/corpus/*' -exec awk '
        FNR == 1 { file = FILENAME; sub(/.*\//, "", file); due = file ~ /\./ || /^#!/ }
        FNR == 1 && /^#!/ { next }
        due && !(/^(#|""") *[^# ]/ && !/^# *(shellcheck|pylint|-\*-)/) {
            print FILENAME " does not begin with what it is"
            wrong = 1
        }
        { due = 0 }
        END { exit wrong }' {} +
}

printf '#include "a.h"\n/* What it is. */\n' >"$temp/late.c"
! unsaid "$temp" >/dev/null || { echo "self-test: a file that begins without a comment was missed"; exit 1; }
mkdir "$temp/scripts"
printf '#!/bin/sh\nset -eu\n# What it is.\n' >"$temp/scripts/bare"
printf '#!/bin/sh\n# shellcheck disable=SC2086\n' >"$temp/scripts/disabled.sh"
printf 'import os\n"""What it is."""\n' >"$temp/scripts/late.py"
printf 'add_test(NAME a)\n' >"$temp/scripts/CMakeLists.txt"
printf '#!/usr/bin/env python3\n"""What it is."""\n' >"$temp/scripts/said"
printf 'a word\n' >"$temp/scripts/data"
[ "$(unsaid_script "$temp/scripts" | wc -l)" = 4 ] || { echo "self-test: of 4 silent scripts it finds: $(unsaid_script "$temp/scripts")"; exit 1; }
for room in CMakeLists.txt dnntrain .ci cmake debian docs engine memory layers data models session tools include examples tests; do
    [ ! -e $room ] || unsaid_script $room || failed=1
done
for room in engine memory layers data models session tools include examples tests; do
    [ ! -d $room ] || unsaid $room || failed=1
done

# A status is looked at: whoever forgets it is told by the compiler. What puts a note on a trail returns the status that it
# was given, and is in error.h.
unmarked() { # HEADER...: functions whose status may be dropped; fails where there is one
    awk 'FNR == 1 { text = "" }
        text == "" && !/^(static inline |DT_API )?dt_status / { next }
        { text = text " " $0 }
        /[;{]/ {
            if (text !~ /NODISCARD/ && text ~ / dti?_[a-z0-9_]+[(]/ && FILENAME !~ /(^|\/)error\.h$/) {
                sub(/ *[(].*/, "", text)
                sub(/.*[ *]/, "", text)
                print FILENAME ": " text " gives a status and is not DT_NODISCARD"
                wrong = 1
            }
            text = ""
        }
        END { exit wrong }' "$@"
}

guards() { # HEADER...: those whose guard is not their path; of include/ it is the path that programs see
    awk 'FNR == 1 { guard = FILENAME; if (!sub(/^include\//, "", guard)) guard = "DT_" guard
            gsub(/[\/.-]/, "_", guard); guard = toupper(guard); left[FILENAME] = guard }
        FILENAME in left && $0 == "#ifndef " left[FILENAME] { delete left[FILENAME] }
        END { for (file in left) { print file ": its guard should be " left[file]; wrong = 1 }
            exit wrong }' "$@"
}

# A source that is built, includes its own header first: that the header compiles alone, the build has shown. Of what
# builds leave out, and of headers without such a source, it is shown here.
by_build() { # HEADER...: those that a source of their name includes first
    for header; do
        source=${header%.h}.c
        case $header in *.cuh | *cuda* | *cudnn* | tests/card/*) continue ;; esac
        [ ! -e "$source" ] || echo "$source"
    done | xargs awk 'FNR == 1 { seen = 0 }
        !seen && /^#include/ { seen = 1; header = FILENAME; sub(/c$/, "h", header)
            if ($0 == "#include \"" header "\"") print header }'
}

set -- # headers
for header in */*.h */*/*.h */*.cuh */*/*.cuh; do
    case $header in *'*'* | build*) ;; *) set -- "$@" "$header" ;; esac
done
mkdir "$temp/guards"
printf '#ifndef DT_OTHER_H\n#define DT_OTHER_H\n#endif\n' >"$temp/guards/wrong.h"
! guards engine/graph.h "$temp/guards/wrong.h" >"$temp/guards/said" && [ "$(wc -l <"$temp/guards/said")" = 1 ] || { echo "self-test: a wrong guard was missed"; exit 1; }
guards "$@" || failed=1
printf 'dt_status dt_a(int a,\n    int b);\ndt_status dt_b(int a,\n    int b) DT_NODISCARD;\nstatic inline dt_status dt_c(void)\n{\n' >"$temp/guards/status.h"
! unmarked "$temp/guards/status.h" >"$temp/guards/said" && [ "$(wc -l <"$temp/guards/said")" = 2 ] || { echo "self-test: of 2 statuses to be dropped it finds: $(cat "$temp/guards/said")"; exit 1; }
unmarked "$@" || failed=1
by_build "$@" >"$temp/built"
[ "$(wc -l <"$temp/built")" -gt 100 ] || { echo "few sources include their own header first"; failed=1; }
grep -q '^engine/graph\.h$' "$temp/built" && ! grep -q '^engine/shape\.h$' "$temp/built" ||
    { echo "self-test: which headers the build compiles alone is not known"; exit 1; }

twice() { # HEADER: lines that include it twice over
    printf '#include "%s"\n#include "%s"\n' "$1" "$1"
}
for header; do
    case $header in
    engine/* | include/*) no_nvidia "$header" || case $header in *.cuh) ;; *) twice "$header" >>"$temp/together.c" ;; esac ;;
    esac
    if grep -qxF "$header" "$temp/built"; then
        twice "$header" >>"$temp/room.${header%%/*}"
        continue
    fi
    ! no_nvidia "$header" || continue
    { twice "$header" && echo 'typedef int dt_not_empty;'; } >"$temp/alone.c"
    case $header in
    *.cuh) try C11 "${CC:-cc}" -std=c11 -Wno-unused-function -Wno-unused-parameter -include tests/fixture/cuda_host.h -x c ;;
    *) try C11 "${CC:-cc}" -std=c11 -x c ;;
    esac
done
for room in "$temp"/room.*; do # names of two rooms' own may be alike
    mv "$room" "$temp/alone.c"
    header="a header of ${room##*.}/"
    try C11 "${CC:-cc}" -std=c11 -x c
done
if command -v g++ >/dev/null; then # each is whole, as C said
    mv "$temp/together.c" "$temp/alone.c"
    header='a header of engine/ or include/'
    try C++17 g++ -std=c++17 -x c++
fi
exit $failed
