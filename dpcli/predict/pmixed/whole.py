"""Probabilities as whole multiples of 2^-50, and a token drawn from their average by whole numbers alone.

The guarantee is about the distribution that tokens are drawn from, and not about one that rounding keeps near it: every model's multiples
add up to 2^50 exactly, each lies within the radius of the public model's, and sums, shares and draws are exact. What rounding does to a
projection changes only which distribution within the radius it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pmixed.project import Ball
from dpcli.random.streams import Stream
from dpcli.random.subsets import below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Multiples = NDArray[np.int64]

ONE = 2**50  # multiples of a model's 4096 at most add up to less than 2^63
WORD = 2**64


@dataclass(frozen=True, slots=True)
class WholeBall:
    """What multiples of 2^-50 may be for each token, (vocabulary,) whole numbers in float64.

    public: of the public model; they add up to 2^50. low, high: of every projected model, e^-radius and e^radius times the public ones,
    rounded inwards; the public ones lie between.
    """

    public: Array
    low: Array
    high: Array

    def rounded(self, projected: Array) -> Multiples:
        """Multiples within the bounds, near a projected model's, that add up to 2^50; what rounding leaves over goes where room is."""
        found = np.multiply(projected, float(ONE))
        np.rint(found, out=found)
        np.clip(found, self.low, self.high, out=found)
        self._fill(found)
        whole: Multiples = found.astype(np.int64)
        if int(whole.sum()) != ONE:
            raise InternalError("probabilities that do not add up to 1: this is a bug in dpcli, and no token")
        return whole

    def _fill(self, found: Array) -> None:
        left = ONE - int(found.sum())  # exact: whole numbers below 2^53 (a projection adds up to 1, all but its rounding)
        bound = self.high if left > 0 else self.low
        place = int(np.argmax(bound - found if left > 0 else found - bound))
        if abs(left) <= abs(float(bound[place] - found[place])):
            found[place] += left
            return
        room = np.abs(bound - found)  # rare: most to the tokens with most room
        order = np.argsort(-room, kind="stable")
        before = np.cumsum(room[order]) - room[order]
        found[order] += np.sign(left) * np.clip(abs(left) - before, 0.0, room[order])


def whole_ball(ball: Ball) -> WholeBall:
    """The public model's multiples, and the bounds that its ball puts on others. A token below 2^-51 has none, whatever models say."""
    public = np.floor(ball.public * ONE)
    public[int(np.argmax(public))] += ONE - int(public.sum())
    return WholeBall(public, np.ceil(public * ball.low), np.floor(public * ball.high))


def multiples(probabilities: Array) -> Multiples:
    """Of one distribution, without bounds: the published protocol has none."""
    found: Multiples = np.floor(probabilities * (ONE / probabilities.sum())).astype(np.int64)
    found[int(np.argmax(found))] += ONE - int(found.sum())
    return found


def drawn(total: Multiples, count: int, stream: Stream) -> int:
    """A token, with probability its share of the sum of `count` models' multiples: exactly."""
    reached = np.cumsum(total)
    if int(reached[-1]) != count * ONE:
        raise InternalError("probabilities that do not add up to 1: this is a bug in dpcli, and no token")
    return int(np.searchsorted(reached, below(stream, count * ONE, 1)[0], side="right"))


def sampled(stream: Stream, count: int, rate: float) -> list[int]:
    """The models that take part: each with probability `rate`, exactly the number that the file states, independently."""
    exact = Fraction(rate) * WORD
    first = int(exact)
    words = stream.words(count).tolist()
    return [place for place, word in enumerate(words) if word < first or (word == first and _happens(stream, exact - first))]


def _happens(stream: Stream, rate: Fraction) -> bool:
    """Whether an event of this probability, below 1, happens: a binary fraction is compared with it, a word at a time."""
    while rate > 0:
        rate *= WORD
        first, word = int(rate), int(stream.words(1)[0])
        if word != first:
            return word < first
        rate -= first
    return False
