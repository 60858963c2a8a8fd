"""Projections of a model's probabilities into a ball around those of a public model, and exact draws of tokens.

Each *fitted model* learnt from one shard of private texts. The sound mode of `dpcli pmixed` draws each token from the average of projected
models (model_ensemble.py). A projection satisfies |log(projected / public)| <= radius for every token. All arrays are (vocabulary,) in
float64. The functions use only a few arrays of that size, which fit into a core's cache.

The guarantee holds for the very distribution from which tokens are drawn, in spite of rounding. The probabilities of every projected model
are integer multiples of 2^-50 that add up to exactly 1. Each is within the radius of the public model's probability. Sums, shares and draws
are exact. Rounding in a projection only changes which distribution within the radius results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import InputError, InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.random.streams import Stream
from dpcli.random.subsets import uniform_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Multiples = NDArray[np.int64]  # probabilities in multiples of 2^-50, (vocabulary,)

# Bound on the relative errors of exp and of the product with the public probability. The actual errors are smaller. A smaller margin would
# touch soundness; the other values here only change which distribution within the radius results, and the time of the search.
MARGIN = 8.0 * 2.0**-52
LEAST_PROBABILITY = 1e-290  # A public probability below this counts as 0, because quotients by it would be inaccurate.
CLOSE = 1e-14  # largest difference between 1 and a sum of probabilities that counts as rounding
ATTEMPTS = 200  # evaluations after which the search for a scale stops
HALVING_PERIOD = 8  # One in this many steps of that search halves the bracket, because secants may converge slowly.
LARGEST_LOG_SCALE = 690.0  # The logarithm of a scale is limited to this absolute value. Ratios beyond its range count as 0.
# A larger radius is reduced to this value, so that e^radius does not overflow. A smaller radius satisfies the larger one.
LARGEST_RADIUS = 600.0

ONE = 2**50  # a probability of 1 in multiples of 2^-50; the sum over 4096 models is still below 2^63
WORD = 2**64  # number of values of a random word


@dataclass(frozen=True, slots=True)
class Ball:
    """All distributions within `radius` of a public one.

    Attributes:
        public: Probabilities of the public model.
        inverse: 1 / public; 0 where public is 0.
        low, high: e^-radius and e^radius, rounded towards 1. They are at most and at least 1, so that the ball contains the public model.
    """

    public: Array
    inverse: Array
    radius: float
    low: float
    high: float

    def ratios(self, private: Array) -> Array:
        """Return the ratios of a model's probabilities to the public ones; 0 where the public probability is 0.

        If the model's numbers are not probabilities (NaN, negative, or 0 for all tokens of the public model), the ratios are 1, and the
        model counts as the public one. An error would reveal something about the private data.
        """
        with np.errstate(all="ignore"):  # A warning would reveal something about the private data too.
            ratios: Array = np.multiply(private, self.inverse)
            total = np.dot(self.public, ratios)
        if not (0.0 < total < math.inf and ratios.min() >= 0.0):
            return np.ones_like(ratios)
        if abs(total - 1.0) > CLOSE:  # Some probability is on tokens to which the public model gives none.
            ratios /= total
        return ratios


# A function that returns probabilities within the ball, which add up to 1 within 1e-12, given the ball and a model's probabilities.
Projection = Callable[[Ball, Array], Array]


def ball(public: Array, radius: float) -> Ball:
    """Return the ball around a public model's probabilities.

    Raises InputError if they are not probabilities. The error reveals nothing private, because the model is public.
    """
    has_public = public >= LEAST_PROBABILITY
    if not (radius > 0.0 and math.isfinite(radius)):
        raise InputError(f"expected a radius > 0, found {radius!r}")
    # The tolerance can be wide: the ball is made of renormalised probabilities.
    if not np.all(public >= 0.0) or not math.isclose(public.sum(), 1.0, abs_tol=1e-6):
        raise InputError("the public model: expected probabilities that add up to 1")
    renormalised = np.where(has_public, public, 0.0)
    renormalised /= renormalised.sum()
    with np.errstate(divide="ignore"):
        inverse = np.where(has_public, 1.0 / renormalised, 0.0)
    reach = min(radius, LARGEST_RADIUS)
    low, high = math.exp(-reach) * (1.0 + MARGIN), math.exp(reach) * (1.0 - MARGIN)
    return Ball(renormalised, inverse, radius, low=min(low, 1.0), high=max(high, 1.0))


def clip(ball: Ball, private: Array) -> Array:
    """Return public * clip(s private / public, e^-radius, e^radius), with the s at which the result adds up to 1.

    Of all distributions in the ball, the result has the least Kullback-Leibler divergence from the model's. The bound holds for the
    returned floats as real numbers, since they are products of the public probabilities with ratios that are rounded towards 1.

    A token with public probability 0 gets probability 0. The model may give no probability to tokens that have most of the public
    probability. Then even e^radius times the public probability of the other tokens may add up to less than 1. The missing probability goes
    to the tokens that the model excludes, in proportion to their public probability.
    """
    ratios = ball.ratios(private)
    clipped = np.empty_like(ratios)

    def total(scale: float) -> float:
        with np.errstate(over="ignore"):
            np.multiply(ratios, scale, out=clipped)
        np.clip(clipped, ball.low, ball.high, out=clipped)
        return float(np.dot(ball.public, clipped))

    if not _find_scale(total):  # The tokens to which the model gives probability are at e^radius already.
        is_high = clipped >= ball.high
        public_at_high = float(ball.public[is_high].sum())
        level = (1.0 - ball.high * public_at_high) / float(ball.public[~is_high].sum())  # ratio of the excluded tokens
        clipped = np.where(is_high, ball.high, min(max(level, ball.low), ball.high))
    clipped *= ball.public
    return clipped


def mix(ball: Ball, private: Array) -> Array:
    """Return share private + (1 - share) public, with the largest share that stays in the ball, in closed form."""
    ratios = ball.ratios(private)
    has_public = ball.inverse > 0.0  # tokens to which the public model gives probability; the ratios of others are 0
    most = float(ratios.max())
    least = float(ratios.min() if has_public.all() else ratios[has_public].min())
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


def _find_scale(total: Callable[[float], float]) -> bool:
    """Find the scale at which `total` is 1, up to CLOSE or rounding. Return False if it stays below 1.

    The last call of `total` is at that scale.

    `total` increases with the scale, and its values start at e^-radius. The search uses secants in logarithms within a bracket.
    """
    low, high = -math.inf, math.inf  # bracket of the logarithm of the scale
    log_scale = 0.0
    previous: ScalePoint | None = None
    for attempt in range(ATTEMPTS):
        point = ScalePoint(log_scale, math.log(total(math.exp(log_scale))))
        if abs(point.log_total) <= CLOSE:
            return True
        if point.log_total < 0.0:
            if log_scale >= LARGEST_LOG_SCALE:
                return False
            low = log_scale
        else:
            high = log_scale
        step = -point.log_total
        if previous is not None:
            longest = 2.0**attempt  # An early secant may be nearly flat, so that its step is limited.
            step = min(max(_secant_step(previous, point), -longest), longest)
        following = min(max(log_scale + step, -LARGEST_LOG_SCALE), LARGEST_LOG_SCALE)
        if not low < following < high or attempt % HALVING_PERIOD == HALVING_PERIOD - 1:
            following = 0.5 * (max(low, -LARGEST_LOG_SCALE) + min(high, LARGEST_LOG_SCALE))
        if following in (low, high):  # No float is left between the ends of the bracket.
            return True
        previous, log_scale = point, following
    return True


class ScalePoint(NamedTuple):
    """A scale of the search, and the total at it, both as logarithms."""

    log_scale: float
    log_total: float


def _secant_step(previous: ScalePoint, point: ScalePoint) -> float:
    """Return the step from `point` to the zero of the line through both points; infinite if the line does not increase."""
    slope = (point.log_total - previous.log_total) / (point.log_scale - previous.log_scale)
    return -point.log_total / slope if slope > 0.0 else math.copysign(math.inf, -point.log_total)


@dataclass(frozen=True, slots=True)
class WholeBall:
    """A ball in multiples of 2^-50. Arrays are (vocabulary,), integers in float64.

    Attributes:
        public: Multiples of the public model, which add up to 2^50.
        low, high: Bounds on the multiples of every projected model: e^-radius and e^radius times the public multiples, rounded inwards.
    """

    public: Array
    low: Array
    high: Array

    def rounded(self, projected: Array) -> Multiples:
        """Return multiples within the bounds that are close to a projected model's probabilities and add up to 2^50."""
        nearest = np.multiply(projected, float(ONE))
        np.rint(nearest, out=nearest)
        np.clip(nearest, self.low, self.high, out=nearest)
        self._fill(nearest)
        multiples: Multiples = nearest.astype(np.int64)
        if int(multiples.sum()) != ONE:
            raise InternalError("probabilities do not add up to 1: this is a bug in dpcli, and no token was drawn")
        return multiples

    def _fill(self, nearest: Array) -> None:
        """Change the multiples in place, within the bounds, so that they add up to 2^50."""
        missing = ONE - int(nearest.sum())  # The sum is exact, because all partial sums are whole numbers below 2^53.
        bound = self.high if missing > 0 else self.low
        room = np.abs(bound - nearest)
        roomiest = int(np.argmax(room))
        if abs(missing) <= float(room[roomiest]):
            nearest[roomiest] += missing
            return
        # No single token has enough room. The tokens with the most room take the rest, one after another.
        order = np.argsort(-room, kind="stable")
        taken_before = np.cumsum(room[order]) - room[order]
        nearest[order] += np.sign(missing) * np.clip(abs(missing) - taken_before, 0.0, room[order])


