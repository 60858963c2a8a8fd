"""Projections: a model's probabilities, brought within a radius of a public model's, as whole multiples that tokens are drawn by.

|log(projected / public)| <= radius for every token. All arrays are (vocabulary,), float64; work stays in a few arrays of that size, which
fit a core's cache.

The guarantee is about the distribution that tokens are drawn from, and not about one that rounding keeps near it: every model's multiples
of 2^-50 add up to 1 exactly, each lies within the radius of the public model's, and sums, shares and draws are exact. Rounding of a
projection changes only which distribution within the radius it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import InputError, InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.random.streams import Stream
from dpcli.random.subsets import below

MARGIN = 8.0 * 2.0**-52  # the product with the public probability, and exp, lose less
LEAST_PROBABILITY = 1e-290  # a public probability below this counts as 0: quotients by it would not be accurate
CLOSE = 1e-14  # of the sum of probabilities to 1
ATTEMPTS = 200
FARTHEST = 690.0  # of the logarithm of a scale: ratios beyond its range count as 0
WIDEST = 600.0  # of a radius: e^WIDEST is a number with room above it, and a smaller radius keeps a larger one


@dataclass(frozen=True, slots=True)
class Ball:
    """All distributions within `radius` of a public one.

    Attributes:
        public: Its probabilities.
        inverse: 1 / public, 0 where public is 0.
        low, high: e^-radius and e^radius, rounded inwards, not beyond 1: the public model itself is within every radius.
    """

    public: Array
    inverse: Array
    radius: float
    low: float
    high: float

    def ratios(self, private: Array) -> Array:
        """Return a model's probabilities over the public ones, 0 if the public one is 0.

        1 everywhere if they are no probabilities (NaN, negative, or none if the public model has some): an error, or a message,
        would tell of the private data, so such a model counts as the public one.
        """
        with np.errstate(all="ignore"):  # a warning would tell as much
            ratios: Array = np.multiply(private, self.inverse)
            total = np.dot(self.public, ratios)
        if not (0.0 < total < math.inf and ratios.min() >= 0.0):
            return np.ones_like(ratios)
        if abs(total - 1.0) > CLOSE:  # some of it lies where the public model has nothing
            ratios /= total
        return ratios


class Projection(Protocol):
    """A way into the ball: (ball, probabilities) -> probabilities of the ball, which add up to 1 within 1e-12."""

    def __call__(self, ball: Ball, private: Array) -> Array: ...


def ball(public: Array, radius: float) -> Ball:
    """Return the ball around a public model's probabilities. Raises InputError if they are none, which may be told of what is public."""
    possible = public >= LEAST_PROBABILITY
    if not (radius > 0.0 and math.isfinite(radius)):
        raise InputError(f"expected a radius > 0, found {radius!r}")
    if not np.all(public >= 0.0) or not math.isclose(public.sum(), 1.0, abs_tol=1e-6):
        raise InputError("the public model: expected probabilities that add up to 1")
    kept = np.where(possible, public, 0.0)
    kept /= kept.sum()
    with np.errstate(divide="ignore"):
        inverse = np.where(possible, 1.0 / kept, 0.0)
    reach = min(radius, WIDEST)
    low, high = math.exp(-reach) * (1.0 + MARGIN), math.exp(reach) * (1.0 - MARGIN)
    return Ball(kept, inverse, radius, min(low, 1.0), max(high, 1.0))


def clip(ball: Ball, private: Array) -> Array:
    """Return public * clip(s private / public, e^-radius, e^radius), with the s at which that adds up to 1.

    Of all distributions in the ball it is the one with the least Kullback-Leibler divergence from the model's. The bound holds for the
    numbers that are returned, as real numbers: they are products of the public ones with ratios that are rounded inwards.

    Edge cases: a token without public probability gets none. A model without probability where much of the public one lies, so that even
    e^radius times the rest adds up to less than 1: what is missing goes to the tokens that it calls impossible, in the public proportion.
    """
    ratios = ball.ratios(private)
    clipped = np.empty_like(ratios)

    def total(scale: float) -> float:
        with np.errstate(over="ignore"):
            np.multiply(ratios, scale, out=clipped)
        np.clip(clipped, ball.low, ball.high, out=clipped)
        return float(np.dot(ball.public, clipped))

    if not _find_scale(total):
        possible = clipped >= ball.high
        reached = float(ball.public[possible].sum())
        level = (1.0 - ball.high * reached) / float(ball.public[~possible].sum())
        clipped = np.where(possible, ball.high, min(max(level, ball.low), ball.high))
    clipped *= ball.public
    return clipped


def mix(ball: Ball, private: Array) -> Array:
    """Return share private + (1 - share) public, with the largest share that stays in the ball: a closed form."""
    ratios = ball.ratios(private)
    possible = ball.inverse > 0.0
    most = float(ratios.max())
    least = float(ratios.min() if possible.all() else ratios[possible].min())
    share = 1.0
    if most > ball.high:
        share = (ball.high - 1.0) / (most - 1.0)
    if least < ball.low:
        share = min(share, (1.0 - ball.low) / (1.0 - least))
    ratios *= share
    ratios += 1.0 - share
    np.clip(ratios, ball.low, ball.high, out=ratios)
    ratios *= ball.public
    return ratios


