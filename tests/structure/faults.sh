#!/bin/sh
# docs/faults.md: every test it names is one, in the file it names, and every case has a row.
cd "$1" || exit 1
awk '
/^## What is not promised/ { exit }
{
    line = $0
    while (match(line, /`[a-z_0-9]+`/)) {
        word = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        if (word ~ /^test_/)
            program = word
        else if (program != "" && word ~ /_[a-z]+_/)
            print program, word, NR
    }
    program = ""
}' docs/faults.md | {
    bad=0
    n=0
    while read -r program name line; do
        n=$((n + 1))
        file=$(find tests -name "$program.c")
        if [ -z "$file" ]; then
            echo "docs/faults.md:$line: there is no $program.c below tests/"
            bad=1
        elif ! grep -q "^static void $name(void" "$file"; then
            echo "docs/faults.md:$line: $file has no $name"
            bad=1
        fi
    done
    if [ "$n" -lt 60 ]; then
        echo "docs/faults.md: only $n tests were found in it"
        bad=1
    fi
    i=1
    while [ "$i" -le 68 ]; do
        # 14 is of solvers, of which there are none, 60 to 62 of a CUDA device
        if [ "$i" -ne 14 ] && { [ "$i" -lt 60 ] || [ "$i" -gt 62 ]; } && ! grep -q "^| $i |" docs/faults.md; then
            echo "docs/faults.md: no row for case $i"
            bad=1
        fi
        i=$((i + 1))
    done
    exit $bad
}
