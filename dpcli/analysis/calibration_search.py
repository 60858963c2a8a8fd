"""A search on a grid of numbers for the cheapest value that meets a target, and for the nearest cheaper value that misses it.

calibrate.py calls `search` with the bound on epsilon, or on another quantity, as a function of the value. The grid has the numbers with
seven significant digits or, for a count, the whole numbers; an *index* is the position of a number in the grid. A value *meets* the target
if its upper bound was computed and is small enough; a value without a bound misses it. The search brackets the boundary and then narrows it
by interpolation and halving. It may stop early and report a gap (`Boundary.adjacent` is False), but the value that it returns always meets
the target. So the constants below touch speed and how cheap the answer is; they cannot make an answer that misses the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dpcli.base.errors import CannotCertify
from dpcli.numerics.work import exhausted

DIGITS = 7  # significant digits of an answer; arbitrary
FIRST_MANTISSA: int = 10 ** (DIGITS - 1)  # smallest whole number with DIGITS digits
DECADE = 9 * FIRST_MANTISSA  # number of decimals with DIGITS digits between two successive powers of ten
LOWEST_DECADE = -20  # power of ten at index 0 of the decimals; it is below all values of the grid
FEWEST_STEPS = 256  # smallest start of a search for steps, since bounds for fewer steps take more work
# The numbers down to FIRST_ATTEMPTS are arbitrary. They touch the number of attempts, each of which is an account, and how far the search
# looks beyond values without a bound.
WIDENING = 4  # ratio of successive whole numbers that are tried until the target is bracketed
MOST_REFUSALS = 4  # after more successive values without a bound, the search stops moving away from its start
MOST_HALVINGS = 6  # largest number of points tried between a value without a bound and a value that misses the target
HALVING_PERIOD = 8  # each attempt with a number that is a multiple of this is the middle of the bracket
FIRST_ATTEMPTS = 12  # after this many attempts, the smallest step from an end of the bracket doubles with each attempt
LARGEST_EXPONENT = 700.0  # e^x is finite and positive for |x| up to this


class Boundary(NamedTuple):
    """The boundary between values that meet a target and values that miss it.

    value: the cheapest value that meets the target.
    cheaper: the nearest cheaper value that is known to miss the target; None if there is none.
    adjacent: True if no value of the grid lies between `value` and `cheaper`, or beyond `value` if `cheaper` is None.
    """

    value: float
    cheaper: float | None
    adjacent: bool


def search(
    bound: Callable[[float], float],
    target: float,
    parameter: str,
    largest: float,
    stated: float | None = None,
    quantity: str = "epsilon",
) -> Boundary:
    """Return the boundary of the values that meet a target.

    bound: function that returns the bound on the quantity at a value. It returns inf if a value is refused, which implies nothing about
        other values.
    target: largest bound that meets the target.
    parameter: name of the parameter, such as "noise" or "steps".
    largest: largest value that the parameter may have; inf if there is no limit.
    stated: value in the file, at which a search for whole numbers begins.
    quantity: name of the quantity in messages.

    Raises CannotCertify if no value of the grid meets the target.
    """
    smaller_is_cheaper = parameter in ("noise", "scale")
    grid: Grid = WholeNumbers() if parameter in ("steps", "batch-size") else Decimals()
    last = grid.index(largest) if math.isfinite(largest) else grid.last  # the last index that the search may try
    start = min(max(_start(parameter, grid, stated), grid.first), last)
    attempts: list[SearchPoint] = []

    def bound_at(index: int) -> float:
        attempts.append(SearchPoint(index, bound(grid.value(index))))
        return attempts[-1].bound

    meets, misses = _bracket(bound_at, target, start, grid, last, safer=1 if smaller_is_cheaper else -1)
    if meets is None:
        reach = f"between {grid.value(grid.first):g} and {grid.value(last):g}"
        raise CannotCertify(
            f"no {parameter} {reach} meets {quantity} = {target:g}: the rest of the pipeline, or a single step, costs more"
        )
    if misses is None:
        return Boundary(grid.value(meets), None, meets == (grid.first if smaller_is_cheaper else last))
    while abs(meets - misses) > 1 and not exhausted():  # if attempts take much work, the answer has fewer digits
        index = _next_index(attempts, grid, target, meets, misses)
        result = bound_at(index)
        if math.isinf(result):  # accountants may refuse this value alone, so values between it and `misses` are tried
            index, result = _past_refusal(bound_at, index, misses)
        if result <= target:
            meets = index
        else:
            misses = index
    return Boundary(grid.value(meets), grid.value(misses), abs(meets - misses) <= 1)


class IndexBracket(NamedTuple):
    """An index whose value meets the target, and one whose value misses it; None if none is known."""

    meets: int | None
    misses: int | None


class SearchPoint(NamedTuple):
    """An index of the grid, and the bound at its value; inf if no bound is certified."""

    position: int  # a field `index` would hide the method of tuples
    bound: float


class WholeNumbers:
    """The grid of whole numbers from 1 to 10^18. The index of a number is the number itself."""

    first, last = 1, 10**18
    stride: int | None = None  # numbers change by factors and not by strides

    def value(self, index: int) -> float:
        return index

    def index(self, value: float) -> int:
        return int(value)


class Decimals:
    """The grid of decimals with DIGITS significant digits from 1e-9 to 1e12. Index 0 stands for 10^LOWEST_DECADE."""

    stride: int | None = DECADE // 4  # length of the first move away from the start of a search, in indices

    def __init__(self) -> None:
        self.first, self.last = self.index(1e-9), self.index(1e12)

    def value(self, index: int) -> float:
        exponent, mantissa = divmod(index, DECADE)
        return float(f"{mantissa + FIRST_MANTISSA}e{exponent + LOWEST_DECADE - DIGITS + 1}")

    def index(self, value: float) -> int:
        """Return the index of the largest decimal <= value."""
        digits, exponent = f"{value:.{DIGITS + 10}e}".split("e")
        mantissa = int(digits.replace(".", "")[:DIGITS])
        return (int(exponent) - LOWEST_DECADE) * DECADE + mantissa - FIRST_MANTISSA


Grid = WholeNumbers | Decimals


def _start(parameter: str, grid: Grid, stated: float | None) -> int:
    """Return the index at which a search begins: the stated count, or a usual rate, number of epochs or noise."""
    match parameter:
        case "steps":
            return max(FEWEST_STEPS, grid.index(stated or 1.0))
        case "batch-size":
            return max(1, grid.index(stated or 1.0))
        case "rate" | "epochs":
            return grid.index(1e-3)
    return grid.index(1.0)


def _bracket(bound_at: Callable[[int], float], target: float, start: int, grid: Grid, last: int, safer: int) -> IndexBracket:
    """Return indices between which the boundary lies. Either is None if the grid ends before it is reached.

    The search first moves to safer values until one meets the target. If none of the values before it was seen to miss, it moves from the
    start to cheaper values until one misses. An infinite bound may be a refusal of a single value, so the search continues beyond it. If
    it ends among refused values, the first of them counts as the one that misses.

    safer: the direction of indices, 1 or -1, in which the bound falls.
    """
    meets: int | None = None
    misses: int | None = None
    refused: list[int] = []  # the refused values that were tried, from the start on, after the last value that meets
    for index in (start, *_away(start, safer, grid, last)):
        result = bound_at(index)
        if result <= target:
            meets = index
            break
        if result < math.inf:
            misses = index
    if misses is not None:
        return IndexBracket(meets, misses)
    if meets != start:
        refused.append(start)
    for index in _away(start, -safer, grid, last):
        result = bound_at(index)
        if result <= target:
            meets, refused = index, []
        elif result < math.inf:
            return IndexBracket(meets, index)
        else:
            refused.append(index)
        if len(refused) > MOST_REFUSALS or exhausted():
            break
    return IndexBracket(meets, refused[0] if refused else None)


def _away(start: int, direction: int, grid: Grid, last: int) -> Iterator[int]:
    """Yield indices that move away from `start` to an end of the grid.

    Whole numbers change by a factor of WIDENING. Indices of decimals change by strides that double.
    """
    index, stride = start, grid.stride
    end = last if direction > 0 else grid.first
    while index != end:
        if stride is not None:
            index = min(max(index + direction * stride, grid.first), last)
            stride *= 2
        elif direction > 0:
            index = min(index * WIDENING, end)
        else:
            index = max(index // WIDENING, end)
        yield index


def _past_refusal(bound_at: Callable[[int], float], refused: int, misses: int) -> SearchPoint:
    """Return the first attempt with a finite bound between a refused index and the index that misses; the refused point if none has.

    The attempts halve the distance to the index that misses.
    """
    for halvings in range(1, MOST_HALVINGS + 1):
        index = misses - (misses - refused) // 2**halvings
        if index != misses:
            result = bound_at(index)
            if result < math.inf:
                return SearchPoint(index, result)
    return SearchPoint(refused, math.inf)


def _next_index(attempts: list[SearchPoint], grid: Grid, target: float, meets: int, misses: int) -> int:
    """Return the next index to try, strictly between `meets` and `misses`.

    The secant of log bound over log value, through the two attempts nearest to the target, gives the index. If it lies at an end of the
    bracket or beyond, an index near that end is returned; its distance from the end doubles with each late attempt. Regularly an attempt is
    the middle of the bracket, so the bracket shrinks for every function.
    """
    middle = (meets + misses) // 2
    root = _secant_root(attempts, grid, target)
    if root is None or len(attempts) % HALVING_PERIOD == 0:
        return middle
    smallest_step = 1 << max(len(attempts) - FIRST_ATTEMPTS, 0)
    inward = 1 if misses > meets else -1
    next_to_meets = meets + inward * min(smallest_step, abs(middle - meets) or 1)
    next_to_misses = misses - inward * min(smallest_step, abs(middle - misses) or 1)
    low, high = sorted((next_to_meets, next_to_misses))
    return min(max(grid.index(root), low), high)


def _secant_root(attempts: list[SearchPoint], grid: Grid, target: float) -> float | None:
    """Return the value at which the secant through the two attempts nearest to the target meets it; None if there is no such secant."""
    bounded = [attempt for attempt in attempts if 0.0 < attempt.bound < math.inf]
    log_excesses = [(math.log(attempt.bound / target), attempt.position) for attempt in bounded]
    # Equally near attempts are ordered by position, so that every run chooses the same two.
    nearest = sorted(log_excesses, key=lambda pair: (abs(pair[0]), pair[1], pair[0]))[:2]
    if len(nearest) < 2:
        return None
    (f, i), (g, j) = nearest
    if f == g:
        return None
    x, y = math.log(grid.value(i)), math.log(grid.value(j))
    root = x - f * (y - x) / (g - f)
    return math.exp(min(max(root, -LARGEST_EXPONENT), LARGEST_EXPONENT))
