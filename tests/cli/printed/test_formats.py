"""Tests of every command in every format: -f and -o accept the same, and no exit code lacks a reason."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import import_module
from itertools import product
from pathlib import Path

import click
import pytest

from dpcli.base.errors import InputError
from dpcli.base.registry import CHART_FORMATS, FORMATS
from dpcli.cli.main import cli
from dpcli.document.formats.facts import ci_reads_verdict, format_of_path
from tests.cases import of_each
from tests.cli.commands import COMMANDS, assert_says_error, own_formats, words_of
from tests.command import ROOT, dpcli
from tests.gate.samples import GATE, LARGE_DELTA, OVER

NO_BUDGET = GATE.replace("[budget]\nepsilon = 3.0\nwarn_at = 0.9\n", "").replace("[gate]\nmax_increase", "[gate]\n# max_increase")
NO_GUARANTEE = GATE.replace("delta = 1e-8", "delta = 0.0")
DRAWN = [name for name in CHART_FORMATS if name != "png" or importlib.util.find_spec("matplotlib")]  # an extra
SILENT = GATE.replace('releases = "final-model"\n', "")


def parsed(words: tuple[str, ...], *flags: str) -> bool:
    """Whether a command takes some flags; what else it needs is made up."""
    command = COMMANDS[words]
    needed = [parameter for parameter in command.params if parameter.required]
    positions = [p for p in needed if isinstance(p, click.Argument)]
    arguments = [x for p in positions for x in ["1" if isinstance(p.type, click.types.IntParamType) else "a"] * max(p.nargs, 1)]
    for option in (p for p in needed if isinstance(p, click.Option)):
        value = option.type.choices[0] if isinstance(option.type, click.Choice) else "1"
        arguments += [option.opts[-1], str(value)]
    try:
        with command.make_context(words[-1], [*arguments, *flags], parent=click.Context(cli, **cli.context_settings)):
            return True
    except (click.UsageError, InputError) as error:
        if not re.search("is not one of|expected FORMAT=PATH|expected each path once", str(error)):
            raise
        return False


@pytest.mark.long
@of_each("words", [w for w in COMMANDS if w != ("plot",)])
def test_f_and_o_take_the_same_formats(words: tuple[str, ...]) -> None:
    accepted = {name: (parsed(words, "-f", name), parsed(words, "-o", f"{name}=x")) for name in FORMATS}
    assert {name for name, (f, _) in accepted.items() if f} == set(own_formats(words))
    assert all(f == o for f, o in accepted.values()), accepted


@pytest.mark.long
@of_each("name", [*FORMATS, *CHART_FORMATS])
def test_plot_takes_the_same_formats_with_both(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    asked = dpcli("plot", "accountants", "examples/gate.toml", "-f", name)
    written = dpcli("plot", "accountants", "examples/gate.toml", "-o", f"{name}={path}")
    assert asked.code == written.code == (0 if name in DRAWN else 2)
    assert path.exists() == (name in DRAWN or ci_reads_verdict(name))  # a report that CI systems judge holds the error
    assert ("expected FORMAT=PATH" in written.err) == (name not in CHART_FORMATS)


@of_each("words", [w for w in COMMANDS if w != ("plot",)])
def test_a_path_alone_means_the_format_of_its_ending(words: tuple[str, ...]) -> None:
    own = own_formats(words)
    for name in FORMATS:
        for ending in getattr(import_module(FORMATS[name].partition(":")[0]), "PATH_ENDINGS", ()):
            assert format_of_path(f"X{ending.upper()}", own) == (name if name in own else None)
            assert parsed(words, "-o", f"x{ending}") == (name in own)
    assert not parsed(words, "-o", "x.pdf")
    assert not parsed(words, "-o", f"{own[0]}=")
    assert not parsed(words, "-o", f"{own[0]}=x", "-o", f"{own[1]}=x")


# A delta that is too large, which a rule refuses; teachers that are still to be fitted.
VOTES = """
format = 1
privacy = { adjacency = "add-remove", dataset_size = 100, delta = 0.5, unit = "example", releases = "outputs" }
mechanism = [{ name = "answers", type = "gnmax", sigma = 40.0 }]
pate = { teachers = 10, classes = 2, data = "private.npz", queries = "public.npz" }
"""

# What goes wrong: the files beside each other in one folder, a command, its exit code.
CASES = {
    "account over.toml": 1,
    "account rule.toml": 1,
    "account no-guarantee.toml": 3,
    "account missing.toml": 2,
    "account broken.toml": 2,
    "account pass.toml -a nonsense": 2,
    "account pass.toml --epsilon 1 --delta 1e-8": 2,
    "gate over.toml": 1,
    "gate pass.toml rule.toml": 1,
    "gate no-guarantee.toml": 3,
    "gate missing.toml": 2,
    "gate broken.toml pass.toml": 2,
    "gate pass.toml --ledger missing.db": 4,
    "gate no-budget.toml": 2,
    "gate pass.toml --base-ref nowhere": 2,
    "gate pass.toml --base-ref --output=x": 2,
    "gate pass.toml --max-epsilon nan": 2,
    "gate pass.toml --max-increase 1": 2,
    "lint rule.toml": 1,
    "lint broken.toml pass.toml": 2,
    "lint missing.toml": 2,
    "lint --ledger missing.db": 4,
    "lint": 2,
    "audit --canaries 1000 --guesses 100 --correct 100 --epsilon 0.1 --delta 1e-5": 1,
    "audit no-guarantee.toml --canaries 1000 --guesses 100 --correct 50": 3,
    "audit missing.toml --canaries 1000 --guesses 100 --correct 50": 2,
    "audit --canaries 1 --guesses 2 --correct 3 --epsilon 1 --delta 0": 2,
    "explain rule.toml": 1,
    "explain no-guarantee.toml": 3,
    "explain missing.toml": 2,
    "diff pass.toml over.toml --exit-code": 1,
    "diff pass.toml missing.toml": 2,
    "report silent.toml --strict": 1,
    "report over.toml": 1,
    "report rule.toml": 1,
    "report no-guarantee.toml": 3,
    "report broken.toml": 2,
    "calibrate pass.toml --solve steps -m train --target-epsilon 1e-9": 3,
    "calibrate-sigma missing.toml": 2,
    "budget show missing.db": 4,
    "budget spend full.db over.toml --key late": 1,
    "budget reserve full.db over.toml --key late": 1,
    "budget commit full.db nobody": 4,
    "pate account votes.toml": 1,
    "pate account rule.toml": 2,
    "plot accountants rule.toml": 1,
    "plot accountants no-guarantee.toml": 3,
    "plot accountants missing.toml": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("formats")
    texts = {
        "pass": GATE,
        "over": OVER,
        "rule": LARGE_DELTA,
        "no-guarantee": NO_GUARANTEE,
        "silent": SILENT,
        "no-budget": NO_BUDGET,
        "votes": VOTES,
        "broken": GATE.replace("scale =", "scal ="),
    }
    for name, text in texts.items():
        (found / f"{name}.toml").write_text(text)
    terms = "--dataset d --unit user --adjacency add-remove --epsilon 0.5 --delta 1e-8 --filter zcdp"
    assert dpcli("budget", "init", "full.db", *terms.split(), folder=found).code == 0
    return found


def test_every_command_that_is_judged_is_seen_to_fail() -> None:
    judged = {words for words in COMMANDS if any(ci_reads_verdict(name) for name in own_formats(words) if name in FORMATS)}
    assert judged
    for words, code in product(judged, (1, 2)):
        assert any(words_of(line) == words and found == code for line, found in CASES.items()), (words, code)


@pytest.mark.sampled(2, 11)
@pytest.mark.parametrize("line", CASES)
def test_no_failure_is_silent_in_any_format(line: str, folder: Path, tmp_path: Path) -> None:
    """Standard error says why, in one line where no file is quoted; a report that is judged holds an error, printed or written."""
    for name in (name for name in own_formats(words_of(line)) if name in (*FORMATS, *DRAWN)):
        result = dpcli(*shlex.split(line), "-f", name, folder=folder)
        assert result.code == CASES[line], (name, result)
        reasons = [said for said in result.err.splitlines() if said.startswith("dpcli: ")]
        assert len(reasons) == 1 or "Usage: " in result.err, (name, result.err)
        assert len(result.err.splitlines()) == 1 or result.code == 2, (name, result.err)
        written = tmp_path / name
        again = dpcli(*shlex.split(line), "-o", f"{name}={written}", folder=folder)
        assert again.code == CASES[line]
        if name in FORMATS and ci_reads_verdict(name):
            assert_says_error(name, result.out)
            assert_says_error(name, written.read_text())


@of_each("line", ["account pass.toml", "gate pass.toml", "lint pass.toml"])
def test_what_passes_was_checked(line: str, folder: Path) -> None:
    root = ET.fromstring(dpcli(*line.split(), "-f", "junit", folder=folder).out.encode())
    assert int(root.get("tests", "0")) >= 1
    assert root.get("failures") == root.get("errors") == "0"


@of_each("name", [name for name in own_formats(("account",)) if ci_reads_verdict(name)])
def test_what_checks_nothing_is_no_pass(name: str, folder: Path, tmp_path: Path) -> None:
    """A file without a budget: a report to be judged is refused, whichever way it is asked for, and what is written is an error."""
    path = tmp_path / "report"
    for flags in (("-f", name), ("-o", f"{name}={path}"), ("-f", "json", "-o", f"{name}={path}")):
        result = dpcli("account", "no-budget.toml", *flags, folder=folder)
        assert result.code == 2
        assert "nothing was checked" in result.err
    assert_says_error(name, path.read_text())
    assert dpcli("account", "no-budget.toml", folder=folder).code == 0


def test_a_package_that_is_not_there_is_reported_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("no torch", name="torch")

    monkeypatch.setattr("dpcli.analysis.account.account", lacking)
    path = tmp_path / "summary"
    found = dpcli("account", "pass.toml", "-f", "summary", "-o", f"summary={path}", folder=folder)
    assert found.code == 2
    assert found.out.count("## ") == path.read_text().count("## ") == 1


def test_a_report_that_cannot_be_written_changes_no_exit_code(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "dpcli", "gate", "--nope", "-f", "junit"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert found.returncode == 2
    assert "No such option" in found.stderr and "Traceback" not in found.stderr


def test_the_formats_of_examples_are_those_of_the_registry() -> None:
    assert set().union(*(own_formats(words) for words in COMMANDS)) == {*FORMATS, *CHART_FORMATS}
