# What zsh makes of words and a Tab, in a terminal of its own: zsh -f completion.zsh SOURCE DNNTRAIN prints the completed
# line for each line of stdin. A line goes in by keys; control-X takes it out again, into a file.
emulate -R zsh
zmodload zsh/zpty || exit 77
folder=$(mktemp -d) || exit 1
trap 'zpty -d shell 2>/dev/null; rm -rf $folder' EXIT
ln -s $2 $folder/dnntrain
mkfifo $folder/line

cat >$folder/rc <<RC
PS1= PS2= RPS1= HISTFILE=
path=($folder \$path)
fpath=($1/tools/completion \$fpath)
autoload -Uz compinit && compinit -u -d $folder/dump
take() { print -r -- "\$BUFFER" >$folder/line; BUFFER= }
zle -N take
bindkey '^X' take
bindkey '^I' complete-word
setopt no_beep no_auto_menu no_list_ambiguous
cd $1
print ready >$folder/line
RC
zpty shell env TERM=dumb COLUMNS=80 zsh -f -i
zpty -w shell "source $folder/rc"
# What the shell prints has to be read, else it waits for that.
{ while zpty -r shell; do :; done >/dev/null } &
exec 3<>$folder/line
read -r -t 60 -u 3 said && [[ $said == ready ]] || { print -u2 "zsh does not start: $said"; exit 1 }
while read -r words; do
    zpty -n -w shell "$words"$'\t\x18'
    read -r -t 60 -u 3 said || { print -u2 "no answer to '$words'"; exit 1 }
    print -r -- "$said"
done
