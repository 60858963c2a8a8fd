"""Dominating pairs of Gaussian noise on a sum that moves by a random amount, in units of the noise's standard deviation.

`MixtureRemoveLoss`, `MixtureAddLoss` and `MixtureReplaceLoss` are the privacy losses L = log r, r = dP/dQ, of a record that is removed,
added or replaced. `GaussianMixture` (gaussian_mixture.py) returns them; DP-SGD is the case of one shift, with the sampling rate as its
weight. A `Mixture` (numerics/mixture.py) of normal distributions has the ratio m(x) to N(0, 1), and the following:

* `reach` is the largest shift, `single` says whether only one shift is positive, and `log_rest` is the log weight at shift 0.
* `log_ratio` returns log m at x, and `outcome` the x at a value of log m. `log_mean` returns the log of E[e^{k x}] under m N(0, 1).
* `ends` returns the log masses of m N(0, 1) above and below x, from those of N(0, 1).
* Left of -`left_peak`, N(0, 1) m^-z falls faster than N(0, 1) does from 0.
* `log_sum_and_slope` is for the sum over the positive shifts alone, and `bracket` bounds the x at a value of it.

Accountants ask a loss for `cgf`, an upper bound on K(z) = log E_P[e^{z L}]; for `tails`, its tail probabilities under P and Q; and for
`tilted`, the loss under P times e^{t L}, normalised, whose characteristic function the contour method integrates (numerics/contour).
Numerical methods look up the following by name, because a loss need not have them:

* `capped` leaves out the far upper tail, and `cut` divides the loss into a small and a big part (numerics/contour/cut.py).
* `nearly_noiseless` and `step_kind` serve a method for very little noise (numerics/contour/little_noise.py).
* `sampled_step` serves a method for two or three steps (numerics/contour/few_steps.py).
* `row` makes the loss a row of a table of many losses, which one call evaluates (numerics/mixture.py).

One change of the data moves the sum by u_i under P and by v_i under Q. The index i is drawn with probability w_i under both, and
|u_i|, |v_i| <= s_i. For example, i says which records of a group are in a sample. By joint convexity, everything else that is random, such
as the rest of the sample, may be fixed.

Theorem. For every gamma >= 0 the hockey-stick divergence of (sum w_i N(u_i, I), sum w_i N(v_i, I)) is at most that of the scalar pair
(sum w_i N(s_i, 1), sum w_i N(-s_i, 1)). If all v_i = 0, it is at most that of (sum w_i N(s_i, 1), N(0, 1)).

Proof.

1. Relative to N(0, I), the divergence is F(C) = E h(M). Here h is the positive part, and M = sum_i c_i e^{g_i - C_ii/2}. The g_i are
   <u_i, X> and <v_i, X>, which are jointly Gaussian with covariance C. c_i is w_i for the former and -gamma w_i for the latter.
2. Replace h by smooth convex functions that converge to it uniformly, with bounded h' and h'' (softplus).
3. Let C change along a line, C + t dC, as the covariance of sqrt(1-t) g + sqrt(t) g* for independent g and g*. With
   e_i = e^{g_i - C_ii/2}, Gaussian integration by parts gives
   dF/dt = sum_{i<j} dC_ij c_i c_j E[h'' e_i e_j] + 1/2 sum_i dC_ii c_i^2 E[h'' e_i^2]. The terms in h' from the change of C_ii are
   cancelled by those from the change of -C_ii/2.
4. So F increases with the diagonal and with the covariances within one side (c_i c_j > 0), and decreases with those between the sides.
5. By Cauchy and Schwarz, covariances within a side are at most s_i s_j, and those between the sides are at least -s_i s_j. One covariance
   attains all of these bounds: collinear u_i = s_i and v_i = -s_i. All matrices on the line to it are covariances.

The pair with all v_i = 0 is that of Choquette-Choo et al. 2023, arXiv:2310.15526.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_normal, log_normal_ends
from dpcli.numerics.mixture import Line, Mixture
from dpcli.numerics.quadrature import TAIL, fits, power_moment, span, step_below, step_size
from dpcli.numerics.roots import increasing_root
from dpcli.numerics.tails import Tails

if TYPE_CHECKING:
    from dpcli.numerics.contour.cut import CappedLoss, CutLoss
    from dpcli.numerics.contour.few_steps import SampledStep
    from dpcli.numerics.contour.little_noise import StepKind
    from dpcli.numerics.contour.tilted import TiltedQuadrature
    from dpcli.numerics.mixture import TableRow

BLOCK = 1 << 20  # most entries of a table of tails that is computed at a time; it affects memory alone
NEARLY_NOISELESS = 6.0  # from this contribution over noise on, the noise counts as very small, which decides the method
MAX_REACH = 120.0  # speed: largest contribution over noise with a tilted loss, which would take too many nodes beyond


class MixtureLoss:
    """Base class of the losses of the three pairs.

    stretch: the largest slope of log r, in units of the largest shift.
    counts_participations: whether the number of participations determines the loss if the noise is very small (contour/little_noise.py).
    moved: whether a sampled record moves the outcome under P, and under Q.
    """

    __slots__ = ()

    mixture: Mixture
    stretch: ClassVar[float] = 1.0
    counts_participations: ClassVar[bool] = False
    moved: ClassVar[tuple[bool, bool]]

    @property
    def nearly_noiseless(self) -> bool:
        """Tell whether the outcome of a step nearly always shows if the record took part, because the noise is very small."""
        return self.counts_participations and self.mixture.single and self.mixture.reach >= NEARLY_NOISELESS

    def line(self, x: Line) -> tuple[Line, Line]:
        """Return the log density of Q, and log r, at x."""
        raise NotImplementedError

    def window(self, z: float) -> tuple[float, float]:
        """Return an interval of x outside of which less than e^-40 of Q r^{z+1}, the integrand of e^{K(z)}, lies."""
        raise NotImplementedError

    def cgf(self, z: Array) -> Array:
        """Return upper bounds on K, larger by a share of about 1e-12. Orders that need too many nodes get the bound by convexity."""
        return power_moment(z, self.line, self._whole_window, self.step, self._bound_by_convexity)

    def _bound_by_convexity(self, z: Array) -> Array:
        return self.mixture.moment_bound(z, self.stretch)

    def _whole_window(self, z: float) -> tuple[float, float]:
        """Return `window`, widened for the integrand of the CGF, which is about Q (r - 1)^2 at small z."""
        low, high = self.window(z)
        reach, stretch = self.mixture.reach, self.stretch
        return low, max(high, (stretch + 1.0) * reach + TAIL)

    def step(self, z: float) -> float:
        """Return a node distance at which the trapezoidal rule is exact enough for the integral of Q r^{z+1} (numerics/quadrature.py)."""
        return float(step_size(z + 1.0, self.stretch * self.mixture.reach))

    def tilted(self, t: float) -> TiltedQuadrature:
        """Return the tilted loss. Raises NotRepresentable above MAX_REACH.

        The number of nodes grows with the square of the contribution over the noise, so it would take minutes.
        """
        from dpcli.numerics.contour.tilted import TiltedQuadrature

        reach = self.mixture.reach
        if reach > MAX_REACH:
            raise NotRepresentable(f"one unit's contribution is {reach:.3g} times the noise: its quadrature would take too long")
        # True if `cgf` takes the integral, and not the bound by convexity.
        exact_cgf = fits(*span(t, self._whole_window, self.step))
        return TiltedQuadrature(t, self.line, self.window(t), strip=0.5 * math.pi / reach, step=self.step(t), exact_cgf=exact_cgf)

    def row(self) -> TableRow | None:
        """Return the loss as a row of a table of its family; None if there is no such table."""
        return None

    def sampled_step(self) -> SampledStep | None:
        """Return the step for contour/few_steps.py, or None if it has several shifts, no weight at 0, or too large a shift."""
        from dpcli.numerics.contour.few_steps import SampledStep

        mixture = self.mixture
        if not mixture.single or mixture.log_rest == -math.inf or mixture.reach > NEARLY_NOISELESS:
            return None
        moves_p, moves_q = self.moved
        return SampledStep(mixture.reach, _rate_of(mixture), moves_p, moves_q)

    def tails(self, at: Array) -> Tails:
        """Return the tails, computed in blocks at the outcomes where log r equals `at`."""
        size = max(BLOCK // len(self.mixture.shifts), 1)
        blocks = [self.tails_at(at[i : i + size]) for i in range(0, max(len(at), 1), size)]
        return blocks[0] if len(blocks) == 1 else Tails(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))

    def tails_at(self, at: Array) -> Tails:
        """Return the tails for one block."""
        raise NotImplementedError


def _rate_of(mixture: Mixture) -> float:
    """Return the weight of a mixture's only shift, which is the sampling rate."""
    return math.exp(mixture.log_weights[0]) if mixture.weights is None else mixture.weights[0]


