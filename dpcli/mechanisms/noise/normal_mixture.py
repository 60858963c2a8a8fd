"""Dominating pairs of Gaussian noise on a sum that moves by a random amount, in the noise's standard deviation.

One change of the data moves the sum by u_i under P and by v_i under Q, i drawn with probability w_i in both, |u_i|, |v_i| <= s_i:
which of a group's records are in a sample, say. (Whatever else is random, the rest of the sample, is fixed by joint convexity.)

Theorem. For every gamma >= 0 the hockey-stick divergence of (sum w_i N(u_i, I), sum w_i N(v_i, I)) is at most that of the scalar pair
(sum w_i N(s_i, 1), sum w_i N(-s_i, 1)); with all v_i = 0, at most that of (sum w_i N(s_i, 1), N(0, 1)).

Proof. Relative to N(0, I) it is F(C) = E h(M), h the positive part, M = sum_i c_i e^{g_i - C_ii/2}, g_i = <u_i, X> and <v_i, X> jointly
Gaussian of covariance C, and c_i = w_i or -gamma w_i. Replace h by smooth convex functions that converge to it uniformly, with bounded
h' and h'' (softplus). Let C change along a line, C + t dC, as the covariance of sqrt(1-t) g + sqrt(t) g* for independent g, g*. Gaussian
integration by parts gives dF/dt = sum_{i<j} dC_ij c_i c_j E[h'' e_i e_j] + 1/2 sum_i dC_ii c_i^2 E[h'' e_i^2], e_i = e^{g_i - C_ii/2}: the
terms in h' that a change of C_ii brings are cancelled by that of -C_ii/2. So F grows with the diagonal and with the covariances of the
same side (c_i c_j > 0) and falls in those between the sides. By Cauchy and Schwarz s_i s_j bounds the former and -s_i s_j the
latter from below, and one covariance attains all bounds at once: collinear u_i = s_i, v_i = -s_i. The line to it is one of covariances.

The pair without opposition is that of Choquette-Choo et al. 2023, arXiv:2310.15526.
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
    from dpcli.numerics.contour.apart import ApartSteps
    from dpcli.numerics.contour.cut import CappedLoss, CutLoss
    from dpcli.numerics.contour.tilted import TiltedQuadrature
    from dpcli.numerics.mixture import TableRow

BLOCK = 1 << 20  # entries of a table of tails
LOUD = 6.0  # contribution over noise, beyond which there is hardly any
MAX_REACH = 120.0  # contribution over noise up to which the contour accountant is tried


class MixtureLoss:
    """Base of the three pairs.

    stretch: the largest slope of log r, in reaches of the mixture. counted: whether the loss may be that of the number of participations,
    where there is hardly any noise.
    """

    __slots__ = ()

    mixture: Mixture
    stretch: ClassVar[float] = 1.0
    counted: ClassVar[bool] = False

    @property
    def loud(self) -> bool:
        """Tell whether a step in which the record takes part is most often told from one in which it does not."""
        return self.counted and self.mixture.single and self.mixture.reach >= LOUD

    def line(self, x: Line) -> tuple[Line, Line]:
        """log Q and log r at x."""
        raise NotImplementedError

    def window(self, z: float) -> tuple[float, float]:
        """Interval beyond which less than e^-40 of Q r^{z+1} lies."""
        raise NotImplementedError

    def cgf(self, z: Array) -> Array:
        """Upper bound, relative excess about 1e-12 (larger orders than the nodes allow: the convexity bound)."""
        stretch = self.stretch
        bound = lambda z: self.mixture.moment_bound(z, stretch)  # noqa: E731
        return power_moment(z, self.line, self._whole_window, self.step, bound)

    def _whole_window(self, z: float) -> tuple[float, float]:
        """At small z the integrand of the CGF is Q (r - 1)^2."""
        low, high = self.window(z)
        reach, stretch = self.mixture.reach, self.stretch
        return low, max(high, (stretch + 1.0) * reach + TAIL)

    def step(self, z: float) -> float:
        """Node distance for Q r^{z+1}."""
        return float(step_size(z + 1.0, self.stretch * self.mixture.reach))

    def tilted(self, t: float) -> TiltedQuadrature:
        """Refused if it would take minutes: its nodes grow with the square of contribution over noise."""
        from dpcli.numerics.contour.tilted import TiltedQuadrature

        reach = self.mixture.reach
        if reach > MAX_REACH:
            raise NotRepresentable(f"one unit's contribution is {reach:.3g} times the noise: its quadrature would take too long")
        sharp = fits(*span(t, self._whole_window, self.step))
        return TiltedQuadrature(t, self.line, self.window(t), 0.5 * math.pi / reach, self.step(t), sharp)

    def row(self) -> TableRow | None:
        """Return its row in a table of many of its kind; None if there is no such table."""
        return None

    def tails(self, at: Array) -> Tails:
        """At the outcomes where log r = at, in blocks."""
        size = max(BLOCK // len(self.mixture.shifts), 1)
        blocks = [self.tails_at(at[i : i + size]) for i in range(0, max(len(at), 1), size)]
        return blocks[0] if len(blocks) == 1 else Tails(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))

    def tails_at(self, at: Array) -> Tails:
        raise NotImplementedError


def apart_of(mixture: Mixture, without: float) -> ApartSteps | None:
    """A step with one shift, of which a record takes part or not. without: the loss where it does not and there is hardly any noise."""
    from dpcli.numerics.contour.apart import ApartSteps

    if not mixture.single or mixture.log_rest == -math.inf:
        return None
    log_weight = mixture.log_weights[0]
    rate = math.exp(log_weight) if mixture.weights is None else mixture.weights[0]
    return ApartSteps(mixture.reach, rate, without, log_weight - mixture.log_rest + without)


@dataclass(frozen=True, slots=True)
class MixtureRemoveLoss(MixtureLoss):
    """(m N(0, 1), N(0, 1)): r = m."""

    counted: ClassVar[bool] = True

    mixture: Mixture

    def row(self) -> TableRow | None:
        from dpcli.numerics.mixture import ShiftedRemove, single_row

        return single_row(ShiftedRemove, self.mixture, MAX_REACH)

    def line(self, x: Line) -> tuple[Line, Line]:
        return log_normal(x), self.mixture.log_ratio(x)

    def window(self, z: float) -> tuple[float, float]:
        return -TAIL, (z + 1.0) * self.mixture.reach + TAIL

    def capped(self, log_mass: float) -> CappedLoss:
        from dpcli.numerics.contour.cut import cap

        return cap(self.line, self.mixture.reach, self.mixture.log_mean, log_mass)

    def cut(self, level: float, log_mass: float) -> CutLoss | None:
        """Return its small part and its big one, which begins at about twice `level`, or where no more than e^log_mass of P is left; None
        where they cannot be told apart."""
        from dpcli.numerics.contour.cut import BEND, BIG, SMALL, cut, edge_at

        m = self.mixture
        low, high, bend = m.outcome(level * np.array([SMALL, BIG, BEND])).tolist()
        return cut(self.line, m.reach, *edge_at(low, high, m.reach + math.sqrt(-2.0 * log_mass), m.log_mean, log_mass), bend)

    def apart(self) -> ApartSteps | None:
        return apart_of(self.mixture, self.mixture.log_rest)

    def tails_at(self, at: Array) -> Tails:
        x = self.mixture.outcome(at)
        normal = log_normal_ends(x)
        return Tails(*self.mixture.ends(normal, x), *normal)


@dataclass(frozen=True, slots=True)
class MixtureAddLoss(MixtureLoss):
    """(N(0, 1), m N(0, 1)): r = 1/m."""

    mixture: Mixture

    def row(self) -> TableRow | None:
        from dpcli.numerics.mixture import ShiftedAdd, single_row

        return single_row(ShiftedAdd, self.mixture, MAX_REACH)

    def line(self, x: Line) -> tuple[Line, Line]:
        ratio = self.mixture.log_ratio(x)
        return log_normal(x) + ratio, -ratio

    def cgf(self, z: Array) -> Array:
        """Return the base's bound, or what the largest loss, -log of the weight at 0, makes of it where that is less."""
        return np.minimum(MixtureLoss.cgf(self, z), (1e-15 - self.mixture.log_rest * (1.0 + 1e-15)) * z)

    def window(self, z: float) -> tuple[float, float]:
        return -TAIL - self.mixture.left_peak(z), self.mixture.reach + TAIL

    def step(self, z: float) -> float:
        """At a low rate the second suffices at any z that matters."""
        m = self.mixture
        wide = step_below(z, m.reach, m.log_rest) if m.single and m.log_rest > -math.inf else 0.0
        return float(max(step_size(z + 1.0, m.reach), wide))

    def tails_at(self, at: Array) -> Tails:
        return MixtureRemoveLoss(self.mixture).tails_at(-at[::-1]).mirrored()


