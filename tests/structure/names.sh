#!/bin/sh
# dt_ is what a room offers to others: each function of that prefix which a room's header declares is named by the
# code of another room, or in include/. What stays inside a room is dti_, and only tests/ names that of another.
# So it is with types, too. A type is declared in one header of all, of tests too, so that whoever reads its name knows which is meant.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
rooms='engine memory layers data models session tools'

# One line for each name in a room's code: ROOM KIND NAME, KIND being d where a header's line begins a declaration.
names() { # ROOM
    room=$1
    find "$room" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' \) |
        LC_ALL=C sort | xargs awk -v room="$room" '
        { line = $0; gsub(/"([^"\\]|\\.)*"/, "", line) }
        !inside { sub(/\/\/.*/, "", line); gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line) }
        inside { if (!sub(/^.*\*\//, "", line)) next; inside = 0 }
        line ~ /\/\*/ { sub(/\/\*.*/, "", line); inside = 1 }
        {
            declares = FILENAME ~ /\.(h|cuh)$/ && line ~ /^(static inline |extern |DT_[A-Z]+ |static )?(const )?(struct |unsigned )?[A-Za-z_0-9]+ (\*|const )*\*?dti?_[a-z0-9_]+\(/
            while (match(line, /[A-Za-z_0-9]+/)) {
                word = substr(line, RSTART, RLENGTH)
                after = substr(line, RSTART + RLENGTH, 1)
                line = substr(line, RSTART + RLENGTH)
                if (word !~ /^dti?_[a-z0-9_]+$/) continue
                kind = declares && after == "(" ? "d" : "u"
                if (kind == "d") declares = 0
                if (!seen[kind word]++) print room, kind, word
            }
        }'
}

misnamed() { # names of all rooms, one a line
    awk '
    $2 == "d" { home[$3] = home[$3] " " $1 " " }
    { uses[$3] = uses[$3] " " $1 " " }
    END {
        for (name in home) {
            split(home[name], at, " ")
            others = uses[name]
            gsub(" " at[1] " ", "", others)
            if (name ~ /^dt_/ && at[1] != "include" && others ~ /^ *$/)
                print name " is used in " at[1] "/ alone: it should begin with dti_"
            else if (name ~ /^dti_/ && !(2 in at) && others !~ /^ *$/)
                print name " of " at[1] "/ is used in" others ": it should begin with dt_"
        }
    }' | LC_ALL=C sort
}

# The check itself: a function of one room, one that two share, one taken from another room's inside.
found=$(printf 'engine d dt_alone\nengine d dt_shared\ndata u dt_shared\nengine d dti_taken\ndata u dti_taken\n' | misnamed | wc -l)
[ "$found" -eq 2 ] || { echo "the check misses names"; exit 1; }

found=$(for room in $rooms include; do names "$room"; done | misnamed)
[ -z "$found" ] || { echo "$found"; exit 1; }

# A type of a dti_ name that one room's header makes known, a tag or a typedef, is named in no other room.
of_types() { # ROOM: TYPE of each in its headers, a line "ROOM t NAME"
    find "$1" -type f \( -name '*.h' -o -name '*.cuh' \) -exec cat {} + | sed -nE \
        -e 's/^(typedef )?(struct|enum|union) (dti_[a-z0-9_]+)\>.*/\3/p' \
        -e 's/^(typedef [^;{(]*|\} )\*?(dti_[a-z0-9_]+)(\[[^]]*\])?;.*/\2/p' \
        -e 's/^typedef [^;{(]*[ *](dti_[a-z0-9_]+)\(.*/\1/p' \
        -e 's/^typedef [^;{(]*\(\*(dti_[a-z0-9_]+)\)\(.*/\1/p' | LC_ALL=C sort -u | sed "s|^|$1 t |"
}
taken() { # of lines "ROOM t TYPE" and "ROOM KIND NAME"
    awk '$2 == "t" { home[$3] = $1 }
        $2 != "t" && ($3 in home) && home[$3] != $1 && !told[$1 $3]++ {
            print "type " $3 " of " home[$3] "/ is used in " $1 "/: it should begin with dt_"
        }'
}
mkdir "${TMPDIR:-/tmp}/names.$$"
cat >"${TMPDIR:-/tmp}/names.$$/a.h" <<'E2'
typedef struct dti_one dti_one;
typedef struct dti_two {
    int a;
} dti_two;
struct dti_three;
typedef int dti_four(void *of, int a);
typedef int (*dti_five)(int a);
typedef unsigned char dti_six[4];
enum dti_seven { A };
int dti_none(struct dt_other *a);
E2
found=$(of_types "${TMPDIR:-/tmp}/names.$$" | wc -l)
rm -r "${TMPDIR:-/tmp}/names.$$"
[ "$found" -eq 7 ] || { echo "the check finds $found types of 7"; exit 1; }
found=$(printf 'engine t dti_a\nengine u dti_a\ndata u dti_a\ndata u dti_a\nengine t dti_b\nengine u dti_b\n' | taken | wc -l)
[ "$found" -eq 1 ] || { echo "the check misses types that are taken from another room"; exit 1; }
found=$(for room in $rooms; do of_types "$room"; done >"${TMPDIR:-/tmp}/names.$$"
    for room in $rooms include; do names "$room"; done | cat "${TMPDIR:-/tmp}/names.$$" - | taken)
rm "${TMPDIR:-/tmp}/names.$$"
[ -z "$found" ] || { echo "$found"; exit 1; }

# Tags of types that headers define, one a line.
types() { # FOLDER...
    find "$@" -type f \( -name '*.h' -o -name '*.cuh' \) -exec cat {} + |
        sed -nE 's/^(typedef )?(struct|enum|union) (dti?_[a-z0-9_]+) \{.*/\3/p' | LC_ALL=C sort
}

twice=$(printf 'typedef enum dt_one {\nstruct dt_one {\ntypedef struct dt_other {\n' > "${TMPDIR:-/tmp}/names.$$.h"
    types "${TMPDIR:-/tmp}/names.$$.h" | uniq -d | wc -l)
rm -f "${TMPDIR:-/tmp}/names.$$.h"
[ "$twice" -eq 1 ] || { echo "the check misses types"; exit 1; }
# shellcheck disable=SC2086
twice=$(types $rooms include tests | uniq -d)
[ -z "$twice" ] || { echo "$twice" | sed 's/$/ is a type of two headers/'; exit 1; }
