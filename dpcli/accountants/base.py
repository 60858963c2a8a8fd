"""Accountants: each is a function from a composition to its privacy profile, and a few facts about it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TypeVar

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.stated import total
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.roots import bracket_root, minimise_unimodal
from dpcli.numerics.work import KEPT, QUESTION, allowance, shared

Steps = tuple[tuple[Mechanism, int], ...]

T = TypeVar("T")
LOG_TINY = -708.0  # smallest log delta that is searched
LADDER = (*(LOG_TINY / 2.0**k for k in range(14)), -1e-3, -1e-9)


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound, the lower bound where one is certified, and how it came about (shown as detail: the order, the split, ...)."""

    upper: float
    lower: float | None = None
    detail: dict[str, float] = field(default_factory=dict)


class PrivacyProfile:
    """epsilon(delta) and delta(epsilon) of one composition; every value is an upper bound."""

    __slots__ = ()

    def epsilon(self, delta: float) -> Bound:
        """Epsilon in nats at `delta` in [0, 1). Raises NotRepresentable where this accountant says nothing at that delta."""
        raise InternalError(f"{type(self).__name__} has no epsilon")

    def delta(self, epsilon: float) -> Bound:
        """The smallest delta found at which epsilon(delta) <= `epsilon`: from below until one serves, then by bisection; 1 for none.

        Any delta that serves is an answer: epsilon(delta), as computed, need not fall all the way.
        """

        def excess(log_delta: float) -> float:
            return _at(self, math.exp(log_delta)) - epsilon

        fails = LOG_TINY
        for log_delta in LADDER:
            if excess(log_delta) <= 0.0:
                return Bound(math.exp(bracket_root(excess, fails, log_delta, rtol=1e-12)[1] if fails < log_delta else log_delta))
            fails = log_delta
        return Bound(1.0)

    def cases(self) -> tuple[PrivacyProfile, ...]:
        """Return the profiles of which this one is the largest."""
        return (self,)

    def tuned(self, tolerance: float | None, seconds: float) -> PrivacyProfile:
        """Return this profile with another relative tolerance, and about so much time for one answer, where it takes any."""
        return self

    def shares(self, delta: float) -> tuple[float, ...]:
        """Each step's share of the total in this accountant's own currency; they add up to 1 (all 0 where nothing is spent)."""
        raise InternalError(f"{type(self).__name__} has no shares")


@dataclass(frozen=True, slots=True)
class WorstCase(PrivacyProfile):
    """The largest of several profiles, of compositions of which any two neighbours differ in one.

    Neighbours that differ in one record differ in the part that holds it and in no other. The outputs of the other parts then have one
    law under both, whatever was seen before, and add nothing to the loss: the pair of the whole is the pair of the steps outside of parts
    composed with that one part (McSherry 2009, Theorem 4; Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10). delta(epsilon) is the
    largest over the parts, or, where attributes divide the data in several ways, over the choices of one part of each.

    sizes: for each profile, how many of its steps stand for each step that was given.
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
        each = seconds / len(self.profiles)
        return WorstCase(tuple(profile.tuned(tolerance, each) for profile in self.profiles), self.sizes)

    def shares(self, delta: float) -> tuple[float, ...]:
        """Return the shares in the part that costs most; a step that is a partition has those of that part's steps together."""
        costs = [profile.epsilon(delta).upper for profile in self.profiles]
        worst = costs.index(max(costs))
        single = iter(self.profiles[worst].shares(delta))
        return tuple(sum(itertools.islice(single, size)) for size in self.sizes[worst])


def _largest(bounds: Iterable[Bound]) -> Bound:
    """Return the bound on the largest of what they bound: each lower end is one on the largest, too."""
    known = tuple(bounds)
    worst = max(known, key=lambda bound: bound.upper)
    return Bound(worst.upper, max((bound.lower for bound in known if bound.lower is not None), default=None), worst.detail)


def compositions(steps: Steps) -> tuple[tuple[Steps, tuple[int, ...]], ...]:
    """Return each composition that neighbours may differ in, with how many of its steps stand for each of `steps`."""
    choices = itertools.product(*(mechanism.cases() for mechanism, _ in steps))
    return tuple(
        (
            tuple((part, n * count) for case, (_, count) in zip(chosen, steps, strict=True) for part, n in case),
            tuple(len(case) for case in chosen),
        )
        for chosen in choices
    )


