"""All commands of the command line with their formats, and a check of an error report in each format."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import click

from dpcli.cli.main import cli


def commands(group: click.Group = cli, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command that is not a group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield (*before, name), command


COMMANDS = {words: command for words, command in commands() if any(parameter.name == "format_" for parameter in command.params)}


def own_formats(words: tuple[str, ...]) -> tuple[str, ...]:
    (option,) = [parameter for parameter in COMMANDS[words].params if parameter.name == "format_"]
    assert isinstance(option.type, click.Choice)
    return tuple(option.type.choices)


def words_of(line: str) -> tuple[str, ...]:
    return next(tuple(line.split()[:n]) for n in (2, 1) if tuple(line.split()[:n]) in COMMANDS)


def assert_says_error(name: str, text: str) -> None:
    if name == "junit":
        root = ET.fromstring(text.encode())
        assert int(root.get("failures", "0")) + int(root.get("errors", "0")) > 0
        assert len(root.findall("*/*/failure")) == int(root.get("failures", "-1"))
        assert len(root.findall("*/*/error")) == int(root.get("errors", "-1"))
    elif name == "sarif":
        (run,) = json.loads(text)["runs"]
        assert any(result["level"] == "error" and "suppressions" not in result for result in run["results"])
    elif name == "gitlab":
        assert any(issue["severity"] == "critical" for issue in json.loads(text))
    elif name == "github":
        assert text.splitlines()[-1].startswith("::error ")
    else:
        assert name == "summary"
        assert text.startswith("## ")
        assert any(word in text for word in ("FAIL", "UNKNOWN", "INVALID", "ERROR"))
