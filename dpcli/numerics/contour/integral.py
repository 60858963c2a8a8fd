"""delta(epsilon) of a sum of privacy losses as a contour integral of its CGF, with a certificate on both sides.

For t > 0 in the domain of K, Fourier inversion of the hockey-stick function gives

    delta(eps) = 1/(2 pi) INT exp(K(z) - z eps) / (z (z+1)) dy,   z = t + i y.

Every sum below comes with what it can have missed:

* Step. The trapezoidal sum over all multiples of h is delta(eps) + SUM_{m != 0} e^{-2 pi m t/h} delta(eps - 2 pi m/h) (Poisson
  summation), every term of which is positive: the sum is an upper bound. The terms m > 0 add up to at most 1/(e^{2 pi t/h} - 1);
  the term -m is at most exp(K(s) - s eps - 2 pi m (s-t)/h) s^s/(1+s)^{s+1} for any s > t (Chernoff's bound of delta). All this
  holds for any positive measure of mass at most 1 in place of P.
* Cut. Beyond y = Y the integrand is at most e^{K(t) - t eps} e^{decay(Y)} / y^2, where decay(Y) bounds the logarithm of the tilted
  characteristic function for every y >= Y.
* Left out. What the measure lacks, if anything, is added to the upper bound: the hockey stick of the bulk (split.py) by Chernoff's
  bound, the far tail (cut.py) by its probability. The lower bound needs neither, for the measure is at most P.
* Rounding, and the errors of the losses' own quadratures, relative to the sum of the moduli.

Saddle-point accountant: Alghamdi et al. 2022, arXiv:2208.09595; analytical Fourier accountant: Zhu, Dong, Wang 2022, arXiv:2106.08567.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.tilted import Losses, Tilted
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import SLACK
from dpcli.numerics.work import hold, spend

MAX_NODES = 1_200_000  # shared out among the parts
ENOUGH_NODES = 60_000  # that every part may have
NEGLIGIBLE = -28.0  # logarithm of what may be cut off or aliased, relative to the answer
NEAR = 0.3  # logarithm of what the integrand may lose on a tilt that is not quite the best
LEVELS = (0.9, 0.6, 0.4, 0.25, 0.15, 0.09, 0.05, 0.02)  # of epsilon, below which a single loss counts as bulk
MANY = 6  # losses that are looked at for families
FEW = 16  # losses, beyond which it is asked first whether the characteristic function of any decays
LONG, LIGHT = 2048, 1e-24  # nodes from which on those are left out that are lighter than that, relative to the first
SAMPLE = 8  # parts that place the contour where there are many


def stacked(losses: Losses) -> Losses:
    """The losses; where they are many, those of one family put together in one that stands for all of their steps."""
    if len(losses) < MANY:
        return losses
    from dpcli.numerics.contour.stacked import in_stacks

    return in_stacks(losses)


def total_cgf(losses: Losses, z: Array) -> Array:
    """Upper bound on the composition's K at real z > 0."""
    total = np.zeros_like(z)
    for loss, count in stacked(losses):
        total = total + count * loss.cgf(z)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """The integrand on the line Re z = t, without the factor that depends on epsilon.

    cumulant: K(t), from above by at most cumulant_error. mean: of the composed loss under the tilt.
    y: multiples of h, from 0 on, of which those may lack at which next to nothing is left.
    modulus, angle: of exp(K(t+iy) - K(t) - i y mean) / (z (z+1)) there.
    error: absolute error of the sum over the nodes: rounding, those that lack, and the integral beyond the last, relative to e^{K - t eps}.
    far: tilts s > t; log_far: log of s^s / (1+s)^{s+1} e^{K(s) - K(t)} there. spare, log_spare: the same for what the integrand leaves
    out, if anything. log_lost: of the probability that the losses were relieved of. deviation: standard deviations of the parts' losses
    under the tilt, each once, added up.
    """

    t: float
    step: float
    cumulant: float
    cumulant_error: float
    mean: float
    y: Array
    modulus: Array
    angle: Array
    error: float
    far: Array
    log_far: Array
    spare: Array
    log_spare: Array
    log_lost: float
    deviation: float = 0.0

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) bounds on log delta(epsilon)."""
        total, base = self.sums(epsilon)[0], self.cumulant - self.t * epsilon
        ulps = 1e-15 * (self.cumulant + self.t * (abs(epsilon) + abs(self.mean)))
        upper = base + ulps + math.log(total + self.error) if total + self.error > 0.0 else math.inf
        if len(self.spare):
            upper = float(np.logaddexp(upper, self.cumulant + (self.log_spare - self.spare * epsilon).min()))
        upper = float(np.logaddexp(upper, self.log_lost))
        if not total - self.error > 0.0:
            return -math.inf, upper
        low = base - ulps - self.cumulant_error + math.log(total - self.error)
        gap = self._log_alias(epsilon) - low
        return (low + math.log1p(-math.exp(gap)) if gap < -1e-9 else -math.inf), upper

    def sums(self, epsilon: float) -> tuple[float, float]:
        """The trapezoidal sum relative to e^{K - t eps}, and its derivative in epsilon."""
        spend(len(self.modulus))
        y = self.y
        angle, scale = self.angle + y * (self.mean - epsilon), self.step / (2.0 * math.pi)
        total = 2.0 * float(product(self.modulus, np.cos(angle))) - float(self.modulus[0])
        return total * scale, 2.0 * float(product(self.modulus * y, np.sin(angle))) * scale

    def _log_alias(self, epsilon: float) -> float:
        """Logarithm of the terms m != 0 of the sum over aliases, from above."""
        turns = 2.0 * math.pi * self.t / self.step
        shift = 2.0 * math.pi * (self.far - self.t) / self.step
        left = self.cumulant - self.far * epsilon + self.log_far - shift - np.log1p(-np.exp(-shift))
        return float(np.logaddexp(-turns - math.log1p(-math.exp(-turns)), np.nanmin(left)))


def tilt_for(losses: Losses, log_delta: float) -> float:
    """A tilt near the one of Chernoff's least epsilon. Any t > 0 is sound: where many parts are alike, a few of them say enough."""
    if len(losses) <= 2 * SAMPLE:
        return _search(losses, 1.0, log_delta)[0]
    chosen = [losses[round(i)] for i in np.linspace(0, len(losses) - 1, SAMPLE).tolist()]
    scale = sum(n for _, n in losses) / sum(n for _, n in chosen)
    t, epsilon = _search(chosen, scale, log_delta)
    at = np.array([t])
    off = float(total_cgf(losses, at)[0] - scale * total_cgf(chosen, at)[0])
    return t if abs(off) <= 0.1 * t * epsilon else _search(losses, 1.0, log_delta)[0]


