"""Binomial tails and Clopper-Pearson bounds, each rounded in its safe direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.lazy import lazy
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy("scipy.special")

ROUNDING = 1e-11  # relative; the incomplete beta function is good to about 1e-13


def tail(trials: int, rate: float, least: Array) -> Array:
    """P(Binomial(trials, rate) >= least) for each of `least`: 1 up to 0, 0 beyond `trials`; relative error about 1e-13."""
    inside = np.clip(least, 1.0, float(trials))
    found = special.betainc(inside, trials - inside + 1.0, rate)
    return np.where(least <= 0.0, 1.0, np.where(least > trials, 0.0, found))


def rate_upper(count: Array | float, trials: int, significance: float) -> Array:
    """The largest rate that `count` of `trials` do not refute: exceeded by the truth with probability at most `significance`.

    Args:
        count: 0 to trials. significance: in (0, 1).

    Returns:
        An upper bound; 1 where every trial counted.

    Source: Clopper & Pearson 1934, Biometrika 26(4), 404-413, one-sided.
    """
    counts = np.asarray(count, dtype=float)
    inside = np.minimum(counts, trials - 1.0)
    found = special.betainccinv(inside + 1.0, trials - inside, significance) * (1.0 + ROUNDING)
    return np.where(counts >= trials, 1.0, np.minimum(found, 1.0))


def rate_lower(count: Array | float, trials: int, significance: float) -> Array:
    """The smallest rate that `count` of `trials` do not refute, from below; `rate_upper` of those that did not count."""
    return np.asarray(1.0 - rate_upper(trials - np.asarray(count, dtype=float), trials, significance))
