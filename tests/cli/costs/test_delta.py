"""Tests that every command and table that takes a delta reports one that is too large for the dataset (DP105)."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import dpcli as package
from dpcli.file.pipeline.key_places import tables
from dpcli.gate.policy import KEYS as POLICY_KEYS
from tests.cases import of_each
from tests.cli.commands import commands
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
FREE = TEXT.replace(f"delta = {RIGHT!r}\n", "")
SIZED = f"dataset_size = {SIZE}\n"
TERMS = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "9", "--filter", "zcdp")
PMIXED = str(ROOT / "examples" / "pmixed.toml")


COMMANDS = {
    " ".join(words): command for words, command in commands() if any("--delta" in parameter.opts for parameter in command.params)
}
IMPORTS = tuple(name for name in COMMANDS if name.startswith("import "))

# What else each command is given; a {file} of TEXT, one that is {free} of a delta, a {ledger}. A plot tells only what makes it unsound.
ARGUMENTS: dict[str, str] = {
    "account": "account {file}",
    "account, of several": "account {file} {other}",
    "account, of flags": f"account --noise-multiplier 9 --dataset-size {SIZE}",
    "audit": "audit {file} --kind one-run --canaries 100 --guesses 50 --correct 26",
    "budget correct": "budget correct {ledger} {key} {file} --reason wrong",
    "budget init": f"budget init {{new}} --dataset visits --dataset-size {SIZE} {' '.join(TERMS)}",
    "budget reserve": "budget reserve {ledger} {file} --key {key}",
    "budget spend": "budget spend {ledger} {file} --key {key}",
    "budget windows": "budget windows {blocks} {file} --within 2026-01-01..2026-01-02",
    "calibrate": "calibrate {file} --solve noise",
    "calibrate-sigma": "calibrate-sigma {file}",
    "calibrate-sigma, of flags": f"calibrate-sigma --target-epsilon 1 --steps 1 --dataset-size {SIZE}",
    "certify": "certify {file}",
    "comment github": "comment github {free} --baseline {before} --dry-run",
    "comment gitlab": "comment gitlab {free} --baseline {before} --dry-run",
    "diff": "diff {file} {other}",
    "explain": "explain {file}",
    "gate": "gate {free}",
    "gate, with a cap": "gate {file} --max-epsilon 2.9",
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
    found = {name: str(folder / f"{name}.toml") for name in ("file", "free", "other")}
    Path(found["file"]).write_text(TEXT)
    Path(found["free"]).write_text(FREE)
    Path(found["other"]).write_text(TEXT.replace("60.0", "70.0"))
    found["csv"] = str(folder / "it.csv")
    Path(found["csv"]).write_text("noise_multiplier,sampling_rate,steps\n60.0,0.01,5\n")
    found["before"] = str(folder / "before.json")
    dpcli("gate", found["free"], "--delta", repr(RIGHT), "-o", f"json={found['before']}")
    for name, more in (("ledger", ()), ("blocks", ("--blocks", "day", "--max-blocks", "9", "--column", "at"))):
        found[name] = str(folder / f"{name}.db")
        made = dpcli("budget", "init", found[name], "--dataset", "clicks", "--delta", "1e-6", *TERMS, *more)
        assert made.code == 0, made.err
    return found


def arguments(name: str, places: dict[str, str], key: str, tmp_path: Path) -> list[str]:
    if name == "budget correct":  # of a run that was charged too low
        assert dpcli("budget", "spend", places["ledger"], places["other"], "--key", key).code == 0
    return ARGUMENTS[name].format(**places, new=str(tmp_path / "new.db"), key=key).split()


def asked(name: str, places: dict[str, str], delta: float, tmp_path: Path) -> Result:
    return dpcli(*arguments(name, places, f"{name}{delta}".replace(" ", ""), tmp_path), "--delta", repr(delta))


def test_every_command_with_a_delta_is_asked() -> None:
    """Those that import share one place, which makes the file and tells."""
    assert {name.partition(",")[0] for name in ARGUMENTS} == {*COMMANDS} - {*IMPORTS} | {"import schedule"}
    for name in IMPORTS:
        assert "convert_and_write(" in inspect.getsource(inspect.unwrap(COMMANDS[name].callback)), name


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_delta_of_a_flag_is_judged(name: str, places: dict[str, str], tmp_path: Path) -> None:
    for delta in SAID:
        result = asked(name, places, delta, tmp_path)
        told = "DP105" in result.out + result.err
        assert told == (delta != RIGHT and (name, delta) != ("plot", WARNING)), (delta, result)


def test_an_error_of_it_is_no_pass(places: dict[str, str], tmp_path: Path) -> None:
    free = {
        "budget correct",
        "budget reserve",
        "budget spend",
        "budget windows",
        "diff",
        "import schedule",
    }  # what they do is right at any delta
    for name in ARGUMENTS:
        assert (asked(name, places, ERROR, tmp_path).code == 0) == (name in free), name
    diff = ("diff", places["other"], places["other"], "--exit-code", "--delta")
    assert [dpcli(*diff, repr(delta)).code for delta in SAID] == [1, 0, 0]


KEYS = {
    "": "epsilon = 1.0\ndelta = {}",
    "rule": '[[rule]]\nunit = "example"\nepsilon = 1.0\ndelta = {}',
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


NEEDLESS = {
    "a looser cap": ("epsilon = 9.0\ndelta = {}", ("--max-epsilon", "9", "--delta")),
    "no cap": ("delta = {}", ("--delta",)),
    "a looser cap of a rule": ('[[rule]]\nunit = "example"\nepsilon = 9.0\ndelta = {}', ()),
}


@of_each("table, flags", NEEDLESS.values())
def test_a_delta_that_decides_nothing_is_not_accused(
    table: str, flags: tuple[str, ...], places: dict[str, str], tmp_path: Path
) -> None:
    """The file's own cap, at a smaller delta, holds in place of what the policy or the flags state."""
    held = tmp_path / "policy.toml"
    held.write_text(f"format = 1\n{table.format(ERROR)}\n")
    for more in (("--policy", str(held)), (*flags, repr(ERROR)) if flags else ()):
        result = dpcli("gate", places["file"], *more)
        assert (result.code, "DP105" in result.out) == (0, False), (more, result)
    judging = dpcli("gate", places["free"], "--policy", str(held))
    assert (judging.code, "the policy's delta" in judging.out) == (1, True), judging


