#!/bin/sh
# Tables that are walked to their end have one: each table of options ends with a row that has no key. And no list of
# names, a .def file, has a name twice; layers and plain ops are one list, as both are found by name.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"

endless() { # FILE...: tables of options whose last row has a key
    awk '
    FNR == 1 { inside = 0 }
    /^(static )?const dt_opt [a-z_0-9]+\[\] = \{/ { inside = 1; name = $0; sub(/\[\].*/, "", name); sub(/.* /, "", name); last = "" }
    inside {
        if ($0 ~ /[^ ]/ && $0 !~ /^ *(\};|\/\*.*\*\/) *$/) last = $0
        if ($0 ~ /\};$/) {
            if (last !~ /(\{(NULL|0|\.key = NULL)[,}]|END\};$)/)
                print FILENAME ": table " name " ends with a row that has a key"
            inside = 0
        }
    }' "$@"
}

double() { # FILE...: names of a list that are in it twice
    sed -nE 's/^DT_[A-Z_]+\(([A-Za-z0-9_]+).*/\1/p' "$@" | LC_ALL=C sort | uniq -d
}

# The checks themselves.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
printf 'static const dt_opt good[] = {\n    {"a", 1},\n    {0},\n};\nstatic const dt_opt bad[] = {\n    {"a", 1},\n};\n' >"$temp/a.c"
[ "$(endless "$temp/a.c")" = "$temp/a.c: table bad ends with a row that has a key" ] || { echo "the check misses tables"; exit 1; }
printf 'DT_LAYER(one)\nDT_LAYER(two)\n' >"$temp/a.def"
printf 'DT_LAYER(two)\n' >"$temp/b.def"
[ "$(double "$temp/a.def" "$temp/b.def")" = two ] || { echo "the check misses names"; exit 1; }

found=$(find engine layers memory data models session tools -name '*.c' -exec grep -l 'dt_opt [a-z_0-9]*\[\]' {} + |
    while read -r file; do endless "$file"; done
    double layers/layers.def layers/ops.def | sed 's/^/layers and ops: twice /'
    find engine layers memory data models session tools -name '*.def' ! -name foreign.def ! -name absent.def ! -path 'layers/*' |
        while read -r file; do double "$file" | sed "s|^|$file: twice |"; done)
[ -z "$found" ] || { echo "$found"; exit 1; }
