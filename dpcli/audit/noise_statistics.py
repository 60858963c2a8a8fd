"""Statistical tests of the noise of a replay. A p-value bounds the probability that the declared noise looks as bad as the measured noise.

Too much noise costs no privacy. The size of the noise is therefore tested only for being too small. The shape of its distribution is tested
after each tensor has been rescaled.
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
    """Noise divided by its declared standard deviation. If the claim is true, all numbers are independent and Gaussian.

    The numbers of a tensor then have mean 0 and a common standard deviation of at least 1.

    Attributes:
        tensors: Noise by tensor name, as arrays of shape (draws, numbers) with one row for each step of each run.
        positions: Step of each row in its run, from 0.
        resolution: Resolution of the numbers, which may be differences of sums in single precision.
    """

    tensors: Mapping[str, Array]
    positions: NDArray[np.intp]
    resolution: float

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.positions)

    @property
    def width(self) -> int:
        """The number of numbers in a row, over all tensors."""
        return sum(values.shape[1] for values in self.tensors.values())

    def scaled(self) -> Draws:
        """Return each tensor divided by its root mean square, so that tests of shape do not depend on size."""
        sizes = {name: float(np.sqrt(np.mean(np.square(values)))) or 1.0 for name, values in self.tensors.items()}
        tensors = {name: values / sizes[name] for name, values in self.tensors.items()}
        return Draws(tensors, self.positions, self.resolution / min(sizes.values()))

    def first_columns(self, width: int) -> Array:
        """Return an array of shape (draws, about `width`) with the first numbers of every tensor, in shares as equal as possible."""
        room, parts = width, []
        for left, values in zip(
            range(len(self.tensors), 0, -1), sorted(self.tensors.values(), key=lambda values: values.shape[1]), strict=True
        ):
            parts.append(values[:, : max(1, room // left)])
            room -= parts[-1].shape[1]
        return np.concatenate(parts, axis=1)

    def parts(self) -> Iterator[tuple[str, Array]]:
        """Yield names and arrays. If there are several tensors, the first array joins all of them. The others are the single tensors."""
        if len(self.tensors) > 1:
            yield "all together", np.concatenate(list(self.tensors.values()), axis=1)
        yield from self.tensors.items()


def draws_of(runs: Sequence[Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]], std: float, fresh: bool) -> Draws | None:
    """Return the noise of all steps with finite numbers; None if names or sizes differ between steps, or no step remains.

    Args:
        runs: Steps of each run, each with (sums, noise) by name.
        std: Declared standard deviation.
        fresh: Whether the noise of different steps is independent. If not, only the first step of each run is used.
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
    """Return whether all numbers of a step are finite. Another check reports steps with other numbers."""
    return all(bool(np.all(np.isfinite(value))) for table in step for value in table.values())


DETECTION_PROBABILITY = 0.9  # probability with which a test detects a fault of the size that it states as its power
PAIRED_NUMBERS = 4096  # largest number of entries of a tensor that are compared in pairs
FINEST_CELL = 2.0**-14  # smallest width of a cell in standard deviations; numbers in the same cell count as equal
MOST_NUMBERS = 2**24  # largest number of entries that are compared together
MOST_LAGS = 16  # largest distance of steps, and of coordinates, at which correlation is tested
HALF_NORMAL_SQUARED = 0.5641895835  # integral of the squared half-normal density: 1 / sqrt(pi)
HALF_NORMAL_CUBED = 0.3675525969  # integral of the cubed half-normal density: 2 / (sqrt(3) pi)


class NoiseCheck(NamedTuple):
    """A check that is part of a test.

    Attributes:
        p: Upper bound on the probability that the declared noise gives a result at least as bad.
        where: Description of what was checked.
    """

    p: float
    where: str


@dataclass(frozen=True, slots=True)
class Statistic:
    """The result of a test.

    Attributes:
        name: Name of the test.
        p: p-value: an upper bound on the probability that the declared noise gives a result at least as bad.
        message: Description of the result.
        power: Function from the level of the test to a description of the smallest fault that the test detects with probability
            DETECTION_PROBABILITY.
    """

    name: str
    p: float
    message: str
    power: Callable[[float], str]


