"""Check a certificate of dpcli: a proof that a pipeline's delta at some epsilon is at most, or at least, a stated number.

    python checker.py certificate.json

This file runs alone. It needs Python 3.11 and python-flint, and nothing of dpcli. Every number is an `arb`: a ball that contains the
true number. A comparison of balls holds only if it holds for all their points, so rounding cannot make a false claim pass. The
certificate also contains a plan, such as where a contour lies and how many frequencies are summed. A bad plan proves nothing, but no
plan proves a false claim, so the search that made the plan need not be trusted.

A certificate is JSON. Its `parts` have a kind, such as "mixture", a count, and exact numbers (KEYS_OF_KIND): whole ones, or texts of
decimals and fractions. Its `claims` have a bound ("upper" or "lower"), an epsilon, a delta, and `proofs`: plans by direction, "remove" or
"add" (`cases_of`). An upper bound needs each of them, a lower bound one.

What is claimed. Part i of the pipeline runs n_i times and has a pair of distributions (P_i, Q_i). That these pairs dominate the
mechanisms is assumed; the certificate cites the theorems. The privacy loss L is the sum of log dP_i/dQ_i over all runs, and

    delta(eps) = E_P[(1 - e^{eps - L})+].

A certificate may have alternatives: further lists of parts, of which a unit of privacy is in one only. Each of them composes with `parts`,
and delta is the largest of the resulting deltas (McSherry 2009, Theorem 4). An upper bound then needs a proof for each alternative, and a
lower bound a proof for one.

How it is proved. M(z) = E_P e^{z L} is the product of the M_i(z)^{n_i}.

1. Chernoff's bound. From (1 - e^{-x})+ <= e^{s x} s^s / (1+s)^{1+s} follows, for s >= 0 and C(0) = 1,
       delta(eps + x) <= e^{-s x} C(s) with C(s) = M(s) e^{-s eps} s^s / (1+s)^{1+s}.
2. Contour. Let z = t + i y with t > 0, and G(y) = M(z) e^{-z eps} / (z (z+1)). By Poisson's summation formula,
       T = (h / 2 pi) SUM_k G(k h) = SUM_m e^{-t l} delta(eps - l) with l = 2 pi m / h.
   No term on the right is negative, and that of m = 0 is delta(eps), so delta(eps) <= T. By item 1, T - delta(eps) is at most the sum
   of C(s) r / (1 - r) with r = e^{-2 pi |t - s| / h} over two orders s, one below t and one above.
3. Truncation. The frequencies with |k| > N are left out. There |z (z+1)| >= y^2, so they add at most M(t) e^{-t eps} D / (pi h N), where D
   bounds |M(t + i y)| / M(t) for all y >= (N+1) h.
4. Decay. Let p be the density of the loss of one run under e^{t L} dP / M(t), and rho a step function with 0 <= rho <= p. Integrating
   rho e^{i y L} by parts, and bounding the rest by its mass, gives |M(t + i y)| / M(t) <= 1 - INT rho + Var(rho) / y. The steps are
   cells. On a cell, rho is a lower bound on p, from p at both ends and a ball that contains the slope of log p.
5. Quadrature. The Gauss-Legendre rule with K nodes on a panel of half-length d errs by at most 8 d F r^{-2K} / (1 - 1/r), where F
   bounds |f| on the ellipse with half-axes d (r +- 1/r) / 2 (Trefethen 2013, Approximation Theory and Approximation Practice, Theorem
   8.2, and weights that sum to 2). Here f(x) = base(x) m_+(x)^a m_-(x)^b, where m_+(x) = SUM_j w_j e^{u_j(x)} has rising exponents
   u_j, u_0 = 0, and m_-(x) = m_+(-x). At height v above x, e^{u_j} turns by the angle j theta, where theta is the slope of u_1 times
   v, and j <= k. If k theta < pi / 2, then m(x) cos(k theta / 2) <= |m(x + i v)| <= m(x), and |arg m| is at most k theta and at most
   sin(k theta) (m(x) - w_0) / w_0. Beyond the last panels, f falls at least as fast as the exponential with the slope of log f there.
6. One big run. The plan of a part may have a cut c: a run of this part is big if x > c, and its loss is then at least l, the loss at
   c. If no run is big, delta is the integral of item 2 with M restricted to x < c. Let B be the event that some run is big. It adds
   P(B) - e^eps Q(B) and an error, the integral of (e^eps Q - P)+ over B. As (e^eps - e^L)+ <= e^{(1+v) eps} e^{-v L} for every v >= 0,
   the error is between 0 and e^{(1+v) eps} [PROD (N_i + R_i)^{n_i} - PROD N_i^{n_i}], where N_i = E_Q[e^{-v L_i}; not big] and
   R_i = e^{-v l_i} Q_i(big). An infinite loss is in neither case; its mass under P is added to delta.
7. Pad. Let f(x) = (1 - e^{-x})+ and F(x) = E f(x + Y), where Y = N(m^2/2, m^2). By the heat equation (the vega of Black and Scholes
   1973), e^{x/2} (F(x) - f(x)) = INT e^{-x^2 / (2 s) - s/8} ds / sqrt(8 pi s) over 0 < s < m^2. This is at least 0, so delta(eps) <=
   E_P F(L - eps), which is item 2 with M(z) e^{m^2 z (z+1) / 2} for M(z): now all frequencies decay. It is at most e^{x/2} b(x) =
   e^{-x^2 / (2 m^2)} m / sqrt(2 pi), so delta(eps) >= E_P F(L - eps) - E_P b(L - eps). The transform of b is a Gaussian, so by the
   sum of item 2, E_P b(L - eps) <= m^2 e^{m^2/8} (h / 2 pi) SUM_k G(k h) z (z+1) with the padded G. The frequencies left out of this
   sum add at most m^2 e^{m^2/8} M(t) e^{-t eps} m^{-1} sqrt(2 / pi) P(N(0, 1) > m h N).
"""

from __future__ import annotations

import json
import re
import sys
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Any, NamedTuple

from flint import acb, acb_mat, arb, arb_poly, ctx, fmpq

Json = dict[str, Any]
# Most nodes, frequencies or terms of one proof. It limits time and memory, as do other sizes below: none of them makes a proof false.
MOST_TERMS = 2_000_000


class Unproved(Exception):
    """Raised if a condition of a proof does not hold, or if the balls are too wide to show it."""


def demand(condition: bool, what: str) -> None:
    """Raise Unproved unless the condition holds. what: the condition in words."""
    if not condition:
        raise Unproved(what)


def number(text: str | int | Fraction) -> arb:
    """Return the ball of a decimal number or a fraction, which is read exactly."""
    # Checked before Fraction reads the text, because it would write out a power of 10 of any size.
    demand(
        len(str(text)) <= 10_000 and abs(int(str(text).lower().partition("e")[2] or 0)) <= 1000,
        "a number of at most 10,000 digits and an exponent of at most 1000",
    )
    value = Fraction(text)
    return arb(fmpq(value.numerator, value.denominator))


