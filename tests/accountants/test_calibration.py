"""Calibration (dpcli/analysis/calibrate.py): the value that is found meets its target when it is accounted anew, the next cheaper one does
not, and both are printed. "Cheaper" is less noise, a higher rate, or more steps.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.analysis.calibrate import Calibration, calibrate
from dpcli.analysis.calibration_search import search
from dpcli.analysis.documents.calibration import EARLY, document
from dpcli.analysis.solved_keys import Parameter, substitute
from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.mechanisms.sampling.schemes import Poisson
from tests.strategies import dp_sgd, entry, log_uniform, pipeline

FAST = ["zcdp", "rdp", "analytic"]
LOWERED = {"noise", "scale"}


def check(found: Calibration, subject: Pipeline, accountants: list[str]) -> None:
    """Assert the promise on both values by accounting them anew."""
    at = account(substitute(subject, found.targets, found.value), accountants, found.delta).upper
    assert at == found.upper <= found.target
    if found.cheaper is not None:
        beyond = account(substitute(subject, found.targets, found.cheaper), accountants, found.delta).upper
        assert beyond == found.cheaper_upper and beyond > found.target
        assert (found.cheaper < found.value) == (found.parameter in LOWERED)
        step = abs(found.cheaper - found.value)
        assert step == 1.0 if found.parameter in ("steps", "batch-size") else step <= 1.0001e-6 * found.value
    if found.parameter not in ("steps", "batch-size"):
        assert float(f"{found.value:.7g}") == found.value


def batched(**changes: object) -> Pipeline:
    """Return a pipeline of epochs of batches of a declared dataset."""
    base = entry("gaussian", noise_multiplier=1.1)
    single = replace(base, sampling=Poisson("poisson", None, 256), **{"epochs": 5.0, **changes})  # type: ignore[arg-type]
    return pipeline(single, dataset_size=60_000)


CASES: list[tuple[Parameter, Pipeline, float]] = [
    ("noise", dp_sgd(1.0, 0.01, 100), 1.0),
    ("noise", dp_sgd(1.0, None, 1), 0.5),
    ("noise", pipeline(entry("laplace", scale=1.0, sensitivity=2.0)), 0.3),
    ("noise", pipeline(entry("discrete-gaussian", sigma=9.0, sensitivity=2, dimension=1)), 2.0),
    ("scale", pipeline(entry("laplace", scale=1.0, sensitivity=2.0), entry("gaussian", noise_multiplier=20.0)), 0.7),
    ("steps", dp_sgd(2.0, 0.01, 1), 2.0),
    ("steps", pipeline(entry("pure-dp", epsilon=0.01)), 1.0),
    ("rate", dp_sgd(2.0, 0.5, 200), 2.0),
    ("epochs", batched(), 1.5),
    ("batch-size", batched(epochs=None, steps=400), 1.5),
]


@pytest.mark.parametrize(("solve", "subject", "target"), CASES)
def test_private_side(solve: Parameter, subject: Pipeline, target: float) -> None:
    names = [*FAST, "basic"]
    found = calibrate(subject, target, 1e-5, solve, accountants=names)
    assert found.parameter == solve and found.cheaper is not None
    check(found, subject, names)
    assert found.upper > 0.97 * target or solve in ("steps", "epochs")


@given(log_uniform(-1.0, 1.0), log_uniform(-4.0, -0.5), st.sampled_from([1, 30, 5000]), log_uniform(-9.0, -3.0))
@settings(max_examples=6)
def test_any_dp_sgd(target: float, rate: float, steps: int, delta: float) -> None:
    subject = dp_sgd(1.0, rate, steps, delta)
    check(calibrate(subject, target, accountants=["rdp"]), subject, ["rdp"])


def test_by_all_accountants() -> None:
    """The published case: sigma for epsilon 2.5187 by RDP lies just above 1.12; the headline may need less, never more."""
    subject = dp_sgd(1.0, 256 / 60000, 14063)
    by_rdp = calibrate(subject, 2.5187, accountants=["rdp"])
    assert by_rdp.value == pytest.approx(1.12, rel=2e-4) and by_rdp.accountant == "rdp"
    best = calibrate(subject, 2.5187)
    assert best.value <= by_rdp.value


def test_a_smaller_target_needs_more() -> None:
    values = [calibrate(dp_sgd(1.0, 0.01, 100), target, accountants=["rdp"]).value for target in (0.5, 1.0, 2.0, 4.0)]
    assert values == sorted(values, reverse=True)
    steps = [calibrate(dp_sgd(2.0, 0.01, 1), target, solve="steps", accountants=["rdp"]).value for target in (0.5, 1.0, 2.0)]
    assert steps == sorted(steps)


def test_a_group_needs_more_noise() -> None:
    one, three = (calibrate(dp_sgd(1.0, None, 10), 1.0, accountants=["analytic"], group_size=k).value for k in (1, 3))
    assert three == pytest.approx(3.0 * one, rel=1e-6)


def test_where_the_grid_ends() -> None:
    """A rate of 1 fits: there is nothing cheaper."""
    found = calibrate(dp_sgd(50.0, 0.1, 2), 5.0, solve="rate", accountants=["rdp"])
    assert found.value == 1.0 and found.cheaper is None and found.cheaper_upper is None


def test_a_target_out_of_reach() -> None:
    fixed: Entry = entry("pure-dp", epsilon=2.0)
    with pytest.raises(CannotCertify, match=r"meets epsilon = 1: the rest of the pipeline.* costs more"):
        calibrate(pipeline(entry("gaussian", noise_multiplier=1.0), fixed), 1.0, accountants=["basic"])


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_targets_that_make_no_sense(target: float) -> None:
    with pytest.raises(InputError, match="expected a target epsilon > 0"):
        calibrate(dp_sgd(1.0, None, 1), target)


def test_ambiguous_and_missing_parameters() -> None:
    two = pipeline(entry("gaussian", noise_multiplier=1.0), entry("laplace", noise_multiplier=1.0))
    with pytest.raises(InputError, match="found 0, 1"):
        calibrate(two, 1.0)
    with pytest.raises(InputError, match="no mechanism has a rate; use --solve noise or steps"):
        calibrate(dp_sgd(1.0, None, 1), 1.0, solve="rate")
    named = calibrate(two, 3.0, accountants=FAST, targets=(("0", "noise_multiplier"),))
    check(named, two, FAST)
    both = calibrate(two, 3.0, accountants=FAST, targets=(("0", "noise_multiplier"), ("1", "noise_multiplier")))
    check(both, two, FAST)


def test_steps_from_epochs_are_rounded_up() -> None:
    """60 epochs of 256 in 60,000 are 14,062.5 steps."""
    whole, more = batched(epochs=60.0), dp_sgd(1.1, 256 / 60_000, 14_063)
    assert account(whole, ["rdp"]).upper == pytest.approx(account(more, ["rdp"]).upper, rel=1e-12)
    assert account(whole, ["rdp"]).charges[0].count == 14_063


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stated", [1, 256, 5_000, 10**6])
def test_steps_are_looked_for_where_attempts_are_cheap(stated: int) -> None:
    """Beside Laplace noise a question about few steps takes a third of the work of a whole command."""
    subject = pipeline(
        replace(entry("laplace", scale=2.0, sensitivity=1.0), name="vocabulary"),
        replace(
            entry("gaussian", noise_multiplier=0.7), name="train", steps=stated, sampling=Poisson("poisson", rate=1_024 / 1_000_000)
        ),
        delta=1e-8,
    )
    found = calibrate(subject, 1.9768, solve="steps", targets=((subject.mechanisms[1].name, "steps"),))
    assert found.adjacent
    assert found.cheaper_upper is not None and found.upper > 0.99 * found.cheaper_upper


def test_a_search_that_ends_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If work is short, the nearest value that fails need not be the next one."""
    whole = calibrate(dp_sgd(1.0, 0.01, 100), 1.0)
    monkeypatch.setattr("dpcli.analysis.calibration_search.exhausted", lambda: True)
    found = calibrate(dp_sgd(1.0, 0.01, 100), 1.0)
    assert (whole.adjacent, found.adjacent) == (True, False)
    assert found.upper <= 1.0 < (found.cheaper_upper or 0.0)
    assert [table.rows[1][0] for table in (*document(whole).tables, *document(found).tables)] == [
        "next smaller noise",
        "smaller noise",
    ]
    assert EARLY in document(found).notes
    assert EARLY not in document(whole).notes


