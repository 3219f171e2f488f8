#!/bin/sh
# Includes follow the arrows tools -> session -> models -> {memory, layers, data} -> engine and no other, and
# name the path from the root.
set -eu
root=${1:-$(dirname -- "$0")/../..}

rules='
BEGIN {
    may["engine"] = " engine "
    may["memory"] = " engine memory "
    may["layers"] = " engine layers "
    may["data"]   = " engine data "
    may["models"] = " engine memory layers data models "
    may["session"] = " engine memory layers data models session "
    may["tools"]  = " engine memory layers data models session tools "
    may["tests"]  = " engine memory layers data models session tools tests "
}
function bad(why) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, why, $0
    wrong = 1
}
/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    split(FILENAME, from, "/")
    path = $0
    sub(/^[^<"]*[<"]/, "", path)
    sub(/[>"].*/, "", path)
    dirs = split(path, to, "/")
    ours = dirs > 1 && to[1] in may
    if (ours && $0 ~ /</)
        bad("our own headers stand in quotes")
    else if (!ours && $0 !~ /</)
        bad("write the path from the root, ROOM/FILE")
    else if (path ~ /\.\./)
        bad("no .. in includes")
    else if (ours && path ~ /\.cu?$/ && from[1] != "tests")
        bad("sources are linked, not included")
    else if (ours && index(may[from[1]], " " to[1] " ") == 0)
        bad("no arrow from " from[1] " to " to[1])
}
END { exit wrong }'

scan() ( # TREE: prints what is wrong, 1 if anything is
    cd "$1"
    set --
    for room in engine memory layers data models session tools tests; do
        [ ! -d "$room" ] || set -- "$@" "$room"
    done
    find "$@" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' \) -exec awk "$rules" {} +
)

# The check itself is checked: every line of these is wrong, and caught.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
fails=0
seed() { # FILE LINE pass|fail
    mkdir -p "$temp/$(dirname "$1")"
    printf '/* one */\n%s\n' "$2" >"$temp/$1"
    got=fail
    ! scan "$temp" >/dev/null 2>&1 || got=pass
    if [ $got != "$3" ]; then
        echo "self-test: '$2' in $1 should $3"
        fails=1
    fi
    rm "$temp/$1"
}
seed engine/a.c '#include "memory/pools/pool.h"' fail
seed engine/a.h '  #  include "layers/registry.h"' fail
seed memory/policies/a.c '#include "layers/registry.h"' fail
seed memory/a.c '#include "data/source.h"' fail
seed layers/a.c '#include "memory/pools/pool.h"' fail
seed layers/a_cuda.cu '#include "data/source.h"' fail
seed data/a.c '#include "layers/registry.h"' fail
seed data/a.c '#include "models/zoo.h"' fail
seed models/a.c '#include "tools/tool.h"' fail
seed tools/a.c '#include "tests/fixture/check.h"' fail
seed layers/layers.def '#include "memory/pools/pool.h"' fail
seed memory/a.c '#include "pool.h"' fail
seed memory/a.c '#include "../data/source.h"' fail
seed memory/a.c '#include "memory/../data/source.h"' fail
seed memory/a.c '#include <engine/base/error.h>' fail
seed memory/a.c '#include "memory/pools/pool.c"' fail
seed memory/a.c '#include "engine/base/error.h" /* dt_err */' pass
seed models/a.c '#include "layers/registry.h"' pass
seed tests/a.c '#include "tools/tool.h"' pass
seed engine/a.c '#include <sys/types.h>' pass
[ $fails = 0 ] || exit 1

scan "$root"
