#!/bin/sh
# tests/predict judges kept numbers: each thing that is asked of them is found when it does not hold. sh predict.sh PYTHON SOURCE
set -eu
python=$1
source=$2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
die() {
    echo "$*" >&2
    exit 1
}
says() { # CODE WORDS: of the numbers on stdin
    code=0
    { echo network,policy,predicted,measured,spread && cat; } >"$temp/rows.csv"
    "$python" "$source/tests/predict" --judge "$temp/rows.csv" >"$temp/out" || code=$?
    [ "$code" -eq "$1" ] || die "ends with $code, not $1: $(cat "$temp/out")"
    grep -q -e "$2" "$temp/out" || die "says no '$2': $(cat "$temp/out")"
}

says 0 'of 2 pairs of policies more than 5 % apart 0 are ordered otherwise' <<'X'
n,keep_all,1.00,1.02,1.01
n,chen_sqrt,1.31,1.30,1.01
n,chen_cheap,1.03,1.01,1.01
m,keep_all,9.00,9.10,1.01
X
# 6 % apart and the other way round, each within 5 %; the same 4 % apart is no matter
says 1 'measured, n: keep_all is faster than vdnn_all' <<'X'
n,keep_all,1.03,1.00,1.01
n,vdnn_all,1.02,1.06,1.01
X
says 0 'of 0 pairs' <<'X'
n,keep_all,1.03,1.00,1.01
n,vdnn_all,1.02,1.04,1.01
X
# equal predictions order nothing; another batch is another step
says 1 'of 1 pairs of policies more than 5 % apart 1 are' <<'X'
n,keep_all,1.03,1.00,1.01
n,vdnn_all,1.03,1.06,1.01
X
says 0 'of 0 pairs' <<'X'
n,keep_all,1.0,1.0,1.01
n,chen_sqrt batch 12,0.9,0.9,1.01
X
says 1 'all are within 16.0 %, too much' <<'X'
a,keep_all,1.16,1.00,1.01
b,keep_all,1.00,1.00,1.01
c,keep_all,1.00,1.00,1.01
X
says 1 'nine of ten are within 12.0 %, too much' <<'X'
a,keep_all,1.12,1.00,1.01
b,keep_all,0.88,1.00,1.01
c,keep_all,1.00,1.00,1.01
d,keep_all,1.00,1.00,1.01
e,keep_all,1.00,1.00,1.01
X
says 1 'the median is 6.0 % off, too much' <<'X'
a,keep_all,1.06,1.00,1.01
b,keep_all,0.94,1.00,1.01
c,keep_all,1.00,1.00,1.01
X
