# Completion of dnntrain in bash: commands and flags are asked of the program, so that they are its own.
_dnntrain() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=train known
    COMPREPLY=()
    known=$("$program" help 2>/dev/null | sed -n 's/^  dnntrain \([a-z-]*\) .*/\1/p')
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
        compopt -o nospace 2>/dev/null
    fi
    mapfile -t COMPREPLY < <(compgen -W "$known" -- "$word")
    [ "$before" = --set ] || case $word in -*) ;; *) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word") ;; esac
}
complete -o filenames -F _dnntrain dnntrain
