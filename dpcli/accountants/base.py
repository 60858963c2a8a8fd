"""Accountants and privacy profiles. An accountant is a function from a composition to its privacy profile, with a few facts about it.

A *composition* is a list of steps, each a mechanism with the number of its runs. Its *privacy profile* is delta as a function of epsilon,
or epsilon as a function of delta; each value is a `Bound`. An accountant that has no answer raises NotRepresentable, and others may have
one. `checked` refuses a number that cannot be a bound. An accountant that is not `sound` returns an approximation, which is shown and
decides nothing.

A mechanism (mechanisms/mechanism.py) has several *representations*: its (epsilon, delta), its Renyi curve, its rho, the losses of its
dominating pairs, and others. Each accountant composes one of them, and `views` asks every mechanism for it. dpcli/analysis/inquiry.py
decides which accountants are asked, and which number is the *headline*.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import TypeVar

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.stated import total  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.roots import bracket_root, minimise_unimodal
from dpcli.numerics.work import QUESTION, RESERVED, allowance, shared  # QUESTION: cells (units of work) for one question

Steps = tuple[tuple[Mechanism, int], ...]

T = TypeVar("T")
Real = TypeVar("Real", float, Array)
# Accuracy of deltas that are found by inverting epsilon(delta).
LOG_TINY = -708.0  # smallest log delta that is searched; e^-708 is about the smallest normal floating-point number
LOG_DELTAS = (*(LOG_TINY / 2.0**k for k in range(14)), -1e-3, -1e-9)  # trial values for the inversion of epsilon(delta), increasing


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound, with a lower bound if one is certified.

    detail: numbers that say how the bound was obtained, such as the order or the split of delta. They are shown to users.
    """

    upper: float
    lower: float | None = None
    detail: dict[str, float] = field(default_factory=dict)


class PrivacyProfile:
    """The functions epsilon(delta) and delta(epsilon) of one composition.

    Each value is an upper bound, unless the accountant is unsound (`Accountant.sound`). Some profiles certify a lower bound too.
    """

    __slots__ = ()

    def epsilon(self, delta: float) -> Bound:
        """Return epsilon in nats at `delta` in [0, 1). Raises NotRepresentable if this accountant has no bound at that delta."""
        raise InternalError(f"{type(self).__name__} has no epsilon")

    def delta(self, epsilon: float) -> Bound:
        """Return a small delta at which epsilon(delta) <= `epsilon`, or 1 if none is found.

        The trial values are raised until one of them satisfies this, and a root search then finds the smallest between it and the one
        before. Any such delta is sound, even if the computed epsilon(delta) is not monotone.
        """

        def excess(log_delta: float) -> float:
            return _epsilon_or_inf(self, math.exp(log_delta)) - epsilon

        low = LOG_TINY  # the trial value before, at which epsilon(delta) was too large
        for log_delta in LOG_DELTAS:
            if excess(log_delta) <= 0.0:
                if low == log_delta:  # the first trial value
                    return Bound(math.exp(log_delta))
                _, smallest = bracket_root(excess, low, log_delta, rtol=1e-12)
                return Bound(math.exp(smallest))
            low = log_delta
        return Bound(1.0)

    def cases(self) -> tuple[PrivacyProfile, ...]:
        """Return the profiles whose maximum this profile is; by default only itself."""
        return (self,)

    def tuned(self, tolerance: float | None, seconds: float) -> PrivacyProfile:
        """Return this profile with another relative tolerance, and with about `seconds` for one answer. By default neither matters.

        tolerance: None keeps the present one.
        """
        return self

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return each step's share of the quantity that this accountant adds up, at `delta`.

        The shares add up to 1, or are all 0 if the quantity is 0. May raise NotRepresentable if there is no bound at `delta`.
        """
        raise InternalError(f"{type(self).__name__} has no shares")


@dataclass(frozen=True, slots=True)
class WorstCase(PrivacyProfile):
    """The largest of several profiles of compositions, if any two neighbours differ in only one of the compositions.

    Such compositions arise when a step divides the data into disjoint parts. Neighbours that differ in one record differ only in the part
    that holds it. The outputs of the other parts then have the same distribution for both neighbours, given all earlier outputs, and add
    nothing to the loss. The privacy loss is therefore that of the steps outside of parts, composed with this one part (McSherry 2009,
    Theorem 4; Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10). delta(epsilon) is the largest over the parts. If attributes divide the
    data in several ways, it is the largest over all choices of one part from each division.

    sizes: for each profile, how many of its steps stand for each of the steps that the accountant was given.
    """

    profiles: tuple[PrivacyProfile, ...]
    sizes: tuple[tuple[int, ...], ...]

    def epsilon(self, delta: float) -> Bound:
        return _largest(profile.epsilon(delta) for profile in self.profiles)

    def delta(self, epsilon: float) -> Bound:
        return _largest(profile.delta(epsilon) for profile in self.profiles)

    def cases(self) -> tuple[PrivacyProfile, ...]:
        return self.profiles

    def tuned(self, tolerance: float | None, seconds: float) -> PrivacyProfile:
        seconds_each = seconds / len(self.profiles)
        tuned = tuple(profile.tuned(tolerance, seconds_each) for profile in self.profiles)
        if all(new is old for new, old in zip(tuned, self.profiles, strict=True)):
            return self  # with its answers, which need not be computed again
        return WorstCase(tuned, self.sizes)

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return the shares in the composition with the largest epsilon. A partition's share is the sum of those of its part's steps."""
        costs = [profile.epsilon(delta).upper for profile in self.profiles]
        worst = costs.index(max(costs))
        remaining = iter(self.profiles[worst].shares(delta))
        return tuple(sum(itertools.islice(remaining, size)) for size in self.sizes[worst])


