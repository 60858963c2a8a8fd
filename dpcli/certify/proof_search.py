"""Search for a proof that the checker can follow: where the contour lies, how far and how densely it is sampled, and on which panels.

Everything here is floating point, and nothing of it is trusted: a bad plan proves nothing, and no plan proves anything false. It shares no
code with the accountants, so that a mistake of theirs is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr

Array = Any
Plan = dict[str, Any]
SLACK = 1e-10  # share of delta that the proof may lose
MOST_FREQUENCIES = 60_000
MOST_WORK = 4e8  # frequencies times nodes of the dearest proof that is tried
ORDERS = np.geomspace(1e-3, 1e6, 240)  # of Chernoff's bound
ELLIPSES = (2.0, 3.0, 4.0, 6.0, 9.0)
ORDER = 32  # nodes of a panel
CELLS = 512
MOST_LATTICE = 400_000  # losses of a composition that are added up one by one
LATTICE = 120_000  # points of the lattice on which few steps are added up
COARSEST = 0.02  # largest spacing, in about the standard deviations of the sum of all losses
FINE = 4001  # points of an integral in floating point


class NoPlan(Exception):
    """No plan within the work that is allowed; the text says what stands in the way."""


def log_sum(values: Array, axis: int = -1) -> Array:
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis=axis))


@dataclass
class Part:
    """A part of the certificate in one direction, in floating point."""

    text: dict[str, Any]
    direction: str
    count: int = field(init=False)
    cut: float | None = None

    def __post_init__(self) -> None:
        self.count = int(self.text["count"])
        self.form = self.text["kind"]
        self.rate = float(Fraction(self.text["rate"])) if "rate" in self.text else 1.0
        self.two_sided = self.text.get("relation", "add-remove") == "replace-one"
        self.sign = -1.0 if self.direction == "add" and not self.two_sided else 1.0
        self.records = int(self.text.get("records", 1))
        if self.form in ("gaussian", "mixture"):
            self.slope = math.sqrt(Fraction(self.text["mu_squared"]))
        elif self.form == "zcdp":
            self.slope = math.sqrt(2 * Fraction(self.text["rho"]))
        else:
            self.slope, self.e0 = 1.0, float(Fraction(self.text.get("epsilon", 0)))
        if self.smooth:
            k, q = self.records, self.rate
            j = np.arange(k + 1.0)
            log_rest = (k - j) * math.log1p(-q) if q < 1.0 else np.where(j == k, 0.0, -np.inf)
            self.log_weights = gammaln(k + 1) - gammaln(j + 1) - gammaln(k - j + 1) + j * math.log(q) + log_rest
        if not self.smooth and self.form not in ("gaussian", "zcdp"):
            self.atoms = self._atoms()

    @property
    def lost(self) -> float:
        """Return the mass of P at an infinite loss."""
        lost = float(Fraction(self.text.get("delta", 0)))
        return lost if self.rate == 1.0 else self.rate * lost if self.direction == "remove" else 0.0

    @property
    def smooth(self) -> bool:
        return str(self.form) in ("mixture", "laplace", "range")

    @property
    def normal(self) -> bool:
        return str(self.form) == "mixture"

    def _atoms(self) -> list[tuple[float, float]]:
        """Return (log P, loss) of each separate loss."""
        pairs, log_lost = self._pairs()
        rate = self.rate
        if rate < 1.0:
            mix: Any = lambda a, b: np.logaddexp(math.log1p(-rate) + a, math.log(rate) + b)  # noqa: E731
            remove = self.direction == "remove"
            pairs = [(mix(q, p), q) for p, q in pairs] if remove else [(p, mix(p, q)) for p, q in pairs]
            if log_lost > -math.inf:
                less = math.log1p(-rate) + log_lost
                pairs.append((less, log_lost) if remove else (log_lost, less))
        return [(p, p - q) for p, q in pairs]

    def _pairs(self) -> tuple[list[tuple[float, float]], float]:
        """Return log P and log Q of each outcome without sampling, and log of P's mass at an infinite loss."""
        if self.form == "discrete-laplace":
            a, s = 1.0 / float(Fraction(self.text["scale"])), int(self.text["sensitivity"])
            end, middle = -math.log1p(math.exp(-a)), math.log(-math.expm1(-a)) - math.log1p(math.exp(-a))
            log_q = [end, *(middle - x * a for x in range(1, s)), end - s * a]
            return list(zip(log_q[::-1], log_q, strict=True)), -math.inf
        if self.form == "discrete-gaussian":
            s, reach, variance = int(self.text["sensitivity"]), int(self.text["reach"]), float(Fraction(self.text["sigma_squared"]))
            x = np.arange(-reach, reach + s + 1.0)
            log_size = -0.5 * x * x / variance
            log_gaussian: list[float] = (log_size - float(log_sum(log_size))).tolist()
            return list(zip(log_gaussian[::-1], log_gaussian, strict=True)), -math.inf
        e, lost, others = self.e0, float(Fraction(self.text.get("delta", 0))), int(self.text.get("categories", 2)) - 2
        high = math.log1p(-lost) - math.log1p((1 + others) * math.exp(-e))
        pairs = [(high - e, high), (high, high - e)]
        if others:
            pairs.append((high - e + math.log(others), high - e + math.log(others)))
        return pairs, math.log(lost) if lost else -math.inf

    # Smooth parts.

    def terms(self, x: Array) -> Array:
        j = np.arange(self.records + 1.0)[:, None]
        x = np.atleast_1d(x)[None, :]
        u = j * self.slope * x - 0.5 * (j * self.slope) ** 2 if self.normal else j * x
        return self.log_weights[:, None] + u

    def log_m(self, x: Array) -> Array:
        return log_sum(self.terms(x), axis=0)

    def moments(self, x: Array) -> tuple[Array, Array]:
        """Return the mean and the variance of j under the terms."""
        terms = self.terms(x)
        p = np.exp(terms - log_sum(terms, axis=0)[None, :])
        j = np.arange(self.records + 1.0)[:, None]
        mean = (j * p).sum(axis=0)
        return mean, (j * j * p).sum(axis=0) - mean * mean

    def drift(self, x: Array) -> Array:
        """Return the slope of log m at x."""
        return self.slope * self.moments(x)[0]

    def log_base(self, x: Array) -> Array:
        if self.normal:
            return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        if self.form == "laplace":
            return -0.5 * (x + self.e0) - math.log(4.0)
        return 0.5 * (self.e0 - x) - math.log(2.0 * math.expm1(self.e0))

    def powers(self, z: float) -> tuple[float, float]:
        if self.two_sided:
            return z + 1.0, -z
        return (z + 1.0 if self.sign > 0.0 else -z), 0.0

    def loss(self, x: Array) -> Array:
        return self.log_m(x) - self.log_m(-x) if self.two_sided else self.sign * self.log_m(x)

    def log_f(self, x: Array, z: float) -> Array:
        a, b = self.powers(z)
        value = self.log_base(x) + a * self.log_m(x)
        return value + b * self.log_m(-x) if self.two_sided else value

    def span(self, z: float, depth: float = 80.0) -> tuple[float, float]:
        """Return where f is more than e^-depth of its largest."""
        if not self.normal:
            return -self.e0, self.e0
        a, b = self.powers(z)
        reach = 40.0 + 2.0 * self.records * self.slope * (abs(a) + abs(b) + 1.0)
        most = reach if self.cut is None else self.cut
        x = np.linspace(-reach, most, 8001)
        for _ in range(3):
            value = self.log_f(x, z)
            inside = np.flatnonzero(value >= value.max() - depth)
            low, high = x[max(inside[0] - 1, 0)], x[min(inside[-1] + 1, len(x) - 1)]
            x = np.linspace(low, high, 4001)
        return float(low), float(high)

    def log_moment(self, z: float) -> float:
        if self.form in ("gaussian", "zcdp"):
            return 0.5 * self.slope**2 * z * (z + 1.0)
        if not self.smooth:
            return float(log_sum(np.array([p + z * loss for p, loss in self.atoms])))
        low, high = self.span(z, 50.0)
        x = np.linspace(low, high, FINE)
        value = self.log_f(x, z)
        if self.normal and self.cut is None:
            return float(log_sum(value)) + math.log(x[1] - x[0])
        nodes, weights = np.polynomial.legendre.leggauss(64)
        edges = np.linspace(low, high, 41)
        half = 0.5 * np.diff(edges)[:, None]
        x = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes).ravel()
        value = self.log_f(x, z) + np.log((half * weights).ravel())
        if self.form == "laplace":
            a = self.powers(z)[0]
            ends = np.array([-math.log(2.0) + a * self.log_m(-self.e0)[0], -math.log(2.0) - self.e0 + a * self.log_m(self.e0)[0]])
            value = np.append(value, ends)
        return float(log_sum(value))

    def ends(self, log_left: float) -> tuple[float, float]:
        """Return losses between which P has all but about e^log_left."""
        if self.form == "gaussian":
            reach = self.slope * math.sqrt(-2.0 * log_left)
            return 0.5 * self.slope**2 - reach, 0.5 * self.slope**2 + reach
        if not self.smooth:
            losses = [loss for _, loss in self.atoms]
            return min(losses), max(losses)
        losses = self.loss(np.array(self.span(0.0, -log_left))).tolist()
        return min(losses), max(losses)

    def decay(self, t: float, log_moment: float) -> tuple[Callable[[Array], tuple[Array, Array]], Plan]:
        """Return log of the bound on |phi(y)| with the cap that attains it, and the cells."""
        if self.form == "gaussian":
            return (lambda y: (-0.5 * self.slope**2 * y * y, np.zeros_like(y))), {}
        if not self.smooth:
            return (lambda y: (np.zeros_like(y), np.zeros_like(y))), {}
        low, high = self.span(t, 12.0)
        if self.normal:  # further to the side where the loss hardly moves
            low -= 2.0
        if not self.normal:  # a rounded end must not lie beyond the largest loss
            low, high = -self.e0 * (1.0 - 1e-5), self.e0 * (1.0 - 1e-5)
        plan: Plan = {"first": text(low), "last": text(high if self.cut is None else self.cut), "cells": CELLS}
        low, high = float(plan["first"]), float(plan["last"])
        x = np.linspace(low, high, CELLS + 1)
        speed = self.drift(x) + (self.drift(-x) if self.two_sided else 0.0)
        log_p = self.log_f(x, t) - np.log(speed) - log_moment
        heights = np.exp(np.minimum(log_p[1:], log_p[:-1]) - 1e-6)
        lengths = np.abs(np.diff(self.loss(x)))
        top = heights.max()
        caps = np.geomspace(top * 1e-9, top, 80)
        rho = np.minimum(heights[None, :], caps[:, None])
        gains = rho @ lengths
        variations = np.abs(np.diff(rho, axis=1)).sum(axis=1) + rho[:, 0] + rho[:, -1]

        def log_bound(y: Array) -> tuple[Array, Array]:
            share = gains[:, None] - variations[:, None] / y[None, :]
            best = share.argmax(axis=0)
            return np.log1p(-np.clip(share.max(axis=0), 0.0, 1.0 - 1e-15)), caps[best]

        return log_bound, plan

    def quadrature(self, orders: Sequence[tuple[float, float, float]]) -> Plan:
        """Return panels on which, for each (z, y, log_error), the rule errs by at most e^log_error at orders z + i v, |v| <= y."""
        if not self.smooth:
            return {}
        low, high = self._reach(orders)
        widths = np.geomspace(4.0, 1e-4, 160)
        panels: list[list[str]] = []
        left = low
        while left < high:
            right = np.minimum(left + widths, high)
            best = 0.0, 0.0
            for r in ELLIPSES:
                errors = [self.log_rule_error(z, y, left, right, r) - log_error for z, y, log_error in orders]
                fits = np.all(np.array(errors) <= -math.log(400.0), axis=0)
                if fits.any() and widths[fits.argmax()] > best[0]:
                    best = float(widths[fits.argmax()]), r
            if best[0] == 0.0 or len(panels) * ORDER > MOST_FREQUENCIES:
                raise NoPlan("an integral would take too many nodes")
            left = min(float(text(left + best[0], 9)), high)
            panels.append([text(left, 9), text(best[1])])
        return {"low": text(low), "order": ORDER, "panels": panels}

    def _reach(self, orders: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
        """Return ends beyond which the integrands fall, and are small enough."""
        if not self.normal:
            return -self.e0, self.e0
        low, high = math.inf, -math.inf
        for z, _, log_error in orders:
            first, last = self.span(z, max(self.log_moment(z) - log_error, 0.0) + 25.0)
            a, b = self.powers(z)
            rises = [max(power, 0.0) * self.records * self.slope + 1.0 for power in (a, b)]  # of log f, at the most
            falls = [max(-power, 0.0) * float(self.drift(np.array([x]))[0]) for power, x in ((a, first), (b, -last))]
            low, high = min(low, first - 0.5, -rises[1] - falls[0]), max(high, last + 0.5, rises[0] + falls[1])
        return float(text(low)), float(text(high)) if self.cut is None else self.cut

    def log_rule_error(self, z: float, y: float, left: float, right: Array, r: float) -> Array:
        """Return log of the rule's error on panels from `left` to each of `right`."""
        d, middle = 0.5 * (right - left), 0.5 * (right + left)
        wide, height = d * (r + 1.0 / r) / 2.0, d * (r - 1.0 / r) / 2.0
        turn = self.records * self.slope * height
        small = turn < 1.5
        turn = np.minimum(turn, 1.5)
        first, last = middle - wide, middle + wide
        inside = np.where((first < 0) & (last > 0), 0.0, np.where(first > 0, first, last)) if self.normal else first
        size = self.log_base(inside) + (0.5 * height * height if self.normal else 0.0)
        squeeze: Array = np.log(np.cos(0.5 * turn))
        angle: Array = 0.0
        a, b = self.powers(z)
        for power, near, far in ((a, first, last), (b, -last, -first))[: 2 if self.two_sided else 1]:
            size = size + (power * self.log_m(far) if power >= 0 else power * (self.log_m(near) + squeeze))
            with np.errstate(over="ignore"):
                share = (
                    np.expm1(np.minimum(self.log_m(far) - self.log_weights[0], 700.0)) * np.sin(turn) if self.rate < 1.0 else turn
                )
            angle = angle + np.minimum(share, turn)
        value = size + y * angle + np.log(8.0 * d / (1.0 - 1.0 / r)) - 2.0 * ORDER * math.log(r)
        return np.where(small & (d > 0), value, np.inf)


def text(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}"


def moment_of(parts: Sequence[Part]) -> Callable[[float], float]:
    known: dict[float, float] = {}

    def log_moment(z: float) -> float:
        if z not in known:
            known[z] = math.fsum(part.count * part.log_moment(z) for part in parts)
        return known[z]

    return log_moment


def minimum(function: Callable[[float], float], low: float, high: float, steps: int = 60) -> float:
    """Return where a convex function of log x is smallest."""
    a, b = math.log(low), math.log(high)
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    c, d = b - golden * (b - a), a + golden * (b - a)
    fc, fd = function(math.exp(c)), function(math.exp(d))
    for _ in range(steps):
        if fc <= fd or not math.isfinite(fd):
            b, d, fd = d, c, fc
            c = b - golden * (b - a)
            fc = function(math.exp(c))
        else:
            a, c, fc = c, d, fd
            d = a + golden * (b - a)
            fd = function(math.exp(d))
    return math.exp(0.5 * (a + b))


def _room(parts: Sequence[Part], delta: float) -> float:
    """Return what is left of delta beside the masses at infinite losses."""
    return delta + math.expm1(math.fsum(part.count * math.log1p(-part.lost) for part in parts))


def log_chernoff(log_moment: Callable[[float], float], s: float, epsilon: float) -> float:
    return log_moment(s) - s * epsilon + s * math.log(s) - (1.0 + s) * math.log1p(s)


def chernoff(parts: Sequence[Part], epsilon: float, log_room: float) -> Plan | None:
    """Return a proof by Chernoff's bound that delta is at most e^log_room, None if there is none."""
    log_moment = moment_of(parts)
    s = minimum(lambda s: log_chernoff(log_moment, s, epsilon), 1e-3, 1e6)
    s = float(text(s, 12))
    if not log_chernoff(log_moment, s, epsilon) <= log_room - 1e-6:
        return None
    plans = [part.quadrature([(s, 0.0, part.log_moment(s) - math.log(part.count) - 24.0)]) for part in parts]
    return {
        "method": "chernoff",
        "s": text(s, 12),
        "parts": plans,
        "bits": 80 + math.ceil(math.log2(max(part.count for part in parts))),
    }


def chernoff_epsilon(texts: Sequence[dict[str, Any]], direction: str, delta: float) -> float:
    """Return about the smallest epsilon that Chernoff's bound proves; inf if it proves none."""
    parts = [Part(text, direction) for text in texts]
    room = _room(parts, delta)
    if room <= 0.0:
        return math.inf
    log_delta = math.log(room) - 1e-5
    log_moment = moment_of(parts)

    def cost(s: float) -> float:
        return (log_moment(s) + s * math.log(s) - (1.0 + s) * math.log1p(s) - log_delta) / s

    return cost(minimum(cost, 1e-3, 1e6))


def contour(parts: list[Part], epsilon: float, log_delta: float, upper: bool, jump_order: float | None = None) -> Plan:
    """Return a proof by the contour that loses at most the share SLACK of delta. Raises NoPlan.

    jump_order: the order that bounds what is lost of big runs, if parts are cut.
    """
    log_moment = moment_of(parts)

    def log_g(t: float) -> float:
        return log_moment(t) - t * epsilon - math.log(t) - math.log1p(t)

    saddle = minimum(log_g, 1e-2, 1e6)
    best: tuple[float, Plan] | None = None
    reasons = []
    for factor in (1.0,) if jump_order is None else (1.0, 1.5, 2.5):  # what a cut measure's floor asks for may lie further out
        try:
            plan, work = _at(parts, epsilon, log_delta, float(text(saddle * factor, 8)), log_moment, upper, jump_order)
        except NoPlan as error:
            reasons.append(error)
            continue
        if best is None or work < best[0]:
            best = work, plan
    if best is None:
        raise reasons[0]
    return best[1]


def _at(
    parts: list[Part],
    epsilon: float,
    log_delta: float,
    t: float,
    log_moment: Callable[[float], float],
    upper: bool,
    jump_order: float | None,
) -> tuple[Plan, float]:
    """Return the plan with its line through t, and the work of following it: frequencies times nodes."""
    log_slack = log_delta + math.log(SLACK)
    h, s1, s2 = _spacing(log_moment, epsilon, t, log_slack)
    size = log_moment(t) - t * epsilon
    decays = [part.decay(t, part.log_moment(t)) for part in parts]

    def log_left_out(y: Array) -> Array:
        return size + sum(part.count * decay(y)[0] for part, (decay, _) in zip(parts, decays, strict=True)) - np.log(math.pi * y)

    ys = np.geomspace(h, h * MOST_FREQUENCIES, 4000)
    enough = np.flatnonzero(log_left_out(ys) <= log_slack - 0.7)
    if not len(enough):
        raise NoPlan("the characteristic function falls too slowly")
    count = math.ceil(ys[enough[0]] / h) + 1
    y = (count + 1) * h
    log_largest = size - math.log(2.0 * math.pi * t)  # about the largest term of the sum times the width of the line
    orders = [*(() if upper else (s1, s2)), *(() if jump_order is None else (-1.0 - jump_order,))]
    plans, nodes = [], 0
    for part, (decay, cells) in zip(parts, decays, strict=True):
        log_error = part.log_moment(t) - math.log(part.count) + min(log_slack - log_largest, -1.0) - math.log(20.0 * len(parts))
        needs = [(t, y, log_error), *((order, 0.0, part.log_moment(order) - math.log(part.count) - 3.0) for order in orders)]
        plan = part.quadrature(needs)
        if part.smooth:
            plan |= cells | {"cap": text(float(decay(np.array([y]))[1][0]))}
            if part.cut is not None:
                plan["cut"] = text(part.cut)
            nodes += len(plan["panels"]) * plan["order"]
        plans.append(plan)
    work = float(count) * max(nodes, 1)
    if work > MOST_WORK:
        raise NoPlan(f"it would take {count} frequencies and {nodes} nodes")
    bits = 40 + (log_largest - log_slack) / math.log(2.0) + math.log2(max(part.count for part in parts))
    total: Plan = {"method": "contour", "t": text(t, 8), "h": text(h, 8), "frequencies": count, "parts": plans}
    if not upper:
        total |= {"s1": text(s1, 8), "s2": text(s2, 8)}
    if jump_order is not None:
        total |= {"jump_order": text(jump_order, 8)}
    return total | {"bits": max(64, math.ceil(bits))}, work


def _spacing(log_moment: Callable[[float], float], epsilon: float, t: float, log_slack: float) -> tuple[float, float, float]:
    """Return the largest distance of the frequencies for which aliasing is within the slack, and the orders that show it."""

    def step(s: float) -> float:
        log_c = log_chernoff(log_moment, s, epsilon) if s > 0.0 else 0.0
        return 2.0 * math.pi * abs(t - s) / max(log_c - log_slack + 0.7, 1.0)

    below = max([0.0, *(t * np.linspace(0.02, 0.98, 25))], key=step)
    above = max(t * (1.0 + np.geomspace(0.02, 30.0, 40)), key=step)
    h = float(text(0.999 * min(step(below), step(above)), 6))
    return h, float(text(below, 8)), float(text(above, 8))


def with_cuts(parts: Sequence[Part], epsilon: float, log_delta: float) -> tuple[list[Part], float] | None:
    """Return parts cut where a single loss exceeds epsilon enough, and the order for what is lost; None where nothing is to cut."""
    best: tuple[float, list[Part], float] | None = None
    for extra in np.geomspace(0.02, 3.0, 24):
        level = epsilon * (1.0 + extra)
        cut = []
        for part in parts:
            one = replace(part)
            if part.normal and part.sign > 0.0 and part.rate < 1.0:
                x = np.linspace(-5.0, 60.0 + 3.0 * part.records * part.slope, 20001)
                above = np.flatnonzero(part.loss(x) > level)
                if len(above):
                    one.cut = float(text(float(x[above[0]])))
            cut.append(one)
        if all(one.cut is None for one in cut):
            return None
        order = minimum(partial(log_jump_error, cut, epsilon), 1e-2, 1e6, 25)
        if log_jump_error(cut, epsilon, order) <= log_delta + math.log(SLACK) - 0.7:
            best = (extra, cut, order)
            break
    return None if best is None else (best[1], float(text(best[2], 8)))


def log_jump_error(parts: Sequence[Part], epsilon: float, v: float) -> float:
    rest, more = 0.0, 0.0
    for part in parts:
        small = part.log_moment(-1.0 - v)
        rest += part.count * small
        if part.cut is not None:
            j = np.arange(part.records + 1.0)
            log_q = (
                float(log_sum(part.log_weights + log_ndtr(-(part.cut + j * part.slope))))
                if part.two_sided
                else float(log_ndtr(-part.cut))
            )
            more += part.count * math.exp(min(log_q - v * float(part.loss(np.array([part.cut]))[0]) - small, 700.0))
    return (1.0 + v) * epsilon + rest + (math.log(math.expm1(more)) if 0.0 < more < 700.0 else (more if more else -math.inf))


def plans(texts: Sequence[dict[str, Any]], direction: str, epsilon: float, delta: float, upper: bool) -> Iterator[Plan]:
    """Yield plans to prove that delta(epsilon) is at most `delta`, or above it, cheap ones first. Raises NoPlan if there is none."""
    try:
        with np.errstate(all="ignore"):
            yield from _plans(texts, direction, epsilon, delta, upper)
    except (ValueError, OverflowError, ZeroDivisionError, IndexError) as error:  # a search in floating point may fail at extremes
        raise NoPlan(f"the search for a proof fails ({error})") from None


def _plans(texts: Sequence[dict[str, Any]], direction: str, epsilon: float, delta: float, upper: bool) -> Iterator[Plan]:
    if delta == 0.0:
        yield {"method": "pure", "bits": 128}
        return
    parts = [Part(text, direction) for text in texts]
    room = _room(parts, delta)
    if room <= 0.0:
        raise NoPlan("the stated deltas add up to more")
    log_delta = math.log(room)
    count = math.fsum(part.count for part in parts)
    bits = 100 + math.ceil(-log_delta / math.log(2.0) + math.log2(count))
    if all(part.form == "gaussian" for part in parts):
        yield {"method": "gaussian", "bits": bits}
        return
    alone = parts[0] if len(parts) == 1 else None
    if alone is not None and alone.count == 1 and alone.smooth and alone.records == 1 and not alone.two_sided:
        yield {"method": "one-step", "bits": bits}
        return
    if upper and (plan := chernoff(parts, epsilon, log_delta)) is not None:
        yield plan
        return
    if any(part.form == "zcdp" for part in parts):
        raise NoPlan("what is known by its rho alone has no sharper proof than Chernoff's")
    if alone is not None and not alone.smooth:
        if len(alone.atoms) == 2:
            yield {"method": "sum", "bits": bits}
            return
        if (len(alone.atoms) > 1 and alone.count == 1) or (alone.rate == 1.0 and alone.count * len(alone.atoms) <= MOST_LATTICE):
            yield {"method": "lattice", "bits": bits}
            return
    reason: NoPlan
    try:
        yield contour(parts, epsilon, log_delta, upper)
        return
    except NoPlan as error:
        reason = error
    cut = with_cuts(parts, epsilon, log_delta)
    if cut is not None:
        try:
            yield contour(cut[0], epsilon, log_delta, upper, cut[1])
            return
        except NoPlan as error:
            reason = error
    if not upper or any(part.smooth and (part.records > 1 or part.two_sided) for part in parts):
        raise reason
    yield grid(parts, log_delta)


def grid(parts: Sequence[Part], log_delta: float) -> Plan:
    """Return a proof on a lattice that is as fine as is allowed. Raises NoPlan if the losses spread too far for it."""
    count = sum(part.count for part in parts)
    ends = [part.ends(log_delta - math.log(count) + math.log(1e-7)) for part in parts]
    total = math.fsum(part.count * (high - low) for part, (low, high) in zip(parts, ends, strict=True))
    widest = math.sqrt(math.fsum(part.count * (high - low) ** 2 for part, (low, high) in zip(parts, ends, strict=True)))
    spacing = float(text(total / LATTICE, 4))
    if not spacing < COARSEST * widest / 30.0:
        raise NoPlan("too many steps for a lattice, and the characteristic function falls too slowly")
    places = [{"first": math.floor(low / spacing) - 1, "last": math.ceil(high / spacing) + 1} for low, high in ends]
    bits = 140 + math.ceil(-log_delta / math.log(2.0) + 2.0 * math.log2(count))
    return {"method": "grid", "spacing": text(spacing, 4), "parts": places, "bits": bits}
