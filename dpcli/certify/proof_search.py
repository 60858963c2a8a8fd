"""The search for the plan of a proof: where the contour lies, how far and how densely it is sampled, and on which panels.

A certificate proves that delta(epsilon) of a pipeline is at most, or above, a number; checker.py verifies it in ball arithmetic along a
*plan* that is part of the certificate. certificate.py calls `find_plan` with the *parts*, the dominating pairs of the mechanisms as JSON
objects, and with the bound to prove. It returns the cheapest plan that it finds, or raises NoPlan. The search works in floating point and
is not trusted: a bad plan proves nothing, and no plan proves a false claim. Symbols such as M(z), t and h, and numbered items, are those of
the header of checker.py. No code is shared with the accountants, so that their mistakes are not repeated here.

Words: a `Form` is a part in floating point. A run is *big* if its outcome lies beyond the *cut* (item 6). A *pad* is a small normal loss
that is added, so that all frequencies decay; it costs a little of delta (item 7). *Cells* carry the bound on the decay (item 4), and
*panels* the quadrature (item 5). The *room* of a proof is the share of delta that it may lose, which grows with the distance between the
bound to prove and the accountants' number. The *slack* is the part of the room that each of several errors may take. The *work* of a plan
is the checker's, in frequencies times nodes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, log_ndtr

Array = Any
Json = dict[str, Any]  # a part of the certificate
Plan = dict[str, Any]  # what the checker reads: of a whole proof, or of one part
LogMoment = Callable[[float], float]  # order z -> log M(z)
LogDecay = Callable[[Array], tuple[Array, Array]]  # heights y -> log of a bound on |M(t + i y)| / M(t), and the cap that gives it

# No number in this file touches soundness, because the checker verifies every plan. They decide whether a plan is found, how sharp a bound
# it can prove, and how long the search and the checker take.
SLACK = 1e-10  # least share of delta by which a proof may err, far less than the last printed digit of epsilon
MOST_SLACK = 1e-3  # largest such share; the search's estimates hold for small ones
PART_OF_ROOM = 0.05  # share of the distance between a bound and the accountants' number that each of several errors may take
PAD_OF_ROOM = 0.5  # share of that distance that the pad may take
LOG_HALF = 0.7  # a little more than log 2, since the slack is divided between two errors
MARGIN = 1e-6  # by which a logarithm must be on the right side, to allow for rounding errors of the search
MOST_FREQUENCIES = 150_000  # also of the nodes of an integral; far below what the checker refuses
MOST_WORK = 8e7  # frequencies times nodes of the dearest proof that is tried, about 10 s
CHEAP = 3e6  # work below which no cheaper plan is looked for
PER_FREQUENCY = 60  # further work of the checker for one frequency and part, in nodes
MOST_LATTICE = 400_000  # losses of a composition that are added up one by one; the checker refuses more than 500,000
ORDER = 32  # nodes of a panel of Gauss and Legendre's rule in the checker
ELLIPSES = np.array([2.0, 3.0, 4.0, 6.0, 9.0])  # values of r that are tried for the ellipse around a panel (item 5)
MAX_EXPONENT = 700.0  # e^700 is near the largest double; larger exponents are cut, or their exponential is not taken
WIDTHS = np.geomspace(4.0, 1e-4, 120)  # widths of a panel that are tried, the largest first
NEAR_WIDTHS = 10  # places in that list by which a panel may be wider or narrower than the last one before all are tried
LOG_PANELS = math.log(400.0)  # each panel may err by 1/400 of the error that an integral is allowed
MOST_TURN = 1.5  # largest k theta (item 5), a little less than pi / 2
CELLS = 512  # cells of the bound on the decay (item 4)
CAPS = 80  # caps that are tried for the heights of the cells; a lower cap makes the variation smaller
LOG_ROUGH = 3.0  # an integral that bounds a small term may err by e^-3 of its value
LOG_CHERNOFF = 24.0  # the integrals of Chernoff's bound may err by e^-24 of their value
FINE = 4001  # points of an integral in floating point
GAUSS = np.polynomial.legendre.leggauss(64)  # nodes and weights of an integral in floating point over one of 40 panels
LEAST_LOG_DENSITY = 50.0  # the search integrates where the integrand is above e^-50 of its largest value
FACTORS = (1.0, 1.5, 2.5)  # multiples of the saddle point; those above 1 are tried only where runs are cut
LEAST_ORDER, MOST_ORDER = 1e-3, 1e6  # orders of Chernoff's bound that are searched
LEAST_LEVEL = 0.05  # the level at which runs are cut is above epsilon by a multiple of epsilon, or of this if epsilon is smaller
LEAST_LINE = 1e-2  # least t, and least order v of item 6

LogPairs = list[tuple[float, float]]  # log P and log Q of each outcome with a finite loss


class NoPlan(Exception):
    """No plan within the work that is allowed; the text says what stands in the way."""


class CurvePoint(NamedTuple):
    """An epsilon and its delta, as the accountants have them."""

    epsilon: float
    delta: float


class Accuracy(NamedTuple):
    """The accuracy of an integral that is asked for: an error of at most e^log_error at the orders z + i v, |v| <= y."""

    z: float
    y: float
    log_error: float


def decimal_text(value: float, digits: int = 6) -> str:
    """Return a decimal text of a number. The checker reads it exactly, so the search goes on with the number that the text states."""
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
        if self.form == "range":  # log (sinh(half e) / half) - log (2 sinh(e / 2)), of a function that is even in half
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
        self.mu = math.sqrt(2 * Fraction(part["rho"]))  # of the Gaussian with this rho

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
        if self.normal and self.cut is None:  # f falls to 0 on both sides, so a sum over even points is very exact
            x = np.linspace(low, high, FINE)
            return float(log_sum(self.log_f(x, z, self.sides[0]))) + math.log(x[1] - x[0])
        nodes, weights = GAUSS
        edges = np.linspace(low, high, 41)
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
        if self.normal:  # further to the side where the loss hardly moves
            low -= 2.0
        else:  # a rounded end must not lie beyond the largest loss
            low, high = -self.e0 * (1.0 - 1e-5), self.e0 * (1.0 - 1e-5)
        plan: Plan = {"first": decimal_text(low), "last": decimal_text(high if self.cut is None else self.cut), "cells": CELLS}
        x = np.linspace(float(plan["first"]), float(plan["last"]), CELLS + 1)
        speed = self.drift(x) + (self.drift(-x) if self.two_sided else 0.0)
        lengths = np.abs(np.diff(self.loss(x, 1.0)))
        log_densities = [self.log_f(x, t, side) - np.log(speed) - log_moment for side in self.sides]  # of the loss
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
            NoPlan: There would be more than MOST_FREQUENCIES nodes, or a panel would be narrower than the narrowest of WIDTHS.
        """
        low, high = self._panel_ends(accuracies)
        panels: list[list[str]] = []
        left, place = low, None  # place: index in WIDTHS of the last panel's width
        while left < high:
            near = None if place is None else slice(max(place - NEAR_WIDTHS, 0), place + NEAR_WIDTHS)
            width, best_r = self._widest(accuracies, left, high, WIDTHS[near]) if near else (0.0, 0.0)
            if width == 0.0:  # none of the near widths is accurate enough
                width, best_r = self._widest(accuracies, left, high, WIDTHS)
            if width == 0.0 or len(panels) * ORDER > MOST_FREQUENCIES:
                raise NoPlan("an integral would take too many nodes")
            place = int(np.searchsorted(-WIDTHS, -width))
            edge = decimal_text(left + width, 9)
            panels.append([decimal_text(min(float(edge), high), 9), decimal_text(best_r)])
            left = min(float(edge), high)
        return {"low": decimal_text(low), "order": ORDER, "panels": panels}

    def _widest(self, accuracies: Sequence[Accuracy], left: float, high: float, widths: Array) -> tuple[float, float]:
        """Return the width of the widest panel from `left` on that is accurate enough, and the r of its ellipse; zeros without one."""
        width, r = (values.ravel() for values in np.meshgrid(widths, ELLIPSES))  # every combination
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
            first, last = self.span(z, max(self.log_moment(z) - log_error, 0.0) + 25.0)  # e^-25 below the error
            # Beyond the ends, log f also falls by at least 1 for each unit of x: the slope -x of the normal density outweighs the others.
            a, b = self.powers(z, self.sides[0])
            rises = [max(power, 0.0) * self.records * self.slope + 1.0 for power in (a, b)]  # of log f, at the most
            falls = [max(-power, 0.0) * float(self.drift(np.array([x]))[0]) for power, x in ((a, first), (b, -last))]
            low, high = min(low, first - 0.5, -rises[1] - falls[0]), max(high, last + 0.5, rises[0] + falls[1])
        return rounded(low), rounded(high) if self.cut is None else self.cut

    def _log_rule_error(self, at: Accuracy, left: float, right: Array, r: Array, side: float) -> Array:
        """Return log of the bound of item 5 on panels from `left` to each of `right`, on one side.

        r: of the ellipses, one for each panel. The bound is inf on an ellipse on which m may be 0, and on an empty panel.
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
    """Return `form_of` each part."""
    return [form_of(part, direction) for part in parts]


def form_of(part: Json, direction: str) -> Form:
    """Return a part of a certificate in one direction, as the class that can compute its moments."""
    if part["kind"] in LOG_PAIRS:
        return AtomicForm(part, direction)
    if part["kind"] == "zcdp":
        return RenyiForm(part, direction)
    return (SmoothForm if "rate" in part else ClosedForm)(part, direction)


def log_moment_of(forms: Sequence[Form]) -> LogMoment:
    """Return the function log M(z) of all runs. It remembers its values."""
    known: dict[float, float] = {}

    def log_moment(z: float) -> float:
        if z not in known:
            known[z] = math.fsum(form.count * form.log_moment(z) for form in forms)
        return known[z]

    return log_moment


def place_of_minimum(function: Callable[[float], float], low: float, high: float, steps: int = 60) -> float:
    """Return where a convex function of log x is smallest, by golden sections. Each step leaves 0.618 of the interval of log x."""
    a, b = math.log(low), math.log(high)
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    c, d = b - golden * (b - a), a + golden * (b - a)
    fc, fd = function(math.exp(c)), function(math.exp(d))
    for _ in range(steps):
        if fc <= fd or not math.isfinite(fd):  # a large order may overflow
            b, d, fd = d, c, fc
            c = b - golden * (b - a)
            fc = function(math.exp(c))
        else:
            a, c, fc = c, d, fd
            d = a + golden * (b - a)
            fd = function(math.exp(d))
    return math.exp(0.5 * (a + b))


def delta_left(forms: Sequence[Form], delta: float) -> float:
    """Return `delta` less the mass at infinite losses of all runs; 0 or less if nothing is left."""
    return delta + math.expm1(math.fsum(form.count * math.log1p(-form.infinite_mass) for form in forms))


def log_chernoff(log_moment: LogMoment, s: float, epsilon: float) -> float:
    """Return log C(s) of item 1, for s > 0."""
    return log_moment(s) - s * epsilon + s * math.log(s) - (1.0 + s) * math.log1p(s)


def chernoff(forms: Sequence[Form], epsilon: float, log_room: float) -> Plan | None:
    """Return the plan of a proof by Chernoff's bound that delta is at most e^log_room; None if the bound is larger."""
    log_moment = log_moment_of(forms)
    s = rounded(place_of_minimum(lambda s: log_chernoff(log_moment, s, epsilon), LEAST_ORDER, MOST_ORDER), 12)
    if not log_chernoff(log_moment, s, epsilon) <= log_room - MARGIN:
        return None
    plans = [form.quadrature([Accuracy(s, 0.0, form.log_moment(s) - math.log(form.count) - LOG_CHERNOFF)]) for form in forms]
    bits = 80 + math.ceil(math.log2(max(form.count for form in forms)))  # the width of a ball grows with the number of runs
    return {"method": "chernoff", "s": decimal_text(s, 12), "parts": plans, "bits": bits}


