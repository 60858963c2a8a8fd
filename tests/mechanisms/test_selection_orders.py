"""Private selection: the score may order a run's outcomes in any way.

For runs with few outcomes every order is tried, in exact fractions, and none costs more than is claimed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import accumulate, pairwise, permutations, product
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr, ndtri

from dpcli.accountants.pld import PldProfile
from dpcli.base.values import dataclass
from dpcli.exam.views import contradictions, inverse_moment_covers_tails
from dpcli.mechanisms.choice import costly_selection
from dpcli.mechanisms.choice.costly_selection import CostlySelection
from dpcli.mechanisms.choice.repeat_and_select import RepeatAndSelect
from dpcli.mechanisms.choice.trial_numbers import BinomialTrials, NegativeBinomial, PoissonTrials
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.noise.gaussian import Gaussian, GaussianLoss
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.tails import log_deltas
from tests.cases import fresh_random
from tests.mechanisms.trials import Counts, delta, worst_order

Generating = Callable[[Fraction], Fraction]
RATIONAL: list[tuple[Counts, Generating]] = [
    (NegativeBinomial(1.0, 0.25), lambda x: Fraction(1, 4) * x / (1 - Fraction(3, 4) * x)),
    (NegativeBinomial(2.0, 0.5), lambda x: ((1 - x / 2) ** -2 - 1) / 3),
    (BinomialTrials(4, 2.0), lambda x: ((1 + x) / 2) ** 4),
    (BinomialTrials(8, 6.0), lambda x: ((1 + 3 * x) / 4) ** 8),
]
RATIOS = (Fraction(1), Fraction(3, 2), Fraction(3), Fraction(9), Fraction(40))  # values of e^epsilon


@dataclass(frozen=True, slots=True)
class Run(Mechanism):
    """A run with a finite number of outcomes, whose probabilities are shares of the sums."""

    p: tuple[int, ...]
    q: tuple[int, ...]

    def losses(self) -> tuple[AtomicLoss, AtomicLoss]:
        p, q = np.log(np.array(self.p) / sum(self.p)), np.log(np.array(self.q) / sum(self.q))
        return AtomicLoss(tuple(q), tuple(p - q)), AtomicLoss(tuple(p), tuple(q - p))

    def approx_dp(self, delta: float) -> float:
        assert delta == 0.0
        return max(float(np.abs(loss.log_ratio).max()) for loss in self.losses()) * (1.0 + 1e-14)


def chances(weights: tuple[int, ...], order: tuple[int, ...], f: Generating) -> Iterator[Fraction]:
    """Yield the chance of no outcome, and of each outcome from the worst to the best."""
    below = [Fraction(x, sum(weights)) for x in accumulate((weights[i] for i in order), initial=0)]
    yield f(Fraction(0))
    yield from (f(after) - f(before) for before, after in pairwise(below))


def drawn(random: Random, outcomes: int) -> Run:
    """Draw a run with `outcomes` outcomes, some of them rare under one of the laws."""
    weights = [
        (1, 60),
        (60, 1),
        *((random.choice((1, random.randint(1, 60))), random.choice((1, random.randint(1, 60)))) for _ in range(outcomes - 2)),
    ]
    return Run(tuple(p for p, _ in weights), tuple(q for _, q in weights))


@pytest.mark.long
def test_no_order_of_few_outcomes_costs_more() -> None:
    """delta at five epsilons, epsilon at delta = 0, and two Renyi divergences. Prints how much of the bounds is attained."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    shares: dict[str, list[float]] = {}
    for trials, f in RATIONAL:
        for outcomes in (3, 3, 4, 5):
            run = drawn(random, outcomes)
            mechanism = RepeatAndSelect(run, trials)
            heights = np.exp(mechanism.losses()[0].log_heights(np.log([float(y) for y in RATIOS])))  # type: ignore[attr-defined]
            orders = np.array([2.0, 5.0])
            rdp, pure = mechanism.rdp(orders), mechanism.pure()
            laws = [[tuple(chances(w, order, f)) for w in (run.p, run.q)] for order in permutations(range(outcomes))]
            laws += [[other, one] for one, other in laws]
            for y, height in zip(RATIOS, heights.tolist(), strict=True):
                worst = max(sum(max(a - y * b, Fraction(0)) for a, b in zip(one, other, strict=True)) for one, other in laws)
                assert worst <= Fraction(height), (seed, trials, run, y)
                if worst:
                    shares.setdefault(f"delta at e^epsilon = {y}", []).append(float(worst) / height)
            ratio = max(a / b for one, other in laws for a, b in zip(one, other, strict=True) if b)
            assert mp.log(mp.mpf(ratio.numerator) / ratio.denominator) <= pure, (seed, trials, run)
            shares.setdefault("pure epsilon", []).append(math.log(ratio) / pure)
            for order, bound in zip((2, 5), rdp.tolist(), strict=True):
                moment = max(sum(a**order / b ** (order - 1) for a, b in zip(one, other, strict=True) if b) for one, other in laws)
                assert math.log(moment) / (order - 1) <= bound * (1.0 + 1e-12), (seed, trials, run, order)
                shares.setdefault(f"Renyi divergence of order {order}", []).append(math.log(moment) / (order - 1) / bound)
    shown = "\n".join(f"{name}: {min(found):.3f} to {max(found):.3f} of the bound is attained" for name, found in shares.items())
    sys.stdout.write(f"\n{shown}\n")
    assert max(shares["pure epsilon"]) > 0.7, (seed, shown)