def test_a_file_that_tells_of_its_delta_does_not_silence_the_sum(tmp_path: Path) -> None:
    """A warning for the small dataset is an error for the large one, which is in the sum too."""
    git(tmp_path, "init", "-q")
    small, large = tmp_path / "small.toml", tmp_path / "large.toml"
    small.write_text(TEXT.replace(f"delta = {RIGHT!r}", f"delta = {WARNING!r}"))
    large.write_text(FREE.replace(SIZED, f"dataset_size = {1000 * SIZE}\n").replace("[budget]\nepsilon = 3.0\n", ""))
    for given in ((small,), (small, large)):
        result = dpcli(
            "gate", *map(str, given), "--max-together", "3", "--max-epsilon", "3", "--delta", repr(WARNING), "-f", "json"
        )
        (total,) = json.loads(result.out)["together"]
        assert ("DP105", "fail") in [(one["name"], one["verdict"]) for one in total["conditions"]], result


@of_each("by", ["flag", "policy", "rule"])
def test_a_delta_outside_of_the_files_holds_for_their_sum(by: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    held, files = tmp_path / "policy.toml", [tmp_path / "a.toml", tmp_path / "b.toml"]
    for file in files:
        file.write_text(TEXT)
    table = {"flag": "", "policy": "delta = 1e-12", "rule": '[[rule]]\nfiles = "b.toml"\ndelta = 1e-12'}[by]
    for key, delta in (("", 1e-12), ("delta = 1e-9", 1e-9)):
        held.write_text(f'format = 1\n{table}\n[[together]]\ndatasets = ["clicks"]\nepsilon = 9.0\n{key}\n')
        flags = ("--delta", "1e-12") if by == "flag" else ()
        result = dpcli("gate", *map(str, files), "--policy", str(held), *flags, "-f", "json")
        assert json.loads(result.out)["together"][0]["delta"] == delta, result


def test_the_delta_of_a_ledger_is_judged_by_the_files_that_it_takes(places: dict[str, str], tmp_path: Path) -> None:
    words = "the ledger's delta: expected a delta below 1/dataset_size"
    for delta in (ERROR, RIGHT):
        ledger = str(tmp_path / f"{delta}.db")
        made = dpcli("budget", "init", ledger, "--dataset", "clicks", "--delta", repr(delta), *TERMS)
        assert made.code == 0 and "DP306: --delta: dataset_size is missing" in made.err
        gated = dpcli("gate", places["file"], "--ledger", ledger, "-f", "json")
        assert (gated.code, words in gated.out) == ((1, True) if delta == ERROR else (0, False)), gated
        for command in ("spend", "reserve"):
            charged = dpcli("budget", command, ledger, places["file"], "--key", command)
            assert (charged.code, words in charged.err) == (0, delta == ERROR), charged


def test_without_a_size_the_missing_check_is_told_once(places: dict[str, str], tmp_path: Path) -> None:
    """Once for each file, wherever the delta stands; not where it is 0, at which epsilon needs no size."""
    silent = {"pmixed account", "plot"}  # whose example states a size; which tells errors alone
    twice = {"account, of several", "comment github", "comment gitlab", "report"}  # of two files; in a list and in a table
    ledger = str(tmp_path / "ledger.db")
    dpcli("budget", "init", ledger, "--dataset", "clicks", "--delta", "1e-6", *TERMS)
    stated = {**places, "ledger": ledger}
    for name, text in {"file": TEXT, "free": FREE, "other": TEXT.replace("60.0", "70.0")}.items():
        stated[name] = str(tmp_path / f"{name}.toml")
        Path(stated[name]).write_text(text.replace(SIZED, ""))
    for name in ARGUMENTS.keys() - silent:
        words = [word for word in arguments(name, stated, name.split()[-1], tmp_path) if word not in ("--dataset-size", str(SIZE))]
        result = dpcli(*words, "--delta", repr(RIGHT))
        count = (result.out + result.err).count("DP306")
        assert count == (2 if name in twice else 1), (name, result)
    assert "DP306" not in dpcli("account", stated["free"], "--delta", "0").out
    assert "DP306" in dpcli("calibrate", stated["file"], "--solve", "noise").out


def test_results_in_python_tell_it_too(places: dict[str, str]) -> None:
    pipeline = package.load(places["free"])
    for delta in SAID:
        for result in (package.account(pipeline, delta=delta), package.calibrate(pipeline, 1.0, delta=delta)):
            told = ["DP105" in text for text in (repr(result), result._repr_html_())]
            assert told == [delta != RIGHT] * 2, (delta, result)


@of_each("table", ["privacy", "budget"])
@of_each("name", ["account", "audit", "calibrate", "calibrate-sigma", "diff", "explain", "gate", "plot", "report"])
def test_a_delta_of_the_file_is_judged(name: str, table: str, places: dict[str, str], tmp_path: Path) -> None:
    for delta in SAID:
        stated = {**places, **dict.fromkeys(("file", "free"), str(tmp_path / "it.toml"))}
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
    file.write_text(FREE + '[[gate.waiver]]\nrule = "DP105"\nreason = "test"\napprover = "ada"\nexpires = 2030-01-01\n')
    result = dpcli("gate", str(file), "--delta", repr(ERROR), "--as-of", "2029-01-01")
    assert result.code == 0 and "waived" in result.out
