"""Statistical tests of a replay's noise. Each bounds the probability that noise as declared looks as bad as the measured noise.

Too much noise costs no privacy. So a size is only tested for being too small, and shapes are tested after each tensor is rescaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.lazy import lazy
from dpcli.base.rounding import up
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import special
else:
    special = lazy("scipy.special")


SINGLE_PRECISION = 2.0**-23  # relative resolution of sums in single precision


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Noise over its declared standard deviation; under the claim every number in it is an independent N(0, s^2), s >= 1, s of a tensor.

    Attributes:
        tensors: Noise by tensor name, (draws, numbers): one row for each step of each run.
        positions: The step of each row in its run, from 0.
        resolution: How finely the numbers are known, as they may be the difference of sums in single precision.
    """

    tensors: Mapping[str, Array]
    positions: NDArray[np.intp]
    resolution: float

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.positions)

    @property
    def width(self) -> int:
        """Return the number of numbers in a row."""
        return sum(values.shape[1] for values in self.tensors.values())

    def scaled(self) -> Draws:
        """Return each tensor divided by its root mean square, so that tests of shape do not depend on size."""
        sizes = {name: float(np.sqrt(np.mean(np.square(values)))) or 1.0 for name, values in self.tensors.items()}
        tensors = {name: values / sizes[name] for name, values in self.tensors.items()}
        return Draws(tensors, self.positions, self.resolution / min(sizes.values()))

    def first_columns(self, width: int) -> Array:
        """Return the first numbers of every tensor, (draws, about `width`), as many of each as there is room for."""
        room, parts = width, []
        for left, values in zip(
            range(len(self.tensors), 0, -1), sorted(self.tensors.values(), key=lambda values: values.shape[1]), strict=True
        ):
            parts.append(values[:, : max(1, room // left)])
            room -= parts[-1].shape[1]
        return np.concatenate(parts, axis=1)

    def parts(self) -> Iterator[tuple[str, Array]]:
        """Yield all tensors joined, if there are several, and then each tensor with its name."""
        if len(self.tensors) > 1:
            yield "all together", np.concatenate(list(self.tensors.values()), axis=1)
        yield from self.tensors.items()


def draws_of(runs: Sequence[Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]], std: float, fresh: bool) -> Draws | None:
    """Return the noise of all steps with finite numbers; None if names or sizes differ between steps, or no step remains.

    Args:
        runs: Steps of each run, each with (sums, noise) by name.
        std: Declared standard deviation.
        fresh: Steps are independent. If not, only the first step of each run is used.
    """
    rows = [(i, *step) for run in runs for i, step in enumerate(run if fresh else run[:1]) if _finite(step)]
    shapes = [{name: np.size(value) for name, value in noise.items()} for _, _, noise in rows]
    if not rows or not shapes[0] or any(shape != shapes[0] for shape in shapes) or not sum(shapes[0].values()):
        return None
    names = [name for name, size in shapes[0].items() if size]
    tensors = {name: np.stack([np.ravel(noise[name]) for _, _, noise in rows]) / std for name in names}
    largest = max(
        float(np.max(np.abs(np.asarray(value)), initial=0.0)) for _, *tables in rows for table in tables for value in table.values()
    )
    return Draws(tensors, np.array([i for i, _, _ in rows], dtype=np.intp), SINGLE_PRECISION * largest / std)


def _finite(step: tuple[Mapping[str, Array], Mapping[str, Array]]) -> bool:
    """Check whether all numbers of a step are finite; another check reports those that are not."""
    return all(bool(np.all(np.isfinite(value))) for table in step for value in table.values())


FOUND = 0.9  # probability with which a fault of the stated size would have been found
PAIRED_NUMBERS = 4096  # numbers of a tensor that are compared in pairs
FINEST_CELL = 2.0**-14  # standard deviations: numbers in one cell of this width count as equal
MOST_NUMBERS = 2**24  # numbers that are compared at once
MOST_LAGS = 16  # distances of steps, and of coordinates, at which correlation is tested
HALF_NORMAL_SQUARED = 0.5641895835  # integral of the half normal density squared: 1 / sqrt(pi)
HALF_NORMAL_CUBED = 0.3675525969  # and cubed: 2 / (sqrt(3) pi)


class Look(NamedTuple):
    """A number that a test looks at.

    Attributes:
        p: The probability that noise as declared looks as bad.
        where: What it is, in words.
    """

    p: float
    where: str


@dataclass(frozen=True, slots=True)
class Statistic:
    """A test.

    Attributes:
        p: At most the probability that noise as declared gives this or worse.
        power: The fault it would find, by its level.
    """

    name: str
    p: float
    message: str
    power: Callable[[float], str]


def statistics(draws: Draws) -> Iterator[Statistic]:
    """Yield every test of the noise."""
    scaled = draws.scaled()
    yield size(draws)
    yield size_over_time(draws)
    yield size_by_coordinate(draws)
    yield mean(scaled)
    yield shape(scaled)
    yield tails(scaled)
    yield precision(scaled)
    yield coordinates(draws, scaled)
    yield steps(scaled)


def _worst(looks: list[Look], more: int = 0) -> Look:
    """Return the look with the smallest p, corrected for the number of looks (Bonferroni).

    Args:
        more: Looks that are not in the list.
    """
    least = min(looks)
    return Look(min(1.0, least.p * (len(looks) + more)), least.where)


def _worse(first: Look, second: Look) -> Look:
    """Return the worse of two looks that share a level equally."""
    return min(Look(min(1.0, 2.0 * first.p), first.where), Look(min(1.0, 2.0 * second.p), second.where))


def chi_square(squares: Array | float, count: Array | float) -> Array:
    """Return P(chi-square of `count` degrees of freedom <= squares)."""
    return np.asarray(special.gammainc(0.5 * np.asarray(count, dtype=float), 0.5 * np.asarray(squares, dtype=float)))


def detectable_factor(count: int, level: float) -> float:
    """Return the factor by which smaller noise is found with probability FOUND among `count` numbers, by a test at this level."""
    least, usual = float(special.gammaincinv(0.5 * count, level)), float(special.gammaincinv(0.5 * count, FOUND))
    return math.sqrt(usual / least) if least > 0.0 else math.inf


def _detectable_noise(count: int, level: float) -> str:
    factor = detectable_factor(count, level)
    return f"noise / {up(factor, 3)}" if factor < 1e4 else "no smaller noise"


def size(draws: Draws) -> Statistic:
    """Test the size of each tensor, over all steps (chi-square)."""
    looks, sizes = [], {}
    for name, values in draws.parts():
        squares = float(np.square(values).sum())
        sizes[name] = (math.sqrt(squares / values.size), values.size)
        looks.append(Look(float(chi_square(squares, values.size)), name))
    p, where = _worst(looks)
    measured, count = sizes[where]
    smallest = min(n for _, n in sizes.values())

    def power(level: float) -> str:
        share = level / len(looks)
        return f"{_detectable_noise(smallest, share)} in any tensor, {_detectable_noise(draws.count * draws.width, share)} in all"

    return Statistic("size of the noise", p, f"{measured:.6g} times as declared in {where}, over {count:,} draws", power)


def size_over_time(draws: Draws) -> Statistic:
    """Test the size of each step, and of each span of 2, 4, 8, ... positions over all runs, to find noise that fades."""
    squares = np.sum([np.square(values).sum(axis=1) for values in draws.tensors.values()], axis=0)
    steps = int(draws.positions.max()) + 1
    by_step, times = np.zeros(steps), np.zeros(steps)
    np.add.at(by_step, draws.positions, squares)
    np.add.at(times, draws.positions, draws.width)
    looks = [
        Look(float(p), f"one of the steps {int(at) + 1}")
        for p, at in zip(chi_square(squares, draws.width), draws.positions, strict=True)
    ]
    length = 1
    while length < steps:
        for start in range(0, steps, length):
            stop = min(start + length, steps)
            where = f"steps {start + 1} to {stop}" if length > 1 else f"all steps {start + 1}"
            looks.append(Look(float(chi_square(by_step[start:stop].sum(), times[start:stop].sum())), where))
        length *= 2
    p, where = _worst(looks)
    return Statistic(
        "size of the noise over time",
        p,
        f"least in {where}",
        lambda level: f"{_detectable_noise(draws.width, level / len(looks))} in one step",
    )


def size_by_coordinate(draws: Draws) -> Statistic:
    """Test the size of each number of each tensor over all steps."""
    looks = []
    for name, values in draws.tensors.items():
        squares = np.square(values).sum(axis=0)
        at = int(squares.argmin())
        p = float(chi_square(squares[at], draws.count))
        looks.append(
            Look(p, f"{name}[{at}]: {math.sqrt(squares[at] / draws.count):.4g} times as declared, over {draws.count:,} draws")
        )
    p, where = _worst(looks, draws.width - len(looks))
    return Statistic(
        "size of the noise by coordinate",
        p,
        where,
        lambda level: f"{_detectable_noise(draws.count, level / draws.width)} in any one coordinate",
    )


def mean(draws: Draws) -> Statistic:
    """Test the mean of each tensor, of all, and of each coordinate over all steps (chi-square)."""
    looks = []
    for name, values in draws.parts():
        z = abs(float(values.sum())) / math.sqrt(values.size)
        looks.append(Look(math.erfc(z / math.sqrt(2.0)), f"{float(values.mean()):.3g} standard deviations in {name}"))
    lengths = sum(float(np.square(values.sum(axis=0)).sum()) for values in draws.tensors.values()) / draws.count
    away = math.sqrt(lengths / draws.width / draws.count)
    looks.append(Look(float(special.gammaincc(0.5 * draws.width, 0.5 * lengths)), f"{away:.3g} standard deviations a coordinate"))
    p, where = _worst(looks)
    total = draws.count * draws.width
    return Statistic(
        "mean of the noise",
        p,
        where,
        lambda level: f"{_detectable_errors(level / len(looks)) / math.sqrt(total):.2g} standard deviations",
    )


def _detectable_errors(level: float) -> float:
    """Return the distance of a mean, in standard errors, that is found with chance FOUND at this level, both sides."""
    return float(special.ndtri(FOUND) - special.ndtri(0.5 * level))


def shape(draws: Draws) -> Statistic:
    """Test that the numbers are Gaussian by the largest distance between the distribution functions (Kolmogorov-Smirnov).

    The p-value is 2 exp(-2 n d^2), which is valid for every n.

    Source: Massart 1990, Annals of Probability 18(3), 1269-1283.
    """
    looks, counts = [], []
    for name, values in draws.parts():
        ordered = np.sort(values, axis=None)
        n, expected = len(ordered), special.ndtr(ordered)
        ranks = np.arange(n + 1) / n
        apart = float(max((ranks[1:] - expected).max(), (expected - ranks[:-1]).max()))
        looks.append(
            Look(min(1.0, 2.0 * math.exp(-2.0 * n * apart * apart)), f"distribution {apart:.3g} away from a Gaussian's in {name}")
        )
        counts.append(n)
    p, where = _worst(looks)

    def power(level: float) -> str:
        away = (math.sqrt(0.5 * math.log(2.0 * len(looks) / level)) + 0.5 * float(special.ndtri(FOUND))) / math.sqrt(max(counts))
        return f"a distribution {away:.2g} away in all" if away < 0.5 else "no other distribution"

    return Statistic("distribution of the noise", p, where, power)


def tails(draws: Draws) -> Statistic:
    """Test the count of numbers beyond 1, 2, 3 and 4 standard deviations (binomial), and the largest number, in both directions."""
    looks, counts = [], []
    for name, values in draws.parts():
        sizes, n = np.abs(values), values.size
        counts.append(n)
        for at in (1.0, 2.0, 3.0, 4.0):
            beyond, rate = int((sizes > at).sum()), math.erfc(at / math.sqrt(2.0))
            few = float(special.betainc(n - beyond, beyond + 1, 1.0 - rate)) if beyond < n else 1.0
            many = float(special.betainc(beyond, n - beyond + 1, rate)) if beyond else 1.0
            looks.append(Look(min(1.0, 2.0 * min(few, many)), f"{beyond:,} of {n:,} beyond {at:g} standard deviations in {name}"))
        farthest = float(sizes.max())
        outside = math.erfc(farthest / math.sqrt(2.0))
        none_farther = math.exp(n * math.log1p(-outside)) if outside < 1.0 else 0.0
        looks.append(
            Look(
                min(1.0, 2.0 * min(none_farther, 1.0 - none_farther)),
                f"the farthest of {n:,} at {farthest:.4g} standard deviations in {name}",
            )
        )
    p, where = _worst(looks)

    def power(level: float) -> str:
        rate = math.log(2.0 * len(looks) / level) / max(counts)
        return f"noise clipped at {-float(special.ndtri(0.5 * rate)):.3g} standard deviations in all" if rate < 0.3 else "nothing"

    return Statistic("tails of the noise", p, where, power)


class Collisions(NamedTuple):
    """The number of pairs of columns whose absolute values fall into equal cells in every row, and the number expected by chance."""

    p: float
    pairs: int
    expected: float


def _collisions(rows: Array, cell: float) -> Collisions:
    """Count the pairs of columns that are equal up to sign."""
    m, n = rows.shape
    cells = np.floor(np.abs(rows) / cell).astype(np.int64)
    _, times = np.unique(cells, axis=1, return_counts=True) if m > 1 else np.unique(cells[0], return_counts=True)
    pairs = int((times.astype(float) * (times - 1)).sum() / 2)
    two, three = (HALF_NORMAL_SQUARED * cell) ** m, (HALF_NORMAL_CUBED * cell * cell) ** m
    expected = 0.5 * n * (n - 1) * two
    variance = expected * (1.0 - two) + n * (n - 1.0) * (n - 2.0) * max(three - two * two, 0.0)
    if not pairs:
        return Collisions(1.0, 0, expected)
    by_chance = float(special.gammainc(pairs, expected))  # probability that a Poisson number is as large
    wider = float(special.gammaincc(expected * expected / variance, (pairs - 0.5) * expected / variance))
    return Collisions(max(by_chance, wider if expected > 1.0 else 0.0), pairs, expected)


def _cell_width(draws: Draws, least: float = FINEST_CELL) -> float:
    """Return the width of a cell, in standard deviations, that the resolution of the numbers permits."""
    return min(max(least, 64.0 * draws.resolution), 1.0)


def precision(draws: Draws) -> Statistic:
    """Test for rounding, as by a short number format or a grid, by the number of pairs of nearly equal numbers."""
    cell, looks, counts = _cell_width(draws), [], []
    for name, values in draws.tensors.items():
        flat = values.reshape(-1)
        chosen = flat[np.linspace(0, len(flat) - 1, min(len(flat), PAIRED_NUMBERS)).astype(int)]
        p, pairs, expected = _collisions(chosen[None], cell)
        looks.append(Look(p, f"{pairs:,} pairs of equal numbers in {name}, {expected:.3g} expected"))
        counts.append(len(chosen))
    p, where = _worst(looks)

    def power(level: float) -> str:
        n = max(counts)
        expected = 0.5 * n * n * HALF_NORMAL_SQUARED * cell
        more = (-float(special.ndtri(level / len(looks))) + float(special.ndtri(FOUND))) * math.sqrt(expected + 1.0) + 1.0
        grid = (expected + more) / (0.5 * n * n * HALF_NORMAL_SQUARED)
        return f"rounding to {grid:.2g} standard deviations in the largest tensor" if grid < 1.0 else "no rounding"

    return Statistic("precision of the noise", p, where, power)


def coordinates(draws: Draws, scaled: Draws) -> Statistic:
    """Test that each coordinate has noise of its own: none repeats another up to sign, and neighbours are not correlated."""
    room = max(2, MOST_NUMBERS // 64)
    rows = draws.first_columns(room)  # not rescaled: a number that is used in two tensors is equal only before rescaling
    needed = 0.5 * rows.shape[1] ** 2
    cell = _cell_width(draws, 2.0**-10)
    used = min(draws.count, max(1, math.ceil(math.log(needed * 1e6) / -math.log(min(HALF_NORMAL_SQUARED * cell, 0.5)))))
    chosen = rows[np.linspace(0, draws.count - 1, used).astype(int)]
    p, pairs, expected = _collisions(chosen, cell) if rows.shape[1] > 1 else Collisions(1.0, 0, 0.0)
    looks = [Look(p, f"{pairs:,} pairs of coordinates have the same noise, {expected:.2g} expected")]
    rows = scaled.first_columns(room)
    for lag in range(1, min(MOST_LAGS, rows.shape[1] // 2) + 1):
        halves = rows[:, : rows.shape[1] // (2 * lag) * 2 * lag].reshape(draws.count, -1, 2, lag)
        looks.append(_correlation(halves[:, :, 0], halves[:, :, 1], f"coordinates {lag} apart"))
    # Repeated pairs and correlations are separate tests: each gets half of the level.
    least, where = _worse(looks[0], _worst(looks))
    half = rows.size // 2

    def power(level: float) -> str:
        repeated = "one number used twice, " if expected < 0.01 * level else ""
        return repeated + _detectable_correlation(half, level / (2 * len(looks)))

    return Statistic("noise of its own in each coordinate", least, where, power)


def _correlation(first: Array, second: Array, what: str) -> Look:
    """Return the cosine of two vectors as a look. Its p-value is exact, as the direction of a Gaussian vector is uniform."""
    a, b = first.reshape(-1), second.reshape(-1)
    cosine = float(a @ b) / max(math.sqrt(float(a @ a) * float(b @ b)), 1e-300)
    p = float(special.betainc(0.5 * (len(a) - 1), 0.5, max(0.0, 1.0 - cosine * cosine))) if len(a) > 1 else 1.0
    return Look(p, f"{what}: correlation {cosine:.3g}")


def _detectable_correlation(count: int, level: float) -> str:
    least = _detectable_errors(level) / math.sqrt(count) if count else 1.0
    return f"a correlation of {least:.2g}" if least < 1.0 else "no correlation"


def steps(draws: Draws) -> Statistic:
    """Test that each step has noise of its own: no two steps are correlated, nor all steps at a fixed distance."""
    looks: list[Look] = []
    for name, values in draws.tensors.items():
        for lag in range(1, min(MOST_LAGS, draws.count // 2) + 1):
            halves = values[: draws.count // (2 * lag) * 2 * lag].reshape(-1, 2, lag, values.shape[1])
            looks.append(_correlation(halves[:, 0], halves[:, 1], f"steps {lag} apart in {name}"))
    pairs = draws.count * (draws.count - 1) // 2
    rows = draws.first_columns(max(2, MOST_NUMBERS // max(1, draws.count)))
    closest = _closest_rows(rows) if pairs and rows.shape[1] > 1 else Look(1.0, "one step alone")
    by_lag = _worst(looks) if looks else Look(1.0, closest.where)
    least, where = _worse(Look(closest.p * max(1, pairs), closest.where), by_lag)
    return Statistic(
        "noise of its own in each step",
        least,
        where,
        lambda level: _detectable_correlation(rows.shape[1], level / max(1, 2 * pairs)) + " of two steps",
    )


def _closest_rows(rows: Array) -> Look:
    """Return the correlation of the two most correlated rows."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    cosines = np.abs(np.triu(unit @ unit.T, 1))
    i, j = (int(k) for k in np.unravel_index(int(cosines.argmax()), cosines.shape))
    return _correlation(rows[i], rows[j], f"draws {i + 1} and {j + 1}")