@pytest.mark.long
def test_the_order_by_the_likelihood_ratio_is_not_the_worst_one() -> None:
    """One Gaussian run of noise 1, geometric with mean 10, delta 1e-5. By its outcome, 4.886 is attained. The bound is 6.425.

    An order that is not monotone in the outcome attains 6.424.
    """
    trials = NegativeBinomial(1.0, 0.1)
    found = RepeatAndSelect(Gaussian(1.0), trials).approx_dp(1e-5)
    best, other = (trials.mean * m * np.exp(-trials.depth(1.0 - np.cumsum(m) + 0.5 * m)) for m in worst_order(trials, 1.0, found))
    assert delta(best, other, 6.424) > 1e-5 and found < 6.4249
    edges = np.concatenate(([-np.inf], np.linspace(-9.0, 10.0, 8001), [np.inf]))
    p, q = np.diff(ndtr(edges - 1.0)), np.diff(ndtr(edges))
    monotone = max(
        delta(*(trials.mean * m * np.exp(-trials.depth(1.0 - np.cumsum(m) + 0.5 * m)) for m in pair), 4.887)
        for pair in ((p, q), (p[::-1], q[::-1]))
    )
    assert monotone < 1e-5


@pytest.mark.long
def test_binomial_is_between_a_single_run_and_all_of_them() -> None:
    """Cost rises with the mean and with the noise of a run, is at most that of all runs, and tends to that of a Poisson number."""
    inner = Gaussian(0.5)
    by_mean = [RepeatAndSelect(inner, BinomialTrials(20, mean)).approx_dp(1e-6) for mean in (1.0, 5.0, 10.0, 15.0)]
    assert by_mean == sorted(by_mean), by_mean
    by_mu = [RepeatAndSelect(Gaussian(mu), BinomialTrials(20, 10.0)).approx_dp(1e-6) for mu in (0.1, 0.3, 0.5, 1.0)]
    assert by_mu == sorted(by_mu), by_mu
    orders = np.array([1.5, 2.0, 8.0, 30.0])
    for of in (Gaussian(0.5), Pure(0.4)):
        few, all_of_them = RepeatAndSelect(of, BinomialTrials(3, 2.9)), 3.0 * of.rdp(orders)
        assert (few.rdp(orders) <= all_of_them * (1.0 + 1e-12)).all()
        many, poisson = RepeatAndSelect(of, BinomialTrials(10**9, 10.0)), RepeatAndSelect(of, PoissonTrials(10.0))
        assert many.rdp(orders) == pytest.approx(poisson.rdp(orders), rel=1e-6)
        assert many.approx_dp(1e-6) == pytest.approx(poisson.approx_dp(1e-6), rel=1e-6)
    assert RepeatAndSelect(Pure(0.4), BinomialTrials(3, 2.9)).pure() < 1.2


