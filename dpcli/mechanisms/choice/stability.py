"""Releases that first test the stability of the answer: the stability histogram and propose-test-release.

A *unit* is whoever is protected, such as a user. A stability histogram shows the keys whose noisy count exceeds a threshold, so that
possible keys need not be known. A unit's *own* keys are those that nobody else has: showing one reveals the unit, with a probability that
is charged as delta (`Shown`). The counts of its other keys *move*, which noise hides. Propose-test-release answers only if a noisy test
finds that many changes are needed to reach another answer. Both have no finite epsilon at delta = 0. Probabilities of showing are rounded
up, and those of hiding down.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `unclaimed` drops the claim that some data attain these pairs. `split_failure` separates the
probability that the pair reveals everything from the rest of the mechanism. Of a loss L, `tails` returns log tail probabilities under P and
Q.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.stated import multiple, quotient, squared  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed, SumLoss
from dpcli.mechanisms.combined.group import for_group
from dpcli.mechanisms.combined.labelled import LeastOf
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss, TailsOnly
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.discrete_gaussian import LEAST_SIGMA, DiscreteGaussianSpec
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplaceSpec
from dpcli.mechanisms.spec import CostEvidence, Spec
from dpcli.mechanisms.stated.pure_and_approx import Free, approx
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.mechanisms.stated.stated_spec import StatedSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.discrete_tails import log_gaussian_beyond, log_laplace_beyond
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair, symmetric_pair  # FURTHEST: the largest loss on a grid
from dpcli.numerics.tails import Tails, log_deltas
from dpcli.numerics.work import shared  # a cache

NO_RENYI = "a key that only one unit holds may be shown, so its Renyi divergence is infinite"
# These cover rounding, on the safe side.
SURELY_SHOWN = 1.0 - 1e-9  # a release that shows a unit's own keys with a larger probability counts as giving no privacy
LEAST_PROBABILITY = 5e-324  # the smallest positive float, in place of a probability that underflows
DELTA_SLACK = 1e-12  # covers the rounding of a power of e, whose exponent is at most 745 in size with an error of less than 4e-13
# Accuracy and speed: a coarser choice gives a larger upper bound.
ONE_BY_ONE = 64  # largest group in which every number of units that share a key is tried
RANGES = 8  # number of ranges of own keys that are priced separately; twice as many lower epsilon by less than 4 parts in 1000
POINTS = 2048  # points of the grid of losses
REACHES = 200  # number of epsilons that are tried as the last point of the grid
NEGLIGIBLE = 1e-6  # the grid ends where the noise's curve is at most this share of the probability of showing own keys
LOG_LEAST = -180.0  # or at most e^LOG_LEAST, so that the grid ends if own keys are hardly ever shown
WHOLE_DATA = "whose distance is counted over all of the data"


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityHistogramSpec(Spec):
    """The keys in the data whose noisy counts exceed `threshold`, with these noisy counts. Nothing is released about other keys.

    Discrete Laplace noise (scale) or discrete Gaussian noise (sigma) is added to the count of each key in the data. A unit of privacy adds
    to the counts of at most max_groups keys, and at most max_rows to each. The possible keys need not be known beforehand. The price for
    this is a delta: a key that only one unit holds is shown with probability p = P(max_rows + noise > threshold), and one of the unit's
    max_groups keys is shown with probability 1 - (1 - p)^max_groups.

    Neighbours: all three adjacencies. Under add-remove and zero-out, the counts of a unit's keys move in one direction. Under replace-one,
    the counts of the keys of both versions move, which are twice as many, and each version may have keys that only it holds.
    max_contributions has no effect, because both limits are for a unit. k units that change together may share keys or not. The worst case
    is used.

    Bounds: upper. For one unit, they are the largest over how many of its keys only it holds, because no count both moves and appears. For
    a group, they add the noise on all counts that it moves and the delta of the keys that only it holds. delta is exact if epsilon is
    large. Renyi divergences are finite once the probability of showing keys is set aside. No finite epsilon below that
    delta.

    Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009, Releasing search queries and clicks privately; Bun, Nissim, Stemmer 2016,
    arXiv:1511.08552; Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, arXiv:1909.01917 (several keys).
    """

    example: ClassVar[Mapping[str, Any]] = {"scale": 90.0, "threshold": 3000, "max_groups": 1, "max_rows": 1}
    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED
    needs_delta: ClassVar[bool] = True
    fixed_threshold: ClassVar[bool] = True  # more noise may carry more counts over the threshold
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No unit adds to more than max_groups keys, or more than max_rows to one key.", "release"),
    )

    threshold: Annotated[int, Key("noisy count that a key must exceed to be released", COUNT)]
    scale: Annotated[float | None, Key("scale of discrete Laplace noise e^{-|x|/scale} on each count", POSITIVE)] = None
    sigma: Annotated[float | None, Key("sigma of discrete Gaussian noise e^{-x^2/(2 sigma^2)} on each count", POSITIVE)] = None
    # claim=True: dpcli does not enforce what the key states.
    max_groups: Annotated[int, Key("largest number of keys to whose counts one unit of privacy adds", COUNT, claim=True)] = 1
    max_rows: Annotated[int, Key("largest amount that one unit of privacy adds to the count of one key", COUNT, claim=True)] = 1

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if (self.scale is None) == (self.sigma is None):
            yield "scale", "either scale (Laplace) or sigma (Gaussian)", "neither" if self.scale is None else "both"
        elif self.sigma is not None and self.sigma < LEAST_SIGMA * self.max_rows:
            yield "sigma", f"at least max_rows / 20 = {self.max_rows / 20.0:g} (less is no privacy)", repr(self.sigma)

    @property
    def sampling_refusal(self) -> str:
        return "whose keys are those of all of the data"

    @property
    def delta_spent(self) -> float:
        return shown_delta(self._all_hidden(1))

    def log_shown(self, count: int) -> float:
        """Return an upper bound on the log probability that a key with this count is released."""
        least = self.threshold - count
        if self.scale is not None:
            return log_laplace_beyond(self.scale, least)
        assert self.sigma is not None
        return log_gaussian_beyond(self.sigma, least)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        noise, count = self._noise(neighbours)
        shown = Shown(shown_delta(self._all_hidden(neighbours.group)), neighbours.replaces)
        noise_and_own_keys = Composed(((noise, count), (shown, 1)))
        if neighbours.group > 1 or shown.is_certain:
            return noise_and_own_keys
        with suppress(NotRepresentable):
            (loss,) = noise.losses()
            own_or_moved = OwnOrMoved(OwnOrMovedLoss(loss, count, self.max_groups, self._log_hidden(1, 1)))
            return ShownAndMoved((noise_and_own_keys, own_or_moved))
        return noise_and_own_keys  # the noise has no pair

    def _all_hidden(self, group: int) -> float:
        """Return a lower bound on the log probability that every key that only the units of a group hold is hidden.

        The units may share their keys in any way. The worst number of units for one key is used for all keys.
        """
        return self.max_groups * group * min(map(self._log_hidden, *_ranges_of_sharers(group)))

    def _log_hidden(self, least: int, most: int) -> float:
        """Return a lower bound on the log probability, per unit, that a key is hidden if `least` to `most` units of the group share it."""
        p = math.exp(self.log_shown(self.max_rows * most))
        return math.log1p(-p) / least if p < 1.0 else -math.inf

    def _noise(self, neighbours: Neighbours) -> tuple[Mechanism, int]:
        """Return the noise on the keys that change, as (mechanism, count).

        For one unit, each key changes by at most max_rows. For a group, the counts are priced as a vector, by its norm.
        """
        keys, group = self.max_groups * (2 if neighbours.replaces else 1), neighbours.group
        one_unit = Neighbours(neighbours.adjacency)
        if self.scale is not None:
            sensitivity, count = (self.max_rows, keys) if group == 1 else (self.max_rows * group * keys, 1)
            return DiscreteLaplaceSpec(scale=self.scale, sensitivity=sensitivity).resolve(one_unit).unclaimed(), count
        assert self.sigma is not None
        if group == 1:
            noise = DiscreteGaussianSpec(sigma=self.sigma, sensitivity=self.max_rows, dimension=1).resolve(one_unit)
            return noise.unclaimed(), keys
        return Zcdp(squared(quotient(group * self.max_rows, self.sigma), 2)), keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeTestReleaseSpec(StatedSpec):
    """The answer f(x) if d(x) + DLap(1 / epsilon) > T, and no answer otherwise. d(x) is the distance of x to data with another answer.

    The distance d counts changes. It is a whole number, moves by at most 1 between neighbours, and is 0 if a neighbour has another answer.
    T is the smallest whole number >= 0 with P(DLap(1 / epsilon) > T) <= delta. With `mechanism`, the entry of that name is released after
    the test, and is charged here. Its noise must suit answers that differ by at most its sensitivity, and d is 0 if the answer of a
    neighbour differs by more.

    If two neighbours have different answers, d = 0 for both, and each releases an answer with probability at most delta. If they have the
    same answer, they differ only by the test on d, which costs epsilon. k units that change together cost k epsilon and
    e^{(k-1) epsilon} delta, because d < k if their answers differ.

    Neighbours: all three adjacencies. d counts changes of the file's adjacency. If a unit has several records, stated_for says whether
    epsilon and delta are for one record or for the unit.

    Bounds: upper, from the pair (epsilon, delta) alone, and from the release after the test. No finite epsilon below delta.

    Source: Dwork & Lei 2009, Differential privacy and robust statistics; Vadhan 2017, The complexity of differential privacy, section 3.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01, "delta": 1e-10}
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("The distance moves by at most 1 between neighbours.", "release"),
        of_mechanism(
            "The distance is 0 if a neighbour has another answer.",
            "test_a_distance_that_is_one_too_large_releases_too_often",
            "release",
        ),
    )

    epsilon: Annotated[float, Key("epsilon of the test, in nats: the noise on the distance has scale 1 / epsilon", POSITIVE)]
    delta: Annotated[float, Key("largest probability of passing the test if a neighbour has another answer", OPEN_UNIT)]
    mechanism: Annotated[str | None, Key("name of the entry that is released after the test; by default the answer itself")] = None

    @property
    def delta_spent(self) -> float:
        return self.delta

    @property
    def sampling_refusal(self) -> str:
        return WHOLE_DATA

    def part_path(self, position: int) -> tuple[str | int, ...]:
        return ("mechanism",)

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        return self if self.mechanism is None else TestedRelease(self, *lookup(self.mechanism))

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism of the test. For several changes, its epsilon and its delta are rounded up."""
        changes = self.changes(neighbours)
        one_change = approx(self.epsilon, self.delta).unclaimed()
        log_delta = math.log(self.delta) + (changes - 1) * self.epsilon
        group_delta = math.exp(min(log_delta, 0.0)) * (1.0 + DELTA_SLACK)
        if changes == 1 or group_delta >= 1.0:  # a delta of 1 or more would claim nothing
            return for_group(one_change, changes)
        return approx(multiple(changes, self.epsilon), group_delta).unclaimed()


@dataclass(frozen=True, slots=True)
class TestedRelease(Spec):
    """A stability test, and the entry that is released after it.

    If the answers of two neighbours are close, they differ by the test and by the release. If not, each releases with probability at most
    delta. The composition of the pair of (epsilon, delta) with that of the release dominates both cases.
    """

    test: ProposeTestReleaseSpec
    release: Spec
    count: int

    @property
    def sampling_refusal(self) -> str:
        return WHOLE_DATA

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Composed(((self.test.resolve(neighbours), 1), (self.release.resolve(neighbours).unclaimed(), self.count)))


@dataclass(frozen=True, slots=True)
class ShownLoss(TailsOnly):
    """The loss of a pair in which P shows own keys with probability `of_p`, and Q with `of_q`. Otherwise both show the same."""

    reason: ClassVar[str] = NO_RENYI

    of_p: float
    of_q: float

    def tails(self, at: Array) -> Tails:
        """Return the tails: mass at +inf under P, mass at -inf under Q, and one atom between them."""
        log_p_hidden, log_q_hidden = math.log1p(-self.of_p), math.log1p(-self.of_q)
        with np.errstate(divide="ignore"):
            log_p_shown, log_q_shown = np.log(self.of_p), np.log(self.of_q)
        is_below_atom = at < log_p_hidden - log_q_hidden
        return Tails(
            np.where(is_below_atom, 0.0, log_p_shown),
            np.where(is_below_atom, -np.inf, log_p_hidden),
            np.where(is_below_atom, log_q_hidden, -np.inf),
            np.where(is_below_atom, log_q_shown, 0.0),
        )


@dataclass(frozen=True, slots=True)
class Shown(Mechanism):
    """A release that shows a unit's own keys with probability `delta`.

    in_both: whether each of two neighbours may have keys of its own.
    """

    delta: float
    in_both: bool

    @property
    def is_certain(self) -> bool:
        """Return whether the keys are shown with probability 1, up to rounding, so that nothing is claimed."""
        return self.delta > SURELY_SHOWN

    def approx_dp(self, delta: float) -> float:
        """Return 0 if `delta` is at least the probability of showing, and inf otherwise. Both are exact."""
        covers_keys = delta > 0.0 and delta >= self.delta * (1.0 - 1e-12)  # up to the rounding of a sum of deltas
        return 0.0 if covers_keys and not self.is_certain else math.inf

    def delta_floor(self) -> float:
        return self.delta

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RENYI)

    def losses(self) -> tuple[ShownLoss, ...]:
        if self.is_certain:
            raise NotRepresentable("a key that only one unit holds is certainly shown")
        if self.in_both:
            return (ShownLoss(self.delta, self.delta),)
        return ShownLoss(self.delta, 0.0), ShownLoss(0.0, self.delta)

    def split_failure(self) -> tuple[float, Mechanism]:
        """Return log(1 - delta) and `Free`: P and Q each show keys of their own with probability delta, and are equal otherwise.

        If only one of them shows any, the pair is a little better than that, and equally good at every epsilon >= 0.
        """
        if self.is_certain:
            return 0.0, self
        return math.log1p(-self.delta), Free()


@dataclass(frozen=True, slots=True)
class ShownAndMoved(LeastOf):
    """Two bounds on a histogram. The first has a finite Renyi divergence once its probability of showing keys is set aside."""

    def split_failure(self) -> tuple[float, Mechanism]:
        """Return the split of the first bound; the second has no Renyi divergence."""
        return self.mechanisms[0].split_failure()


def shown_delta(log_hidden: float) -> float:
    """Return the probability, rounded up, that some of a unit's own keys are shown, if all are hidden with probability e^log_hidden."""
    return min(max(-math.expm1(log_hidden) * (1.0 + 1e-12), LEAST_PROBABILITY), 1.0)


