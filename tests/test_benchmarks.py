"""The benchmarks' settings are sound, and dpcli's side of the comparison with its peers runs; how fast is for the benchmark to say."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks import durations, mixtures, peers, pmixed
from tests.benchmarks.isolation import Answer
from tests.benchmarks.settings import SETTINGS, SMALL, Setting
from tests.benchmarks.soundness import gaussian_epsilon, responses_epsilon
from tests.cases import of_each


@of_each("setting", [*SETTINGS, *SMALL])
def test_a_setting_is_a_question(setting: Setting) -> None:
    assert 0.0 < setting.delta <= 1e-3
    for rate, noise, steps in setting.phases:
        assert 1e-8 <= rate <= 1.0 and 0.3 <= noise <= 100.0 and 1 <= steps <= 10**9
    assert len(set(setting.phases)) == len(setting.phases) > 0


def test_settings_reach_to_the_ends() -> None:
    phases = [phase for setting in SETTINGS for phase in setting.phases]
    assert len(SETTINGS) >= 40
    assert len({s.name for s in SETTINGS}) == len({s.digest for s in SETTINGS}) == len(SETTINGS)
    assert sum(setting.reference is not None for setting in SETTINGS) == 12
    assert {1e-3, 1e-30} <= {setting.delta for setting in SETTINGS}
    assert [(min(column), max(column)) for column in zip(*phases, strict=True)] == [(1e-8, 1.0), (0.3, 100.0), (1, 10**9)]
    assert max(len(setting.phases) for setting in SETTINGS) == 200
    assert any(setting.replaces for setting in SETTINGS)


def test_truths_in_closed_form() -> None:
    """Analytic Gaussian values to seven digits; one response's delta is p - e^eps (1-p)."""
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=1e-6)
    assert gaussian_epsilon(1.0, 1e-12) == pytest.approx(7.238494, abs=1e-6)
    keep = math.e / (1.0 + math.e)
    assert responses_epsilon(1.0, 1, 1e-3) == pytest.approx(math.log((keep - 1e-3) / (1.0 - keep)), rel=1e-12)


def test_our_side_runs_and_resumes(tmp_path: Path) -> None:
    """Two settings: each interval holds its reference, a second run asks nothing, and the report can be printed both ways."""
    path = tmp_path / "peers.csv"
    words = ["--peers", "exact", "--only", "mnist", "--soundness", "skip", "--csv", str(path)]
    first = peers.main(words)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["setting"], row["status"]) for row in rows] == [("mnist", "ok"), ("mnist replace-one", "ok")]
    for row, reference in zip(rows, (2.3795545188, 4.2174858115), strict=True):
        assert float(row["lower"]) * (1.0 - 1e-9) <= reference <= float(row["upper"]) * (1.0 + 1e-9)
    assert "exceptions\n----------\n- none" in first
    assert "| mnist |" in peers.main([*words, "--markdown"])
    assert list(csv.DictReader(path.read_text().splitlines())) == rows


@pytest.mark.parametrize(
    ("upper", "expected"),
    [
        (2.0, "tighter or equal"),
        (3.0, "tighter or equal"),
        (1.95, "within the certificate"),
        (1.8, "too small"),
        (math.inf, "none"),
    ],
)
def test_how_a_peer_stands(upper: float, expected: str) -> None:
    """Below exact's certified lower bound an epsilon is not tight but wrong."""
    assert peers.standing(Answer("ok", 1.9, 2.0, 1.0, 1, 1.0), Answer("ok", None, upper, 1.0, 1, 1.0)) == expected


def test_mixtures_are_measured_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One case, twice: the second is compared with the first, and both agree."""
    words = ["--only", "rdp: add-remove q=0.3 sigma=4 steps=100 records=1", "--csv", str(tmp_path / "first.csv")]
    mixtures.main(words)
    mixtures.main([*words[:2], "--against", words[-1]])
    assert len((tmp_path / "first.csv").read_text().splitlines()) == 2
    assert "time: median" in capsys.readouterr().out.splitlines()[-1]


def test_one_query_after_the_other_costs_what_all_at_once_do() -> None:
    from tests.benchmarks import pate

    counts = pate.drawn()[:50]
    assert pate.one_by_one(counts) == pytest.approx(pate.vectorised(counts), rel=1e-9)


@pytest.mark.long
def test_projections_are_timed() -> None:
    """A small vocabulary: every row is there, and the bisection finds the share that the cubic finds."""
    found = pmixed.main(["--vocabulary", "300", "--models", "3", "--rounds", "2"])
    rows = [line.split("  ")[0] for line in found.splitlines()[3:6]]
    assert rows == ["published share, order 3: cubic and one check", "sound, clip", "sound, mix"]
    assert "one token of 3 models" in found


LOG = """
============================= slowest durations ==============================
1.50s call     tests/gate/test_a.py::test_one[x-1]
0.25s setup    tests/gate/test_a.py::test_one[y y]
0.50s teardown tests/lint/test_b.py::test_two
"""


def test_durations_are_added_up_by_function_and_folder() -> None:
    log = durations.durations(LOG)
    assert log == {("tests/gate/test_a.py", "test_one"): 1.75, ("tests/lint/test_b.py", "test_two"): 0.5}
    half = {key: value / 2.0 for key, value in log.items()}
    lines = durations.table([log, Counter(half)], lambda key: key[0].rpartition("/")[0], 10)
    assert [line.split() for line in lines] == [["1.8", "0.9", "tests/gate"], ["0.5", "0.2", "tests/lint"], ["2.2", "1.1", "all"]]
    assert len(durations.table([log], "::".join, 1)) == 2