def statistics(draws: Draws) -> Iterator[Statistic]:
    """Yield the results of all tests of the noise."""
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


def _worst(checks: list[NoiseCheck], more: int = 0) -> NoiseCheck:
    """Return the check with the smallest p-value, corrected for the number of checks (Bonferroni).

    Args:
        checks: The checks.
        more: Number of further checks that are not in the list.
    """
    least = min(checks)
    return NoiseCheck(min(1.0, least.p * (len(checks) + more)), least.where)


def _worse(first: NoiseCheck, second: NoiseCheck) -> NoiseCheck:
    """Return the worse of two checks, each of which is tested at half of a level."""
    return min(NoiseCheck(min(1.0, 2.0 * first.p), first.where), NoiseCheck(min(1.0, 2.0 * second.p), second.where))


def chi_square(squares: Array | float, count: Array | float) -> Array:
    """Return P(chi-square of `count` degrees of freedom <= squares)."""
    return np.asarray(special.gammainc(0.5 * np.asarray(count, dtype=float), 0.5 * np.asarray(squares, dtype=float)))


def detectable_factor(count: int, level: float) -> float:
    """Return the smallest factor x such that a test detects noise divided by x with probability DETECTION_PROBABILITY.

    Args:
        count: Number of entries that are tested.
        level: Level of the test.
    """
    low, high = float(special.gammaincinv(0.5 * count, level)), float(special.gammaincinv(0.5 * count, DETECTION_PROBABILITY))
    return math.sqrt(high / low) if low > 0.0 else math.inf


def _detectable_noise(count: int, level: float) -> str:
    factor = detectable_factor(count, level)
    return f"noise / {up(factor, 3)}" if factor < 1e4 else "no smaller noise"


def size(draws: Draws) -> Statistic:
    """Test the size of each tensor over all steps (chi-square)."""
    checks, sizes = [], {}
    for name, values in draws.parts():
        squares = float(np.square(values).sum())
        sizes[name] = (math.sqrt(squares / values.size), values.size)
        checks.append(NoiseCheck(float(chi_square(squares, values.size)), name))
    p, where = _worst(checks)
    measured, count = sizes[where]
    smallest = min(n for _, n in sizes.values())

    def power(level: float) -> str:
        share = level / len(checks)
        return f"{_detectable_noise(smallest, share)} in any tensor, {_detectable_noise(draws.count * draws.width, share)} in all"

    return Statistic("size of the noise", p, f"{measured:.6g} times as declared in {where}, over {count:,} draws", power)


def size_over_time(draws: Draws) -> Statistic:
    """Test the size of each step, and of each span of 1, 2, 4, 8, ... positions over all runs, to detect noise that becomes smaller."""
    squares = np.sum([np.square(values).sum(axis=1) for values in draws.tensors.values()], axis=0)
    steps = int(draws.positions.max()) + 1
    by_step, times = np.zeros(steps), np.zeros(steps)
    np.add.at(by_step, draws.positions, squares)
    np.add.at(times, draws.positions, draws.width)
    checks = [
        NoiseCheck(float(p), f"one of the steps {int(at) + 1}")
        for p, at in zip(chi_square(squares, draws.width), draws.positions, strict=True)
    ]
    length = 1
    while length < steps:
        for start in range(0, steps, length):
            stop = min(start + length, steps)
            where = f"steps {start + 1} to {stop}" if length > 1 else f"all steps {start + 1}"
            checks.append(NoiseCheck(float(chi_square(by_step[start:stop].sum(), times[start:stop].sum())), where))
        length *= 2
    p, where = _worst(checks)
    return Statistic(
        "size of the noise over time",
        p,
        f"smallest in {where}",
        lambda level: f"{_detectable_noise(draws.width, level / len(checks))} in one step",
    )


