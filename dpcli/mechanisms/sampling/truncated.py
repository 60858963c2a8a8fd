"""Poisson samples of bounded size: one that is larger than the bound is cut down to it at random."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpcli.errors import InputError, NotRepresentable
from dpcli.mechanisms.combined.labelled import Labelled
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.sampling.sampled_gaussian import sampled_gaussian
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.closed.binomial import log_binomial_tail


def truncated(spec: Spec, rate: Fraction, neighbours: Neighbours, dataset_size: int, most: int) -> Mechanism:
    """`spec` on a Poisson sample of rate q in (0, 1], of which at most B = `most` records, chosen uniformly, are used.

    Let k records change and R be the sample of all others. Joint convexity lets R be known.

    * |R| + k <= B: nothing is cut, and the step is a Poisson sample.
    * Else k' >= 1 of the changing records are used with probability at most p = 1 - (1-q)^k. Otherwise the used records are those that
      are used without the k: a uniform subset of R of size min(B, |R|). Given which k' are used, the rest is a uniform subset of R
      that can be coupled to lack at most k' of those. So with them the step is at most k' additions and k' removals away from
      the step without: for add-remove (W, (1-p) W + p A) with A and W within 2k changes; for zero-out and replace-one
      ((1-p) W + p A, (1-p) W + p A') with the pairs among A, A', W within 2k changes, or within k replacements.

    |R| > B - k has at most the probability of Binomial(dataset_size, q) > B - k, and the second case costs at least what the first
    does; no data need attain the second. No delta is spent, unlike in Chua et al. 2024, arXiv:2411.04205, who add the probability of
    a cut to it.

    Raises InputError where units own several records and the statement does not cover the records of others.
    """
    sampled = spec.poisson(float(rate), neighbours)
    if neighbours.contributions > 1 and not spec.contribution_form and getattr(spec, "stated_for", None) != "record":
        raise InputError(
            'max_batch_size with units that own several records needs noise_multiplier or stated_for = "record": records of other '
            "units are cut in place of those of one, and a bound per unit does not cover several units at once"
        )
    log_cut = log_binomial_tail(dataset_size, rate, max(most - neighbours.records + 1, 0))
    if log_cut < -745.0 and most - neighbours.records >= dataset_size:
        return sampled
    far = _cut(spec, any_sampled(float(rate), neighbours.records), neighbours)
    return Labelled(sampled, far, max(log_cut, -745.0)) if log_cut < 0.0 else far.unclaimed()


def _cut(spec: Spec, rate: float, neighbours: Neighbours) -> Mechanism:
    """One step of a sample that may be cut."""
    if neighbours.replaces:
        return PoissonReplaced(spec.resolve(neighbours), rate)
    inner = spec.resolve(replace(neighbours, group=2 * neighbours.group))
    return _sampled(inner, rate) if neighbours.adjacency is Adjacency.ADD_REMOVE else PoissonReplaced(inner, rate)


def _sampled(inner: Mechanism, rate: float) -> Mechanism:
    """`inner` on a Poisson sample; a Gaussian by its own pair."""
    try:
        mu = inner.gdp()
    except NotRepresentable:
        return PoissonSampled(inner, rate)
    return sampled_gaussian(mu, rate, 1) if mu > 0.0 else inner