@dataclass(frozen=True, slots=True)
class OwnOrMovedLoss(TailsOnly):
    """The loss of a pair that dominates a histogram, whichever keys are a unit's own.

    If others hold a key of the unit too, the noise hides how much its count moves. If the key is the unit's own, it is hidden with a
    certain probability. Let k keys be the unit's own, at most `own_keys` of them in each version of the unit. Let p be the probability that
    one of min(k, own_keys) own keys is shown. With (P, Q) the pair of the noise on the other keys, and s = e^eps,

        (P - s (1-p) Q)+ <= p P + (1-p) (P - s Q)+.

    So delta(eps) is at most p + (1-p) times the delta of the noise on the other keys, whether P or Q or both have own keys. The largest of
    these bounds over k is convex in s, as the curve of a pair is. Within a range of k, the least k is used for the noise and the largest
    for the own keys.

    noise: the loss of the noise on one key, which is the same in both directions. keys: number of keys that change.
    own_keys: largest number of keys that only one version of the unit holds. log_hidden: log probability that one of these is hidden.
    """

    reason: ClassVar[str] = NO_RENYI

    noise: PrivacyLoss
    keys: int
    own_keys: int
    log_hidden: float

    def tails(self, at: Array) -> Tails:
        return _own_or_moved_pair(self).tails(at)

    def log_heights(self, x: Array) -> Array:
        """Return upper bounds on log delta at increasing epsilons x >= 0."""
        heights = []
        fewest = 0
        for most in self._range_ends():
            moved_keys = self.keys - fewest
            share = shown_delta(min(most, self.own_keys) * self.log_hidden) if most else 0.0
            log_share = math.log(share) if share else -math.inf
            log_noise = log_deltas(SumLoss(((self.noise, moved_keys),)), x) if moved_keys else np.full_like(x, -np.inf)
            heights.append(np.logaddexp(log_noise + math.log1p(-share), log_share))
            fewest = most + 1
        return np.asarray(np.minimum(np.maximum.reduce(heights), 0.0))

    def _range_ends(self) -> list[int]:
        """Return the largest number of own keys of each range. The first range is no own keys, which is usually the worst case."""
        even_parts = {math.ceil(Fraction(self.keys * part, RANGES - 1)) for part in range(1, RANGES)}
        return [0, *sorted(even_parts)]


