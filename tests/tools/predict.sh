#!/bin/sh
# tests/predict judges kept numbers: each thing that is asked of them is found when it does not hold; and measures, here
# by a program that only says how long its steps take. sh predict.sh PYTHON SOURCE
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

# ---- measuring: a program whose steps take what it predicts, and a little more beside copy threads ----
cat >"$temp/program" <<'X'
#!/usr/bin/env python3
import json, os, sys
sets = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
policy = sets.get("memory.policy", "")
seconds = 1 + 0.2 * policy.count("vdnn") + 0.5 * policy.count("chen")
if os.environ.get("FAILS", "?") in " ".join(sys.argv):
    sys.exit("internal error")
if sys.argv[1] == "profile":
    open(sys.argv[sys.argv.index("--out") + 1], "w").write("{}")
elif sys.argv[1] == "plan" and "--against" in sys.argv:
    print("held against " + open(sys.argv[sys.argv.index("--against") + 1]).read())
elif sys.argv[1] == "plan":
    assert os.path.exists(sets["memory.profile"])
    print(json.dumps({"predicted": {"step_seconds": seconds}}))
else:
    os.makedirs(sets["run.dir"], exist_ok=True)
    seconds *= 1.04 if sets.get("memory.copy_threads") == "on" else 1
    with open(sets["run.dir"] + "/metrics.jsonl", "w") as to:
        for _ in range(int(sets["train.steps"])):
            to.write(json.dumps({"step_seconds": seconds + 1, "wait_seconds": 1}) + "\n")
    if "DT_TRACE" in os.environ:
        open(os.environ["DT_TRACE"], "w").write("a trace of " + policy)
X
chmod +x "$temp/program"
"$python" "$source/tests/predict" --binary "$temp/program" --only "vgg11 fp32" --rounds 2 --csv "$temp/kept.csv" --against >"$temp/out" ||
    die "measuring ends with $?: $(cat "$temp/out")"
grep -q '^vgg11 fp32 *vdnn_all copy_threads  *1.2000  *1.2480  *0.962  *1.000' "$temp/out" || die "no row of copy threads: $(cat "$temp/out")"
grep -q '^vgg11 fp32 *chen_sqrt batch 3  *1.5000 ' "$temp/out" || die "no row of another batch: $(cat "$temp/out")"
grep -q 'held against a trace of vdnn_all' "$temp/out" || die "the worst pair is not traced: $(cat "$temp/out")"
! FAILS=profile "$python" "$source/tests/predict" --binary "$temp/program" --only "vgg11" >"$temp/failed" || die "a network that fails is passed over"
! FAILS=precision=bf16 "$python" "$source/tests/predict" --binary "$temp/program" --only "vgg11" >"$temp/failed" || die "a precision that fails is passed over"
grep -q '^1 networks failed' "$temp/failed" || die "does not say that one failed: $(cat "$temp/failed")"
[ "$(wc -l <"$temp/kept.csv")" -eq 12 ] || die "not a row a pair: $(cat "$temp/kept.csv")"
"$python" "$source/tests/predict" --judge "$temp/kept.csv" | grep -q '^11 predictions' || die "what was kept is not judged again"
