#!/bin/sh
# The library as those have it who install it: what it exports, and the examples, found by pkg-config, by
# find_package and linked statically. installed.sh SOURCE BUILD FLAGS
set -eu
source=$1
build=$2
flags=$3 # of a build with sanitizers
cc=${CC:-cc}
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
die() {
    echo "$*" >&2
    exit 1
}

cmake --install "$build" --prefix "$temp/prefix" >/dev/null
pc=$(find "$temp/prefix" -name dnntrain.pc)
PKG_CONFIG_PATH=${pc%/*}
export PKG_CONFIG_PATH
libs=$(pkg-config --variable=libdir dnntrain)
export LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# ---- what is exported is what include/ declares, no more and no less ----
find "$source/include" -name '*.h' -exec cat {} + | tr '\n' ' ' |
    grep -oE 'DT_API [^;(]*[ *]dt_[a-z0-9_]+\(' | sed 's/.*[ *]\(dt_[a-z0-9_]*\)($/\1/' | sort >"$temp/declared"
nm -D --defined-only "$libs/libdnntrain.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$temp/exported"
[ "$(wc -l <"$temp/declared")" -gt 20 ] || die "few functions are declared in include/: $(cat "$temp/declared")"
diff "$temp/declared" "$temp/exported" || die "< declared in include/, > exported by libdnntrain.so"
objdump -p "$libs/libdnntrain.so" | grep -q 'SONAME *libdnntrain.so.0$' || die "its soname is not libdnntrain.so.0"

# ---- what is imported ends no process, handles no signal, prints nothing and changes nothing of the host program's ----
imports() { # OF: undefined symbols of a library, with the member each is of where it is an archive
    nm -A ${2:+"$2"} --undefined-only "$1" | awk '{ sub(/@.*/, "", $NF); sub(/:$/, "", $1); n = split($1, at, ":"); print at[n], $NF }'
}
forbidden='exit|_exit|_Exit|quick_exit|atexit|on_exit|kill|raise|signal|bsd_signal|sigprocmask|alarm|setitimer
printf|vprintf|puts|putchar|putc|__printf_chk|__vprintf_chk|stdout|perror|psignal|syslog|err|errx|warn|warnx|psiginfo
secure_getenv|environ|__environ|setenv|putenv|unsetenv|clearenv|setlocale|chdir|fchdir|umask|setrlimit|fork|vfork|system
popen|execv|execve|execvp|execlp|posix_spawn|posix_spawnp|srand|rand|srandom|random|getopt|getopt_long'
forbidden=$(printf %s "$forbidden" | tr '\n' '|')
wrong() { # of lines "OF SYMBOL"
    awk -v never="^($forbidden)\$" '
        $2 ~ never || ($2 == "abort" || $2 == "stderr") && $1 !~ /(^|\/)error\.c\.o$/ ||
            $2 == "getenv" && $1 !~ /(^|\/)profile_cache\.c\.o$/ ||
            $2 == "sigaction" && $1 !~ /(^|\/)solver_cbc\.c\.o$/ # which puts back what CBC has changed
    '
}
missed=$(printf '%s\n' 'a.c.o exit' 'a.c.o abort' 'error.c.o abort' 'a.c.o sigaction' 'solver_cbc.c.o sigaction' 'a.c.o __printf_chk' 'a.c.o snprintf' \
    'a.c.o getenv' 'profile_cache.c.o getenv' 'a.c.o fexit' | wrong | wc -l)
