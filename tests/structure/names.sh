#!/bin/sh
# dt_ is what a room offers to others, and DT_ its constants: each function, type and constant of an enum that a room's
# header declares under such a name is named by the code of another room, or in include/; or it is a part of one that
# is: a type or a constant in the declaration of an offered function or type, and an enum with all its constants if one
# of them is. What stays inside a room is dti_ and DTI_, and only tests/ names that of another. Macros and
# variables are not looked at, as lists paste their names together.
# A type is declared in one header of all, of tests too, so that whoever reads its name knows which is meant.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"
rooms='engine memory layers data models session tools'

# Of the sources on stdin, lines "ROOM u WORD", each of our names in the code; "ROOM f|t|c|v NAME GROUP", a function, type,
# constant or variable that a header declares, the group of a constant being its enum; "ROOM n GROUP WORD", what a declaration names.
names() { # ROOM
    xargs awk -v room="$1" '
        function ours(text, of,    word) {
            while (match(text, /[A-Za-z_0-9]+/)) {
                word = substr(text, RSTART, RLENGTH)
                text = substr(text, RSTART + RLENGTH)
                if (word ~ /^(dti?_[a-z0-9_]+|DTI?_[A-Z0-9_]+)$/ && !seen[of " " word]++)
                    print room, of == "" ? "u" : "n " of, word
            }
        }
        function found(text, pattern) { # the last of our names in what the pattern matches
            if (!match(text, pattern)) return ""
            text = substr(text, RSTART, RLENGTH)
            gsub(/[^A-Za-z_0-9]+/, " ", text)
            sub(/ $/, "", text)
            sub(/.* /, "", text)
            return text
        }
        function declared(text,    name, tag, bare, kind, n, i, constant) {
            gsub(/[ \t]+/, " ", text)
            sub(/^ /, "", text)
            tag = found(text, "^(typedef )?(struct|enum|union) dti?_[a-z0-9_]+ [{]")
            bare = text
            while (gsub(/\{[^{}]*\}/, "", bare)) {}
            kind = bare ~ /^typedef / ? "t" : "f"
            name = found(bare, "^[^(]*[ *]dti?_[a-z0-9_]+" (kind == "f" ? "[(]" : " ?[(;[]|^[^(]*[(][*]dti?_[a-z0-9_]+[)]"))
            if (text ~ /^(typedef )?enum [^{]*\{/) {
                constant = text
                sub(/^[^{]*\{/, "", constant)
                sub(/\}.*/, "", constant)
                n = split(constant, of, ",")
                for (i = 1; i <= n; i++) {
                    constant = found(of[i] ";", "^ *DTI?_[A-Z0-9_]+ *[=;]")
                    if (constant == "") continue
                    if (tag == "") tag = constant
                    print room, "c", constant, tag
                }
            }
            if (tag ~ /^dt/) print room, "t", tag, tag
            if (name != "" && name != tag) print room, kind, name, name
            if (bare ~ /^extern / && name == "") {
                name = found(bare, "dti?_[a-z0-9_]+ ?[[;]")
                print room, "v", name, name
            }
            if (tag != "") ours(text, tag)
            if (name != "" && name != tag) ours(text, name)
        }
        FNR == 1 { inside = depth = body = 0; text = "" }
        { line = $0; gsub(/"([^"\\]|\\.)*"/, "", line) }
        !inside { sub(/\/\/.*/, "", line); gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line) }
        inside { if (!sub(/^.*\*\//, "", line)) next; inside = 0 }
        line ~ /\/\*/ { sub(/\/\*.*/, "", line); inside = 1 }
        { ours(line, "") }
        FILENAME !~ /\.(h|cuh)$/ { next }
        line ~ /^[ \t]*#/ || directive { directive = line ~ /\\$/; next }
        line ~ /^extern *\{/ || line ~ /^ *$/ || line ~ /^[A-Z_]+$/ { next } # or a macro alone
        line ~ /^\{/ { body = 1; declared(text ";"); text = "" } # of a function
        {
            if (!body) text = text " " line
            depth += gsub(/\{/, "{", line) - gsub(/\}/, "}", line)
            if (depth < 0) { depth = 0; text = "" }
            if (depth == 0 && line ~ /[;}][ \t]*$/) {
                if (!body) declared(text)
                text = ""
                body = 0
            }
        }'
}

misnamed() { # lines of all rooms
    awk '
    $2 ~ /^[ftcv]$/ {
        if (!home[$3 " " $1]++) homes[$3]++
        at[$3] = $1
        kind[$3] = $2
        group[$3] = $4
        if ($1 == "include") offered[$3]
    }
    $2 == "n" { if (!told[$3 " " $4]++) names[$3] = names[$3] " " $4 }
    $2 == "u" { uses[$3] = uses[$3] " " $1 }
    function offer(name) {
        if (name in offered) return
        offered[name]
        fresh[++n] = name
    }
    END {
        for (name in at) {
            others = uses[name] " "
            gsub(" " at[name] " ", " ", others)
            if (others ~ /[a-z]/ || homes[name] > 1) others_of[name] = others
            if ((name in others_of && (name ~ /^(dt|DT)_/ || (kind[name] == "c" && homes[name] == 1))) || name in offered) {
                delete offered[name]
                offer(name)
            }
        }
        for (i = 1; i <= n; i++) {
            if (kind[fresh[i]] == "c") { whole[group[fresh[i]]]; offer(group[fresh[i]]) }
            words = split(names[fresh[i]], of, " ")
            for (k = 1; k <= words; k++) if (of[k] in kind && kind[of[k]] ~ /[tc]/ && of[k] !~ /^(dti|DTI)_/) offer(of[k])
        }
        for (name in kind)
            if (kind[name] == "v") continue
            else if (name ~ /^(dt|DT)_/ && !(name in offered) && !(group[name] in offered))
                print name " is used in " at[name] "/ alone: it should begin with " (kind[name] == "c" ? "DTI_" : "dti_")
            else if (name ~ /^(dti|DTI)_/ && homes[name] == 1 && (name in others_of || group[name] in whole))
                print name " of " at[name] "/ is used " (name in others_of ? "in" others_of[name] : "with others of its enum") ": it should begin with " (kind[name] == "c" ? "DT_" : "dt_")
    }' | LC_ALL=C sort
}

# The check itself: each kind, of one room, shared, shown by what is shared, and taken from another room's inside.
temp=$(mktemp -d)
trap 'rm -r "$temp"' EXIT
cat >"$temp/a.h" <<'E2'
typedef struct dt_one dt_one; // dt_said
typedef struct dt_two {
    dt_shown a[DT_SHOWN];
} dt_two;
typedef int dt_four(void *of, int a);
typedef int (*dti_five)(int a);
typedef unsigned char dt_six[4];
enum dt_seven { DT_A, DT_B = 2 };
enum { DT_C, DT_D };
enum { DTI_E, DTI_F };
typedef struct dt_shown {
    int a;
} dt_shown;
enum { DT_SHOWN = 3 };
int dt_alone(struct dt_one *a,
    int b);
static inline int dt_shared(dti_none a)
{
    return DT_D;
}
E2
printf 'dt_two a; dti_five b; int c = DT_A + DTI_E + dt_shared(c);\n' >"$temp/b.c"
wrong=$({ echo "$temp/a.h" | names a; echo "$temp/b.c" | names b; } | misnamed | sed 's/ .*//' | paste -s -d ' ' -)
[ "$wrong" = 'DTI_E DTI_F DT_C DT_D dt_alone dt_four dt_one dt_six dti_five' ] || { echo "self-test: the check finds $wrong"; exit 1; }

for room in $rooms include; do
    find "$room" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' \) |
        LC_ALL=C sort | names "$room"
done >"$temp/names"
misnamed <"$temp/names" >"$temp/wrong"
[ ! -s "$temp/wrong" ] || { cat "$temp/wrong"; exit 1; }

# Tags of types that headers define, one a line.
types() { # FOLDER...
    find "$@" -type f \( -name '*.h' -o -name '*.cuh' \) -exec cat {} + |
        sed -nE 's/^(typedef )?(struct|enum|union) (dti?_[a-z0-9_]+) \{.*/\3/p' | LC_ALL=C sort
}

printf 'typedef enum dt_one {\nstruct dt_one {\ntypedef struct dt_other {\n' >"$temp/a.h"
[ "$(types "$temp" | uniq -d)" = dt_one ] || { echo "the check misses types"; exit 1; }
# shellcheck disable=SC2086
twice=$(types $rooms include tests | uniq -d)
[ -z "$twice" ] || { echo "$twice" | sed 's/$/ is a type of two headers/'; exit 1; }
