"""The parts of a certificate in floating point, for the search that makes the plan of a proof (proof_search.py).

A *part* of a certificate is the dominating pair (P, Q) of a mechanism as a JSON object, with the number of its runs. A `Form` is a part in
one direction of the neighbouring relation. It has log M(z) = log E_P[e^{z L}] of one run, where L is the loss. For a sampled part
with a density, it also plans two things that checker.py computes later in ball arithmetic:

* Decay (item 4 of the header of checker.py): |M(t + i y)| / M(t) <= 1 - INT rho + Var(rho) / y, for a step function rho below the density
  of the loss under e^{t L} dP / M(t). The steps are *cells*, and none is higher than the *cap*.
* Quadrature (item 5): M is an integral of f(x) = base(x) m_+(x)^a m_-(x)^b over *panels*. base is the density of x without sampling, m_+(x)
  = SUM_j w_j e^{u_j(x)} is the likelihood ratio of the sample, and m_-(x) = m_+(-x). The error of a panel depends on the size of f on an
  ellipse around it, whose half-axes are d (r +- 1/r) / 2 for a panel of half-length d.

A run is *big* if its outcome x lies beyond the *cut*; M is then that of runs that are not big (item 6).

Nothing here is trusted: the checker computes every number again, and a bad plan proves nothing. No code is shared with the accountants, so
that their mistakes are not repeated here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

Array = Any
Json = dict[str, Any]  # a part of the certificate
Plan = dict[str, Any]  # what the checker reads: of a whole proof, or of one part
LogDecay = Callable[[Array], tuple[Array, Array]]  # heights y -> log of a bound on |M(t + i y)| / M(t), and the cap that gives it
LogPairs = list[tuple[float, float]]  # log P and log Q of each outcome with a finite loss

# These numbers decide whether a plan is found, how sharp a bound it can prove, and how long the search and the checker take.
MOST_NODES = 150_000  # largest number of nodes of an integral, far below what the checker refuses
MARGIN = 1e-6  # a logarithm must be on the right side of a limit by this, because the search rounds
ORDER = 32  # nodes of a panel of Gauss and Legendre's rule in the checker
ELLIPSES = np.array([2.0, 3.0, 4.0, 6.0, 9.0])  # values of r that are tried for the ellipse around a panel (item 5)
MAX_EXPONENT = 700.0  # e^700 is near the largest double; larger exponents are cut, or their exponential is not taken
WIDTHS = np.geomspace(4.0, 1e-4, 120)  # widths of a panel that are tried, the largest first
NEAR_WIDTHS = 10  # a panel is first given one of this many widths above or below the last one, which saves time
LOG_PANELS = math.log(400.0)  # each panel may err by 1/400 of the error that an integral is allowed
MOST_TURN = 1.5  # largest k theta (item 5), a little less than pi / 2
CELLS = 512  # number of cells of the bound on the decay (item 4)
CAPS = 80  # number of caps that are tried for the heights of the cells; a lower cap makes the variation smaller
FINE = 4001  # number of points of an integral in floating point
GAUSS = np.polynomial.legendre.leggauss(64)  # nodes and weights of an integral in floating point over one of 40 panels
LEAST_LOG_DENSITY = 50.0  # the search integrates where the integrand is above e^-50 of its largest value


class NoPlan(Exception):
    """No plan within the work that is allowed; the text says what stands in the way."""


class Accuracy(NamedTuple):
    """The accuracy of an integral that is asked for: an error of at most e^log_error at the orders z + i v, |v| <= y."""

    z: float
    y: float
    log_error: float


def decimal_text(value: float, digits: int = 6) -> str:
    """Return a decimal text of a number, with few digits to keep certificates short.

    The checker reads it exactly, so the search goes on with the number that the text states.
    """
    return f"{value:.{digits}g}"


def rounded(value: float, digits: int = 6) -> float:
    """Return the number that `decimal_text` states."""
    return float(decimal_text(value, digits))


def log_sum(values: Array, axis: int = -1) -> Array:
    """Return the logarithm of a sum along an axis, from the logarithms of the terms."""
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis=axis))


class Form:
    """A part of the certificate in one direction, in floating point.

    Attributes:
        count: Number of its runs.
        infinite_mass: Mass of P at an infinite loss of one run.
        cut: The x beyond which a run is big (item 6); None if no run is.
    """

    infinite_mass = 0.0
    cut: float | None = None

    def __init__(self, part: Json, direction: str) -> None:
        self.count = int(part["count"])

    def log_moment(self, z: float) -> float:
        """Return log M(z) of one run, or a bound on it."""
        raise NotImplementedError

    def decay(self, t: float, log_moment: float) -> tuple[LogDecay, Plan]:
        """Return the bound of item 4 for one run, and the plan of its cells. log_moment: log M(t). Without cells, the bound is 1."""
        return (lambda y: (np.zeros_like(y), np.zeros_like(y))), {}

    def quadrature(self, accuracies: Sequence[Accuracy]) -> Plan:
        """Return the plan of panels on which the rule is as accurate as is asked; an empty one if there is no integral."""
        return {}


class ClosedForm(Form):
    """A part without a sample whose M(z) has a closed form: Gaussian, Laplace, or a choice of bounded range.

    e0: mu^2 of a Gaussian, else the largest loss.
    """

    def __init__(self, part: Json, direction: str) -> None:
        super().__init__(part, direction)
        self.form = part["kind"]
        self.e0 = float(Fraction(part["mu_squared" if self.form == "gaussian" else "epsilon"]))

    def log_moment(self, z: float) -> float:
        e, half = self.e0, abs(z + 0.5)
        if self.form == "gaussian":
            return 0.5 * e * z * (z + 1.0)
        if self.form == "range":  # log (sinh(half e) / half) - log (2 sinh(e / 2)), which is even in half
            return half * e + math.log(-math.expm1(-2.0 * half * e) / half) - 0.5 * e - math.log(-2.0 * math.expm1(-e))
        # ((z+1) e^{z e} + z e^{-(z+1) e}) / (2z+1), which is even in z + 1/2 too
        return (half - 0.5) * e + math.log((half + 0.5 + (half - 0.5) * math.exp(-2.0 * half * e)) / (2.0 * half))

    def decay(self, t: float, log_moment: float) -> tuple[LogDecay, Plan]:
        def log_decay(y: Array) -> tuple[Array, Array]:
            e = self.e0
            if self.form == "gaussian":
                return -0.5 * e * y * y, np.zeros_like(y)
            size = 2.0 * np.hypot(t + 0.5, y)
            log_near = np.log(np.hypot(t + 1.0, y) / size) + t * e
            if self.form == "laplace":
                value = np.logaddexp(log_near, -(t + 1.0) * e - math.log(2.0))
            else:
                value = np.logaddexp((t + 0.5) * e, -(t + 0.5) * e) - 0.5 * e - np.log(size) - math.log(-math.expm1(-e))
            return np.minimum(value - log_moment, 0.0), np.zeros_like(y)

        return log_decay, {}


class RenyiForm(Form):
    """A part of which only rho-zCDP is known. It allows Chernoff's bound only."""

    def __init__(self, part: Json, direction: str) -> None:
        super().__init__(part, direction)
        self.mu = math.sqrt(2 * Fraction(part["rho"]))  # sensitivity over noise of the Gaussian with this rho

    def log_moment(self, z: float) -> float:
        """Return the bound rho z (z+1) on log M(z)."""
        return 0.5 * self.mu**2 * z * (z + 1.0)


