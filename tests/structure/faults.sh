#!/bin/sh
# docs/faults.md: every test it names is one, in the file it names, and every case has tests.
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
    # Every case, by the numbers in the tables of cases, has a row in that of tests. 14 is of solvers, of which there
    # are none.
    awk '
    /^## / { part = $2 }
    /^\| [0-9]+ \|/ && (part == "Cases" || part == "Tests") { row[part, $2]++; most = $2 > most ? $2 : most }
    END {
        for (i = 1; i <= most; i++) {
            wrong = 0
            if (i != 14 && row["Cases", i] != 1) wrong = "cases"
            else if (row["Tests", i] != row["Cases", i]) wrong = "tests"
            if (wrong) { printf "docs/faults.md: case %d has not one row in the tables of %s\n", i, wrong; bad = 1 }
        }
        if (most < 76) { print "docs/faults.md: only " most + 0 " cases were found in it"; bad = 1 }
        exit bad
    }' docs/faults.md || bad=1
    exit $bad
}
