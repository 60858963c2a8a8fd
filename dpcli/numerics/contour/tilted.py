"""Privacy losses under an exponential tilt: their characteristic functions by quadrature, and bounds on how fast these decay.

A privacy loss is L = log r with r = dP/dQ, and K(t) = log E_P[e^{t L}]. Under the *tilt* t > 0 the measure is e^{t L - K(t)} dP, which
moves the mean of L to where delta is decided. integral.py computes delta from the characteristic function phi(y) = E_t[e^{i y L}] under it.
The protocols `Loss` and `Tilted` say what a loss must provide for this, and what it may provide in addition.

`TiltedQuadrature` is for a loss log r(X) with an outcome X on the real line, such as that of a sampled Gaussian. The tilted density of X is
Q r^{t+1}, up to a factor. log Q and log r are analytic in a strip around the line.

Decay. On the line at height a, where arg r > 0, oscillation becomes decay: for every v >= 0,

    |E e^{i v L}| <= INT |Q r^{t+1}|(x+ia) e^{-v arg r(x+ia)} dx.

The bound falls with v. So one integral, at v = y, bounds the characteristic function at every frequency beyond y.

Division by size (`SplitLoss`). With few steps at a low rate, or with very little noise, most of the mass lies nearly at one loss, and the
characteristic function decays late or never.

1. Let w(x) in [0, 1] be a weight that is 1 where the loss is small. The bulk B is the part of P with this weight.
2. For n steps, P^n - B^n is a positive measure, so every bound of the contour holds for it.
3. delta(eps) is the hockey-stick divergence of P^n - B^n plus that of B^n. By Chernoff's bound the latter is negligible.
4. The transform phi^n - B^n of P^n - B^n is at most n |phi - B|. It decays soon, because only outcomes with spread-out losses contribute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.stretched import log_cutoff
from dpcli.numerics.logspace import log1p_complex, log_sum
from dpcli.numerics.products import characteristic, characteristic_less_one, decaying_characteristic_less_one
from dpcli.numerics.quadrature import nodes_of
from dpcli.numerics.work import hold, spend

if TYPE_CHECKING:
    Line = Callable[[ComplexArray], tuple[ComplexArray, ComplexArray]]

# Accuracy: every height gives a bound, so these decide only how sharp the bounds are.
SHARES = (0.001, 0.004, 0.012, 0.03, 0.06, 0.12, 0.25, 0.45, 0.7, 0.9)  # heights of the lines, as shares of `reach`
RAMP_SHARES = (0.1, 0.25, 0.5, 0.9)  # heights of the lines for a `Ramp`, as shares of its height
REACH = 9.0  # largest height in standard deviations; beyond it the Gaussian weight alone grows too much
FAR = 4.0  # beyond this frequency, in units of 1 / standard deviation of the loss, a line above the real axis is used
HEIGHT = 1.5  # largest height of that line, in standard deviations of the Gaussian weight
LEAST_K, MOST_K = 3.0, 10.0  # range of the sharpness k of a `Ramp`, per standard deviation; a larger one needs closer nodes
# Soundness and speed: no error bound counts what the first three leave out. It is far below the rounding of the sums, or below the error
# that the sums may have.
LIGHT = 1e-45  # smaller weights are left out
LIGHT_SHARE = 1e-6  # weights below this share of the allowed error are left out
RAMP_STEP = 0.08  # node distance times k of a `Ramp`: at its height of up to pi / (2 k), e^{-2 pi height / distance} is e^-123
MODULUS_RAISE = 1.01  # factor of a sum of moduli of positive terms, which far exceeds the error of the sum
# Rounding may raise a value above its bound from `decay` by this factor plus this much; beyond, the contour is refused.
EXCESS_FACTOR, EXCESS = 1.001, 1e-9
# Memory: most entries of a table at a time. `hold` (numerics/work.py) refuses large tables.
BLOCK = 1 << 20
# Floating point: smallest logarithm of a modulus, in place of -inf, which times a count would give NaN.
LEAST_LOG_MODULUS = -700.0


class Tilted(Protocol):
    """A privacy loss L under the measure e^{t L - K(t)} dP, where K(t) = log E_P[e^{t L}].

    The life of a tilt, in integral.py: `Loss.tilted(t)` makes it at a t where e^{t (L - epsilon)} is smallest on average. `centred` gives
    the integrand at the nodes, and `decay` bounds what lies beyond the last one. `mean` and `variance` scale allowances for rounding, and
    `variance` tells which nodes may be left out (sieve.py). The bounds on delta are certified only if all keep what they say below.

    Optional attributes, which integral.py and sieve.py look for:

    * `terms`: the number of terms of the characteristic function at one frequency.
    * A true `pointwise`, with a method `centred_at(step, multiples, log_error)` that returns `centred` at some of the frequencies, the
      increasing integer multiples of `step`.
    * A true `finite_sum`: the characteristic function is a sum of finitely many terms, whose only error is rounding.
    * `rise(rise)`: upper bounds on K(t + rise) - K(t) at each rise > 0. Such a loss is not divided by size.
    * `split(level)`: the loss divided by size (`SplitLoss`).
    * `error_bound`: a bound on the absolute error of the last result of `centred` from terms that were left out.
    """

    @property
    def cumulant(self) -> float:
        """K(t) itself and not just a bound, with an error that `_cumulant` of integral.py allows for."""
        ...

    @property
    def exact_cgf(self) -> bool:
        """Tell whether the loss's `cgf` at t exceeds K(t) by at most SLACK (numerics/quadrature.py), relative, and is not just a bound."""
        ...

    @property
    def mean(self) -> float:
        """The mean of the loss under the tilt, E_t[L]."""
        ...

    @property
    def variance(self) -> float:
        """The variance of the loss under the tilt, Var_t(L)."""
        ...

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """Return the complex log E_t[e^{i y (L - mean)}] at y = 0, step, ..., (count-1) step.

        The absolute error of the expectation is at most e^log_error.
        """
        ...

    def decay(self, y: Array) -> Array:
        """Return for each of increasing y > 0 an upper bound on log |E_t[e^{i v L}]| for every v >= y. It is 0 if nothing is known."""
        ...


