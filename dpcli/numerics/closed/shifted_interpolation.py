"""The privacy of the last iterate of noisy gradient descent, if no earlier iterate is seen: one Gaussian, by shifted interpolation.

Let X_k = P(f_k(X_{k-1}) + Z_k) and X'_k = P(f'_k(X'_{k-1}) + Z'_k) for k = 1, ..., t, from the same X_0. All Z are independent Gaussian
vectors of variance v^2 in each coordinate, P is the projection onto a convex set (or nothing), |f_k(x) - f_k(y)| <= c |x - y| with c <= 1,
and |f_k(x) - f'_k(x)| <= s_k. Choose tau, numbers a_k >= 0, and z_k = c z_{k-1} + s_k - a_k >= 0 for k > tau, with z_t = 0. Let z_tau be 0
if tau = 0, and the diameter of the set otherwise.

Theorem (Bok, Su, Altschuler 2024, arXiv:2403.00278). X_t and X'_t are dominated by Gaussian noise with mu^2 = (sum of a_k^2) / v^2.

Proof. Let Y_tau = X'_tau and Y_k = P(w_k f_k(X_{k-1}) + (1 - w_k) f'_k(Y_{k-1}) + Z_k), with the Z of X and with w_k = a_k / (c z_{k-1} +
s_k). If |X_{k-1} - Y_{k-1}| <= z_{k-1}, then |f_k(X_{k-1}) - f'_k(Y_{k-1})| <= c z_{k-1} + s_k. As P brings points no further apart,
|X_k - Y_k| <= (1 - w_k) (c z_{k-1} + s_k) = z_k. So Y_t = X_t. Given Y_{k-1} = y, Y_k is P of f'_k(y) + Z_k, moved by the vector w_k
(f_k(X_{k-1}) - f'_k(y)), which is random, independent of Z_k, and no longer than a_k. Given X'_{k-1} = y, X'_k is P of f'_k(y) + Z'_k. So
each step costs at most a Gaussian with mu = a_k / v, and by post-processing, the composition of the steps after tau dominates (Y_t, X'_t).
A Gaussian pair is the same in both directions, so that it is enough if f_k contracts for one of the two datasets.

**The best a_k for batches in turn.** s_k is s if the record is in the batch of step k, which is so once in each l steps, and 0 otherwise.
The last use is in step t: the steps after the last use are post-processing, and those before the first one are the same in both runs. Let s
= 1, and let tau = t - n l, so that n uses come after it. z_k >= 0 says that the sum of c^{t-j} a_j over the steps j > k is at least that of
c^{t-j} s_j. Over all steps after tau, it exceeds that by c^{n l} z_tau. As functions of W, the sum of c^{2 (t-j)} over j > k, the first sum
is a curve whose slopes are a_j / c^{t-j}, and sum a_j^2 is the integral of their squares. This is least for the least concave curve that is
nowhere below the second sum. Its corners can be where i = 0, 1, ..., n uses have been counted, at (0, 0) and (W_i, U_i) with W_i = sum of
c^{2j} for j <= (i-1) l and U_i = sum of c^{j l} for j < i, or at the end, (W, B) with W = sum of c^{2j} for j < n l and B = U_n + c^{n l}
z_tau. The slopes from i = 1 to n grow like c^{-i l}. So the curve is one chord to the end, from (0, 0) or from (1, 1), unless point n is
above it. If it is, n = 1 is better: then the part after point n costs as much, and that before it 1 in place of more. A tau between two
uses is never better, because W is smaller and B larger than for the same n. With tau = 0, the end is point n. With l = 1 and no set, this
gives mu^2 = (s / v)^2 (1 - c^t) (1 + c) / ((1 + c^t) (1 - c)).
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np

# Numbers of uses after tau that are tried. Every number gives an upper bound, and next to the best one it is larger by less than 1e-6.
ALL_UP_TO, RATIO, MOST = 1000, 1.001, 1e18
LEAST_GAP = 1e-290  # smallest 1 - c; a smaller one counts as 0, as its powers lose digits
LARGEST_GAP = 1.0 - 2.0**-53  # largest 1 - c; c = 0 counts as 2^-53, which is an upper bound


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
    if batches == 1:
        least = float(_sum(log_c, uses) ** 2 / _sum(2.0 * log_c, uses))
    else:
        later = math.exp(batches * log_c) * _sum(batches * log_c, uses - 1)
        least = 1.0 + float(later**2 / (math.exp(2.0 * log_c) * _sum(2.0 * log_c, max((uses - 1) * batches, 1))))
    if uses > 1 and diameter < math.inf:
        tried = _tried_uses()
        least = min(least, float(_from_anywhere(log_c, batches, tried[tried < uses], diameter).min()))
    return math.sqrt(least) * (1.0 + 1e-12)


def _tried_uses() -> Array:
    """Return the numbers of uses after tau that are tried. They do not depend on the setting, so that the cost grows with the steps."""
    larger = np.floor(ALL_UP_TO * RATIO ** np.arange(1.0, math.log(MOST / ALL_UP_TO) / math.log(RATIO)))
    return np.concatenate((np.arange(1.0, ALL_UP_TO + 1.0), larger))


def _from_anywhere(log_c: float, batches: int, n: Array, diameter: float) -> Array:
    """Return the sum of a_k^2 for the last n uses, from two points at the distance `diameter`; inf if fewer uses are better."""
    steps = n * batches
    # The sums without their first term, 1, are the chord from (1, 1).
    far = np.exp(steps * log_c) * diameter + math.exp(batches * log_c) * _sum(batches * log_c, n - 1.0)
    wide = math.exp(2.0 * log_c) * _sum(2.0 * log_c, steps - 1.0)
    uses, width = _sum(batches * log_c, n), _sum(2.0 * log_c, steps - batches + 1.0)
    direct = far >= wide  # then (1, 1) is not above the chord from (0, 0)
    start = np.where(direct, 0.0, 1.0)
    with np.errstate(over="ignore"):
        slope = (1.0 - start + far) / np.maximum(1.0 - start + wide, np.finfo(float).tiny)
        is_below = (n == 1.0) | (uses - start <= slope * (width - start) * (1.0 + 1e-13))
        return np.asarray(np.where(is_below, start + slope * (1.0 - start + far), math.inf))


def _sum(log_ratio: float, terms: Array | float) -> Array:
    """Return 1 + r + ... + r^(terms - 1) for r = e^log_ratio <= 1."""
    if log_ratio == 0.0:
        return np.asarray(terms, dtype=float)
    return np.asarray(np.expm1(np.asarray(terms, dtype=float) * log_ratio) / math.expm1(log_ratio))