def step_kind_of(mixture: Mixture, without: float) -> StepKind | None:
    """Return the kind of a step for contour/little_noise.py, or None if it has several shifts, or no weight at 0.

    without: the loss of a step in which the record does not take part, up to a small error.
    """
    from dpcli.numerics.contour.little_noise import StepKind

    if not mixture.single or mixture.log_rest == -math.inf:
        return None
    present = mixture.log_weights[0] - mixture.log_rest + without
    return StepKind(mixture.reach, _rate_of(mixture), without, present)


@dataclass(frozen=True, slots=True)
class MixtureRemoveLoss(MixtureLoss):
    """The loss of the pair (m N(0, 1), N(0, 1)), with the ratio r = m."""

    counts_participations: ClassVar[bool] = True
    moved: ClassVar[tuple[bool, bool]] = (True, False)

    mixture: Mixture

    def row(self) -> TableRow | None:
        from dpcli.numerics.mixture import ShiftedRemove, single_row

        return single_row(ShiftedRemove, self.mixture, MAX_REACH)

    def line(self, x: Line) -> tuple[Line, Line]:
        return log_normal(x), self.mixture.log_ratio(x)

    def window(self, z: float) -> tuple[float, float]:
        return -TAIL, (z + 1.0) * self.mixture.reach + TAIL  # TAIL: standard deviations beyond the outermost peak

    def capped(self, log_mass: float) -> CappedLoss:
        """Return the loss without a far tail of mass e^log_mass."""
        from dpcli.numerics.contour.cut import cap

        return cap(self.line, self.mixture.reach, self.mixture.log_mean, log_mass)

    def cut(self, level: float, log_mass: float) -> CutLoss | None:
        """Return the loss divided into a small and a big part (contour/cut.py), or None if this would need too many nodes.

        The big part begins at about twice `level`, or where only the mass e^log_mass of P is beyond. BEND, SMALL and BIG are multiples of
        the level: of where nodes get denser, of the last small losses, and of the first big ones.
        """
        from dpcli.numerics.contour.cut import BEND, BIG, SMALL, cut, edge_at

        m = self.mixture
        low, high, bend = m.outcome(level * np.array([SMALL, BIG, BEND])).tolist()
        sharpness, edge = edge_at(low, high, m.reach + math.sqrt(-2.0 * log_mass), m.log_mean, log_mass)
        return cut(self.line, m.reach, sharpness, edge, bend)

    def outcome(self, at: Array) -> Array:
        """Return the x with log r = at, or -inf if log r is larger everywhere."""
        return self.mixture.outcome(at)

    def step_kind(self) -> StepKind | None:
        """Return the kind of the step for contour/little_noise.py."""
        return step_kind_of(self.mixture, self.mixture.log_rest)

    def tails_at(self, at: Array) -> Tails:
        x = self.mixture.outcome(at)
        normal = log_normal_ends(x)
        return Tails(*self.mixture.ends(normal, x), *normal)