def chernoff_epsilon(parts: Sequence[Json], direction: str, delta: float) -> float:
    """Return about the smallest epsilon that Chernoff's bound proves at `delta`; inf if it proves none."""
    forms = forms_of(parts, direction)
    room = delta_left(forms, delta)
    if room <= 0.0:
        return math.inf
    log_room = math.log(room) - 1e-5  # more than MARGIN below, so that `chernoff` finds a proof at this epsilon
    log_moment = log_moment_of(forms)

    def epsilon_at(s: float) -> float:
        return (log_moment(s) + s * math.log(s) - (1.0 + s) * math.log1p(s) - log_room) / s

    return epsilon_at(place_of_minimum(epsilon_at, LEAST_ORDER, MOST_ORDER))


class Room(NamedTuple):
    """The share of delta by which a proof may err.

    log_delta: log of the delta to prove, without infinite losses. share: the relative distance between it and the accountants' number; 0
        leaves each error the least slack.
    pad: share of the usual pad.
    """

    log_delta: float
    share: float
    pad: float

    @property
    def log_slack(self) -> float:
        """Log of a bound on each of several errors."""
        return self.log_delta + math.log(min(max(PART_OF_ROOM * self.share, SLACK), MOST_SLACK))

    def without_share(self) -> Room:
        return Room(self.log_delta, 0.0, 0.0)


