"""Lower bounds from mechanisms that a file allows (analysis/witnesses.py): attained, and claimed by nobody else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpcli.analysis.account import account
from dpcli.base.errors import NotRepresentable
from dpcli.base.registry import MECHANISMS
from dpcli.exam.enumeration.choice_releases import exponential
from dpcli.exam.subjects import SEED, drawn
from dpcli.file.pipeline.read import parse
from dpcli.mechanisms.choice.exponential import BoundedRange, ExponentialChoice, TwoCandidates
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.stated.renyi import Renyi, StatedZcdp
from tests.cases import tiered
from tests.oracles import Array, hockey_stick

ORDERS: Array = np.array([1.01, 1.5, 2.0, 4.0, 20.0, 300.0])


def file(*entries: dict[str, Any], **privacy: Any) -> Any:
    """A pipeline of these entries; a value that begins with { is a table."""

    def said(table: dict[str, Any]) -> str:
        values = {True: "true", False: "false"}
        return "".join(
            f"{key} = {values[v] if isinstance(v, bool) else v if not isinstance(v, str) or v[:1] == '{' else repr(v)}\n"
            for key, v in table.items()
        )

    stated = {"adjacency": "add-remove", "delta": 1e-6, **privacy}
    text = "format = 1\n[privacy]\n" + said(stated)
    for number, keys in enumerate(entries):
        text += "[[mechanism]]\n" + said({"name": f"e{number}", **keys})
    return parse(text.encode(), "it.toml")


def fixed(epsilon: float, count: int, t: float, at: float) -> float:
    """delta at epsilon `at` of so many choices between two candidates with losses t and t - epsilon, added up."""
    p = -math.expm1(t - epsilon) / -math.expm1(-epsilon)
    highs = np.arange(count + 1)
    losses = highs * t + (count - highs) * (t - epsilon)
    return float((binom.pmf(highs, count, p) * np.maximum(-np.expm1(at - losses), 0.0)).sum())


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize(("epsilon", "count", "delta"), [(1.0, 100, 1e-6), (0.1, 30, 1e-5), (3.0, 2, 1e-3), (0.5, 1, 0.01)])
@pytest.mark.parametrize("kind", ["exponential", "report-noisy-max"])
def test_choices_have_a_lower_end_that_some_scores_attain(kind: str, epsilon: float, count: int, delta: float) -> None:
    keys = {"type": kind, "epsilon": epsilon, "steps": count, **({"noise": "gumbel"} if kind != "exponential" else {})}
    found = account(file(keys, delta=delta))
    assert found.lower is not None
    assert found.lower <= found.upper <= found.lower * 1.1
    most = max(fixed(epsilon, count, share * epsilon, found.lower) for share in np.linspace(0.01, 0.99, 9801))
    assert most >= delta * (1.0 - 1e-9)
    assert max(fixed(epsilon, count, share * epsilon, found.upper) for share in np.linspace(0.01, 0.99, 99)) <= delta


@pytest.mark.parametrize("t", [0.1, 0.63, 0.9])
def test_two_candidates_are_an_exponential_mechanism(t: float) -> None:
    """Its law on two scores, before and after one rises and the other falls."""
    p = -math.expm1(t - 1.0) / -math.expm1(-1.0)
    lead = math.log(p / (1.0 - p))  # half of epsilon for each unit of the lead
    one, two = (exponential(1.0, lambda _, gap=gap: np.array([gap, 0.0]))(()) for gap in (2.0 * lead, 2.0 * lead - 2.0))
    assert np.log(one / two) == pytest.approx([t, t - 1.0])
    loss = TwoCandidates(1.0, t).losses()[0]
    for at in (-0.5, 0.0, 0.4):
        tails = loss.tails(np.array([at]))
        assert math.exp(tails.p_above[0]) - math.exp(at + tails.q_above[0]) == pytest.approx(hockey_stick(one, two, at))


@pytest.mark.parametrize("rho", [1e-4, 0.01, 2.0])
def test_what_is_stated_has_the_lower_end_of_a_gaussian(rho: float) -> None:
    gaussian = account(file({"type": "gaussian", "sigma": 1.0 / math.sqrt(2.0 * rho), "sensitivity": 1.0, "steps": 3}))
    zcdp = account(file({"type": "zcdp", "rho": rho, "steps": 3}))
    rdp = account(file({"type": "rdp", "orders": "{}", "steps": 3} | {"orders": [2.0, 8.0], "values": [2.5 * rho, 8.0 * rho]}))
    for found in (zcdp, rdp):
        assert found.lower == pytest.approx(gaussian.upper, rel=1e-9)
        assert gaussian.upper <= found.upper
    beside = {"type": "laplace", "noise_multiplier": 5.0}
    assert (account(file({"type": "zcdp", "rho": rho}, beside)).lower or 0.0) > account(file(beside)).upper * 0.9


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_witness_is_attained_and_below_the_bound(kind: str) -> None:
    """Of every type: its Renyi divergences are at most those that are charged."""
    for subject in drawn(kind, f"{SEED}/least"):
        for mechanism, _ in subject.steps:
            for order in (1.1, 3.0, 50.0):
                witness = mechanism.witness(order)
                if witness is not None and witness is not mechanism:
                    assert witness.attained(), subject.source
                    try:
                        charged = mechanism.rdp(ORDERS)
                    except NotRepresentable:  # infinite, with a failure: tests/mechanisms/test_witnesses.py has its curve
                        continue
                    assert (witness.rdp(ORDERS) <= charged * (1.0 + 1e-9)).all(), subject.source


def test_a_bound_in_place_of_a_mechanism_has_no_witness() -> None:
    for mechanism in (ExponentialChoice(1.0), StatedZcdp(0.1), Gaussian(1.0)):
        assert mechanism.witness(2.0) is not None
        assert mechanism.unclaimed().witness(2.0) is None
    claimless: list[Mechanism] = [BoundedRange(1.0), ExponentialChoice(1e-13), ExponentialChoice(700.0), Renyi((2.0,), (0.0,))]
    assert all(mechanism.witness(2.0) is None for mechanism in claimless)


EXPONENTIAL = {"type": "exponential", "epsilon": 0.5, "steps": 4}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("entry", "privacy"),
    tiered(
        [
            ({"type": "sparse-vector", "epsilon": 0.5}, {}),
            ({"type": "private-decoding", "clip": 2.0, "references": 3, "temperature": 0.8}, {}),
            ({"type": "discrete-gaussian", "sigma": 3.0, "l2_sensitivity": 1.41}, {}),
            ({"type": "stability-histogram", "sigma": 1.5, "threshold": 9, "max_groups": 2, "max_rows": 1}, {}),
            ({**EXPONENTIAL, "sampling": '{ scheme = "shuffle", rate = 0.5 }'}, {}),
            ({**EXPONENTIAL, "sampling": '{ scheme = "poisson", rate = 0.5 }'}, {}),
            ({**EXPONENTIAL, "sampling": '{ scheme = "poisson", rate = 1.0, max_batch_size = 9 }'}, {"dataset_size": 20}),
            (EXPONENTIAL, {"adaptive": True}),
            ({"type": "zcdp", "rho": 0.1, "adjacency": "add-remove"}, {"adjacency": "replace-one"}),
        ],
        5,
        6,
    ),
    ids=str,
)
def test_nobody_else_claims_a_lower_end(entry: dict[str, Any], privacy: dict[str, Any]) -> None:
    """Alone, or beside an entry that has one."""
    for others in ((), (EXPONENTIAL,)):
        assert account(file(entry, *others, **privacy)).lower is None
