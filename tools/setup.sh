# What ./dnntrain, tests/run and .ci/run share: finding or installing Debian packages, and building
# under a lock. Sourced by POSIX shells with $root (the source tree) and $prog (for messages) set.
#
#   DT_BUILD=DIR   build there and not in build/
#   DT_SETUP=no    look for no packages; cmake says what it misses

build=${DT_BUILD:-$root/build}
case $build in
/*) ;;
*) build=$PWD/$build ;;
esac

say() {
    printf '%s: %s\n' "$prog" "$*" >&2
}

die() { # STATUS MESSAGE
    status=$1
    shift
    say "$*"
    exit "$status"
}

trap 'say "interrupted; the next start goes on from here"; exit 130' INT
trap 'exit 143' TERM

# LOG COMMAND...: run it in silence; when it fails show the end of what it said.
quietly() {
    log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null && return
    tail -n 40 "$log" >&2
    say "failed: $*"
    say "the whole log: $log"
    return 1
}

# One builder at a time. The lock is the kernel's: it goes with the process, however that ends.
lock() {
    mkdir -p "$build" 2>/dev/null || true
    if ! (: >>"$build/.lock") 2>/dev/null; then
        die 2 "cannot write to '$build', where the program is built;" \
            "name a folder that can be written: DT_BUILD=/some/folder $prog ..."
    fi
    exec 9>>"$build/.lock"
    flock -n 9 && return
    say "waiting for another build in '$build'"
    flock 9
}

unlock() {
    exec 9>&-
}

# --- packages ---

packages() { # KIND...: their names
    awk -v kinds=" $* " '!/^#/ && NF == 2 && index(kinds, " " $2 " ") { print $1 }' \
        "$root/tools/packages.txt"
}

missing_packages() { # KIND...: those not installed, on one line
    # shellcheck disable=SC2046 # one word a package
    set -- $(packages "$@")
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        awk -v want="$*" '$1 == "installed" { have[$2] = 1 }
            END { n = split(want, w, " ")
                  for (i = 1; i <= n; i++) if (!(w[i] in have)) printf "%s ", w[i] }' |
        sed 's/ $//'
}

on_terminal() {
    [ -t 0 ] && [ -t 2 ] && [ -z "${CI:-}" ]
}

apt() { # runs apt-get as root; the lock stays ours, whatever apt starts
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" 9>&-
}

apt_install() { # the lists are fetched only when the packages cannot be had without
    apt install --no-install-recommends "$@" && return
    apt update && apt install --no-install-recommends "$@"
}

# KIND...: install what is missing, ask, or say what to type and leave with status 2.
need_packages() {
    [ "${DT_SETUP:-}" != no ] || return 0
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        command -v cmake >/dev/null && [ -e "$build/CMakeCache.txt" ] && return
        say "no Debian system, so nothing is installed; needed is what Debian calls:" $(packages "$@")
        command -v cmake >/dev/null || die 2 "cmake is missing"
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0

    to_type="apt-get update && apt-get install --no-install-recommends $missing"
    as_root=
    if command -v sudo >/dev/null; then
        to_type="sudo apt-get update && sudo apt-get install --no-install-recommends $missing"
        [ "$(id -u)" = 0 ] || as_root=sudo
    elif [ "$(id -u)" != 0 ]; then
        to_type="su -c '$to_type'"
    fi
    say "these packages are missing: $missing"
    if [ "$(id -u)" != 0 ] && { [ -z "$as_root" ] || ! { on_terminal || sudo -n true 2>/dev/null; }; }; then
        refuse
    fi
    if on_terminal; then
        printf 'Install them with apt-get? [Y/n] ' >&2
        read -r answer || answer=n
        case $answer in
        '' | [Yy]*) ;;
        *) refuse ;;
        esac
    fi
    say "installing them (a minute or two)"
    [ -z "$as_root" ] || sudo -v || refuse # a password is asked for here, not behind the log
    # shellcheck disable=SC2086 # one word a package
    quietly "$build/packages.log" apt_install $missing || refuse
}

refuse() {
    say "to install them, type:"
    printf '    %s\n' "$to_type" >&2
    die 2 "or, with these libraries from elsewhere: DT_SETUP=no $prog ..."
}

# --- build ---

# OPTION...: configure when that has not been done for this tree, or when there are options.
configure() {
    cache=$build/CMakeCache.txt
    if [ -e "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
        rm -rf "$cache" "$build/CMakeFiles" # the tree was moved or copied
    fi
    if [ ! -e "$cache" ]; then
        set -- -DCMAKE_BUILD_TYPE=Release "$@"
        ! command -v ninja >/dev/null || set -- -G Ninja "$@"
    elif [ $# = 0 ] && { [ -e "$build/build.ninja" ] || [ -e "$build/Makefile" ]; }; then
        return 0
    fi
    quietly "$build/configure.log" cmake -S "$root" -B "$build" "$@"
}

compile() { # TARGET
    quietly "$build/build.log" cmake --build "$build" --target "$1" -j "$(nproc)"
}

# --- scratch ---

# Files of this script and what it starts are in memory, where that has 2 GiB and runs programs, which tests put there
# (containers mount it noexec), and the caller names no folder: no test waits for a disk but those that ask what one can
# do, which go elsewhere.
in_memory() {
    [ -z "${TMPDIR:-}" ] || return 0
    [ "$(df -kP /dev/shm 2>/dev/null | awk 'NR > 1 { print $4 }')" -ge 2097152 ] 2>/dev/null || return 0
    scratch=$(mktemp -d /dev/shm/dnntrain-XXXXXX) || return 0
    if ! { printf '#!/bin/sh\n' >"$scratch/program" && chmod 755 "$scratch/program" && "$scratch/program"; } 2>/dev/null; then
        rm -rf "$scratch"
        return 0
    fi
    rm "$scratch/program"
    chmod 755 "$scratch" # some tests run as nobody
    trap 'rm -rf "$scratch"' EXIT
    export TMPDIR="$scratch"
}