def size_by_coordinate(draws: Draws) -> Statistic:
    """Test the size of each coordinate of each tensor over all steps (chi-square)."""
    checks = []
    for name, values in draws.tensors.items():
        squares = np.square(values).sum(axis=0)
        at = int(squares.argmin())
        p = float(chi_square(squares[at], draws.count))
        checks.append(
            NoiseCheck(p, f"{name}[{at}]: {math.sqrt(squares[at] / draws.count):.4g} times as declared, over {draws.count:,} draws")
        )
    p, where = _worst(checks, draws.width - len(checks))
    return Statistic(
        "size of the noise by coordinate",
        p,
        where,
        lambda level: f"{_detectable_noise(draws.count, level / draws.width)} in any one coordinate",
    )


def mean(draws: Draws) -> Statistic:
    """Test the mean of each tensor, the mean of all tensors, and the means of all coordinates over all steps (chi-square)."""
    checks = []
    for name, values in draws.parts():
        z = abs(float(values.sum())) / math.sqrt(values.size)
        checks.append(NoiseCheck(math.erfc(z / math.sqrt(2.0)), f"{float(values.mean()):.3g} standard deviations in {name}"))
    lengths = sum(float(np.square(values.sum(axis=0)).sum()) for values in draws.tensors.values()) / draws.count
    away = math.sqrt(lengths / draws.width / draws.count)
    checks.append(
        NoiseCheck(float(special.gammaincc(0.5 * draws.width, 0.5 * lengths)), f"{away:.3g} standard deviations a coordinate")
    )
    p, where = _worst(checks)
    total = draws.count * draws.width
    return Statistic(
        "mean of the noise",
        p,
        where,
        lambda level: f"{_detectable_errors(level / len(checks)) / math.sqrt(total):.2g} standard deviations",
    )


def _detectable_errors(level: float) -> float:
    """Return the distance of a mean from 0, in standard errors, that a two-sided test detects with probability DETECTION_PROBABILITY."""
    return float(special.ndtri(DETECTION_PROBABILITY) - special.ndtri(0.5 * level))


def shape(draws: Draws) -> Statistic:
    """Test that the numbers are Gaussian by the largest distance between the distribution functions (Kolmogorov-Smirnov).

    The p-value is 2 exp(-2 n d^2), which is valid for every n.

    Source: Massart 1990, Annals of Probability 18(3), 1269-1283.
    """
    checks, counts = [], []
    for name, values in draws.parts():
        ordered = np.sort(values, axis=None)
        n, expected = len(ordered), special.ndtr(ordered)
        ranks = np.arange(n + 1) / n
        distance = float(max((ranks[1:] - expected).max(), (expected - ranks[:-1]).max()))
        checks.append(
            NoiseCheck(
                min(1.0, 2.0 * math.exp(-2.0 * n * distance * distance)),
                f"distribution function {distance:.3g} away from a Gaussian in {name}",
            )
        )
        counts.append(n)
    p, where = _worst(checks)

    def power(level: float) -> str:
        away = (
            math.sqrt(0.5 * math.log(2.0 * len(checks) / level)) + 0.5 * float(special.ndtri(DETECTION_PROBABILITY))
        ) / math.sqrt(max(counts))
        return f"a distribution function {away:.2g} away in all" if away < 0.5 else "no other distribution"

    return Statistic("distribution of the noise", p, where, power)