def _search(losses: Losses, scale: float, log_delta: float) -> tuple[float, float]:
    """(t, epsilon) near Chernoff's least: what a miss costs the integrand, t times the excess in epsilon, is small."""
    seen: dict[float, float] = {}

    def look(points: Sequence[float]) -> float:
        z = np.array([x for x in points if x not in seen and 1e-12 <= x <= 1e12])
        if len(z):
            values = (scale * total_cgf(losses, z) - log_delta + log_hockey(z)) / z
            seen.update(zip(z.tolist(), np.where(np.isnan(values), math.inf, values).tolist(), strict=True))
        return min(seen, key=lambda x: (seen[x], x))

    best = look([0.5, 2.0, 8.0, 32.0])
    for _ in range(60):
        ordered = sorted(seen)
        at = ordered.index(best)
        if at in (0, len(ordered) - 1) and 1e-10 < best < 1e10:
            best = look([best / 4.0, best / 16.0] if at == 0 else [best * 4.0, best * 16.0])
            continue
        low, high = ordered[max(at - 1, 0)], ordered[min(at + 1, len(ordered) - 1)]
        if high <= 4.0 * low and best * (min(seen[low], seen[high]) - seen[best]) < NEAR:
            break
        best = look([math.sqrt(low * best), math.sqrt(best * high)])
    return best, seen[best]


