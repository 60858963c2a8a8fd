"""Poisson samples of bounded size: one that is larger than the bound is cut down to it at random."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpcli.base.errors import InputError, NotRepresentable
from dpcli.mechanisms.combined.labelled import Labelled
from dpcli.mechanisms.combined.least_of import LeastOf
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, mixture_of
from dpcli.mechanisms.sampling.cut_sample import cut_sample
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.sampling.sampled_gaussian import sampled_gaussian
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.closed.binomial import log_binomial_tail

FEW = 32  # records of a sample up to which one that is drawn and not kept is worth a shift of its own


def truncated(spec: Spec, rate: Fraction, neighbours: Neighbours, dataset_size: int, most: int) -> Mechanism:
    """`spec` on a Poisson sample of rate q in (0, 1], of which at most B = `most` records, chosen uniformly, are used.

    Let k records change and R be the sample of the n others, n up to dataset_size, or dataset_size - k where both data hold that many.
    Joint convexity lets |R| be known.

    * |R| + k <= B: nothing is cut, and the step is a Poisson sample.
    * Else some of the changing records are used with probability at most p = 1 - (1-q)^k. Otherwise the used records are those that
      are used without the k: a uniform subset of R of size min(B, |R|). Given which i are used, the rest is a uniform subset of R
      that can be coupled, for all i with one order of R, to lack at most i of those. So with them the step is at most i additions and i
      removals away from the step without: for add-remove (W, (1-p) W + p A) with A and W within 2k changes; for zero-out and
      replace-one ((1-p) W + p A, (1-p) W + p A') with the pairs among A, A', W within 2k changes, or within k replacements. A Gaussian
      under add-remove moves by at most 2i of one record's contribution where i or more of the k are drawn: Poisson sampling of k
      records of twice the contribution.

    One record (k = 1), |R| = m >= B: it is used with probability q_m = q B/(m+1), one slot of B for m + 1 that are drawn. Divergences of
    such pairs at a probability s q are convex in s, and at s = 0 none is left: so the step costs at most (1-s) of the case where
    nothing is cut and s = B/(m+1) of the case above at probability q, which costs more. A Gaussian under add-remove: the step is at most
    E_m = (1-q) N(0) + (q - q_m) N(mu) + q_m N(2 mu) against N(0), since the divergence grows with each shift (noise/normal_mixture.py),
    and so does what is not cut; E_m is 1-s of what is not cut and s of E_B, s = (B+1)/(m+1).

    Every case costs at least what is not cut does, so that too large a probability of it serves; no data need attain it. P(|R| > B - k)
    grows with n. So does P(|R| = m), m >= B, up to n = m/q: where B >= n q at the largest n, the mean of (B+1)/(|R|+1) over |R| >= B is
    largest there, P(Binomial(n+1, q) > B) (B+1)/((n+1) q). No delta is spent, unlike in Chua et al. 2024, arXiv:2411.04205, who add the
    probability of a cut to it.

    That is twice the contribution with the probability of a cut. Where cuts are rare, another coupling (cut_sample.py) charges one
    contribution with a larger probability; accountants ask both.

    Raises InputError where units own several records and the statement does not cover the records of others.
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
    told = Labelled(sampled, far, log_cut) if log_cut < 0.0 else far.unclaimed()
    coupled = cut_sample(spec, rate, neighbours, others, most)
    return told if coupled is None else LeastOf((told, coupled))


def _log_cut(others: int, rate: Fraction, most: int, records: int) -> float:
    """Upper bound on the logarithm of the probability of a cut; for one record, of the mean of (B+1)/(|R|+1) over cuts."""
    log_cut = log_binomial_tail(others, rate, max(most - records + 1, 0))
    if records > 1 or most < others * rate:
        return log_cut
    size = (others + 1) * rate
    return min(log_cut, log_binomial_tail(others + 1, rate, most + 1) + math.log((most + 1) / size) + 1e-15)


def _cut(spec: Spec, rate: Fraction, neighbours: Neighbours, most: int) -> tuple[Mechanism, float]:
    """One step of a sample that may be cut, and the logarithm of the share of cuts that it need be charged for."""
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
        each = records if spec.contribution_form else 1
        return sampled_gaussian(shift / each, q if each > 1 else any_drawn, each), 0.0
    if most > FEW:  # one shift has closed forms
        return sampled_gaussian(shift, q, 1), log_share
    used = q * most / (most + 1)
    return GaussianMixture(mixture_of({0.5 * shift: q / (most + 1), shift: used})), 0.0
