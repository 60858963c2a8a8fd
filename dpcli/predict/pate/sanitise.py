"""A cost that depends on the votes, released with noise in proportion to its smooth sensitivity.

The release is D + c S + sigma S' Z with Z standard normal, S the smooth sensitivity of D at beta, S' = S (1 + c (e^beta - 1)) that of
D + c S, and c such that the release is below D + S with probability `failure` only. It is itself a release of the votes: `release_cost`.

D bounds the divergence of what was released from what neighbouring votes would have released, and not the reverse one, which is at most
their D: for votes of (17, 3) with noise 2, at order 4, it is 3.3 times as large. Theirs is at most D + S, so that the release bounds both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import CannotCertify, InternalError
from dpcli.numerics.logspace import log_ndtr
from dpcli.numerics.roots import bracket_root

ROUNDED = 1e-9  # relative, by which S is raised: more than it loses, as it is computed


@dataclass(frozen=True, slots=True)
class Release:
    """How the cost is released; fixed before the votes are seen. order: of the divergence that is released."""

    order: float
    beta: float
    sigma: float
    failure: float


def release_cost(release: Release) -> float:
    """D at the release's order of Gaussian noise in proportion to the smooth sensitivity.

    Raises CannotCertify where the order is not below 1 / (2 beta).
    Source: Papernot et al. 2018, arXiv:1802.08908, Theorem 23.
    """
    a, beta = release.order, release.beta
    if not (a > 1.0 and beta >= 0.0 and 2.0 * a * beta < 1.0 and release.sigma > 0.0):
        raise CannotCertify(f"expected an order between 1 and 1 / (2 beta) = {0.5 / beta if beta else math.inf:g}, found {a:g}")
    return (a * math.exp(2.0 * beta) / release.sigma**2 + (-0.5 * math.log1p(-2.0 * a * beta) + beta * a) / (a - 1.0)) * (
        1.0 + 1e-14
    )


def released(cost: float, smooth: float, release: Release, normal: float) -> float:
    """What is released of a cost with this smooth sensitivity, given a draw from N(0, 1).

    Raises CannotCertify where no c makes it larger than the costs of all neighbouring votes with the probability that is asked for.
    """
    if not (0.0 <= cost < math.inf and 0.0 <= smooth < math.inf and math.isfinite(normal)):
        raise InternalError("a cost, its sensitivity or noise that is not finite: this is a bug in dpcli, and no number")
    raised = smooth * (1.0 + ROUNDED)
    c = raising(release)
    return cost + c * raised + release.sigma * raised * (1.0 + c * math.expm1(release.beta)) * normal


def raising(release: Release) -> float:
    """c with Pr[sigma (1 + c (e^beta - 1)) Z < 1 - c] = failure.

    Raises CannotCertify where there is none.
    """
    z = bracket_root(lambda x: log_ndtr(-x) - math.log(release.failure), -1.0, 40.0)[1]
    left = 1.0 - z * release.sigma * math.expm1(release.beta)
    if z > 0.0 and left <= 0.0:
        raise CannotCertify("the noise grows with what it is to be raised by: a smaller beta or sigma, or a larger failure, may do")
    return max((1.0 + z * release.sigma) / left, 0.0)
