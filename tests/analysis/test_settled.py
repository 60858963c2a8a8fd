"""The accountants that are run (analysis/inquiry.py): all, or only cheap ones if an interval settles the headline."""

from __future__ import annotations

import json
import math
from unittest import mock

import pytest

from dpcli.accountants.base import Accountant, Bound
from dpcli.accountants.plugin import SETTLING
from dpcli.analysis import inquiry
from dpcli.analysis.account import Account, account, attains_pairs, headline
from dpcli.analysis.inquiry import CHEAP_CELLS, SETTLED, cheap_accountants, settles, tightest
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.file.pipeline.model import Pipeline
from dpcli.mechanisms.choice.exponential import ExponentialChoice
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from tests.command import dpcli
from tests.strategies import entry, pipeline

SAMPLED = pipeline(entry("gaussian", steps=1000, rate=0.01, noise_multiplier=1.5), delta=1e-6)
PLAIN = pipeline(entry("gaussian", steps=10, noise_multiplier=9.0), delta=1e-6)
MANY = pipeline(*(entry("gaussian", f"m{k}", 5, 0.001 + 1e-4 * k, noise_multiplier=2.0 + 0.1 * k) for k in range(4)), delta=1e-6)
SETTLED_BY = {"exact": SAMPLED, "analytic": PLAIN}
OPEN = {
    "atoms": pipeline(entry("randomized-response", steps=30, epsilon=0.1), adjacency="zero-out", delta=1e-6),
    "no data attain its pair": pipeline(entry("exponential", steps=50, epsilon=0.1), delta=1e-6),
    "pure at delta 0": pipeline(entry("pure-dp", epsilon=0.5), delta=0.0),
}


def everybody(subject: Pipeline) -> Account:
    with mock.patch.object(inquiry, "SETTLING", ()):
        return account(subject)


def asked(result: Account) -> set[str]:
    return {row.accountant.name for row in result.rows if row.consulted}


def test_an_interval_is_narrow_or_it_settles_nothing() -> None:
    assert settles(Bound(1.0, 1.0 - 0.9 * SETTLED)) and settles(Bound(0.0, 0.0))
    assert not settles(None) and not settles(Bound(1.0)) and not settles(Bound(math.inf, 0.5))
    assert not settles(Bound(math.inf, math.inf))
    assert not settles(Bound(1.0, 1.0 - 1.1 * SETTLED)) and not settles(Bound(1e-300, 0.0))


@pytest.mark.parametrize("name", SETTLING)
def test_the_interval_is_the_headline_and_all_the_others_agree(name: str) -> None:
    result, whole = account(SETTLED_BY[name]), everybody(SETTLED_BY[name])
    assert result.winner is not None and result.winner.accountant.name == name and settles(result.winner.bound)
    assert whole.upper <= result.upper <= whole.upper * (1.0 + SETTLED)
    assert result.lower is not None and whole.lower is not None and result.lower <= whole.upper
    by_name = {row.accountant.name: row for row in whole.rows}
    for row in result.rows:  # as many as ever; those that were asked said what they always say
        assert (
            row.bound == by_name[row.accountant.name].bound if row.consulted else row.bound is None and "-a all" in str(row.reason)
        )
    assert [row.accountant.name for row in result.rows] == list(ACCOUNTANTS)


def test_what_costs_little_is_shown_and_what_costs_much_is_not() -> None:
    assert asked(account(SAMPLED)) == {*ACCOUNTANTS} - {"pld", "rdp-optimal"}
    assert "pld" not in asked(account(MANY)) and "optimal" not in asked(account(MANY))
    assert {"zcdp", "gdp", "basic", *SETTLING} <= asked(account(MANY))


def test_which_rows_there_are_depends_on_the_file_alone() -> None:
    """Neither on what is left of the work that a command may cost, nor on what is remembered."""
    first = account(MANY)
    again = account(MANY)
    split = account(pipeline(*MANY.mechanisms[::-1], delta=1e-6))
    assert asked(first) == asked(again) == asked(split)
    twice = account(pipeline(*(entry("gaussian", f"m{k}", 500, 0.01, noise_multiplier=1.5) for k in range(2)), delta=1e-6))
    assert asked(twice) == asked(account(SAMPLED))  # one mechanism, however often it is written


@pytest.mark.parametrize("parts", [1, 3, 10, 100, 1000, 5000])
def test_the_cheapest_come_first_within_a_share(parts: int) -> None:
    accountants = [load(target) for target in ACCOUNTANTS.values()]
    settling: Accountant = load(ACCOUNTANTS["exact"])
    chosen = list(cheap_accountants(settling, accountants, parts))
    costs = [each.cells(parts) for each in chosen]
    assert costs == sorted(costs) and sum(costs) <= max(CHEAP_CELLS, settling.cells(parts))
    dearest = max(costs, default=0.0)
    assert all(each in chosen or each.cells(parts) >= dearest for each in accountants)


