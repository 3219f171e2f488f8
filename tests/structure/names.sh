#!/bin/sh
# dt_ is what a room offers to others: each function of that prefix which a room's header declares is named by the
# code of another room, or in include/. What stays inside a room is dti_, and only tests/ names that of another.
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
