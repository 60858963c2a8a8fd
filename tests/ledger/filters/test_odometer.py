"""Tests of the odometer: against an adversary who stops when the loss is high, and against an independent computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.rounding import up
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger import amounts
from dpcli.ledger.amounts import Amounts, float_above
from dpcli.ledger.balance import odometer
from dpcli.ledger.documents.ledger_balance import balance_document
from dpcli.ledger.filters.filter import Filter, filter_for_cap
from dpcli.ledger.filters.odometer import loss_at_any_moment, loss_at_one_order
from dpcli.ledger.plugin import FILTERS
from dpcli.ledger.state import MovedAway
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from tests.cases import fresh_random
from tests.ledger.adversary import STEP, Attempt, at_any_moment, exceeded, given_away, of_failure, of_gaussian, of_response, staged
from tests.ledger.filters.setting import DATASET
from tests.ledger.pipelines import gaussian, pure

DELTA = 1e-2
SLACK = 1.02  # of sums over the grid
RENYI = ("zcdp", "gdp", "rdp")
OF_RHO = {
    "zcdp": lambda rho: {"rho": rho},
    "gdp": lambda rho: {"mu_squared": 2 * rho},
}  # amounts whose Renyi divergence is order * rho


def of_rho(name: str, rho: float) -> Amounts:
    """What Gaussian noise of that rho costs."""
    return {key: Decimal(value) for key, value in OF_RHO[name](rho).items()}


def shown(name: str, epsilon: float = 3.0) -> tuple[Filter, Callable[[Amounts], float], Callable[[Amounts], float]]:
    """A filter with what its odometer says of costs, and what holds at a moment that was fixed beforehand."""
    rule = filter_for_cap(name, epsilon, DELTA, {})
    return rule, lambda spent: rule.odometer(spent, DELTA), lambda spent: rule.epsilon(spent, DELTA)


def attempts(rule: Filter) -> list[Attempt]:
    """Randomised response of two sizes, and Gaussian noise or, where deltas have a price, what may fail with half of the delta there is."""
    sizes = (0.2, 0.6) if rule.name in RENYI else (0.1, 0.3)
    responses = [of_response(round(e / STEP), amounts.read(rule.cost(pure(e), 0.0).amounts)) for e in sizes]
    if rule.name in RENYI:
        return [*responses, of_gaussian(0.5, amounts.read(rule.cost(gaussian(2.0), DELTA).amounts))]
    failure = (DELTA - rule.parameters().get("slack", 0.0)) / 2
    return [*responses, of_failure(failure, dict.fromkeys(rule.currency, Decimal(0)) | {"delta": Decimal(failure)})]


@pytest.mark.long
@pytest.mark.parametrize("name", FILTERS)
def test_the_best_adversary_does_not_exceed_the_odometer(name: str) -> None:
    """An adversary who chooses mechanisms and the end from outputs exceeds the odometer with probability delta at most."""
    rule, claim, _ = shown(name)
    tried, cap = attempts(rule), amounts.read(rule.caps(3.0, DELTA))
    assert 0.0 < at_any_moment(tried, cap, claim, given_away, 12.0) <= DELTA * SLACK
    if name not in RENYI:
        tried = tried[:-1]
    lost = at_any_moment(tried, cap, claim, exceeded, 12.0)
    assert lost <= DELTA * SLACK and (lost > 0.0 or name == "approx-dp")
    assert at_any_moment(tried, cap, lambda spent: 0.5 * claim(spent), exceeded, 12.0) > DELTA


def test_a_run_with_a_delta_may_lose_more_than_it_says() -> None:
    """Gaussian noise, mu = 0.5, at its (u, delta): the loss exceeds u with a probability above 2.8 times DELTA."""
    described, u = 0.0049, 1.0667370622762077
    run = of_gaussian(0.5, {"epsilon": Decimal(u), "delta": Decimal(described)})
    assert shown("approx-dp")[1](run.cost) == u
    assert 0.9 * described <= staged([[run]], [u], 12.0) <= described * SLACK
    assert staged([[run]], [u], 12.0, exceeded) > 2.8 * DELTA


@pytest.mark.long
def test_a_correction_counts_in_full(tmp_path: Path) -> None:
    """Whenever it is made, the odometer is the one of the corrected price."""
    with init(str(tmp_path / "l.db"), DATASET, LedgerTerms("user", "add-remove", 1.0, DELTA, filter="zcdp")) as ledger:
        ledger.spend(gaussian(90.0), "first", DELTA)
        ledger.spend(gaussian(9.0), "second", DELTA)
        ledger.correct("first", gaussian(9.0), "another file", DELTA)
        total = 2 * Decimal(ledger.cost(gaussian(9.0), DELTA)[0].amounts["rho"])
        assert odometer(ledger.state()).epsilon == loss_at_any_moment(float_above(total), DELTA)


@pytest.mark.parametrize(("name", "times"), [("gdp", 3.0), ("zcdp", 1.3)])
def test_the_bound_for_a_fixed_moment_is_exceeded(name: str, times: float) -> None:
    """Whoever adds noise until the loss is high exceeds the bound for fixed moments with a probability above delta."""
    _, claim, fixed = shown(name)
    spent = [of_rho(name, 0.02 * k) for k in range(1, 24)]
    stages = [[of_gaussian(0.2, {})]] * len(spent)
    naive, claimed = list(map(fixed, spent)), list(map(claim, spent))
    assert staged(stages, naive, 12.0) > times * DELTA and staged(stages, naive, 12.0, exceeded) > 10.0 * DELTA
    assert staged(stages, claimed, 12.0, exceeded) <= 0.1 * DELTA


def test_the_best_order_afterwards_is_exceeded() -> None:
    """The smallest bound over all orders, chosen afterwards, does not hold. A mixture of orders does, at a price."""
    rho = [0.001 * 1.25**k for k in range(40)]
    stages = [[of_gaussian(math.sqrt(2.0 * (b - a)), {})] for a, b in zip([0.0, *rho], rho, strict=False)]
    best = [value + 2.0 * math.sqrt(value * -math.log(DELTA)) for value in rho]
    assert (
        staged(stages, best, 30.0, exceeded)
        > DELTA
        >= staged(stages, [loss_at_any_moment(value, DELTA) for value in rho], 30.0, exceeded)
    )


def test_paths_that_choose_their_noise() -> None:
    """Much noise while the loss is low and little once it is high, until the loss exceeds the bound for fixed moments."""
    seed = fresh_random().getrandbits(64)
    random, paths = np.random.default_rng(seed), 20_000
    rule, claim, fixed = shown("gdp")
    units = np.zeros(paths, dtype=int)  # of mu^2 = 0.04
    loss, above, given = np.zeros(paths), np.zeros(paths, dtype=bool), np.zeros(paths)
    numbers = [[bound(of_rho("gdp", 0.02 * k)) for k in range(60)] for bound in (claim, fixed)]
    odometers, fixeds = map(np.array, numbers)
    for _ in range(23):
        more = np.where(loss > 0.7 * fixeds[units], 1, 2) * (given == 0.0)  # whoever has stopped runs nothing
        loss += 0.02 * more + 0.2 * np.sqrt(more) * random.standard_normal(paths)
        units += more
        above |= loss > odometers[units]
        given = np.where((given == 0.0) & (loss > fixeds[units] + 0.3), given_away(0.0, loss - fixeds[units]), given)
    assert rule.name == "gdp" and above.mean() <= DELTA < given.mean(), f"seed {seed}: {above.mean()}, {given.mean()}"


def mean(loss: mp.mpf, rho: mp.mpf) -> mp.mpf:
    """The mean over the orders, which are written out here: 1.25, 1.5, 2, 3, 5, ... 4097."""
    orders = [mp.mpf(2) ** k for k in range(-2, 13)]
    return mp.fsum(mp.exp(z * (loss - (1 + z) * rho)) for z in orders) / 15


def test_the_odometer_is_the_root_of_its_equation() -> None:
    """In 60 digits: at most 1e-11 above the root, never below it, and no larger than the bound of any single order."""
    seed = fresh_random().getrandbits(64)
    random = np.random.default_rng(seed)
    drawn = zip(10 ** random.uniform(-12, 3, 12), np.exp(-(10 ** random.uniform(-1, 2.8, 12))), strict=True)
    with mp.workdps(60):
        for rho, delta in [(1e-300, 1e-9), (1e9, 1e-300), *drawn]:
            result, depth = mp.mpf(loss_at_any_moment(float(rho), float(delta))), -mp.log(mp.mpf(float(delta)))
            exact, case = mp.mpf(float(rho)), f"seed {seed}: rho {rho}, delta {delta}: {result}"
            assert mean(result, exact) >= mp.exp(depth) > mean(result * (1 - mp.mpf(10) ** -11), exact), case
            single = [(1 + z) * exact + (depth + mp.log(15)) / z for z in (0.25, 0.5, 1, 2, 4, 8, 256, 4096)]
            assert exact + 2 * mp.sqrt(exact * depth) <= result <= min(single) * (1 + mp.mpf(10) ** -11), case
            assert loss_at_one_order(2.0, float(rho), float(delta)) >= exact + depth / 2, case


@pytest.mark.parametrize("name", [*OF_RHO, "advanced"])
def test_the_currencies_of_all_orders_agree(name: str) -> None:
    """Both mu^2 / 2 and epsilon^2 / 2 count as rho. The filter `advanced` uses its slack as delta."""
    rule, claim, _ = shown(name)
    spent = of_rho(name, 0.25) if name in OF_RHO else {"half_squares": Decimal("0.25"), "delta": Decimal(0)}
    assert claim(spent) == loss_at_any_moment(0.25, DELTA if name in OF_RHO else rule.parameters()["slack"])


@pytest.mark.parametrize("name", FILTERS)
def test_the_odometer_grows_with_each_cost(name: str) -> None:
    """It begins at 0, and is never below the bound for a fixed moment."""
    seed = fresh_random().getrandbits(64)
    random = np.random.default_rng(seed)
    rule, claim, fixed = shown(name)
    assert claim(dict.fromkeys(rule.currency, Decimal(0))) == 0.0
    for _ in range(20):
        less, more = (dict.fromkeys(rule.currency, Decimal(value)) for value in sorted(10 ** random.uniform(-15, 4, 2)))
        assert claim(less) <= claim(more) < math.inf, f"seed {seed}: {less}, {more}"
        assert fixed(more) <= claim(more) * (1.0 + 1e-12), f"seed {seed}: {more}"


def test_a_cost_beyond_doubles_has_no_bound() -> None:
    assert loss_at_any_moment(math.inf, DELTA) == loss_at_any_moment(1.7e308, DELTA) == math.inf


def test_the_odometer_does_not_depend_on_the_cap(tmp_path: Path) -> None:
    """So it also holds where a raised cap guarantees nothing."""
    with init(str(tmp_path / "l.db"), DATASET, LedgerTerms("user", "add-remove", 1.0, DELTA, filter="zcdp")) as ledger:
        ledger.spend(gaussian(9.0), "first", DELTA)
        before = odometer(ledger.state())
        ledger.amend(3.0, "more", "the board", acknowledged=True)
        assert ledger.state().guaranteed is None and odometer(ledger.state()) == before
        table = balance_document(ledger, with_odometer=True).tables[0]
        assert [row[1] for row in table.rows] == [up(before.epsilon), "none", up(before.if_fixed)]
        assert before.epsilon == loss_at_any_moment(float_above(ledger.state().spent["rho"]), DELTA) > before.if_fixed > 0.0


def test_declared_runs_and_moved_datasets_have_no_odometer(tmp_path: Path) -> None:
    """Declared runs were composed in advance, and a dataset that has moved is charged elsewhere."""
    runs = [{"pipeline": dict(tables_of(pure(0.1))), "runs": 2}]
    terms = LedgerTerms(
        "user", "add-remove", 1.0, 0.0, mode="declared", declared=runs, certified={"epsilon": 0.2, "accountant": "basic"}
    )
    with init(str(tmp_path / "d.db"), DATASET, terms) as ledger, pytest.raises(InputError, match=r"certified epsilon 0\.2"):
        odometer(ledger.state())
    with init(str(tmp_path / "m.db"), DATASET, LedgerTerms("user", "add-remove", 1.0, 0.0, filter="approx-dp")) as ledger:
        state = ledger.state().rehearsal()
        state.departure = MovedAway("other.db", state.head)
        with pytest.raises(LedgerError, match=r"has moved to other\.db"):
            odometer(state)
