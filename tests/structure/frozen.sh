#!/bin/sh
# tests/frozen on two pretended programs that differ in what a file of quirks says: what it calls same, different,
# expected, new and failed, what it keeps, and that no missing value counts as the same.
set -eu
root=$(readlink -f -- "${1:-$(dirname -- "$0")/../..}")
command -v git >/dev/null || exit 77
[ "$((${DT_TEST_SEED:-0} / 64 % 4))" = 0 ] || exit 77 # with every fourth seed: it takes ten seconds
unset DT_BUILD DT_JOBS CI
export DT_SETUP=no GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
tree="$temp/a tree"
mkdir -p "$tree/tests" "$tree/tools" "$tree/configs" "$temp/fakes"
cp "$root/tests/frozen" "$tree/tests/"
cp "$root/tools/setup.sh" "$root/tools/packages.txt" "$tree/tools/"
touch "$tree/CMakeLists.txt" "$tree/configs/unet_small.ini"
printf '/build/\n' >"$tree/.gitignore"

cat >"$temp/fakes/cmake" <<'E2'
#!/bin/sh
set -eu
[ "$1" = -S ] && {
    echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2" >"$4/CMakeCache.txt"
    exit
}
from=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$2/CMakeCache.txt")
cp "$from/program" "$2/dnntrain"
cp "$from/quirks" "$2/"
E2
chmod +x "$temp/fakes/cmake"
PATH=$temp/fakes:$PATH

# Quirks, a line each: POLICY KEY VALUE for summary.json, POLICY weights BYTES, POLICY exit STATUS; unknown KEY;
# policies NAME...; without bf16; anew (a run that is to go on begins again).
cat >"$tree/program" <<'E2'
#!/bin/sh
set -eu
quirks=$(dirname -- "$0")/quirks
quirk() { # KEY...: the rest of its line
    sed -n "s/^$*  *//p" "$quirks"
}
dir='' policy='' precision=fp32 steps='' resume=no sets='' command=$1
[ "$command" != "${command%.ini}" ] || shift
while [ $# -gt 0 ]; do
    case $1 in
    --set)
        key=${2%%=*} value=${2#*=}
        if [ "$(quirk unknown)" = "$key" ]; then
            echo "dnntrain: --set: unknown key '$key'" >&2
            exit 2
        fi
        case $key in
        run.dir) dir=$value ;;
        memory.policy) policy=$value ;;
        train.precision) precision=$value ;;
        train.steps) steps=$value ;;
        esac
        sets="$sets$2
"
        shift
        ;;
    --resume) resume=yes ;;
    */config.ini) . "$1" ;;
    esac
    shift
done
if [ "$precision" = bf16 ] && grep -q '^without bf16' "$quirks"; then
    echo "dnntrain: no bf16 here" >&2
    exit 2
fi
case $command in
list)
    for name in $(quirk policies); do
        printf '[{\n\t"name":\t"%s", "summary": "one, of many", "exact": true}]\n' "$name"
    done
    exit
    ;;
plan)
    [ "$policy" != vdnn_dyn ] || echo '{"chosen_by": "vdnn_dyn",'
    echo '"device": {"budget": null, "peak": 4096}, "host": {"peak": 0}}'
    exit
    ;;
esac
case $policy,$sets in
vdnn_dyn,*memory.device_budget=4352*) ;;
vdnn_dyn,*) exit 4 ;;
esac
echo "$0" >>"$(dirname -- "$0")/runs"
status=$(quirk "$policy" exit)
[ -z "$status" ] || {
    echo "dnntrain: it broke" >&2
    exit "$status"
}
mkdir -p "$dir/checkpoints"
printf 'dir="%s" steps=%s\n' "$dir" "$steps" >"$dir/config.ini"
if [ "$resume" = no ] || grep -q '^anew' "$quirks"; then
    printf '%s\n' "$$ 1" "$$ 2" "$$ 3" "$$ 4" >"$dir/metrics.jsonl"
fi
for step in 2 4; do
    mkdir -p "$dir/checkpoints/step-0000000$step"
