"""Which of several scores is the largest after noise: no worse than Laplace noise on one number.

Theorem. Add to every score independent noise of one law, with density f and distribution function F, in such units that f <= 1 - F: so have
Exp(1) and Lap(1). Let one change move the difference of any two scores by at most epsilon. Then the index of the largest noisy score is
dominated by the pair (Lap(epsilon), Lap(0)) of unit scale, which is sharper than epsilon-DP.

Proof. Let S be a set of candidates, X the largest noisy score in S and Y that outside of S. With F_i and f_i those of score i in S, the
density of X is sum_i f_i prod_{j != i} F_j <= sum_i (1 - F_i) prod_{j != i} F_j, the probability that exactly one of them is larger, so at
most P(X > x). Averaged over Y, the density of Z = X - Y is at most P(Z > z); the same of Y makes it at most P(Z < z). S is chosen with
probability P(Z > 0), and after the change with P(Z > epsilon) at least. P(Z > z) falls at no more than the rate min(P(Z > z), P(Z < z)),
which is that of Laplace noise exactly: so P(Z > epsilon) is at least P(l > epsilon) where l is Laplace noise, shifted such that P(l > 0) =
P(Z > 0). What holds of every S is that the trade-off curve lies above that of the Laplace pair.

Two candidates attain each point of that curve with Exp(1), no two of them all of it: so no lower bound is claimed.
"""

from __future__ import annotations

from dpcli.mechanisms.combined.least_of import LeastOf
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.noise.no_privacy import LARGEST_RATIO, SMALLEST_RATIO
from dpcli.mechanisms.stated.two_point import Pure


def noisy_maximum(epsilon: float) -> Mechanism:
    """The theorem's bound; and the pure one, whose sums have closed forms that are sharper than a grid where the two hardly differ."""
    if not SMALLEST_RATIO < epsilon <= LARGEST_RATIO:
        return Pure(epsilon)
    return LeastOf((Laplace(epsilon).unclaimed(), Pure(epsilon)))
