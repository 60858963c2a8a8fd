"""The reference values that other libraries may test against (tests/vectors/reference): our accountants meet them, dp-accounting agrees,
and the script beside them makes the same file again.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from dpcli.analysis.account import account, sound_profiles
from dpcli.base.errors import NotRepresentable
from dpcli.file.pipeline.model import Pipeline
from tests.benchmarks.random_settings import Drawn, Part, their_pipeline, theirs
from tests.command import ROOT
from tests.strategies import entry, pipeline

FOLDER = ROOT / "tests" / "vectors" / "reference"
Case = dict[str, Any]
CASES: list[Case] = json.loads((FOLDER / "values.json").read_text("utf-8"))["cases"]
SHARP = 1e-8  # how far our smallest bound may be above the upper end, relatively
ROUNDED = 1e-15  # absolute, where epsilon is 0
PEER_ERROR = 1e-6  # relative: dp-accounting adds up in doubles, 3.7e-7 too little for 1,000 responses of 0.01 at delta 1e-9
PEER_GAP = 2e-3  # of dp-accounting's grid at a spacing of 1e-4, relatively and absolutely


def subject(case: Case) -> Pipeline:
    entries = []
    for one in case["mechanisms"]:
        keys = dict(one)
        entries.append(entry(keys.pop("type"), **keys))
    return pipeline(*entries, adjacency=case["adjacency"], delta=case["delta"])


def ends(case: Case) -> tuple[float, float]:
    return float(case["epsilon"]["lower"]), float(case["epsilon"]["upper"])


def test_a_case_says_what_it_is() -> None:
    about = (FOLDER / "README.md").read_text("utf-8")
    words = set(re.findall(r"`([\w-]+)`", about))
    assert len({case["id"] for case in CASES}) == len(CASES) > 40
    for case in CASES:
        low, high = ends(case)
        assert set(case) == {"id", "mechanisms", "adjacency", "delta", "epsilon", "source", "flags", "why"}, case["id"]
        assert 0.0 <= low <= high and (high == math.inf) == ("infinite" in case["flags"]), case["id"]
        assert high == math.inf or high - low <= 3e-9 * high, case["id"]
        assert re.match(r"(closed form|enumeration|certified interval): .", case["source"]) and case["why"], case["id"]
        assert {one["type"] for one in case["mechanisms"]} | {case["adjacency"]} <= words, case["id"]


@pytest.mark.long
def test_the_headline_is_sound_and_sharp() -> None:
    for case in CASES:
        low, high = ends(case)
        ours = account(subject(case))
        assert low <= ours.upper <= high * (1.0 + SHARP) + ROUNDED, (case["id"], ours.upper, low, high)
        assert ours.lower is None or ours.lower <= high, (case["id"], ours.lower, high)


@pytest.mark.nightly
def test_no_sound_accountant_is_below_a_reference_value() -> None:
    asked = 0
    for case in CASES:
        low, high = ends(case)
        for accountant, profile in sound_profiles(subject(case)):
            try:
                bound = profile.epsilon(case["delta"])
            except NotRepresentable:
                continue
            asked += 1
            assert bound.upper >= low, (case["id"], accountant.name, bound.upper, low)
            assert bound.lower is None or bound.lower <= high, (case["id"], accountant.name, bound.lower, high)
    assert asked > 3 * len(CASES)


@pytest.mark.nightly
def test_the_file_is_what_is_computed() -> None:
    """Closed forms and enumerations to the last digit, certified intervals to their width."""
    from tests.vectors.reference import make

    made = make.dataset()["cases"]
    assert [{**case, "epsilon": None} for case in made] == [{**case, "epsilon": None} for case in CASES]
    for old, new in zip(CASES, made, strict=True):
        assert ends(new) == pytest.approx(ends(old), rel=1e-9 if old["source"].startswith("certified") else 0.0), old["id"]


def asked_of_peer(case: Case) -> Drawn | None:
    """Return a case as dp-accounting is asked it; None where it offers no such mechanism."""
    parts = []
    for one in case["mechanisms"]:
        noise = {"noise_multiplier": 1.0, "sigma": 1.0, "scale": 1.0}.keys() & one.keys()
        if one.get("sensitivity", 1) != 1 or "categories" in one:
            return None
        value = one[noise.pop()] if noise else 1.0 / one["epsilon"]
        parts.append(Part(one["type"].removesuffix("-dp"), one.get("rate", 1.0), value, one["steps"]))
    return Drawn(tuple(parts), case["delta"], case["adjacency"] == "replace-one")


@pytest.mark.nightly
@pytest.mark.needs("dp_accounting")
def test_dp_accounting_agrees() -> None:
    """Its pessimistic bound is not below the lower end, and near the upper one, where delta is not below what its tails keep."""
    compared = 0
    for case in CASES:
        setting = asked_of_peer(case)
        if (
            setting is None
            or setting.delta == 0.0
            or {"tiny-delta", "infinite", "large-epsilon", "many-steps"} & set(case["flags"])
        ):
            continue
        low, high = ends(case)
        events = all(part.kind in ("gaussian", "laplace") for part in setting.parts)
        _, upper = theirs(setting, 1e-4) if events else their_pipeline(setting, 1e-4)
        assert low * (1.0 - PEER_ERROR) <= upper <= high * (1.0 + PEER_GAP) + PEER_GAP, (case["id"], upper, low, high)
        compared += 1
    assert compared > 20
