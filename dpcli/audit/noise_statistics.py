"""Statistical tests of the noise of a replay, which is divided by its declared standard deviation (noise_draws.py).

A *replay* runs steps of a program twice, with and without one record (replay.py, which calls `statistics`). A *tensor* is the noise on one
parameter of the program: a row for each step, a column for each number, which is also called a coordinate. `Draws` holds all tensors, with
`count` rows and `width` coordinates; `positions` has the step of each row in its run, and `resolution` is the resolution of the numbers.
`parts()` yields one array that joins the tensors, if there are several, and each tensor.

A *test* makes several checks (`NoiseCheck`), for example one for each tensor. Its result (`Statistic`) is the result of the worst check,
with Bonferroni's correction for their number. replay.py fails the program if a p-value is at most the *level* of its test. A p-value is the
probability that the declared noise looks at least as bad as the measured noise. It is exact, or an upper bound, if the declared noise is
Gaussian; the p-values of numbers of equal pairs are approximations (`Collisions`).

Too much noise costs no privacy. The size of the noise is therefore tested only for being too small. The other tests use each tensor divided
by its root mean square (`scaled`), so that they do not depend on the size; their p-values are computed as if this size were known. Only the
search for repeated coordinates uses the noise as it is. Each test also states its power: the smallest fault that it detects with
probability 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dpcli.audit.audit_result import ReplayCheck
from dpcli.audit.noise_draws import Draws
from dpcli.base.lazy import lazy
from dpcli.base.rounding import up
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

SIZE_OF_NOISE = "size of the noise"  # name of the test whose power a verdict states
DETECTION_PROBABILITY = 0.9  # probability with which a test detects the fault that it states as its power; no verdict depends on it
# The next values set what the tests can detect, and their time and memory. The p-values allow for the values that are used.
PAIRED_NUMBERS = 4096  # largest number of entries of a tensor that are compared in pairs; more would detect a finer rounding
# A cell is an interval of absolute values, in standard deviations. Numbers in the same cell count as equal.
FINEST_CELL = 2.0**-14  # smallest width of a cell; chosen by hand
COORDINATE_CELL = 2.0**-10  # smallest width if whole coordinates are compared over several draws; chosen by hand
CELL_RESOLUTIONS = 64.0  # smallest width over the resolution of the numbers, so that rounding rarely moves a number to another cell
PAIRS_BY_CHANCE = 1e-6  # number of pairs of coordinates that may be equal by chance in the draws that are compared
MOST_NUMBERS = 2**24  # largest number of entries that are compared together: 128 MiB of float64
MOST_LAGS = 16  # largest distance of steps, and of coordinates, at which correlation is tested; a larger one costs time and power
LEAST_LENGTH = 1e-300  # replaces the length 0 of a vector, so that its cosine is 0
HALF_NORMAL_SQUARED = 0.5641895835  # integral of the squared half-normal density: 1 / sqrt(pi)
HALF_NORMAL_CUBED = 0.3675525969  # integral of the cubed half-normal density: 2 / (sqrt(3) pi)


class NoiseCheck(NamedTuple):
    """A check that is part of a test.

    Attributes:
        p: p-value. Only `_worst_corrected` and `_worse_of_halves` correct it for the number of checks.
        where: Description of what was checked.
    """

    p: float
    where: str


@dataclass(frozen=True, slots=True)
class Statistic:
    """The result of a test.

    Attributes:
        p: p-value of the test.
        message: Description of the result.
        power: Function from the level of the test to a description of the smallest fault that the test detects with probability
            DETECTION_PROBABILITY.
    """

    name: str
    p: float
    message: str
    power: Callable[[float], str]


def noise_power(checks: Iterable[ReplayCheck]) -> str:
    """Return in words which loss of noise the checks would have detected."""
    for check in checks:
        if check.name == SIZE_OF_NOISE and check.power:
            return f"would have detected with probability 90 %: {check.power}"
    return "the noise was not checked, because no standard deviation is known"


def statistics(draws: Draws) -> Iterator[Statistic]:
    """Yield the results of all tests of the noise."""
    scaled = draws.scaled()
    yield size_test(draws)
    yield size_over_time_test(draws)
    yield size_by_coordinate_test(draws)
    yield mean_test(scaled)
    yield shape_test(scaled)
    yield tails_test(scaled)
    yield precision_test(scaled)
    yield coordinates_test(draws, scaled)
    yield steps_test(scaled)


def _worst_corrected(checks: list[NoiseCheck], unlisted: int = 0) -> NoiseCheck:
    """Return the check with the smallest p-value, corrected for the number of checks (Bonferroni).

    `unlisted` further checks were made, and left out of the list because their p-values are not smaller.
    """
    least = min(checks)
    return NoiseCheck(min(1.0, least.p * (len(checks) + unlisted)), least.where)


def _worse_of_halves(first: NoiseCheck, second: NoiseCheck) -> NoiseCheck:
    """Return the worse of two checks, each of which is tested at half of a level."""
    return min(NoiseCheck(min(1.0, 2.0 * check.p), check.where) for check in (first, second))


def chi_square_cdf(squares: Array | float, count: Array | float) -> Array:
    """Return P(chi-square of `count` degrees of freedom <= squares)."""
    return np.asarray(special.gammainc(0.5 * np.asarray(count, dtype=float), 0.5 * np.asarray(squares, dtype=float)))


def detectable_factor(count: int, level: float) -> float:
    """Return the smallest x such that a test of `count` numbers detects noise divided by x with probability DETECTION_PROBABILITY."""
    # Quantiles of half a chi-square variable. The test refutes sums of squares below the first, and noise / x has a sum below
    # 1 / x^2 times the second with probability DETECTION_PROBABILITY.
    refuted, reached = (float(special.gammaincinv(0.5 * count, share)) for share in (level, DETECTION_PROBABILITY))
    return math.sqrt(reached / refuted) if refuted > 0.0 else math.inf


def _detectable_noise(count: int, level: float) -> str:
    """Return the noise that `detectable_factor` finds too small, in words; a factor of 10,000 or more counts as none."""
    factor = detectable_factor(count, level)
    return f"noise / {up(factor, 3)}" if factor < 1e4 else "no smaller noise"


def size_test(draws: Draws) -> Statistic:
    """Test the size of each tensor over all steps (chi-square)."""
    checks, measured, counts = [], {}, {}
    for name, values in draws.parts():
        squares = float(np.square(values).sum())
        counts[name] = values.size
        measured[name] = math.sqrt(squares / values.size)
        checks.append(NoiseCheck(float(chi_square_cdf(squares, values.size)), name))
    p, worst = _worst_corrected(checks)
    smallest_count = min(counts.values())

    def power(level: float) -> str:
        share = level / len(checks)
        in_any, in_all = _detectable_noise(smallest_count, share), _detectable_noise(draws.count * draws.width, share)
        return f"{in_any} in any tensor, {in_all} in all"

    message = f"{measured[worst]:.6g} times as declared in {worst}, over {counts[worst]:,} draws"
    return Statistic(SIZE_OF_NOISE, p, message, power)


def size_over_time_test(draws: Draws) -> Statistic:
    """Test the size of each step, and of each span of 1, 2, 4, 8, ... positions over all runs, to detect noise that becomes smaller."""
    squares = np.sum([np.square(values).sum(axis=1) for values in draws.tensors.values()], axis=0)
    steps = int(draws.positions.max()) + 1
    squares_at, counts_at = np.zeros(steps), np.zeros(steps)
    np.add.at(squares_at, draws.positions, squares)
    np.add.at(counts_at, draws.positions, draws.width)
    p_values = chi_square_cdf(squares, draws.width)
    checks = [
        NoiseCheck(float(p), f"one of the steps {int(position) + 1}") for p, position in zip(p_values, draws.positions, strict=True)
    ]
    length = 1
    while length < steps:
        for start in range(0, steps, length):
            stop = min(start + length, steps)
            where = f"steps {start + 1} to {stop}" if length > 1 else f"all steps {start + 1}"
            p_value = float(chi_square_cdf(squares_at[start:stop].sum(), counts_at[start:stop].sum()))
            checks.append(NoiseCheck(p_value, where))
        length *= 2
    p, where = _worst_corrected(checks)
    return Statistic(
        "size of the noise over time",
        p,
        f"smallest in {where}",
        lambda level: f"{_detectable_noise(draws.width, level / len(checks))} in one step",
    )


def size_by_coordinate_test(draws: Draws) -> Statistic:
    """Test the size of each coordinate of each tensor over all steps (chi-square)."""
    checks = []
    for name, values in draws.tensors.items():
        squares = np.square(values).sum(axis=0)
        smallest = int(squares.argmin())
        measured = math.sqrt(squares[smallest] / draws.count)
        where = f"{name}[{smallest}]: {measured:.4g} times as declared, over {draws.count:,} draws"
        checks.append(NoiseCheck(float(chi_square_cdf(squares[smallest], draws.count)), where))
    p, where = _worst_corrected(checks, draws.width - len(checks))
    return Statistic(
        "size of the noise by coordinate",
        p,
        where,
        lambda level: f"{_detectable_noise(draws.count, level / draws.width)} in any one coordinate",
    )


def mean_test(draws: Draws) -> Statistic:
    """Test the mean of each tensor, the mean of all tensors, and the means of all coordinates over all steps (chi-square)."""
    checks = []
    for name, values in draws.parts():
        z = abs(float(values.sum())) / math.sqrt(values.size)
        checks.append(NoiseCheck(_two_sided_tail(z), f"{float(values.mean()):.3g} standard deviations in {name}"))
    squared_sums = sum(float(np.square(values.sum(axis=0)).sum()) for values in draws.tensors.values())
    squares = squared_sums / draws.count  # chi-square, with as many degrees of freedom as coordinates
    typical_mean = math.sqrt(squares / draws.width / draws.count)  # root mean square of the coordinates' means
    p_value = float(special.gammaincc(0.5 * draws.width, 0.5 * squares))
    checks.append(NoiseCheck(p_value, f"{typical_mean:.3g} standard deviations a coordinate"))
    p, where = _worst_corrected(checks)

    def power(level: float) -> str:
        least = _detectable_errors(level / len(checks)) / math.sqrt(draws.count * draws.width)
        return f"{least:.2g} standard deviations"

    return Statistic("mean of the noise", p, where, power)


def _detectable_errors(level: float) -> float:
    """Return the distance of a mean from 0, in standard errors, that a two-sided test detects with probability DETECTION_PROBABILITY."""
    return float(special.ndtri(DETECTION_PROBABILITY) - special.ndtri(0.5 * level))


def shape_test(draws: Draws) -> Statistic:
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
        p_value = min(1.0, 2.0 * math.exp(-2.0 * n * distance * distance))
        checks.append(NoiseCheck(p_value, f"distribution function {distance:.3g} away from a Gaussian in {name}"))
        counts.append(n)
    p, where = _worst_corrected(checks)

    def power(level: float) -> str:  # A distance of 0.5 or more is stated as no power.
        # Two distances in units of 1 / sqrt(n): the one at which the p-value is `level`, and a margin, because the standard deviation of
        # an empirical distribution function is at most 0.5 / sqrt(n).
        refuted = math.sqrt(0.5 * math.log(2.0 * len(checks) / level))
        spread = 0.5 * float(special.ndtri(DETECTION_PROBABILITY))
        away = (refuted + spread) / math.sqrt(max(counts))
        return f"a distribution function {away:.2g} away in all" if away < 0.5 else "no other distribution"

    return Statistic("distribution of the noise", p, where, power)


def tails_test(draws: Draws) -> Statistic:
    """Test the count of numbers beyond 1, 2, 3 and 4 standard deviations (binomial), and the largest number, in both directions."""
    checks, counts = [], []
    for name, values in draws.parts():
        sizes = np.abs(values)
        counts.append(values.size)
        checks += [_count_beyond(sizes, deviations, name) for deviations in (1.0, 2.0, 3.0, 4.0)]
        checks.append(_farthest(sizes, name))
    p, where = _worst_corrected(checks)

    def power(level: float) -> str:  # A rate of 0.3 is noise clipped at about one standard deviation; more is stated as no power.
        # If a share `rate` of the declared noise lies beyond the clipping, none of n numbers does with probability about e^(-n rate).
        rate = math.log(2.0 * len(checks) / level) / max(counts)
        return f"noise clipped at {-float(special.ndtri(0.5 * rate)):.3g} standard deviations in all" if rate < 0.3 else "nothing"

    return Statistic("tails of the noise", p, where, power)


def _count_beyond(sizes: Array, deviations: float, name: str) -> NoiseCheck:
    """Check the number of values that are farther from 0 than `deviations`, against the expected number."""
    n, beyond, rate = sizes.size, int((sizes > deviations).sum()), _two_sided_tail(deviations)
    # A binomial distribution function is an incomplete beta function.
    too_few = float(special.betainc(n - beyond, beyond + 1, 1.0 - rate)) if beyond < n else 1.0
    too_many = float(special.betainc(beyond, n - beyond + 1, rate)) if beyond else 1.0
    where = f"{beyond:,} of {n:,} beyond {deviations:g} standard deviations in {name}"
    return NoiseCheck(min(1.0, 2.0 * min(too_few, too_many)), where)


def _farthest(sizes: Array, name: str) -> NoiseCheck:
    """Check that the number farthest from 0 is neither too close nor too far."""
    n, farthest = sizes.size, float(sizes.max())
    rate = _two_sided_tail(farthest)
    none_farther = math.exp(n * math.log1p(-rate)) if rate < 1.0 else 0.0
    where = f"the farthest of {n:,} at {farthest:.4g} standard deviations in {name}"
    return NoiseCheck(min(1.0, 2.0 * min(none_farther, 1.0 - none_farther)), where)


def _two_sided_tail(deviations: float) -> float:
    """Return the probability that a Gaussian number is farther from its mean than a number of standard deviations."""
    return math.erfc(deviations / math.sqrt(2.0))


class Collisions(NamedTuple):
    """Pairs of columns whose absolute values are in the same cell in every row. Repeated or rounded noise has too many of them.

    Attributes:
        p: p-value of the number of pairs: the larger of two approximations, the tails of a Poisson variable of the expected number and of
            a gamma variable of the exact mean and variance. It is not a proven upper bound.
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
    pair_probability = (HALF_NORMAL_SQUARED * cell) ** m  # probability that two columns are equal
    triple_probability = (HALF_NORMAL_CUBED * cell * cell) ** m  # probability that three columns are equal
    expected = 0.5 * n * (n - 1) * pair_probability
    if not pairs:
        return Collisions(1.0, 0, expected)
    # Two pairs with a common column are correlated. The second term is the sum of their covariances.
    covariance = max(triple_probability - pair_probability**2, 0.0)
    variance = expected * (1.0 - pair_probability) + n * (n - 1.0) * (n - 2.0) * covariance
    p = float(special.gammainc(pairs, expected))  # probability that a Poisson variable of mean `expected` is at least `pairs`
    if expected > 1.0:  # With few pairs, a Poisson variable alone is close enough.
        shape, scale = expected * expected / variance, variance / expected  # a gamma variable with this mean and variance
        p = max(p, float(special.gammaincc(shape, (pairs - 0.5) / scale)))  # 0.5: a continuous variable stands for a whole number
    return Collisions(p, pairs, expected)


