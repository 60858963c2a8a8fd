"""Poisson samples of bounded size: one that is larger than the bound is cut down to it at random.

Another coupling compares a cut sample with the uncut samples that it looks like.

One record x comes or goes, or changes; R is the sample of the n others, q the rate, B the bound. A cut sample of which x is kept holds B -
1 others, a uniform set of that many: so it is as an uncut R of size B - 1 with x, and need not be told from that. For a set S of at most B
- 1 others let w be the probability that S with x is used, over that of R = S. It is q for |S| < B - 1, and for |S| = B - 1

    q + tau / alpha,  alpha = P(|R| = B - 1),  tau = q E[B / (|R| + 1); |R| >= B].

If |R| = m >= B, a set of B others is used with x there 1 - q B/(m+1) times as often as without. Let, for a weight w,

    F(w) = int ((1-q) Q + w P - gamma Q)+        add-remove, (P, Q) the outputs with x and without
    F(w) = int ((1-q) W + w P - gamma ((1-q) W + w Q))+        P, Q the outputs with either version of x, W without.

int (p - gamma q)+ is subadditive: the divergence of the step is at most E F(w) over the sets used without x, where w = q - q B/(m+1) may
stand for |R| = m >= B: (1 - q B/(m+1) - gamma)+, or (1 - q B/(m+1)) (1 - gamma)+, is at most F there (Jensen). F is convex, and so are its
bounds by the pair of the mechanism on a sample of rate w / (1 - q + w), times 1 - q + w; the mean of w is q. So what spreads w more costs
more: E (w - q - y)+ = (tau - alpha y)+ and, since q B/(m+1) <= q B/(B+1), E (q - w - y)+ <= (tau - tau y (B+1)/(q B))+ decide, y >= 0. The
ratio tau / alpha grows with n, as all ratios of P(|R| = m), m >= B, to P(|R| = B - 1) do; tau does as long as B >= n q, where each P(|R| =
m) does. With the largest tau, and alpha = tau over the ratio at the largest n, three weights cover every n:

    w = q + tau / alpha with alpha,  q / (B+1) with tau (B+1)/(q B),  q otherwise.

Under add-remove the three are told by P and Q with different probabilities; elsewhere with the same.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.labelled import Labelled, LabelledLoss, LeastOf, log_mean
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, mixture_of
from dpcli.mechanisms.noise.gaussian_spec import sampled_gaussian
from dpcli.mechanisms.sampling.poisson import NO_RHO, PoissonReplaced, PoissonSampled
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.discrete_tails import log_binomial_tail, log_binomial_term
from dpcli.numerics.tails import single_epsilon_upper

FEW_OTHERS = 64  # others of whom every number is tried
FEW = 32  # records of a sample up to which one that is drawn and not kept is worth a shift of its own


@dataclass(frozen=True, slots=True)
class CutSample(Mechanism):
    """Each mechanism with e^log_p and e^log_q: how likely P and Q are to take it, which is seen. Not attained."""

    parts: tuple[tuple[Mechanism, float, float], ...]

    def approx_dp(self, delta: float) -> float:
        """Return epsilon from the tails of its pairs; at delta = 0 the largest loss."""
        if delta <= 0.0:
            return max(mechanism.approx_dp(0.0) + abs(log_p - log_q) for mechanism, log_p, log_q in self.parts)
        return max(single_epsilon_upper(loss, math.log(delta), 1.0) for loss in self.losses())

    def delta_floor(self) -> float:
        return math.fsum(math.exp(max(log_p, log_q)) * mechanism.delta_floor() for mechanism, log_p, log_q in self.parts)

    def zcdp(self) -> float:
        raise NotRepresentable(NO_RHO)

    def losses(self) -> tuple[PrivacyLoss, ...]:
        sides = [mechanism.losses() for mechanism, _, _ in self.parts]
        p, q = tuple(log_p for _, log_p, _ in self.parts), tuple(log_q for _, _, log_q in self.parts)
        first, last = tuple(side[0] for side in sides), tuple(side[-1] for side in sides)
        if p == q and first == last:
            return (LabelledLoss(p, first),)
        return LabelledLoss(p, first, q), LabelledLoss(q, last, p)

    def rdp(self, orders: Array) -> Array:
        """e^{(a-1) D_a} is jointly convex: those of the parts, weighed, times what the label adds."""
        z = orders - 1.0
        curves = np.array([z * mechanism.rdp(orders) for mechanism, _, _ in self.parts])
        p, q = (np.array([[part[side]] for part in self.parts]) for side in (1, 2))
        return np.asarray(np.maximum(log_mean(p, curves + z * (p - q)), log_mean(q, curves + z * (q - p))) / z * (1.0 + 1e-13))


def cut_sample(spec: Spec, rate: Fraction, neighbours: Neighbours, others: int, most: int) -> Mechanism | None:
    """`spec` for one record beside up to `others`, of a sample cut to `most`; None if the mean of |R| is beyond that, unless it is
    small."""
    q = float(rate)
    if neighbours.records != 1:
        return None
    tau, ratio = _most_moved(others, rate, most), _ratio(others, rate, most)
    if tau is None or not (tau > 1e-300 and 0.0 < ratio < math.inf):
        return None
    few = tau * (most + 1) / (q * most)
    alpha = min(tau / ratio, 1.0 - few)  # a smaller one spreads w more
    if alpha <= 1e-300:
        return None
    weights = ((1.0 - alpha - few, q), (alpha, q + tau / alpha), (few, q / (most + 1)))
    parts = []
    for probability, weight in weights:
        if probability <= 0.0:
            continue
        log_q, log_p = math.log(probability), math.log(probability) + math.log1p(weight - q)
        mechanism = spec.poisson(weight / (1.0 - q + weight), neighbours)
        parts.append((mechanism, log_p, log_q if neighbours.adjacency is Adjacency.ADD_REMOVE else log_p))
    return CutSample(tuple(parts))


def _moved(others: int, rate: Fraction, most: int) -> float:
    """tau from above: B / (n+1) P(Binomial(n+1, q) > B)."""
    return most / (others + 1) * math.exp(log_binomial_tail(others + 1, rate, most + 1)) * (1.0 + 1e-15)


def _most_moved(others: int, rate: Fraction, most: int) -> float | None:
    """The largest tau of up to so many others; None if it is not known."""
    if most >= others * rate:
        return _moved(others, rate, most)
    return max(_moved(n, rate, most) for n in range(most, others + 1)) if others <= FEW_OTHERS else None


def _ratio(others: int, rate: Fraction, most: int) -> float:
    """tau / alpha from above."""
    if rate == 1:
        return math.inf
    log_alpha = log_binomial_term(others, rate, most - 1)
    return _moved(others, rate, most) / math.exp(log_alpha) * (1.0 + 1e-15) if log_alpha > -700.0 else math.inf


def truncated(spec: Spec, rate: Fraction, neighbours: Neighbours, dataset_size: int, most: int) -> Mechanism:
    """`spec` on a Poisson sample of rate q in (0, 1], of which at most B = `most` records, chosen uniformly, are used.

    Let k records change and R be the sample of the n others, n up to dataset_size, or dataset_size - k if both data hold that many.
    Joint convexity lets |R| be known.

    * |R| + k <= B: nothing is cut, and the step is a Poisson sample.
    * Else some of the changing records are used with probability at most p = 1 - (1-q)^k. Otherwise the used records are those that
      are used without the k: a uniform subset of R of size min(B, |R|). Given which i are used, the rest is a uniform subset of R
      that can be coupled, for all i with one order of R, to lack at most i of those. So with them the step is at most i additions and i
      removals away from the step without: for add-remove (W, (1-p) W + p A) with A and W within 2k changes; for zero-out and
      replace-one ((1-p) W + p A, (1-p) W + p A') with the pairs among A, A', W within 2k changes, or within k replacements. A Gaussian
      under add-remove moves by at most 2i of one record's contribution if i or more of the k are drawn: Poisson sampling of k
      records of twice the contribution.

    One record (k = 1), |R| = m >= B: it is used with probability q_m = q B/(m+1), one slot of B for m + 1 that are drawn. Divergences of
    such pairs at a probability s q are convex in s, and at s = 0 none is left: so the step costs at most (1-s) of the case if
    nothing is cut and s = B/(m+1) of the case above at probability q, which costs more. A Gaussian under add-remove: the step is at most
    E_m = (1-q) N(0) + (q - q_m) N(mu) + q_m N(2 mu) against N(0), since the divergence grows with each shift (noise/normal_mixture.py),
    and so does what is not cut; E_m is 1-s of what is not cut and s of E_B, s = (B+1)/(m+1).

    Every case costs at least what is not cut does, so that too large a probability of it serves; no data need attain it. P(|R| > B - k)
    grows with n. So does P(|R| = m), m >= B, up to n = m/q: if B >= n q at the largest n, the mean of (B+1)/(|R|+1) over |R| >= B is
    largest there, P(Binomial(n+1, q) > B) (B+1)/((n+1) q). No delta is spent, unlike in Chua et al. 2024, arXiv:2411.04205, who add the
    probability of a cut to it.

    That is twice the contribution with the probability of a cut. If cuts are rare, another coupling (`cut_sample`) charges one
    contribution with a larger probability; accountants ask both.

    Raises InputError if units own several records and the statement does not cover the records of others.
    """
    sampled = spec.poisson(float(rate), neighbours)
    if neighbours.contributions > 1 and not spec.contribution_form and getattr(spec, "stated_for", None) != "record":
        raise InputError(
            'max_batch_size with units that own several records needs noise_multiplier or stated_for = "record": records of other '
            "units are cut in place of those of one, and a bound per unit does not cover several units at once"
        )
    records = neighbours.records
    others = dataset_size if neighbours.adjacency is Adjacency.ADD_REMOVE else max(dataset_size - records, 0)
    if others + records <= most:
        return sampled
    far, log_share = _cut(spec, rate, neighbours, most)
    log_cut = max(_log_cut(others, rate, most, records) + log_share, -745.0)
    labelled = Labelled(sampled, far, log_cut) if log_cut < 0.0 else far.unclaimed()
    coupled = cut_sample(spec, rate, neighbours, others, most)
    return labelled if coupled is None else LeastOf((labelled, coupled))


def _log_cut(others: int, rate: Fraction, most: int, records: int) -> float:
    """Upper bound on the logarithm of the probability of a cut; for one record, of the mean of (B+1)/(|R|+1) over cuts."""
    log_cut = log_binomial_tail(others, rate, max(most - records + 1, 0))
    if records > 1 or most < others * rate:
        return log_cut
    size = (others + 1) * rate
    return min(log_cut, log_binomial_tail(others + 1, rate, most + 1) + math.log((most + 1) / size) + 1e-15)


def _cut(spec: Spec, rate: Fraction, neighbours: Neighbours, most: int) -> tuple[Mechanism, float]:
    """Return one step of a sample that may be cut, and the logarithm of the share of cuts that it need be charged for."""
    records, q = neighbours.records, float(rate)
    any_drawn = any_sampled(q, records)
    log_share = math.log(most / (most + 1)) + 1e-15 if records == 1 else 0.0
    if neighbours.replaces:
        return PoissonReplaced(spec.resolve(neighbours), any_drawn), log_share
    inner = spec.resolve(replace(neighbours, group=2 * neighbours.group))
    if neighbours.adjacency is not Adjacency.ADD_REMOVE:
        return PoissonReplaced(inner, any_drawn), log_share
    try:
        shift = inner.gdp()
    except NotRepresentable:
        return PoissonSampled(inner, any_drawn), log_share
    if shift <= 0.0:
        return inner, 0.0
    if records > 1:
        records_moved = records if spec.contribution_form else 1
        return sampled_gaussian(shift / records_moved, q if records_moved > 1 else any_drawn, records_moved), 0.0
    if most > FEW:  # one shift has closed forms
        return sampled_gaussian(shift, q, 1), log_share
    kept_rate = q * most / (most + 1)
    return GaussianMixture(mixture_of({0.5 * shift: q / (most + 1), shift: kept_rate})), 0.0