def test_every_accountant_states_its_work() -> None:
    for target in ACCOUNTANTS.values():
        cells = load(target).cells
        assert 0.0 < cells(1) <= cells(2) <= cells(1000)


@pytest.mark.parametrize("name", OPEN)
def test_where_nothing_is_settled_everybody_is_asked(name: str) -> None:
    result, whole = account(OPEN[name]), everybody(OPEN[name])
    assert asked(result) == {*ACCOUNTANTS}
    assert [(row.bound, row.reason) for row in result.rows] == [(row.bound, row.reason) for row in whole.rows]
    assert result.upper == min(row.upper for row in result.rows if row.accountant.sound)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("subject", [SAMPLED, PLAIN, MANY, *OPEN.values()], ids=["sampled", "plain", "many", *OPEN])
def test_the_headline_alone_is_that_of_the_whole_table(subject: Pipeline) -> None:
    alone, whole = headline(subject), account(subject)
    assert (alone.upper, alone.shares, alone.exit_code) == (whole.upper, whole.shares, whole.exit_code)
    assert alone.lower == (whole.lower if attains_pairs(subject) else None)  # what is allowed at the least is for the table
    if attains_pairs(subject):
        assert alone.winner == whole.winner
    assert (alone.winner and alone.winner.accountant) == (whole.winner and whole.winner.accountant)
    steps = tuple((charge.mechanism, charge.count) for charge in whole.charges)
    found = tightest(steps, whole.delta or 0.0)
    assert (None if found is None else found.upper) == (None if whole.winner is None else whole.upper)


def test_a_headline_asks_nobody_in_vain() -> None:
    called: list[str] = []

    def row(accountant: Accountant, *args: object) -> object:
        called.append(accountant.name)
        return plain(accountant, *args)  # type: ignore[arg-type]

    plain = inquiry.row_of
    with mock.patch.object(inquiry, "row_of", row):
        headline(PLAIN)
        headline(SAMPLED)
    assert called == ["analytic", "analytic", "exact"]


@pytest.mark.parametrize("name", OPEN)
def test_nobody_is_asked_twice(name: str) -> None:
    """What an answer takes is taken from what others may: asked twice, one would leave them without."""
    called: list[tuple[str, object]] = []

    def row(accountant: Accountant, profile: object, *args: object) -> object:
        called.append((accountant.name, profile))
        return plain(accountant, profile, *args)  # type: ignore[arg-type]

    plain = inquiry.row_of
    with mock.patch.object(inquiry, "row_of", row):
        account(OPEN[name])
        assert len(called) == len(set(called)) >= len(ACCOUNTANTS)
        called.clear()
        steps = tuple((charge.mechanism, charge.count) for charge in headline(OPEN[name]).charges)
        called.clear()
        tightest(steps, OPEN[name].privacy.delta or 0.0)
    assert len(called) == len(set(called)) == len(ACCOUNTANTS)


def test_accountants_asked_by_name_are_asked() -> None:
    for names in (["pld"], ["rdp-optimal", "exact"]):
        assert asked(account(SAMPLED, names)) == {*names}
    assert asked(account(SAMPLED, tolerance=1e-4)) == {*ACCOUNTANTS}


def test_the_command_says_which_were_left_out_and_how_to_ask() -> None:
    shown = dpcli("account", "examples/mnist.toml").out
    assert "not run, since exact is certified to within 1e-9: rdp-optimal, pld (-a all runs them)" in " ".join(shown.split())
    told = {row["name"]: row for row in json.loads(dpcli("account", "examples/mnist.toml", "-f", "json").out)["accountants"]}
    assert {*told} == {*ACCOUNTANTS}
    for name in ("pld", "rdp-optimal"):
        assert told[name]["epsilon_upper"] is None
        assert told[name]["reason"] == "not run: exact is certified to within 1e-9 (run with -a all)"
    whole = dpcli("account", "examples/mnist.toml", "-a", "all", "-f", "json").out
    rows = {row["name"]: row for row in json.loads(whole)["accountants"]}
    assert {*rows} == {*ACCOUNTANTS} and "not run" not in whole
    assert rows["pld"]["epsilon_upper"] and rows["rdp-optimal"]["epsilon_upper"]


def test_the_smallest_row_has_the_largest_lower_end_of_all_accountants() -> None:
    """Two rare samples at a delta near that of the largest loss: the smallest upper bound is that of an accountant without lower bounds."""
    steps, delta = ((PoissonSampled(DiscreteLaplace(15.9, 1), 4.4e-7), 2),), 1.4e-17
    row = tightest(steps, delta)
    assert row is not None and row.bound is not None and row.accountant.name not in SETTLING
    assert row.bound.lower is not None and row.bound.upper * (1.0 - 1e-6) <= row.bound.lower <= row.bound.upper
    steps = ((ExponentialChoice(0.8), 4),)  # no data attain its pairs, whose bounds are not compared
    row = tightest(steps, 1e-11)
    assert row is not None and row.bound is not None and row.accountant.name == "rdp" and row.bound.lower is None
