"""A search on a grid of numbers for the cheapest value that meets a target, and for the next cheaper value, which misses the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dpcli.base.errors import CannotCertify
from dpcli.numerics.work import exhausted

DIGITS = 7  # significant digits of an answer
DECADE: int = 9 * 10 ** (DIGITS - 1)  # number of decimals with DIGITS digits between two successive powers of ten
FEWEST_STEPS = 256  # smallest start of a search for steps; bounds for fewer steps take more work
WIDENING = 4  # ratio of successive whole numbers that are tried until the target is bracketed
MOST_REFUSALS = 4  # after more successive values without a bound, the search stops moving away from its start
MOST_HALVINGS = 6  # largest number of points tried between a value without a bound and a value that misses the target


class Boundary(NamedTuple):
    """The boundary between values that meet a target and values that miss it.

    value: the cheapest value that meets the target.
    cheaper: the nearest cheaper value that is known to miss the target; None if there is none.
    adjacent: True if no value of the grid lies between `value` and `cheaper`, or beyond `value` if `cheaper` is None.
    """

    value: float
    cheaper: float | None
    adjacent: bool


class SearchPoint(NamedTuple):
    """An index of the grid, and the bound at its value; inf if no bound is certified."""

    place: int
    bound: float


class WholeNumbers:
    """The grid of whole numbers from 1 to 10^18. The index of a number is the number itself."""

    first, last = 1, 10**18
    stride: int | None = None

    def value(self, index: int) -> float:
        return index

    def index(self, value: float) -> int:
        return int(value)


class Decimals:
    """The grid of decimals with DIGITS significant digits from 1e-9 to 1e12. Index 0 stands for 1e-20."""

    stride: int | None = DECADE // 4

    def __init__(self) -> None:
        self.first, self.last = self.index(1e-9), self.index(1e12)

    def value(self, index: int) -> float:
        exponent, mantissa = divmod(index, DECADE)
        return float(f"{mantissa + 10 ** (DIGITS - 1)}e{exponent - 20 - DIGITS + 1}")

    def index(self, value: float) -> int:
        """Return the index of the largest decimal <= value."""
        digits, exponent = f"{value:.{DIGITS + 10}e}".split("e")
        mantissa = int(digits.replace(".", "")[:DIGITS])
        return (int(exponent) + 20) * DECADE + mantissa - DECADE // 9


Grid = WholeNumbers | Decimals


def search(
    bound: Callable[[float], float],
    target: float,
    parameter: str,
    largest: float,
    stated: float | None = None,
    quantity: str = "epsilon",
) -> Boundary:
    """Return the boundary of the values that meet a target.

    Args:
        bound: function that returns the bound on the quantity at a value. It returns inf if a value is refused, which implies nothing about
            other values.
        target: largest bound that meets the target.
        parameter: name of the parameter, as for `calibrate`.
        largest: largest value of the parameter.
        stated: value in the file, at which a search for whole numbers begins.
        quantity: name of the quantity in messages.

    Raises:
        CannotCertify: no value of the grid meets the target.
    """
    lowered = parameter in ("noise", "scale")  # whether a smaller value is cheaper
    counted = parameter in ("steps", "batch-size")
    grid: Grid = WholeNumbers() if counted else Decimals()
    last = grid.index(largest) if math.isfinite(largest) else grid.last
    if counted:
        start = max(FEWEST_STEPS if parameter == "steps" else 1, grid.index(stated or 1.0))
    else:
        start = grid.index(1e-3 if parameter in ("rate", "epochs") else 1.0)
    attempts: list[SearchPoint] = []

    def bound_at(index: int) -> float:
        attempts.append(SearchPoint(index, bound(grid.value(index))))
        return attempts[-1].bound

    safer = 1 if lowered else -1
    meets, misses = _bracket(bound_at, target, min(max(start, grid.first), last), safer, grid, last)
    if meets is None:
        reach = f"between {grid.value(grid.first):g} and {grid.value(last):g}"
        raise CannotCertify(
            f"no {parameter} {reach} meets {quantity} = {target:g}: the rest of the pipeline, or a single step, costs more"
        )
    if misses is None:
        return Boundary(grid.value(meets), None, meets == (grid.first if lowered else last))
    while abs(meets - misses) > 1 and not exhausted():  # if attempts take much work, the answer has fewer digits
        index = _secant(attempts, grid, target, meets, misses)
        result = bound_at(index)
        if math.isinf(result):
            index, result = _past_refusal(bound_at, index, misses)
        if result <= target:
            meets = index
        else:
            misses = index
    return Boundary(grid.value(meets), grid.value(misses), abs(meets - misses) <= 1)


def _away(start: int, direction: int, grid: Grid, last: int) -> Iterator[int]:
    """Yield indices that move away from `start` to an end of the grid.

    Whole numbers change by a factor of WIDENING. Indices of decimals change by strides that double.
    """
    index, stride = start, grid.stride
    end = last if direction > 0 else grid.first
    while index != end:
        if stride is None:
            index = min(index * WIDENING, end) if direction > 0 else max(index // WIDENING, end)
        else:
            index = min(max(index + direction * stride, grid.first), last)
            stride *= 2
        yield index


def _bracket(
    bound_at: Callable[[int], float], target: float, start: int, safer: int, grid: Grid, last: int
) -> tuple[int | None, int | None]:
    """Return an index that meets the target and an index that misses it. Either is None if the grid ends before.

    An infinite bound may be a refusal of a single value, so the search continues beyond it.

    safer: the direction of indices, 1 or -1, in which the bound falls.
    """
    result = bound_at(start)
    meets, misses = (start, None) if result <= target else (None, start if result < math.inf else None)
    if meets is None:
        for index in _away(start, safer, grid, last):
            result = bound_at(index)
            if result <= target:
                meets = index
                break
            misses = index if result < math.inf else misses
    if misses is not None:
        return meets, misses
    refused = [] if meets == start else [start]
    for index in _away(start, -safer, grid, last):
        result = bound_at(index)
        if result <= target:
            meets, refused = index, []
        elif result < math.inf:
            return meets, index
        else:
            refused.append(index)
        if len(refused) > MOST_REFUSALS or exhausted():
            break
    return meets, refused[0] if refused else None


def _past_refusal(bound_at: Callable[[int], float], refused: int, misses: int) -> SearchPoint:
    """Return the first attempt with a finite bound between a refused index and the index that misses; the refused point if none has."""
    for halvings in range(1, MOST_HALVINGS + 1):
        index = misses - (misses - refused) // 2**halvings
        if index != misses:
            result = bound_at(index)
            if result < math.inf:
                return SearchPoint(index, result)
    return SearchPoint(refused, math.inf)


def _secant(attempts: list[SearchPoint], grid: Grid, target: float, meets: int, misses: int) -> int:
    """Return the next index to try, strictly between `meets` and `misses`.

    The secant of log bound over log value, through the two attempts nearest to the target, gives the index. If it lies at an end of the
    bracket or beyond, an index near that end is returned; its distance from the end doubles with each late attempt. Every eighth attempt is
    the middle of the bracket, so the bracket shrinks for every function.
    """
    middle, inward = (meets + misses) // 2, 1 if misses > meets else -1
    logs = [(math.log(attempt.bound / target), attempt.place) for attempt in attempts if 0.0 < attempt.bound < math.inf]
    nearest = sorted((abs(log), index, log) for log, index in logs)[:2]
    if len(attempts) % 8 == 0 or len(nearest) < 2 or nearest[0][2] == nearest[1][2]:
        return middle
    (_, i, f), (_, j, g) = nearest
    x, y = math.log(grid.value(i)), math.log(grid.value(j))
    root = min(max(x - f * (y - x) / (g - f), -700.0), 700.0)
    reach = 1 << max(len(attempts) - 12, 0)
    low, high = sorted(
        (meets + inward * min(reach, abs(middle - meets) or 1), misses - inward * min(reach, abs(middle - misses) or 1))
    )
    return min(max(grid.index(math.exp(root)), low), high)
