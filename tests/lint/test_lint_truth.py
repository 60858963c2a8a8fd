"""Tests of rules against accountants and mechanism types, so that a list in a rule does not drift from the code."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.model import Budget, Entry, Pipeline, Privacy
from dpcli.file.pipeline.resolve import resolve
from dpcli.lint.guarantees import APPROXIMATION_WORDS
from dpcli.lint.run import findings
from dpcli.lint.sections import normalized
from dpcli.mechanisms.neighbours import Adjacency
from tests.cases import of_each
from tests.strategies import entry, pipeline

TYPES = {
    kind: {key: tuple(value) if isinstance(value, list) else value for key, value in spec.example.items()}
    for kind, spec in ((kind, load(target)) for kind, target in MECHANISMS.items())
    if not {"mechanism", "mechanisms"} & spec.example.keys()  # what they need, their parts need
}


ZERO_OUT = Adjacency.ZERO_OUT.value  # under which every type has a price


def epsilon_at(entries: tuple[Entry, ...], delta: float) -> float:
    """The least upper bound; inf where there is none."""
    try:
        return account(pipeline(*entries, adjacency=ZERO_OUT, delta=delta)).upper
    except CannotCertify:
        return math.inf


def codes_of(entries: tuple[Entry, ...], delta: float) -> set[str]:
    return {
        info.code
        for info, _ in findings(pipeline(*entries, adjacency=ZERO_OUT, delta=delta, unit="example", releases="final-model"))
    }


@of_each("kind", TYPES)
def test_dp109_knows_which_types_need_a_delta(kind: str) -> None:
    one = (entry(kind, **TYPES[kind]),)
    assert ("DP109" in codes_of(one, 0.0)) == math.isinf(epsilon_at(one, 0.0)) == one[0].spec.needs_delta


@of_each("kind", TYPES)
def test_dp103_knows_which_types_show_who_takes_part(kind: str) -> None:
    one = pipeline(entry(kind, **TYPES[kind]), adjacency=Adjacency.ADD_REMOVE.value, delta=1e-6)
    try:
        resolve(one)
        refused = False
    except InputError:
        refused = True
    assert ("DP103" in {info.code for info, _ in findings(one)}) == refused == one.mechanisms[0].spec.shows_presence


@of_each("kind", TYPES)
def test_a_delta_spent_is_what_accountants_take_for_one(kind: str) -> None:
    one = entry(kind, **TYPES[kind])
    mechanism = resolve(pipeline(one, adjacency=ZERO_OUT, delta=1e-6))[0].mechanism
    stated = one.spec.stated_pair
    assert one.spec.delta_spent == mechanism.delta_floor()
    assert stated is None or mechanism.approx_dp(stated[1]) <= stated[0] * (1.0 + 1e-9)


@pytest.mark.long
@of_each("kind", [kind for kind in MECHANISMS if "dimension" in members_of(load(MECHANISMS[kind]))])
@of_each("sensitivity", [1, 2, 5])
def test_dp121_speaks_where_saying_one_number_lowers_the_price(kind: str, sensitivity: int) -> None:
    silent = entry(kind, **{**TYPES[kind], "sensitivity": sensitivity})
    said = entry(kind, **{**TYPES[kind], "sensitivity": sensitivity, "dimension": 1})
    assert said.spec.taken_for_vector is None and "DP121" not in codes_of((said,), 1e-6)
    assert (silent.spec.taken_for_vector == sensitivity) == ("DP121" in codes_of((silent,), 1e-6))
    assert (silent.spec.taken_for_vector is not None) == (epsilon_at((silent,), 1e-6) > epsilon_at((said,), 1e-6))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-9, 1e-6), st.integers(1, 50)), min_size=1, max_size=4), st.floats(0.2, 3.0))
def test_dp109_on_stated_deltas_means_that_no_epsilon_is_finite(stated: list[tuple[float, int]], share: float) -> None:
    entries = tuple(entry("approx-dp", steps=steps, epsilon=0.1, delta=delta) for delta, steps in stated)
    target = share * sum(delta * steps for delta, steps in stated)
    assert math.isinf(epsilon_at(entries, target)) or "DP109" not in codes_of(entries, target)
    assert share > 0.999 or "DP109" in codes_of(entries, target)


def test_dp107_names_the_accountants_that_are_no_bounds() -> None:
    unsound = {normalized(name) for name, target in ACCOUNTANTS.items() if not load(target).sound}
    assert unsound and unsound <= set(APPROXIMATION_WORDS)


def test_a_large_stated_budget_is_dp304() -> None:
    privacy = Privacy(Adjacency.ADD_REMOVE, unit="example", delta=0.0, releases="final-model")
    found = findings(Pipeline(privacy, (entry("pure-dp", epsilon=1.0),), budget=Budget(10.5)))
    assert [info.code for info, _ in found] == ["DP304"]


@of_each("contributions", [1, 2, 10])
@of_each(
    "kind", [name for name, keys in TYPES.items() if name not in ("post-processing", "randomized-response", "shuffled-reports")]
)
def test_what_a_partition_is_said_to_cost_is_what_is_charged(kind: str, contributions: int) -> None:
    """The count in DP119's words against the count on the bill, for every type."""
    single = entry(kind, **TYPES[kind])
    if contributions > 1 and hasattr(single.spec, "stated_for"):
        single = replace(single, spec=replace(single.spec, stated_for="unit"))
    (found,) = resolve(whole := pipeline_in_parts(single, contributions))
    (message,) = [f.message for info, f in findings(whole) if info.code == "DP119"]
    times = int(words[1]) if (words := re.match(r"counted (\d+) times, since", message)) else 1
    assert found.count == times
    assert (times > 1) == (contributions > 1 and not single.spec.contribution_form)


def pipeline_in_parts(single: Entry, contributions: int) -> Pipeline:
    """One entry on all parts of a partition."""
    privacy = Privacy(Adjacency.ADD_REMOVE, unit="user", max_contributions=contributions, dataset_size=10**6, delta=1e-9)
    return Pipeline(privacy, (replace(single, partition="region"),))