@dataclass(frozen=True, slots=True)
class Failing(PrivacyProfile):
    """The profile of a composition that reveals everything with a known probability, and is another composition otherwise.

    A stated (epsilon, delta) is randomised response that fails in this way with probability delta (Kairouz, Oh, Viswanath 2015,
    arXiv:1311.0776). The loss of a composition is infinite if any step fails, and the sum of the other losses if none does. So its delta at
    an epsilon is exactly f + (1 - f) d, where f is the probability that a step fails and d is the delta of the rest. Accountants that need
    a finite Renyi divergence thus bound any composition with stated deltas: Bun and Steinke 2016, arXiv:1605.02065, Section 8, do so for
    zCDP.

    rest: the composition of the steps when none fails. log_kept: log(1 - f), the sum of all steps' logarithms.
    """

    rest: PrivacyProfile
    log_kept: float

    @property
    def failure(self) -> float:
        """The probability that a step fails, correct to `rounding`, relatively."""
        return -math.expm1(self.log_kept)

    @property
    def rounding(self) -> float:
        """The largest relative error of `failure` and of e^log_kept."""
        return 4e-15 * (1.0 - self.log_kept)

    def delta_of_rest(self, delta: float, sign: int) -> float:
        """Return the delta that is left for the rest, rounded down if sign is -1, and up if it is 1; 0 or less if none is left."""
        left = delta - self.failure * (1.0 - sign * self.rounding)
        outward = 1.0 + sign * math.copysign(2.0 * self.rounding, left)
        below_one = 1.0 - 2.0**-53  # profiles take deltas below 1
        return min(left * outward / max(math.exp(self.log_kept), 1e-300), below_one)

    def with_failure(self, delta: Real, sign: int) -> Real:
        """Return the delta of the whole from that of the rest, a number or an array, rounded down if sign is -1, and up if it is 1."""
        factor = max(1.0 + sign * self.rounding, 0.0)
        return self.failure * factor + math.exp(self.log_kept) * factor * delta

    def epsilon(self, delta: float) -> Bound:
        least = self.delta_of_rest(delta, -1)
        if least <= 0.0:
            raise NotRepresentable(f"the stated deltas alone add up to {self.failure:.6g}, and delta = {delta:g}")
        bound = self.rest.epsilon(least)
        if bound.lower is None:
            return Bound(bound.upper, detail={**bound.detail, "failure": self.failure})
        # The lower bound of `bound` may be too large, because `least` may be below the delta that is really left.
        lower: float | None = None
        with suppress(NotRepresentable):
            lower = self.rest.epsilon(self.delta_of_rest(delta, 1)).lower
        return Bound(bound.upper, None if lower is None else min(lower, bound.upper), bound.detail)

    def delta(self, epsilon: float) -> Bound:
        bound = self.rest.delta(epsilon)
        lower = None if bound.lower is None else self.with_failure(bound.lower, -1)
        return Bound(min(self.with_failure(bound.upper, 1), 1.0), lower, bound.detail)

    def tuned(self, tolerance: float | None, seconds: float) -> PrivacyProfile:
        tuned = self.rest.tuned(tolerance, seconds)
        return self if tuned is self.rest else Failing(tuned, self.log_kept)

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return the shares in the rest. A step that fails with some probability and costs nothing otherwise has no share."""
        return self.rest.shares(max(self.delta_of_rest(delta, -1), 0.0))


def split_failures(steps: Steps) -> tuple[Steps, float]:
    """Return the steps as they are when none fails, and the logarithm of the probability that none fails."""
    log_kept, rest = Composed(steps).split_failure()
    return rest.parts, log_kept


def _largest(bounds: Iterable[Bound]) -> Bound:
    """Return bounds on the largest of the bounded values. Every lower bound is also a lower bound on the largest value."""
    candidates = tuple(bounds)
    worst = max(candidates, key=lambda bound: bound.upper)
    return Bound(worst.upper, max((bound.lower for bound in candidates if bound.lower is not None), default=None), worst.detail)


def compositions(steps: Steps) -> tuple[tuple[Steps, tuple[int, ...]], ...]:
    """Return each composition in which neighbours may differ, and how many of its steps stand for each of `steps`.

    A mechanism whose `cases` are several divides the data into disjoint parts, and each composition has one of the parts.
    """
    result = []
    for cases in itertools.product(*(mechanism.cases() for mechanism, _ in steps)):
        composition = tuple((part, n * count) for case, (_, count) in zip(cases, steps, strict=True) for part, n in case)
        result.append((composition, tuple(map(len, cases))))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Accountant:
    """A composition theorem with the facts that decide when it is used.

    name, title, source: the name on the command line, the name in words, and who proved the theorem.
    compose: returns the privacy profile of a composition without disjoint parts.
    sound: whether its epsilon is an upper bound. An unsound accountant never passes a gate, spends budget or becomes the headline.
    adaptive: whether it stays valid if later mechanisms are chosen from earlier outputs (a privacy filter).
    heavy: whether its work grows with the difficulty of the question. If it is refused, other accountants answer.
    fallback: whether a question to it may always cost QUESTION cells, the units of work of numerics/work.py, whatever was spent before. So
        a file of thousands of different steps still gets a number, and a file of hard steps gets a tight one.
    finite: whether it needs losses without atoms at infinity. The probability that a stated delta reveals everything is then set aside
        before its theorem is applied to the rest, and added afterwards (`Failing`).
    stepwise: whether it asks every step for its epsilon many times. If little work is left, accountants that read one curve come first.
    cells: estimates the cells of one question about a given number of different mechanisms. Once the headline is settled, only accountants
        that are cheap by this estimate are asked. It was measured once and is fixed, so that machines agree.
    """

    name: str
    title: str
    source: str
    compose: Callable[[Steps], PrivacyProfile] = field(repr=False)
    sound: bool = True
    adaptive: bool = False
    heavy: bool = False
    fallback: bool = False
    finite: bool = False
    stepwise: bool = False
    cells: Callable[[int], float] = field(default=lambda parts: 0.0, repr=False)

    def profile(self, steps: Steps) -> PrivacyProfile:
        """Return the profile of a composition. If it has disjoint parts, this is the largest profile over the parts."""
        if all(type(mechanism).cases is Mechanism.cases for mechanism, _ in steps):  # each mechanism is its own only case
            return self.profile_of_composition(steps)
        cases = compositions(steps)
        return WorstCase(tuple(self.profile_of_composition(case) for case, _ in cases), tuple(sizes for _, sizes in cases))

    def profile_of_composition(self, steps: Steps) -> PrivacyProfile:
        """Return the profile of a composition without disjoint parts."""
        if self.finite:
            rest, log_kept = split_failures(steps)
            if log_kept < 0.0:
                return Failing(self.compose(rest), log_kept)
        return self.compose(steps)

    @contextmanager
    def within_allowance(self, least: float = 0.0, share: float = 1.0) -> Iterator[None]:
        """Limit the work inside the context to what one question to this accountant may cost.

        A heavy accountant leaves RESERVED cells to the others. The others may use `share` of the cells left, but at least `least`.
        """
        if self.heavy:
            least, share = 0.0, 1.0
        if self.fallback:
            least = QUESTION
        with allowance(QUESTION, least, reserved=RESERVED if self.heavy else 0.0, share=share):
            yield


def implied_delta(profile: PrivacyProfile, epsilon: float) -> Bound:
    """Return the profile's delta at `epsilon`, or a smaller delta that another (epsilon, delta) pair of the profile implies there.

    At a small epsilon, the profile's epsilon at a smaller delta may imply a tighter bound, or be cheaper to compute. Any pair is sound, so
    the search only looks for a good one. A delta with a lower bound is returned as it is. Raises NotRepresentable if the profile refuses
    and no pair implies a delta below 1.
    """
    from dpcli.numerics.closed.trade_off import implied_deltas  # imported only if a delta is asked for

    def implied(exponents: Array) -> Array:  # the delta at `epsilon` that the profile's pair at each delta e^-exponent implies
        deltas = np.exp(-exponents)
        epsilons = np.array([_epsilon_or_inf(profile, delta) for delta in deltas.tolist()])
        return implied_deltas(epsilons, deltas, np.array([epsilon])).ravel()

    own_bound, refused = Bound(1.0), None
    try:
        own_bound = profile.delta(epsilon)
    except NotRepresentable as error:
        refused = error
    if own_bound.lower is not None:
        return own_bound
    first_exponent = max(-math.log(own_bound.upper), 1.0)  # that of the profile's own delta; 1 if that delta is above 1/e
    _, least_implied = minimise_unimodal(implied, first_exponent, ratio=2.0, rounds=1)
    if refused and not least_implied < 1.0:
        raise refused
    return own_bound if own_bound.upper <= least_implied else Bound(least_implied)


def _epsilon_or_inf(profile: PrivacyProfile, delta: float) -> float:
    """Return the profile's upper bound on epsilon at `delta`; inf if it has none."""
    try:
        return profile.epsilon(delta).upper
    except NotRepresentable:
        return math.inf


