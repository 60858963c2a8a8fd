"""lower <= brute force <= upper, for every registered mechanism type x adjacency x sampling scheme."""

from __future__ import annotations

import pytest

from dpcli.mechanisms.mechanism import Mechanism
from dpcli.registry import MECHANISMS, SAMPLING
from tests.brute.bracket import Bracket, rows
from tests.brute.references import REFERENCES
from tests.brute.schemes import SCHEMES


def test_every_type_and_every_scheme_has_a_reference() -> None:
    """A new one is examined here or cannot be registered."""
    assert {reference.type for reference in REFERENCES} == set(MECHANISMS)
    assert set(SCHEMES) == set(SAMPLING)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MECHANISMS)
def test_lower_bounds_and_upper_bounds_hold(name: str) -> None:
    found = list(rows(name))
    assert {row.label: row.faults() for row in found if row.faults()} == {}
    assert any(row.brackets for row in found)


def test_no_class_claims_by_default() -> None:
    assert not Mechanism().attained()


@pytest.mark.parametrize("bracket", [Bracket(0.1, 0.3, 0.2, 0.4), Bracket(0.1, None, 0.2, 0.19), Bracket(0.1, 0.2, 0.1, 0.2)])
def test_a_false_bound_is_seen(bracket: Bracket) -> None:
    assert not bracket.holds(5e-3)
