"""What a shell loads to ask this program for names at TAB. Where it has none, or does not run, the shell completes files as before.

%(complete_func)s, %(complete_var)s and %(prog_name)s are filled in by Click.
"""

from __future__ import annotations

BASH = r"""%(complete_func)s() {
    local line response word
    COMPREPLY=()
    response=$(COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "${1/#\~\//$HOME/}" 2>/dev/null </dev/null) ||
        return 0
    while IFS= read -r line; do
        if [[ $line == plain,* ]]; then
            printf -v word %%q "${line#plain,}"
            COMPREPLY+=("$word")
        fi
    done <<< "$response"
}

complete -o bashdefault -o default -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null ||
    complete -o bashdefault -o default -F %(complete_func)s %(prog_name)s
"""

ZSH = r"""#compdef %(prog_name)s

%(complete_func)s() {
    local -a response plain described
    local kind key help program=${(Q)words[1]/#\~\//$HOME/}
    response=("${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete $program 2>/dev/null </dev/null)}")
    for kind key help in $response; do
        if [[ $kind == plain && $help == _ ]]; then
            plain+=("$key")
        elif [[ $kind == plain ]]; then
            described+=("${key//:/\\:}:$help")
        fi
    done
    if (( $#plain + $#described == 0 )); then
        [[ $PREFIX == --*=* ]] && compset -P '--*='
        _files && return
        [[ $PREFIX == *=* ]] && compset -P '*=' && _files
        return
    fi
    [[ $PREFIX == --*=* ]] && compset -P '--*='
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i -D }
    compdef %(complete_func)s %(prog_name)s
fi
"""

FISH = r"""function %(complete_func)s
    set -l program (string replace -r '^~/' "$HOME/" -- (commandline -opc)[1])
    set -l token (string unescape -- (commandline -ct); or commandline -ct)
    set -l option (string match -r -- '^--[^=]*=' $token)
    set -l words (commandline -cp | string join ' ')
    set -l names
    for line in (env %(complete_var)s=fish_complete COMP_WORDS="$words" COMP_CWORD="$token" $program 2>/dev/null </dev/null)
        set -a names (string replace -rf '^plain,' '' -- $line)
    end
    if not set -q names[1]
        set names (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$token"))
    end
    if not set -q names[1]
        set option (string match -r -- '^.*=' "$token")
        set names (__fish_complete_path (string replace -r -- '^.*=' '' "$token"))
    end
    for name in $names
        echo -- "$option$name"
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