@dataclass(frozen=True, slots=True)
class MixtureAddLoss(MixtureLoss):
    """The loss of the pair (N(0, 1), m N(0, 1)), with the ratio r = 1/m."""

    moved: ClassVar[tuple[bool, bool]] = (False, True)

    mixture: Mixture

    def row(self) -> TableRow | None:
        from dpcli.numerics.mixture import ShiftedAdd, single_row

        return single_row(ShiftedAdd, self.mixture, MAX_REACH)

    def line(self, x: Line) -> tuple[Line, Line]:  # Q is the mixture here
        ratio = self.mixture.log_ratio(x)
        return log_normal(x) + ratio, -ratio

    def cgf(self, z: Array) -> Array:
        """Return the smaller of the base class's bound and z times the largest loss, which is -log of the weight at shift 0, rounded up."""
        return np.minimum(MixtureLoss.cgf(self, z), (1e-15 - self.mixture.log_rest * (1.0 + 1e-15)) * z)

    def window(self, z: float) -> tuple[float, float]:
        return -TAIL - self.mixture.left_peak(z), self.mixture.reach + TAIL

    def step(self, z: float) -> float:
        """Return the larger of two valid node distances. At a low rate the second one is large for every z that matters."""
        m = self.mixture
        wide = step_below(z, m.reach, m.log_rest) if m.single and m.log_rest > -math.inf else 0.0
        return float(max(step_size(z + 1.0, m.reach), wide))

    def tails_at(self, at: Array) -> Tails:
        return MixtureRemoveLoss(self.mixture).tails_at(-at[::-1]).mirrored()