def tails(draws: Draws) -> Statistic:
    """Test the count of numbers beyond 1, 2, 3 and 4 standard deviations (binomial), and the largest number, in both directions."""
    checks, counts = [], []
    for name, values in draws.parts():
        sizes, n = np.abs(values), values.size
        counts.append(n)
        for at in (1.0, 2.0, 3.0, 4.0):
            beyond, rate = int((sizes > at).sum()), math.erfc(at / math.sqrt(2.0))
            too_few = float(special.betainc(n - beyond, beyond + 1, 1.0 - rate)) if beyond < n else 1.0
            too_many = float(special.betainc(beyond, n - beyond + 1, rate)) if beyond else 1.0
            checks.append(
                NoiseCheck(
                    min(1.0, 2.0 * min(too_few, too_many)), f"{beyond:,} of {n:,} beyond {at:g} standard deviations in {name}"
                )
            )
        farthest = float(sizes.max())
        outside = math.erfc(farthest / math.sqrt(2.0))
        none_farther = math.exp(n * math.log1p(-outside)) if outside < 1.0 else 0.0
        checks.append(
            NoiseCheck(
                min(1.0, 2.0 * min(none_farther, 1.0 - none_farther)),
                f"the farthest of {n:,} at {farthest:.4g} standard deviations in {name}",
            )
        )
    p, where = _worst(checks)

    def power(level: float) -> str:
        rate = math.log(2.0 * len(checks) / level) / max(counts)
        return f"noise clipped at {-float(special.ndtri(0.5 * rate)):.3g} standard deviations in all" if rate < 0.3 else "nothing"

    return Statistic("tails of the noise", p, where, power)


class Collisions(NamedTuple):
    """Pairs of columns whose absolute values fall into equal cells in every row.

    Attributes:
        p: p-value of the number of pairs.
        pairs: Number of pairs.
        expected: Number of pairs expected by chance.
    """

    p: float
    pairs: int
    expected: float


def _collisions(rows: Array, cell: float) -> Collisions:
    """Count the pairs of columns that are equal up to sign, within cells of the given width."""
    m, n = rows.shape
    cells = np.floor(np.abs(rows) / cell).astype(np.int64)
    _, times = np.unique(cells, axis=1, return_counts=True) if m > 1 else np.unique(cells[0], return_counts=True)
    pairs = int((times.astype(float) * (times - 1)).sum() / 2)
    two, three = (HALF_NORMAL_SQUARED * cell) ** m, (HALF_NORMAL_CUBED * cell * cell) ** m
    expected = 0.5 * n * (n - 1) * two
    variance = expected * (1.0 - two) + n * (n - 1.0) * (n - 2.0) * max(three - two * two, 0.0)
    if not pairs:
        return Collisions(1.0, 0, expected)
    by_chance = float(special.gammainc(pairs, expected))  # probability that a Poisson variable is at least `pairs`
    wider = float(special.gammaincc(expected * expected / variance, (pairs - 0.5) * expected / variance))
    return Collisions(max(by_chance, wider if expected > 1.0 else 0.0), pairs, expected)


def _cell_width(draws: Draws, least: float = FINEST_CELL) -> float:
    """Return the smallest width of a cell, in standard deviations, that the resolution of the numbers permits."""
    return min(max(least, 64.0 * draws.resolution), 1.0)


def precision(draws: Draws) -> Statistic:
    """Test for rounding to a short number format or to a grid, by the number of pairs of nearly equal entries."""
    cell, checks, counts = _cell_width(draws), [], []
    for name, values in draws.tensors.items():
        flat = values.reshape(-1)
        chosen = flat[np.linspace(0, len(flat) - 1, min(len(flat), PAIRED_NUMBERS)).astype(int)]
        p, pairs, expected = _collisions(chosen[None], cell)
        checks.append(NoiseCheck(p, f"{pairs:,} pairs of equal numbers in {name}, {expected:.3g} expected"))
        counts.append(len(chosen))
    p, where = _worst(checks)

    def power(level: float) -> str:
        n = max(counts)
        expected = 0.5 * n * n * HALF_NORMAL_SQUARED * cell
        more = (-float(special.ndtri(level / len(checks))) + float(special.ndtri(DETECTION_PROBABILITY))) * math.sqrt(
            expected + 1.0
        ) + 1.0
        grid = (expected + more) / (0.5 * n * n * HALF_NORMAL_SQUARED)
        return f"rounding to {grid:.2g} standard deviations in the largest tensor" if grid < 1.0 else "no rounding"

    return Statistic("precision of the noise", p, where, power)


