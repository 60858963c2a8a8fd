"""Tests of dpcli explain --demo: its numbers, its picture, and its refusals."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.explain.demo import COUNT, Demo, SimulatedRate, chart, demo
from tests.cases import of_each
from tests.command import ROOT, dpcli

SEEDS = 100
LEAST = SEEDS * 0.95 - 5.0 * math.sqrt(SEEDS * 0.95 * 0.05)


def rates(found: Demo) -> list[SimulatedRate]:
    tests = [rate for test in found.tests for rate in (test.false_positives, test.true_positives)]
    return [*tests, *(belief.share for belief in found.beliefs), found.best_guess]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_intervals_hold_the_exact_rates(epsilon: float) -> None:
    """At 95 % and more, over seeds; those that are made of two rates as well. Noise of another scale would be seen."""
    found = [demo(epsilon, 200, int(seed)) for seed in np.random.default_rng(SEED).integers(0, 2**40, SEEDS)]
    for which in zip(*map(rates, found), strict=True):
        held = sum(rate.low <= rate.exact <= rate.high for rate in which)
        assert held >= LEAST, SEED
        assert abs(float(np.mean([rate.measured for rate in which])) - which[0].exact) < 0.03, SEED
    assert sum(one.epsilon_lower <= epsilon for one in found) >= LEAST, SEED


def test_more_trials_prove_more_and_never_much_more_than_is_true() -> None:
    few, many = demo(1.0, 100, 7), demo(1.0, 200_000, 7)
    assert few.epsilon_lower < many.epsilon_lower < 1.05 and many.epsilon_lower > 0.95
    for rate in rates(many):
        assert rate.measured == pytest.approx(rate.exact, abs=0.01)
        assert rate.high - rate.low < 0.012


def test_at_epsilon_1_the_figures_of_a_textbook() -> None:
    found = demo()
    assert found.advantage == pytest.approx(1.0 - math.exp(-0.5))
    assert math.tanh(0.5) <= found.advantage_bound <= math.tanh(0.5) + 1e-12
    assert [belief.share.exact for belief in found.beliefs] == pytest.approx([0.7310585786, 0.2689414214])
    (at,) = [test for test in found.tests if test.threshold == COUNT + 1]
    assert (at.false_positives.exact, at.true_positives.exact) == pytest.approx((0.5 * math.exp(-1.0), 0.5))
    for test in found.curve_tests:
        assert test.true_positives.exact <= test.allowed + 1e-12 <= min(1.0, math.e * test.false_positives.exact) + 1e-9


def test_a_share_of_no_releases_is_no_number() -> None:
    """With this seed, no release is at 99 or below."""
    result = dpcli("explain", "--demo", "--epsilon", "100", "--trials", "10", "--seed", "415")
    assert result.code == 0 and "nan" not in result.out
    assert re.search(r"99 or less +3.72e-42 % +-\n", result.out)


def test_the_picture_and_the_numbers_are_printed() -> None:
    result = dpcli("explain", "--demo")
    assert (result.code, result.err) == (0, "")
    text = " ".join(result.out.split())
    assert result.out.startswith("the best test against a count with Laplace noise at epsilon = 1\n")
    for words in (
        "made-up data",
        "numpy's generator, seed 1",
        "protects nobody",
        "the best guess is right 69.67 % of the time; under any (1, 0)-DP mechanism, at most 73.11 %",
        "impossible for any test",
        "lower bound from the trials alone, at 95 %: epsilon >= 0.",
        "Neyman and Pearson 1933",
    ):
        assert words in text, words


def test_machine_form_and_sheet() -> None:
    found = json.loads(dpcli("explain", "--demo", "--epsilon", "2", "--trials", "50", "--seed", "9", "-f", "json").out)
    assert found["schema"] == "dpcli/demo/v1"
    assert found["mechanism"] == {"type": "laplace", "scale": 0.5, "sensitivity": 1.0, "epsilon": 2.0}
    assert found["simulation"] == {"trials": 50, "generator": "numpy.random.default_rng", "seed": 9, "confidence": 0.95}
    assert [test["threshold"] for test in found["tests"]] == sorted((test["threshold"] for test in found["tests"]), reverse=True)
    for test in found["tests"]:
        for rate in (test["false_positive_rate"], test["true_positive_rate"]):
            assert 0.0 <= rate["lower"] <= rate["measured"] <= rate["upper"] <= 1.0
    assert found["epsilon_lower"] == demo(2.0, 50, 9).epsilon_lower  # a seed is a seed
    assert found["tests"] != json.loads(dpcli("explain", "--demo", "--epsilon", "2", "--trials", "50", "-f", "json").out)["tests"]
    lines = dpcli("explain", "--demo", "-f", "csv").out.splitlines()
    assert lines[0].startswith("threshold,false_positive_rate_exact,") and len(lines) == 6
    assert float(dpcli("explain", "--demo", "-f", "total").out) == demo().best_guess.exact


@pytest.mark.long
def test_pictures_and_documents_are_written_side_by_side(tmp_path: Path) -> None:
    outputs = ("svg=a", "b.vl.json", "c.html", "json=d")
    flags = [part for name in outputs for part in ("-o", name)]
    result = dpcli("explain", "--demo", "-f", "total", *flags, folder=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert (tmp_path / "a").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "b.vl.json").read_text())["usermeta"]["dpcli"]["kind"] == "demo"
    assert "<svg" in (tmp_path / "c.html").read_text()
    assert json.loads((tmp_path / "d").read_text())["schema"] == "dpcli/demo/v1"


@of_each("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
@of_each("trials", [10, 3000])
def test_every_point_is_within_the_axes_and_in_order(epsilon: float, trials: int) -> None:
    found = chart(demo(epsilon, trials))
    for x, y in found.places():
        assert -1e-9 <= x <= 1.0 + 1e-9 and -1e-9 <= y <= 1.0 + 1e-9
    for line in found.lines:
        assert list(line.points) == sorted(line.points, key=lambda point: (point[0], -point[1]))
    _, exact, bound, _ = found.lines
    xs, ys = zip(*bound.points, strict=True)
    heights = np.interp([x for x, _ in exact.points], xs, ys)
    assert all(y >= height - 1e-12 for (_, y), height in zip(exact.points, heights, strict=True))


@of_each(
    "arguments, message",
    [
        (("--demo", "examples/mnist.toml"), "--demo: expected no FILE and no NAME, found 'examples/mnist.toml'"),
        (("--demo", "--delta", "0.1"), "--delta cannot be combined with --demo"),
        (("--demo", "--prior", "0.1"), "--prior cannot be combined with --demo"),
        (("--demo", "--epsilon", "nan"), "--epsilon: expected a number from 0.001 to 100, found nan"),
        (("--demo", "--epsilon", "0"), "--epsilon: expected a number from 0.001 to 100, found 0.0"),
        (("--demo", "--trials", "9"), "--trials: expected a number from 10 to 1,000,000, found 9"),
        (("--demo", "--seed", "-1"), "--seed: expected a whole number from 0 to 2^63 - 1, found -1"),
        (("--demo", "-o", "pdf=x"), "--output: expected FORMAT=PATH with a format among "),
        (("examples/mnist.toml", "--epsilon", "1"), "--epsilon cannot be combined with a file or a name; it belongs to --demo"),
        (("delta", "--trials", "10"), "--trials cannot be combined with a file or a name; it belongs to --demo"),
        (("examples/mnist.toml", "-o", "x.svg"), "to draw the file, run dpcli plot trade-off examples/mnist.toml"),
        (("delta", "-o", "x.svg"), "with the name of a rule or a term"),
        ((), "expected FILE, NAME or --demo"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = dpcli("explain", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not (ROOT / "x.svg").exists() and not (ROOT / "x").exists()


def test_an_error_leaves_pictures_alone_and_is_told_in_documents(tmp_path: Path) -> None:
    result = dpcli("explain", "--demo", "--trials", "1", "-o", "a.svg", "-o", "b.json", folder=tmp_path)
    assert result.code == 2 and "--trials" in result.err
    assert not (tmp_path / "a.svg").exists()
    assert "--trials" in (tmp_path / "b.json").read_text()


def test_the_result_is_checked_before_it_is_simulated() -> None:
    with pytest.raises(InputError, match="--epsilon"):
        demo(math.inf)