def test_a_value_that_is_refused_does_not_end_the_search() -> None:
    """Epsilon is infinite in several places, as where a grid would take too long: the answer is still the last that meets the target."""
    for seed in range(40):
        search_past_refusals(seed)


def search_past_refusals(seed: int) -> None:
    source = random.Random(seed)
    solve: Parameter = source.choice(["noise", "scale", "radius", "epochs", "steps"])
    sign = -1.0 if solve in LOWERED else 1.0
    edge = 10.0 ** source.uniform(-0.5, 4.0) + 1.5
    holes = [(low, low * 10.0 ** source.uniform(0.02, 0.2)) for low in (10.0 ** source.uniform(-4.0, 5.0) for _ in range(6))]
    holes = [(low, high) for low, high in holes if high < edge - 1.0 or low > edge + 1.0]

    def upper(value: float) -> float:
        return math.inf if any(low <= value <= high for low, high in holes) else 2.0 * (value / edge) ** sign

    value, cheaper, adjacent = search(upper, 2.0, solve, math.inf)
    assert upper(value) <= 2.0 and cheaper is not None and upper(cheaper) > 2.0 and adjacent, seed
    assert abs(value / edge - 1.0) <= (1.0 / edge if solve == "steps" else 1e-6), seed


@pytest.mark.long
@pytest.mark.parametrize("accountants", [["pld"], None])
def test_the_largest_radius_is_found(accountants: list[str] | None) -> None:
    """The grid alone finds it, although its interval is wide for small radii; so do all accountants together."""
    spec = {"shards": 20, "model_rate": 0.03, "radius": 0.85, "change": "remove-shard"}
    found = calibrate(pipeline(replace(entry("pmixed", **spec), steps=1024)), 4.0, 1e-5, "radius", None, accountants)
    assert (
        found.accountant == ("exact" if accountants is None else "pld")
        and found.value == pytest.approx(0.905, abs=1e-3)
        and found.adjacent
    )
