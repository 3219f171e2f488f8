#!/bin/sh
# ./dnntrain with a pretended cmake, dpkg-query, apt-get, sudo and id: when it builds, what it passes on,
# what it installs, and what it says when it cannot.
set -eu
root=$(readlink -f -- "${1:-$(dirname -- "$0")/../..}")
unset DT_BUILD DT_SETUP CI
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
tree="$temp/a tree"
fakes="$temp/fakes"
mkdir -p "$tree/cmake" "$tree/include" "$tree/engine/base" "$tree/memory" "$tree/layers" "$tree/data" "$tree/models" "$tree/session" "$tree/tools" "$tree/docs" "$fakes"
cp "$root/dnntrain" "$tree/"
cp "$root/tools/setup.sh" "$root/tools/packages.txt" "$tree/tools/"
touch "$tree/CMakeLists.txt" "$tree/engine/base/error.c" "$tree/docs/policies.md" "$tree/docs/references.bib"

fake() { # NAME, its body on standard input
    { printf '#!/bin/sh\nlog=%s/log\nreal_path=%s\n' "'$temp'" "'$PATH'" && cat; } >"$fakes/$1"
    chmod +x "$fakes/$1"
}
fake cmake <<'E2'
echo "cmake $1" >>"$log"
[ ! -e "${log%/log}/broken" ] || { echo "no such header"; exit 1; }
case $1 in
--build)
    [ ! -e "$2/in use" ] || echo "two builds at once" >>"$log"
    touch "$2/in use"
    [ ! -e "${log%/log}/slow" ] || sleep 0.3
    rm "$2/in use"
    printf '#!/bin/sh\npwd\nprintf "<%%s>" "$@"\nexit 7\n' >"$2/dnntrain"
    chmod +x "$2/dnntrain"
    ;;
*)
    while [ "$1" != -B ]; do shift; done
    touch "$2/CMakeCache.txt" "$2/build.ninja"
    echo "CMAKE_HOME_DIRECTORY:INTERNAL=${log%/log}/a tree" >"$2/CMakeCache.txt"
    ;;
esac
E2
fake dpkg-query <<'E2'
shift 3
for package; do
    [ "$package" = libcjson-dev ] && [ -e "${log%/log}/no cjson" ] || echo "installed $package"
done
E2
fake apt-get <<'E2'
echo "apt-get $*" >>"$log"
case $* in
*update*) touch "${log%/log}/lists" ;;
*) [ -e "${log%/log}/lists" ] && rm -f "${log%/log}/no cjson" ;;
esac
E2
fake id <<'E2'
cat "${log%/log}/uid"
E2
fake sudo <<'E2'
[ ! -e "${log%/log}/no sudo" ] || exit 1
echo "sudo" >>"$log"
case $1 in -n) shift ;; -v) exit 0 ;; esac
exec "$@"
E2

failed=0
wrong() {
    echo "launcher: $1"
    sed 's/^/    /' "$temp/out" "$temp/log"
    failed=1
}
launch() { # STATUS ARGUMENT...: run it, expecting this status
    want=$1
    shift
    : >"$temp/log"
    got=0
    PATH="$fakes:$PATH" "$tree/dnntrain" "$@" >"$temp/out" 2>&1 </dev/null || got=$?
    [ $got = "$want" ] || wrong "status $got, not $want"
}
said() {
    grep -qF -- "$1" "$temp/out" || wrong "does not say '$1'"
}
did() {
    grep -q -- "$1" "$temp/log" || wrong "did not $1"
}
did_not() {
    ! grep -q -- "$1" "$temp/log" || wrong "did $1"
}
echo 0 >"$temp/uid"

cd "$temp"
launch 7 train "a  b" "" '*' # the program's status, arguments and folder are untouched
said '<train><a  b><><*>'
said "$temp"
did 'cmake -G\|cmake -S'
did 'cmake --build'
did_not apt-get

launch 7 # fresh: nothing is built, nothing said
did_not cmake
[ "$(head -n 1 "$temp/out")" = "$temp" ] || wrong "speaks when there is nothing to say"

sleep 0.02
touch "$tree/engine/base/error.c"
launch 7
did 'cmake --build'
did_not 'cmake -S'
for file in layers/gemm.inc layers/sums.cuh tools/page.css tools/page.js docs/policies.md; do # made, and later edited in its place
    for time in 1 2; do
        sleep 0.02
        touch "$tree/$file"
        launch 7
        did 'cmake --build'
        launch 7
        did_not cmake
    done
done
sleep 0.02
rm "$tree/engine/base/error.c" # a file that went
launch 7
did 'cmake --build'

ln -s "$tree/dnntrain" "$temp/link"
PATH="$fakes:$PATH" "$temp/link" linked >"$temp/out" 2>&1 || true
said '<linked>'

rm "$tree/build/dnntrain" # two at once: one builds, both run
: >"$temp/log"
touch "$temp/slow"
PATH="$fakes:$PATH" "$tree/dnntrain" one >"$temp/out1" 2>&1 </dev/null &
PATH="$fakes:$PATH" "$tree/dnntrain" two >"$temp/out" 2>&1 </dev/null || true
wait $! || true
said '<two>'
grep -q '<one>' "$temp/out1" || wrong "the other of two did not run"
did_not 'two builds at once'
[ "$(grep -c 'cmake --build' "$temp/log")" = 1 ] || wrong "both of two built"
rm "$temp/slow"

mv "$tree/build/CMakeCache.txt" "$temp/cache" # of a tree that was elsewhere
echo "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere" >"$tree/build/CMakeCache.txt"
rm "$tree/build/dnntrain"
launch 7
did 'cmake -G\|cmake -S\|cmake -D'

rm "$tree/build/dnntrain"
touch "$temp/broken" # the end of the log, and where it is; then a next start recovers
launch 1
said "no such header"
said "$tree/build/build.log"
rm "$temp/broken"
launch 7

rm "$tree/build/dnntrain"
touch "$temp/no cjson" # as root: installs, fetching the lists because it must
launch 7
said "missing: libcjson-dev"
did 'apt-get .*install --no-install-recommends libcjson-dev'
did 'apt-get .*update'
did_not sudo

echo 1000 >"$temp/uid"
rm "$tree/build/dnntrain"
touch "$temp/no cjson" # with sudo
launch 7
did sudo
did 'apt-get .*install'
did_not update

rm "$tree/build/dnntrain"
touch "$temp/no cjson" "$temp/no sudo" # with neither: the line to type
launch 2
said "apt-get install --no-install-recommends libcjson-dev"
did_not 'apt-get'
did_not cmake
DT_SETUP=no
export DT_SETUP
launch 7 # unless told that they are not needed
unset DT_SETUP
rm -f "$temp/no sudo"

if command -v script >/dev/null; then # on a terminal it asks
    answer() {
        rm -f "$tree/build/dnntrain"
        touch "$temp/no cjson"
        : >"$temp/log"
        (sleep 0.1 && echo "$1") | PATH="$fakes:$PATH" script -qec "'$tree/dnntrain'" /dev/null >"$temp/out" 2>&1 || true
        said '[Y/n]'
    }
    answer n
    did_not apt-get
    answer ''
    did 'apt-get .*install'
fi

rm -f "$temp/no cjson"
rm -rf "$tree/build"
touch "$tree/build" # cannot be written to, even by root
launch 2
said "cannot write to '$tree/build'"
said "DT_BUILD="
exit $failed