def build(
    losses: Losses,
    log_delta: float,
    t: float,
    factor: Method | None = None,
    log_lost: float = -math.inf,
    epsilon: float | None = None,
    negligible: float = NEGLIGIBLE,
) -> Contour | None:
    """The contour on Re z = t, for log delta(eps) near `log_delta` < 0; None where it does not decay soon enough.

    Args:
        epsilon: where delta is wanted, if that is known; else the one whose saddle point is taken to be t.
        factor: `undivided` or `beyond`; the former where None.
        log_lost: of the probability, at most, that the losses lack: it is added to every upper bound.
        negligible: logarithm of what may be cut off or aliased, relative to e^log_delta: the bounds allow for it.
    """
    if len(losses) > FEW and not any(getattr(loss, "decays", True) for loss, _ in losses):
        return None  # before anything is tilted
    far = t * np.geomspace(1.02, 4.0, 8)
    cumulants = total_cgf(losses, np.append(t, far))
    if not math.isfinite(cumulants[0]):
        return None
    counts = float(sum(n * getattr(loss, "steps", 1.0) for loss, n in losses))
    tilted = [(loss.tilted(t), count) for loss, count in (losses if factor is beyond else stacked(losses))]
    cumulant, doubt = _cumulant(tilted, t, float(cumulants[0]), counts)
    if not math.isfinite(doubt):
        return None
    rise = cumulants[1:] - cumulant
    if epsilon is None:
        epsilon = float(saddle(np.array([cumulant]), log_delta, np.array([t]))[0])
    log_wanted, log_far = log_delta - cumulant + t * epsilon, rise + log_hockey(far)
    gaps = (log_far - (far - t) * epsilon - log_wanted - negligible) / (far - t)
    step = min(2.0 * math.pi * t / (2.0 - negligible - log_delta), 2.0 * math.pi / max(float(np.nanmin(gaps)), 1e-300))
    variance = math.fsum(n * part.variance for part, n in tilted)
    width = 1.0 / math.sqrt(variance + 1.0 / t**2 + 1.0 / (1.0 + t) ** 2)
    integrand = (factor or undivided)(tilted, counts, Wanted(width, step, negligible + log_wanted, t, epsilon, log_wanted))
    if integrand is None or not integrand.log_tail < 700.0:
        return None
    y: Array = step * np.arange(len(integrand.log_factor), dtype=float)
    log_factor = integrand.log_factor - np.log(t + 1j * y) - np.log(t + 1.0 + 1j * y)
    modulus = np.exp(log_factor.real)
    left_out = integrand.doubt * float((1.0 / np.hypot(t, y) / np.hypot(t + 1.0, y)).sum()) * step / math.pi
    deviations = [math.sqrt(part.variance) for part, _ in tilted]
    mean = math.fsum(n * part.mean for part, n in tilted)
    swing = math.fsum(n * deviation for (_, n), deviation in zip(tilted, deviations, strict=True)) + abs(mean) + abs(epsilon)
    rounding = (2e-14 + 3e-15 * math.sqrt(counts) + 1e-22 * counts) * float(modulus.sum()) * step / math.pi
    rounding += 8e-16 * swing * float(product(modulus, y)) * step / math.pi  # of the angles
    if len(y) > LONG:
        kept = modulus > LIGHT * float(modulus[0])
        rounding += float(modulus[~kept].sum()) * step / math.pi
        y, modulus, log_factor = y[kept], modulus[kept], log_factor[kept]
    missing = (1.0 + t) * math.exp(log_lost)  # by which K of a capped loss may be too large
    return Contour(
        t=t, step=step, cumulant=cumulant, cumulant_error=2.5 * SLACK * cumulant + doubt + missing, log_lost=log_lost,
        mean=mean, y=y, modulus=modulus, angle=log_factor.imag,
        error=rounding + left_out + math.exp(integrand.log_tail), deviation=math.fsum(deviations), far=far, log_far=log_far,
        spare=t + integrand.spare, log_spare=integrand.log_spare + log_hockey(t + integrand.spare),
    )  # fmt: skip


def _cumulant(tilted: Parts, t: float, bound: float, counts: float) -> tuple[float, float]:
    """(K(t) from above, by how much that may be too large); (NaN, inf) where the parts contradict `bound`, the sum of their `cgf`.

    Where a loss knows its CGF only by a bound that is not sharp, the bound would be a valid start of an upper bound on delta, but of no
    lower one: there the parts' own K(t) serves, with its rounding and that of its exponents. Elsewhere the bound keeps more digits.
    """
    own = math.fsum(n * part.cumulant for part, n in tilted)
    sizes = math.fsum(n * abs(part.cumulant) for part, n in tilted)
    means = math.fsum(n * abs(part.mean) for part, n in tilted)
    deviations = math.sqrt(counts * math.fsum(n * part.variance for part, n in tilted))  # at least the steps' own, added up
    rounding = SLACK * (counts + sizes) + 1e-14 * (1.0 + t) * (means + deviations)
    if not bound >= own - rounding:
        return math.nan, math.inf
    return (bound, 0.0) if all(part.sharp for part, _ in tilted) else (own + rounding, 2.0 * rounding)