done
weights=$(quirk "$policy" weights)
[ "$weights" = nothing ] || echo "${weights:-weights}" >"$dir/checkpoints/model.safetensors"
[ "$weights" != nothing ] || : >"$dir/checkpoints/model.safetensors"
{
    echo '{'
    printf 'status "done"\nsteps %s\ndevice_peak_planned 4096\ndevice_peak_measured 4096\nhost_peak_planned 0
disk_peak_planned 0\nmoved_out_host 5\nmoved_out_disk 0\nmoved_in_host 5\nmoved_in_disk 0\nfirst_loss 2.5
final_loss 1e-05\neval_loss 2.25\n' "$steps" | while read -r key value; do
        other=
        ! grep -q "^$policy $key" "$quirks" || other=$(quirk "$policy" "$key")
        [ "$other" = nothing ] || printf '\t"%s":\t%s,\n' "$key" "${other:-$value}"
    done
    printf '\t"run_dir":\t"x"\n}\n'
} >"$dir/summary.json"
E2
chmod +x "$tree/program"
names='keep_all vdnn_conv vdnn_all vdnn_dyn chen_cheap chen_sqrt gist'
echo "policies $names" >"$tree/quirks"
echo "# none" >"$tree/tests/frozen.expected"
(cd "$tree" && git init -q && git add -A && git -c user.name=t -c user.email=t@localhost commit -q -m one)

failed=0
frozen() { # STATUS ARGUMENT...
    want=$1
    shift
    status=0
    [ ! -d "$tree/build" ] || find "$tree/build" -name runs -exec rm {} +
    "$tree/tests/frozen" "$@" >"$temp/out" 2>"$temp/err" </dev/null || status=$?
    [ "$status" = "$want" ] || wrong "exit $status, not $want: tests/frozen $*"
}
wrong() {
    echo "$*"
    sed 's/^/    /' "$temp/err" "$temp/out"
    failed=1
}
says() { # PATTERN...: each is that of a line
    for line; do
        grep -q -x -e "$line" "$temp/out" || wrong "no line: $line"
    done
}
ran() { # OLD NEW: so many runs of the two programs in the last call
    for count in "$1 */build/runs" "$2 */here/runs"; do
        n=$(find "$tree/build/frozen" -path "${count#* }" -exec cat {} + | wc -l)
        [ "$n" = "${count% \*/*}" ] || wrong "$n runs, not $count"
    done
}
quirks() { # LINE...
    printf '%s\n' "policies $names" "$@" >"$tree/quirks"
}

# All the same; what the older one did is kept, also when several work at once.
frozen 0 -p unet_small/fp32 HEAD
says 'same       unet_small/fp32/vdnn_dyn' 'same       unet_small/fp32/gist@fp16' \
    'same       unet_small/fp32/vdnn_all@disk' '10 same, 0 differ, 0 expected'
ran 10 10
frozen 0 -j 3 -p unet_small/fp32 HEAD
says '10 same, 0 differ, 0 expected'
ran 0 10
[ "$(find "$tree/build/frozen" -name 'work.*')" = '' ] || wrong "its folder is left"

