"""Discrete Laplace noise that is never beyond a bound, on one whole number, and the mechanism type "truncated-discrete-laplace".

A change of the data *moves* the number by some distance. Near the ends an output is then possible under one dataset only: it *shows* the
change. The probability of this is the delta of the type (`MayFail`), and is rounded up. Otherwise the outcomes are finitely many atoms,
whose pair is exact (`CutDiscreteLaplace`) for moves up to MAX_ATOMS. Discrete Laplace noise is also called two-sided geometric noise.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs. `TruncatedSpec`
(truncated_laplace.py) checks the keys, and calls `with_group` for the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import OWN_NOISE, SECRET, Premises, moves
from dpcli.base.stated import quotient  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, NoPrivacy  # the largest sensitivity over noise
from dpcli.mechanisms.noise.discrete_laplace import MAX_ATOMS
from dpcli.mechanisms.noise.truncated_laplace import LEAST_DELTA, REDRAWN, ROUNDING, TruncatedSpec
from dpcli.mechanisms.stated.atoms import AtomicLoss
from dpcli.mechanisms.stated.pure_and_approx import Free, MayFail, Pure
from dpcli.numerics.logspace import log_add, log_expm1
from dpcli.numerics.tails import single_epsilon_upper

# A bound whose probability of showing exceeds the stated delta by this share still counts as the bound with that delta. It is far more than
# the rounding of a probability. The charge is for the bound that is used, so this affects only which one it is.
STATED_SLACK = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedDiscreteLaplaceSpec(TruncatedSpec):
    """A whole number plus two-sided geometric noise that is never beyond a bound: a noise x of at most `bound` in size has a probability
    proportional to e^{-|x| / scale}.

    sensitivity is the largest move of the number under the file's adjacency and unit. Only a group multiplies it. A move shows with some
    probability, as an outcome that is possible for one dataset alone. With delta instead of bound, the bound is the smallest whole number
    for which this probability is at most delta, for a move by the sensitivity.

    Neighbours: all three adjacencies. There is no Poisson sampling under replace-one or zero-out, because the keys do not bound one
    record's contribution.

    Bounds: exact for a number that moves by at most 4096, and upper bounds beyond. Epsilon is at most sensitivity / scale. Without
    sampling, accountants of Renyi divergences set the probability that a move shows aside. There are no bounds for vectors. No finite
    epsilon below that probability.

    Source: Geng, Ding, Guo, Kumar 2018, arXiv:1810.00877 (noise on real numbers); the pair is derived in `dpcli explain
    truncated-discrete-laplace`.
    """

    example: ClassVar[Mapping[str, Any]] = {"scale": 90.0, "sensitivity": 1, "delta": 1e-10}
    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("No change moves the whole number by more than sensitivity."),
        OWN_NOISE,  # no two queries share noise
        REDRAWN,
    )

    scale: Annotated[float, Key("scale of the noise e^{-|x|/scale}", POSITIVE)]
    # claim=True: dpcli does not enforce it.
    sensitivity: Annotated[int, Key("stated sensitivity of the whole number under the file's adjacency", COUNT, claim=True)]
    bound: Annotated[int | None, Key("largest size of the noise; or state delta", COUNT)] = None
    delta: Annotated[float | None, Key("largest probability that a move by the sensitivity shows; or state bound", OPEN_UNIT)] = (
        None
    )

    def with_group(self, group: int) -> Mechanism:
        ratio = self.sensitivity / self.scale if self.scale > self.sensitivity / LARGEST_RATIO else math.inf
        if ratio > LARGEST_RATIO / group:
            return NoPrivacy(ratio * group)
        bound = self.bound
        if bound is None:
            assert self.delta is not None
            bound = _least_bound(self.scale, self.sensitivity, self.delta)
        return truncated_discrete_laplace(self.scale, self.sensitivity * group, bound)


def _least_bound(scale: float, moved: int, delta: float) -> int:
    """Return the least bound, at least `moved`, for which a move shows with a probability of at most delta < 1/2.

    With r = e^{-1 / scale} and u = r^{bound + 1}, this is u <= delta (1 + r) / (r^-moved - 1 + 2 delta). A delta that is the probability of
    some bound, but for rounding, has this bound: a larger one would cost less than the noise that the author draws.
    """
    a = 1.0 / scale
    log_part = log_add(math.log(2.0 * delta), log_expm1(moved * a))
    log_u = math.log(delta) + math.log1p(math.exp(-a)) - log_part
    rounding = 4.0 * ROUNDING * (1.0 + abs(math.log(delta)) + abs(log_part))
    bound = max(math.ceil(-(log_u + rounding) * scale) - 1, moved)
    return bound if _chance_to_show(a, moved, bound) <= delta * (1.0 + STATED_SLACK) else bound + 1


def _chance_to_show(a: float, moved: int, bound: int) -> float:
    """Return an upper bound on the probability that a move shows. a: 1 / scale. bound: at least `moved`."""
    # 1 + r - 2 r^{bound + 1}, as a sum of positive terms
    log_all = math.log(-math.expm1(-a) - 2.0 * math.expm1(-a * bound) * math.exp(-a))
    log_part = log_expm1(moved * a)
    log_shown = log_part - (bound + 1) * a - log_all
    return math.exp(min(log_shown, 0.0)) * (1.0 + ROUNDING * (8.0 + (bound + moved) * a + abs(log_part) + abs(log_all)))


def truncated_discrete_laplace(scale: float, moved: int, bound: int) -> Mechanism:
    """Return the mechanism of one whole number that moves by s = `moved`, with noise of at most b = `bound`.

    Let f(x) be the probability of the noise x, and r = e^{-1 / scale}. log f is concave, so that a move by s dominates every smaller one:
    the best tests between f(x) and f(x - s) are thresholds, whose power grows with s (`truncated_laplace` has the proof).

    f(x) and f(x - s) are positive for s - b <= x <= b alone. So each law has the same probability d outside, where the other is 0, and the
    pair reveals everything with probability d. Given that x is inside, the losses are (2 x - s) / scale for 0 <= x <= s. Every x <= 0 has
    the loss of x = 0, and every x >= s that of x = s. Under Q, x has a weight of r^x between 0 and s. If b >= s, x <= 0 has the weight 1 +
    r + ... + r^{b-s}, and x >= s has r^s times as much. Otherwise x is from s - b to b.

    If b >= s, d = (r^-s - 1) r^{b + 1} / (1 + r - 2 r^{b + 1}). Otherwise it is 1 minus what is inside.
    """
    a = 1.0 / scale
    if 2 * bound < moved:
        return NoPrivacy(moved / bound)
    first = max(moved - bound, 0)  # the least x inside, if bound < moved
    if bound >= moved:
        delta = _chance_to_show(a, moved, bound)
    else:
        inside = (
            math.exp(-a * first)
            * math.expm1(-a * (bound + 1 - first))
            / (math.expm1(-a) + 2.0 * math.expm1(-a * bound) * math.exp(-a))
        )
        delta = 1.0 - inside * (1.0 - ROUNDING * (8.0 + a * bound))
    delta = max(delta, LEAST_DELTA)
    return MayFail(_if_not_shown(scale, moved, bound), delta) if delta < 1.0 else NoPrivacy(moved / bound)


def _if_not_shown(scale: float, moved: int, bound: int) -> Mechanism:
    """Return the mechanism if a move does not show."""
    largest = moved - 2 * max(moved - bound, 0)  # largest loss, in units of 1 / scale: at x = s or x = b, whichever is less
    if largest == 0:
        return Free()
    return CutDiscreteLaplace(scale, moved, bound) if moved <= MAX_ATOMS else Pure(quotient(largest, scale))


@dataclass(frozen=True, slots=True)
class CutDiscreteLaplace(Mechanism):
    """The outcomes of `truncated_discrete_laplace` in which a move does not show. rho is that of the two-point pair, which dominates."""

    scale: float
    moved: int
    bound: int

    @property
    def epsilon(self) -> float:
        """The largest loss."""
        return quotient(self.moved - 2 * max(self.moved - self.bound, 0), self.scale)

    def approx_dp(self, delta: float) -> float:
        if delta <= 0.0:
            return self.epsilon
        return min(single_epsilon_upper(self.losses()[0], math.log(delta), near=self.epsilon), self.epsilon)

    def zcdp(self) -> float:
        return Pure(self.epsilon).zcdp()

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[AtomicLoss]:
        a, s, first = 1.0 / self.scale, self.moved, max(self.moved - self.bound, 0)
        outcomes = range(first, s - first + 1)  # the x between 0 and s that are inside
        weights = [-x * a for x in outcomes]
        if not first:  # the outcomes beyond 0 and s count as these
            log_end = math.log(math.expm1(-a * (self.bound - s + 1)) / math.expm1(-a))
            weights[0], weights[-1] = log_end, log_end - s * a
        log_total = math.log(math.fsum(map(math.exp, (weight - weights[0] for weight in weights)))) + weights[0]
        return (AtomicLoss(tuple(weight - log_total for weight in weights), tuple((2 * x - s) * a for x in outcomes)),)
