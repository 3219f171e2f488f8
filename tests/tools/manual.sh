#!/bin/sh
# Manual pages have every command and flag that help has, and man and mandoc find nothing wrong with them; completion offers
# commands, flags, keys and values. sh manual.sh DNNTRAIN SOURCE
set -eu
binary=$1
source=$2
command -v man >/dev/null && command -v groff >/dev/null || exit 77
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
export COLUMNS=100 LC_ALL=C.UTF-8 MANWIDTH=200
die() {
    echo "$*" >&2
    exit 1
}

sh "$source/cmake/man.sh" "$temp/man" 1.2.3 "$binary"
lint() { # FOLDER: what man says of its pages
    for page in "$1"/*.1; do
        man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null | sed "s|^|${page##*/}: |"
        ! command -v mandoc >/dev/null || mandoc -T lint -W warning "$page" || true
    done
}
mkdir "$temp/bad"
printf '.TH X 1\n.SH NAME\n.nonsense y\n' >"$temp/bad/x.1"
[ -n "$(lint "$temp/bad")" ] || die "man finds nothing wrong with a bad page"
found=$(lint "$temp/man")
[ -z "$found" ] || die "$found"

commands=$("$binary" help | sed -n 's/^  dnntrain CONFIG .*/train/p; s/^  dnntrain \([a-z-]*\) .*/\1/p' | sort -u)
[ "$(echo "$commands" | wc -l)" -gt 10 ] || die "few commands: $commands"
echo "$commands" | grep -qx train || die "the usage of help's first command is no CONFIG any more"
for command in $commands; do
    man -l "$temp/man/dnntrain-$command.1" | col -b >"$temp/page" 2>/dev/null || man -l "$temp/man/dnntrain-$command.1" >"$temp/page"
    for flag in $("$binary" "$command" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
        grep -q -e "^ *$flag" "$temp/page" || die "dnntrain-$command.1 lacks $flag"
    done
    sed 's/\\-/-/g' "$temp/man/dnntrain.1" | grep -q "^.BR dnntrain-$command (1)" || die "dnntrain.1 does not refer to dnntrain-$command"
    grep -q 'dnntrain 1\.2\.3' "$temp/man/dnntrain-$command.1" || die "dnntrain-$command.1 has no version"
done

# ---- what is cited: this version, and of each policy that is a paper's, the paper ----
version=$(sed -n 's/^project(dnntrain VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
grep -qx "version: $version" "$source/CITATION.cff" || die "CITATION.cff is of another version than $version"
grep '^## ' "$source/CHANGELOG.md" | head -n 1 | grep -q "^## $version\(,\|\$\)" || die "CHANGELOG.md does not begin with $version"
[ "$(sed -n '1s/^dnntrain (\([0-9.]*\)-.*/\1/p' "$source/debian/changelog")" = "$version" ] ||
    die "debian/changelog does not begin with $version"
[ "$("$binary" --version | head -n 1 | cut -d' ' -f2)" = "$version" ] || die "--version is another than $version"
for policy in $("$binary" list policies | sed -n 's/^\([a-z_]*\) .*/\1/p'); do
    case $policy in keep_all | auto) continue ;; esac # nobody's
    sed 's/\\_/_/g' "$source/docs/references.bib" | grep -Eq "note = .*[{ ]${policy}[,}]" ||
        die "docs/references.bib names no paper for $policy"
done

# ---- completion ----
command -v bash >/dev/null || exit 0
offers() { # WORD...: what is offered for the last of them
    bash -c 'set -eu; . "$1"; shift; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dnntrain
        printf "%s\n" "${COMPREPLY[@]}"' bash "$source/tools/completion/dnntrain.bash" "$binary" "$@"
}
wants() { # OFFER WORD...
    offer=$1
    shift
    offers "$@" | grep -qx -e "$offer" || die "completing '$*' does not offer $offer: $(offers "$@" | head -n 5)"
}
cd "$source"
wants explain ex
wants train tra
wants --plan train configs/chain.ini --pl
wants configs/chain.ini train configs/ch
wants --kernels plan --ker
wants --resume configs/chain.ini --re
wants configs/chain.ini plan configs/ch
wants memory.policy= plan configs/chain.ini --set memory.pol
wants chen_sqrt plan configs/chain.ini --set memory.policy = chen_s
wants vdnn_all plan configs/chain.ini --set memory.policy =
wants 'chen_sqrt,vdnn_all' plan configs/chain.ini --set memory.policy = chen_sqrt,vdnn_a
wants memory.policy=chen_sqrt plan configs/chain.ini --set memory.policy=chen_s
wants resnet50 plan --set model.name = resn
wants adamw plan --set train.optimizer = ad
wants off plan --set model.fuse = o
wants p100 plan --set memory.simulate = p1
wants own plan --set memory.simulate = ow
wants auto plan --set memory.tier = au
wants h100 plan --set device.card = h1
! offers plan --set device.card = p1 | grep -q . || die "a card is offered that is refused: it is for memory.simulate"
wants auto plan --set memory.profile = au
wants configs/chain.ini plan --set memory.profile = configs/ch
wants policies list pol
wants chen_sqrt help chen_s
! offers plan --set train.lr = | grep -q . || die "something is offered for a number"
! offers plan --nonsense | grep -q . || die "something is offered for --nonsense"

# zsh, as someone who presses Tab
command -v zsh >/dev/null || exit 0
lines() { # of the list below: a line before Tab, and behind a bar what it becomes
    cat <<'END'
dnntrain expl|dnntrain explain
dnntrain tra|dnntrain train
dnntrain train configs/chain.ini --resu|dnntrain train configs/chain.ini --resume
dnntrain plan --kern|dnntrain plan --kernels
dnntrain configs/chain.ini --resu|dnntrain configs/chain.ini --resume
dnntrain plan configs/cha|dnntrain plan configs/chain.ini
dnntrain plan configs/chain.ini --set memory.pol|dnntrain plan configs/chain.ini --set memory.policy=
dnntrain plan configs/chain.ini --set memory.policy=chen_s|dnntrain plan configs/chain.ini --set memory.policy=chen_sqrt
dnntrain plan configs/chain.ini --set memory.policy=chen_sqrt,vdnn_c|dnntrain plan configs/chain.ini --set memory.policy=chen_sqrt,vdnn_conv
dnntrain plan configs/chain.ini --set train.optimizer=sg|dnntrain plan configs/chain.ini --set train.optimizer=sgd
dnntrain plan configs/chain.ini --set memory.simulate=gtx1080|dnntrain plan configs/chain.ini --set memory.simulate=gtx1080ti
dnntrain plan --set memory.simulate=ow|dnntrain plan --set memory.simulate=own
dnntrain plan --set device.card=v100-|dnntrain plan --set device.card=v100-
dnntrain plan --set memory.profile=configs/cha|dnntrain plan --set memory.profile=configs/chain.ini
dnntrain list poli|dnntrain list policies
dnntrain help chen_s|dnntrain help chen_sqrt
dnntrain plan --nonsense|dnntrain plan --nonsense
END
}
lines | cut -d'|' -f1 | zsh -f "$source/tests/tools/completion.zsh" "$PWD" "$(realpath "$binary")" >"$temp/zsh"
lines | cut -d'|' -f2 | diff - "$temp/zsh" || die "zsh completes otherwise (<: what is wanted)"
