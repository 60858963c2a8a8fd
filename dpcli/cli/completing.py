"""What a shell is told when somebody presses TAB: names where there are names, else files, as the shell would have offered by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dpcli.base.registry import ACCOUNTANTS, PLOTS

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

Completer = Callable[["click.Context", "click.Parameter", str], "list[CompletionItem] | list[str]"]
VARIABLE = "_DPCLI_COMPLETE"


def among(names: Iterable[str]) -> Completer:
    """Those of some names that begin as what was typed."""
    return lambda _, __, typed: [name for name in names if name.startswith(typed)]


accountant, kind = among((*ACCOUNTANTS, "all")), among(PLOTS)


def register() -> None:
    """Let the shells of click complete files wherever there are no names, and load what is in `shells`."""
    from click.shell_completion import (
        BashComplete,
        CompletionItem,
        FishComplete,
        ShellComplete,
        ZshComplete,
        add_completion_class,
        split_arg_string,
    )

    from dpcli.cli.shells import BASH, FISH, ZSH

    def with_files(shell: type[ShellComplete], script: str) -> type[ShellComplete]:
        class WithFiles(shell):  # type: ignore[valid-type, misc]
            source_template = script

            def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
                found: list[CompletionItem] = super().get_completions(args, incomplete)
                return found or [CompletionItem(incomplete, type="file")]

        return WithFiles

    class BashLine(BashComplete):
        """The words of the line itself: bash parts what it lists at every = and colon."""

        def get_completion_args(self) -> tuple[list[str], str]:
            line = os.environ.get("COMP_LINE")
            if line is None:  # asked as click's own script asks
                return super().get_completion_args()
            words = split_arg_string(line)
            return (words[1:], "") if line[-1:].isspace() else (words[1:-1], words[-1])

    for shell, script in ((BashLine, BASH), (ZshComplete, ZSH), (FishComplete, FISH)):
        add_completion_class(with_files(shell, script), shell.name)
