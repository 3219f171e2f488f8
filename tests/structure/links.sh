#!/bin/sh
# Relative links and pictures of every page lead to a file; addresses are of the form that leads somewhere, and every
# configuration that a page names is there; every paper of docs/references.bib can be found: by a DOI or a number of
# arXiv's, each well formed and named once, or by where it appeared. Nothing is asked of a network.
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

malformed() { # FOLDER: addresses in its pages that are not https, have no host with a dot, or end in punctuation
    grep -rnoE --include='*.md' --include='*.bib' --include='*.cff' 'https?:[^] )>"}`]*' "$1" | grep -v '/build' |
        grep -vE ':https://[a-z0-9.-]+\.[a-z]{2,}(:[0-9]+)?(/[^[:space:]]*[^.,;:])?$' || true
}

unshipped() { # FOLDER CONFIGS: configurations that its pages name, and that are not there
    grep -rno --include='*.md' 'configs/[A-Za-z0-9_/]*\.ini' "$1" | grep -v '/build' | while IFS=: read -r page line name; do
        [ -e "$2/${name#configs/}" ] || echo "$page:$line: there is no $name"
    done
}

unfound() { # FILE: what is wrong with papers in it
    awk '
        function close_entry() {
            if (name != "" && !doi && !eprint && !place) print name ": neither doi nor eprint nor where it appeared"
            name = ""
        }
        /^@/ { close_entry(); name = $0; sub(/^@[a-z]*\{/, "", name); sub(/,$/, "", name); doi = eprint = place = 0 }
        /^ *(booktitle|journal|howpublished) = / { place = 1 }
        /^ *(doi|eprint) = / {
            key = $1; value = $0; sub(/^[^{]*\{/, "", value); sub(/\}.*/, "", value)
            if (key == "doi") doi = 1; else eprint = 1
            if (value in seen) print name ": " value " is that of " seen[value]
            seen[value] = name
            if (key == "doi" && value !~ /^10\.[0-9][0-9][0-9][0-9]+\/[A-Za-z0-9.()_\/-]+$/) print name ": no DOI: " value
            if (key == "eprint" && value !~ /^[0-9][0-9][0-9][0-9]\.[0-9][0-9][0-9][0-9][0-9]?$/) print name ": no number of arXiv: " value
        }
        END { close_entry() }' "$1"
}

# The check itself: one link that holds, one that does not.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
touch "$temp/there.md"
printf 'See [it](there.md#part), [this](https://nowhere.example/x) and ![that](gone.svg).\n' >"$temp/page.md"
[ "$(broken "$temp")" = "$temp/page.md: 'gone.svg' leads nowhere" ] || { echo "the check misses links"; exit 1; }

printf 'At http://plain.example/a, https://host and https://here.example/x.\n' >"$temp/page.md"
[ "$(malformed "$temp" | wc -l)" = 3 ] || { echo "the check misses addresses"; exit 1; }
mkdir "$temp/configs"
touch "$temp/configs/there.ini"
printf 'Run configs/there.ini, and configs/gone.ini.\n' >"$temp/page.md"
[ "$(unshipped "$temp" "$temp/configs")" = "$temp/page.md:1: there is no configs/gone.ini" ] || { echo "the check misses configurations"; exit 1; }
printf '@misc{a,\n  doi = {10.1000/x-1},\n}\n@misc{b,\n  doi = {10.1000/x-1},\n}\n@misc{c,\n  eprint = {12.3},\n}\n@misc{d,\n  year = {2000},\n}\n' >"$temp/a.bib"
[ "$(unfound "$temp/a.bib" | cut -d: -f1 | tr '\n' ' ')" = 'b c d ' ] || { echo "the check misses papers"; exit 1; }

found=$(broken .; unshipped . configs; malformed docs; malformed README.md; malformed CONTRIBUTING.md; malformed CHANGELOG.md; malformed CITATION.cff; unfound docs/references.bib)
[ -z "$found" ] || { echo "$found"; exit 1; }