[ "$missed" = 5 ] || die "the check of imports finds $missed of 5"
imports "$libs/libdnntrain.a" '' >"$temp/of_members"
grep -q 'error.c.o abort$' "$temp/of_members" || die "which member imports what is not known"
spoken=$(wrong <"$temp/of_members")
[ -z "$spoken" ] || die "the library imports: $spoken"
spoken=$(imports "$libs/libdnntrain.so" -D | sed 's/^[^ ]* \(abort\|stderr\)$/error.c.o \1/; s/^[^ ]* getenv$/profile_cache.c.o getenv/
    s/^[^ ]* sigaction$/solver_cbc.c.o sigaction/' | wrong)
[ -z "$spoken" ] || die "libdnntrain.so imports: $spoken"

# ---- and can be referred to from plain C, and from C++ ----
{
    echo '#include <dnntrain.h>'
    echo '#include <dnntrain/layer.h>'
    echo '#include <dnntrain/policy.h>'
    echo '#include <dnntrain/source.h>'
    echo 'typedef void any(void);'
    echo 'int main(void) { any *const all[] = {'
    sed 's/.*/(any *)&,/' "$temp/declared"
    echo '}; for (unsigned i = 0; i < sizeof all / sizeof *all; i++) if (!all[i]) return 1; return 0; }'
} >"$temp/all.c"
# shellcheck disable=SC2046,SC2086
$cc -std=c11 -Wall -Wextra -Wpedantic -Wno-cast-function-type -Wno-address -Werror $flags "$temp/all.c" \
    -o "$temp/all" $(pkg-config --cflags --libs dnntrain)
"$temp/all" || die "a symbol is NULL"
if command -v g++ >/dev/null; then
    cp "$temp/all.c" "$temp/all.cc"
    # shellcheck disable=SC2046
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$temp/all.cc" $(pkg-config --cflags dnntrain) \
        -Wno-cast-function-type -Wno-address
fi

# ---- the examples, which docs/library.md and docs/writing-a-policy.md show parts of, or the whole ----
for file in examples/train.c docs/library.md; do
    sed -n '/^static dt_status train(/,/^}/p' "$source/$file" >"$temp/$(basename "$file").train"
done
[ -s "$temp/train.c.train" ] || die "examples/train.c has no train"
cmp "$temp/train.c.train" "$temp/library.md.train"
for file in examples/arrays.c docs/library.md; do
    sed -n '/^static dt_status count(/,/^}/p; /^static dt_status read($/,/^}/p' "$source/$file" >"$temp/$(basename "$file").source"
done
[ "$(wc -l <"$temp/arrays.c.source")" -gt 15 ] || die "examples/arrays.c has no source"
cmp "$temp/arrays.c.source" "$temp/library.md.source"
awk '/^```c$/ { inside = 1; block = ""; next } /^```$/ { if (inside) last = block; inside = 0 }
    inside { block = block $0 "\n" } END { printf "%s", last }' "$source/docs/writing-a-policy.md" >"$temp/page.c"
cmp "$temp/page.c" "$source/examples/cheapest.c"
try() { # FOLDER RUN: of the programs, and where they train
    config="$source/configs/tiny_ini_network.ini"
    "$1/plan" "$config" memory.policy=vdnn_all >"$temp/plan.out"
    grep -q '^device [0-9.]* MiB .* exact$' "$temp/plan.out" || die "plan: $(cat "$temp/plan.out")"
    "$1/policy" "$config" >"$temp/policy.out"
    awk '{ peak[$1] = $2 } END { exit !(peak["large_first"] > 0 && peak["large_first"] < peak["keep_all"]) }' \
        "$temp/policy.out" || die "policy: $(cat "$temp/policy.out")"
    "$1/cheapest" "$source/configs/chain.ini" memory.simulate=p100 >"$temp/cheapest.out"
    awk '{ device[NR] = $4; host[NR] = $6; seconds[NR] = $7 }
        END { exit !(NR == 6 && host[1] == 0 && device[1] > device[2] && device[2] > device[3] && device[3] > 0 &&
            seconds[1] > 0 && seconds[2] > seconds[1] && device[4] == device[1] && seconds[4] == seconds[1]) }' "$temp/cheapest.out" || die "cheapest: $(cat "$temp/cheapest.out")"
    "$1/train" "$2" >"$temp/train.out" 2>"$temp/train.err"
    grep -q '^step 8 of 8: loss [0-9.]*$' "$temp/train.out" || die "train: $(cat "$temp/train.out")"
    [ ! -s "$temp/train.err" ] || die "the library spoke: $(cat "$temp/train.err")"
    "$1/arrays" "$2.arrays" >"$temp/arrays.out" || die "arrays: $(cat "$temp/arrays.out")"
    grep -q '^[56][0-9] of 64 are answered rightly$' "$temp/arrays.out" || die "arrays: $(cat "$temp/arrays.out")"
    "$1/layer" "$2.layer" >"$temp/layer.out" || die "layer: $(cat "$temp/layer.out")"
    awk '{ bytes[$1] = $3 } END { exit !(bytes["chen_sqrt"] > 0 && bytes["chen_sqrt"] < bytes["keep_all"]) }' "$temp/layer.out" ||
        die "layer: $(cat "$temp/layer.out")"
}
for name in plan train policy cheapest arrays layer; do
    mkdir -p "$temp/pc" "$temp/static"
    # shellcheck disable=SC2046,SC2086
    $cc -std=c11 -Wall -Wextra -Wpedantic -Werror $flags "$source/examples/$name.c" -o "$temp/pc/$name" \
        $(pkg-config --cflags --libs dnntrain) -lm
    # shellcheck disable=SC2046,SC2086
    $cc -std=c11 $flags "$source/examples/$name.c" -o "$temp/static/$name" $(pkg-config --cflags dnntrain) \
        "$libs/libdnntrain.a" $(pkg-config --static --libs-only-l dnntrain | sed 's/-ldnntrain//') -fopenmp
done
# ---- the user's folder is asked for by what needs it, and by nothing else ----
cat >"$temp/asks.c" <<'E3'
#include <dnntrain.h>
#include <stdio.h>
#include <string.h>
extern char **environ;
static int asked;
char *getenv(const char *name) /* which the library finds before that of libc */
{
    const size_t n = strlen(name);
    asked += strcmp(name, "XDG_CACHE_HOME") == 0 || strcmp(name, "HOME") == 0;
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
            return *at + n + 1;
    return NULL;
}
int main(int argc, char **argv)
{
    static dt_err err;
    dt_run *run = NULL;
    asked = 0;
    dt_status st = dt_run_open(&run, argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &err);
    if (st == DT_OK)
        st = dt_run_plan(run, &err);
    dt_run_close(run);
    fputs(err.text, stderr);
    printf("%s\n", asked > 0 ? "asked" : "not asked");
    return (int)st;
}
E3
# shellcheck disable=SC2046,SC2086
$cc -std=c11 -Wall -Wextra -Wpedantic -Werror $flags "$temp/asks.c" -o "$temp/asks" $(pkg-config --cflags --libs dnntrain)
asks() { # ANSWER SETTING...
    answer=$1
    shift
    got=$(XDG_CACHE_HOME="$temp/cache" "$temp/asks" "$source/configs/tiny_ini_network.ini" device.kind=cpu "$@")
    [ "$got" = "$answer" ] || die "with $* the user's folder is $got"
}
asks 'not asked' memory.policy=vdnn_all
asks 'asked' memory.profile=auto
asks 'not asked' memory.profile=auto memory.cache=none
asks 'not asked' memory.policy=auto memory.cache=none train.batch=8 memory.device_budget=10MiB
asks 'not asked' memory.policy=auto memory.cache="$temp/elsewhere" train.batch=8 memory.device_budget=10MiB
[ ! -e "$temp/cache" ] || [ "$(find "$temp/cache" -type f)" = '' ] || die "something is kept in the user's folder"

# ---- a program that unloads it goes on, and so does the thread that computed with it ----
cat >"$temp/unloads.c" <<'E4'
#include <dlfcn.h>
#include <dnntrain.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static char **arguments;
static void *work(void *to)
{
    static const char net[] = "[model]\nname = lenet5\n[data]\nsource = synthetic\nsamples = 64\n"
                              "[train]\nbatch = 16\nepochs = 1\n[device]\nkind = cpu\nthreads = 2\n";
    static dt_err err;
    dt_run *run = NULL;
    const char *const set[] = {arguments[2]};
    void *lib = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    dt_status (*open)(dt_run **, const char *, const char *, size_t, const char *const *, size_t, dt_err *);
    dt_status (*begin)(dt_run *, const dt_run_observer *, dt_err *);
    dt_status (*train)(dt_run *, int64_t, dt_err *);
    void (*close)(dt_run *);
    *(int *)to = 1;
    if (lib == NULL)
        return NULL;
    *(void **)&open = dlsym(lib, "dt_run_open_text");
    *(void **)&begin = dlsym(lib, "dt_run_begin");
    *(void **)&train = dlsym(lib, "dt_run_train");
    *(void **)&close = dlsym(lib, "dt_run_close");
    dt_status st = open(&run, "net", net, strlen(net), set, 1, &err);
    if (st == DT_OK)
        st = begin(run, NULL, &err);
    if (st == DT_OK)
        st = train(run, 0, &err);
    close(run);
    fputs(err.text, stderr);
    *(int *)to = st != DT_OK || dlclose(lib) != 0;
    return NULL;
}
int main(int argc, char **argv)
{
    int failed = argc;
    pthread_t thread;
    arguments = argv;
    return pthread_create(&thread, NULL, work, &failed) != 0 || pthread_join(thread, NULL) != 0 || failed;
}
E4
# shellcheck disable=SC2046,SC2086
$cc -std=c11 -Wall -Wextra -Werror $flags "$temp/unloads.c" -o "$temp/unloads" $(pkg-config --cflags dnntrain) -ldl -lpthread
# The leak sanitizer looks at variables of threads, also of a library that is gone, and ends there.
LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}use_tls=0" "$temp/unloads" "$libs/libdnntrain.so" "run.dir=$temp/run.unloads" || die "to unload the library ends the program: $?"