def _cell_width(draws: Draws, least: float = FINEST_CELL) -> float:
    """Return the smallest width of a cell, in standard deviations, that the resolution of the numbers permits."""
    return min(max(least, CELL_RESOLUTIONS * draws.resolution), 1.0)


def precision_test(draws: Draws) -> Statistic:
    """Test for rounding to a short number format or to a grid, by the number of pairs of nearly equal entries."""
    cell, checks, counts = _cell_width(draws), [], []
    for name, values in draws.tensors.items():
        flat = values.reshape(-1)
        chosen = flat[np.linspace(0, len(flat) - 1, min(len(flat), PAIRED_NUMBERS)).astype(int)]
        p, pairs, expected = _collisions(chosen[None], cell)
        checks.append(NoiseCheck(p, f"{pairs:,} pairs of equal numbers in {name}, {expected:.3g} expected"))
        counts.append(len(chosen))
    p, where = _worst_corrected(checks)

    def power(level: float) -> str:
        pairs_per_width = 0.5 * max(counts) ** 2 * HALF_NORMAL_SQUARED
        expected = pairs_per_width * cell
        # Excess of pairs, in standard errors, that is detected with probability DETECTION_PROBABILITY.
        errors = float(special.ndtri(DETECTION_PROBABILITY) - special.ndtri(level / len(checks)))
        grid = (expected + errors * math.sqrt(expected + 1.0) + 1.0) / pairs_per_width
        return f"rounding to {grid:.2g} standard deviations in the largest tensor" if grid < 1.0 else "no rounding"

    return Statistic("precision of the noise", p, where, power)