class Loss(Protocol):
    """A privacy loss L = log dP/dQ that can be tilted. r = dP/dQ.

    Optional attributes. The methods of this folder look for them, and a method is used only if the losses have what it needs:

    * A false `decays`: the loss is discrete, so its characteristic function does not decay (`any_decays` of integral.py).
    * `tails(at)`: log P(L > l), log P(L <= l), and the same under Q (numerics/tails.py).
    * `outcomes()`: the pair as atoms and pieces (`Outcomes` of outcomes.py). A result of another class is not used.
    * `capped(log_mass)`: the loss without its far upper tail, of P-mass e^log_mass at most; the loss itself if it has no such tail.
    * `cut(level, log_mass)`: the loss divided into a small and a big part (cut.py), or None. Only a loss with a far upper tail has it. Such
      a loss also has `line`, `outcome`, `mixture` and `stretch` (`RisingLoss` of grid/step_cells.py).
    * `backwards(power)`: log E_Q[r^-power]; or a true `mirrored`: the loss of the other direction has the same law (`UncutLoss` of cut.py).
    * `row()`: the loss as a row of a table of its family, or None (numerics/mixture.py).
    * `sampled_step()`: the loss as a sampled Gaussian step, or None (few_steps.py).
    * A true `nearly_noiseless`, with `step_kind()`: so little noise that an outcome shows who took part (little_noise.py).
    * `steps`: the number of steps that one copy stands for, if it is not 1.
    """

    def cgf(self, z: Array) -> Array:
        """Return upper bounds on K at real z > 0."""
        ...

    def tilted(self, t: float) -> Tilted:
        """Return the loss under the tilt t > 0."""
        ...


