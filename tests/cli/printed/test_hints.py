"""Tests of errors that say what to write instead: misplaced flags, files in place of commands, other names of accountants."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest

from dpcli.analysis.account_rows import OTHER_NAMES
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.cli import groups
from dpcli.cli.main import cli
from tests.cases import of_each, tiered
from tests.cli.commands import commands
from tests.command import ROOT, dpcli

MNIST = "examples/mnist.toml"


GLOBAL = [one for one in cli.params if isinstance(one, click.Option)]


@of_each("words, command", list(commands()))
def test_every_command_takes_the_global_options_and_its_help_does_not_repeat_them(
    words: tuple[str, ...], command: click.Command
) -> None:
    own = {name for one in command.params if not getattr(one, "hidden", False) for name in one.opts}
    shown = command.get_help(click.Context(command, **cli.context_settings))
    for option in GLOBAL:
        if own.isdisjoint(option.opts):
            assert option.help and option.help[:20] not in " ".join(shown.split())
            for flag in option.opts:
                parser = command.make_parser(click.Context(command, **cli.context_settings))
                parser.parse_args(
                    [flag] if option.is_flag or option.count else [flag, "auto"]
                )  # raises where there is no such option


@of_each("after", [(), ("-q",), ("-v",), ("--color", "always"), ("-q", "-vv", "--color=never")])
def test_a_global_option_means_the_same_before_a_command_and_after_it(after: tuple[str, ...]) -> None:
    for words in (("account", MNIST), ("diff", MNIST, MNIST), ("explain", MNIST)):
        assert dpcli(*words, *after) == dpcli(*after, *words)
    assert dpcli("import", "schedule", *after, "--nope").code == dpcli("import", *after, "schedule", "--nope").code == 2


def test_levels_of_detail_add_up_and_the_last_color_holds() -> None:
    plain = dpcli("account", MNIST)
    assert dpcli("account", MNIST, "-v") != plain != dpcli("account", MNIST, "--color", "always")
    assert dpcli("-v", "account", MNIST, "-v") == dpcli("-vv", "account", MNIST)
    assert dpcli("--color", "always", "account", MNIST, "--color", "never") == plain
    assert dpcli("account", "--version").out == dpcli("--version").out


@of_each(
    "arguments, words",
    [
        (("account", "--sigma", "1"), "no such option '--sigma'; did you mean --noise-multiplier"),
        (("account", "--sampling", "shuffle"), "write a file with --write FILE and change scheme in its sampling table"),
        (("calibrate-sigma", "--sampling", "shuffle"), "write a file with --write FILE and change scheme"),
        (("calibrate-sigma", "--epsilon", "2"), "no such option '--epsilon'; did you mean --target-epsilon"),
        (("calibrate", "--epsilon", "2"), "did you mean --target-epsilon (the epsilon to meet)?"),
        (("gate", "--epsilon", "2"), "did you mean --max-epsilon (the cap on epsilon)?"),
        (("gate", "--rho", "2"), "did you mean --max-rho (the cap on rho, in zCDP)?"),
        (("calibrate-sigma", "--rho", "2"), "did you mean --target-rho (the rho to meet, in zCDP)?"),
        (("calibrate", "--rho", "2"), "did you mean --target-rho"),
        (("account", "--rho", "2"), "no such option '--rho'; state it in a file: type = \"zcdp\" with rho; dpcli calibrate-sigma"),
        (
            ("account", "--target-epsilon", "2"),
            "dpcli calibrate-sigma --target-epsilon EPSILON solves for the noise that meets a target",
        ),
        (("calibrate-sigma", "--sigma", "2"), "this command solves for the noise; dpcli account --noise-multiplier NOISE computes"),
        (
            ("calibrate-sigma", "--laplace"),
            "with flags, only Gaussian noise is solved for; for Laplace noise: dpcli account --laplace",
        ),
        (("budget", "init", "x.db", "--rho", "1"), "the cap is an epsilon at a delta; --filter zcdp adds up rhos"),
        (("budget", "init", "x.db", "--max-contributions", "1"), "state max_contributions in [privacy] of the file of each run"),
        (("sigma",), "no such command 'sigma'; did you mean 'calibrate-sigma' (the noise for an epsilon)?"),
        (("NOISE",), "did you mean 'calibrate-sigma' (the noise for an epsilon)?"),
        (("epsilon",), "did you mean 'account' (the cost of noise)?"),
        (("disclosure",), "did you mean 'report' (a disclosure statement)?"),
        (("qwxz",), "no such command 'qwxz'; dpcli --help lists the commands\n"),
        (("budget", "sigma"), "no such command 'sigma'; dpcli budget --help lists the commands\n"),
        (("comment", "qwxz"), "no such command 'qwxz'; commands: github, gitlab\n"),
        (("account", "--stepz", "2"), "--steps"),
        ((MNIST,), f"no such command '{MNIST}'; for the cost of a file: dpcli account {MNIST}\n"),
        (("a b.toml",), "for the cost of a file: dpcli account 'a b.toml'\n"),
        (("acount",), "no such command 'acount'; did you mean 'account'?"),
        (("account", MNIST, "--epsilon", "1", "--delta", "1e-6"), "dpcli: give --epsilon or --delta, not both\n"),
    ],
)
def test_what_was_meant_is_said(arguments: tuple[str, ...], words: str) -> None:
    found = dpcli(*arguments)
    assert found.code == 2 and words in found.err, found.err


def test_every_hint_is_about_a_command_and_flags_that_there_are() -> None:
    """And never about a word that is a command, or a flag that the command has."""
    known = {" ".join(words): {name for one in command.params for name in one.opts} for words, command in commands()}
    for flag, meant in groups.SYNONYMS.items():
        assert all(any(name in own and flag not in own for own in known.values()) for name, _ in meant), flag
    for (command, flag), words in groups.ADVICE.items():
        assert flag not in known[command]
        for called, flags in re.findall(r"dpcli ([\w-]+)((?: (?:--[\w-]+|[A-Z0-9]+))*)", words):
            assert set(re.findall(r"--[\w-]+", flags)) <= known[called], words
    assert all(name in known and known.keys().isdisjoint(words) for name, (_, words) in groups.SYNONYMS_OF_COMMANDS.items())


@pytest.mark.long
def test_the_way_to_laplace_noise_that_is_told_is_one(tmp_path: Path) -> None:
    file = str(tmp_path / "x.toml")
    assert dpcli("account", "--laplace", "--noise-multiplier", "1", "--delta", "0", "--write", file).code == 0
    assert dpcli("calibrate-sigma", file, "--target-epsilon", "0.5", "-f", "total").out == "2.0\n"


NOISE = "this is delta with the stated noise; to find the noise that meets epsilon = 3.0: dpcli "


@pytest.mark.parametrize(
    "arguments",
    tiered(
        [
            ((MNIST, "--group-size", "2"),),
            (("examples/disclosure.toml",),),
            (("--noise-multiplier", "2"),),
            (("--noise-multiplier", "2", "--steps", "3", "--dataset-size", "12345678", "--adjacency", "replace-one"),),
            (("--noise-multiplier", "2", "--steps", "3", "--sampling-rate", "0.01"),),
        ],
        0,
        2,
    ),
)
def test_delta_at_an_epsilon_says_what_solves_for_noise_by_a_command_that_runs(arguments: tuple[str, ...]) -> None:
    _, said, command = " ".join(dpcli("account", *arguments, "--epsilon", "3").out.split()).partition(NOISE)
    done = dpcli(*shlex.split(command), "-f", "json")
    assert said and (done.code, done.err) == (0, "") and json.loads(done.out)["result"]["epsilon_upper"] <= 3.0


@pytest.mark.long
@of_each("arguments", [(MNIST,), ("--pure", "1", "--epsilon", "3"), ("--noise-multiplier", "2", "--laplace", "--epsilon", "3")])
def test_no_command_is_advised_where_none_was_asked_for_or_none_solves(arguments: tuple[str, ...]) -> None:
    told = dpcli("account", *arguments)
    assert told.code == 0 and "calibrate-sigma" not in told.out


@of_each("name", OTHER_NAMES)
def test_another_name_of_an_accountant_leads_to_its_own(name: str) -> None:
    assert name not in ACCOUNTANTS and OTHER_NAMES[name] in ACCOUNTANTS
    for spelled in (name, name.upper(), name.replace("-", "_")):
        found = dpcli("account", MNIST, "-a", spelled)
        assert found.code == 2 and found.err.endswith(f"found '{spelled}'; it is called {OTHER_NAMES[name]} here\n")


@of_each("name", ACCOUNTANTS)
def test_an_approximation_is_said_to_be_one_where_a_bound_is_asked_for(name: str) -> None:
    flags = ("calibrate-sigma", "--target-epsilon", "2", "--delta", "1e-5", "--steps", "10", "-a", name)
    found = dpcli(*flags)
    assert ("is an approximation and cannot answer" in found.err) == (not load(ACCOUNTANTS[name]).sound)
    if not load(ACCOUNTANTS[name]).sound:
        assert found.code == 3
        assert dpcli(*flags, "-a", "exact").code == 0


@of_each("target", ["0.0001", "0.04"])
def test_a_target_below_one_step_is_said_with_its_cost(target: str) -> None:
    found = dpcli("calibrate", MNIST, "--solve", "steps", "--target-epsilon", target)
    assert found.code == 3
    cost = found.err.removeprefix(f"dpcli: no number of steps meets epsilon = {target}: one step already costs ")
    assert float(cost) > float(target)


def test_no_delta_is_said_by_the_account_as_by_calibration(tmp_path: Path) -> None:
    words = "delta = 0: no amount of noise gives train a finite epsilon at this delta: state a delta > 0, such as 1e-6"
    found = dpcli("account", MNIST, "--delta", "0")
    assert found.code == 3 and words in found.err
    (tmp_path / "x.toml").write_text((ROOT / MNIST).read_text())
    assert words in dpcli("calibrate-sigma", str(tmp_path / "x.toml"), "--delta", "0", "--target-epsilon", "2").err


@pytest.mark.long
def test_less_than_one_epoch_is_told_where_steps_are_stated() -> None:
    note = "epochs, which is less than one pass over the data"
    rate = ("--noise-multiplier", "1", "--sampling-rate", "0.01", "--delta", "1e-5")
    assert f"steps times rate: 0.6 {note}" in dpcli("account", *rate, "--steps", "60").out
    for flags in (("--steps", "100"), ("--epochs", "0.6")):
        assert note not in dpcli("account", *rate, *flags).out, flags


def test_a_number_in_another_spelling_is_told_as_it_is_to_be_written() -> None:
    cases = [
        ("--sampling-rate", "1%", " Write 0.01."),
        ("--sampling-rate", "0.5 %", " Write 0.005."),
        ("--sampling-rate", "0,01", " Write 0.01."),
        ("--sampling-rate", "1,000", ""),  # a thousand, or one
        ("--sampling-rate", "inf%", ""),
        ("--dataset-size", "50,000", " Write 50000."),
        ("--dataset-size", "1,234,567", " Write 1234567."),
        ("--dataset-size", "1e5", " Write 100000."),
        ("--dataset-size", "1e999", ""),
        ("--dataset-size", "5,00", ""),
        ("--dataset-size", "1.5", ""),
        ("--dataset-size", "1%", ""),
        ("--steps", "many", ""),
    ]
    for flag, value, hint in cases:
        done = dpcli("account", "--noise-multiplier", "1", flag, value)
        kind = "float" if flag == "--sampling-rate" else "integer"
        assert done.code == 2 and done.err.endswith(f"'{flag}': '{value}' is not a valid {kind}.{hint}\n"), (flag, value, done.err)


@pytest.mark.long
def test_a_failure_is_told_once_on_a_terminal_and_on_both_streams_elsewhere(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="pseudo-terminals are of Unix")
    path = tmp_path / "p.toml"
    path.write_text((ROOT / MNIST).read_text().replace("delta = 1e-5", "delta = 1e-4"))
    for words in (("account",), ("lint",), ("gate", "--max-epsilon", "9"), ("-q", "account")):
        command = [sys.executable, "-m", "dpcli", *words, str(path)]
        ours, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": "300"}
        done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT)
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # as a terminal ends on Linux
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
        assert done.wait() == 1, (words, shown)
        assert shown.count(b"expected a delta below 1/dataset_size") == 1, (words, shown.decode())
        apart = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
        assert b"expected a delta below 1/dataset_size" in apart.stderr, words
