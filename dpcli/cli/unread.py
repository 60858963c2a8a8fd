"""Reports for command lines that Click refuses: the error replaces the report of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import FORMATS
from dpcli.cli.groups import LazyGroup
from dpcli.cli.options import EVERYTHING, REPORTED, DocumentFormat, named_output, report_error
from dpcli.cli.outputs import NO_INPUTS
from dpcli.file.toml.suggest import closest

REPORTS = (click.Option(["-o", "--output", "outputs"], multiple=True), click.Option(["-f", "--format", "format_"]))


class CommandLine(NamedTuple):
    """A command line, as far as it can be read.

    words: the words that name the command.
    options: the values of options that take one.
    rest: all other arguments.
    """

    words: str
    command: click.Command
    options: Mapping[str, Any]
    rest: list[str]


def report_unread(error: BaseException, group: LazyGroup, name: str, arguments: Sequence[str]) -> None:
    """Write the error into the reports of a command that was never called, without replacing a file that may be an input.

    For an unknown command, -o and -f are read too; existing reports stay if the line names a command with reports that outlive errors.
    """
    if REPORTED in getattr(error, "__notes__", ()):
        return
    line = _read(name, group, arguments)
    formats = _formats_of(line.command)
    if formats is not None:
        outlives_errors, spares_data = formats.outlives_errors, formats.spares_data
    elif isinstance(line.command, LazyGroup):
        outlives_errors, spares_data = not _commands_with_lasting_reports(group).isdisjoint(arguments), False
    else:
        return
    outputs = [output for given_output in line.options.get("outputs") or () if (output := _probable_output(given_output))]
    format_ = str(line.options.get("format_"))
    inputs = list(_inputs(line.options, line.rest))
    report_error(error, (line.words, ""), format_ if format_ in FORMATS else "text", outputs, outlives_errors, inputs, spares_data)


def _read(words: str, command: click.Command, arguments: Sequence[str]) -> CommandLine:
    """Read the options of a group and of the command in it that the first other word names."""
    options, rest = _parsed(command, arguments)
    start = next((place for place, word in enumerate(rest) if not word.startswith("-")), len(rest))
    if not isinstance(command, LazyGroup) or start == len(rest):
        return CommandLine(words, command, options, rest)
    subcommand = command.get_command(click.Context(command), rest[start])
    if subcommand is None:
        own_options, own_rest = _parsed(click.Command(None), rest[start + 1 :], REPORTS)
        line = CommandLine(words, command, own_options, [*own_rest, rest[start]])
    else:
        line = _read(f"{words} {rest[start]}", subcommand, rest[start + 1 :])
    outputs = [*(options.get("outputs") or ()), *(line.options.get("outputs") or ())]
    return line._replace(options={**options, **line.options, "outputs": outputs}, rest=[*rest[:start], *line.rest])


def _parsed(
    command: click.Command, arguments: Sequence[str], more: tuple[click.Option, ...] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of options that take one, as Click reads them, and the other arguments, among them flags and unknown options."""
    grouped = isinstance(command, LazyGroup)
    options = [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count
    ]
    reader = click.Command(None, params=[*options, *(REPORTS if grouped else more)])
    context = click.Context(reader, resilient_parsing=True, ignore_unknown_options=True, allow_interspersed_args=not grouped)
    values, rest, _ = reader.make_parser(context).parse_args(list(arguments))
    return values, rest


def _formats_of(command: click.Command) -> DocumentFormat | None:
    return next((parameter.type for parameter in command.params if isinstance(parameter.type, DocumentFormat)), None)


def _probable_output(output: str) -> str | None:
    """Return an output as FORMAT=PATH, even if its format is misspelt or not the command's; None if it names no format."""
    formats, output = DocumentFormat(EVERYTHING), output.removeprefix("=")
    try:
        return named_output(output, formats)
    except InputError:
        name, _, path = output.partition("=")
        return f"{meant}={path}" if path and (meant := closest(name, formats.choices)) else None


def _inputs(options: Mapping[str, Any], rest: Sequence[str]) -> Iterator[str]:
    """Yield each text that may name an input: a whole argument, or a part after an equals sign or an unknown short option."""
    words = list(rest)
    for name, value in options.items():
        if name not in NO_INPUTS:
            words += value if isinstance(value, list | tuple) else [value]
    for word in words:
        if isinstance(word, str):
            yield from (word, word.partition("=")[2], word[2:])


def _commands_with_lasting_reports(group: LazyGroup) -> set[str]:
    """Return the words of all commands with reports that outlive errors."""
    words: set[str] = set()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        below: set[str] = set()
        lasting = False
        if isinstance(command, LazyGroup):
            below = _commands_with_lasting_reports(command)
        elif command is not None:
            formats = _formats_of(command)
            lasting = formats is not None and formats.outlives_errors
        if below or lasting:
            words |= {name, *below}
    return words
