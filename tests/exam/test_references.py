"""lower <= brute force <= upper, for every registered mechanism type x adjacency x sampling scheme."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.exam.enumeration.bracket import Bracket, row, situations
from dpcli.exam.enumeration.choice_releases import Scores, exponential, noisy_max, permute_and_flip, scores
from dpcli.exam.enumeration.drawing_records import SCHEMES, Release
from dpcli.exam.enumeration.references import REFERENCES
from dpcli.mechanisms.mechanism import Mechanism
from tests.cases import every


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