def views(steps: Steps, view: Callable[[Mechanism], T]) -> list[T]:
    """Return `view` of each mechanism.

    If a mechanism has no such view, raises NotRepresentable with the reason of the first one, naming all mechanisms with that reason.
    """
    values: list[T] = []
    reason: NotRepresentable | None = None
    lacking: list[object] = []
    for mechanism, _ in steps:
        try:
            values.append(view(mechanism))
        except NotRepresentable as error:
            if reason is None:
                reason = NotRepresentable(str(error))
            if str(error) == str(reason):
                lacking += (mechanism, *error.lacking)
    if reason is not None:
        reason.lacking = tuple(lacking)
        raise reason
    return values


def require_approx_dp(steps: Steps) -> None:
    """Raise NotRepresentable if a step has no (epsilon, delta), with the reason of the first one."""
    views(steps, lambda mechanism: mechanism.approx_dp(mechanism.delta_floor()))  # up to `delta_floor`, epsilon may be inf


def step_totals(steps: Steps, view: Callable[[Mechanism], float]) -> list[float]:
    """Return the count times `view` of the mechanism, for each step. Raises NotRepresentable if a mechanism has no such view."""
    return [count * value for (_, count), value in zip(steps, views(steps, view), strict=True)]


def rho_of(steps: Steps) -> float:
    """Return the sum of the rho (zCDP) of all runs, rounded up. Raises NotRepresentable if a mechanism has no rho."""
    steps = join_equal_steps(steps)
    rhos = views(steps, lambda mechanism: mechanism.zcdp())
    return total((count, rho) for (_, count), rho in zip(steps, rhos, strict=True))