@dataclass
class Mirrored:
    """A loss that claims wrongly that the loss of the other direction has the same law."""

    loss: PrivacyLoss
    mirrored: bool = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loss, name)


@pytest.mark.nightly
def test_a_concrete_score_costs_nearly_the_bound() -> None:
    """The delta of the score's law is at most the stated one at the bound, and larger at 0.97 of the bound."""
    for inner in (Gaussian(0.25), Gaussian(1.0), Laplace(0.5), Pure(0.5)):
        for trials in (NegativeBinomial(1.0, 0.1), NegativeBinomial(0.0, 0.05), PoissonTrials(10.0), BinomialTrials(20, 10.0)):
            mechanism = RepeatAndSelect(inner, trials)
            for at_delta in (1e-5, 1e-10):
                upper = mechanism.approx_dp(at_delta)
                losses = CostlySelection(inner.losses()[0], trials, 0.99 * upper, is_addition=False).losses()
                near, at = np.array([log_deltas(loss, np.array([0.97 * upper, upper])) for loss in losses]).max(axis=0)
                assert at <= math.log(at_delta) + 1e-6 < near, (inner, trials, at_delta, near, at)
    witness = RepeatAndSelect(Gaussian(1.0), NegativeBinomial(1.0, 0.1)).witness(6.0)
    assert witness is not None and witness.attained()
    assert max(log_deltas(loss, np.array([6.0]))[0] for loss in witness.losses()) > math.log(1e-5)
    assert RepeatAndSelect(Composed(((Gaussian(1.0), 3),)), PoissonTrials(2.0)).witness(3.0) is None
    assert RepeatAndSelect(Zcdp(0.1), PoissonTrials(2.0)).witness(3.0) is None


def test_no_view_of_a_costly_score_contradicts_another() -> None:
    """Its two directions have different laws, and neither may claim to be the mirror of the other."""
    for trials in (NegativeBinomial(1.0, 0.1), PoissonTrials(5.0)):
        for is_addition in (False, True):
            score = CostlySelection(GaussianLoss(0.7), trials, 3.0, is_addition)
            assert list(contradictions(score)) == []
            planted = [Mirrored(loss) for loss in score.losses()]
            with np.errstate(divide="ignore"):  # of cells without mass
                assert list(inverse_moment_covers_tails(SimpleNamespace(losses=lambda planted=planted: planted)))  # type: ignore[arg-type]