class ProofTarget(NamedTuple):
    """The bound on delta that a contour is to prove.

    epsilon: where delta is bounded. room: what the proof may lose. upper: whether it is an upper bound; a lower one needs more orders.
    jump_order: the order v of item 6 if parts are cut; else None.
    """

    epsilon: float
    room: Room
    upper: bool
    jump_order: float | None = None


class ContourPlan(NamedTuple):
    """A plan of a proof by the contour, and the checker's work for it: frequencies times nodes."""

    plan: Plan
    work: float


def cheapest_contour(forms: Sequence[Form], target: ProofTarget) -> ContourPlan:
    """Return the cheapest of the plans that are tried, with a pad or without one.

    forms: the parts, perhaps cut. Raises NoPlan if the work is too much for every line that is tried.
    """
    log_moment, room = log_moment_of(forms), target.room
    saddle = _saddle(log_moment, target.epsilon)
    pads = [(0.0, room.without_share())]  # without a pad, each error gets the least slack
    if room.share > 0.0:  # item 7: a pad m^2 raises delta by about the share m^2 t (t+1) / 2
        pads.append((rounded(2.0 * PAD_OF_ROOM * room.pad * room.share / (saddle * (saddle + 1.0))), room))
    plans, reasons = [], []
    for pad, allowed in pads:
        for factor in FACTORS[:1] if target.jump_order is None else FACTORS:
            try:
                plans.append(contour_through(rounded(saddle * factor, 8), forms, target._replace(room=allowed), log_moment, pad))
            except NoPlan as error:
                reasons.append(error)
        if plans and min(candidate.work for candidate in plans) <= CHEAP:
            break
    if not plans:
        raise reasons[-1]
    return min(plans, key=lambda candidate: candidate.work)


