#!/bin/sh
# What can be written and belongs to no run: every such variable of the libraries' rooms stands in the list below, with
# why two runs at once do not see each other through it. Thread-locals belong to a thread and are not looked for.
# globals.sh SOURCE BUILD
set -eu
build=${2:?the folder of a build}
command -v objdump >/dev/null || exit 77
[ -e "$build/engine/libdt_engine.a" ] || exit 77

allowed() {
    cat <<'END'
alloc counts         where they are; set as a module is loaded, under device loading
alloc own            counted and set by tests, atomic
alloc held           whether freed pages are kept, of the process as mallopt is; atomic
amx here             what the processor has; asked once
amx asked            once
cpu granted          what control groups give the process; asked once
cpu granted_once     once
cpu team             threads that OpenMP keeps for the process; atomic
device loaded        the module of a device, never unloaded; atomic
device loading       its lock
io dt_io             system calls, replaced by tests alone, between runs
isa most             DT_ISA, of the process as the processor is; atomic
json cjson_lock      of cJSON's own hooks, which the host program may have set
loader batches       ids that no two batches share; atomic
onednn library       primitives' engine and stream; made once
onednn memo          what the library answered, the same for all who ask it the same; under its lock
onednn memo_lock     its lock
onednn memo_used     under it
onednn once          once
onednn start_once    once
onednn started       made once
onednn version       written once
outside n_outside    registrations: atomic, or under their lock
outside outside      whole before they are counted, and stay
outside registering  their lock
policy n_policies    atomic
policy policies      an entry is there before it is counted
registry layers      an entry is there before it is counted
registry n_layers    atomic
registry n_sources   atomic
registry sources     an entry is there before it is counted
sha256 known         what the processor has; atomic
sha256 not_fast      set by tests, atomic
uring dt_uring_io    io_uring, likewise
solver_cbc functions filled once
solver_cbc loaded    once
solver_cbc once      once
solver_cbc solving   the lock of CBC's and CLP's own variables
team at_exit         of threads that have helpers, made once
team has_key         once
team once            once
stb invalid_chunk    stb_image's: four letters of its message about a PNG file may be those of another thread's file
END
}

variables() { # OBJECT...: FILE NAME of what can be written
    objdump -t "$@" | awk '
    /file format/ { file = $1; sub(/:$/, "", file); sub(/\.c\.o$/, "", file); sub(/.*\//, "", file) }
    / \.(data|bss|data\.rel|data\.rel\.local)[ \t]/ && / O / { name = $NF; sub(/\.[0-9]+$/, "", name); print file, name }' |
        LC_ALL=C sort -u
}

# The check itself: one that can be written, constants, and one of a thread.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cat >"$temp/a.c" <<'END'
static int counted;
static const int fixed = 3;
static const char *const names[] = {"a"};
static _Thread_local int own;
int count(int i);
int count(int i) { own += i; return ++counted + own + fixed + names[i][0]; }
END
${CC:-cc} -O1 -fPIC -c -o "$temp/a.c.o" "$temp/a.c"
[ "$(variables "$temp/a.c.o")" = "a counted" ] || { echo "the check misses variables"; exit 1; }

allowed | awk '{ print $1, $2 }' | LC_ALL=C sort >"$temp/allowed"
{
    for room in engine layers memory data models session; do echo "$build/$room/libdt_$room.a"; done
    find "$build/CMakeFiles" "$build/tests/card/CMakeFiles" -path '*_cuda.dir*' \( -path '*/engine/*' -o -path '*/layers/*' \) \
        -name '*.c.o' 2>/dev/null || true
} >"$temp/objects"
# shellcheck disable=SC2046
variables $(cat "$temp/objects") >"$temp/found"
left=$(LC_ALL=C comm -13 "$temp/allowed" "$temp/found")
[ -z "$left" ] || { echo "$left" | sed 's/$/: can be written, and belongs to no run/'; exit 1; }
