# What tests/bare/run and tests/bare/package share: a bare Debian 12 in a folder of its own, made by debootstrap, and
# commands inside it. Sourced with $prog and $root (the source tree) set; as root.
#
# The mirror, its keys and any proxy are those apt uses on this machine; DT_MIRROR=URL overrides it.
suite=bookworm

say() {
    printf '\n== %s\n' "$*"
}
die() {
    printf '%s: %s\n' "$prog" "$*" >&2
    exit 2
}

# Sets dir to DIR, or to a temporary folder that goes with this process.
bare_folder() { # [DIR]
    dir=$1
    [ "$(id -u)" = 0 ] || die "needs root, for chroot"
    command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
    if [ -z "$dir" ]; then
        dir=$(mktemp -d "${TMPDIR:-/tmp}/dt-bare-XXXXXX")
        trap 'rm -rf --one-file-system "$dir"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
    else
        [ ! -e "$dir" ] || die "'$dir' is there already"
        mkdir -p "$dir"
        dir=$(readlink -f -- "$dir")
    fi
    chmod 755 "$dir"
}

bare_system() { # a bare system in $dir, which is there and empty
    mirror=${DT_MIRROR:-}
    [ -n "$mirror" ] || mirror=$(apt-get update --print-uris 2>/dev/null |
        sed -n "s#^'\(.*\)/dists/$suite/InRelease' .*#\1#p" | head -n 1)
    [ -n "$mirror" ] || die "apt on this machine knows no $suite mirror: DT_MIRROR=URL $prog"
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    [ -z "${proxy:-}" ] || export http_proxy="$proxy"

    say "debootstrap"
    debootstrap --variant=minbase "$suite" "$dir" "$mirror" >"$dir.log" 2>&1 || {
        tail -n 20 "$dir.log"
        die "debootstrap failed; the whole log: $dir.log"
    }
    rm "$dir.log"

    # Only what says where packages come from, and how to trust it.
    for part in sources.list sources.list.d trusted.gpg trusted.gpg.d keyrings; do
        [ ! -e "/etc/apt/$part" ] || cp -rL "/etc/apt/$part" "$dir/etc/apt/"
    done
    for part in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        [ -f "$part" ] && grep -qi 'acquire' "$part" || continue
        mkdir -p "$dir$(dirname "$part")"
        cp -L "$part" "$dir$part"
    done
    [ -z "${DT_MIRROR:-}" ] || {
        rm -rf "$dir/etc/apt/sources.list.d"
        echo "deb $mirror $suite main" >"$dir/etc/apt/sources.list"
    }
    cp -rL /usr/share/keyrings "$dir/usr/share/" 2>/dev/null || true
    cp -L /etc/resolv.conf /etc/hosts "$dir/etc/"
    [ ! -d /etc/ssl/certs ] || { # for mirrors behind https
        mkdir -p "$dir/etc/ssl/certs"
        cp -L /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/" 2>/dev/null || true
    }
}

# COMMAND... in FOLDER of the new system. The mounts live in a namespace that ends with it.
inside() {
    folder=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shells
    unshare --mount --pid --fork --kill-child sh -euc '
        dir=$1 folder=$2
        shift 2
        mount -t proc proc "$dir/proc"
        mount --rbind /dev "$dir/dev"
        exec chroot "$dir" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            sh -c "cd \"\$0\" && exec \"\$@\"" "$folder" "$@"' sh "$dir" "$folder" "$@" </dev/null
}

timed() {
    say "$1"
    shift
    before=$(date +%s.%N)
    status=0
    "$@" || status=$?
    echo "-- status $status after $(echo "$before $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }') s"
    return $status
}

