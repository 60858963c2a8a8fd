"""Pairs of distributions for the shuffle model: one user's randomised report is hidden among the reports of all other users.

choice/shuffled_reports.py reduces the shuffled reports of n users to a count, and asks this file for pairs (P, Q) of two kinds:

* `clone_pair` *dominates* the reports: its hockey-stick curve, delta as a function of epsilon, is nowhere below the true one. So it gives
  upper bounds, for both directions of the neighbouring relation.
* `counted_pair` is a release that really occurs, so it gives lower bounds.

The idea (Feldman, McMillan, Talwar 2021, arXiv:2012.12803). Let e be the local epsilon. The report of the user who changes
comes from one of two laws, called 0 and 1: from 0 with probability e^e / (e^e + 1), and otherwise from 1; on the neighbouring data these
probabilities are exchanged. Any other user's report is with probability `rate` a *clone*, which comes from 0 or 1 with probability 1/2
each. Only the number a of zeros among M = C + 1 reports, the C clones and the changing one, tells the datasets apart. C is
Binomial(n - 1, rate). Given M,

    P(a) = b(a) (2/M) (e^e a + M - a) / (e^e + 1),   dP/dQ = (e^e a + M - a) / (a + e^e (M - a)),   b = Binomial(M, 1/2).

Exchanging zeros and ones maps P to Q. Hence the outcomes of positive loss log dP/dQ, which are those with a > M/2, determine the pair.

The number of users may be 10^10, so the pair is not computed outcome by outcome. Three roundings follow. Each gives a pair that dominates
the one before:

1. A user who sees the pair of C clones can add a clone. So the pair of fewer clones dominates, and counts C are rounded down within blocks
   (`_clone_blocks`).
2. The mass of a bin of neighbouring a is bounded by a geometric series, and divided between both ends of the bin (`_zeros`).
3. An outcome is divided between the two neighbouring points of a grid of losses, with its masses under P and under Q (`_split`). Merging
   both shares again is post-processing (connect-the-dots: Doroshenko et al. 2022, arXiv:2207.04380).

All masses are sums of positive terms, in logarithms. Masses of binomial tails are moved to larger losses, and none is left out.
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.grid.hockey_stick import ChordPair
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

# Soundness: relative increase of every mass, which exceeds the rounding of binomial terms of up to 10^10 trials.
INFLATED = 1e-8
LOSS_RAISE = 1e-14  # relative increase of a loss, which exceeds its rounding
# Accuracy and speed. The pair dominates whatever these are: coarser ones are faster and make epsilon larger. SD: standard deviation.
# The grid of losses (step 3).
DENSE, NEAR = 1000, 12.0  # number of evenly spaced points of the grid, which lie up to NEAR SDs of the loss
FAR_RATIO = 1.003  # ratio of neighbouring points of the grid beyond
# Blocks of counts C (step 1).
CORE = 7.0  # blocks are narrow within this many SDs of the mean of C
CORE_BLOCK = 5e-4  # relative width of these blocks, which raises epsilon by about a quarter of it
WIDE_BLOCK = 0.5  # width of a block below this core, in SDs of C
LAST_BLOCK, BLOCK_RATIO = 40.0, 1.03  # blocks are wider still this many SDs below the mean; the ratio of their first counts
# Bins of binomial terms (step 2).
BIN, BINNED = 4e-3, 12.0  # width of a bin in SDs, up to BINNED SDs; the bound on a sum is too large by a factor of about 1 + BIN^2
BIN_RATIO = 1.002  # ratio of the distances from the mean at which the bins beyond begin
# `counted_pair`, whose bounds hold for any values too.
MERGED = 0.01  # width of a run of merged counts, in SDs
MERGED_REACH = 30.0  # distance from the mean, in SDs, up to which counts are shown
# Accuracy: the correction of Stirling's formula is tabulated up to this n. Beyond, the first omitted term of its series is below 1e-15.
FACTORIALS = 64
CORRECTIONS = (  # log n! - (n log n - n + log(2 pi n) / 2), and 0 at n = 0
    0.0,
    *(math.lgamma(n + 1.0) - (n * math.log(n) - n + 0.5 * math.log(2.0 * math.pi * n)) for n in range(1, FACTORIALS + 1)),
)


def clone_pair(users: int, epsilon: float, rate: float) -> ChordPair:
    """Return a pair that dominates the shuffled reports of `users` users. It has no infinite loss.

    users: number of users, from 1 to about 10^10.
    epsilon: the local epsilon, in nats, from about 1e-12 to 300.
    rate: the probability that another user's report is a clone, or less; below 1.

    Epsilons of the pair are at most about 1e-4, relative, above those of the exact pair, down to a delta of about 1e-30.
    """
    mean_clones = max((users - 1) * rate, 1.0)
    grid = _grid(epsilon, 2.0 * math.tanh(0.5 * epsilon) / math.sqrt(mean_clones))
    log_mass = np.full(len(grid), -np.inf)
    for clones, log_weight in zip(*_clone_blocks(users - 1, rate), strict=True):
        if log_weight > -math.inf:
            losses, log_p = _zeros(int(clones) + 1, epsilon)
            _split(losses, log_p + log_weight, grid, log_mass)
    x, log_p = grid[1:], log_mass[1:] + INFLATED  # what is split to a loss of 0 costs nothing
    # By symmetry a loss of -x has the P-mass e^{log_p - x}. The mass that is left has loss 0.
    middle = 1.0 - math.fsum(np.exp(log_p).tolist()) - math.fsum(np.exp(log_p - x).tolist())
    with np.errstate(divide="ignore"):
        log_masses = np.concatenate(((log_p - x)[::-1], np.log([max(middle, 0.0)]), log_p))
    losses, used = np.concatenate((-x[::-1], [0.0], x)), log_masses > -np.inf
    return ChordPair(losses[used], log_masses[used], -math.inf)


def counted_pair(users: int, epsilon: float, categories: int) -> tuple[ChordPair, ChordPair]:
    """Return the pairs of both directions of a release that shuffled randomised response allows, so that lower bounds hold for it.

    The release is the number a of users who report the first category. The user who changes has this category, or another one on the
    neighbouring data. No other user has the first category. With s = 1 / (e^e + k - 1) for k categories, Q = Binomial(n, s), and
    P/Q = e^e a/n + (k-1) s/(1-s) (1 - a/n). Runs of counts are merged, and the release fails with probability INFLATED, or if the count is
    more than MERGED_REACH standard deviations from the mean. Both are post-processing, so a bound from below stays one.

    users, epsilon: as for `clone_pair`. categories: number of categories, at least 2.
    """
    s = 1.0 / (math.exp(epsilon) + (categories - 1.0))
    mean, deviation = users * s, math.sqrt(users * s * (1.0 - s))
    low = max(0, math.floor(mean - MERGED_REACH * (deviation + 1.0)))
    high = min(users, math.ceil(mean + MERGED_REACH * (deviation + 1.0)))
    spend(2.0 * (high - low))
    counts = np.arange(low, high + 1, dtype=float)
    starts = np.arange(0, len(counts), max(1, int(MERGED * deviation)))  # indices of the first counts of the runs
    odds = math.exp(epsilon) + (categories - 2.0)  # (1 - s) / s
    ratio = (math.exp(epsilon) * counts + (categories - 1.0) / odds * (users - counts)) / users
    excess = math.expm1(epsilon) * (counts - (users - counts) / odds) / users  # P/Q - 1, with all digits near 0
    log_terms = _log_binomial(users, s, counts)
    log_q = _sums(log_terms, starts) - INFLATED
    shares = np.exp(log_terms - np.repeat(log_q, np.diff(np.append(starts, len(counts)))) - INFLATED)  # each count's share
    ratio, excess = np.add.reduceat(shares * ratio, starts), np.add.reduceat(shares * excess, starts)  # means over the runs
    losses = np.where(ratio < 0.5, np.log(ratio), np.log1p(np.maximum(excess, -0.5)))
    failed = max(1.0 - math.fsum(np.exp(log_q).tolist()), INFLATED / 2.0)  # the loss of a failure is 0
    index_of_failure = int(np.searchsorted(losses, 0.0))
    log_p = np.insert(log_q + losses, index_of_failure, math.log(failed))
    losses = np.insert(losses, index_of_failure, 0.0)
    return ChordPair(losses, log_p, -math.inf), ChordPair(-losses[::-1], (log_p - losses)[::-1], -math.inf)


def _grid(epsilon: float, deviation: float) -> Array:
    """Return increasing losses from 0 to epsilon: evenly spaced up to NEAR standard deviations, and then further and further apart."""
    near = NEAR * deviation
    if near >= epsilon:
        return np.linspace(0.0, epsilon, DENSE + 1)
    number = math.ceil(math.log(epsilon / near) / math.log(FAR_RATIO))
    return np.append(np.linspace(0.0, near, DENSE + 1), np.append(np.geomspace(near, epsilon, number + 1)[1:-1], epsilon))


def _clone_blocks(others: int, rate: float) -> tuple[Array, Array]:
    """Return the least number of clones of each block, and upper bounds on the logarithms of the probabilities of the blocks.

    others: the number of other users. The bins of `_bins` begin at the mode, so counts below it are binned as numbers of users that are no
    clones. A bin belongs to the block that contains its least count.
    """
    if others == 0:
        return np.zeros(1), np.zeros(1)
    mode = min(int((others + 1) * rate), others)
    more, _, log_more = _bins(others, rate, mode)
    _, fewer_ends, log_fewer = _bins(others, 1.0 - rate, others - mode + 1)
    least, log_sums = np.concatenate((others - fewer_ends[::-1], more)), np.concatenate((log_fewer[::-1], log_more))
    begins = _block_begins(others, rate)
    block = np.searchsorted(begins, least, side="right") - 1
    starts = np.flatnonzero(np.append(True, np.diff(block) > 0))
    return begins[block[starts]], _sums(log_sums, starts)


def _block_begins(others: int, rate: float) -> Array:
    """Return increasing counts at which blocks begin, 0 included. The last block, beyond the core, has no end."""
    mean, deviation = others * rate, math.sqrt(others * rate * (1.0 - rate))
    core_width = max(1, round(CORE_BLOCK * mean))
    wide_width = max(core_width, int(WIDE_BLOCK * deviation))
    low, core = max(0, int(mean - LAST_BLOCK * deviation)), max(0, int(mean - CORE * deviation))
    below = low * BLOCK_RATIO ** -np.arange(math.ceil(math.log(low + 2.0) / math.log(BLOCK_RATIO)))
    inside = np.arange(low, core, wide_width), np.arange(core, mean + CORE * deviation, core_width)
    return np.unique(np.concatenate(([0.0], np.floor(below), *inside)))


def _zeros(reports: int, epsilon: float) -> tuple[Array, Array]:
    """Return positive losses of the number of zeros among M = `reports`, increasing, and upper bounds on log P of them.

    The outcome a adds b(a) g(a) to delta, where g is convex and does not fall. So the mass of a bin is divided between its first
    count and that of the next bin, by a bound on its mean. The masses b fall, so the mean is at most the middle of the bin.
    """
    begins, ends, log_sums = _bins(reports, 0.5, reports // 2 + 1)
    lengths = ends - begins + 1.0
    shares = 0.5 * (lengths - 1.0) / lengths  # the share of a bin's mass that moves to the first count of the next bin
    with np.errstate(divide="ignore"):
        log_b = np.logaddexp(log_sums + np.log1p(-shares), np.append(-np.inf, (log_sums + np.log(shares))[:-1]))
    log_p_over_b = np.log1p((2.0 * begins - reports) / reports * math.tanh(0.5 * epsilon))  # (2/M) (e^e a + M - a) / (e^e + 1)
    return _losses(reports, begins, epsilon), log_b + log_p_over_b


def _bins(trials: int, rate: float, first: int) -> tuple[Array, Array, Array]:
    """Return the first and the last counts of bins from `first`, not below the mode, to `trials`, and bounds on the logs of their masses.

    The masses are those of Binomial(trials, rate). The ratio of neighbouring terms falls with the count, so that a geometric series bounds
    a bin. A bin of one count is exact. The last bin is the count `trials`.
    """
    if first > trials:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    deviation = math.sqrt(trials * rate * (1.0 - rate))
    step, far = max(1, int(BIN * deviation)), min(trials, first + math.ceil(BINNED * deviation))
    ratios = BIN_RATIO ** np.arange(math.ceil(math.log(trials / max(far - first, 1)) / math.log(BIN_RATIO)) + 1)
    beyond = np.ceil(np.minimum(first + (far - first) * ratios, trials)) if far < trials else np.array([float(trials)])
    begins = np.unique(np.concatenate((np.arange(first, far, step, dtype=float), beyond)))
    ends = np.append(begins[1:] - 1.0, trials)
    spend(2.0 * len(begins))
    lengths = ends - begins + 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        # log_ratio: the log of the ratio of a bin's second term to its first one.
        log_ratio = np.log((trials - begins) / (begins + 1.0) * (rate / (1.0 - rate)))
        log_series = np.log(np.expm1(lengths * log_ratio) / np.expm1(log_ratio))  # 1 + ratio + ratio^2 + ...
    log_series = np.where((lengths > 1.0) & (log_ratio < 0.0), log_series, np.log(lengths))
    return begins, ends, _log_binomial(trials, rate, begins) + log_series


def _losses(reports: int, zeros: Array, epsilon: float) -> Array:
    """Return log((e^e a + M - a) / (a + e^e (M - a))) = 2 atanh(u tanh(e/2)) for a zeros among M, with u = (2a - M) / M, rounded up."""
    u = (2.0 * zeros - reports) / reports
    # 2 atanh(v) = log1p(2v / (1 - v)). With t = tanh(e/2), 1 - v = (1 - t) + t (1 - u), and 1 - t = 2 / (e^e + 1) has all digits.
    t = math.tanh(0.5 * epsilon)
    one_less_v = 2.0 / (math.exp(epsilon) + 1.0) + t * (2.0 * (reports - zeros) / reports)
    return np.minimum(np.log1p(2.0 * u * t / one_less_v) * (1.0 + LOSS_RAISE), epsilon)


def _log_binomial(trials: int, rate: float, counts: Array) -> Array:
    """Return log of the Binomial(trials, rate) probabilities of `counts`, for rate in (0, 1), by Stirling's formula with its correction."""
    misses = trials - counts
    exponent = trials * rate * _deviance((counts - trials * rate) / (trials * rate))
    exponent += trials * (1.0 - rate) * _deviance((trials * rate - counts) / (trials * (1.0 - rate)))
    shape = 0.5 * np.log(trials / (2.0 * np.pi * np.maximum(counts, 1.0) * np.maximum(misses, 1.0)))
    shape += _correction(np.array([float(trials)])) - _correction(counts) - _correction(misses)
    inside = np.where(misses > 0.0, shape - exponent, trials * math.log(rate))
    return np.where(counts > 0.0, inside, trials * math.log1p(-rate))