def coordinates(draws: Draws, scaled: Draws) -> Statistic:
    """Test that the coordinates have independent noise. None repeats another up to sign, and close coordinates are not correlated."""
    room = max(2, MOST_NUMBERS // 64)
    rows = draws.first_columns(room)  # not rescaled, because noise that two tensors share differs after rescaling
    needed = 0.5 * rows.shape[1] ** 2
    cell = _cell_width(draws, 2.0**-10)
    used = min(draws.count, max(1, math.ceil(math.log(needed * 1e6) / -math.log(min(HALF_NORMAL_SQUARED * cell, 0.5)))))
    chosen = rows[np.linspace(0, draws.count - 1, used).astype(int)]
    p, pairs, expected = _collisions(chosen, cell) if rows.shape[1] > 1 else Collisions(1.0, 0, 0.0)
    checks = [NoiseCheck(p, f"{pairs:,} pairs of coordinates have the same noise, {expected:.2g} expected")]
    rows = scaled.first_columns(room)
    for lag in range(1, min(MOST_LAGS, rows.shape[1] // 2) + 1):
        halves = rows[:, : rows.shape[1] // (2 * lag) * 2 * lag].reshape(draws.count, -1, 2, lag)
        checks.append(_correlation(halves[:, :, 0], halves[:, :, 1], f"coordinates {lag} apart"))
    # Repeated pairs and correlations are separate tests. Each gets half of the level.
    least, where = _worse(checks[0], _worst(checks))
    half = rows.size // 2

    def power(level: float) -> str:
        repeated = "one number used twice, " if expected < 0.01 * level else ""
        return repeated + _detectable_correlation(half, level / (2 * len(checks)))

    return Statistic("noise of its own in each coordinate", least, where, power)


def _correlation(first: Array, second: Array, what: str) -> NoiseCheck:
    """Return a check that two vectors are uncorrelated, by their cosine.

    The p-value is exact, because the direction of a Gaussian vector is uniform.
    """
    a, b = first.reshape(-1), second.reshape(-1)
    cosine = float(a @ b) / max(math.sqrt(float(a @ a) * float(b @ b)), 1e-300)
    p = float(special.betainc(0.5 * (len(a) - 1), 0.5, max(0.0, 1.0 - cosine * cosine))) if len(a) > 1 else 1.0
    return NoiseCheck(p, f"{what}: correlation {cosine:.3g}")


def _detectable_correlation(count: int, level: float) -> str:
    least = _detectable_errors(level) / math.sqrt(count) if count else 1.0
    return f"a correlation of {least:.2g}" if least < 1.0 else "no correlation"


def steps(draws: Draws) -> Statistic:
    """Test that the steps have independent noise. Neither two steps nor all steps at a fixed distance may be correlated."""
    checks: list[NoiseCheck] = []
    for name, values in draws.tensors.items():
        for lag in range(1, min(MOST_LAGS, draws.count // 2) + 1):
            halves = values[: draws.count // (2 * lag) * 2 * lag].reshape(-1, 2, lag, values.shape[1])
            checks.append(_correlation(halves[:, 0], halves[:, 1], f"steps {lag} apart in {name}"))
    pairs = draws.count * (draws.count - 1) // 2
    rows = draws.first_columns(max(2, MOST_NUMBERS // max(1, draws.count)))
    closest = _closest_rows(rows) if pairs and rows.shape[1] > 1 else NoiseCheck(1.0, "a single step")
    by_lag = _worst(checks) if checks else NoiseCheck(1.0, closest.where)
    least, where = _worse(NoiseCheck(closest.p * max(1, pairs), closest.where), by_lag)
    return Statistic(
        "noise of its own in each step",
        least,
        where,
        lambda level: _detectable_correlation(rows.shape[1], level / max(1, 2 * pairs)) + " of two steps",
    )


def _closest_rows(rows: Array) -> NoiseCheck:
    """Return the correlation of the two most correlated rows."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    cosines = np.abs(np.triu(unit @ unit.T, 1))
    i, j = (int(k) for k in np.unravel_index(int(cosines.argmax()), cosines.shape))
    return _correlation(rows[i], rows[j], f"draws {i + 1} and {j + 1}")
