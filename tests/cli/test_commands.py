"""Tests of the smaller commands, and of what all commands share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import jsonschema
import pytest

from dpcli.base.registry import COMMANDS
from dpcli.cli.main import cli
from tests.cases import of_each
from tests.command import ROOT, dpcli


@of_each("command", ["", *COMMANDS])
@of_each("flag", ["-h", "--help"])
def test_help_is_there(command: str, flag: str) -> None:
    result = dpcli(*command.split(), flag)
    assert result.code == 0
    assert "Usage: dpcli" in result.out


def test_schema_accepts_the_examples_and_refuses_a_mistake() -> None:
    import tomllib

    schema = json.loads(dpcli("schema").out)
    validator = jsonschema.Draft202012Validator(schema)
    pipeline = tomllib.loads((ROOT / "examples" / "mnist.toml").read_text())
    assert validator.is_valid(pipeline)
    pipeline["mechanism"][0]["noise_multiplier"] = -1
    assert not validator.is_valid(pipeline)


def test_python_dash_m() -> None:
    found = subprocess.run([sys.executable, "-m", "dpcli", "-V"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.startswith("dpcli ")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m dpcli schema | head -c 10"
    found = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "Traceback" not in found.stderr
    assert "Exception" not in found.stderr


def test_an_empty_folder_name_is_said_to_be_one() -> None:
    result = dpcli("man", "")
    assert (result.code, result.out) == (2, "")
    assert result.err == "dpcli: DIRECTORY: expected a folder, found an empty name; . is the current folder\n"


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("late", "code"), [("module.main", 130), ("sys.exit", 0)])
def test_ctrl_c_while_it_leaves_ends_with_an_exit_code(late: str, code: int) -> None:
    """Not by the signal itself, with a trace: after the output, and on the way out."""
    after = "    found = inner(*given)\n    os.kill(os.getpid(), signal.SIGINT)\n    return found\n"
    before = "    os.kill(os.getpid(), signal.SIGINT)\n    return inner(*given)\n"
    program = (
        f"import os, signal, sys\nfrom dpcli.cli import main as module\ninner = {late}\n"
        f"def interrupted(*given):\n{before if late == 'sys.exit' else after}{late} = interrupted\nmodule.run(['version'])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (found.returncode, found.stderr) == (code, "") and found.stdout


def options(group: click.Group) -> Iterator[tuple[click.Command, str, str]]:
    """Each command, however deep, with each spelling of its options that take one value."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from options(command)
        for option in command.params:
            if isinstance(option, click.Option) and not (option.is_flag or option.multiple or option.count):
                yield from ((command, option.opts[-1], spelling) for spelling in option.opts)


def test_no_option_is_given_twice() -> None:
    """Of two caps or two noises the last would hold in silence."""
    every = list(options(cli))
    assert len(every) > 200
    for command, name, spelling in every:
        for again in ([spelling, "2"], [name, "1"], [f"{name}=3"] if name.startswith("--") else [f"{name}3"]):
            with pytest.raises(click.UsageError, match="expected it once, found it again: 1, then "):
                command.make_context(command.name, [spelling, "1", *again])