def log_ratio_power(s: arb) -> arb:
    """Return log(s^s / (1+s)^{1+s}); 0 at s = 0."""
    return arb(0) if s == 0 else s * s.log() - (1 + s) * (1 + s).log()


def normal_tail(x: arb) -> arb:
    """Return P(N(0, 1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


class BigRun(NamedTuple):
    """Masses of one run in item 6.

    finite_p, finite_q: P and Q of all finite losses. big_p, big_q: P and Q of a big run. small, big: the terms N and R of the error.
    """

    finite_p: arb
    finite_q: arb
    big_p: arb
    big_q: arb
    small: arb
    big: arb


class AtomicPart:
    """A part with finitely many losses.

    pairs: P and Q of each outcome. infinite_mass: P's mass at an infinite loss, and a bound on its mass beyond the pairs.
    atoms: P and the loss of each outcome. sampled: whether there is a sampling rate.

    Kinds: "two-point" is any (epsilon, delta)-DP mechanism, and randomised response if it states `categories`. "discrete-laplace" and
    "discrete-gaussian" are noise of mass e^{-|x| / scale} or e^{-x^2 / (2 sigma^2)} on an integer that moves by `sensitivity`.

    Sampling at rate q: let S = (1-q) Q + q P. The pair is (S, Q) if the record is removed. If it is added, P and Q are exchanged first,
    and the pair is (Q, S). If it is replaced, the pair is (S, Q) where the loss is above 0, the mirror image of that where it is below
    0, and the remaining mass at loss 0 (Balle, Barthe, Gaboardi 2018, arXiv:1807.01647, Theorem 2, for both versions of the record, and
    convexity). P and Q must then be mirror images, with the outcomes in the order of their losses.

    There is no integral, so the methods do not use the plan that those of `SmoothPart` need.
    """

    def __init__(self, part: Json, direction: str) -> None:
        # infinite: mass of P where Q is 0, and of Q where P is 0. outside: a bound on the mass beyond the pairs.
        self.pairs, infinite, outside = READ_PAIRS[part["kind"]](part)
        self.sampled = "rate" in part
        self.infinite_mass = infinite + outside
        if self.sampled:
            rate = number(part["rate"])
            demand(rate > 0 and rate < 1, "a rate between 0 and 1")
            if part.get("relation", "add-remove") == "replace-one":
                self.infinite_mass = rate * infinite + outside
                upper_half = self.pairs[len(self.pairs) - len(self.pairs) // 2 :]  # losses above 0
                above = [((1 - rate) * q + rate * p, q) for p, q in upper_half]
                demand(all(p > q for p, q in above), "outcomes in the order of their losses")
                at_zero = 1 - sum((p + q for p, q in above), rate * infinite) - arb(0).union(2 * outside)
                self.pairs = [*((q, p) for p, q in above), (at_zero, at_zero), *above]
            elif direction == "remove":
                self.pairs = [((1 - rate) * q + rate * p, q) for p, q in [*self.pairs, (arb(0), infinite)]]
                self.infinite_mass = rate * infinite + outside
            else:  # S contains (1 - rate) P, so the outcome of mass (infinite, 0) has a finite loss
                self.pairs = [(p, (1 - rate) * p + rate * q) for p, q in [*self.pairs, (infinite, arb(0))]]
                self.infinite_mass = outside
        self.atoms = [(p, (p / q).log()) for p, q in self.pairs if not (q.is_zero() or p.is_zero())]

    def big_run(self, v: arb, plan: Json) -> BigRun:
        """Return the masses of item 6. No run of this part is big. E_Q[e^{-v L}] is M(-1 - v)."""
        return BigRun(self.moment(arb(0), plan), self.moment(arb(-1), plan), arb(0), arb(0), self.moment(-1 - v, plan), arb(0))

    def moment(self, z: arb, plan: Json) -> arb:
        """Return M(z) without infinite losses."""
        return sum((p * (z * loss).exp() for p, loss in self.atoms), arb(0))

    def moments_on_line(self, t: arb, h: arb, count: int, plan: Json) -> list[acb]:
        """Return M(t + i k h) for k = 0, ..., count."""
        return sums_on_line([(p * (t * loss).exp(), loss) for p, loss in self.atoms], h, count)

    def decay_bound(self, t: arb, y: arb, plan: Json) -> arb:
        """Return a bound on |M(t + i v)| / M(t) for all v >= y: it does not decay."""
        return arb(1)


class ClosedPart:
    """A part without sampling whose M(z) has a closed form.

    Kinds: "gaussian" has a normal loss of mean mu^2 / 2. "laplace" is Laplace noise of largest loss e0, with the density of `SmoothPart`.
    "range" is a choice of bounded range e0, whose loss x has the density e^{(e0 + x)/2} / (2 (e^e0 - 1)) under P.

    e0: the largest loss; mu^2 for kind "gaussian".
    """

    infinite_mass = arb(0)

    def __init__(self, part: Json, direction: str) -> None:
        self.form = part["kind"]
        self.e0 = number(part["epsilon"] if self.form != "gaussian" else part["mu_squared"])
        demand(self.e0 > 0, "some loss")

    big_run = AtomicPart.big_run  # no run is big

    def moment(self, z: Any, plan: Json) -> Any:
        """Return M(z) at a real or complex z."""
        e = self.e0
        if self.form == "gaussian":
            return (e * z * (z + 1) / 2).exp()
        if self.form == "laplace":
            return ((z + 1) * (z * e).exp() + z * (-(z + 1) * e).exp()) / (2 * z + 1)
        half = z + arb(1) / 2
        return ((half * e).exp() - (-half * e).exp()) * (e / 2).exp() / (2 * half * e.expm1())

    def moments_on_line(self, t: arb, h: arb, count: int, plan: Json) -> list[acb]:
        return [self.moment(acb(t, k * h), plan) for k in range(count + 1)]

    def decay_bound(self, t: arb, y: arb, plan: Json) -> arb:
        """Return a bound on |M(t + i v)| / M(t) for all v >= y.

        It falls in y, because |z+1| / |2z+1| falls to 1/2, |z| / |2z+1| rises to 1/2, and |sinh w| <= cosh Re w.
        """
        e = self.e0
        if self.form == "gaussian":
            return (-e * y * y / 2).exp()
        z = acb(t, y)
        if self.form == "laplace":
            size = (abs(z + 1) / abs(2 * z + 1)) * (t * e).exp() + (-(t + 1) * e).exp() / 2
        else:
            half = t + arb(1) / 2
            size = ((half * e).exp() + (-half * e).exp()) * (e / 2).exp() / (abs(2 * z + 1) * e.expm1())
        ratio: arb = size / self.moment(t, plan)
        return ratio.min(arb(1))


class RenyiPart:
    """A part of which only rho-zCDP is known: M(z) <= e^{rho z (z+1)} for z >= 0. It allows Chernoff's bound only."""

    infinite_mass = arb(0)

    def __init__(self, part: Json, direction: str) -> None:
        self.rho = number(part["rho"])
        demand(self.rho > 0, "a rho above 0")

    def moment(self, z: arb, plan: Json) -> arb:
        demand(z >= 0, "an order of at least 0")
        return (self.rho * z * (z + 1)).exp()


