#!/bin/sh
# Manual pages from the program's table of commands: `dnntrain help` names them, `dnntrain help COMMAND` shows each.
# man.sh FOLDER VERSION PROGRAM... writes FOLDER/dnntrain.1 and FOLDER/dnntrain-COMMAND.1; PROGRAM is several words
# where an emulator runs it.
set -eu
to=$1
version=$2
shift 2
export COLUMNS=100 LC_ALL=C
# The day of the version: that of its entry in debian/changelog, so that two builds are the same.
date=$(date -u -d "$(sed -n '/^ -- /{s/.*>  //p;q;}' "$(dirname -- "$0")/../debian/changelog")" +%Y-%m-%d)
mkdir -p "$to"

# The text of a help page as roff: a usage, a summary, flags with what they mean.
roff() { # COMMAND TITLE
    awk -v title="$2" -v version="$version" -v date="$date" '
        function safe(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); gsub(/'"'"'/, "\\(aq", s); return s }
        function line(s) { s = safe(s); print (s ~ /^[.'"'"']/ ? "\\&" : "") s }
        NR == 1 || (part == 0 && /^    /) { sub(/^ +/, ""); usage = usage (usage == "" ? "" : " ") $0; next }
        /^$/ && part < 2 { part++; next }
        part == 1 { summary = summary (summary == "" ? "" : " ") $0; next }
        part == 2 && !begun {
            begun = 1
            printf ".TH %s 1 \"%s\" \"dnntrain %s\" \"dnntrain\"\n", toupper(title), date, version
            print ".SH NAME"; print safe(title) " \\- " safe(summary)
            print ".SH SYNOPSIS"; line(usage)
            print ".SH OPTIONS"
        }
        part == 2 && /^  --/ {
            sub(/^  /, ""); at = match($0, /  +/)
            print ".TP"; print ".B " safe(at ? substr($0, 1, at - 1) : $0)
            if (at) line(substr($0, at + RLENGTH)); next
        }
        part == 2 && /^   / { sub(/^ +/, ""); line($0); next }
        part == 2 { exit } # what stands there besides is of the configuration
        END { print ".SH SEE ALSO"; print ".BR dnntrain (1)" }'
}

commands=$("$@" help | sed -n 's/^  dnntrain CONFIG .*/train/p; s/^  dnntrain \([a-z-]*\) .*/\1/p' | sort -u)
for command in $commands; do
    "$@" "$command" --help | roff "$command" "dnntrain-$command" >"$to/dnntrain-$command.1"
done
"$@" help | awk -v version="$version" -v date="$date" '
    function safe(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); gsub(/'"'"'/, "\\(aq", s); return s }
    NR == 1 {
        printf ".TH DNNTRAIN 1 \"%s\" \"dnntrain %s\" \"dnntrain\"\n", date, version
        print ".SH NAME\ndnntrain \\- trains deep neural networks in less memory than all their values take"
        print ".SH SYNOPSIS\n.B dnntrain\nCONFIG | COMMAND [ARGUMENT]...\n.SH COMMANDS"; next
    }
    /^  dnntrain/ { print ".TP"; sub(/^  /, ""); usage = $0; next }
    /^          / { sub(/^ +/, ""); usage = usage " " $0; next }
    usage != "" { print ".B " safe(usage); usage = "" }
    /^      / { sub(/^ +/, ""); print safe($0); next }
    /^$/ { blank++; if (blank == 2) print ".SH DESCRIPTION"; else if (blank == 3) print ".SH EXIT STATUS"; next }
    blank > 1 { print safe($0) }
    END { print ".SH SEE ALSO" }' >"$to/dnntrain.1"
for command in $commands; do printf '.BR dnntrain\\-%s (1)\n' "$(printf %s "$command" | sed 's/-/\\-/g')"; done |
    sed '$!s/$/,/' >>"$to/dnntrain.1"
