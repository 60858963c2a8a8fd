"""delta(epsilon) where one big loss among many small ones decides: few steps, or a low sampling rate.

There the loss of a step is nearly log-normal, and the CGF at the tilt that delta needs is ruled by outcomes that never happen. Let each
step's outcome be big with a probability b(x) that rises smoothly from 0 to 1 as its loss passes epsilon (cut.py), and A be the event that
some step's is. Given A or not, the outcomes still have the likelihood ratio e^S of the whole, so

    delta(eps) = E_P[(1 - e^{eps - S})+ ; no A]  +  P(A) - e^eps Q(A)  +  E_Q[(e^eps - e^S)+ ; A].

* The first is the contour integral of the small parts, a positive measure of mass at most 1 for which every certificate of integral.py
  holds; its CGF has no cliff.
* The second is closed: Q(A) = 1 - prod (1 - Q(b))^n, and so is P(A). Their difference is computed as such.
* The third is at least 0, and for every lambda > 0, as (e^eps - e^s)+ <= e^eps h(lambda) e^{-lambda (s - eps)} with
  h(lambda) = lambda^lambda / (1 + lambda)^{1 + lambda}, at most e^{(1 + lambda) eps} h(lambda) times E_Q[e^{-lambda S}; A], which is
  prod B^n - prod C^n, B = E_Q[e^{-lambda L}] and C that of the small part. Big losses lie well above epsilon: it is next to nothing.
  Where epsilon is larger than the cut was made for, e^eps Q(A), which may be more than 1, bounds it still.
  A loss with a lower tail as long as its upper one has no such moment. Let D be the event that no step's lies in that tail, by the
  mirror image of b. On D the bound holds with B and C on D, and e^eps Q(A, not D) is added, which needs two rare steps.

Of some steps big outcomes may have no part in A, but just be left out (cut_rows.py). Let E be that some step's are: delta(eps) is the mean
without E and at most P(E) more, and without E the above holds, with P(A) and Q(A) less by shares P(E) and Q(E) <= P(E) of them. So P(E) (1
+ e^eps Q(A)) on both sides covers it.

That a large sum of heavy-tailed terms is one large term: the principle of a single big jump.

The contour of the small parts: Where one loss near epsilon decides, the tilted bulk outweighs it by many orders of magnitude, and its
transform hardly decays. Then S^n - B^n serves (split.py), with B all below a share of epsilon so low that B^n alone leaves next to nothing
of delta. What that share and the tilt are decides only how well it serves: every bound holds for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.cut import CutLoss, UncutLoss
from dpcli.numerics.contour.cut_rows import CutRows
from dpcli.numerics.contour.integral import Contour, Method, beyond, build, log_hockey, undivided
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import allowance

SHARES = (0.9, 0.7, 0.48, 0.32, 0.24, 0.16, 0.1, 0.06)  # of epsilon, below which a loss may count as bulk
TILTS = 40  # that are looked at
SPARED = -24.0  # logarithm of what bulk alone may make of delta
DROWNED = 8.0  # by how much the bulk may raise the logarithm of Chernoff's bound
SACRIFICED = 6.0  # the same, by a tilt that is less than the best
ROOM = 20.0  # by how much the logarithm of delta may be below Chernoff's bound of it
QUICK, QUITE_QUICK = 4e5, 5e6  # cells for each part of the integrand as it is, and for all, where it may do without the bulk
ROW = 2e5  # of the latter, for each part
FINE = -21.0  # logarithm of what may be cut off or aliased, relative to delta
COARSE = -17.0  # the same, where that takes too long
FEW = 8  # parts for which the former is tried
MANY = 64  # parts up to which, from there on, an attempt leaves as much to the next one as it takes; more need all that there is
POWERS = (0.01, 1.0, 4.0, 8.0, 11.0, 16.0, 19.0, 23.0, 27.0, 32.0, 45.0, 64.0, 90.0, 128.0)  # lambda, in units of 1 / epsilon
MAX_EPSILON = 300.0  # beyond it the closed part would leave floating point

Divided = CutLoss | CutRows | UncutLoss
Cut = Sequence[tuple[Divided, int]]  # the parts of a composition
Way = tuple[float, float, Method]


def small_contour(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float) -> Contour | None:
    """The contour near `epsilon`; None where none decays soon enough. Arguments as of `jump`."""
    z: Array = np.geomspace(0.2 / level, 120.0 / epsilon, TILTS)
    totals = log_hockey(z) - z * epsilon + sum(n * loss.cgf(z) for loss, n in losses)
    totals = np.where(np.isfinite(totals), totals, np.inf)
    chernoff = min(float(totals.min()), 0.0)
    ways: list[Way] = [(float(z[totals.argmin()]), chernoff - 2.0, undivided)]
    bulk = _without_bulk(losses, epsilon, z, totals, floor)
    if bulk is not None:
        bound, way = bulk
        ways.append(way)
        if chernoff - bound > DROWNED:
            ways.reverse()
    several = max(math.fsum(loss.several for loss, _ in losses), 1.0)
    quick = min(QUICK * several, max(QUITE_QUICK, ROW * several))
    tries = tuple(product((FINE, COARSE) if several <= FEW else (COARSE,), ways))
    for after, (negligible, (t, log_least, factor)) in zip(reversed(range(len(tries))), tries, strict=True):
        cells = quick if factor is undivided and len(ways) > 1 else math.inf
        with suppress(NotRepresentable), allowance(cells, share=0.5 if after and FEW < several <= MANY else 1.0):
            at = log_least if log_delta is None else log_delta
            contour = build(losses, at, t, factor, epsilon=epsilon, negligible=negligible)
            if contour is not None:
                return contour
    return None


def _without_bulk(losses: Cut, epsilon: float, z: Array, totals: Array, floor: float) -> tuple[float, Way] | None:
    """Chernoff's bound and the way, by the highest share that serves; None where bulk alone may reach epsilon at every share.

    totals: the exponents of Chernoff's bound of all at the tilts z.
    """
    far = np.geomspace(20.0, 3e3, TILTS) / epsilon
    for share in SHARES:
        spare = sum((n * loss.bulk_cgf(far, share * epsilon) for loss, n in losses), log_hockey(far) - far * epsilon)
        if not float(np.nanmin(np.append(spare, math.inf))) <= floor + SPARED:
            continue
        rest = np.logaddexp.reduce([math.log(n) + loss.log_beyond(z, share * epsilon) for loss, n in losses])
        bounds = totals + np.minimum(rest, 0.0)
        best = _cheapest(z, np.where(np.isfinite(bounds), bounds, np.inf), totals, floor)
        if not math.isfinite(bounds[best]):
            return None
        bound = float(bounds[best])
        return bound, (float(z[best]), max(bound - ROOM, floor), partial(beyond, levels=(share,), negligible=math.inf))
    return None


def _cheapest(z: Array, chernoff: Array, totals: Array, floor: float) -> int:
    """Return the index of the tilt that lets the nodes be farthest apart, among those at which what reaches epsilon is not drowned: where
    the CGF has begun to rise steeply, a little less of a tilt keeps the aliases away."""
    farther = z[None, :] - z[:, None]
    with np.errstate(all="ignore"):
        gaps = np.where(farther > 0.0, (totals[None, :] - floor + ROOM) / farther, np.inf)
        steps = np.minimum(z / (ROOM - floor), 1.0 / np.fmax(np.nanmin(gaps, axis=1), 1e-300))
    return int(np.where(chernoff <= float(chernoff.min()) + SACRIFICED, steps, 0.0).argmax())


@dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """Bounds on delta near one epsilon.

    small: the contour of the small parts. gained: P(A) - Q(A). big: Q(A). power, log_short: lambda, and log of h(lambda) times
    prod B^n - prod C^n there. missed: Q(A, not D). lost: bounds P of big outcomes without part in A.
    """

    small: Contour
    gained: float
    big: float
    power: Array
    log_short: Array
    missed: float
    lost: float

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        if epsilon > MAX_EPSILON:
            return -math.inf, math.inf
        low, high = self.small.log_delta(epsilon)
        weight = math.expm1(epsilon) * self.big
        jumped = self.gained - weight
        error = 4.0 * SLACK * (self.gained + abs(weight)) + self.lost * (1.0 + math.exp(epsilon) * self.big)
        log_most = epsilon + math.log(self.big) if self.big > 0.0 else -math.inf  # of e^eps Q(A); it may be above 0
        log_short = float(np.nanmin(np.append(self.log_short + (1.0 + self.power) * epsilon, math.inf)))
        short = min(math.exp(min(log_most, 700.0)), math.exp(min(log_short, 700.0)) + math.exp(epsilon) * self.missed)
        lower = math.exp(min(low, 0.0)) * (1.0 - 1e-15) + jumped - error
        upper = (math.exp(high) * (1.0 + 1e-15) if high < 0.0 else math.inf) + jumped + error + short
        return (math.log(lower) if lower > 0.0 else -math.inf), (math.log(upper) if upper > 0.0 else math.inf)

    def epsilon(self, log_delta: float, near: float) -> tuple[float, float]:
        """(lower, upper) bounds on the epsilon of e^log_delta; 0 and inf for ends that cannot be shown within a factor of 3 of `near`."""
        low, _ = bracket_root(lambda e: self.log_delta(e)[0] - log_delta, near / 3.0, 3.0 * near, rtol=1e-13)
        if self.log_delta(low)[0] < log_delta:
            return 0.0, math.inf
        high, margin = low, 1e-13 * low
        while (excess := self.log_delta(high)[1] - log_delta) > 0.0:
            margin = max(margin, min(1.05 * excess / self.small.t, low))
            high, margin = high + margin, 2.0 * margin
            if not high < 3.0 * near:
                return low, math.inf
        return low, high


def jump(losses: Cut, log_delta: float | None, epsilon: float, level: float, floor: float | None = None) -> Jump | None:
    """The bounds near `epsilon`; None where the small parts' contour does not decay soon enough.

    Args:
        log_delta: about that of delta(epsilon), where it is known.
        level: at least epsilon; where the losses have been cut.
        floor: the least that log delta can be; `log_delta` where None.
    """
    small = small_contour(losses, log_delta, epsilon, level, (log_delta or 0.0) if floor is None else floor)
    if small is None:
        return None
    t = small.t
    error = math.fsum(n * loss.doubt(t) for loss, n in losses)
    kept = math.fsum(n * loss.log_kept for loss, n in losses)
    rest = math.fsum(n * loss.log_less for loss, n in losses)
    power = np.array(POWERS) / epsilon
    return Jump(
        replace(small, cumulant=small.cumulant + error, cumulant_error=2.0 * error + max(small.cumulant_error, 0.0)),
        -math.exp(kept) * math.expm1(rest),
        -math.expm1(kept),
        power,
        log_hockey(power) + _log_short(losses, power),
        _missed(losses),
        math.fsum(n * loss.lost for loss, n in losses) * (1.0 + 1e-9),
    )


def _log_short(losses: Cut, power: Array) -> Array:
    """log of (prod B^n - prod C^n) from above: prod B^n sum n (B - C) / B."""
    total, shares = np.zeros_like(power), []
    for loss, n in losses:
        log_whole, log_share = loss.log_short(power)
        total = total + n * log_whole
        shares.append(math.log(n) + log_share)
    return np.asarray(total + np.logaddexp.reduce(shares))


def log_short(losses: Cut, epsilon: float) -> float:
    """The third term's bound, as a logarithm: what a cut at another level would make smaller."""
    power, big = np.array(POWERS) / epsilon, math.fsum(n * loss.big for loss, n in losses)
    bounds = log_hockey(power) + _log_short(losses, power) + (1.0 + power) * epsilon
    return float(np.nanmin(np.append(bounds, epsilon + math.log(big) if big > 0.0 else -math.inf)))


def _missed(losses: Cut) -> float:
    """Q(A, not D), D being that no step's loss lies in its left tail: for two steps by their product, for one as it is."""
    big, lost = (
        math.fsum(n * value for value, n in values)
        for values in ([(loss.big, n) for loss, n in losses], [(loss.missed(), n) for loss, n in losses])
    )
    return (big * lost + math.fsum(n * loss.missed_big() for loss, n in losses)) * (1.0 + 1e-9)
