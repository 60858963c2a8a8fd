"""A group that imports a command when it is called, and prints its help from a table alone."""

from __future__ import annotations

import copy
import os
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

FEW = 8  # names that a message lists
Commands = Mapping[str, tuple[str, str]]  # name: ("module:object", short help)


class LazyGroup(click.Group):
    """A group over a table of commands."""

    def __init__(self, *args: Any, table: Commands, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        from dpcli.base.lazy import load

        command: click.Command = load(self.table[cmd_name][0])
        return said_once(command, ctx.find_root().command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table and not args[0].startswith("-"):
            ctx.fail(f"no such command '{args[0]}'; {self._meant(args[0], ctx.command_path)}")
        return super().resolve_command(ctx, args)

    def _meant(self, word: str, path: str) -> str:
        import difflib

        from dpcli.cli.hints import command_for

        if "account" in self.table and (word.endswith(".toml") or os.path.isfile(word)):
            return f"for what a file costs: {path} account {shlex.quote(word)}"
        meant = command_for(word)
        if meant is not None and meant[0] in self.table:
            return f"did you mean '{meant[0]}' ({meant[1]})?"
        if close := difflib.get_close_matches(word, self.table, 1):
            return f"did you mean '{close[0]}'?"
        return f"commands: {', '.join(sorted(self.table))}" if len(self.table) <= FEW else f"{path} --help lists the commands"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(self.table.items())])


def said_once(command: click.Command, root: click.Command) -> click.Command:
    """The command, which takes the root's options too, and refuses an option with a value that is given again: of two caps or noises the
    last would hold in silence."""
    if "make_parser" not in vars(command):
        with_global_options(command, root)
        command.make_parser = partial(_parser, command.make_parser)  # type: ignore[method-assign]
    return command


def with_global_options(command: click.Command, root: click.Command) -> None:
    """Let a command take those of the root's options whose names it does not have; only the help of the root lists them."""
    own = {name for parameter in command.params for name in parameter.opts}
    for option in root.params:
        if isinstance(option, click.Option) and own.isdisjoint(option.opts):
            accepted = copy.copy(option)
            accepted.hidden = True
            command.params.append(accepted)


def _parser(make: Callable[[click.Context], Any], context: click.Context) -> Any:
    parser = make(context)
    for option in {id(one): one for one in (*parser._long_opt.values(), *parser._short_opt.values())}.values():
        if option.action == "store":
            option.process = partial(_first, context, option.obj, option.dest, option.process)
    return parser


def _first(
    context: click.Context, option: click.Option, name: str, process: Callable[[Any, Any], None], value: Any, state: Any
) -> None:
    if name in state.opts:
        given = max(option.opts, key=len)
        raise click.UsageError(f"{given}: expected it once, found it again: {state.opts[name]}, then {value}", context)
    process(value, state)