class SmoothPart:
    """A sampled part with a density f(x) = base(x) m_+(x)^a m_-(x)^b (item 5), and perhaps atoms.

    Kinds:
    - "mixture": P = SUM w_j N(j mu, 1) with Binomial(records, rate) weights, and Q = N(0, 1). Under "replace-one", Q is the mirror image
      of P (`two_sided`).
    - "laplace": Laplace noise of largest loss e0. x is the loss without sampling, which has the density e^{-(x + e0)/2} / 4 under Q and
      atoms at both ends.
    - "range": a choice of bounded range e0. x is the loss without sampling, of density e^{(e0 - x)/2} / (2 (e^e0 - 1)) under Q.

    Direction "add" exchanges P and Q; the loss is then that of side -1.

    "laplace" under "replace-one" has both sides (`split_at_zero`). The noise y has the density (1-q) e^{-|y|} / 2 + q e^{-|y - e0|} / 2
    under P, and its mirror image under Q. Their ratio at y = (x + e0) / 2 > 0 is m(x) / m(-e0). There Q has m(-e0) times the density
    above, and no atom at x = -e0. At y < 0, P and Q are exchanged.

    form: the kind. normal: whether it is "mixture". has_atoms: whether it is "laplace". records, rate, weights: k, q and the w_j.
    e0: the largest loss without sampling, also exact (`largest`); 0 for "mixture". slope: the slope of u_1, mu for "mixture" and else 1.
    log_scale: log m(-e0) for "laplace" under "replace-one", else 0. sides: the sides of the loss over which sums and integrals run.
    """

    infinite_mass = arb(0)

    def __init__(self, part: Json, direction: str) -> None:
        self.form = part["kind"]
        self.normal, self.has_atoms = self.form == "mixture", self.form == "laplace"
        self.records = int(part.get("records", 1))
        demand(0 < self.records <= 1000, "1 to 1,000 records")
        self.rate = number(part["rate"])
        demand(self.rate > 0 and self.rate < 1, "a rate between 0 and 1")
        demand(self.normal or self.records == 1, "one record")
        replaced = part.get("relation", "add-remove") == "replace-one"
        demand(self.normal or self.has_atoms or not replaced, "a record that is added or removed")
        self.two_sided, self.split_at_zero = replaced and self.normal, replaced and self.has_atoms
        self.sides: tuple[int, ...] = (-1,) if direction == "add" and not replaced else (1,)
        if self.split_at_zero:
            self.sides = (1, -1)
        k, q = self.records, self.rate
        self.weights = [comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
        self.largest = Fraction(part.get("epsilon", 0))
        self.e0 = number(self.largest)
        self.slope = number(part["mu_squared"]).sqrt() if self.normal else arb(1)
        demand(self.slope > 0 and (self.normal or self.e0 > 0), "some loss")
        self.log_scale = self.log_m(-self.e0) if self.split_at_zero else arb(0)

    # Functions of a real x, or of a ball of them.

    def sums(self, x: arb) -> tuple[arb, arb, arb]:
        """Return SUM w_j j^i e^{u_j(x)} for i = 0, 1, 2."""
        terms = []
        for j, weight in enumerate(self.weights):
            u = j * self.slope * x - (j * self.slope) ** 2 / 2 if self.normal else j * x
            terms.append(weight * u.exp())
        return tuple(sum((j**i * term for j, term in enumerate(terms)), arb(0)) for i in range(3))  # type: ignore[return-value]

    def log_m(self, x: arb) -> arb:
        """Return log m_+(x)."""
        return self.sums(x)[0].log()

    def drift(self, x: arb) -> arb:
        """Return the slope of log m_+ at x, which increases in x."""
        zeroth, first, _ = self.sums(x)
        return self.slope * first / zeroth

    def log_base(self, x: arb) -> arb:
        """Return the log density of x without sampling, under Q."""
        if self.normal:
            return -x * x / 2 - (2 * arb.pi()).log() / 2
        return -(x + self.e0) / 2 - arb(4).log() if self.has_atoms else (self.e0 - x) / 2 - (2 * self.e0.expm1()).log()

    def powers(self, z: arb, side: int) -> tuple[arb, arb]:
        """Return the exponents (a, b) of m_+ and m_- in dP e^{z L}."""
        if self.two_sided:
            return z + 1, -z
        return (z + 1 if side > 0 else -z), arb(0)

    def loss(self, x: arb, side: int) -> arb:
        """Return the loss L at x, on one side."""
        return self.log_m(x) - self.log_m(-x) if self.two_sided else side * (self.log_m(x) - self.log_scale)

    def log_f(self, x: arb, z: arb, side: int) -> arb:
        """Return the log density of dP e^{z L} at x, without the atoms."""
        a, b = self.powers(z, side)
        return self.log_base(x) + a * self.log_m(x) + (b * self.log_m(-x) if self.two_sided else (1 - a) * self.log_scale)

    # Sums and integrals.

    def panels(self, plan: Json) -> list[tuple[arb, arb, arb]]:
        """Return (left, right, r) of each panel; r belongs to the ellipse around it."""
        order, left, result = int(plan["order"]), number(plan["low"]) if self.normal else -self.e0, []
        demand(1 < order <= 200 and order * len(plan["panels"]) <= MOST_TERMS, "a rule of 2 to 200 nodes")
        for edge, ellipse in plan["panels"]:
            right, r = number(edge), number(ellipse)
            demand(left < right and r > 1, "panels in order")
            result.append((left, right, r))
            left = right
        if not self.normal:  # the last panel ends at the largest loss, which a decimal of the plan need not meet
            last_left, _, last_r = result[-1]
            result[-1] = last_left, self.e0, last_r
            demand(last_left < self.e0, "panels up to the largest loss")
        if "cut" in plan:
            demand(self.normal and self.sides == (1,), "a cut of a normal mixture whose record is removed or replaced")
            number(plan["cut"])  # refuses a text that is too long
            demand(Fraction(plan["cut"]) == Fraction(plan["panels"][-1][0]), "a cut where the panels end")
        return result

    def nodes(self, z: arb, plan: Json) -> list[tuple[arb, arb]]:
        """Return (weight, loss) of the atoms and of the nodes, whose sum of weight e^{i y loss} is M(z + i y) up to `error`."""
        panels, order, result = self.panels(plan), int(plan["order"]), []
        rule = [arb.legendre_p_root(order, i, True) for i in range(order)]
        for left, right, _ in panels:
            half, middle = (right - left) / 2, (right + left) / 2
            for node, weight in rule:
                x = middle + half * node
                result += [(half * weight * self.log_f(x, z, side).exp(), self.loss(x, side)) for side in self.sides]
        if self.has_atoms:
            atoms = [] if self.split_at_zero else [(arb(1) / 2, -self.e0)]  # mass under Q, and x
            for mass, x in [*atoms, ((-self.e0).exp() / 2, self.e0)]:
                for side in self.sides:
                    log_ratio = self.log_f(x, z, side) - self.log_base(x)
                    result.append((mass * log_ratio.exp(), self.loss(x, side)))
        return result

    def error(self, z: arb, y: arb, plan: Json) -> arb:
        """Return a bound on the error of `nodes` at orders z + i v, |v| <= y: that of the rule, and what lies beyond the panels."""
        return sum((self.side_error(z, y, plan, side) for side in self.sides), arb(0))

    def side_error(self, z: arb, y: arb, plan: Json, side: int) -> arb:
        """Return the part of `error` that one side contributes."""
        panels, order = self.panels(plan), int(plan["order"])
        a, b = self.powers(z, side)
        total = arb(0)
        for left, right, r in panels:
            d, middle = (right - left) / 2, (right + left) / 2
            half_width, height = d * (r + 1 / r) / 2, d * (r - 1 / r) / 2
            low_x, high_x, turn = middle - half_width, middle + half_width, self.records * self.slope * height
            demand(turn < arb.pi() / 2, "an ellipse on which m is not 0")
            if self.normal:
                peak = low_x if low_x > 0 else high_x if high_x < 0 else arb(0)  # the density is largest nearest to 0
                log_size = self.log_base(peak) + height * height / 2
            else:
                log_size = self.log_base(low_x) + (1 - a) * self.log_scale
            log_cosine = (turn / 2).cos().log()
            angle = arb(0)
            factors = [(a, low_x, high_x), *([(b, -high_x, -low_x)] if self.two_sided else [])]  # m_+^a and m_-^b
            for exponent, smallest, largest in factors:
                demand(exponent >= 0 or exponent <= 0, "an exponent whose sign is known")
                log_size += exponent * (self.log_m(largest) if exponent >= 0 else self.log_m(smallest) + log_cosine)
                sine_bound = (self.sums(largest)[0] / self.weights[0] - 1) * turn.sin()
                angle += sine_bound.min(turn)
            # At the order z + i v, |f| has the further factor |e^{i v L}| <= e^{y angle}.
            total += 8 * d * (log_size + y * angle).exp() * r ** (-2 * order) / (1 - 1 / r)
        if self.normal:
            total += self.outside(panels[0][0], -1, z)
            if "cut" not in plan:
                total += self.outside(panels[-1][1], 1, z)
        return total

    def outside(self, x: arb, side: int, z: arb) -> arb:
        """Return a bound on the integral of f beyond x, to the right (side 1) or to the left (side -1)."""
        a, b = self.powers(z, self.sides[0])
        largest_slope = self.records * self.slope
        rising, falling = (a, b) if side > 0 else (b, a)  # exponents of the factor that rises away from 0, and of the other
        fall = side * x - rising.max(arb(0)) * largest_slope - (-falling).max(arb(0)) * self.drift(-side * x)
        demand(fall > 0, "panels that reach to where the integrand falls")
        return self.log_f(x, z, self.sides[0]).exp() / fall

    def moment(self, z: arb, plan: Json) -> arb:
        """Return M(z) of a run that is not big."""
        error = self.error(z, arb(0), plan)
        return sum((weight for weight, _ in self.nodes(z, plan)), arb(0)) + arb(0, error.upper())

    def moments_on_line(self, t: arb, h: arb, count: int, plan: Json) -> list[acb]:
        error = arb(0, self.error(t, h * count, plan).upper())
        # At k = 0 the value is real, and so is its error.
        return [value + acb(error, error if k else 0) for k, value in enumerate(sums_on_line(self.nodes(t, plan), h, count))]

    def decay_bound(self, t: arb, y: arb, plan: Json) -> arb:
        """Return the bound of item 4 on |M(t + i v)| / M(t) for all v >= y."""
        low, high, count = number(plan["first"]), number(plan["last"]), int(plan["cells"])
        cap = number(plan["cap"])  # of the step function; a lower cap makes its variation smaller
        demand(0 < count <= MOST_TERMS and low < high and cap > 0, "cells in order")
        if not self.normal:
            demand(max(-Fraction(plan["first"]), Fraction(plan["last"])) <= self.largest, "cells where there is a density")
        if "cut" in plan:
            demand(Fraction(plan["last"]) <= Fraction(plan["cut"]), "cells below the cut")
        log_total = self.moment(t, plan).log()
        xs = [low + (high - low) * i / count for i in range(count + 1)]
        return (1 + sum((self.side_decay(t, y, cap, xs, side, log_total) for side in self.sides), arb(0))).min(arb(1))

    def side_decay(self, t: arb, y: arb, cap: arb, xs: list[arb], side: int, log_total: arb) -> arb:
        """Return Var(rho) / y - INT rho of item 4 for the losses of one side, which differ from those of the other side.

        xs: the ends of the cells. log_total: log M(t).
        """
        a, b = self.powers(t, side)
        log_densities = [self.log_f(x, t, side) - self.speed(x).log() - log_total for x in xs]  # of the loss
        losses = [self.loss(x, side) for x in xs]
        heights, integral = [arb(0)], arb(0)
        for k, (left, right) in enumerate(pairwise(xs)):
            cell = left.union(right)
            slope = (-cell if self.normal else arb(-1) / 2) + a * self.drift(cell) - self.log_speed_slope(cell)
            if self.two_sided:
                slope -= b * self.drift(-cell)
            least = log_densities[k].min(log_densities[k + 1])
            if not (slope > 0 or slope < 0):  # the least value may lie inside the cell, at most half of its length from an end
                least -= slope.abs_upper() * (right - left) / 2
            height = least.exp().lower().min(cap.lower())
            integral += height * abs(losses[k + 1] - losses[k])
            heights.append(height)
        heights.append(arb(0))
        variation = sum((abs(after - before) for before, after in pairwise(heights)), arb(0))
        return variation / y - integral

    def speed(self, x: arb) -> arb:
        """Return |L'|, the absolute slope of the loss."""
        return self.drift(x) + (self.drift(-x) if self.two_sided else 0)

    def log_speed_slope(self, x: arb) -> arb:
        """Return (log |L'|)'."""
        zeroth, first, second = self.sums(x)
        bend = self.slope * (second / first - first / zeroth)
        if not self.two_sided:
            return bend
        mirrored_zeroth, mirrored_first, mirrored_second = self.sums(-x)
        mean, mirrored_mean = first / zeroth, mirrored_first / mirrored_zeroth
        variance = second / zeroth - mean * mean
        mirrored_variance = mirrored_second / mirrored_zeroth - mirrored_mean * mirrored_mean
        return self.slope * (variance - mirrored_variance) / (mean + mirrored_mean)

    def big_run(self, v: arb, plan: Json) -> BigRun:
        """Return the masses of item 6. All losses are finite, so P and Q of the finite ones are 1."""
        if "cut" not in plan:
            return BigRun(arb(1), arb(1), arb(0), arb(0), self.moment(-1 - v, plan), arb(0))
        cut = number(plan["cut"])
        p, q = (sum((w * normal_tail(cut - side * j * self.slope) for j, w in enumerate(self.weights)), arb(0)) for side in (1, -1))
        if not self.two_sided:
            q = normal_tail(cut)
        return BigRun(arb(1), arb(1), p, q, self.moment(-1 - v, plan), (-v * self.loss(cut, 1)).exp() * q)


def sums_on_line(nodes: list[tuple[arb, arb]], h: arb, count: int) -> list[acb]:
    """Return SUM weight e^{i k h loss} over the nodes (weight, loss), for k = 0, ..., count.

    They are one product of matrices: with k = a width + b, each term is a factor that depends on a times one that depends on b.
    """
    width = int(count**0.5) + 1
    rows = -(-(count + 1) // width)
    demand(width * len(nodes) <= 10 * MOST_TERMS, "few enough nodes and frequencies")

    def phases(step: arb, size: int) -> list[list[acb]]:
        return [[acb(0, k * step * loss).exp() for _, loss in nodes] for k in range(size)]

    coarse = acb_mat(phases(h * width, rows))
    fine = acb_mat([[weight * z for (weight, _), z in zip(nodes, row, strict=True)] for row in phases(h, width)])
    table = (coarse * fine.transpose()).tolist()
    return [value for row in table for value in row][: count + 1]


def two_points(part: Json) -> tuple[list[tuple[arb, arb]], arb, arb]:
    """Return the (P, Q) of each answer, P's mass at an infinite loss, and a bound on the mass that is left out."""
    # others: number of categories whose probability is the same under P and Q; they are one answer below
    e, lost, others = number(part["epsilon"]), number(part.get("delta", 0)), int(part.get("categories", 2)) - 2
    demand(e >= 0 and others >= 0 and lost >= 0 and lost < 1, "an epsilon of at least 0 and a delta below 1")
    if Fraction(part["epsilon"]) == 0:
        return [(1 - lost, 1 - lost)], lost, arb(0)
    high = (1 - lost) / (1 + (1 + others) * (-e).exp())
    low = high * (-e).exp()
    middle = [(others * low, others * low)] if others else []
    return [(low, high), *middle, (high, low)], lost, arb(0)


def discrete_laplace(part: Json) -> tuple[list[tuple[arb, arb]], arb, arb]:
    """Return (P, Q) of each answer, and twice 0: no loss is infinite, and no mass is left out.

    The outcomes below 0 have one loss and are one answer; so are those from the sensitivity on.
    """
    a, s = 1 / number(part["scale"]), int(part["sensitivity"])
    demand(a > 0 and 0 < s <= 10_000, "a sensitivity of 1 to 10,000")
    r = (-a).exp()
    ends, middle = 1 / (1 + r), (1 - r) / (1 + r)
    q = [ends, *(middle * r**x for x in range(1, s)), ends * r**s]
    return list(zip(q[::-1], q, strict=True)), arb(0), arb(0)


def discrete_gaussian(part: Json) -> tuple[list[tuple[arb, arb]], arb, arb]:
    """Return (P, Q) of each x from -reach to reach + sensitivity, 0 as no loss is infinite, and a bound on the mass beyond.

    The bound is a geometric sum.
    """
    variance, s, reach = number(part["sigma_squared"]), int(part["sensitivity"]), int(part["reach"])
    demand(variance > 0 and s > 0 and reach > 0 and s + reach <= 200_000, "a reach of at most 200,000")
    size = [(-(arb(x) ** 2) / (2 * variance)).exp() for x in range(reach + s + 1)]
    beyond = (-(arb(reach + 1) ** 2) / (2 * variance)).exp() / (1 - (-arb(reach + 1) / variance).exp())  # on one side
    total = 1 + 2 * sum(size[1 : reach + 1], arb(0)) + arb(0).union(2 * beyond)
    q_masses = [size[abs(x)] / total for x in range(-reach, reach + s + 1)]
    return list(zip(q_masses[::-1], q_masses, strict=True)), arb(0), arb(0).union(2 * beyond / total)


READ_PAIRS = {"two-point": two_points, "discrete-laplace": discrete_laplace, "discrete-gaussian": discrete_gaussian}


def read_part(part: Json, direction: str) -> Any:
    """Return a part of the certificate in one direction, as the class that can compute it."""
    if part["kind"] in READ_PAIRS:
        return AtomicPart(part, direction)
    if part["kind"] == "zcdp":
        return RenyiPart(part, direction)
    return (SmoothPart if "rate" in part else ClosedPart)(part, direction)


def power(value: acb, scale: arb, count: int) -> acb:
    """Return (value / scale)^count, where |value| <= scale. As count is an integer, the branch of the logarithm does not matter."""
    ratio = value / scale
    if ratio.contains(acb(0)):  # it has no logarithm; a ball around 0 contains all its powers
        size = ratio.abs_upper().min(arb(1)) ** count
        ball = arb(0, size.upper())
        return acb(ball, ball)
    return (count * ratio.log()).exp()


KEYS_OF_KIND: dict[str, tuple[set[str], set[str]]] = {  # keys that a part of each kind must and may have
    "gaussian": ({"mu_squared"}, set()),
    "zcdp": ({"rho"}, set()),
    "mixture": ({"mu_squared", "rate"}, {"records", "relation"}),
    "laplace": ({"epsilon"}, {"rate", "relation"}),
    "range": ({"epsilon"}, {"rate"}),
    "two-point": ({"epsilon"}, {"delta", "categories", "rate", "relation"}),
    "discrete-laplace": ({"scale", "sensitivity"}, {"rate", "relation"}),
    "discrete-gaussian": ({"sigma_squared", "sensitivity", "reach"}, {"rate", "relation"}),
}


def is_decimal(text: Any) -> bool:
    """Return whether a text is a decimal or a fraction in ASCII digits, so that it reads as it is evaluated."""
    return type(text) is str and re.fullmatch(r"[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?(/[0-9]+)?", text, re.ASCII) is not None


def demand_well_formed(part: Json) -> None:
    """Demand that a part has the keys of its kind and no others, with values of the right type and range."""
    demand(part["kind"] in KEYS_OF_KIND, "a kind that is known")
    needed, optional = KEYS_OF_KIND[part["kind"]]
    keys = set(part) - {"kind"}
    demand(
        needed | {"count"} <= keys <= needed | optional | {"count"},
        f"{part['kind']}: no other keys than {sorted(needed | optional)}",
    )
    for key in keys & {"count", "records", "categories", "sensitivity", "reach"}:
        demand(type(part[key]) is int and part[key] >= 1, f"{key}: a whole number of at least 1")
    for key in keys & {"mu_squared", "rho", "scale", "sigma_squared", "rate", "epsilon", "delta"}:
        demand(is_decimal(part[key]), f"{key}: a decimal or a fraction in quotes")
        number(part[key])
        demand(Fraction(part[key]) > 0 or (key in ("epsilon", "delta") and Fraction(part[key]) == 0), f"{key}: above 0")
    demand(Fraction(part.get("rate", "1/2")) < 1 and Fraction(part.get("delta", "0")) < 1, "a rate and a delta below 1")
    demand("rate" in part or "relation" not in part, "a relation only with a rate")
    demand(not ("categories" in part and "delta" in part), "randomised response without a delta")
    demand(part.get("categories", 2) >= 2, "at least two categories")
    demand(part.get("relation", "add-remove") in ("add-remove", "replace-one"), "relation: add-remove or replace-one")


class CheckedParts:
    """The composition of parts in one direction. items: each part with its count and its plan."""

    def __init__(self, parts: list[Json], direction: str, plans: list[Json]) -> None:
        demand(len(parts) == len(plans), "a plan for each part")
        self.items = [(read_part(part, direction), int(part["count"]), plan) for part, plan in zip(parts, plans, strict=True)]
        demand(all(count >= 1 for _, count, _ in self.items), "counts of at least 1")

    def infinite_mass(self) -> arb:
        """Return the mass of P at an infinite loss of some run."""
        return -sum((n * (-part.infinite_mass).log1p() for part, n, _ in self.items), arb(0)).expm1()

    def log_moment(self, s: arb) -> arb:
        """Return log M(s) of all runs."""
        return sum((n * part.moment(s, plan).log() for part, n, plan in self.items), arb(0))

    def chernoff(self, epsilon: arb, s: arb) -> arb:
        """Return C(s) of item 1."""
        demand(s >= 0, "an order of at least 0")
        return arb(1) if s == 0 else (self.log_moment(s) - s * epsilon + log_ratio_power(s)).exp()

    def contour(self, epsilon: arb, plan: Json) -> tuple[arb, arb]:
        """Return bounds on delta if no run is big, by items 2, 3 and 7. Without s1 and s2 in the plan, the lower one is -inf."""
        t, h, count = number(plan["t"]), number(plan["h"]), int(plan["frequencies"])
        demand(t > 0 and h > 0 and 0 < count <= MOST_TERMS, "a line to the right of 0")
        pad = number(plan.get("pad", 0))  # m^2 of item 7
        demand(pad >= 0, "a pad of at least 0")
        half = pad / 2
        values, log_scale = self.scaled_moments(t, h, count)
        total = density = arb(0)  # sums of G and of G z (z+1), both of them over `size`
        # `padded` is M(z) e^{pad z (z+1) / 2 - z eps} over `size`. The factor of 2 counts the frequency -k, whose terms are conjugate.
        for k, value in enumerate(values):
            y = k * h
            padded = value * acb(-half * y * y, y * (half * (2 * t + 1) - epsilon)).exp() * (1 if k == 0 else 2)
            z = acb(t, y)
            total += (padded / (z * (z + 1))).real
            density += padded.real
        size = (log_scale - t * epsilon + half * t * (t + 1)).exp()
        total *= size * h / (2 * arb.pi())
        y = (count + 1) * h
        decay = (-half * y * y).exp()
        for part, n, part_plan in self.items:
            decay *= part.decay_bound(t, y, part_plan) ** n
        beyond = size * decay / (arb.pi() * h * count)  # item 3
        upper, lower = total + beyond, arb("-inf")
        if "s1" in plan:
            first, second = number(plan["s1"]), number(plan["s2"])
            demand(first >= 0 and first < t and t < second, "orders on both sides of t")
            lower = total - beyond
            for s in (first, second):
                r = (-2 * arb.pi() * abs(t - s) / h).exp()
                lower -= (half * s * (s + 1)).exp() * self.chernoff(epsilon, s) * r / (1 - r)
            if not pad.is_zero():
                left_out = size * (2 / (pad * arb.pi())).sqrt() * normal_tail(pad.sqrt() * h * count)
                lower -= pad * (pad / 8).exp() * (density * size * h / (2 * arb.pi()) + left_out)
        return lower, upper

    def scaled_moments(self, t: arb, h: arb, count: int) -> tuple[list[acb], arb]:
        """Return M(t + i k h) / e^log_scale for k = 0, ..., count, and log_scale, which is about log M(t)."""
        values, log_scale = [acb(1)] * (count + 1), arb(0)
        for part, n, plan in self.items:
            scale = part.moment(t, plan).upper()
            log_scale += n * scale.log()
            moments = part.moments_on_line(t, h, count, plan)
            values = [value * power(moment, scale, n) for value, moment in zip(values, moments, strict=True)]
        return values, log_scale

    def delta_if_big(self, epsilon: arb, v: arb) -> tuple[arb, arb]:
        """Return bounds on what some big run adds to delta, by item 6."""
        demand(v >= 0, "an order of at least 0")
        log_finite_p = log_finite_q = log_none_big_p = log_none_big_q = log_small = log_growth = arb(0)
        for part, n, plan in self.items:
            run = part.big_run(v, plan)
            log_finite_p += n * run.finite_p.log()
            log_finite_q += n * run.finite_q.log()
            log_none_big_p += n * (-run.big_p).log1p()
            log_none_big_q += n * (-run.big_q).log1p()
            log_small += n * run.small.log()
            log_growth += n * (run.big / run.small).log1p()
        exact = -log_finite_p.exp() * log_none_big_p.expm1() + (epsilon + log_finite_q).exp() * log_none_big_q.expm1()
        error = ((1 + v) * epsilon + log_small).exp() * log_growth.expm1()
        return exact, exact + error


def two_point_sum(parts: list[Json], direction: str, epsilon: arb) -> tuple[arb, arb]:
    """Return bounds on delta of one part with two losses: a binomial sum over the number of runs with the larger loss."""
    demand(len(parts) == 1, "one part")
    part, n = AtomicPart(parts[0], direction), int(parts[0]["count"])
    demand(len(part.atoms) == 2 and n <= 10**15, "two losses")
    (p_low, low), (p_high, high) = sorted(part.atoms, key=lambda atom: float(atom[1].mid()))
    demand(low < high, "two losses")
    # With this many runs of the larger loss, or fewer, the loss does not exceed epsilon. One term too many at the start adds 0.
    position = ((epsilon - n * low) / (high - low)).lower().floor().unique_fmpz()
    demand(position is not None, "a ball that determines the first term")
    first = max(int(position or 0), 0)
    log_term = (
        arb(n + 1).lgamma()
        - arb(first + 1).lgamma()
        - arb(n - first + 1).lgamma()
        + first * p_high.log()
        + (n - first) * p_low.log()
    )
    term, total, k = log_term.exp(), arb(0), first  # term: probability of k runs with the larger loss
    while k <= n:
        gain = 1 - (epsilon - k * high - (n - k) * low).exp()
        total += term * gain.max(arb(0))
        ratio = (n - k) * p_high / ((k + 1) * p_low)
        k += 1
        term *= ratio
        # The sum ends once the rest is small compared with it. Where it ends affects the work and the width of the ball alone.
        if ratio < arb("0.99") and term / (1 - ratio) < total * arb(2) ** -(ctx.prec // 2):
            total += arb(0).union(term / (1 - ratio))  # the ratios fall, so a geometric sum bounds the rest
            break
        demand(k - first < MOST_TERMS, "few enough terms")
    return total, total


def lattice_sum(parts: list[Json], direction: str, epsilon: arb) -> tuple[arb, arb]:
    """Return bounds on delta of one part without sampling whose losses are evenly spaced, such as -e, 0 and e of randomised response.

    The masses of the losses are the coefficients of a polynomial. Those of the sum of n losses are the coefficients of its n-th power.
    """
    demand(len(parts) == 1, "one part")
    part, n = AtomicPart(parts[0], direction), int(parts[0]["count"])
    demand(not part.sampled or n == 1, "no sampling, or one run")
    if n == 1:  # the spacing matters only if losses are added up
        total = sum((p * (1 - (epsilon - loss).exp()).max(arb(0)) for p, loss in part.atoms), arb(0))
        return total, total
    losses = [loss for _, loss in part.atoms]
    step = losses[1] - losses[0]
    demand(step > 0 and all((later - loss).overlaps(step) for loss, later in pairwise(losses)), "evenly spaced losses")
    demand(n * len(losses) <= MOST_TERMS // 4, "few enough losses")
    coefficients = (arb_poly([p for p, _ in part.atoms]) ** n).coeffs()
    total = arb(0)
    for k, mass in enumerate(coefficients):
        total += mass * (1 - (epsilon - n * losses[0] - k * step).exp()).max(arb(0))
    return total, total


def gaussian(parts: list[Json], epsilon: arb) -> tuple[arb, arb]:
    """Return delta of Gaussian losses alone: P(N > a) - e^eps P(N > b), a = eps/mu - mu/2, b = eps/mu + mu/2."""
    demand(all(part["kind"] == "gaussian" for part in parts), "Gaussian parts alone")
    mu = sum((int(part["count"]) * number(part["mu_squared"]) for part in parts), arb(0)).sqrt()
    value = normal_tail(epsilon / mu - mu / 2) - epsilon.exp() * normal_tail(epsilon / mu + mu / 2)
    return value, value


def one_step(parts: list[Json], direction: str, epsilon: arb) -> tuple[arb, arb]:
    """Return delta of a single run of Gaussian, Laplace or range noise, perhaps on a sample of one record.

    The loss is monotone, so it exceeds epsilon exactly where the loss g without sampling is above a level, or below it on side -1. delta
    is P minus e^epsilon Q of these outcomes.
    """
    demand(len(parts) == 1 and int(parts[0]["count"]) == 1, "one run")
    part = read_part(parts[0], direction)
    if isinstance(part, ClosedPart):
        q, side, scale = arb(1), 1, arb(1)
    else:
        demand(isinstance(part, SmoothPart) and part.records == 1, "a loss with a density, of one record")
        if part.two_sided:
            return replaced_gaussian_step(part, epsilon)
        q, side, scale = part.rate, part.sides[0], part.log_scale.exp()
    excess = scale * (side * epsilon).exp() - (1 - q)
    if not excess > 0:
        demand(excess < 0, "a ball that determines whether the loss is bounded by epsilon")
        return arb(0), arb(0)
    with_record, without_record = masses_beyond(part, (excess / q).log(), side)
    mixed = (1 - q) * without_record + q * with_record
    value = mixed - epsilon.exp() * scale * without_record if side > 0 else without_record - epsilon.exp() * mixed
    return value, value.max(arb(0))


def replaced_gaussian_step(part: SmoothPart, epsilon: arb) -> tuple[arb, arb]:
    """Return delta of one run of Gaussian noise on a sample whose record is replaced.

    The loss is epsilon at x if 1 - q + c u = e^epsilon (1 - q + c / u), where u = e^{mu x} and c = q e^{-mu^2 / 2}.
    """
    q, mu = part.rate, part.slope
    c, rise = q * (-mu * mu / 2).exp(), (1 - q) * epsilon.expm1()  # c u^2 - rise u - c e^epsilon = 0 has one positive root
    x = ((rise + (rise * rise + 4 * c * c * epsilon.exp()).sqrt()) / (2 * c)).log() / mu
    p, mirrored = ((1 - q) * normal_tail(x) + q * normal_tail(x - sign * mu) for sign in (1, -1))
    value = p - epsilon.exp() * mirrored
    return value, value.max(arb(0))


def masses_beyond(part: ClosedPart | SmoothPart, level: arb, side: int) -> tuple[arb, arb]:
    """Return P and Q of a loss without sampling above `level` if side is 1, or below it if side is -1."""
    if part.form in ("gaussian", "mixture"):
        mu = part.slope if isinstance(part, SmoothPart) else part.e0.sqrt()
        x = level / mu + mu / 2
        return normal_tail(side * (x - mu)), normal_tail(side * x)
    e0 = part.e0
    level = level.min(e0).max(-e0)
    if part.form == "laplace":
        p, q = 1 - ((level - e0) / 2).exp() / 2, (-(level + e0) / 2).exp() / 2
    else:
        q = ((e0 - level) / 2).expm1() / e0.expm1()
        p = ((e0 + level) / 2).exp() * q
    return (p, q) if side > 0 else (1 - p, 1 - q)


def largest_loss(parts: list[Json], epsilon: Fraction) -> None:
    """Show that no loss exceeds epsilon, so that delta(epsilon) is 0. Parts without sampling are added exactly, the others in balls."""
    exact, sampled = Fraction(0), arb(0)
    for part in parts:
        form, n = part["kind"], int(part["count"])
        demand(
            form in ("two-point", "laplace", "range", "discrete-laplace") and not Fraction(part.get("delta", 0)),
            "losses with an end",
        )
        e = Fraction(part["epsilon"]) if "epsilon" in part else int(part["sensitivity"]) / Fraction(part["scale"])  # largest loss
        demand(e > 0 and n > 0, "losses above 0")
        if "rate" in part:  # log(1 - q + q e^e) if the record is removed, which is at least -log(1 - q + q e^-e) if it is added
            q = number(part["rate"])
            sampled += n * (1 - q + q * number(e).exp()).log()
            if form == "laplace" and part.get("relation", "add-remove") == "replace-one":  # `log_scale` is taken from every loss
                sampled -= n * (1 - q + q * (-number(e)).exp()).log()
        else:
            exact += n * e
    demand(exact <= epsilon and (sampled.is_zero() or number(exact) + sampled <= number(epsilon)), f"losses of at most {epsilon}")


def directions(parts: list[Json]) -> list[str]:
    """Return the directions that a claim is about; one is enough if every pair is its own mirror image."""
    asymmetric = any("rate" in part and part.get("relation", "add-remove") == "add-remove" for part in parts)
    return ["remove", "add"] if asymmetric else ["remove"]


def interval(parts: list[Json], direction: str, epsilon: arb, plan: Json) -> tuple[arb, arb]:
    """Return proved bounds on delta(epsilon) in one direction. The lower one is -inf if the plan proves none."""
    method = plan["method"]
    if method == "gaussian":
        return gaussian(parts, epsilon)
    if method == "one-step":
        return one_step(parts, direction, epsilon)
    if method in ("sum", "lattice"):
        lower, upper = (two_point_sum if method == "sum" else lattice_sum)(parts, direction, epsilon)
        lost = CheckedParts(parts, direction, [{}]).infinite_mass()
        return lower + lost, upper + lost
    demand(method in ("chernoff", "contour"), "a method")
    composition = CheckedParts(parts, direction, plan["parts"])
    lost = composition.infinite_mass()
    if method == "chernoff":
        demand(not any("cut" in part_plan for part_plan in plan["parts"]), "Chernoff's bound without a cut")
        return arb("-inf"), composition.chernoff(epsilon, number(plan["s"])) + lost
    demand(
        not any(isinstance(part, RenyiPart) for part, _, _ in composition.items), "a method that applies to a part with rho alone"
    )
    lower, upper = composition.contour(epsilon, plan)
    if any("cut" in part_plan for part_plan in plan["parts"]):
        least, most = composition.delta_if_big(epsilon, number(plan["jump_order"]))
        lower, upper = lower + least, upper + most
    return lower + lost, upper + lost


def show(parts: list[Json], claim: Json, direction: str, plan: Json) -> None:
    """Show a claim about the composition of `parts` in one direction, by a plan. Raises Unproved if it is not shown."""
    bits = int(plan["bits"])
    demand(53 <= bits <= 4096, "53 to 4096 bits")
    ctx.prec = bits
    for part in parts:
        demand_well_formed(part)
    demand(is_decimal(claim["epsilon"]) and is_decimal(claim["delta"]), "epsilon and delta as decimals in quotes")
    epsilon, delta = number(claim["epsilon"]), number(claim["delta"])
    demand(Fraction(claim["epsilon"]) >= 0 and 0 <= Fraction(claim["delta"]) < 1, "epsilon of at least 0 and delta below 1")
    if plan["method"] == "pure":
        demand(claim["bound"] == "upper", "an upper bound")
        largest_loss(parts, Fraction(claim["epsilon"]))
        return
    demand(claim["bound"] in ("upper", "lower"), "an upper or a lower bound")
    lower, upper = interval(parts, direction, epsilon, plan)
    if claim["bound"] == "upper":
        demand(
            upper <= delta,
            f"{direction}: delta({claim['epsilon']}) <= {claim['delta']} is not shown: the balls give {upper.str(12)}",
        )
    else:
        demand(
            lower > delta, f"{direction}: delta({claim['epsilon']}) > {claim['delta']} is not shown: the balls give {lower.str(12)}"
        )


def cases_of(certificate: Json) -> dict[str, tuple[list[Json], str]]:
    """Return the composed parts and the direction that each proof of an upper bound is about.

    The key of a proof is its direction, followed by the number of the alternative if there are any: "remove", or "remove 2".
    """
    common, alternatives = certificate["parts"], certificate.get("alternatives")
    demand(
        type(common) is list and (alternatives is None or (type(alternatives) is list and len(alternatives) > 1)), "lists of parts"
    )
    cases = {}
    for place, alternative in enumerate([[]] if alternatives is None else alternatives, 1):
        demand(type(alternative) is list and bool(common + alternative), "parts")
        for direction in directions(common + alternative):
            cases[direction if alternatives is None else f"{direction} {place}"] = (common + alternative, direction)
    return cases


def check(certificate: Json) -> list[str]:
    """Return what the certificate proves, one sentence for each claim. Raises Unproved if an inequality does not hold."""
    demand(certificate.get("format") == 1, "format 1")
    cases, proved = cases_of(certificate), []
    demand(bool(certificate["claims"]), "claims")
    for claim in certificate["claims"]:
        demand(claim["bound"] in ("upper", "lower"), "an upper or a lower bound")
        wanted = [*cases] if claim["bound"] == "upper" else [*claim["proofs"]][:1]
        demand(bool(wanted), "a proof")
        for key in wanted:
            demand(key in claim["proofs"] and key in cases, f"a proof for the direction {key}")
            parts, direction = cases[key]
            show(parts, claim, direction, claim["proofs"][key])
        bits = max(int(claim["proofs"][key]["bits"]) for key in wanted)
        sign, of = ("<=", "") if claim["bound"] == "upper" else (">", " for these pairs")
        proved.append(f"proved: epsilon {sign} {claim['epsilon']} at delta = {claim['delta']}{of} (ball arithmetic, {bits} bits)")
    return proved


def without_repeated_keys(pairs: list[tuple[str, Any]]) -> Json:
    """Return a JSON object. Raises Unproved if it has a key twice."""
    demand(len({key for key, _ in pairs}) == len(pairs), "no key twice")
    return dict(pairs)


def main(arguments: list[str]) -> int:
    """Check the certificate at a path and print what it proves and assumes. Return 0 if it is proved, 1 if not, and 2 for wrong usage."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python checker.py certificate.json\n")
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            certificate = json.load(file, object_pairs_hook=without_repeated_keys)
        for sentence in check(certificate):
            sys.stdout.write(f"{sentence}\n")
    except (Unproved, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        sys.stderr.write(f"not proved: {error}\n")
        return 1
    sys.stdout.write("assumed: the pairs of the parts dominate the mechanisms of the file, which this program does not see\n")
    for assumption in certificate.get("assumes", []):
        sys.stdout.write(f"assumed: {json.dumps(str(assumption))}\n")
    for key in ("statement", "file"):
        sys.stdout.write(f"about: {json.dumps(certificate.get(key))}\n")
    for part in certificate["parts"]:
        sys.stdout.write(f"part: {json.dumps(part)}\n")
    for place, alternative in enumerate(certificate.get("alternatives") or [], 1):
        for part in alternative:
            sys.stdout.write(f"part of alternative {place}: {json.dumps(part)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