cmake -S "$source/examples" -B "$temp/cmake" -DCMAKE_PREFIX_PATH="$temp/prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="$flags" >"$temp/log" 2>&1 && cmake --build "$temp/cmake" >>"$temp/log" 2>&1 ||
    die "find_package: $(cat "$temp/log")"
try "$temp/pc" "$temp/run.pc"
try "$temp/static" "$temp/run.static"
try "$temp/cmake" "$temp/run.cmake"
for other in static cmake; do
    cmp "$temp/run.pc/checkpoints/model.safetensors" "$temp/run.$other/checkpoints/model.safetensors"
done
# The program, asked for the same, leaves the same.
printf '[model]\nname = lenet5\n[data]\nsource = synthetic\nsamples = 64\n[train]\nbatch = 16\nepochs = 2\nlr = 0.05\n' \
    >"$temp/lenet.ini"
"$temp/prefix/bin/dnntrain" "$temp/lenet.ini" --set "run.dir=$temp/run.program" >/dev/null 2>&1
cmp "$temp/run.pc/checkpoints/model.safetensors" "$temp/run.program/checkpoints/model.safetensors"

# ---- the card's module, which the library loads from beside itself: whole, and without a card a status and a reason ----
[ -e "$libs/libdnntrain_cuda.so" ] || exit 0
missing=$(nm -D --undefined-only "$libs/libdnntrain_cuda.so" | awk '$1 == "U" && $2 ~ /^dti?_/ { print $2 }')
[ -z "$missing" ] || die "libdnntrain_cuda.so lacks: $missing"
cat >"$temp/card.c" <<'E2'
#include <dnntrain.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    static dt_err err;
    dt_run *run = NULL;
    const char *const set[] = {"device.kind=cuda", "train.steps=1", argv[argc - 1]};
    dt_status st = dt_run_open(&run, argv[1], set, 3, &err);
    if (st == DT_OK)
        st = dt_run_begin(run, NULL, &err);
    if (st == DT_OK)
        st = dt_run_end(run, dt_run_train(run, 0, &err), &err);
    dt_run_close(run);
    fputs(err.text, stdout);
    return (int)st;
}
E2
# shellcheck disable=SC2046,SC2086
$cc -std=c11 -Wall -Wextra -Wpedantic -Werror $flags "$temp/card.c" -o "$temp/card" \
    $(pkg-config --cflags --libs dnntrain)
told() { # STATUS WORDS
    got=0
    "$temp/card" "$source/configs/tiny_ini_network.ini" "run.dir=$temp/run.card" >"$temp/card.out" 2>&1 || got=$?
    [ "$got" = "$1" ] && grep -q "$2" "$temp/card.out" && ! grep -q 'undefined symbol' "$temp/card.out" ||
        die "with device.kind = cuda the library ends with $got and says: $(cat "$temp/card.out")"
}
told 8 'device.kind = cpu' # CUDA_VISIBLE_DEVICES shows it no card
"$temp/pc/plan" "$source/configs/tiny_ini_network.ini" device.card=rtx3090 >"$temp/plan.out" ||
    die "the library makes no plan for a card that is not here"
mv "$libs/libdnntrain_cuda.so" "$temp/elsewhere.so"
told 8 "libdnntrain_cuda.so' is missing"
echo 'no library' >"$libs/libdnntrain_cuda.so"
told 8 'libdnntrain_cuda.so: '