def log_hockey(s: Array) -> Array:
    """log of s^s / (1+s)^{s+1}: the most that (1 - e^{eps - L})+ is above e^{s (L - eps)}."""
    return np.asarray(s * np.log(s) - (s + 1.0) * np.log1p(s))


class Factor(NamedTuple):
    """Contribution of the parts to the integrand: its logarithm at the nodes, and that of the integral beyond them. doubt: absolute error
    at any node, of parts that say so."""

    log_factor: ComplexArray
    log_tail: float
    spare: Array
    log_spare: Array
    doubt: float = 0.0


class Wanted(NamedTuple):
    """Place at which the integrand is wanted: its width and node distance, the logarithm of the tail that may be left at its far end, the
    tilt, and the epsilon (roughly) and the logarithm relative to e^{K - t eps} of what is asked for."""

    width: float
    step: float
    target: float
    t: float
    epsilon: float
    log_wanted: float


Parts = Sequence[tuple[Tilted, int]]
Method = Callable[[Parts, float, Wanted], Factor | None]


def undivided(tilted: Parts, counts: float, place: Wanted) -> Factor | None:
    end = _end(
        lambda y: sum((n * part.decay(y) for part, n in tilted), 1e-13 * counts + 0.0 * y),
        place,
        max(MAX_NODES // len(tilted), ENOUGH_NODES),
    )
    if end is None:
        return None
    count = math.ceil(end[0] / place.step) + 1
    hold(count)
    log_factor = np.zeros(count, dtype=complex)
    for part, n in tilted:
        log_factor += n * part.centred(place.step, count, NEGLIGIBLE - math.log(counts))
    return Factor(log_factor, end[1], np.zeros(0), np.zeros(0), _doubt(tilted))


def beyond(
    tilted: Parts, counts: float, place: Wanted, levels: Sequence[float] = LEVELS, negligible: float = NEGLIGIBLE
) -> Factor | None:
    """phi^n - B^n, at the first of the levels (shares of epsilon) at which B^n leaves no more than that at epsilon, relative. A part that
    knows how its K rises is a factor of both, whose modulus is at most 1."""
    if place.epsilon <= 0.0:
        return None
    spare = np.geomspace(2.0, 3e3, 65) / place.epsilon
    kept = [(part, rise, n) for part, n in tilted if (rise := getattr(part, "rise", None)) is not None]
    movable: list[tuple[Any, int]] = [(part, n) for part, n in tilted if not hasattr(part, "rise")]
    if not movable:
        return None
    log_kept = sum((n * rise(spare) for _, rise, n in kept), 0.0 * spare)
    if not all(hasattr(part, "split") for part, _ in movable):
        return None
    for share in levels:
        divided = [(part.split(share * place.epsilon), part, n) for part, n in movable]
        log_spare = sum((n * (halves.bulk_cgf(spare) + spare * part.mean) for halves, part, n in divided), log_kept)
        if float((log_spare - spare * place.epsilon + log_hockey(place.t + spare)).min()) <= place.log_wanted + negligible:
            break
    else:
        return None
    end = _end(lambda y: np.logaddexp.reduce([math.log(n) + halves.decay(y) for halves, _, n in divided]), place, ENOUGH_NODES)
    if end is None:
        return None
    count = math.ceil(end[0] / place.step) + 1
    log_whole, log_less = np.zeros(count, dtype=complex), np.zeros(count, dtype=complex)
    for halves, _, n in divided:
        log_error = NEGLIGIBLE - math.log(counts)
        both, less = halves.centred(place.step, count, log_error, log_error + min(place.log_wanted, 0.0))
        log_whole, log_less = log_whole + n * both, log_less + n * less
    for part, _, n in kept:
        log_whole = log_whole + n * part.centred(place.step, count, NEGLIGIBLE - math.log(counts))
    more = log_less.real > 1.0  # where phi decays sooner than B
    left = np.log(-np.expm1(np.where(more, -log_less, log_less)))
    return Factor(
        log_whole + left + np.where(more, log_less + 1j * math.pi, 0.0),
        end[1],
        spare,
        log_spare,
        _doubt([(halves, n) for halves, _, n in divided]),
    )


def _doubt(parts: Sequence[tuple[object, int]]) -> float:
    """Return the error of parts that leave something out and say how much; a product of characteristic functions is off by no more than
    their sum."""
    return math.fsum(n * getattr(part, "doubt", 0.0) for part, n in parts)


def saddle(cumulant: Array, log_delta: float, t: Array) -> Array:
    """The epsilon at which the integrand at y = 0 is delta: least at the saddle point."""
    return np.asarray((cumulant - log_delta - np.log(t) - np.log1p(t)) / t)


def _end(decay: Callable[[Array], Array], place: Wanted, nodes: int) -> tuple[float, float] | None:
    """(Y, log of what lies beyond): the integral of e^{decay(Y)} / y^2 over both sides, and a step's worth of its first term."""
    ends = place.width * 1.3 ** np.arange(1, 120)
    ends = ends[ends <= nodes * place.step]
    for block in np.split(ends, [9, 18]):
        if len(block):
            log_tail = decay(block) - np.log(math.pi * block) + np.log1p(place.step / block)
            enough = np.flatnonzero(log_tail <= place.target)
            if len(enough):
                return float(block[enough[0]]), float(log_tail[enough[0]])
    return None


class Curve(Protocol):
    """A contour, as `solve` reads it."""

    @property
    def t(self) -> float: ...
    @property
    def cumulant(self) -> float: ...
    @property
    def mean(self) -> float: ...
    def sums(self, epsilon: float) -> tuple[float, float]: ...
    def log_delta(self, epsilon: float) -> tuple[float, float]: ...


def solve(contour: Curve, log_delta: float) -> tuple[float, float]:
    """(lower, upper) bounds on the epsilon at which delta(eps) = e^log_delta; they may be negative where delta is large.

    Newton's method finds where the sum itself crosses. It proves nothing: the ends are points on either side at which the certified
    bounds of delta are on the right side of the target, and delta falls in epsilon.
    """
    epsilon, slope = _newton(contour, log_delta)
    low, high = contour.log_delta(epsilon)
    if not slope > 0.0:
        return -math.inf, math.inf
    below, above = (1e-15 * abs(epsilon) + 1.01 * min(max(gap, 0.0), 1.0) / slope for gap in (log_delta - low, high - log_delta))
    return _outside(contour, log_delta, epsilon, -below), _outside(contour, log_delta, epsilon, above)


def _newton(contour: Curve, log_delta: float) -> tuple[float, float]:
    """(epsilon, -d log delta / d epsilon) at the crossing, from the epsilon whose saddle point is t, or Chernoff's bound."""
    t = contour.t
    chernoff = (contour.cumulant - log_delta + t * math.log(t) - (t + 1.0) * math.log1p(t)) / t
    epsilon = min(contour.mean - 1.0 / t - 1.0 / (1.0 + t), chernoff)
    slope, last = math.nan, math.inf
    # Where delta falls in pieces, a step may lead beyond a point that is known to lie on the other side.
    below, above = -math.inf, math.inf
    for _ in range(60):
        total, change = contour.sums(epsilon)
        if not total > 0.0:  # delta is drowned here
            above = min(above, epsilon)
            epsilon = 0.5 * (below + above) if math.isfinite(below) else epsilon - 2.0 / t
            continue
        slope = t - change / total
        if slope == 0.0:
            return epsilon, math.nan
        excess = contour.cumulant - t * epsilon + math.log(total) - log_delta
        below, above = (max(below, epsilon), above) if excess > 0.0 else (below, min(above, epsilon))
        move = min(max(excess / slope, -2.0 / t), 2.0 / t)
        if not abs(move) > 1e-15 * abs(epsilon) or (abs(move) < 1e-9 * abs(epsilon) and abs(move) >= abs(last)):
            break
        if not below < epsilon + move < above and math.isfinite(above - below):
            move = 0.5 * (below + above) - epsilon
        epsilon += move
        last = move
    return epsilon, slope


def _outside(contour: Curve, log_delta: float, epsilon: float, margin: float) -> float:
    """The first of epsilon + margin, + 2 margin, ... at which the bound on that side proves it; infinite where none does."""
    for _ in range(40):
        if not math.isfinite(margin):
            break
        low, high = contour.log_delta(epsilon + margin)
        if (high <= log_delta) if margin > 0.0 else (low >= log_delta):
            return epsilon + margin
        margin *= 2.0
    return math.copysign(math.inf, margin)
