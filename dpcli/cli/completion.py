"""The command `dpcli completion`, and the completion of names in bash, zsh and fish. If no name fits, the shell completes files.

A shell that has loaded the script of `dpcli completion` calls dpcli with VARIABLE in its environment; main.py then calls `register`, and
Click computes the names. The scripts below replace those of Click, which complete no files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from dpcli.base.registry import ACCOUNTANTS, PLOTS
from dpcli.cli.printing import show

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The last argument is the typed word.
Completer = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem] | list[str]"]
VARIABLE = "_DPCLI_COMPLETE"  # environment variable by which a script asks dpcli for completions


def among(names: Iterable[str]) -> Completer:
    """Return a function that returns the names that begin with the typed word."""
    return lambda _, __, typed: [name for name in names if name.startswith(typed)]


complete_accountant = among((*ACCOUNTANTS, "all"))
complete_kind = among(PLOTS)


def register() -> None:
    """Replace the bash, zsh and fish of Click by shells with the scripts below, which complete files if no name fits."""
    from click.shell_completion import (
        BashComplete,
        CompletionItem,
        FishComplete,
        ShellComplete,
        ZshComplete,
        add_completion_class,
        split_arg_string,
    )

    def with_files(shell: type[ShellComplete], script: str) -> type[ShellComplete]:
        class WithFiles(shell):  # type: ignore[valid-type, misc]
            source_template = script

            def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
                names: list[CompletionItem] = super().get_completions(args, incomplete)
                return names or [CompletionItem(incomplete, type="file")]

        return WithFiles

    class BashLine(BashComplete):
        """Bash completion by the whole line, because bash splits its list of words at every = and colon."""

        def get_completion_args(self) -> tuple[list[str], str]:
            line = os.environ.get("COMP_LINE")
            if line is None:  # called by Click's own script
                return super().get_completion_args()
            words = split_arg_string(line)
            return (words[1:], "") if line[-1:].isspace() else (words[1:-1], words[-1])

    for shell, script in ((BashLine, BASH), (ZshComplete, ZSH), (FishComplete, FISH)):
        add_completion_class(with_files(shell, script), shell.name)


@click.command(short_help="Print the completion script for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; load it with, for example, eval "$(dpcli completion bash)"."""
    from click.shell_completion import get_completion_class

    register()
    completer = get_completion_class(shell)
    assert completer is not None
    script = completer(context.find_root().command, {}, "dpcli", VARIABLE)
    show(script.source_template % script.source_vars())


# Each script asks dpcli for names, offers them, and completes files if there are none. Click fills in the words in %(...)s.
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
