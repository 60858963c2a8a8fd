"""The document of `dpcli explain --demo`: the simulated attack on a noisy count (explain/demo.py), as tables, notes and JSON.

The simulation releases the count COUNT and the count COUNT + 1 many times with Laplace noise, and *tests* guess which of the two was
released, by a threshold on the noisy count. Each rate is shown exactly and as the trials measured it, with a confidence interval. Exact
bounds are rounded up, intervals outwards, and the lower bound on epsilon down.
"""

from __future__ import annotations

import math
from typing import Any

from dpcli.base.rounding import down, percent_up
from dpcli.document.chart import Chart
from dpcli.document.document import Document, Sheet, Table
from dpcli.explain.demo import CONFIDENCE, COUNT, Demo, SimulatedBelief, SimulatedRate, ThresholdTest

CONFIDENCE_TEXT = f"{100 * CONFIDENCE:g} %"
MEASURED = f"measured ({CONFIDENCE_TEXT})"  # title of the columns of measured rates
RATE_KEYS = ("exact", "measured", "lower", "upper")  # keys of a rate in data


def document(demo: Demo, picture: Chart) -> Document:
    """Return the document of `dpcli explain --demo`. The picture in a terminal is printed separately."""
    right, bound = _percent(demo.best_guess.exact), percent_up(demo.best_guess_bound)
    headline = (
        f"a count with Laplace noise at epsilon = {demo.epsilon:g}: the best guess is right {right} of the time; "
        f"under any ({demo.epsilon:g}, 0)-DP mechanism, at most {bound}"
    )
    return Document(
        headline,
        data=data(demo),
        tables=(_tests(demo), _beliefs(demo)),
        notes=_notes(demo),
        total=repr(demo.best_guess.exact),
        pictures=(picture,),
        sheet=_sheet(demo),
    )


def data(demo: Demo) -> dict[str, Any]:
    """Return the JSON document dpcli/demo/v1. Its numbers are not rounded."""
    generator = "numpy.random.default_rng"
    return {
        "schema": "dpcli/demo/v1",
        "mechanism": {"type": "laplace", "scale": demo.scale, "sensitivity": 1.0, "epsilon": demo.epsilon},
        "statement": {"unit": "person", "adjacency": "add-remove", "counts": [COUNT, COUNT + 1]},
        "simulation": {"trials": demo.trials, "generator": generator, "seed": demo.seed, "confidence": CONFIDENCE},
        "tests": [_test_data(test) for test in demo.tests],
        "advantage": {"exact": demo.advantage, "bound_upper": demo.advantage_bound},
        "posterior": [_belief_data(belief) for belief in demo.beliefs],
        "best_guess": {**_rate_data(demo.best_guess), "bound_upper": demo.best_guess_bound},
        "epsilon_lower": demo.epsilon_lower,
        "exit_code": 0,
    }


def _test_data(test: ThresholdTest) -> dict[str, Any]:
    return {
        "threshold": test.threshold,
        "false_positive_rate": _rate_data(test.false_positives),
        "true_positive_rate": {**_rate_data(test.true_positives), "bound_upper": test.allowed},
    }


def _belief_data(belief: SimulatedBelief) -> dict[str, Any]:
    return {"noisy_count": belief.counts, "prior": 0.5, **_rate_data(belief.share)}


def _rate_data(rate: SimulatedRate) -> dict[str, float]:
    return dict(zip(RATE_KEYS, (rate.exact, rate.measured, rate.low, rate.high), strict=True))


def _tests(demo: Demo) -> Table:
    title = f'the best tests: guess "{COUNT + 1}, the person is in" if the noisy count is'
    columns = ("noisy count", "false positives", MEASURED, "true positives", MEASURED, "the bound allows")
    return Table(title, columns, tuple(map(_test_row, demo.tests)), frozenset(range(1, 6)))  # columns 1 to 5 have numbers


def _test_row(test: ThresholdTest) -> tuple[str, ...]:
    false_positives, true_positives = test.false_positives, test.true_positives
    return (
        f"above {test.threshold:.6g}",
        _percent(false_positives.exact),
        _measured(false_positives),
        _percent(true_positives.exact),
        _measured(true_positives),
        percent_up(test.allowed),
    )


def _beliefs(demo: Demo) -> Table:
    title = "belief that the person is in, with a prior belief of 50 %"
    rows = tuple((belief.counts, _percent(belief.share.exact), _measured(belief.share)) for belief in demo.beliefs)
    footnote = (
        "between the two counts, the belief is between these values; no output of an (epsilon, 0)-DP mechanism moves it further"
    )
    return Table(title, ("noisy count", "belief", MEASURED), rows, frozenset({1, 2}), (footnote,))


def _notes(demo: Demo) -> tuple[str, ...]:
    simulation = (
        f"made-up data: a count of {COUNT + 1} people, or of {COUNT} if one of them is not in (add-remove, sensitivity 1); each was "
        f"released {demo.trials:,} times with Laplace noise of scale {demo.scale:.6g} from numpy's generator, seed {demo.seed}: "
        "floating-point noise from a known seed protects nobody"
    )
    advantage = (
        f"advantage: true positives minus false positives are at most {_percent(demo.advantage)} here, at the threshold {COUNT + 0.5}; "
        f"under any ({demo.epsilon:g}, 0)-DP mechanism, at most {percent_up(demo.advantage_bound)}"
    )
    best_guess = f"best guess, with a prior belief of 50 %: measured {_measured(demo.best_guess)} right"
    epsilon_lower = (
        f"lower bound from the trials alone, at {CONFIDENCE_TEXT}: epsilon >= {down(demo.epsilon_lower)}, by the threshold {COUNT + 1}, "
        f"whose exact rates give {demo.epsilon:g}; more trials (--trials) raise it"
    )
    return simulation, advantage, best_guess, epsilon_lower


def _sheet(demo: Demo) -> Sheet:
    columns = (
        "threshold",
        *(f"false_positive_rate_{key}" for key in RATE_KEYS),
        *(f"true_positive_rate_{key}" for key in RATE_KEYS),
        "true_positive_rate_bound_upper",
        "epsilon",
        "trials",
        "seed",
    )
    rows = []
    for test in demo.tests:
        rates = (*_rate_data(test.false_positives).values(), *_rate_data(test.true_positives).values())
        rows.append((test.threshold, *rates, test.allowed, demo.epsilon, demo.trials, demo.seed))
    return Sheet(columns, tuple(rows))


def _measured(rate: SimulatedRate) -> str:
    """Return a measured rate with its interval, whose ends are rounded outwards; "-" for a rate of no releases at all."""
    if math.isnan(rate.measured):
        return "-"
    low, high = math.floor(1e3 * rate.low) / 10, math.ceil(1e3 * rate.high) / 10  # in percent, with one decimal
    return f"{100.0 * rate.measured:.1f} % ({low:.1f} to {high:.1f})"


def _percent(x: float) -> str:
    return f"{100.0 * x:.4g} %"
