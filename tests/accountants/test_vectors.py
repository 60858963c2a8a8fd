"""Reference values of public libraries (tests/vectors/accounting.json).

Each case says which relation our number must have to it, such as "epsilon-at-most"; `CHECKS` has a function for each relation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.analysis.account import account
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import resolve
from tests.strategies import entry, pipeline

Case = dict[str, Any]
CASES: list[Case] = json.loads((Path(__file__).parent.parent / "vectors" / "accounting.json").read_text("utf-8"))["cases"]
SEVEN_DECIMALS = 1e-7


def subject(case: Case) -> Pipeline:
    entries = [
        entry(
            m["type"],
            steps=m.get("steps", 1),
            rate=m.get("rate"),
            **{key: tuple(value) if isinstance(value, list) else value for key, value in m["keys"].items()},
        )
        for m in case["mechanisms"]
    ]
    return pipeline(*entries, adjacency=case["adjacency"])


def epsilon(case: Case, delta: float) -> float:
    """Return epsilon by the mechanism's own exact curve if one runs once, as composition theorems need not reach it; else the headline."""
    charges = resolve(subject(case))
    if "accountants" not in case and len(charges) == charges[0].count == 1:
        return charges[0].mechanism.approx_dp(delta)
    return account(subject(case), case.get("accountants"), delta).upper


def epsilon_equal(case: Case) -> None:
    assert epsilon(case, case["delta"]) == pytest.approx(case.get("epsilon", case["expected"]), rel=case["rtol"])


def epsilon_at_least(case: Case) -> None:
    assert epsilon(case, case["delta"]) >= case.get("epsilon", case["expected"]) * (1.0 - case["rtol"])


def epsilon_at_most(case: Case) -> None:
    """Assert that ours is at most the peer's and not far below: by `slack`, where given, because the peer's orders are coarse."""
    found, target = epsilon(case, case["delta"]), case.get("epsilon", case["expected"])
    assert target * (1.0 - case.get("slack", 0.1)) <= found <= target * (1.0 + case["rtol"])


def delta_equal(case: Case) -> None:
    """Assert on delta by way of epsilon: at most the case's epsilon a little above its delta, and at least that a little below it."""
    expected = case["expected"]
    margin = case["rtol"] * expected if "rtol" in case else SEVEN_DECIMALS
    assert epsilon(case, expected + margin) <= case["epsilon"] * (1.0 + 1e-9)
    if expected > margin:
        assert epsilon(case, expected - margin) >= case["epsilon"] * (1.0 - 1e-9)


def delta_at_least(case: Case) -> None:
    expected = case["expected"]
    margin = case["rtol"] * expected if "rtol" in case else SEVEN_DECIMALS
    if expected > margin:
        assert epsilon(case, expected - margin) >= case["epsilon"] * (1.0 - 1e-9)


def rdp(case: Case) -> float:
    orders = np.array([case["order"]])
    return math.fsum(charge.count * float(charge.mechanism.rdp(orders)[0]) for charge in resolve(subject(case)))


def rdp_equal(case: Case) -> None:
    assert rdp(case) == pytest.approx(case["expected"], rel=case["rtol"])


def rdp_at_most(case: Case) -> None:
    assert 0.9 * case["expected"] <= rdp(case) <= case["expected"] * (1.0 + case["rtol"])


def kov(case: Case) -> None:
    """Assert that ours is at most the peer's, which knows only multiples of epsilon, and above the multiple before."""
    if case["expected"] is None:
        assert account(subject(case), ["optimal"], case["total_delta"]).upper == math.inf
        return
    single = case["mechanisms"][0]["keys"]["epsilon"]
    found = account(subject(case), ["optimal"], case["total_delta"]).upper
    assert case["expected"] - 2.0 * single < found <= case["expected"] * (1.0 + 1e-9)


CHECKS: dict[str, Callable[[Case], None]] = {
    "epsilon-equal": epsilon_equal,
    "epsilon-at-least": epsilon_at_least,
    "epsilon-at-most": epsilon_at_most,
    "delta-equal": delta_equal,
    "delta-at-least": delta_at_least,
    "rdp-equal": rdp_equal,
    "rdp-at-most": rdp_at_most,
    "kov": kov,
}


@pytest.mark.parametrize("check", CHECKS)
def test_reference_values(check: str) -> None:
    faults = {}
    for case in CASES:
        if case["check"] == check:
            try:
                CHECKS[check](case)
            except Exception as error:
                faults[case["id"]] = repr(error)
    assert faults == {}


def test_cases_are_there() -> None:
    assert len(CASES) > 90 and len({case["id"] for case in CASES}) == len(CASES)
    assert {case["check"] for case in CASES} == set(CHECKS)
    assert all(case["source"] and case["why"] for case in CASES)
