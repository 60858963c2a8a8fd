"""A search on a grid of numbers for the cheapest value that meets a target, and the next cheaper one, which misses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dpcli.base.errors import CannotCertify
from dpcli.numerics.work import exhausted

DIGITS = 7  # significant digits of an answer
DECADE: int = 9 * 10 ** (DIGITS - 1)  # decimals of that many digits between two powers of ten
FEWEST_STEPS = 256  # at which a search for steps begins at least, as fewer take more work each
WIDENING = 4  # ratio from one whole number that is tried to the next, until the target lies between
MOST_REFUSALS = 4  # values in a row without a bound, beyond which the search goes no further away
MOST_HALVINGS = 6  # of the distance beyond a value without a bound


class Boundary(NamedTuple):
    """The boundary of what meets a target.

    value: the cheapest that meets it. cheaper: the nearest that was seen to miss it, None if the grid ends.
    adjacent: whether no value of the grid lies between.
    """

    value: float
    cheaper: float | None
    adjacent: bool


class SearchPoint(NamedTuple):
    """An index of the grid, and the bound there; inf if there is none."""

    place: int
    bound: float


class WholeNumbers:
    """The whole numbers from 1 on."""

    first, last = 1, 10**18
    stride: int | None = None

    def value(self, index: int) -> float:
        return index

    def index(self, value: float) -> int:
        return int(value)


class Decimals:
    """The decimals of DIGITS significant digits from 1e-9 to 1e12; index 0 is 1e-20."""

    stride: int | None = DECADE // 4

    def __init__(self) -> None:
        self.first, self.last = self.index(1e-9), self.index(1e12)

    def value(self, index: int) -> float:
        exponent, mantissa = divmod(index, DECADE)
        return float(f"{mantissa + 10 ** (DIGITS - 1)}e{exponent - 20 - DIGITS + 1}")

    def index(self, value: float) -> int:
        """Return the index of the largest decimal that is at most the value."""
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
    """Return the boundary. Raises CannotCertify if no value of the grid meets the target.

    Args:
        bound: of the quantity at a value; inf if a value is refused, which implies nothing about other values.
        largest: the largest value.
        stated: the value in the file, at which a search for whole numbers begins.
    """
    lowered = parameter in ("noise", "scale")  # a cheaper value is a smaller one
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
            f"no {parameter} {reach} brings {quantity} to {target:g}: the rest of the pipeline, or one step alone, costs more"
        )
    if misses is None:
        return Boundary(grid.value(meets), None, meets == (grid.first if lowered else last))
    while abs(meets - misses) > 1 and not exhausted():  # fewer digits if each attempt takes much work
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
    """Yield indices from `start` to an end of the grid: of whole numbers WIDENING times the one before, else in doubling strides."""
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
    """Return two indices, one that meets the target and one that misses it; None for an end that the grid does not reach.

    safer: the direction in which the bound falls. An infinite bound may be a refusal of this one value: the walk goes past it.
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
    """Return the first attempt with a bound between a refused index and the one that misses; the refusal if there is none."""
    for halvings in range(1, MOST_HALVINGS + 1):
        index = misses - (misses - refused) // 2**halvings
        if index != misses:
            result = bound_at(index)
            if result < math.inf:
                return SearchPoint(index, result)
    return SearchPoint(refused, math.inf)


def _secant(attempts: list[SearchPoint], grid: Grid, target: float, meets: int, misses: int) -> int:
    """Return an index strictly between: where the secant of log bound over log value, through the two nearest points, meets the target.

    If that is at an end or beyond, an index near the end, at a distance that doubles with late attempts. Every eighth attempt is the
    middle, so that the bracket closes whatever the function does.
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
