"""Random pipelines of all kinds of noise against the answers that a peer gave: never looser, and narrow.

vectors/mixed_pipelines.json says which version gave them, and benchmarks/random_settings.py how it was asked. An answer of the peer
below our certified lower end is too small, and counts for nothing.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.random_settings import PIPELINE_LOOSER, WIDEST, Drawn, Part, headline
from tests.cases import spread

KEPT: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "mixed_pipelines.json").read_text())["pipelines"]
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
        assert low is not None, f"pipeline {number}: no certified interval"
        widths.append((high - low) / high)
        for answer in KEPT[number]["answers"]:
            upper = float(answer["upper"])
            if low <= upper < high * (1.0 - PIPELINE_LOOSER):
                looser.append((number, answer, low, high))
    assert not looser
    assert max(widths) <= WIDEST and statistics.median(widths) <= MEDIAN
