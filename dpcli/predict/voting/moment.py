"""The moment of a likely and an unlikely outcome, of which both theorems on votes consist."""

from __future__ import annotations

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_expm1_array

ROUNDING = 1e-13  # relative: more than a sum of divergences loses, as it is computed here
FAR = 600.0  # e^FAR is still a number


def divergence(log_q: Array, log_1q: Array, log_a: Array, log_b: Array, above_one: float) -> Array:
    """log[(1 - q) A^z + q B^z] / z for A, B >= 1 at z = order - 1, elementwise; 0 where q is.

    As log1p of (1 - q)(A^z - 1) + q (B^z - 1): both are positive, and nothing cancels where the order is close to 1 or q to 0.
    """
    with np.errstate(all="ignore"):
        likely, unlikely = above_one * log_a, log_q + log_expm1_array(above_one * log_b)
        near = np.log1p(np.exp(log_1q) * np.expm1(np.minimum(likely, FAR)) + np.exp(np.minimum(unlikely, FAR)))
        far = (likely > FAR) | (unlikely > FAR)
        if far.any():
            near[far] = np.logaddexp(log_1q[far] + likely[far], log_q[far] + above_one * log_b[far])
    return np.asarray(np.where(log_q == -np.inf, 0.0, np.where(near >= 0.0, near / above_one, np.inf)))


def log1mexp_array(x: Array) -> Array:
    """log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(x > -0.6931471805599453, np.log(-np.expm1(x)), np.log1p(-np.exp(x))))