def _saddle(log_moment: LogMoment, epsilon: float, steps: int = 60) -> float:
    """Return the saddle point: the t at which G(0) on the line through t is least."""
    return place_of_minimum(lambda t: log_moment(t) - t * epsilon - math.log(t) - math.log1p(t), LEAST_LINE, MOST_ORDER, steps)


def contour_through(t: float, forms: Sequence[Form], target: ProofTarget, log_moment: LogMoment, pad: float) -> ContourPlan:
    """Return the plan whose line has the real part t.

    log_moment: log M(z) of all runs. pad: m^2 of item 7, or 0. Raises NoPlan if the plan would take too much work.
    """
    log_slack = target.room.log_slack

    def log_padded(z: float) -> float:
        return log_moment(z) + 0.5 * pad * z * (z + 1.0)

    h, s1, s2 = frequency_spacing(log_padded, target.epsilon, t, log_slack)
    log_scale = log_padded(t) - t * target.epsilon
    decays = [form.decay(t, form.log_moment(t)) for form in forms]

    def log_left_out(y: Array) -> Array:  # item 3, and the last line of item 7
        log_decay = sum(form.count * decay(y)[0] for form, (decay, _) in zip(forms, decays, strict=True))
        log_rest = log_scale + log_decay - 0.5 * pad * y * y - np.log(math.pi * y)
        if target.upper or not pad:
            return log_rest
        return np.logaddexp(log_rest, log_scale + 0.5 * math.log(2.0 * pad / math.pi) + log_ndtr(-math.sqrt(pad) * y))

    ys = np.geomspace(h, h * MOST_FREQUENCIES, 4000)
    enough = np.flatnonzero(log_left_out(ys) <= log_slack - LOG_HALF)
    if not len(enough):
        raise NoPlan("the characteristic function falls too slowly")
    count = math.ceil(ys[enough[0]] / h) + 1
    log_largest = log_scale - math.log(2.0 * math.pi * t)  # about the largest term of the sum times the width of the line
    orders = [*(() if target.upper else (s1, s2)), *(() if target.jump_order is None else (-1.0 - target.jump_order,))]
    # The factor of 20 keeps the errors of all parts well below the slack.
    log_share = min(log_slack - log_largest, -1.0) - math.log(20.0 * len(forms))
    y = (count + 1) * h
    plans = [_part_plan(form, *decay, t, y, log_share, orders) for form, decay in zip(forms, decays, strict=True)]
    nodes = sum(_node_count(form, plan) for form, plan in zip(forms, plans, strict=True))
    work = float(count) * (nodes + PER_FREQUENCY * len(forms))
    if work > MOST_WORK:
        raise NoPlan(f"it would take {count} frequencies and {nodes} nodes")
    bits = 40 + (log_largest - log_slack) / math.log(2.0) + math.log2(max(form.count for form in forms))
    total: Plan = {"method": "contour", "t": decimal_text(t, 8), "h": decimal_text(h, 8), "frequencies": count, "parts": plans}
    if pad:
        total["pad"] = decimal_text(pad)
    if not target.upper:
        total |= {"s1": decimal_text(s1, 8), "s2": decimal_text(s2, 8)}
    if target.jump_order is not None:
        total |= {"jump_order": decimal_text(target.jump_order, 8)}
    return ContourPlan(total | {"bits": max(64, math.ceil(bits))}, work)


