#!/bin/sh
# Relative links and pictures of every page lead to a file.
set -eu
cd "${1:-$(dirname -- "$0")/../..}"

broken() { # FOLDER: pages below it whose links lead nowhere
    find "$1" -name '*.md' ! -path '*/build*/*' ! -path '*/.git/*' | while read -r page; do
        grep -o '](\([^)# ]*\)[^)]*)' "$page" | sed 's/^](//; s/[)# ].*$//' | while read -r link; do
            case $link in '' | *://* | mailto:*) continue ;; esac
            [ -e "$(dirname -- "$page")/$link" ] || echo "$page: '$link' leads nowhere"
        done
    done
}

# The check itself: one link that holds, one that does not.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
touch "$temp/there.md"
printf 'See [it](there.md#part), [this](https://nowhere.example/x) and ![that](gone.svg).\n' >"$temp/page.md"
[ "$(broken "$temp")" = "$temp/page.md: 'gone.svg' leads nowhere" ] || { echo "the check misses links"; exit 1; }

found=$(broken .)
[ -z "$found" ] || { echo "$found"; exit 1; }
