"""The privacy of the last iterate of noisy gradient descent, if no earlier iterate is seen: one Gaussian, by shifted interpolation.

noise/last_iterate.py calls this file. Two runs on neighbouring datasets, X and X', use the same updates but for the record that differs. If
the updates bring points together, the noise hides old differences, so that the last iterate costs less than the composition of all steps.
`last_iterate_norm` is for batches that come in turn, `hidden_steps` for batches that are drawn afresh. "Dominated by Gaussian noise with
mu" means: no easier to tell apart than N(0, 1) and N(mu, 1). All results are upper bounds.

Setting. For k = 1, ..., t, from the same X_0,

    X_k = P(f_k(X_{k-1}) + Z_k)   and   X'_k = P(f'_k(X'_{k-1}) + Z'_k).

All Z are independent Gaussian vectors of variance v^2 in each coordinate. P is the projection onto a convex set, or nothing. f_k contracts,
|f_k(x) - f_k(y)| <= c |x - y| with c <= 1, and |f_k(x) - f'_k(x)| <= s_k.

Theorem (Bok, Su, Altschuler 2024, arXiv:2403.00278). Choose tau, and numbers a_k >= 0 for k > tau. Let z_tau be 0 if tau = 0, and the
diameter of the set otherwise, and let z_k = c z_{k-1} + s_k - a_k for k > tau. If all z_k >= 0 and z_t = 0, then X_t and X'_t are dominated
by Gaussian noise with mu^2 = (sum of a_k^2) / v^2.

Proof.

1. Let Y_tau = X'_tau and Y_k = P(w_k f_k(X_{k-1}) + (1 - w_k) f'_k(Y_{k-1}) + Z_k), with the Z of X and w_k = a_k / (c z_{k-1} + s_k).
2. By induction, |X_k - Y_k| <= z_k: if this holds for k - 1, then |f_k(X_{k-1}) - f'_k(Y_{k-1})| <= c z_{k-1} + s_k. P brings no two points
   further apart, so |X_k - Y_k| <= (1 - w_k) (c z_{k-1} + s_k) = z_k. Hence Y_t = X_t.
3. Given Y_{k-1} = y, Y_k is P of f'_k(y) + Z_k, moved by the vector w_k (f_k(X_{k-1}) - f'_k(y)). This vector is random, independent of
   Z_k, and no longer than a_k. Given X'_{k-1} = y, X'_k is P of f'_k(y) + Z'_k.
4. So each step costs at most a Gaussian with mu = a_k / v. The composition of the steps after tau dominates (Y_t, X'_t).
5. A Gaussian pair is the same in both directions, so it is enough if f_k contracts for one of the two datasets.

**The best a_k for batches in turn.** The record is in the batch of one step in each l. There s_k = s, and elsewhere s_k = 0. Let s = 1.

1. The last use may be in step t, because the steps after it are post-processing. The steps before the first use are the same in both runs.
   Let tau = t - n l, so that n uses come after it.
2. z_k >= 0 if the sum of c^{t-j} a_j over the steps j > k is at least that of c^{t-j} s_j. At k = tau it exceeds that by c^{n l} z_tau.
3. Take both sums as curves over W, the sum of c^{2 (t-j)} over j > k. The first curve has the slopes a_j / c^{t-j}, and sum a_j^2 is the
   integral of their squares. It is least for the least concave curve that is nowhere below the second one.
4. The corners of that curve can be at (0, 0); at the points i = 1, ..., n after i uses, (W_i, U_i) with W_i = sum of c^{2j} for
   j <= (i-1) l and U_i = sum of c^{j l} for j < i; and at the end, (W, B) with W = sum of c^{2j} for j < n l and B = U_n + c^{n l} z_tau.
5. The slopes from point 1 to point n grow like c^{-i l}. So the curve is one chord to the end, from (0, 0) or from (1, 1), unless point n
   is above this chord.
6. If it is, n = 1 is better: the part after point n costs as much, and the part before it costs 1 in place of more.
7. A tau between two uses is never better, because W is smaller and B larger than for the same n. With tau = 0, the end is point n.

With l = 1 and no set, this gives mu^2 = (s / v)^2 (1 - c^t) (1 + c) / ((1 + c^t) (1 - c)).

**Batches that are drawn afresh for each step.** Here f_k must contract for both datasets.

1. X and X' draw the same batches, and up to tau the same noise. So z_tau is also at most s (1 + c + ... + c^{tau-1}).
2. Let Y_k = P(w_k f_k(X_{k-1}) + (1 - w_k) f_k(Y_{k-1}) + Z_k), with the batch and the noise of X, and let z_k = c z_{k-1} - a_k.
3. Divide Z_k into two independent parts, of variances (1 - h) v^2 and h v^2. (Bok, Su, Altschuler 2024 take h = 1/2.) Given Y_{k-1} = y,
   Y_k is P of the sum of two terms: f_k(y) with the first part, and w_k (f_k(X_{k-1}) - f_k(y)) with the second part.
4. The first term, against f'_k(y) with the first part, costs as much as a sampled step with noise sqrt(1 - h) v.
5. Given the first term, the second one costs at most a Gaussian with mu = a_k / (sqrt(h) v), because the second part is independent of the
   batch and of everything before.
6. So n sampled steps with less noise and one Gaussian dominate the last n steps. The least sum of a_k^2 is
   (c^n z_tau)^2 / (1 + c^2 + ... + c^{2 (n-1)}), and mu^2 of the Gaussian is 1 / (h v^2) times it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpcli.numerics.arrays import Array, np

# Accuracy: every number of uses after tau, and every share h of the noise, gives an upper bound.
# The numbers that are tried: all up to ALL_UP_TO, then in the ratio RATIO. Next to the best one, the bound is larger by less than 1e-6.
ALL_UP_TO, RATIO, MOST_USES = 1000, 1.001, 1e18
LEAST_SHARE, MOST_SHARE, SHARES = 0.002, 0.9, 60  # the shares h that are tried, and how many
LARGEST_EXPONENT = 600.0  # largest exponent of a variance that is compared
# Soundness: a smaller gap 1 - c, or a larger c, only raises the bound.
LEAST_GAP = 1e-290  # smallest 1 - c; a smaller one counts as 0, because its powers lose digits
LARGEST_GAP = 1.0 - 2.0**-53  # largest 1 - c; c = 0 counts as 2^-53
RAISE = 1.0 + 1e-12  # factor by which a mu is raised, which exceeds its rounding
ON_CHORD = 1.0 + 1e-13  # factor of a chord's height up to which a point counts as on it, for rounding


def last_iterate_norm(gap: float, batches: int, iterations: int, diameter: float) -> float:
    """Return mu of the last iterate over mu of one step, rounded up: at least 1, and at most the root of the number of uses of a record.

    Args:
        gap: 1 - c, in [0, 1], rounded down.
        batches: the number l of steps from one use of a record to its next.
        iterations: the number t of steps.
        diameter: the diameter of the set, in units of the move s that one change makes in one step; inf without a set.
    """
    log_c = math.log1p(-min(gap, LARGEST_GAP)) if gap >= LEAST_GAP else 0.0
    uses = -(-iterations // batches)
    # least: the least sum of a_k^2 with tau = 0, where the curve ends at point n for all n uses.
    if batches == 1:  # the chord from (0, 0)
        least = float(_sum(log_c, uses) ** 2 / _sum(2.0 * log_c, uses))
    else:  # the chord from (1, 1), which costs 1 up to there
        rise = math.exp(batches * log_c) * _sum(batches * log_c, uses - 1)
        run = math.exp(2.0 * log_c) * _sum(2.0 * log_c, max((uses - 1) * batches, 1))
        least = 1.0 + float(rise**2 / run)
    if uses > 1 and diameter < math.inf:
        tried = _tried_uses()
        least = min(least, float(_from_anywhere(log_c, batches, tried[tried < uses], diameter).min()))
    return math.sqrt(least) * RAISE


def _tried_uses() -> Array:
    """Return the numbers of uses after tau that are tried. They do not depend on the setting, so that the cost grows with the steps."""
    larger = np.floor(ALL_UP_TO * RATIO ** np.arange(1.0, math.log(MOST_USES / ALL_UP_TO) / math.log(RATIO)))
    return np.concatenate((np.arange(1.0, ALL_UP_TO + 1.0), larger))


def _from_anywhere(log_c: float, batches: int, n: Array, diameter: float) -> Array:
    """Return the least sum of a_k^2 for the last n uses, from two points at the distance `diameter`; inf if n = 1 is better."""
    steps = n * batches
    # B - 1 and W - 1, as sums without their first term, 1.
    rise = np.exp(steps * log_c) * diameter + math.exp(batches * log_c) * _sum(batches * log_c, n - 1.0)
    run = math.exp(2.0 * log_c) * _sum(2.0 * log_c, steps - 1.0)
    u_n, w_n = _sum(batches * log_c, n), _sum(2.0 * log_c, steps - batches + 1.0)
    start = np.where(rise >= run, 0.0, 1.0)  # the chord begins at (0, 0), or at (1, 1) if that is above the chord from (0, 0)
    with np.errstate(over="ignore"):
        slope = (1.0 - start + rise) / np.maximum(1.0 - start + run, np.finfo(float).tiny)
        is_below = (n == 1.0) | (u_n - start <= slope * (w_n - start) * ON_CHORD)  # point n is not above the chord
        return np.asarray(np.where(is_below, start + slope * (1.0 - start + rise), math.inf))


def _sum(log_ratio: float, terms: Array | float) -> Array:
    """Return 1 + r + ... + r^(terms - 1) for r = e^log_ratio <= 1."""
    if log_ratio == 0.0:
        return np.asarray(terms, dtype=float)
    return np.asarray(np.expm1(np.asarray(terms, dtype=float) * log_ratio) / math.expm1(log_ratio))


class HiddenSteps(NamedTuple):
    """A bound for drawn batches: the last `steps` sampled steps with the share 1 - h of the noise's variance, after one Gaussian.

    share: h, the share of the variance that pays for the Gaussian. mu: that of the Gaussian.
    """

    steps: int
    share: float
    mu: float


def hidden_steps(
    gap: float, iterations: int, diameter: float, records: int, rate: float, mu: float, *, opposite: bool
) -> HiddenSteps | None:
    """Return the division of a run with drawn batches, or None if no division promises to cost less than all of its steps.

    The choice has about the least variance of the loss. That of a sampled step is taken to be q^2 times e^(mu^2) - 1, or 4 sinh(mu^2 / 4)
    if two versions of a record move a sum by mu / 2 in opposite directions.

    Args:
        gap, iterations, diameter: as for `last_iterate_norm`; the move is that of one record.
        records: number of records that change.
        rate: the probability q that a record is in the batch of a step.
        mu: the largest move of a step in units of its noise.
        opposite: whether two versions of a record are compared, and each is in a sample or not.
    """
    log_c = math.log1p(-min(gap, LARGEST_GAP)) if gap >= LEAST_GAP else 0.0
    tried = _tried_uses()
    n = tried[tried < iterations][:, None]
    if not len(n):
        return None
    # z_tau in units of the move of one record, and the mu of the Gaussian for h = 1 (item 6), for each n.
    distance = np.minimum(diameter, records * _sum(log_c, iterations - n))
    whole_mu = np.exp(n * log_c) * distance / np.sqrt(_sum(2.0 * log_c, n)) * (mu / records) * RAISE
    shares = np.geomspace(LEAST_SHARE, MOST_SHARE, SHARES)
    with np.errstate(over="ignore"):
        # The squared mu of a step with the share 1 - h of the noise's variance, for each h; the last entry is for h = 0, a step as it is.
        squares = np.minimum(mu**2 / (1.0 - np.append(shares, 0.0)), LARGEST_EXPONENT)
        step_variances = rate**2 * (4.0 * np.sinh(squares / 4.0) if opposite else np.expm1(squares))
        variances = whole_mu**2 / shares + n * step_variances[:-1]  # shape (numbers n, shares)
    row, column = np.unravel_index(np.argmin(variances), variances.shape)
    if variances[row, column] >= iterations * step_variances[-1]:
        return None
    share = float(shares[column])
    return HiddenSteps(steps=int(n[row, 0]), share=share, mu=float(whole_mu[row, 0]) / math.sqrt(share) * RAISE)
