"""What a command line asked for that could not be read: the reports that must not stay as an earlier pass had left them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import FORMATS
from dpcli.cli.kept import NO_INPUTS
from dpcli.cli.lazy import LazyGroup
from dpcli.cli.options import EVERYTHING, REPORTED, DocumentFormat, named_output, tell
from dpcli.file.toml.suggest import closest

REPORTS = {"-o": "outputs", "--output": "outputs", "-f": "format_", "--format": "format_"}


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line with the option that it is the value of ("" of none), by the name of its parameter. last: its place."""

    option: str
    value: str
    last: int


def report_unread(error: BaseException, group: LazyGroup, name: str, arguments: Sequence[str]) -> None:
    """Leave the error in the reports asked for, where no command was called that does so: something in its arguments could not be read.

    Edge cases: of an unknown command, every option of reports counts that any command has. What may be an input is not written over.
    """
    if REPORTED in getattr(error, "__notes__", ()):
        return
    words, command, given = asked([name], group, arguments)
    formats = next((one.type for one in command.params if isinstance(one.type, DocumentFormat)), None)
    if formats is None and not isinstance(command, LazyGroup):
        return
    outputs = [found for word in given if word.option == "outputs" if (found := _meant(word.value))]
    formats_ = [word.value for word in given if word.option == "format_" and word.value in FORMATS]
    kept = formats.kept if formats else not _keeping(group).isdisjoint(arguments)
    careful = formats is not None and formats.careful
    tell(error, (" ".join(words), ""), formats_[-1] if formats_ else "text", outputs, kept, list(_inputs(given)), careful)


def asked(names: list[str], command: click.Command, arguments: Sequence[str]) -> tuple[list[str], click.Command, list[Word]]:
    """The words of the command that some arguments are for, the command itself, and all that it and its groups were given."""
    given: list[Word] = []
    while isinstance(command, LazyGroup):
        for word in words_of(arguments, command):
            if not word.option:
                break
            given.append(word)
        else:
            return names, command, given
        below, arguments = command.get_command(click.Context(command), word.value), arguments[word.last + 1 :]
        if below is None:  # what follows is of a command that there is not
            return names, command, [*given, word, *words_of(arguments, command)]
        names, command = [*names, word.value], below
    return names, command, [*given, *words_of(arguments, command)]


def words_of(arguments: Sequence[str], command: click.Command) -> Iterator[Word]:
    """Every word as click reads it, but that options which there are not are flags; a group's options include those of reports."""
    valued, place = _valued(command), 0
    while place < len(arguments):
        argument = arguments[place]
        if argument == "--":
            yield from (Word("", word, after) for after, word in enumerate(arguments[place + 1 :], place + 1))
            return
        option, value = _split(argument, valued) if argument.startswith("-") and argument != "-" else ("", argument)
        if value is None and place + 1 < len(arguments):
            place, value = place + 1, arguments[place + 1]
        if value is not None:
            yield Word(option, value, place)
        place += 1


def _valued(command: click.Command) -> Mapping[str, str]:
    """The options that take a value, in each spelling, with the names of their parameters."""
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag and not one.count]
    own = {spelling: one.name or "" for one in options for spelling in one.opts}
    return {**REPORTS, **own} if isinstance(command, LazyGroup) else own


def _split(argument: str, valued: Mapping[str, str]) -> tuple[str, str | None]:
    """The option in a word, and its value where that is in the word too, else None; of flags, what could be the value of a misspelt one."""
    name, equals, value = argument.partition("=")
    if name.startswith("--"):
        return valued.get(name, "?"), value if equals else (None if name in valued else "")
    for place, letter in enumerate(argument[1:], 1):  # a cluster: flags, then perhaps an option with its value
        if f"-{letter}" in valued:
            return valued[f"-{letter}"], argument[place + 1 :] or None
    return "?", argument[2:]


def _meant(output: str) -> str | None:
    """An output as FORMAT=PATH, also where its format is misspelt or the command has no such one; None where it names no format."""
    formats, output = DocumentFormat(EVERYTHING), output.removeprefix("=")
    try:
        return named_output(output, formats)
    except InputError:
        name, _, path = output.partition("=")
        return f"{meant}={path}" if path and (meant := closest(name, formats.choices)) else None


def _inputs(given: Sequence[Word]) -> Iterator[str]:
    """Every text that may name a file to be read."""
    for word in given:
        if word.option not in NO_INPUTS:
            yield from (word.value, word.value.partition("=")[2])


def _keeping(group: LazyGroup) -> set[str]:
    """The words of all commands whose outputs outlive an error."""
    found: set[str] = set()
    for name in group.list_commands(context := click.Context(group)):
        command = group.get_command(context, name)
        if isinstance(command, LazyGroup):
            below = _keeping(command)
            found |= {name, *below} if below else set()
        elif command is not None and any(isinstance(one.type, DocumentFormat) and one.type.kept for one in command.params):
            found.add(name)
    return found
