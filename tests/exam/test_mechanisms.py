"""Tests of every registered mechanism type, adjacency and sampling scheme: bounds around an enumeration, laws, and planted bugs.

A new type is tested once it is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product

import pytest

from dpcli.base.errors import InputError
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.exam.enumeration.bracket import Bracket, row, situations
from dpcli.exam.enumeration.choice_releases import Scores, exponential, noisy_max, permute_and_flip, scores
from dpcli.exam.enumeration.drawing_records import SCHEMES, Release
from dpcli.exam.enumeration.references import REFERENCES
from dpcli.exam.examine import lawless
from dpcli.exam.mechanism_laws import LAWS
from dpcli.exam.mechanism_plants import PLANTS, promises_more, undetected_in_mechanism
from dpcli.exam.subjects import SEED, drawn
from dpcli.mechanisms.mechanism import Mechanism
from tests.cases import every, in_turn, tiered


def test_every_type_and_every_scheme_has_a_reference() -> None:
    """A new one is examined here or cannot be registered."""
    assert {reference.type for reference in REFERENCES} == set(MECHANISMS)
    assert set(SCHEMES) == set(SAMPLING)


@pytest.mark.sampled(5, 6)
@pytest.mark.parametrize(
    ("name", "part"), [*every(17, MECHANISMS), *every(3, MECHANISMS, pytest.mark.long), *every(1, MECHANISMS, pytest.mark.nightly)]
)
def test_lower_bounds_and_upper_bounds_hold(name: str, part: slice) -> None:
    found = [row(*situated) for situated in list(situations(name))[part]]
    assert {row.label: row.faults() for row in found if row.faults()} == {}
    assert part.step > 3 or any(row.brackets for row in found)


@pytest.mark.parametrize(("noise", "closed_form"), [("gumbel", exponential), ("exponential", permute_and_flip)])
def test_a_noisy_maximum_has_the_law_of_its_closed_form(noise: str, closed_form: Callable[[float, Scores], Release]) -> None:
    """Gumbel noise gives the exponential mechanism, and exponential noise permute-and-flip (Ding et al. 2021, arXiv:2105.07260)."""
    for score in scores("add-remove"):
        for records in ((), ("x",), ("x", "y", "z")):
            expected = closed_form(1.3, score)(records)
            assert noisy_max(1.3, noise, score)(records) == pytest.approx(expected, rel=1e-12), (noise, score(records))


def test_no_class_claims_by_default() -> None:
    assert not Mechanism().attained()


@pytest.mark.parametrize("bracket", [Bracket(0.1, 0.3, 0.2, 0.4), Bracket(0.1, None, 0.2, 0.19), Bracket(0.1, 0.2, 0.1, 0.2)])
def test_a_false_bound_is_seen(bracket: Bracket) -> None:
    assert not bracket.holds(5e-3)


PARTS = [*every(6, MECHANISMS, begin=3), *every(1, MECHANISMS, pytest.mark.long)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.sampled(8, 6)
@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_a_law_holds(kind: str, part: slice) -> None:
    """One of the laws for each pipeline, in turn."""
    asked = [(subject, LAWS[k % len(LAWS)]) for k, subject in enumerate(drawn(kind, str(SEED)), list(MECHANISMS).index(kind))]
    for subject, law in asked[part]:
        with suppress(InputError):
            assert list(law(subject.pipeline)) == [], (law.__name__, subject.source)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.nightly
@pytest.mark.parametrize("kind", MECHANISMS)
def test_all_laws_hold(kind: str) -> None:
    for subject in drawn(kind, str(SEED)):
        assert list(lawless(subject.pipeline)) == [], subject.source


EACH_ONCE = in_turn(MECHANISMS, PLANTS)
OTHERS = [pair for pair in product(MECHANISMS, PLANTS) if pair not in EACH_ONCE]
SLOW = {"exponential", "sparse-vector", "zcdp", "rdp", "gaussian", "gaussian-mixture", "composed"}
DEAR = [pair for pair in EACH_ONCE if pair[0] in SLOW]
CHEAP = [pair for pair in EACH_ONCE if pair not in DEAR]


@pytest.mark.parametrize(("kind", "plant"), [*tiered(CHEAP, 4, 3), *tiered(DEAR, 0, 1), *tiered(OTHERS, 0)])
def test_a_bug_in_any_mechanism_is_seen(kind: str, plant: str) -> None:
    assert not undetected_in_mechanism(kind, plant), f"{plant} in {kind} is not seen"


def test_only_a_smaller_upper_bound_promises_more() -> None:
    assert promises_more(Bracket(0.1, None, 0.1, 0.2), Bracket(0.1, None, 0.1, 0.3))
    assert not promises_more(Bracket(0.1, 0.2, 0.1, 0.3), Bracket(0.1, 0.1, 0.1, 0.3))