Losses = Sequence[tuple[Loss, int]]  # different losses, each with its number of copies
Parts = Sequence[tuple[Tilted, int]]  # the same losses under a tilt


def uncut(loss: Loss) -> bool:
    """Return whether a loss can be used without cutting its tail (`UncutLoss`), because E_Q[r^-power] is known."""
    return getattr(loss, "mirrored", False) or hasattr(loss, "backwards")


def log_inverse_moment(loss: Loss, power: Array) -> Array:
    """Return log E_Q[r^-power] of a loss that is `uncut`. For a mirrored one, whose other direction has the same law, it is K(power)."""
    return np.asarray(getattr(loss, "backwards", loss.cgf)(power))


class TiltedQuadrature:
    """A tilted loss whose density has a Gaussian factor, computed by the trapezoidal rule.

    Args:
        t: the tilt, > 0.
        pair: returns log Q and log r at complex outcomes. arg r has one sign above the real line.
        window: an interval outside of which less than e^-40 of the tilted mass lies.
        strip: the height up to which log Q and log r are analytic, and |r| is at most its value on the real line below.
        step: a node distance at which integrals of positive functions with this density are exact to e^-40.
        exact_cgf: as in `Tilted`.

    Lines above the real one are at shares of `reach`, the largest useful height.
    """

    pointwise = True

    def __init__(self, t: float, pair: Line, window: tuple[float, float], strip: float, step: float, exact_cgf: bool) -> None:
        self._t, self._pair, self.exact_cgf = t, pair, exact_cgf
        self._window, self._strip, self.step, self.reach = window, strip, step, min(strip, REACH)
        self._lines: tuple[Array, Array] | None = None
        log_density, ratio = self.line(step, np.zeros(0))
        density, loss = log_density.real, ratio.real
        top = float(density.max())
        weights = np.exp(density - top)
        total = float(weights.sum())
        self.log_norm = self.cumulant = top + math.log(total)
        self._weights, self._loss = weights / total, loss
        self.mean = float(self._weights @ loss)
        self.variance = float(self._weights @ (loss - self.mean) ** 2)

    def line(self, step: float, heights: Array) -> tuple[ComplexArray, ComplexArray]:
        """Return the logarithms of the unnormalised density and of r at nodes `step` apart on the lines Im x = height, one row for each.

        If `heights` is empty, the result is for the real line and has one dimension.
        """
        hold(self._count(step) * max(len(heights), 1.0))
        x: ComplexArray = self.nodes(step)  # type: ignore[assignment]
        shape = (len(heights), len(x)) if len(heights) else (len(x),)
        if len(heights):
            x = (x + 1j * heights[:, None]).ravel()
        base, ratio = self._pair(x)
        return (base + ((self._t + 1.0) * ratio + math.log(step))).reshape(shape), ratio.reshape(shape)

    def _count(self, step: float) -> float:
        return (self._window[1] - self._window[0]) / step

    def nodes(self, step: float) -> Array:
        """Return the nodes on the real line at distances `step`."""
        hold(self._count(step))
        return nodes_of(*self._window, step)

    def split(self, level: float) -> SplitLoss:
        """Return the loss divided into its parts below and above `level`."""
        return SplitLoss(self, ramp_at(self, level))

    def _moduli(self) -> tuple[Array, Array]:
        """Return log |Q r^{t+1}| over the norm, and |arg r|, on the lines at SHARES of the reach. They are computed at the first call."""
        if self._lines is None:
            log_density, ratio = self.line(self.step, self.reach * np.array(SHARES))
            self._lines = log_density.real - self.log_norm, np.abs(ratio.imag)
        return self._lines

    def decay(self, y: Array) -> Array:
        """Return for each of increasing y the best bound over the lines on log |E_t e^{i v L}| for every v >= y.

        A bound for a smaller y holds for a larger one too, so the result is a running minimum.
        """
        return np.minimum.accumulate(np.log(np.fmin(_least_modulus(*self._moduli(), y), 1.0)))

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        near = min(count, self._near(step))
        result = np.empty(count, dtype=complex)
        result[:near] = self._on_the_line(step, near, log_error)
        if near < count:
            result[near:] = self._above(step, near, count - near, log_error)
        return result

    def centred_at(self, step: float, multiples: IndexArray, log_error: float) -> ComplexArray:
        """Return `centred` at some multiples of the step, in increasing order. Those beyond FAR are computed with all in between."""
        last = int(multiples[-1]) + 1
        near = min(last, self._near(step))
        is_near = multiples < near
        result = np.empty(len(multiples), dtype=complex)
        result[is_near] = self._on_the_line(step, multiples[is_near], log_error)
        if near < last:
            result[~is_near] = self._above(step, near, last - near, log_error)[multiples[~is_near] - near]
        return result

    def _near(self, step: float) -> int:
        """Return the number of multiples of the step at which the nodes are on the real line."""
        return math.floor(FAR / max(math.sqrt(self.variance) * step, 1e-12)) + 1  # not divided by 0

    def _on_the_line(self, step: float, multiples: int | IndexArray, log_error: float) -> ComplexArray:
        """Return the logarithms as log1p(E expm1), which keeps all digits of a characteristic function near 1.

        multiples: as in `characteristic_less_one`.
        """
        last = multiples - 1 if isinstance(multiples, int) else int(multiples[-1])
        fine = self._fine_step(step * last, log_error)
        if fine >= self.step:
            weights, loss = self._weights, self._loss
        else:
            log_density, ratio = self.line(fine, np.zeros(0))
            weights, loss = np.exp(log_density.real - self.log_norm), ratio.real
            weights = weights / weights.sum()
        heavy = weights > LIGHT
        return log1p_complex(characteristic_less_one(weights[heavy], loss[heavy] - self.mean, step, multiples))

    def _fine_step(self, y: float, log_error: float) -> float:
        """Return a node distance at which the error is below e^log_error for frequencies up to y.

        The error is e^{-2 pi b / distance} times the integrals of the modulus on the lines at heights b and -b.
        """
        log_density, turn = self._moduli()
        # On the line at -b the integrand is larger, by e^{+y turn}. So its growth there bounds both, and the 1 exceeds log 2 for two lines.
        growth = np.log(np.fmax(np.exp(log_density + y * turn).sum(axis=1), 1.0))
        steps = 2.0 * math.pi * self.reach * np.array(SHARES) / (growth + 1.0 - log_error)
        return max(float(np.nanmax(steps)), 1e-9 * self.step)  # `line` refuses so small a step: too many nodes

    def _above(self, step: float, first: int, count: int, log_error: float) -> ComplexArray:
        """Return the logarithms from a line above the real one, at `count` frequencies from index `first` on; NaN if they must not be used.

        On this line the integrand decays before it oscillates much, so one node distance serves every y. The error is
        e^{-2 pi a / distance} times the integrals of the modulus on the lines at 0, where it is 1, and 2a. The line stays low, because the
        Gaussian weight grows by e^{a^2/2}, and rounding must not exceed the result.
        """
        a = min(0.5 * self._strip, HEIGHT)
        upper_line, _ = self.line(self.step, np.array([2.0 * a]))
        growth = max(0.0, float(np.logaddexp.reduce(upper_line[0].real - self.log_norm)))
        log_density, ratio = self.line(min(self.step, 2.0 * math.pi * a / (growth + 1.0 - log_error)), np.array([a]))
        log_density, ratio = log_density[0] - self.log_norm, ratio[0]
        if float(ratio.imag.sum()) < 0.0:  # if arg r < 0 above the real line, the line below it is used, which is the mirror image
            log_density, ratio = log_density.conj(), ratio.conj()
        # At the first frequency a term is largest, because the modulus of e^{i y log r} falls with y.
        heavy = log_density.real - first * step * ratio.imag > math.log(LIGHT)
        total = characteristic(log_density[heavy], ratio[heavy] - self.mean, step, first, count)
        # The first and the last value must obey the bounds of `decay`, up to rounding. If not, NaN makes `build` refuse the contour.
        log_most = self.decay(step * np.array([first, first + count - 1], dtype=float))
        if not np.all(np.abs(total[[0, -1]]) <= EXCESS_FACTOR * np.exp(log_most) + EXCESS):
            return np.full(count, np.nan, dtype=complex)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total))


