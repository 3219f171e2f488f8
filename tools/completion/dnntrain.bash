# Completion of dnntrain in bash: commands, flags, keys and their values are asked of the program, so that they are its own.

# What a key of a configuration may be set to, by its row in help and by the list that this names; "path": a file.
_dnntrain_values() { # PROGRAM KEY
    "$1" help config 2>/dev/null | awk -F'|' -v program="$1" -v key="$2" '
        /^## \[/ { section = $0; gsub(/^## \[|\].*/, "", section) }
        { name = $2; gsub(/ /, "", name) }
        section "." name == key {
            n = split($3, word, /[ ,]+/)
            for (i = 1; i <= n && $3 !~ /\.\.|^ (list|text|bytes)/; i++)
                if (word[i] != "" && word[i] != "or") print word[i]
            if (!match($0, /dnntrain list [a-z]+/)) next
            list = substr($0, RSTART + 9, RLENGTH - 9)
            for (rest = $5; match(rest, /[.;] [a-z]+: /); rest = substr(rest, RSTART + RLENGTH)) # what else it may be: "; auto: ..."
                print substr(rest, RSTART + 2, RLENGTH - 4)
            system("\"" program "\" " list " 2>/dev/null | sed -n \"" (/simulated alone/ ? "/; simulated alone$/d; " : "") "s/^\\([^ ]\\{1,\\}\\).*/\\1/p\"")
        }'
}

_dnntrain() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=train known key='' fixed=''
    COMPREPLY=()
    # To bash '=' is a word of its own, unless COMP_WORDBREAKS is without it.
    if [ "$COMP_CWORD" -ge 3 ] && [ "$word" = = ] && [ "${COMP_WORDS[COMP_CWORD - 2]}" = --set ]; then
        key=$before word=
    elif [ "$COMP_CWORD" -ge 4 ] && [ "$before" = = ] && [ "${COMP_WORDS[COMP_CWORD - 3]}" = --set ]; then
        key=${COMP_WORDS[COMP_CWORD - 2]}
    elif [ "$before" = --set ] && [[ $word = *=* ]]; then
        key=${word%%=*} fixed=${word%%=*}= word=${word#*=}
    fi
    if [ -n "$key" ]; then
        case $word in *,*) fixed=$fixed${word%,*}, word=${word##*,} ;; esac
        known=$(_dnntrain_values "$program" "$key")
        mapfile -t COMPREPLY < <(
            compgen -P "$fixed" -W "$(grep -vx path <<<"$known")" -- "$word" || :
            ! grep -qx path <<<"$known" || compgen -P "$fixed" -f -- "$word" || :
        )
        return
    fi
    known=$("$program" help 2>/dev/null | sed -n 's/^  dnntrain CONFIG .*/train/p; s/^  dnntrain \([a-z-]*\) .*/\1/p')
    if [ "$COMP_CWORD" -gt 1 ] && grep -qx -- "${COMP_WORDS[1]}" <<<"$known"; then
        command=${COMP_WORDS[1]}
    fi
    if [ "$command" = list ] || [ "$command" = help ]; then
        known="$known config glossary $("$program" list policies 2>/dev/null | cut -d' ' -f1)"
        [ "$command" = help ] || known='policies models layers codecs tiers pools accounts devices cards sources'
    elif [ "$COMP_CWORD" -gt 1 ]; then
        known=
    fi
    case $word in
    -*) known=$("$program" "$command" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p') ;;
    esac
    if [ "$before" = --set ]; then
        known=$("$program" help config 2>/dev/null |
            awk -F'[][| ]+' '/^## \[/ { section = $2 } /^\| [a-z]/ && section && $2 != "key" { print section "." $2 "=" }')
        compopt -o nospace +o filenames 2>/dev/null # which would write \=
    fi
    mapfile -t COMPREPLY < <(compgen -W "$known" -- "$word")
    [ "$before" = --set ] || case $word in -*) ;; *) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word") ;; esac
}
complete -o filenames -F _dnntrain dnntrain
