"""Statistics of a replay's noise, each with a bound on the chance that noise as declared looks as bad, over everything that it looked at.

Too much noise costs no privacy: sizes are tested from below alone, and shapes after each tensor is put at its own size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.lazy import lazy
from dpcli.base.rounding import up
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import special
else:
    special = lazy("scipy.special")


SINGLE = 2.0**-23  # relative resolution of sums in single precision


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Noise over its declared standard deviation; under the claim every number in it is an independent N(0, s^2), s >= 1, s of a tensor.

    tensors: by name, (draws, numbers): one row for each step of each run. positions: the step of each row in its run, from 0.
    resolution: how finely the numbers are known, as they may be the difference of sums in single precision.
    """

    tensors: Mapping[str, Array]
    positions: NDArray[np.intp]
    resolution: float

    @property
    def count(self) -> int:
        """Rows."""
        return len(self.positions)

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return sum(values.shape[1] for values in self.tensors.values())

    def scaled(self) -> Draws:
        """Each tensor over its own root mean square: too much noise costs no privacy, and is not what a shape is judged by."""
        sizes = {name: float(np.sqrt(np.mean(np.square(values)))) or 1.0 for name, values in self.tensors.items()}
        tensors = {name: values / sizes[name] for name, values in self.tensors.items()}
        return Draws(tensors, self.positions, self.resolution / min(sizes.values()))

    def few(self, width: int) -> Array:
        """(draws, at most about `width` numbers): of every tensor its first ones, as many of each as there is room for."""
        room, parts = width, []
        for left, values in zip(range(len(self.tensors), 0, -1), sorted(self.tensors.values(), key=_width), strict=True):
            parts.append(values[:, : max(1, room // left)])
            room -= parts[-1].shape[1]
        return np.concatenate(parts, axis=1)

    def named(self) -> Iterator[tuple[str, Array]]:
        """Each tensor by itself, and where there are several all of them together."""
        if len(self.tensors) > 1:
            yield "all together", np.concatenate(list(self.tensors.values()), axis=1)
        yield from self.tensors.items()


def _width(values: Array) -> int:
    return int(values.shape[1])


def draws_of(runs: Sequence[Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]], std: float, fresh: bool) -> Draws | None:
    """The table of the steps that hold numbers; None where not every step has noise of the same names and sizes, or none is left.

    Args:
        runs: of each run its steps, (sums, noise) by name. std: as declared. fresh: whether steps are independent; else the first alone is.
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
    return Draws(tensors, np.array([i for i, _, _ in rows], dtype=np.intp), SINGLE * largest / std)


def _finite(step: tuple[Mapping[str, Array], Mapping[str, Array]]) -> bool:
    """Leave what is not a number to another check."""
    return all(bool(np.all(np.isfinite(value))) for table in step for value in table.values())


FOUND = 0.9  # chance with which a fault of the stated size would have been found
SAMPLE = 4096  # numbers whose pairs are looked at
FINEST = 2.0**-14  # of the standard deviation: numbers that are as near count as equal
MEMORY = 2**24  # numbers that are compared at once
LAGS = 16
PAIRS, TRIPLES = (
    0.5641895835,
    0.3675525969,
)  # integrals of the half normal density, squared and cubed: 1 / sqrt(pi), 2 / (sqrt(3) pi)


@dataclass(frozen=True, slots=True)
class Statistic:
    """A check. p: at most the chance that noise as declared gives this or worse. power: what would have been found, at a level."""

    name: str
    p: float
    message: str
    power: Callable[[float], str]


def statistics(draws: Draws) -> Iterator[Statistic]:
    """All of them."""
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


def _worst(looks: list[tuple[float, str]], more: int = 0) -> tuple[float, str]:
    """The smallest p times the number of looks, and where it was (Bonferroni)."""
    p, where = min(looks)
    return min(1.0, p * (len(looks) + more)), where


def chi_square(squares: Array | float, count: Array | float) -> Array:
    """P(chi-square of `count` degrees <= squares)."""
    return np.asarray(special.gammainc(0.5 * np.asarray(count, dtype=float), 0.5 * np.asarray(squares, dtype=float)))


def factor(count: int, level: float) -> float:
    """Noise divided by this is found with chance FOUND among `count` numbers, at this level."""
    least, usual = float(special.gammaincinv(0.5 * count, level)), float(special.gammaincinv(0.5 * count, FOUND))
    return math.sqrt(usual / least) if least > 0.0 else math.inf


def divided(count: int, level: float) -> str:
    divisor = factor(count, level)
    return f"noise / {up(divisor, 3)}" if divisor < 1e4 else "no smaller noise"


def size(draws: Draws) -> Statistic:
    """Test the size of each tensor, over all steps (chi-square)."""
    looks, sizes = [], {}
    for name, values in draws.named():
        squares = float(np.square(values).sum())
        sizes[name] = (math.sqrt(squares / values.size), values.size)
        looks.append((float(chi_square(squares, values.size)), name))
    p, where = _worst(looks)
    measured, count = sizes[where]
    least = min(n for _, n in sizes.values())
    return Statistic(
        "size of the noise",
        p,
        f"{measured:.6g} times as declared in {where}, over {count:,} draws",
        lambda level: (
            f"{divided(least, level / len(looks))} in any tensor, {divided(draws.count * draws.width, level / len(looks))} in all"
        ),
    )


def size_over_time(draws: Draws) -> Statistic:
    """Test the size of each step by itself, and of each span of 2, 4, 8, ... positions over all runs: fading noise, few dimensions."""
    squares = np.sum([np.square(values).sum(axis=1) for values in draws.tensors.values()], axis=0)
    steps = int(draws.positions.max()) + 1
    by_step, times = np.zeros(steps), np.zeros(steps)
    np.add.at(by_step, draws.positions, squares)
    np.add.at(times, draws.positions, draws.width)
    looks = [
        (float(p), f"one of the steps {int(at) + 1}")
        for p, at in zip(chi_square(squares, draws.width), draws.positions, strict=True)
    ]
    length = 1
    while length < steps:
        for start in range(0, steps, length):
            stop = min(start + length, steps)
            where = f"steps {start + 1} to {stop}" if length > 1 else f"all steps {start + 1}"
            looks.append((float(chi_square(by_step[start:stop].sum(), times[start:stop].sum())), where))
        length *= 2
    p, where = _worst(looks)
    return Statistic(
        "size of the noise over time",
        p,
        f"least in {where}",
        lambda level: f"{divided(draws.width, level / len(looks))} in one step",
    )


def size_by_coordinate(draws: Draws) -> Statistic:
    """Test the size of each number of each tensor over all steps."""
    looks = []
    for name, values in draws.tensors.items():
        squares = np.square(values).sum(axis=0)
        at = int(squares.argmin())
        p = float(chi_square(squares[at], draws.count))
        looks.append((p, f"{name}[{at}]: {math.sqrt(squares[at] / draws.count):.4g} times as declared, over {draws.count:,} draws"))
    p, where = _worst(looks, draws.width - len(looks))
    return Statistic(
        "size of the noise by coordinate",
        p,
        where,
        lambda level: f"{divided(draws.count, level / draws.width)} in any one coordinate",
    )


def mean(draws: Draws) -> Statistic:
    """Test the mean of each tensor, of all, and of each coordinate over all steps (chi-square)."""
    looks = []
    for name, values in draws.named():
        z = abs(float(values.sum())) / math.sqrt(values.size)
        looks.append((math.erfc(z / math.sqrt(2.0)), f"{float(values.mean()):.3g} standard deviations in {name}"))
    lengths = sum(float(np.square(values.sum(axis=0)).sum()) for values in draws.tensors.values()) / draws.count
    away = math.sqrt(lengths / draws.width / draws.count)
    looks.append((float(special.gammaincc(0.5 * draws.width, 0.5 * lengths)), f"{away:.3g} standard deviations a coordinate"))
    p, where = _worst(looks)
    total = draws.count * draws.width
    return Statistic(
        "mean of the noise", p, where, lambda level: f"{_normal(level / len(looks)) / math.sqrt(total):.2g} standard deviations"
    )


def _normal(level: float) -> float:
    """Return the distance of a mean, in standard errors, that is found with chance FOUND at this level, both sides."""
    return float(special.ndtri(FOUND) - special.ndtri(0.5 * level))


def shape(draws: Draws) -> Statistic:
    """Test that the numbers are a Gaussian's by the largest distance of the distribution functions.

    p from 2 exp(-2 n d^2) (Massart 1990), which holds for every n.
    """
    looks, counts = [], []
    for name, values in draws.named():
        ordered = np.sort(values, axis=None)
        n, expected = len(ordered), special.ndtr(ordered)
        ranks = np.arange(n + 1) / n
        apart = float(max((ranks[1:] - expected).max(), (expected - ranks[:-1]).max()))
        looks.append(
            (min(1.0, 2.0 * math.exp(-2.0 * n * apart * apart)), f"distribution {apart:.3g} away from a Gaussian's in {name}")
        )
        counts.append(n)
    p, where = _worst(looks)

    def power(level: float) -> str:
        away = (math.sqrt(0.5 * math.log(2.0 * len(looks) / level)) + 0.5 * float(special.ndtri(FOUND))) / math.sqrt(max(counts))
        return f"a distribution {away:.2g} away in all" if away < 0.5 else "no other distribution"

    return Statistic("distribution of the noise", p, where, power)


def tails(draws: Draws) -> Statistic:
    """Count the numbers beyond 1, 2, 3, 4 standard deviations (binomial), and measure how far out the farthest is: both sides."""
    looks, counts = [], []
    for name, values in draws.named():
        sizes, n = np.abs(values), values.size
        counts.append(n)
        for at in (1.0, 2.0, 3.0, 4.0):
            beyond, rate = int((sizes > at).sum()), math.erfc(at / math.sqrt(2.0))
            few = float(special.betainc(n - beyond, beyond + 1, 1.0 - rate)) if beyond < n else 1.0
            many = float(special.betainc(beyond, n - beyond + 1, rate)) if beyond else 1.0
            looks.append((min(1.0, 2.0 * min(few, many)), f"{beyond:,} of {n:,} beyond {at:g} standard deviations in {name}"))
        farthest = float(sizes.max())
        outside = math.erfc(farthest / math.sqrt(2.0))
        none = math.exp(n * math.log1p(-outside)) if outside < 1.0 else 0.0  # chance that nothing is farther
        looks.append(
            (min(1.0, 2.0 * min(none, 1.0 - none)), f"the farthest of {n:,} at {farthest:.4g} standard deviations in {name}")
        )
    p, where = _worst(looks)

    def power(level: float) -> str:
        rate = math.log(2.0 * len(looks) / level) / max(counts)
        return f"noise clipped at {-float(special.ndtri(0.5 * rate)):.3g} standard deviations in all" if rate < 0.3 else "nothing"

    return Statistic("tails of the noise", p, where, power)


def _collisions(rows: Array, cell: float) -> tuple[float, int, float]:
    """(p, pairs, as many as expected) of columns whose sizes are in the same cells in every row: numbers that repeat up to their sign."""
    m, n = rows.shape
    cells = np.floor(np.abs(rows) / cell).astype(np.int64)
    _, times = np.unique(cells, axis=1, return_counts=True) if m > 1 else np.unique(cells[0], return_counts=True)
    pairs = int((times.astype(float) * (times - 1)).sum() / 2)
    two, three = (PAIRS * cell) ** m, (TRIPLES * cell * cell) ** m
    expected = 0.5 * n * (n - 1) * two
    variance = expected * (1.0 - two) + n * (n - 1.0) * (n - 2.0) * max(three - two * two, 0.0)
    if not pairs:
        return 1.0, 0, expected
    by_chance = float(special.gammainc(pairs, expected))  # a Poisson number is as large
    wider = float(special.gammaincc(expected * expected / variance, (pairs - 0.5) * expected / variance))
    return max(by_chance, wider if expected > 1.0 else 0.0), pairs, expected


def _cell(draws: Draws, least: float = FINEST) -> float:
    return min(max(least, 64.0 * draws.resolution), 1.0)


def precision(draws: Draws) -> Statistic:
    """Test whether numbers fall together, as those of a short format or of a grid do: pairs of nearly equal ones."""
    cell, looks, counts = _cell(draws), [], []
    for name, values in draws.tensors.items():
        flat = values.reshape(-1)
        chosen = flat[np.linspace(0, len(flat) - 1, min(len(flat), SAMPLE)).astype(int)]
        p, pairs, expected = _collisions(chosen[None], cell)
        looks.append((p, f"{pairs:,} pairs of equal numbers in {name}, {expected:.3g} expected"))
        counts.append(len(chosen))
    p, where = _worst(looks)

    def power(level: float) -> str:
        n = max(counts)
        expected = 0.5 * n * n * PAIRS * cell
        more = (-float(special.ndtri(level / len(looks))) + float(special.ndtri(FOUND))) * math.sqrt(expected + 1.0) + 1.0
        grid = (expected + more) / (0.5 * n * n * PAIRS)
        return f"rounding to {grid:.2g} standard deviations in the largest tensor" if grid < 1.0 else "no rounding"

    return Statistic("precision of the noise", p, where, power)


def coordinates(draws: Draws, scaled: Draws) -> Statistic:
    """Test that each coordinate has noise of its own: none repeats another one, up to its sign, and neighbours are not correlated."""
    room = max(2, MEMORY // 64)
    rows = draws.few(room)  # as they are: one number in two tensors is equal before each is put at its own size
    needed = 0.5 * rows.shape[1] ** 2
    cell = _cell(draws, 2.0**-10)
    used = min(draws.count, max(1, math.ceil(math.log(needed * 1e6) / -math.log(min(PAIRS * cell, 0.5)))))
    chosen = rows[np.linspace(0, draws.count - 1, used).astype(int)]
    p, pairs, expected = _collisions(chosen, cell) if rows.shape[1] > 1 else (1.0, 0, 0.0)
    looks = [(p, f"{pairs:,} pairs of coordinates have the same noise, {expected:.2g} expected")]
    rows = scaled.few(room)
    for lag in range(1, min(LAGS, rows.shape[1] // 2) + 1):
        halves = rows[:, : rows.shape[1] // (2 * lag) * 2 * lag].reshape(draws.count, -1, 2, lag)
        looks.append(_correlation(halves[:, :, 0], halves[:, :, 1], f"coordinates {lag} apart"))
    least, where = _worst(looks)
    # A pair shows by itself, whatever is correlated: each of the two kinds has half of the level.
    least, where = min((min(1.0, 2.0 * p), looks[0][1]), (min(1.0, 2.0 * least), where))
    half = rows.size // 2
    return Statistic(
        "noise of its own in each coordinate",
        least,
        where,
        lambda level: ("one number used twice, " if expected < 0.01 * level else "") + _correlated(half, level / (2 * len(looks))),
    )


def _correlation(one: Array, other: Array, what: str) -> tuple[float, str]:
    """(p, words) of the cosine of two vectors, each independent of the other: exact, as a Gaussian's direction is uniform."""
    a, b = one.reshape(-1), other.reshape(-1)
    cosine = float(a @ b) / max(math.sqrt(float(a @ a) * float(b @ b)), 1e-300)
    p = float(special.betainc(0.5 * (len(a) - 1), 0.5, max(0.0, 1.0 - cosine * cosine))) if len(a) > 1 else 1.0
    return p, f"{what}: correlation {cosine:.3g}"


def _correlated(count: int, level: float) -> str:
    least = _normal(level) / math.sqrt(count) if count else 1.0
    return f"a correlation of {least:.2g}" if least < 1.0 else "no correlation"


def steps(draws: Draws) -> Statistic:
    """Test that each step has noise of its own: no two of all runs are correlated, nor steps as many apart throughout."""
    looks: list[tuple[float, str]] = []
    for name, values in draws.tensors.items():
        for lag in range(1, min(LAGS, draws.count // 2) + 1):
            halves = values[: draws.count // (2 * lag) * 2 * lag].reshape(-1, 2, lag, values.shape[1])
            looks.append(_correlation(halves[:, 0], halves[:, 1], f"steps {lag} apart in {name}"))
    pairs = draws.count * (draws.count - 1) // 2
    rows = draws.few(max(2, MEMORY // max(1, draws.count)))
    apart, where = (1.0, "one step alone") if not pairs or rows.shape[1] < 2 else _alike(rows)
    p, best = _worst(looks) if looks else (1.0, where)
    least, where = min((min(1.0, 2.0 * apart * max(1, pairs)), where), (min(1.0, 2.0 * p), best))
    return Statistic(
        "noise of its own in each step",
        least,
        where,
        lambda level: _correlated(rows.shape[1], level / max(1, 2 * pairs)) + " of two steps",
    )


def _alike(rows: Array) -> tuple[float, str]:
    """The smallest p of two rows' correlation, and which rows."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    cosines = np.abs(np.triu(unit @ unit.T, 1))
    i, j = (int(k) for k in np.unravel_index(int(cosines.argmax()), cosines.shape))
    return _correlation(rows[i], rows[j], f"draws {i + 1} and {j + 1}")