def _deviance(x: Array) -> Array:
    """Return (1 + x) log(1 + x) - x for x >= -1."""
    inside = np.maximum(x, -1.0 + 1e-16)  # log(1 + x) would be -inf at -1
    return np.asarray((1.0 + inside) * np.log1p(inside) - inside)


def _correction(numbers: Array) -> Array:
    """Return the correction of Stirling's formula for n!, or 0 at n = 0."""
    n = np.maximum(numbers, 1.0)
    series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * n * n)) / (n * n)) / n
    return np.asarray(np.where(numbers > FACTORIALS, series, np.array(CORRECTIONS)[np.minimum(numbers, FACTORIALS).astype(int)]))


def _split(losses: Array, log_p: Array, grid: Array, log_mass: Array) -> None:
    """Split outcomes of increasing losses between the points of the grid, and add their masses to those of the points, `log_mass`."""
    cell = np.clip(np.searchsorted(grid, losses, side="right") - 1, 0, len(grid) - 2)
    low, high = grid[cell], grid[cell + 1]
    # With masses p and p e^-l, the share at the upper end is (1 - e^{low - l}) / (1 - e^{low - high}) of P.
    share = np.clip(np.expm1(low - losses) / np.expm1(low - high), 0.0, 1.0)
    starts = np.flatnonzero(np.append(True, np.diff(cell) > 0))
    used = cell[starts]
    with np.errstate(divide="ignore"):
        log_mass[used] = np.logaddexp(log_mass[used], _sums(log_p + np.log1p(-share), starts))
        log_mass[used + 1] = np.logaddexp(log_mass[used + 1], _sums(log_p + np.log(share), starts))


def _sums(log_terms: Array, starts: IndexArray) -> Array:
    """Return the logarithms of the sums of the terms from each start up to the next one."""
    largest = np.maximum.reduceat(log_terms, starts)
    lengths = np.diff(np.append(starts, len(log_terms)))
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = np.exp(log_terms - np.repeat(largest, lengths))
        return np.asarray(np.where(largest > -np.inf, largest + np.log(np.add.reduceat(scaled, starts)), -np.inf))