# Each field, and what the list excuses.
cat >"$tree/tests/frozen.expected" <<'E2'
*/keep_all   peak     a reason  # not of it
*/gist*      *        another
*/vdnn_conv  weights  a third
nowhere/*    in       a fourth
E2
quirks 'keep_all device_peak_measured 5000' 'vdnn_conv moved_out_host 6' 'vdnn_all eval_loss 2.5' \
    'chen_sqrt weights others' 'gist disk_peak_planned 3' 'gist moved_in_disk 2' 'vdnn_dyn host_peak_planned 1'
frozen 1 -p unet_small/fp32 HEAD
says 'expected   unet_small/fp32/keep_all  peak 4096/4096 -> 4096/5000 (a reason)' \
    'DIFFERENT  unet_small/fp32/vdnn_conv  out 5/0 -> 6/0; listed but the same: weights' \
    'DIFFERENT  unet_small/fp32/vdnn_all  eval 2.25 -> 2.5' 'DIFFERENT  unet_small/fp32/vdnn_dyn  host 0 -> 1' \
    'DIFFERENT  unet_small/fp32/chen_sqrt  weights [0-9a-f]* -> [0-9a-f]*' \
    'expected   unet_small/fp32/gist@fp16  disk 0 -> 3 (another), in 5/0 -> 5/2 (another)' \
    'listed, but there is no such case: nowhere/\* in' '2 same, 5 differ, 3 expected, 1 listed but the same'
quirks
frozen 0 -p unet_small/fp32 HEAD
says 'same       unet_small/fp32/keep_all  listed but the same: peak' \
    'same       unet_small/fp32/gist  listed but the same: \*' '10 same, 0 differ, 0 expected, 4 listed but the same'

# Nothing that is missing is the same, and the list excuses no failure.
echo '* * all of it' >"$tree/tests/frozen.expected"
quirks 'keep_all eval_loss null' 'vdnn_conv weights nothing' 'vdnn_all moved_in_host nothing' 'chen_cheap exit 3' \
    'chen_sqrt final_loss nan' 'gist steps 2' 'vdnn_dyn status "stopped"'
frozen 1 -p unet_small/fp32 HEAD
says 'FAILED     unet_small/fp32/keep_all  here: in .*: eval_loss="null"' \
    'FAILED     unet_small/fp32/vdnn_conv  here: in .*: sha256=""' \
    'FAILED     unet_small/fp32/vdnn_all  here: in .*: moved_in_host=""' \
    'FAILED     unet_small/fp32/chen_cheap  here: exit 3: dnntrain: it broke' \
    'FAILED     unet_small/fp32/chen_sqrt  here: in .*: final_loss="nan"' \
    'FAILED     unet_small/fp32/gist  here: in .*: steps="2"' \
    'FAILED     unet_small/fp32/vdnn_dyn  here: in .*: status="stopped"'
ran 0 10
quirks 'keep_all weights nothing' 'chen_cheap eval_loss nothing' 'unknown memory.tier'
(cd "$tree" && git -c user.name=t -c user.email=t@localhost commit -q -a -m two)
frozen 1 -p unet_small/fp32 HEAD
says 'FAILED     unet_small/fp32/keep_all  [0-9a-f]*: in .*: sha256=""' \
    'FAILED     unet_small/fp32/chen_cheap  [0-9a-f]*: in .*: eval_loss=""' \
    "FAILED     unet_small/fp32/vdnn_all@disk  [0-9a-f]*: exit 2: dnntrain: --set: unknown key 'memory.tier'"

# Policies that come and go; bf16 where one of the two takes it.
echo '*/gist* * it is gone' >"$tree/tests/frozen.expected"
echo 'policies keep_all newest vdnn_conv vdnn_all vdnn_dyn chen_cheap' >"$tree/quirks"
frozen 1 -p unet_small/fp32 HEAD~1
says 'new        unet_small/fp32/newest' 'expected   unet_small/fp32/gist  this tree has no policy gist (it is gone)' \
    'FAILED     unet_small/fp32/chen_sqrt  this tree has no policy chen_sqrt' '7 same, 1 differ, 2 expected, 1 new'
quirks 'without bf16'
frozen 1 -p unet_small/bf16/keep_all HEAD~1
says 'FAILED     unet_small/bf16/keep_all  here: exit 2: dnntrain: no bf16 here'
(cd "$tree" && git -c user.name=t -c user.email=t@localhost commit -q -a -m three)
frozen 2 -p bf16 HEAD
grep -q 'without bf16: dnntrain: no bf16 here' "$temp/err" || wrong "it does not say that bf16 is left out"

# Going on.
quirks
frozen 0 -p resume HEAD~2
says 'same       resume/resnet20/config' 'same       resume/resnet20/own' '4 same, 0 differ, 0 expected'
ran 8 4
quirks anew
frozen 1 -p resume HEAD~2
says 'FAILED     resume/resnet20/config  here: it did not go on from step 2'
ran 0 4

# What is asked for wrongly.
frozen 2
frozen 2 -j 0 HEAD
frozen 2 nothing_of_this_name
frozen 2 -p nothing_of_this_name HEAD
frozen 0 --list -p resume HEAD
says 'resume/tiny_ini_network/own'
for line in '* peaks a reason' '* peak' '*'; do
    echo "$line" >"$tree/tests/frozen.expected"
    frozen 2 HEAD
done
exit $failed