@dataclass(frozen=True, slots=True)
class MixtureReplaceLoss(MixtureLoss):
    """(m(x) N(0, 1), m(-x) N(0, 1)): r = m(x)/m(-x); its own mirror image."""

    mixture: Mixture
    stretch: ClassVar[float] = 2.0
    counted: ClassVar[bool] = True

    def line(self, x: Line) -> tuple[Line, Line]:
        up, down = self.mixture.log_ratio(x), self.mixture.log_ratio(-x)
        return log_normal(x) + down, up - down

    def window(self, z: float) -> tuple[float, float]:
        return -TAIL - self.mixture.reach, (2.0 * z + 1.0) * self.mixture.reach + TAIL

    def capped(self, log_mass: float) -> CappedLoss:
        from dpcli.numerics.contour.cut import cap

        return cap(self.line, 2.0 * self.mixture.reach, self.mixture.log_mean, log_mass)

    def cut(self, level: float, log_mass: float) -> CutLoss | None:
        """Cut as `MixtureRemoveLoss` does. Above the line 1/m(-x) grows by about z times the rate times half the square of the angle."""
        from dpcli.numerics.contour.cut import BEND, BIG, SMALL, TILT, cut, edge_at

        m = self.mixture
        low, high, bend = self._outcome(level * np.array([SMALL, BIG, BEND])).tolist()
        place = edge_at(low, high, m.reach + math.sqrt(-2.0 * log_mass), m.log_mean, log_mass)
        angle = math.sqrt(12.0 * level / (TILT * -math.expm1(m.log_rest)))
        return cut(self.line, m.reach, *place, bend, -2.0 * TAIL - m.reach, angle, mirrored=True)

    def apart(self) -> ApartSteps | None:
        return apart_of(self.mixture, 0.0)

    def tails_at(self, at: Array) -> Tails:
        m, x = self.mixture, np.copysign(self._outcome(np.abs(at)), at)
        normal = log_normal_ends(x)
        return Tails(*m.ends(normal, x), *m.ends(normal, x, -1.0))

    def _outcome(self, size: Array) -> Array:
        """x with log r = size >= 0, which is odd and increases in x."""
        m, half = self.mixture, 0.5 * size
        with np.errstate(divide="ignore"):
            log_sinh = half - math.log(2.0) + np.log(-np.expm1(-size))
        if m.single:  # s x = l/2 + asinh(w_0 sinh(l/2) / b), b = w e^{-s^2/2}
            log_a = log_sinh + m.log_rest - m.log_weights[0] + 0.5 * m.reach * m.reach
            rise = np.where(log_a > 20.0, log_a + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_a, 20.0))))
            return np.asarray((half + rise) / m.reach)
        # m(x) = e^l m(-x), without what is on both sides: A(x) = e^l A(-x) + w_0 (e^l - 1), A the sum of the positive shifts.
        log_rise = m.log_rest + half + math.log(2.0) + log_sinh
        most = np.logaddexp(size + m.log_sum_and_slope(np.zeros(1))[0], log_rise)  # of the right-hand side at x >= 0

        def excess(x: Array) -> tuple[Array, Array]:
            (up, rising), (down, falling) = m.log_sum_and_slope(x), m.log_sum_and_slope(-x)
            other = np.logaddexp(size + down, log_rise)
            return up - other + most, rising + falling * np.exp(size + down - other)

        low = half / m.reach  # the slope of log r is at most twice the reach
        return increasing_root(excess, most, low, np.maximum(m.bracket(most)[1], low))