def _least_modulus(log_terms: Array, turn: Array, y: Array) -> Array:
    """Return at each y the least over the lines of SUM e^{log_terms - y turn}. log_terms, turn = |arg r|: shape (lines, nodes)."""
    spend(0.5 * log_terms.size * len(y))
    rows = max(1, BLOCK // log_terms.size)
    blocks = np.split(y, range(rows, len(y), rows))
    return np.concatenate([np.exp(log_terms - part[:, None, None] * turn).sum(axis=2).min(axis=1) for part in blocks])


@dataclass(frozen=True, slots=True)
class Ramp:
    """A weight w between 0 and 1 that divides a loss into two parts.

    log_weight: returns log w at nodes. height: the height above the real line up to which w, or 1 - w, is small where it is small on it.
    step: a node distance that suits it.
    """

    log_weight: Callable[[Array | ComplexArray], ComplexArray]
    height: float
    step: float


def ramp_at(tilted: TiltedQuadrature, level: float) -> Ramp:
    """Return the weight that falls from 1 to 0 where the loss passes `level`. The nodes are outcomes."""
    _, log_ratio = tilted.line(tilted.step, np.zeros(0))
    x, loss = tilted.nodes(tilted.step), log_ratio.real
    sign = 1.0 if loss[-1] > loss[0] else -1.0  # the loss may rise or fall with the outcome
    rising, at = (loss, x) if sign > 0.0 else (loss[::-1], x[::-1])
    edge = float(at[min(int(np.searchsorted(rising, level)), len(at) - 1)])
    k = min(max(abs(edge), LEAST_K), MOST_K)
    height, step = min(tilted.reach, 0.5 * math.pi / k), min(tilted.step, RAMP_STEP / k)
    return Ramp(lambda x: log_cutoff(k * sign * (x - edge)), height, step)


class SplitLoss:
    """A tilted loss divided by a weight w into its bulk, with weight w, and the rest beyond, with weight 1 - w.

    Both parts add up to the tilted distribution exactly, for any weight. The ramp decides only how useful the division is.
    """

    def __init__(self, tilted: TiltedQuadrature, ramp: Ramp) -> None:
        self._undivided, self._ramp, self._step = tilted, ramp, ramp.step

    def bulk_cgf(self, rise: Array) -> Array:
        """Return log E_t[w e^{rise (L - mean)}].

        With rise = s - t this is the K(s) of the bulk minus K(t) of the whole loss, except for rise times the mean.
        """
        log_density, ratio = self._undivided.line(self._step, np.zeros(0))
        log_share: Array = self._ramp.log_weight(self._undivided.nodes(self._step)).real
        exponent: Array = log_density.real - self._undivided.log_norm + log_share
        hold(len(rise) * exponent.size)
        return log_sum(exponent + rise[:, None] * (ratio.real - self._undivided.mean))

    def centred(self, step: float, count: int, log_error: float, log_error_beyond: float) -> tuple[ComplexArray, ComplexArray]:
        """Return (log phi, log B - log phi) at y = 0, step, ..., without the factor e^{i y mean}.

        The absolute errors are e^log_error for phi and e^log_error_beyond for phi - B. The sums are on a line above the real one, where
        arg r > 0. The modulus of the integrand does not grow with y there, so one node distance serves every y. The error of each sum is
        at most e^{-2 pi a / distance} times the integrals of its modulus on the lines at 0 and 2a.
        """
        a = 0.5 * RAMP_SHARES[-1] * self._ramp.height  # so that the line at 2a is the highest one of `_lines_above`
        fine = self._fine_step(a, log_error, log_error_beyond)
        log_density, ratio = (values[0] for values in self._undivided.line(fine, np.array([a])))
        log_share = self._ramp.log_weight(np.asarray(self._undivided.nodes(fine) + 1j * a, dtype=np.complex128))
        if float(ratio.imag.sum()) < 0.0:  # if arg r < 0 above the real line, the line below it is used, which is the mirror image
            log_density, ratio, log_share = log_density.conj(), ratio.conj(), log_share.conj()
        weights = np.exp(log_density - self._undivided.log_norm)
        parts = np.stack([weights * np.exp(log_share), weights * -np.expm1(log_share)])  # the bulk, and the rest
        least = math.log(LIGHT_SHARE) + np.array([log_error, log_error_beyond])
        heavy = (np.abs(parts) > np.exp(least)[:, None]).any(axis=0)
        parts, loss = parts[:, heavy], ratio[heavy] - self._undivided.mean
        beyond_sum = float(parts[1].sum().real)
        inside, beyond = decaying_characteristic_less_one(parts, loss, step, count)
        change = inside + beyond  # phi - 1, whose rounding error is relative to it
        log_phi, log_bulk = log1p_complex(change), log1p_complex(inside - beyond_sum)
        for logarithm in (log_phi, log_bulk):
            logarithm.real = np.maximum(logarithm.real, LEAST_LOG_MODULUS)
        gap = (beyond + beyond_sum) / (1.0 + change)  # (phi - B) / phi
        near = np.abs(gap) < 0.5  # there log1p of -gap has more digits than the difference of the logarithms
        return log_phi, np.where(near, log1p_complex(np.where(near, -gap, 0.0)), log_bulk - log_phi)

    def _lines_above(self) -> tuple[Array, Array, Array]:
        """Return log moduli of the density, log |1 - w| and |arg r|, on the lines at RAMP_SHARES of the ramp's height.

        Each has the shape (lines, nodes).
        """
        heights = self._ramp.height * np.array(RAMP_SHARES)
        log_density, ratio = self._undivided.line(self._step, heights)
        log_share = self._ramp.log_weight(self._undivided.nodes(self._step) + 1j * heights[:, None])
        return log_density.real - self._undivided.log_norm, np.log(np.abs(np.expm1(log_share))), np.abs(ratio.imag)

    def _fine_step(self, a: float, log_error: float, log_error_beyond: float) -> float:
        """Return the node distance on the line at height a, where |e^{i y L} - 1| <= 2. It is for the errors of `centred`.

        The line at 2a is the last one of `_lines_above`.
        """
        log_density, log_beyond, _ = self._lines_above()
        log_share = self._ramp.log_weight(np.asarray(self._undivided.nodes(self._step) + 2j * a, dtype=np.complex128)).real
        bulk = np.logaddexp(0.0, np.logaddexp.reduce(log_density[-1] + log_share)) + math.log(2.0)
        beyond = np.logaddexp.reduce(log_density[-1] + log_beyond[-1]) + math.log(2.0)
        return min(self._step, 2.0 * math.pi * a / max(float(bulk) - log_error, float(beyond) - log_error_beyond, 1.0))

    def decay(self, y: Array) -> Array:
        """Return for each of increasing y an upper bound on log |phi(v) - B(v)| for every v >= y.

        The bound on the modulus is raised by 1 % for the error of its own quadrature.
        """
        log_density, log_beyond, turn = self._lines_above()
        return np.minimum.accumulate(np.log(MODULUS_RAISE * np.fmin(_least_modulus(log_density + log_beyond, turn, y), 1.0)))
