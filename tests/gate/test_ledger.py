"""Tests of the ledger's answer as a condition, with a ledger that answers what the test wants."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from dpcli.base.errors import CannotCertify, Denied, InputError, LedgerError, NotRepresentable
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import load
from dpcli.gate.gate_terms import room
from dpcli.ledger.filters.filter import filter_for_cap
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from tests.command import ROOT, dpcli
from tests.gate.samples import GATE, OVER, judged, named


@dataclass(frozen=True)
class Answer:
    fits: bool
    message: str
    share: float
    left: float
    delta: float | None = None


Asked = list[tuple[str, str | None, str | None, int]]


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer | Exception], Asked]:
    """Puts a ledger in place that gives one answer, or raises; returns what it was asked."""

    def put(answer: Answer | Exception) -> Asked:
        asked: Asked = []

        def quotes(url: str, dataset: str | None, runs: Sequence[tuple[Pipeline, int]]) -> list[Answer | Exception]:
            asked.extend((url, dataset, pipeline.path, count) for pipeline, count in runs)
            if isinstance(answer, LedgerError | RuntimeError):
                raise answer
            return [answer for _ in runs]

        module = ModuleType("dpcli.ledger.planning.quote")
        module.quotes = quotes  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "dpcli.ledger.planning.quote", module)
        return asked

    return put


URL = ("--ledger", "sqlite:x.db", "--dataset", "clicks")


def test_what_fits_passes(ledger: Callable[[Answer | Exception], Asked]) -> None:
    asked = ledger(Answer(True, "rho 0.1 of 0.5 left", 0.1, 0.5))
    found = named("ledger", "examples/gate.toml", *URL)
    assert (found["verdict"], found["message"]) == ("pass", "rho 0.1 of 0.5 left")
    assert found["ledger"] == {"share": 0.1, "left": 0.5}
    assert asked == [("sqlite:x.db", "clicks", "examples/gate.toml", 1)]


def test_what_does_not_fit_fails(ledger: Callable[[Answer | Exception], Asked]) -> None:
    ledger(Answer(False, "rho 0.6, 0.5 left: noise_multiplier = 2 would fit", 0.6, 0.5))
    assert judged("examples/gate.toml", *URL)["exit_code"] == 1


@pytest.mark.parametrize(
    ("error", "verdict", "code"),
    [
        (LedgerError("locked"), "error", 4),
        (InputError("unit differs"), "invalid", 2),
        (CannotCertify("no rho"), "unknown", 3),
        (NotRepresentable("no rho"), "unknown", 3),
    ],
)
def test_what_cannot_be_asked_does_not_pass(
    ledger: Callable[[Answer | Exception], Asked], error: Exception, verdict: str, code: int
) -> None:
    ledger(error)
    found = judged("examples/gate.toml", *URL)
    assert found["exit_code"] == code
    assert found["files"][0]["conditions"][-1]["verdict"] == verdict
    assert found["files"][0]["conditions"][-1]["message"] == str(error)


def test_a_ledger_comes_before_everything_else(ledger: Callable[[Answer | Exception], Asked], tmp_path: Path) -> None:
    """4 before 2 before 3 before 1."""
    over, unknown = tmp_path / "over.toml", tmp_path / "unknown.toml"
    over.write_text(OVER)
    unknown.write_text(GATE.replace("noise_multiplier = 400.0", "noise_multiplier = 1e-300"))
    assert judged(over)["exit_code"] == 1
    assert judged(over, unknown)["exit_code"] == 3
    assert judged(over, unknown, tmp_path / "missing.toml")["exit_code"] == 2
    ledger(LedgerError("locked"))
    assert judged(over, unknown, tmp_path / "missing.toml", *URL)["exit_code"] == 4
    assert "LEDGER ERROR" in dpcli("gate", str(over), *URL).out


def test_a_bug_is_not_a_verdict(ledger: Callable[[Answer | Exception], Asked]) -> None:
    ledger(RuntimeError("bug"))
    assert dpcli("gate", "examples/gate.toml", *URL).code == 70


def test_a_dataset_needs_a_ledger() -> None:
    assert dpcli("gate", "examples/gate.toml", "--dataset", "x").err == "dpcli: --dataset: needs --ledger\n"


@pytest.mark.long
def test_no_ledger_is_loaded_unless_asked() -> None:
    import subprocess

    code = (
        "import sys\nfrom dpcli.cli.main import main\nmain(['gate', 'examples/gate.toml'])\n"
        "print([m for m in sys.modules if m.startswith(('dpcli.ledger.', 'sqlite3')) and m != 'dpcli.ledger.plugin'])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("cap", "code"), [("10", 0), ("1", 1)])
def test_a_real_ledger_is_asked_and_not_touched(tmp_path: Path, cap: str, code: int) -> None:
    url = str(tmp_path / "clicks.db")
    opened = ("--dataset", "clicks", "--unit", "user", "--adjacency", "add-remove", "--epsilon", cap, "--delta", "1e-8")
    assert dpcli("budget", "init", url, *opened, "--filter", "rdp").code == 0
    before = Path(url).read_bytes()
    found = named("ledger", "examples/gate.toml", "--ledger", url)
    assert found["verdict"] == ("fail" if code else "pass")
    assert (found["ledger"]["share"] > found["ledger"]["left"]) is bool(code)
    assert judged("examples/gate.toml", "--ledger", url)["exit_code"] == code
    assert Path(url).read_bytes() == before


# Several files and horizons, in a real ledger.

PURE = """format = 1
[privacy]
unit = "user"
adjacency = "add-remove"
max_contributions = 1
delta = 1e-6
[budget]
epsilon = 100.0
[[mechanism]]
name = "count"
type = "pure-dp"
epsilon = {epsilon}
"""


def opened(folder: Path, cap: str = "1") -> str:
    url = str(folder / "clicks.db")
    terms = ("--dataset", "clicks", "--unit", "user", "--adjacency", "add-remove", "--epsilon", cap, "--delta", "0.5")
    assert dpcli("budget", "init", url, *terms, "--filter", "approx-dp").code == 0
    return url


def verdicts(*arguments: str | Path) -> list[str]:
    """Of the ledger, file by file."""
    files = judged(*arguments)["files"]
    return [c["verdict"] for file in files for c in file["conditions"] if c["name"] == "ledger"]


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("seed", range(4))
def test_files_and_horizons_pass_where_the_ledger_takes_all_their_runs(tmp_path: Path, seed: int) -> None:
    """The gate passes exactly where reserving every run of every file in turn would be granted."""
    chance, url = random.Random(seed), opened(tmp_path)
    for number in range(6):
        files, runs = [], []
        for name in range(chance.randint(1, 3)):
            path = tmp_path / f"{seed}-{number}-{name}.toml"
            epsilon, count = chance.choice((0.05, 0.1, 0.24, 0.3, 0.5)), chance.choice((1, 1, 2, 3, 10))
            text = PURE.format(epsilon=epsilon)
            horizon = f"[gate]\nhorizon = {{ runs = {count}, epsilon = 100.0 }}\n"
            path.write_text(text.replace("[[mech", horizon + "[[mech") if count > 1 else text)
            files.append(path)
            runs += [(path, f"{path.stem} {i}") for i in range(count)]
        found = verdicts(*files, "--ledger", url)
        assert len(found) == len(files)
        copied = tmp_path / f"copy-{number}.db"
        shutil.copy(url, copied)
        granted = all(dpcli("budget", "spend", str(copied), str(path), "--key", key).code == 0 for path, key in runs)
        assert (found == ["pass"] * len(files)) is granted
        copied.unlink()


def test_two_files_that_do_not_fit_together_fail_and_say_so(tmp_path: Path) -> None:
    url = opened(tmp_path)
    paths = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for path in paths:
        path.write_text(PURE.format(epsilon=0.6))
        assert judged(path, "--ledger", url)["exit_code"] == 0
    assert judged(*paths, "--ledger", url)["exit_code"] == 1
    assert "all 2 files together cost 1.2000 of epsilon" in dpcli("gate", *map(str, paths), "--ledger", url, "-f", "json").out


@pytest.mark.parametrize("where", ["flags", "policy", "file"])
def test_a_horizon_is_asked_for_as_a_whole(tmp_path: Path, where: str) -> None:
    """53 runs where one fits, whoever states the horizon."""
    url, path, policy = opened(tmp_path), tmp_path / "a.toml", tmp_path / "policy.toml"
    text, horizon = PURE.format(epsilon=0.6), 'horizon = { every = "week", years = 1, epsilon = 100.0 }\n'
    path.write_text(text.replace("[[mech", f"[gate]\n{horizon}[[mech") if where == "file" else text)
    policy.write_text(f"format = 1\n{horizon}")
    more = {"flags": ("--horizon", "53", "--horizon-epsilon", "100"), "policy": ("--policy", str(policy)), "file": ()}[where]
    found = named("ledger", path, "--ledger", url, *more)
    assert found["verdict"] == "fail"
    assert "53 runs cost" in found["message"]


def test_standard_input_is_read_once(tmp_path: Path) -> None:
    url = opened(tmp_path)
    done = dpcli("gate", "-", "--ledger", url, stdin=PURE.format(epsilon=0.6).encode())
    assert done.code == 0, done
    assert "LEDGER" in done.out.upper()


CUT: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "day": ({}, ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")),
    "week": ({}, ("2020-W52", "2020-W53", "2021-W01", "2021-W02")),
    "region": ({"names": ["a", "b", "c", "d"]}, ("a", "b", "c", "d")),
    "hash": ({"count": 4}, ("0", "1", "2", "3")),
}


SEEDS = [  # of each way to cut: one is quick, or its first is
    *((by, 0, pytest.mark.long) for by in ("week", "hash")),
    *((by, seed, ()) for by, seed in (("", 1), ("day", 0), ("region", 1))),
    *((by, seed, pytest.mark.long) for by, seed in (("", 0), ("day", 1), ("week", 1), ("region", 0), ("hash", 1))),
    *((by, seed, pytest.mark.nightly) for by in ("", *CUT) for seed in (2, 3)),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("by", "seed"), [pytest.param(by, seed, marks=marks) for by, seed, marks in SEEDS])
def test_files_pass_where_every_block_takes_all_their_runs(tmp_path: Path, by: str, seed: int) -> None:
    """Files, some of them named twice, with windows that overlap, in a ledger that was charged before: as spending them all in turn."""
    chance, url = random.Random(f"{by} {seed}"), str(tmp_path / "l.db")
    blocks = {"by": by, "column": "when", "max_blocks": 1, **CUT[by][0]} if by else None
    rule = filter_for_cap("approx-dp", 2.0, 0.5, {})
    terms = LedgerTerms("user", "add-remove", 2.0, 0.5, filter=rule.name, parameters=dict(rule.parameters()), blocks=blocks)
    names = CUT[by][1] if by else ()

    def written(name: str) -> tuple[str, int]:
        window = sorted(chance.sample(names, chance.randint(1, 3))) if by else []
        epsilon, runs = chance.choice((0.05, 0.1, 0.24, 0.3, 0.5)), chance.choice((1, 1, 1, 2, 5))
        stated = f"delta = 1e-6\nwindow = {json.dumps(window)}" if by else "delta = 1e-6"
        gate = f"[gate]\nhorizon = {{ runs = {runs}, epsilon = 100.0 }}\n" if runs > 1 else ""
        text = PURE.format(epsilon=epsilon).replace("delta = 1e-6", stated).replace("[[mech", f"{gate}[[mech")
        (tmp_path / name).write_text(text)
        return str(tmp_path / name), runs

    def spent(ledger: Ledger, path: str, key: str) -> bool:
        try:
            ledger.spend(load(path), key, window=ledger.stated_window(load(path)))
        except Denied:
            return False
        return True

    with init(url, "clicks", terms) as ledger:
        for i in range(chance.randint(0, 3)):
            spent(ledger, written(f"before{i}.toml")[0], f"before {i}")
        if by and seed == 0:
            ledger.retire([names[0]], "deleted")
    passed = set()
    for number in range(12):
        files = [written(f"{number}-{i}.toml") for i in range(chance.randint(1, 3))]
        files += files[:1] if chance.random() < 0.2 else files[:1] * 60 if number == 0 else []  # the last never fit
        said = room([path for path, _ in files], url, None, None)
        asked = [(path, f"{i} {j}") for i, (path, runs) in enumerate(files) for j in range(runs)]
        chance.shuffle(asked)
        shutil.copy(url, tmp_path / f"copy{number}.db")
        with open_ledger(str(tmp_path / f"copy{number}.db")) as copy:
            granted = all(spent(copy, path, key) for path, key in asked)
        assert all(said.conditions[path].verdict == "pass" for path, _ in files) is granted
        passed.add(granted)
    assert False in passed and (True in passed or seed == 0)