@dataclass(frozen=True, slots=True)
class MixtureReplaceLoss(MixtureLoss):
    """The loss of the pair (m(x) N(0, 1), m(-x) N(0, 1)), with the ratio r = m(x)/m(-x). The pair is its own mirror image."""

    mixture: Mixture
    stretch: ClassVar[float] = 2.0
    counts_participations: ClassVar[bool] = True
    moved: ClassVar[tuple[bool, bool]] = (True, True)

    def line(self, x: Line) -> tuple[Line, Line]:
        up, down = self.mixture.log_ratio(x), self.mixture.log_ratio(-x)
        return log_normal(x) + down, up - down

    def window(self, z: float) -> tuple[float, float]:
        return -TAIL - self.mixture.reach, (2.0 * z + 1.0) * self.mixture.reach + TAIL

    def capped(self, log_mass: float) -> CappedLoss:
        from dpcli.numerics.contour.cut import cap

        return cap(self.line, 2.0 * self.mixture.reach, self.mixture.log_mean, log_mass)

    def cut(self, level: float, log_mass: float) -> CutLoss | None:
        """Return the loss divided into a small and a big part, at the same multiples of `level` as in `MixtureRemoveLoss.cut`.

        Return None if this would need too many nodes, or if the rate is below the rounding of 1.

        Above the real line, the power of 1/m(-x) grows by about z times the rate times half the square of the angle, which limits the
        strip. At the largest order that matters, z = TILT / level, the angle below lets it grow by e^6.
        """
        from dpcli.numerics.contour.cut import BEND, BIG, SMALL, TILT, cut, edge_at

        m = self.mixture
        low, high, bend = self._outcome(level * np.array([SMALL, BIG, BEND])).tolist()
        sharpness, edge = edge_at(low, high, m.reach + math.sqrt(-2.0 * log_mass), m.log_mean, log_mass)
        rate = -math.expm1(m.log_rest)
        if rate == 0.0:  # the rate is below the rounding of 1, and the angle would be infinite
            return None
        angle = math.sqrt(12.0 * level / (TILT * rate))
        left = -2.0 * TAIL - m.reach  # negligible mass of Q lies below
        return cut(self.line, m.reach, sharpness, edge, bend, left, strip=angle, mirrored=True)

    def outcome(self, at: Array) -> Array:
        """Return the x with log r = at."""
        return np.asarray(np.copysign(self._outcome(np.abs(at)), at))

    def step_kind(self) -> StepKind | None:
        return step_kind_of(self.mixture, 0.0)

    def tails_at(self, at: Array) -> Tails:
        m, x = self.mixture, self.outcome(at)
        normal = log_normal_ends(x)
        return Tails(*m.ends(normal, x), *m.ends(normal, x, -1.0))

    def _outcome(self, size: Array) -> Array:
        """Return the x with log r = size >= 0. log r is odd and increases with x."""
        m, half = self.mixture, 0.5 * size
        with np.errstate(divide="ignore"):
            log_sinh = half - math.log(2.0) + np.log(-np.expm1(-size))
        if m.single:  # s x = l/2 + asinh(a), a = w_0 sinh(l/2) / b, b = w e^{-s^2/2}
            log_a = log_sinh + m.log_rest - m.log_weights[0] + 0.5 * m.reach * m.reach
            rise = np.where(log_a > 20.0, log_a + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_a, 20.0))))  # asinh(a) is log 2a
            return np.asarray((half + rise) / m.reach)
        # m(x) = e^l m(-x) is equivalent to A(x) = e^l A(-x) + w_0 (e^l - 1), where A is the sum over the positive shifts.
        log_rise = m.log_rest + half + math.log(2.0) + log_sinh
        most = np.logaddexp(size + m.log_sum_and_slope(np.zeros(1))[0], log_rise)  # largest right-hand side at x >= 0

        def excess(x: Array) -> tuple[Array, Array]:
            (up, rising), (down, falling) = m.log_sum_and_slope(x), m.log_sum_and_slope(-x)
            right_side = np.logaddexp(size + down, log_rise)
            return up - right_side + most, rising + falling * np.exp(size + down - right_side)

        low = half / m.reach  # the slope of log r is at most twice the reach
        return increasing_root(excess, most, low, np.maximum(m.bracket(most)[1], low))