@shared(16)
def _own_or_moved_pair(loss: OwnOrMovedLoss) -> ChordPair:
    """Return the pair, cached."""
    epsilons = np.geomspace(1e-6, FURTHEST, REACHES)
    log_noise = log_deltas(SumLoss(((loss.noise, loss.keys),)), epsilons)
    log_shown = math.log(shown_delta(loss.own_keys * loss.log_hidden))
    log_height_at_end = max(log_shown + math.log(NEGLIGIBLE), LOG_LEAST, float(log_noise[-1]))
    end = int(np.argmax(log_noise <= log_height_at_end))
    x = float(epsilons[end]) / POINTS * np.arange(POINTS + 1, dtype=float)
    return symmetric_pair(float(x[1]), np.exp(loss.log_heights(x)))


@dataclass(frozen=True, slots=True)
class OwnOrMoved(Mechanism):
    """A histogram, with the largest cost over all choices of the unit's own keys. Only its pair is known."""

    loss: OwnOrMovedLoss

    def delta_floor(self) -> float:
        return shown_delta(self.loss.own_keys * self.loss.log_hidden)

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return (self.loss,)


def _ranges_of_sharers(group: int) -> tuple[list[int], list[int]]:
    """Return the lower and the upper ends of ranges that cover 1 to `group`, the numbers of units that may share one key.

    Up to ONE_BY_ONE each range has one number. Beyond, each ends at twice the end of the one before.
    """
    least = list(range(1, min(group, ONE_BY_ONE) + 1))
    most = list(least)
    while most[-1] < group:
        least.append(most[-1] + 1)
        most.append(min(2 * most[-1], group))
    return least, most
