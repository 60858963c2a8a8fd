"""Laplace noise on a Poisson sample, for several records of one unit or group that are sampled independently.

`LaplaceSpec.poisson` (laplace.py) makes the mechanisms `LaplaceMixture` and, under replace-one, `LaplaceMixtureReplaced`. The rest are the
losses of their pairs, of records that are removed, added or replaced.

Let Q be the law of the output without the records. Let P_j be its law with a subset j of them, which is drawn with probability w_j. The
pair is (sum w_j P_j, Q).

Theorem. This pair is dominated by the pair of a single number to which every record contributes its whole bound.

Proof.

1. Let Y have the law of one coordinate's noise. Let l_n be the density of noise that is moved by n bounds, over the density of noise.
2. For a convex function f, E_Q[f(sum w_j dP_j/dQ)] is the mean of a convex function of a sum of random variables. Among sums with given
   marginals, the sum is largest in the convex order if all terms increase together. Such a sum increases in the convex order with each
   marginal (Kaas, Dhaene, Goovaerts 2000, Upper and lower bounds for sums of random variables).
3. If n records are in the subset j, the marginal of dP_j/dQ is at most that of l_n(Y), because a move by n bounds in one coordinate is the
   worst case (laplace.py), and l_n increases with n.
4. Each l_n increases with Y, because the density of the noise is log-concave. So sum w_j l_n(Y) is the largest sum.
5. The hockey-stick divergences of both directions have the form E_Q[f].

If the records are replaced, the subset j has the law P_j before and R_j after, and the divergence at gamma is E_Q[(sum w_j dP_j/dQ - gamma
sum w_j dR_j/dQ)+]. The same proof serves: minus gamma l_{-n}(Y) rises in Y as l_n(Y) does, and its marginal is the largest too. So the pair
(sum w_j Lap(s_j), sum w_j Lap(-s_j)) of one number dominates, where every record first adds and then takes its whole bound.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs. Of a loss L, `tails`
returns log tail probabilities under P and Q. `outcomes` returns the atoms and densities of the pair.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.sampling.poisson import NO_RHO, SampledLoss, join_tails, with_ends
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.mixture import Mixture, unmix  # unmix inverts g -> log(1 - w + w e^g)
from dpcli.numerics.tails import Tails, mixed, single_epsilon
from dpcli.numerics.work import shared  # a cache

if TYPE_CHECKING:
    from dpcli.numerics.contour.outcomes import LossPiece, Outcomes

LOG_TWO = math.log(2.0)
LOG_LEAST_SHARE = -600.0  # least logarithm of a piece's share at g = 0, so that the share does not underflow
LARGEST_EXPONENT = 700.0  # exponents are cut off here, because e^710 overflows; beyond, logarithms are added


@dataclass(frozen=True, slots=True)
class LaplaceMixture(Mechanism):
    """Laplace noise on a sum that records move by a random amount, under add-remove or zero-out. The shifts are in units of the scale.

    A single number to which each record contributes its whole bound attains the pair.
    """

    mixture: Mixture

    def approx_dp(self, delta: float) -> float:
        """Return epsilon, exact for the pairs up to rounding, and rounded up; at delta = 0, the largest loss."""
        if delta <= 0.0:
            return max(loss.largest for loss in self.losses()) * (1.0 + 1e-13)
        return max(upper for _, upper in (single_epsilon(loss, math.log(delta)) for loss in self.losses()))

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[LossOfSum, ...]:
        loss = LaplaceMixtureLoss(self.mixture)
        return loss, LaplaceMixtureAddLoss(loss)


@dataclass(frozen=True, slots=True)
class LaplaceMixtureReplaced(LaplaceMixture):
    """Laplace noise on a sum that records move by a random amount, under replace-one. Every version of a record moves the sum.

    A single number attains the pair if one version of each record adds its whole bound and the other one subtracts it.
    """

    def losses(self) -> tuple[LossOfSum, ...]:
        return (LaplaceMixtureReplaceLoss(LaplaceMixtureLoss(self.mixture)),)


@dataclass(frozen=True, slots=True)
class LaplaceMixtureLoss(SampledLoss):
    """The loss of the pair (sum_j w_j Lap(s_j, 1), Lap(0, 1)), where s_0 = 0 and the other shifts increase.

    The ratio m(y) = sum_j w_j e^{|y| - |y - s_j|} increases with y. Between s_i and s_{i+1} it is sum_{j<=i} w_j e^{s_j} + e^{2y} sum_{j>i}
    w_j e^{-s_j}. It is constant below 0 and above the last shift. The weights and shifts are those of `mixture`, in units of the noise's
    scale: `log_rest` is log w_0, and `reach` the last shift. The *knots* are the values of log m at the shifts. The *share* of m at some y
    is the part of it that grows as e^{2y}, over m.
    """

    mixture: Mixture

    def log_knots(self) -> Array:
        """Return log m at the shifts, with all digits where it is near 0, as an array of shape (shifts + 1,)."""
        log_knots, _ = _knots(self.mixture)
        return log_knots

    @property
    def largest(self) -> float:
        """The largest loss."""
        return float(self.log_knots()[-1])

    def log_shares(self) -> Array:
        """Return for each shift but the last the log share of m that grows as e^{2y} from there on, as an array of shape (shifts,)."""
        _, log_shares = _knots(self.mixture)
        return log_shares

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import Outcomes

        reference = np.array([-LOG_TWO, -LOG_TWO - self.mixture.reach])  # log Q of y <= 0 and of y beyond the last shift
        return Outcomes(reference, self.log_knots()[[0, -1]], self.pieces(1.0))

    def pieces(self, sign: float) -> tuple[LossPiece, ...]:
        """Return the pieces between the shifts (`LossPiece`, numerics/contour/outcomes.py), in the variable g = 2 (y - s_i) + start.

        `start` is chosen so that the share at g = 0 is at least e^LOG_LEAST_SHARE. sign: -1 for minus the loss.
        """
        from dpcli.numerics.contour.outcomes import LossPiece

        knots, pieces = self.log_knots().tolist(), []
        for i, (shift, next_shift) in enumerate(pairwise(self._shifts)):
            share, start = self._share(i)
            log_density = -2.0 * LOG_TWO - shift + 0.5 * start  # that of Q at g = 0; it is e^{-y} / 4 in g
            end = start + 2.0 * (next_shift - shift)
            pieces.append(LossPiece(start, end, log_density, slope=-0.5, rate=share, sign=sign, log_scale=knots[i]))
        return tuple(pieces)

    def _share(self, i: int) -> tuple[float, float]:
        """Return the share at g = 0, and g at the i-th shift, which is below 0 if the share at the shift would underflow."""
        log_share = float(self.log_shares()[i])
        start = min(log_share - LOG_LEAST_SHARE, 0.0)
        return math.exp(log_share - start), start

    def outcome(self, at: Array) -> Array:
        """Return y with log m(y) = at, between 0 and the last shift; one of these if `at` is beyond the range of log m."""
        knots, shifts = self.log_knots(), self._shifts
        pieces = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(shifts) - 2)  # for each `at`, the index of its piece
        y = np.empty(len(at))
        for piece in np.unique(pieces).tolist():
            in_piece = pieces == piece
            share, start = self._share(piece)
            log_constant_share = math.log1p(-share) if share < 1.0 else -math.inf
            width = 2.0 * (shifts[piece + 1] - shifts[piece])
            g = unmix(at[in_piece] - knots[piece], log_constant_share, share)
            y[in_piece] = shifts[piece] + 0.5 * np.clip(g - start, 0.0, width)
        return y

    def tails(self, at: Array) -> Tails:
        knots, y = self.log_knots(), self.outcome(at)
        tails = Tails(*self.mixed_tails(y, 1.0), *_laplace_tails(y))
        return with_ends(tails, below=at < knots[0], beyond=at >= knots[-1])

    def mixed_tails(self, y: Array, sign: float) -> tuple[Array, Array]:
        """Return log P(Y > y) and log P(Y <= y) for noise Y that is moved by a random shift times `sign`."""
        weights = [self.mixture.log_rest, *self.mixture.log_weights]
        above, below = zip(*(_laplace_tails(y - sign * shift) for shift in self._shifts), strict=True)
        return mixed(weights, list(above)), mixed(weights, list(below))

    @property
    def _shifts(self) -> tuple[float, ...]:
        """The shifts, of which the first is 0."""
        return (0.0, *self.mixture.shifts)


@dataclass(frozen=True, slots=True)
class LaplaceMixtureAddLoss(SampledLoss):
    """The loss of the reversed pair, from the reference to the mixture: minus the loss of `removal`."""

    removal: LaplaceMixtureLoss

    @property
    def largest(self) -> float:
        return -float(self.removal.log_knots()[0])

    def outcomes(self) -> Outcomes:
        from dpcli.numerics.contour.outcomes import Outcomes

        removal = self.removal.outcomes()
        return Outcomes(removal.log_reference + removal.log_ratio, -removal.log_ratio, self.removal.pieces(-1.0))

    def tails(self, at: Array) -> Tails:
        return self.removal.tails(-at[::-1]).mirrored()


@dataclass(frozen=True, slots=True)
class LaplaceMixtureReplaceLoss(SampledLoss):
    """The loss of the pair (sum_j w_j Lap(s_j, 1), sum_j w_j Lap(-s_j, 1)), which is its own mirror image.

    For y >= 0 the reference has the density E e^{-y} / 2, where E = m(0) is the ratio of `removal` at 0, and the loss is log m(y) - log E.
    """

    mirrored: ClassVar[bool] = True  # the loss of (Q, P) has the same law

    removal: LaplaceMixtureLoss

    @property
    def _log_scale(self) -> float:
        """Return log E, which is negative."""
        return float(self.removal.log_knots()[0])

    @property
    def largest(self) -> float:
        return self.removal.largest - self._log_scale

    def outcomes(self) -> Outcomes:
        """Return the atom and the pieces with y > 0, and their mirror images."""
        from dpcli.numerics.contour.outcomes import Outcomes

        scale = self._log_scale
        atom = scale - LOG_TWO - self.removal.mixture.reach
        positive = [
            replace(piece, log_density=piece.log_density + scale, log_scale=piece.log_scale - scale)
            for piece in self.removal.pieces(1.0)
        ]
        negative = [replace(piece, sign=-1.0) for piece in positive]
        ends = np.array([self.largest, -self.largest])
        return Outcomes(np.array([atom, atom + self.largest]), ends, (*positive, *negative))

    def tails(self, at: Array) -> Tails:
        """Return the tails from 0 on, and their mirror image below 0."""
        split = int(np.searchsorted(at, 0.0))
        return join_tails(self._upper_tails(-at[:split][::-1]).mirrored(), self._upper_tails(at[split:]))

    def _upper_tails(self, at: Array) -> Tails:
        y = self.removal.outcome(at + self._log_scale)
        tails = Tails(*self.removal.mixed_tails(y, 1.0), *self.removal.mixed_tails(y, -1.0))
        return with_ends(tails, below=np.zeros(len(at), dtype=bool), beyond=at >= self.largest)


def _laplace_tails(x: Array) -> tuple[Array, Array]:
    """Return log P(Y > x) and log P(Y <= x) for standard Laplace noise Y."""
    small = -np.abs(x) - LOG_TWO
    large = np.log1p(-np.exp(small))
    return np.where(x > 0.0, small, large), np.where(x > 0.0, large, small)


@shared(256)
def _knots(mixture: Mixture) -> tuple[Array, Array]:
    """Return `log_knots` and `log_shares` of the loss, cached."""
    weights, shifts = np.array([mixture.log_rest, *mixture.log_weights]), np.array([0.0, *mixture.shifts])
    y, shift = shifts[:, None], shifts[None, :]
    log_ratios = np.where(shift <= y, shift, 2.0 * y - shift)  # log of Lap(shift, 1) over Lap(0, 1) at y
    change = (np.exp(weights) * np.expm1(np.minimum(log_ratios, LARGEST_EXPONENT))).sum(axis=1)  # m - 1
    log_sums = np.logaddexp.reduce(weights + log_ratios, axis=1)
    knots = np.where(np.abs(change) < 0.5, np.log1p(np.maximum(change, -0.5)), log_sums)
    # log of the part that grows as e^{2y}, which is that of the shifts beyond y
    log_growing = np.where(shift > y, weights + log_ratios, -np.inf)[:-1]
    return knots, np.minimum(np.logaddexp.reduce(log_growing, axis=1) - knots[:-1], 0.0)


LossOfSum = LaplaceMixtureLoss | LaplaceMixtureAddLoss | LaplaceMixtureReplaceLoss