class _Total(Protocol):
    def __call__(self, scale: float) -> float: ...


def _find_scale(total: _Total) -> bool:
    """Leave `total` at a scale at which it is 1 within CLOSE, or as near as its rounding lets it be; return False if it stays below.

    It rises with the scale, from e^-radius on. Secants in logarithms, kept in a bracket.
    """
    low, high, at = -math.inf, math.inf, 0.0  # of the logarithm of the scale
    before: tuple[float, float] | None = None
    for attempt in range(ATTEMPTS):
        value = math.log(total(math.exp(at)))
        if abs(value) <= CLOSE:
            return True
        if value < 0.0 and at >= FARTHEST:
            return False
        low, high = (at, high) if value < 0.0 else (low, at)
        reach = 2.0**attempt  # an early secant may be nearly flat
        step = -value if before is None else min(max(_secant(before, (at, value)), -reach), reach)
        following = min(max(at + step, -FARTHEST), FARTHEST)
        if not low < following < high or attempt % 8 == 7:
            following = 0.5 * (max(low, -FARTHEST) + min(high, FARTHEST))
        if following in (low, high):
            return True
        before, at = (at, value), following
    return True


def _secant(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the step from `other` to where the line through both is 0, infinite if that is flat."""
    slope = (other[1] - one[1]) / (other[0] - one[0])
    return -other[1] / slope if slope > 0.0 else math.copysign(math.inf, -other[1])


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Multiples = NDArray[np.int64]

ONE = 2**50  # multiples of a model's 4096 at most add up to less than 2^63
WORD = 2**64


@dataclass(frozen=True, slots=True)
class WholeBall:
    """Bounds on the multiples of 2^-50 of each token, (vocabulary,) whole numbers in float64.

    Attributes:
        public: Multiples of the public model, which add up to 2^50.
        low, high: Bounds on the multiples of every projected model: e^-radius and e^radius times the public ones, rounded inwards; the
            public ones lie between.
    """

    public: Array
    low: Array
    high: Array

    def rounded(self, projected: Array) -> Multiples:
        """Return multiples within the bounds, near a projected model's, that add up to 2^50; the rest goes where room is."""
        near = np.multiply(projected, float(ONE))
        np.rint(near, out=near)
        np.clip(near, self.low, self.high, out=near)
        self._fill(near)
        multiples: Multiples = near.astype(np.int64)
        if int(multiples.sum()) != ONE:
            raise InternalError("probabilities that do not add up to 1: this is a bug in dpcli, and no token")
        return multiples

    def _fill(self, near: Array) -> None:
        left = ONE - int(near.sum())  # exact: whole numbers below 2^53 (a projection adds up to 1, all but its rounding)
        bound = self.high if left > 0 else self.low
        place = int(np.argmax(bound - near if left > 0 else near - bound))
        if abs(left) <= abs(float(bound[place] - near[place])):
            near[place] += left
            return
        room = np.abs(bound - near)  # rare: most to the tokens with most room
        order = np.argsort(-room, kind="stable")
        before = np.cumsum(room[order]) - room[order]
        near[order] += np.sign(left) * np.clip(abs(left) - before, 0.0, room[order])


def multiples_ball(ball: Ball) -> WholeBall:
    """Return the public model's multiples, and the bounds that its ball puts on others. A token below 2^-51 has none."""
    public = np.floor(ball.public * ONE)
    public[int(np.argmax(public))] += ONE - int(public.sum())
    return WholeBall(public, np.ceil(public * ball.low), np.floor(public * ball.high))


def multiples(probabilities: Array) -> Multiples:
    """Return the multiples of one distribution, without bounds: the published protocol has none."""
    near: Multiples = np.floor(probabilities * (ONE / probabilities.sum())).astype(np.int64)
    near[int(np.argmax(near))] += ONE - int(near.sum())
    return near


def draw_token(total: Multiples, count: int, stream: Stream) -> int:
    """Draw a token, with probability its share of the sum of `count` models' multiples: exactly."""
    reached = np.cumsum(total)
    if int(reached[-1]) != count * ONE:
        raise InternalError("probabilities that do not add up to 1: this is a bug in dpcli, and no token")
    return int(np.searchsorted(reached, below(stream, count * ONE, 1)[0], side="right"))


def sample_models(stream: Stream, count: int, rate: float) -> list[int]:
    """Draw the models that take part: each with probability `rate`, exactly the number that the file states, independently."""
    exact = Fraction(rate) * WORD
    first = int(exact)
    words = stream.words(count).tolist()
    return [place for place, word in enumerate(words) if word < first or (word == first and _bernoulli(stream, exact - first))]


def _bernoulli(stream: Stream, rate: Fraction) -> bool:
    """Return True with this probability, below 1: a binary fraction is compared with it, a word at a time."""
    while rate > 0:
        rate *= WORD
        first, word = int(rate), int(stream.words(1)[0])
        if word != first:
            return word < first
        rate -= first
    return False