@pytest.mark.long
def test_the_pair_of_a_costly_score_is_that_of_its_order() -> None:
    """The masses of three cells, in many digits, from the generating function; and all masses add up to 1."""
    for trials in (NegativeBinomial(1.0, 0.1), PoissonTrials(5.0), BinomialTrials(12, 6.0)):
        run = GaussianLoss(0.7)
        score = CostlySelection(run, trials, 3.0, is_addition=False)
        pair, mirrored = (costly_selection._pair(loss) for loss in score.losses())
        for one in (pair.log_p, pair.log_q, mirrored.log_p, mirrored.log_q):
            assert math.fsum(np.exp(one).tolist()) == pytest.approx(1.0, abs=1e-9)
        log_p, log_q = costly_selection._cells(run)
        p, q = np.exp(log_p), np.exp(log_q)
        order = costly_selection._order(p, q, log_p - log_q, trials, 3.0)
        assert (np.diff(order) < 0).any()  # it is not monotone
        with mp.workdps(150):
            for place in (0, len(order) // 3, len(order) - 40):
                ratio, log_mass = mp.mpf(0), mp.mpf(0)
                for masses, sign in ((p, 1), (q, -1)):
                    begin = mp.fsum(map(mp.mpf, masses[order[:place]]))
                    end = begin + mp.mpf(masses[order[place]])
                    log_mass = mp.log(best(trials, 1 - begin) - best(trials, 1 - end))
                    ratio += sign * log_mass
                nearest = int(np.abs(pair.losses - float(ratio)).argmin())
                assert pair.losses[nearest] == pytest.approx(float(ratio), abs=1e-9), (trials, place)
                assert np.abs(pair.log_q - float(log_mass)).min() < 1e-8, (trials, place)


def best(trials: Counts, x: object) -> object:
    """Return f(x) in the working precision."""
    if isinstance(trials, PoissonTrials):
        return mp.exp(trials.mean * (x - 1))
    if isinstance(trials, BinomialTrials):
        return (1 + mp.mpf(trials.mean) / trials.most * (x - 1)) ** trials.most
    return mp.mpf(trials.gamma) * x / (1 - (1 - mp.mpf(trials.gamma)) * x)


@pytest.mark.long
def test_the_bound_is_at_most_the_one_term_bound() -> None:
    """E[K] delta(eps - s) with the largest s = log f'(q) - log f'(q') of a Gaussian run (after Koskela, Redberg, Wang 2024)."""
    w = np.concatenate(([0.0], np.geomspace(1e-12, 1.0, 4000)))
    for mu in (0.25, 1.0):
        z = ndtr(ndtri(w) + mu)
        for trials in (NegativeBinomial(1.0, 0.1), NegativeBinomial(0.0, 0.05), PoissonTrials(10.0), BinomialTrials(20, 10.0)):
            shift = float((trials.depth(z) - trials.depth(w)).max())
            for at_delta in (1e-2, 1e-5, 1e-10):
                one_term = shift + Gaussian(mu).approx_dp(at_delta / trials.mean)
                found = RepeatAndSelect(Gaussian(mu), trials).approx_dp(at_delta)
                assert found < one_term, (mu, trials, at_delta, found, one_term)


@pytest.mark.long
def test_cost_rises_with_the_trials_and_falls_with_the_noise() -> None:
    """Epsilons are those at delta 1e-6, for the Poisson, the geometric and the logarithmic distribution."""
    for law in (PoissonTrials, lambda mean: NegativeBinomial(1.0, 1.0 / mean), lambda mean: NegativeBinomial(0.0, 1.0 / mean)):
        by_mean = [RepeatAndSelect(Gaussian(0.5), law(mean)).approx_dp(1e-6) for mean in (1.5, 3.0, 10.0, 100.0)]
        by_mu = [RepeatAndSelect(Gaussian(mu), law(10.0)).approx_dp(1e-6) for mu in (0.1, 0.3, 0.5, 1.0)]
        assert by_mean == sorted(by_mean) and by_mu == sorted(by_mu), (by_mean, by_mu)


def test_training_that_stops_early_costs_at_most_its_plan_and_not_only_what_ran() -> None:
    """Three responses about a record, and after each a noisy check of a private bit, in exact fractions; it stops at the first yes.

    The plan is three responses and one sparse vector. A sparse vector of one answer is a response to each check that ends with a yes, with
    one noisy threshold for all checks, which is here 0 or 1. What ran until the stop is one response and one check.
    """
    step, (often, seldom) = Fraction(3, 4), (Fraction(2, 3), Fraction(1, 3))  # e^epsilon is 3 for a response

    def law(bit: int) -> dict[tuple[int, ...], Fraction]:
        """Chances of the responses until the stop. One threshold is easy for all checks, the other one is hard."""
        chances: dict[tuple[int, ...], Fraction] = {}
        for easy, weight in ((True, often if bit else seldom), (False, seldom if bit else often)):
            stop = Fraction(3, 4) if easy else Fraction(1, 4)
            for seen in product((0, 1), repeat=3):
                told = math.prod((step if one == bit else 1 - step for one in seen), start=Fraction(1))
                for end in (1, 2, 3):
                    stops = (1 - stop) ** (end - 1) * (stop if end < 3 else 1)
                    chances[seen[:end]] = chances.get(seen[:end], Fraction(0)) + weight * told * stops
        return chances

    one, other = law(1), law(0)
    assert sum(one.values()) == sum(other.values()) == 1
    ratio = max(one[end] / other[end] for end in one)
    run, check = Pure(math.log(3.0)), Pure(math.log(2.0))
    plan, what_ran = Composed(((run, 3), (check, 1))), Composed(((run, 1), (check, 1)))
    assert what_ran.approx_dp(0.0) < math.log(ratio) <= plan.approx_dp(0.0)
    profile = PldProfile(plan.parts)
    for y in RATIOS:
        delta_of_law = sum(max(chance - y * other[end], Fraction(0)) for end, chance in one.items())
        assert delta_of_law <= profile.delta(math.log(y)).upper * (1.0 + 1e-9), y
