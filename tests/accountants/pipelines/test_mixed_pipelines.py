"""Random pipelines of all kinds of noise against the answers that a peer gave: never looser, and narrow.

The files in vectors/ say which version gave them, and benchmarks/random_settings.py how it was asked. An answer of the peer below our
certified lower end is too small, and counts for nothing. Only a pipeline with an unsampled exponential mechanism may lack a lower end,
because no single pair attains the worst curve of that mechanism.
"""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from dpcli.accountants.base import join_equal_steps
from dpcli.accountants.directions import directions
from dpcli.numerics.contour import integral, sieve
from dpcli.numerics.contour.epsilon_search import solve
from dpcli.numerics.contour.integral import build
from dpcli.numerics.contour.tilt_search import tilt_for
from tests.benchmarks.random_settings import PIPELINE_LOOSER, WIDEST, Drawn, Part, headline, mechanism
from tests.cases import spread

VECTORS = Path(__file__).parents[2] / "vectors"
KEPT: list[dict[str, Any]] = [
    pipeline
    for name in ("mixed_pipelines.json", "wider_pipelines.json")
    for pipeline in json.loads((VECTORS / name).read_text())["pipelines"]
]
MEDIAN = 1e-6  # relative width


@pytest.mark.parametrize(
    "count",
    [3, pytest.param(20, marks=pytest.mark.long), pytest.param(len(KEPT), marks=pytest.mark.nightly)],
    ids=["few", "some", "all"],
)
def test_never_looser_than_a_peer(count: int) -> None:
    widths, looser = [], []
    for number in sorted(spread(len(KEPT), count)):
        setting = Drawn(tuple(Part(**part) for part in KEPT[number]["parts"]), KEPT[number]["delta"], False)
        low, high = headline(setting)
        if low is None:
            assert any(part.kind == "exponential" for part in setting.parts), f"pipeline {number}: no certified interval"
            low = 0.0
        else:
            widths.append((high - low) / high)
        for answer in KEPT[number]["answers"]:
            upper = float(answer["upper"])
            if low <= upper < high * (1.0 - PIPELINE_LOOSER):
                looser.append((number, answer, low, high))
    assert not looser
    assert max(widths) <= WIDEST and statistics.median(widths) <= MEDIAN


@pytest.mark.parametrize("light", [1e-24, 1e-8, 1e-4, 1e-2])
def test_nodes_that_are_left_out_too_soon_widen_the_interval(light: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pipelines: the intervals of fewer and of all nodes overlap, and they are equally wide if no node mattered."""
    wider = 0
    for number in spread(len(KEPT), 3):
        steps = tuple((mechanism(Part(**part)), part["steps"]) for part in KEPT[number]["parts"])
        log_delta = math.log(KEPT[number]["delta"])
        for losses in directions(join_equal_steps(steps)):
            t = tilt_for(losses, log_delta)
            monkeypatch.setattr(integral, "FEW_MULTIPLES", math.inf)
            monkeypatch.setattr(sieve, "SIEVED", math.inf)
            every = build(losses, log_delta, t)
            monkeypatch.undo()
            monkeypatch.setattr(integral, "FEW_MULTIPLES", 0)
            for module in (integral, sieve):
                monkeypatch.setattr(module, "LIGHT", light)
            fewer = build(losses, log_delta, t)
            monkeypatch.undo()
            if every is None or fewer is None:
                continue
            epsilon = solve(every, log_delta)[1]
            if not 0.0 < epsilon < math.inf:
                continue
            low, high = every.log_delta(epsilon)
            least, most = fewer.log_delta(epsilon)
            assert least <= high + 1e-12 and most >= low - 1e-12, (number, light)
            wider += most - least > high - low + 1e-9
    assert wider == 0 or light > integral.LIGHT
