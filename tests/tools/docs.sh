#!/bin/sh
# docs/ becomes pages without a warning: every link and anchor leads somewhere, and index.md names every page; what is
# looked for is found. sh docs.sh SOURCE; 77 without Sphinx, MyST or Furo.
set -eu
source=$1
command -v sphinx-build >/dev/null || exit 77
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
die() {
    echo "$*" >&2
    exit 1
}
make() { # DOCS BUILDER TO: as the target docs does
    sphinx-build -q -n -W --keep-going -b "$2" -d "$3-cache" "$1" "$3" 2>&1
}

# The check itself, on a small tree: it holds, and then with a link, an anchor and a page that are wrong.
mkdir -p "$temp/tree/docs"
cp "$source/docs/conf.py" "$temp/tree/docs"
cp "$source/CMakeLists.txt" "$temp/tree"
printf '# A\n\n## B\n\n- [one](one.md), [its part](one.md#a-part)\n' >"$temp/tree/docs/index.md"
printf '# One\n\n## A part\n\nThe [makefile](../CMakeLists.txt).\n' >"$temp/tree/docs/one.md"
if ! said=$(make "$temp/tree/docs" html "$temp/html"); then
    case $said in *"extension myst_parser"* | *"theme named 'furo'"*) exit 77 ;; esac
    die "the check refuses what holds: $said"
fi
printf '# One\n\n## A part\n\n[gone](gone.md)\n\n[gone](one.md#gone)\n\n[gone](../gone.c)\n' >"$temp/tree/docs/one.md"
printf '# Two\n' >"$temp/tree/docs/two.md"
! said=$(make "$temp/tree/docs" dummy "$temp/dummy") || die "the check misses what is wrong"
for wrong in 'one.md:5.*gone.md' 'one.md:7.*gone' 'one.md:9.*gone.c' 'two.md.*toctree'; do
    printf '%s\n' "$said" | grep -q "$wrong" || die "the check misses $wrong; it says: $said"
done

make "$source/docs" html "$temp/site" || die "docs/ has mistakes"
# (words are there by their stems)
for word in vdnn remateri checkpoint; do
    grep -q "\b$word" "$temp/site/searchindex.js" || die "the index of the search lacks $word"
done
pages=$(find "$source/docs" -name '*.md' | wc -l)
made=$(find "$temp/site" -name '*.html' ! -name genindex.html ! -name search.html | wc -l)
[ "$pages" = "$made" ] || die "$pages pages in docs/, $made made"
! grep -rlE '(src|href)="(https?:)?//[^"]*\.(js|css|woff2?|png)' "$temp/site" --include='*.html' || die "pages load something from a network"