class AtomicForm(Form):
    """A part with separate losses.

    atoms: (log P, loss) of each outcome with a finite loss. rate: sampling rate of one record, 1 without sampling.
    """

    def __init__(self, part: Json, direction: str) -> None:
        super().__init__(part, direction)
        self.rate = float(Fraction(part["rate"])) if "rate" in part else 1.0
        removed = direction == "remove"
        lost = float(Fraction(part.get("delta", 0)))
        replaced = part.get("relation", "add-remove") == "replace-one"
        if self.rate == 1.0 or removed or replaced:  # an added record is missing from some samples, so no loss is infinite then
            self.infinite_mass = self.rate * lost
        pairs, log_lost = LOG_PAIRS[part["kind"]](part)
        if replaced:  # losses above 0, their mirror images, and the remaining mass at loss 0, as in checker.py
            upper_half = pairs[len(pairs) - len(pairs) // 2 :]
            pairs = list(_pairs_on_sample(upper_half, -math.inf, self.rate, removed=True))
            log_at_zero = math.log1p(-math.fsum(math.exp(log) for pair in pairs for log in pair) - self.infinite_mass)
            pairs = [*((log_q, log_p) for log_p, log_q in pairs), (log_at_zero, log_at_zero), *pairs]
        elif self.rate < 1.0:
            pairs = list(_pairs_on_sample(pairs, log_lost, self.rate, removed=removed))
        self.atoms = [(log_p, log_p - log_q) for log_p, log_q in pairs]

    def log_moment(self, z: float) -> float:
        return float(log_sum(np.array([log_p + z * loss for log_p, loss in self.atoms])))


def _pairs_on_sample(pairs: LogPairs, log_lost: float, rate: float, *, removed: bool) -> Iterator[tuple[float, float]]:
    """Yield log P and log Q of each outcome with a finite loss on a sample.

    The record is in the sample with probability `rate`. If it is removed, P becomes the mixture of P and Q; if it is added, Q does. Without
    sampling, P has mass e^log_lost where Q is 0, and Q has that mass where P is 0. The mixture makes one of the two losses finite.
    """
    log_out, log_in = math.log1p(-rate), math.log(rate)
    for log_p, log_q in pairs:
        if removed:
            yield float(np.logaddexp(log_out + log_q, log_in + log_p)), log_q
        else:
            yield log_p, float(np.logaddexp(log_out + log_p, log_in + log_q))
    if log_lost > -math.inf:
        yield (log_out + log_lost, log_lost) if removed else (log_lost, log_out + log_lost)


def log_two_points(part: Json) -> tuple[LogPairs, float]:
    """Return the outcomes of what is (epsilon, delta)-DP, or of randomised response, and log of P's mass at an infinite loss."""
    epsilon, lost = float(Fraction(part.get("epsilon", 0))), float(Fraction(part.get("delta", 0)))
    others = int(part.get("categories", 2)) - 2  # categories that P and Q give the same probability; they are one outcome, `middle`
    high = math.log1p(-lost) - math.log1p((1 + others) * math.exp(-epsilon))
    middle = [(high - epsilon + math.log(others),) * 2] if others else []
    return [(high - epsilon, high), *middle, (high, high - epsilon)], math.log(lost) if lost else -math.inf


def log_discrete_laplace(part: Json) -> tuple[LogPairs, float]:
    """Return the outcomes, and -inf as no loss is infinite. All outcomes below 0 are one, and all from the sensitivity on are one."""
    a, s = 1.0 / float(Fraction(part["scale"])), int(part["sensitivity"])
    end, middle = -math.log1p(math.exp(-a)), math.log(-math.expm1(-a)) - math.log1p(math.exp(-a))
    log_q = [end, *(middle - x * a for x in range(1, s)), end - s * a]
    return list(zip(log_q[::-1], log_q, strict=True)), -math.inf


def log_discrete_gaussian(part: Json) -> tuple[LogPairs, float]:
    """Return the outcomes, and -inf as no loss is infinite. Outcomes beyond the part's reach are left out."""
    s, reach, variance = int(part["sensitivity"]), int(part["reach"]), float(Fraction(part["sigma_squared"]))
    x = np.arange(-reach, reach + s + 1.0)
    log_size = -0.5 * x * x / variance
    log_q: list[float] = (log_size - float(log_sum(log_size))).tolist()
    return list(zip(log_q[::-1], log_q, strict=True)), -math.inf


class SmoothForm(Form):
    """A part with a density f(x) = base(x) m_+(x)^a m_-(x)^b of item 5, and perhaps two atoms.

    Attributes:
        normal: Whether x is normal, for a mixture of Gaussians; else x is the loss without sampling, from -e0 to e0.
        has_atoms: Whether there are atoms at both ends, as Laplace noise has.
        records: Largest number k of records in the sample.
        two_sided: Whether Q is the mirror image of a mixture P, since records are replaced.
        split_at_zero: Whether the part is Laplace noise of a replaced record, whose loss has another form on each side of 0.
        sides: 1; or -1 if P and Q are exchanged, since records are added; both for Laplace noise of a replaced record.
        log_scale: log m_+(-e0) for Laplace noise of a replaced record, else 0.
        slope: Slope of u_1(x).
        log_weights: log w_j for j = 0, ..., k.
    """

    def __init__(self, part: Json, direction: str) -> None:
        super().__init__(part, direction)
        self.normal, self.has_atoms = part["kind"] == "mixture", part["kind"] == "laplace"
        self.rate = float(Fraction(part["rate"]))
        self.records = int(part.get("records", 1))
        replaced = part.get("relation", "add-remove") == "replace-one"
        self.two_sided, self.split_at_zero = replaced and self.normal, replaced and self.has_atoms
        self.sides: tuple[float, ...] = (-1.0,) if direction == "add" and not replaced else (1.0,)
        if self.split_at_zero:
            self.sides = (1.0, -1.0)
        self.e0 = float(Fraction(part.get("epsilon", 0)))
        self.slope = math.sqrt(Fraction(part["mu_squared"])) if self.normal else 1.0
        k, q = self.records, self.rate
        j = np.arange(k + 1.0)
        log_rest = (k - j) * math.log1p(-q)
        self.log_weights = gammaln(k + 1) - gammaln(j + 1) - gammaln(k - j + 1) + j * math.log(q) + log_rest
        self.log_scale = float(self.log_m(np.array([-self.e0]))[0]) if self.split_at_zero else 0.0

    def with_cut(self, cut: float) -> SmoothForm:
        """Return the part with runs that are big if x > cut."""
        result = copy.copy(self)
        result.cut = cut
        return result

    # Functions of x.

    def log_terms(self, x: Array) -> Array:
        """Return log (w_j e^{u_j(x)}), as an array of shape (j, x)."""
        j = np.arange(self.records + 1.0)[:, None]
        x = np.atleast_1d(x)[None, :]
        u = j * self.slope * x - 0.5 * (j * self.slope) ** 2 if self.normal else j * x
        return self.log_weights[:, None] + u

    def log_m(self, x: Array) -> Array:
        """Return log m_+(x). log m_-(x) is log m_+(-x)."""
        return log_sum(self.log_terms(x), axis=0)

    def drift(self, x: Array) -> Array:
        """Return the slope of log m_+ at x."""
        terms = self.log_terms(x)
        shares = np.exp(terms - log_sum(terms, axis=0)[None, :])
        return self.slope * (np.arange(self.records + 1.0)[:, None] * shares).sum(axis=0)

    def log_base(self, x: Array) -> Array:
        """Return the log density of x without sampling, under Q."""
        if self.normal:
            return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        if self.has_atoms:
            return -0.5 * (x + self.e0) - math.log(4.0)
        return 0.5 * (self.e0 - x) - math.log(2.0 * math.expm1(self.e0))

    def powers(self, z: float, side: float) -> tuple[float, float]:
        """Return the exponents (a, b) of m_+ and m_- in dP e^{z L}."""
        if self.two_sided:
            return z + 1.0, -z
        return (z + 1.0 if side > 0.0 else -z), 0.0

    def loss(self, x: Array, side: float) -> Array:
        """Return the loss at x."""
        return self.log_m(x) - self.log_m(-x) if self.two_sided else side * (self.log_m(x) - self.log_scale)

    def log_f(self, x: Array, z: float, side: float) -> Array:
        """Return the log density of dP e^{z L} at x, without the atoms."""
        a, b = self.powers(z, side)
        value = self.log_base(x) + a * self.log_m(x)
        return value + b * self.log_m(-x) if self.two_sided else value + (1.0 - a) * self.log_scale

    def span(self, z: float, log_depth: float) -> tuple[float, float]:
        """Return ends between which f is above e^-log_depth of its largest value; all x if they are bounded."""
        if not self.normal:
            return -self.e0, self.e0
        a, b = self.powers(z, self.sides[0])
        reach = 40.0 + 2.0 * self.records * self.slope * (abs(a) + abs(b) + 1.0)  # far enough for every depth
        most = reach if self.cut is None else self.cut
        x = np.linspace(-reach, most, 8001)
        for _ in range(3):  # each time on a finer grid
            log_f = self.log_f(x, z, self.sides[0])
            inside = np.flatnonzero(log_f >= log_f.max() - log_depth)
            low, high = x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, len(x) - 1)]
            x = np.linspace(low, high, 4001)
        return float(low), float(high)

    # Integrals in floating point.

    def log_moment(self, z: float) -> float:
        """Return log M(z) of a run that is not big."""
        low, high = self.span(z, LEAST_LOG_DENSITY)
        if self.normal and self.cut is None:  # f falls to 0 on both sides, so a sum over equally spaced points is very exact
            x = np.linspace(low, high, FINE)
            return float(log_sum(self.log_f(x, z, self.sides[0]))) + math.log(x[1] - x[0])
        nodes, weights = GAUSS
        edges = np.linspace(low, high, 41)  # ends of 40 panels
        half = 0.5 * np.diff(edges)[:, None]
        x = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes).ravel()
        log_weights = np.log((half * weights).ravel())
        log_terms = [log_weights + self.log_f(x, z, side) for side in self.sides]
        if self.has_atoms:
            ends = np.array([self.e0] if self.split_at_zero else [-self.e0, self.e0])
            log_mass = np.where(ends < 0.0, 0.0, -self.e0) - math.log(2.0)
            log_terms += [log_mass + self.log_f(ends, z, side) - self.log_base(ends) for side in self.sides]
        return float(log_sum(np.concatenate(log_terms)))

    # Plans for the checker.

    def decay(self, t: float, log_moment: float) -> tuple[LogDecay, Plan]:
        """Return the bound of item 4 for one run, and the plan of its cells without the cap, which depends on y. log_moment: log M(t)."""
        low, high = self.span(t, 12.0)  # the density beyond, below e^-12 of its largest value, is counted as 0
        if self.normal:  # farther to the left, where the loss hardly moves
            low -= 2.0
        else:  # a rounded end must not lie beyond the largest loss
            low, high = -self.e0 * (1.0 - 1e-5), self.e0 * (1.0 - 1e-5)
        plan: Plan = {"first": decimal_text(low), "last": decimal_text(high if self.cut is None else self.cut), "cells": CELLS}
        x = np.linspace(float(plan["first"]), float(plan["last"]), CELLS + 1)
        speed = self.drift(x) + (self.drift(-x) if self.two_sided else 0.0)
        lengths = np.abs(np.diff(self.loss(x, 1.0)))
        log_densities = [self.log_f(x, t, side) - np.log(speed) - log_moment for side in self.sides]  # densities of the loss
        heights = np.stack([np.exp(np.minimum(log_density[1:], log_density[:-1]) - MARGIN) for log_density in log_densities])
        if not heights.max() > 0.0:  # no density that a double can hold
            return (lambda y: (np.zeros_like(y), np.ones_like(y))), plan
        caps = np.geomspace(heights.max() * 1e-9, heights.max(), CAPS)
        rho = np.minimum(heights[:, None, :], caps[:, None])  # of shape (sides, caps, cells)
        gains = (rho @ lengths).sum(axis=0)
        variations = (np.abs(np.diff(rho, axis=2)).sum(axis=2) + rho[:, :, 0] + rho[:, :, -1]).sum(axis=0)

        def log_decay(y: Array) -> tuple[Array, Array]:
            gained = gains[:, None] - variations[:, None] / y[None, :]
            best = gained.argmax(axis=0)
            return np.log1p(-np.clip(gained.max(axis=0), 0.0, 1.0 - 1e-15)), caps[best]

        return log_decay, plan

    def quadrature(self, accuracies: Sequence[Accuracy]) -> Plan:
        """Return the plan of panels on which the rule is as accurate as is asked.

        Raises:
            NoPlan: There would be more than MOST_NODES nodes, or a panel would be narrower than the narrowest of WIDTHS.
        """
        low, high = self._panel_ends(accuracies)
        panels: list[list[str]] = []
        left, place = low, None  # place: index in WIDTHS of the last panel's width
        while left < high:
            near = None if place is None else slice(max(place - NEAR_WIDTHS, 0), place + NEAR_WIDTHS)
            width, best_r = self._widest(accuracies, left, high, WIDTHS[near]) if near else (0.0, 0.0)
            if width == 0.0:  # none of the near widths is accurate enough
                width, best_r = self._widest(accuracies, left, high, WIDTHS)
            if width == 0.0 or len(panels) * ORDER > MOST_NODES:
                raise NoPlan("an integral would take too many nodes")
            place = int(np.searchsorted(-WIDTHS, -width))
            edge = decimal_text(left + width, 9)
            panels.append([decimal_text(min(float(edge), high), 9), decimal_text(best_r)])
            left = min(float(edge), high)
        return {"low": decimal_text(low), "order": ORDER, "panels": panels}

    def _widest(self, accuracies: Sequence[Accuracy], left: float, high: float, widths: Array) -> tuple[float, float]:
        """Return the width of the widest panel from `left` on that is accurate enough, and the r of its ellipse; zeros without one."""
        width, r = (grid.ravel() for grid in np.meshgrid(widths, ELLIPSES))  # every combination
        right = np.minimum(left + width, high)
        fits = right > left
        for at in accuracies:
            for side in self.sides:
                excess = self._log_rule_error(at, left, right, r, side) - at.log_error + math.log(len(self.sides))
                fits &= excess <= -LOG_PANELS
        best = int(np.where(fits, width, 0.0).argmax())
        return (float(width[best]), float(r[best])) if fits[best] else (0.0, 0.0)

    def _panel_ends(self, accuracies: Sequence[Accuracy]) -> tuple[float, float]:
        """Return the ends of all panels. Beyond them the integrands fall, and their integrals are less than the errors that are allowed."""
        if not self.normal:
            return -self.e0, self.e0
        low, high = math.inf, -math.inf
        for z, _, log_error in accuracies:
            first, last = self.span(z, max(self.log_moment(z) - log_error, 0.0) + 25.0)  # down to e^-25 of the error
            # Beyond the ends, log f also falls by at least 1 for each unit of x: the slope -x of the normal density outweighs the others.
            a, b = self.powers(z, self.sides[0])
            rises = [max(power, 0.0) * self.records * self.slope + 1.0 for power in (a, b)]  # largest slopes of log f, plus 1
            falls = [max(-power, 0.0) * float(self.drift(np.array([x]))[0]) for power, x in ((a, first), (b, -last))]
            low, high = min(low, first - 0.5, -rises[1] - falls[0]), max(high, last + 0.5, rises[0] + falls[1])
        return rounded(low), rounded(high) if self.cut is None else self.cut

    def _log_rule_error(self, at: Accuracy, left: float, right: Array, r: Array, side: float) -> Array:
        """Return log of the bound of item 5 on panels from `left` to each of `right`, on one side.

        r: that of each panel's ellipse. The bound is inf on an ellipse on which m may be 0, and on an empty panel.
        """
        d, middle = 0.5 * (right - left), 0.5 * (right + left)
        half_width, height = d * (r + 1.0 / r) / 2.0, d * (r - 1.0 / r) / 2.0
        turn = self.records * self.slope * height
        small = turn < MOST_TURN
        turn = np.minimum(turn, MOST_TURN)
        first, last = middle - half_width, middle + half_width
        peak = np.where((first < 0) & (last > 0), 0.0, np.where(first > 0, first, last)) if self.normal else first
        a, b = self.powers(at.z, side)
        log_size = self.log_base(peak) + (0.5 * height * height if self.normal else (1.0 - a) * self.log_scale)
        log_cosine: Array = np.log(np.cos(0.5 * turn))
        angle: Array = 0.0
        for power, smallest, largest in ((a, first, last), (b, -last, -first))[: 2 if self.two_sided else 1]:
            log_size = log_size + (power * self.log_m(largest) if power >= 0 else power * (self.log_m(smallest) + log_cosine))
            with np.errstate(over="ignore"):
                sine_bound = np.expm1(np.minimum(self.log_m(largest) - self.log_weights[0], MAX_EXPONENT)) * np.sin(turn)
            angle = angle + np.minimum(sine_bound, turn)
        log_error = log_size + at.y * angle + np.log(8.0 * d / (1.0 - 1.0 / r)) - 2.0 * ORDER * np.log(r)
        return np.where(small & (d > 0), log_error, np.inf)


LOG_PAIRS: dict[str, Callable[[Json], tuple[LogPairs, float]]] = {
    "two-point": log_two_points,
    "discrete-laplace": log_discrete_laplace,
    "discrete-gaussian": log_discrete_gaussian,
}


def forms_of(parts: Sequence[Json], direction: str) -> list[Form]:
    return [form_of(part, direction) for part in parts]


def form_of(part: Json, direction: str) -> Form:
    """Return a part of a certificate in one direction, as the class that can compute its moments."""
    if part["kind"] in LOG_PAIRS:
        return AtomicForm(part, direction)
    if part["kind"] == "zcdp":
        return RenyiForm(part, direction)
    return (SmoothForm if "rate" in part else ClosedForm)(part, direction)