def coordinates_test(draws: Draws, scaled: Draws) -> Statistic:
    """Test that the coordinates have independent noise. None repeats another up to sign, and close coordinates are not correlated."""
    column_count = max(2, MOST_NUMBERS // 64)  # MOST_NUMBERS in all if there are 64 draws
    rows = draws.first_columns(column_count)  # not rescaled, because noise that two tensors share differs after rescaling
    p, pairs, expected = _repeated_coordinates(draws, rows)
    repeated = NoiseCheck(p, f"{pairs:,} pairs of coordinates have the same noise, {expected:.2g} expected")
    correlations = []
    rows = scaled.first_columns(column_count)
    width = rows.shape[1]
    for lag in range(1, min(MOST_LAGS, width // 2) + 1):
        # Blocks of `lag` coordinates form pairs, so that coordinates `lag` apart are compared, and none with two others.
        paired = width // (2 * lag) * 2 * lag  # number of coordinates in whole pairs of blocks
        blocks = rows[:, :paired].reshape(draws.count, -1, 2, lag)
        correlations.append(_correlation(blocks[:, :, 0], blocks[:, :, 1], f"coordinates {lag} apart"))
    # Repeated pairs and correlations are separate tests. Each gets half of the level.
    by_lag = _worst_corrected(correlations) if correlations else NoiseCheck(1.0, repeated.where)
    least, where = _worse_of_halves(repeated, by_lag)
    half = rows.size // 2 if correlations else 0

    def power(level: float) -> str:
        # A repetition is stated if a single pair would be refuted, because almost none is expected by chance.
        repetition = "one number used twice, " if width > 1 and expected < 0.01 * level else ""
        return repetition + _detectable_correlation(half, level / (2 * max(1, len(correlations))))

    return Statistic("noise of its own in each coordinate", least, where, power)


def _repeated_coordinates(draws: Draws, rows: Array) -> Collisions:
    """Count the pairs of coordinates that are equal up to sign in every compared draw.

    The number of compared draws is the least at which at most PAIRS_BY_CHANCE pairs are expected to be equal by chance. If there are fewer
    draws, all of them are compared.
    """
    width = rows.shape[1]
    if width < 2:
        return Collisions(1.0, 0, 0.0)
    cell = _cell_width(draws, COORDINATE_CELL)
    chance = min(HALF_NORMAL_SQUARED * cell, 0.5)  # probability that two coordinates are equal in one draw
    needed = math.ceil(math.log(0.5 * width**2 / PAIRS_BY_CHANCE) / -math.log(chance))
    used = min(draws.count, max(1, needed))
    return _collisions(rows[np.linspace(0, draws.count - 1, used).astype(int)], cell)


def _correlation(first: Array, second: Array, what: str) -> NoiseCheck:
    """Return a check that two vectors are uncorrelated, by their cosine.

    The p-value is exact, because the direction of a Gaussian vector is uniform.
    """
    a, b = first.reshape(-1), second.reshape(-1)
    cosine = float(a @ b) / max(math.sqrt(float(a @ a) * float(b @ b)), LEAST_LENGTH)
    p = float(special.betainc(0.5 * (len(a) - 1), 0.5, max(0.0, 1.0 - cosine * cosine))) if len(a) > 1 else 1.0
    return NoiseCheck(p, f"{what}: correlation {cosine:.3g}")


def _detectable_correlation(count: int, level: float) -> str:
    """Return the smallest correlation that a test of `count` pairs of numbers detects, in words."""
    least = _detectable_errors(level) / math.sqrt(count) if count else 1.0
    return f"a correlation of {least:.2g}" if least < 1.0 else "no correlation"


def steps_test(draws: Draws) -> Statistic:
    """Test that the steps have independent noise. Neither two steps nor all steps at a fixed distance may be correlated."""
    checks: list[NoiseCheck] = []
    for name, values in draws.tensors.items():
        for lag in range(1, min(MOST_LAGS, draws.count // 2) + 1):
            # Blocks of `lag` steps form pairs, so that steps `lag` apart are compared, and none with two others.
            paired = draws.count // (2 * lag) * 2 * lag  # number of steps in whole pairs of blocks
            blocks = values[:paired].reshape(-1, 2, lag, values.shape[1])
            checks.append(_correlation(blocks[:, 0], blocks[:, 1], f"steps {lag} apart in {name}"))
    pairs = draws.count * (draws.count - 1) // 2
    rows = draws.first_columns(max(2, MOST_NUMBERS // max(1, draws.count)))
    closest = _closest_rows(rows) if pairs and rows.shape[1] > 1 else NoiseCheck(1.0, "a single step")
    by_lag = _worst_corrected(checks) if checks else NoiseCheck(1.0, closest.where)
    least, where = _worse_of_halves(NoiseCheck(closest.p * max(1, pairs), closest.where), by_lag)
    return Statistic(
        "noise of its own in each step",
        least,
        where,
        lambda level: _detectable_correlation(rows.shape[1], level / max(1, 2 * pairs)) + " of two steps",
    )


def _closest_rows(rows: Array) -> NoiseCheck:
    """Return the correlation of the two most correlated rows."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), LEAST_LENGTH)
    cosines = np.abs(np.triu(unit @ unit.T, 1))
    i, j = (int(k) for k in np.unravel_index(int(cosines.argmax()), cosines.shape))
    return _correlation(rows[i], rows[j], f"draws {i + 1} and {j + 1}")