def join_equal_steps(steps: Steps) -> Steps:
    """Return the steps with equal mechanisms joined and their counts added, in an order that does not depend on the order of `steps`."""
    return _join_equal_steps(tuple(steps))  # a tuple, since the cache needs a hashable argument


@shared(16)
def _join_equal_steps(steps: Steps) -> Steps:
    counts: dict[Mechanism, int] = {}
    for mechanism, count in steps:
        counts[mechanism] = counts.get(mechanism, 0) + count
    return tuple(sorted(counts.items(), key=lambda item: (repr(item[0]), item[1])))


def shares_of(parts: list[float]) -> tuple[float, ...]:
    """Return the parts divided by their sum, or zeros if the sum is 0."""
    total = math.fsum(parts)
    return tuple(part / total if total > 0.0 else 0.0 for part in parts)


def checked(bound: Bound) -> Bound:
    """Return the bound. Raises InternalError if it cannot be a bound: NaN, negative, or below its own lower bound.

    An upper bound of inf means that nothing is known, and is not an error.
    """
    if bound.upper == math.inf:
        return bound
    values = [bound.upper] if bound.lower is None else [bound.upper, bound.lower, bound.upper - bound.lower]
    if not all(value >= 0.0 for value in values):  # also if one of them is NaN
        raise InternalError(f"an accountant returned {bound}: this is a bug in dpcli, and no number")
    return bound


def require_positive(delta: float, name: str) -> None:
    """Raise NotRepresentable unless delta > 0. name: the accountant or mechanism that needs it, for the message."""
    if delta <= 0.0:
        raise NotRepresentable(f"{name} needs delta > 0")