def whole_ball(ball: Ball) -> WholeBall:
    """Return the ball in multiples of 2^-50. A token whose public probability is below 2^-50 gets probability 0."""
    public = np.floor(ball.public * ONE)
    public[int(np.argmax(public))] += ONE - int(public.sum())
    return WholeBall(public, np.ceil(public * ball.low), np.floor(public * ball.high))


def whole_multiples(probabilities: Array) -> Multiples:
    """Return the multiples of a distribution, without bounds, for the published protocol."""
    nearest: Multiples = np.floor(probabilities * (ONE / probabilities.sum())).astype(np.int64)
    nearest[int(np.argmax(nearest))] += ONE - int(nearest.sum())
    return nearest


def draw_token(total: Multiples, count: int, stream: Stream) -> int:
    """Draw a token with probability exactly equal to its share of the sum of `count` models' multiples."""
    reached = np.cumsum(total)
    if int(reached[-1]) != count * ONE:
        raise InternalError("probabilities do not add up to 1: this is a bug in dpcli, and no token was drawn")
    (place,) = uniform_integers(stream, limit=count * ONE, count=1)
    return int(np.searchsorted(reached, place, side="right"))


def sample_models(stream: Stream, count: int, rate: float) -> list[int]:
    """Draw the participating models, each independently with probability exactly `rate`, and return their numbers."""
    threshold = Fraction(rate) * WORD
    integer_part = int(threshold)
    drawn = []
    for number, word in enumerate(stream.words(count).tolist()):
        if word < integer_part or (word == integer_part and _bernoulli(stream, threshold - integer_part)):
            drawn.append(number)
    return drawn


def _bernoulli(stream: Stream, rate: Fraction) -> bool:
    """Return True with exactly this probability, below 1. A uniform fraction is compared with it, one word at a time."""
    while rate > 0:
        rate *= WORD
        integer_part, word = int(rate), int(stream.words(1)[0])
        if word != integer_part:
            return word < integer_part
        rate -= integer_part
    return False
