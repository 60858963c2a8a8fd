"""Reports of a command line that Click refused: the error replaces what an earlier pass left in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import FORMATS
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import EVERYTHING, REPORTED, DocumentFormat, named_output, tell
from dpcli.cli.outputs import NO_INPUTS
from dpcli.file.toml.suggest import closest

REPORTS = (click.Option(["-o", "--output", "outputs"], multiple=True), click.Option(["-f", "--format", "format_"]))


def report_unread(error: BaseException, group: LazyGroup, name: str, arguments: Sequence[str]) -> None:
    """Leave the error in the reports that were asked for, unless the command did so itself; write over nothing that may be an input.

    Edge cases: of an unknown command, -o and -f count, and outputs stay if the line names a command whose outputs outlive errors.
    """
    if REPORTED in getattr(error, "__notes__", ()):
        return
    words, command, options, rest = _read(name, group, arguments)
    formats = _formats_of(command)
    if formats is None and not isinstance(command, LazyGroup):
        return
    outputs = [output for one in options.get("outputs") or () if (output := _meant(one))]
    kept = formats.kept if formats else not _keeping(group).isdisjoint(arguments)
    format_ = str(options.get("format_"))
    careful = formats is not None and formats.careful
    tell(error, (words, ""), format_ if format_ in FORMATS else "text", outputs, kept, list(_inputs(options, rest)), careful)


def _read(words: str, command: click.Command, arguments: Sequence[str]) -> tuple[str, click.Command, dict[str, Any], list[str]]:
    """Return the words of the command, the command, the values of its options, and every other argument."""
    options, rest = _parsed(command, arguments)
    if not isinstance(command, LazyGroup):
        return words, command, options, rest
    start = next((place for place, word in enumerate(rest) if not word.startswith("-")), len(rest))
    if start == len(rest):
        return words, command, options, rest
    subcommand = command.get_command(click.Context(command), rest[start])
    if subcommand is None:
        below, others = _parsed(click.Command(None), rest[start + 1 :], REPORTS)
        others.append(rest[start])
    else:
        words, command, below, others = _read(f"{words} {rest[start]}", subcommand, rest[start + 1 :])
    below["outputs"] = [*(options.get("outputs") or ()), *(below.get("outputs") or ())]
    return words, command, {**options, **below}, [*rest[:start], *others]


def _parsed(
    command: click.Command, arguments: Sequence[str], more: tuple[click.Option, ...] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Let Click parse the options that take a value; flags, unknown options and arguments are the rest."""
    grouped = isinstance(command, LazyGroup)
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag and not one.count]
    reader = click.Command(None, params=[*options, *(REPORTS if grouped else more)])
    context = click.Context(reader, resilient_parsing=True, ignore_unknown_options=True, allow_interspersed_args=not grouped)
    values, rest, _ = reader.make_parser(context).parse_args(list(arguments))
    return values, rest


def _formats_of(command: click.Command) -> DocumentFormat | None:
    return next((one.type for one in command.params if isinstance(one.type, DocumentFormat)), None)


def _meant(output: str) -> str | None:
    """Return an output as FORMAT=PATH, also if its format is misspelt or not one of the command's; None if it names no format."""
    formats, output = DocumentFormat(EVERYTHING), output.removeprefix("=")
    try:
        return named_output(output, formats)
    except InputError:
        name, _, path = output.partition("=")
        return f"{meant}={path}" if path and (meant := closest(name, formats.choices)) else None


def _inputs(options: Mapping[str, Any], rest: Sequence[str]) -> Iterator[str]:
    """Yield each text that may name a file to be read; the rest of an unknown short option may be its value."""
    values = [value for name, value in options.items() if name not in NO_INPUTS]
    for word in (*rest, *(one for value in values for one in (value if isinstance(value, list | tuple) else [value]))):
        yield from (word, word.partition("=")[2], word[2:]) if isinstance(word, str) else ()


def _keeping(group: LazyGroup) -> set[str]:
    """Return the words of all commands whose outputs outlive an error."""
    words: set[str] = set()
    for name in group.list_commands(context := click.Context(group)):
        command = group.get_command(context, name)
        below = _keeping(command) if isinstance(command, LazyGroup) else set()
        if below or (command is not None and (formats := _formats_of(command)) is not None and formats.kept):
            words |= {name, *below}
    return words
