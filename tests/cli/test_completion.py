"""Tests of TAB in real shells: names where names belong, and files everywhere else."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from dpcli.base.registry import ACCOUNTANTS, PLOTS
from dpcli.cli import completion
from dpcli.cli.groups import LazyGroup
from dpcli.cli.main import cli
from dpcli.file.pipeline.key_places import tables
from tests.command import ROOT
from tests.waiting import PATIENCE

START = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
LOAD = {
    "bash": 'eval "$(dpcli completion bash)"',
    "zsh": 'eval "$(dpcli completion zsh)"',
    "fish": "dpcli completion fish | source",
}
PROMPT = {
    "bash": 'PS1="> "; bind "set bell-style none"; bind "set enable-bracketed-paste off"',
    "zsh": 'PS1="> "; unsetopt beep',
    "fish": "function fish_prompt; echo '> '; end",
}
CASES = {
    "dpcli account pipe": "pipeline.toml",
    "dpcli lint pipeline.toml oth": "other.toml",
    "dpcli budget show sav": "saved.db",
    "dpcli gate --policy oth": "other.toml",
    "dpcli plot accountants pipe": "pipeline.toml",
    "dpcli plot delta-e": "delta-epsilon",
    "dpcli account pipeline.toml -a advanced-c": "advanced-classical",
    "dpcli account pipeline.toml -f mark": "markdown",
    "dpcli calibrate-s": "calibrate-sigma",
    "dpcli explain pipeline.": "pipeline.toml",
    "dpcli explain permute-a": "permute-and-flip",
    "dpcli init que": "query",
    "dpcli account --format=mark": "markdown",
    "dpcli gate --policy=oth": "other.toml",
    "dpcli explain delta\\ f": "file.toml",
    "~/bin/dpcli calibrate-s": "calibrate-sigma",
}
# Where the program does not run, and for every other program, a shell completes files as it would have done.
FILES = {
    "cat pipe": "pipeline.toml",
    "cat < oth": "other.toml",
    "dpcli account pipe": "pipeline.toml",
    "dpcli account pipeline.toml -o md=sav": "saved.db",
    "dpcli nothing such oth": "other.toml",
}
BROKEN = {"fails": "exit 1", "speaks": "echo nothing that a shell knows; echo broken >&2; exit 3", "is not there": None}
NAMES = {"bash": "compgen -v", "zsh": "typeset +", "fish": "set -n"}  # of variables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("completion")
    for name in ("pipeline.toml", "other.toml", "saved.db", "delta file.toml"):
        (found / name).write_text("")
    program = found / "bin" / "dpcli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpcli "$@"\n')
    program.chmod(0o755)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        pytest.param("bash", [*CASES][::4], id="bash, some"),
        *(pytest.param(shell, [*CASES], id=shell, marks=pytest.mark.long) for shell in START),
    ],
)
def test_tab_in_a_shell(shell: str, lines: list[str], folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    with Terminal(shell, folder) as terminal:
        for line in lines:
            terminal.tab(line, CASES[line])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("shell", START)
def test_a_program_that_does_not_run_leaves_files_to_the_shell(shell: str, broken: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = folder / "bin" / "dpcli"
    whole = program.read_text()
    with Terminal(shell, folder) as terminal:
        try:
            if BROKEN[broken] is None:
                program.rename(folder / "bin" / "gone")
            else:
                program.write_text(f"#!/bin/sh\n{BROKEN[broken]}\n")
            for line, completed in FILES.items():
                shown = terminal.tab(line, completed)
                assert "broken" not in shown and "not found" not in shown
        finally:
            if BROKEN[broken] is None:
                (folder / "bin" / "gone").rename(program)
            program.write_text(whole)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", START)
def test_loading_says_nothing_and_a_tab_leaves_no_variables(shell: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    with Terminal(shell, folder) as terminal:
        terminal.tab("dpcli account pipeline.toml -f mark", "markdown")
        terminal.type(f"{NAMES[shell]} > {folder}/variables; echo do''ne\n")
        terminal.read("done")
    left = (folder / "variables").read_text().split()
    assert not {"completion", "type", "value", "response", "line", "word", "words", "key", "help", "names", "token"} & set(left)
    done = subprocess.run(
        [*START[shell][:-1], "-c", LOAD[shell]],
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
    }


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, shell: str, folder: Path) -> None:
        self.shell = shell
        self.process, self.end = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            found = environment(folder)
            os.environ["PATH"] = found["PATH"]
            os.execvpe(START[shell][0], START[shell], found)

    def __enter__(self) -> Terminal:
        self.type(f"{PROMPT[self.shell]}; {LOAD[self.shell]}\n")
        self.type("echo rea''dy\n")
        self.read("ready")
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.close(self.end)
        os.waitpid(self.process, 0)

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def tab(self, line: str, completed: str) -> str:
        """Type a line and TAB, wait for the completion, and clear the line."""
        assert completed not in line
        self.type(f"{line}\t")
        shown = self.read(completed)
        self.type("\x15")
        return shown

    def read(self, until: str, patience: float = PATIENCE) -> str:
        found, end = "", time.monotonic() + patience
        while until not in found and time.monotonic() < end:
            if select.select([self.end], [], [], 0.1)[0]:
                found += os.read(self.end, 65536).decode(errors="replace")
        assert until in found, (self.shell, found)
        return found


def completions(*words: str) -> list[tuple[str, str]]:
    """(type, value) of what a shell is offered after some words, the last of which is not finished."""
    from click.shell_completion import get_completion_class

    completion.register()
    found = get_completion_class("bash")
    assert found is not None
    shell = found(cli, {}, "dpcli", completion.VARIABLE)
    return [(item.type, item.value) for item in shell.get_completions(list(words[:-1]), words[-1])]


def paths(group: LazyGroup, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    found = [((*words, name), group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        pair
        for path, command in found
        if command is not None
        for pair in (paths(command, path) if isinstance(command, LazyGroup) else [(path, command)])
    ]


def test_every_argument_completes_something() -> None:
    """Files, or names of its own: nothing that is typed meets a silent TAB."""
    for words, command in paths(cli):  # type: ignore[arg-type]
        for parameter in command.params:
            own = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
            if isinstance(parameter, click.Argument):
                before = ["x"] * [p for p in command.params if isinstance(p, click.Argument)].index(parameter)
            elif isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.count:
                before = [parameter.opts[-1]]
            else:
                continue
            offered = completions(*words, *before, "")
            assert offered
            if own:
                assert [value for _, value in offered] == list(own)


def test_files_are_left_to_the_shell() -> None:
    for words in (
        ("account", "exa"),
        ("lint", "a.toml", "b"),
        ("budget", "show", "l"),
        ("gate", "--policy", "p"),
        ("diff", "a", "b"),
    ):
        assert completions(*words) == [("file", words[-1])]


def test_names_are_completed() -> None:
    assert [value for _, value in completions("account", "a.toml", "-a", "rdp")] == [n for n in ACCOUNTANTS if n.startswith("rdp")]
    assert [value for _, value in completions("plot", "")] == list(PLOTS)
    assert ("plain", "DP101") in completions("explain", "DP1")
    assert {("plain", key) for place in tables() for key in place.members} <= set(completions("explain", ""))
    assert [value for _, value in completions("explain", "quantile_")] == ["quantile_noise", "quantile_rate"]
