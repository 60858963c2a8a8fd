"""A delta is too large for a dataset wherever it is stated: every command that takes one, and every table that may, tells DP105."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dpcli.cli.main import cli
from dpcli.gate.policy_read import KEYS as POLICY_KEYS
from dpcli.pipeline.key_places import tables
from tests.cases import of_each
from tests.command import ROOT, Result, dpcli
from tests.gate.repositories import git

SIZE = 4_800  # also of examples/pmixed.toml
ERROR, WARNING, RIGHT = 0.3, 1 / (5 * SIZE), 1 / (50 * SIZE)
TEXT = f"""format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = {SIZE}
dataset = "clicks"
delta = {RIGHT!r}
releases = "final-model"
[budget]
epsilon = 3.0
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 60.0
"""
TERMS = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "9", "--filter", "zcdp")
PMIXED = str(ROOT / "examples" / "pmixed.toml")


def walked(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    """The words of every command with --delta."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from walked(command, *before, name)
        elif any("--delta" in parameter.opts for parameter in command.params):
            yield (*before, name)


COMMANDS = tuple(" ".join(words) for words in walked(cli))
IMPORTS = tuple(name for name in COMMANDS if name.startswith("import "))

# What else each command is given; a {file} of TEXT, a {ledger}. A plot tells only what makes it unsound.
ARGUMENTS: dict[str, str] = {
    "account": "account {file}",
    "account, of several": "account {file} {other}",
    "account, of flags": f"account --noise-multiplier 9 --dataset-size {SIZE}",
    "audit": "audit {file} --kind one-run --canaries 100 --guesses 50 --correct 26",
    "budget init": f"budget init {{new}} --dataset visits --dataset-size {SIZE} {' '.join(TERMS)}",
    "budget reserve": "budget reserve {ledger} {file} --key {key}",
    "budget spend": "budget spend {ledger} {file} --key {key}",
    "budget windows": "budget windows {blocks} {file} --within 2026-01-01..2026-01-02",
    "calibrate": "calibrate {file} --solve noise",
    "calibrate-sigma": "calibrate-sigma {file}",
    "calibrate-sigma, of flags": f"calibrate-sigma --target-epsilon 1 --steps 1 --dataset-size {SIZE}",
    "comment github": "comment github {file} --baseline {before} --dry-run",
    "comment gitlab": "comment gitlab {file} --baseline {before} --dry-run",
    "diff": "diff {file} {other}",
    "explain": "explain {file}",
    "gate": "gate {file}",
    "gate, with a cap": "gate {file} --max-epsilon 3",
    "import schedule": f"import schedule {{csv}} --sampling poisson --unit example --adjacency add-remove --dataset-size {SIZE}",
    "plot": "plot delta-epsilon {file} -f csv",
    "pmixed account": f"pmixed account {PMIXED}",
    "report": "report {file}",
}
SAID = (ERROR, WARNING, RIGHT)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands for the words in braces."""
    folder = tmp_path_factory.mktemp("deltas")
    found = {name: str(folder / f"{name}.toml") for name in ("file", "other")}
    Path(found["file"]).write_text(TEXT)
    Path(found["other"]).write_text(TEXT.replace("60.0", "70.0"))
    found["csv"] = str(folder / "it.csv")
    Path(found["csv"]).write_text("noise_multiplier,sampling_rate,steps\n60.0,0.01,5\n")
    found["before"] = str(folder / "before.json")
    dpcli("gate", found["file"], "-o", f"json={found['before']}")
    for name, more in (("ledger", ()), ("blocks", ("--blocks", "day", "--max-blocks", "9", "--column", "at"))):
        found[name] = str(folder / f"{name}.db")
        made = dpcli("budget", "init", found[name], "--dataset", "clicks", "--delta", "1e-6", *TERMS, *more)
        assert made.code == 0, made.err
    return found


def asked(name: str, places: dict[str, str], delta: float, tmp_path: Path) -> Result:
    words = ARGUMENTS[name].format(**places, new=str(tmp_path / "new.db"), key=f"{name}{delta}".replace(" ", ""))
    return dpcli(*words.split(), "--delta", repr(delta))


def test_every_command_with_a_delta_is_asked() -> None:
    """Those that import share one place, which makes the file and tells."""
    assert {name.partition(",")[0] for name in ARGUMENTS} == {*COMMANDS} - {*IMPORTS} | {"import schedule"}
    for name in IMPORTS:
        module = cli.get_command(click.Context(cli), "import").get_command(click.Context(cli), name.split()[1]).callback
        assert "leave_made(" in inspect.getsource(inspect.unwrap(module)), name


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_delta_of_a_flag_is_judged(name: str, places: dict[str, str], tmp_path: Path) -> None:
    for delta in SAID:
        result = asked(name, places, delta, tmp_path)
        told = "DP105" in result.out + result.err
        assert told == (delta != RIGHT and (name, delta) != ("plot", WARNING)), (delta, result)


def test_an_error_of_it_is_no_pass(places: dict[str, str], tmp_path: Path) -> None:
    free = {"budget reserve", "budget spend", "budget windows", "diff", "import schedule"}  # what they do is right at any delta
    for name in ARGUMENTS:
        assert (asked(name, places, ERROR, tmp_path).code == 0) == (name in free), name
    diff = ("diff", places["other"], places["other"], "--exit-code", "--delta")
    assert [dpcli(*diff, repr(delta)).code for delta in SAID] == [1, 0, 0]


KEYS = {
    "": "delta = {}",
    "rule": '[[rule]]\nunit = "example"\ndelta = {}',
    "together": '[[together]]\ndatasets = ["clicks"]\nepsilon = 9.0\ndelta = {}',
}


def test_every_table_of_a_policy_with_a_delta_is_here() -> None:
    assert {place.path for place in tables(POLICY_KEYS) if "delta" in place.members} == {*KEYS}


@of_each("table", KEYS)
def test_a_delta_of_a_policy_is_judged(table: str, tmp_path: Path) -> None:
    """By the number of records of the file that it judges; of a sum, of its largest."""
    git(tmp_path, "init", "-q")
    file, held = tmp_path / "it.toml", tmp_path / "policy.toml"
    file.write_text(TEXT)
    for delta in SAID:
        held.write_text(f"format = 1\n{KEYS[table].format(delta)}\n")
        result = dpcli("gate", str(file), "--policy", str(held))
        assert ("DP105" in result.out, result.code) == (delta != RIGHT, 1 if delta == ERROR else 0), result
        assert dpcli("lint", str(held)).code == 0


def test_the_largest_dataset_of_a_sum_decides(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    held = tmp_path / "policy.toml"
    held.write_text(f"format = 1\n{KEYS['together'].format(RIGHT)}\n")
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    small = TEXT.replace(f"delta = {RIGHT!r}", "delta = 1e-8")
    for sizes, code in (((SIZE, SIZE // 10), 0), ((SIZE // 10, 100 * SIZE), 1)):
        for file, records in zip(files, sizes, strict=True):
            file.write_text(small.replace(f"dataset_size = {SIZE}", f"dataset_size = {records}"))
        for order in (files, files[::-1]):
            result = dpcli("gate", *map(str, order), "--policy", str(held))
            assert (result.code, "DP105" in result.out) == (code, bool(code)), result


@of_each("table", ["privacy", "budget"])
@of_each("name", ["account", "audit", "calibrate", "calibrate-sigma", "diff", "explain", "gate", "plot", "report"])
def test_a_delta_of_the_file_is_judged(name: str, table: str, places: dict[str, str], tmp_path: Path) -> None:
    for delta in SAID:
        stated = {**places, "file": str(tmp_path / "it.toml")}
        key = f"delta = {RIGHT!r}\n"
        text = TEXT.replace(key, f"delta = {delta!r}\n" if table == "privacy" else "").replace(
            "epsilon = 3.0\n", f"epsilon = 3.0\ndelta = {delta!r}\n" if table == "budget" else "epsilon = 3.0\n"
        )
        Path(stated["file"]).write_text(text)
        result = dpcli(*ARGUMENTS[name].format(**stated).split())
        told = "DP105" in result.out + result.err
        assert told == (delta != RIGHT and (name, delta) != ("plot", WARNING)), (delta, result)


def test_a_waiver_of_it_still_waives(places: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "it.toml"
    file.write_text(TEXT + '[[gate.waiver]]\nrule = "DP105"\nreason = "test"\napprover = "ada"\nexpires = 2030-01-01\n')
    result = dpcli("gate", str(file), "--delta", repr(ERROR), "--as-of", "2029-01-01")
    assert result.code == 0 and "waived" in result.out