def _part_plan(form: Form, decay: LogDecay, cells: Plan, t: float, y: float, log_share: float, orders: Sequence[float]) -> Plan:
    """Return the plan of one part on the line through t.

    decay, cells: the results of `form.decay`. y: the largest frequency. log_share: logarithm of the relative error that the part may have
    on the line, over all of its runs. orders: other orders, at which a rough value of M suffices.
    """
    # An error of M_i counts as often as the part runs.
    line = Accuracy(t, y, form.log_moment(t) - math.log(form.count) + log_share)
    rough = [Accuracy(order, 0.0, form.log_moment(order) - math.log(form.count) - LOG_ROUGH) for order in orders]
    plan = form.quadrature([line, *rough])
    if isinstance(form, SmoothForm):
        plan |= cells | {"cap": decimal_text(float(decay(np.array([y]))[1][0]))}
        if form.cut is not None:
            plan["cut"] = decimal_text(form.cut)
    return plan


def _node_count(form: Form, plan: Plan) -> int:
    """Return the number of nodes, or of atoms, that the checker adds up for one frequency of a part."""
    if isinstance(form, SmoothForm):
        return len(plan["panels"]) * int(plan["order"]) * len(form.sides)
    return len(form.atoms) if isinstance(form, AtomicForm) else 0