@dataclass(frozen=True, slots=True)
class Accountant:
    """A row of the table of accountants.

    sound: its number is an upper bound; others may never pass a gate, spend budget or win the headline.
    adaptive: it stays valid where later mechanisms are chosen from earlier outputs (a privacy filter).
    heavy: its work grows with the difficulty of the question, and others answer where it is refused.
    fallback: it is asked with all that a question may cost, whatever was spent before: so that a file of thousands of different steps has
        a number, and one of hard steps a sharp one.
    stepwise: it asks every step for its epsilon again and again; where work is short, those that read one curve come first.
    cells: about what one question about so many different mechanisms takes it, in cells (numerics/work.py), by which the others are
        asked in turn where the headline is settled; measured once, and stated so that every machine asks the same ones.
    """

    name: str
    title: str
    source: str
    compose: Callable[[Steps], PrivacyProfile] = field(repr=False)
    sound: bool = True
    adaptive: bool = False
    heavy: bool = False
    fallback: bool = False
    stepwise: bool = False
    cells: Callable[[int], float] = field(default=lambda parts: 0.0, repr=False)

    def profile(self, steps: Steps) -> PrivacyProfile:
        """Return the profile of a composition; of one with disjoint parts, the largest over the parts."""
        if all(type(mechanism).cases is Mechanism.cases for mechanism, _ in steps):
            return self.compose(steps)
        cases = compositions(steps)
        return WorstCase(tuple(self.compose(case) for case, _ in cases), tuple(sizes for _, sizes in cases))

    @contextmanager
    def within_allowance(self, least: float = 0.0, share: float = 1.0) -> Iterator[None]:
        """The work that one question to it may cost: heavy ones leave some to the others, which have at most that share of what is
        left, and at least `least`."""
        kept = 0.0
        if self.heavy:
            least, kept, share = 0.0, KEPT, 1.0
        with allowance(QUESTION, QUESTION if self.fallback else least, kept, share):
            yield


def implied_delta(profile: PrivacyProfile, epsilon: float) -> Bound:
    """The profile's delta at `epsilon`, or a smaller one that another of its pairs implies there.

    At small epsilons what it says at a smaller delta may say more, or be cheaper to find. Any pair is sound, so that the search only looks
    for a good one. What is bounded from both sides is left as it is. Raises NotRepresentable where there is neither.
    """

    from dpcli.numerics.closed.trade_off import implied_deltas  # read only where delta is asked for

    def implied(exponents: Array) -> Array:
        deltas = np.exp(-exponents)
        epsilons = np.array([_at(profile, delta) for delta in deltas.tolist()])
        return implied_deltas(epsilons, deltas, np.array([epsilon]))[:, 0]

    own, refused = Bound(1.0), None
    try:
        own = profile.delta(epsilon)
    except NotRepresentable as error:
        refused = error
    if own.lower is not None:
        return own
    least = minimise_unimodal(implied, max(-math.log(own.upper), 1.0), ratio=2.0, rounds=1)[1]
    if refused and not least < 1.0:
        raise refused
    return own if own.upper <= least else Bound(least)


def _at(profile: PrivacyProfile, delta: float) -> float:
    """Epsilon, inf where the accountant says nothing."""
    try:
        return profile.epsilon(delta).upper
    except NotRepresentable:
        return math.inf


def views(steps: Steps, view: Callable[[Mechanism], T]) -> list[T]:
    """`view` of each mechanism. Raises NotRepresentable with the first one's reason, and names all that lack it for that reason."""
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


def weighed(steps: Steps, view: Callable[[Mechanism], float]) -> list[float]:
    """Count times `view`, for each mechanism. Raises as `views` does."""
    return [count * value for (_, count), value in zip(steps, views(steps, view), strict=True)]


def rho_of(steps: Steps) -> float:
    """The sum of all rho (zCDP), as stated, rounded up. Raises as `views` does."""
    steps = merged(steps)
    rhos = views(steps, lambda mechanism: mechanism.zcdp())
    return total((count, rho) for (_, count), rho in zip(steps, rhos, strict=True))


def merged(steps: Steps) -> Steps:
    """Equal mechanisms joined and their counts added, in an order that does not depend on theirs."""
    return _merged(tuple(steps))


@shared(16)
def _merged(steps: Steps) -> Steps:
    counts: dict[Mechanism, int] = {}
    for mechanism, count in steps:
        counts[mechanism] = counts.get(mechanism, 0) + count
    return tuple(sorted(counts.items(), key=lambda item: (repr(item[0]), item[1])))


def normalised(parts: list[float]) -> tuple[float, ...]:
    total = math.fsum(parts)
    return tuple(part / total if total > 0.0 else 0.0 for part in parts)


def checked(bound: Bound) -> Bound:
    """The bound, or InternalError where it cannot be one (NaN, negative, below its own lower bound); inf where nothing holds."""
    values = [bound.upper] if bound.lower is None else [bound.upper, bound.lower, bound.upper - bound.lower]
    if any(math.isnan(value) or value < 0.0 for value in values if not math.isinf(bound.upper)) or math.isnan(bound.upper):
        raise InternalError(f"an accountant returned {bound}: this is a bug in dpcli, and no number")
    return bound


def require_positive(delta: float, name: str) -> None:
    """Refuse delta = 0 for accountants that need some."""
    if delta <= 0.0:
        raise NotRepresentable(f"{name} needs delta > 0")