def frequency_spacing(log_moment: LogMoment, epsilon: float, t: float, log_slack: float) -> tuple[float, float, float]:
    """Return the largest distance h of the frequencies for which T - delta is within the slack, and the orders s_1 and s_2 that show it."""

    def largest_distance(s: float) -> float:
        log_c = log_chernoff(log_moment, s, epsilon) if s > 0.0 else 0.0
        return 2.0 * math.pi * abs(t - s) / max(log_c - log_slack + LOG_HALF, 1.0)

    # Any orders on both sides of t serve; those of these grids that allow the largest distance are used.
    below = max([0.0, *(t * np.linspace(0.02, 0.98, 25))], key=largest_distance)
    above = max(t * (1.0 + np.geomspace(0.02, 30.0, 40)), key=largest_distance)
    h = rounded(0.999 * min(largest_distance(below), largest_distance(above)))
    return h, rounded(below, 8), rounded(above, 8)


def with_cuts(forms: Sequence[Form], epsilon: float, room: Room) -> tuple[list[Form], float] | None:
    """Return the parts cut where the loss of one run exceeds a level above epsilon, and the order v for the error of big runs.

    The level is the lowest of those tried whose error is allowed. Return None if no loss exceeds a level, or if every error is too large.
    """
    for multiple in np.geomspace(0.02, 3.0, 24):
        cut = [_cut_above(form, epsilon + max(epsilon, LEAST_LEVEL) * multiple) for form in forms]
        if all(form.cut is None for form in cut):
            return None
        order = place_of_minimum(partial(log_big_run_error, cut, epsilon), LEAST_LINE, MOST_ORDER, 25)
        if log_big_run_error(cut, epsilon, order) <= room.log_slack - LOG_HALF:
            return cut, rounded(order, 8)
    return None


def _cut_above(form: Form, level: float) -> Form:
    """Return the part cut at about the x where its loss exceeds `level`; the part itself if the checker knows no cut of it there."""
    if isinstance(form, SmoothForm) and form.normal and form.sides == (1.0,):
        x = np.linspace(-5.0, 60.0 + 3.0 * form.records * form.slope, 20001)  # the loss rises in x
        above = np.flatnonzero(form.loss(x, 1.0) > level)
        if len(above):
            return form.with_cut(rounded(float(x[above[0]])))
    return form


def log_big_run_error(forms: Sequence[Form], epsilon: float, v: float) -> float:
    """Return log of the error of item 6 at the order v."""
    log_none, log_growth = 0.0, 0.0  # logs of PROD N_i^{n_i}, and of PROD (1 + R_i / N_i)^{n_i} to first order
    for form in forms:
        log_n = form.log_moment(-1.0 - v)
        log_none += form.count * log_n
        if form.cut is not None:
            assert isinstance(form, SmoothForm)
            j = np.arange(form.records + 1.0)
            if form.two_sided:
                log_q = float(log_sum(form.log_weights + log_ndtr(-(form.cut + j * form.slope))))
            else:
                log_q = float(log_ndtr(-form.cut))
            loss_at_cut = float(form.loss(np.array([form.cut]), 1.0)[0])
            log_growth += form.count * math.exp(min(log_q - v * loss_at_cut - log_n, MAX_EXPONENT))
    if log_growth == 0.0:
        return -math.inf
    log_excess = math.log(math.expm1(log_growth)) if log_growth < MAX_EXPONENT else log_growth
    return (1.0 + v) * epsilon + log_none + log_excess


def find_plan(
    parts: Sequence[Json],
    direction: str,
    epsilon: float,
    delta: float,
    *,
    upper: bool,
    known: CurvePoint | None = None,
    pad: float = 1.0,
) -> Plan:
    """Return a plan to prove that delta(epsilon) is at most `delta`, or that it is above it, by the cheapest method that applies.

    Args:
        parts: The parts of the certificate.
        direction: "remove" or "add".
        epsilon: Where delta is bounded, in nats.
        delta: The bound.
        upper: Whether the bound is an upper one.
        known: A point of the accountants' curve near the one that is bounded. The nearer it is, the less a proof may lose.
        pad: Share of the usual pad (item 7). Where losses lie much more densely just below epsilon, a usual one loses too much.

    Raises:
        NoPlan: No method applies, or the work is too much.
    """
    try:
        with np.errstate(all="ignore"):
            return _find_plan(parts, direction, epsilon, delta, upper=upper, known=known, pad=pad)
    except (ValueError, OverflowError, ZeroDivisionError, IndexError) as error:  # a search in floating point may fail at extremes
        raise NoPlan(f"the search for a proof fails ({error})") from None


def _find_plan(
    parts: Sequence[Json], direction: str, epsilon: float, delta: float, *, upper: bool, known: CurvePoint | None, pad: float
) -> Plan:
    """Return the plan as `find_plan` does. At extremes, errors of floating-point computations are raised as they are.

    Closed forms come first, then Chernoff's bound if it proves an upper bound, then finite sums, and last the contour.
    """
    if delta == 0.0:
        return {"method": "pure", "bits": 128}
    forms = forms_of(parts, direction)
    room = delta_left(forms, delta)
    if room <= 0.0:
        raise NoPlan("the stated deltas add up to more")
    log_room = math.log(room)
    # 100 bits beyond those that a delta of this size, and errors that grow with the number of runs, take up.
    bits = 100 + math.ceil(-log_room / math.log(2.0) + math.log2(math.fsum(form.count for form in forms)))
    if all(isinstance(form, ClosedForm) and form.form == "gaussian" for form in forms):
        return {"method": "gaussian", "bits": bits}
    only_form = forms[0] if len(forms) == 1 else None
    is_of_one_record = isinstance(only_form, ClosedForm) or (isinstance(only_form, SmoothForm) and only_form.records == 1)
    if only_form is not None and is_of_one_record and only_form.count == 1:
        return {"method": "one-step", "bits": bits}
    if upper and (plan := chernoff(forms, epsilon, log_room)) is not None:
        return plan
    if any(isinstance(form, RenyiForm) for form in forms):
        raise NoPlan("a part with rho alone has no sharper proof than Chernoff's bound")
    if isinstance(only_form, AtomicForm):
        number = len(only_form.atoms)
        if number == 2:
            return {"method": "sum", "bits": bits}
        if (number > 1 and only_form.count == 1) or (only_form.rate == 1.0 and only_form.count * number <= MOST_LATTICE):
            return {"method": "lattice", "bits": bits}
    share = 0.0 if known is None else -math.expm1(-abs(_log_gap(forms, epsilon, delta, known)))
    return _contour_plan(forms, ProofTarget(epsilon, Room(log_room, share * min(delta / room, 1e6), pad), upper))


def _log_gap(forms: Sequence[Form], epsilon: float, delta: float, known: CurvePoint) -> float:
    """Return about the log of `delta` over the true delta at `epsilon`: near `known`, delta falls as e^{-t epsilon}."""
    t = _saddle(log_moment_of(forms), epsilon, 25)
    return math.log(delta / max(known.delta, 1e-300)) + t * (epsilon - known.epsilon)


def _contour_plan(forms: Sequence[Form], target: ProofTarget) -> Plan:
    """Return the plan of a proof by the contour of all parts, or of cut parts if that is cheaper.

    Raises NoPlan if neither has a plan.
    """
    plans = []
    try:
        plans.append(cheapest_contour(forms, target))
        if plans[0].work <= CHEAP:
            return plans[0].plan
    except NoPlan as error:
        reason = error
    cut = with_cuts(forms, target.epsilon, target.room)
    if cut is not None:
        cut_forms, jump_order = cut
        try:
            plans.append(cheapest_contour(cut_forms, target._replace(jump_order=jump_order)))
        except NoPlan as error:
            reason = error
    if not plans:
        raise reason
    return min(plans, key=lambda candidate: candidate.work).plan
