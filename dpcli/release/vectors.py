"""Sensitivity of a vector of whole numbers, and the noise on it at a query's cost.

The measures (measures/) call it for their mechanisms. The vector has one number (a count or a sum, in whole steps) for each *key* of an
answer; a *unit* is whom the release protects, with all of its rows. A *contribution* bounds what one unit adds: to how many keys, with how
many rows, and how much per row. `sensitivity` turns it into upper bounds on the L1 and squared L2 norms under the adjacency, as exact
integers, with a derivation in words that users read (`why`). Noise for a cost is rounded up (cost.py). The engine must enforce the same
contribution (aggregate.py): if it let a unit add more, the noise would be too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR

from dpcli.base.rounding import counted, figures
from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.release.answers.intervals import spread_within, whole_steps
from dpcli.release.cost import QueryCost
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw, smallest_whole
from dpcli.release.query import NoisyQuery, QueryMechanism, QuerySetting


@dataclass(frozen=True, slots=True)
class Contribution:
    """A bound on what one unit adds to a vector of whole numbers, which has a coordinate for each key.

    groups: largest number of coordinates to which the unit adds.
    rows: largest number of rows that the unit adds to one coordinate.
    least, most: smallest and largest whole number that one row adds; 1 if rows are counted.
    one_row_always: true if the unit has exactly one row that counts in every dataset. Both versions of a replaced unit then count.
    one_key: true if the vector has a single coordinate.
    noun: word for what the unit adds, if not rows.
    """

    groups: int
    rows: int
    least: int = 1
    most: int = 1
    one_row_always: bool = False
    one_key: bool = False
    noun: str = "row"

    @property
    def size(self) -> int:
        """The largest absolute value that a unit adds to one coordinate."""
        return self.rows * max(abs(self.least), abs(self.most))

    @property
    def span(self) -> int:
        """The largest change of one coordinate when a unit is replaced. A version of the unit without a row adds 0."""
        least, most = (self.least, self.most) if self.one_row_always else (min(self.least, 0), max(self.most, 0))
        return self.rows * (most - least)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The sensitivity of a vector of whole numbers.

    l1: L1 sensitivity, an exact integer.
    squared_l2: square of the L2 sensitivity, an exact integer, although the L2 sensitivity itself may be irrational.
    coordinates: largest number of coordinates that one unit changes.
    why: derivation of the sensitivity, one line for each step.
    """

    l1: int
    squared_l2: int
    coordinates: int
    why: tuple[str, ...]

    @property
    def l2(self) -> float:
        """L2 sensitivity, rounded up unless it is a whole number."""
        root = math.isqrt(self.squared_l2)
        is_exact = root * root == self.squared_l2 and root < 2**53  # a double represents all whole numbers below 2^53
        return float(root) if is_exact else math.nextafter(math.sqrt(self.squared_l2), math.inf)


def sensitivity(adjacency: Adjacency, contribution: Contribution) -> Sensitivity:
    """Return upper bounds on the L1 and L2 distances between the vectors of two neighbouring datasets.

    Under add-remove and zero-out, the rows of a unit are added or removed: L1 = groups x size, L2 = sqrt(groups) x size. Blanking a row is
    like removing it, because a row without any value does not count (`filled_columns` in group_keys.py).

    Under replace-one, an old version of the unit is removed and a new version is added. A coordinate to which both versions add changes by
    at most the span, which is at most twice the size. A coordinate to which only one version adds changes by at most the size. Let j be the
    number of coordinates to which both versions add. Up to 2 (groups - j) further coordinates get a contribution of one version. The bounds
    on L1 and on the square of L2 are linear in j, so they are largest at j = 0 or j = groups.
    """
    size, span = contribution.size, contribution.span
    groups = 1 if contribution.one_key else contribution.groups
    if adjacency is not Adjacency.REPLACE_ONE:
        which = "the number" if contribution.one_key else "each of these keys"
        change = f"its rows are added or removed: {which} changes by at most {size:,}"
        return Sensitivity(groups * size, groups * size * size, groups, (*_contribution_words(contribution), change))
    if contribution.one_key:
        both = "both versions count" if contribution.one_row_always else "a version may also add nothing"
        change = f"another version of the unit replaces it ({both}): the number changes by at most {span:,}"
        return Sensitivity(span, span * span, 1, (*_contribution_words(contribution), change))
    change = f"a new version replaces the old one: up to {2 * groups:,} keys change by {size:,} each, or {groups:,} by {span:,}"
    l1, squared_l2 = groups * max(2 * size, span), groups * max(2 * size * size, span * span)
    return Sensitivity(l1, squared_l2, 2 * groups, (*_contribution_words(contribution), change))


def _contribution_words(contribution: Contribution) -> tuple[str, str]:
    """Return the first two steps of a derivation: the rows that a unit adds, and what a row adds."""
    noun, least, most = contribution.noun, contribution.least, contribution.most
    rows = counted(contribution.rows, noun)
    if contribution.one_key:
        of_unit = f"one unit adds at most {rows}"
    else:
        of_unit = f"one unit adds to at most {contribution.groups:,} of the keys, {rows} to each"
    of_row = f"a {noun} adds {least:,}" if least == most else f"a {noun} adds from {least:,} to {most:,}"
    return of_unit, of_row


def least_threshold(spec: StabilityHistogramSpec, neighbours: Neighbours, delta: float) -> int:
    """Return the smallest threshold >= 1 for which the stability histogram has at most this delta. The threshold of `spec` is ignored.

    `delta_floor` is the delta up to which the mechanism may have no finite epsilon: here a bound on the probability of showing a key that
    only one unit has.
    """
    return smallest_whole(lambda threshold: replace(spec, threshold=threshold).resolve(neighbours).delta_floor() <= delta, 1)


def noisy_vector(
    query: NoisyQuery,
    setting: QuerySetting,
    contribution: Contribution,
    suffix: str = "",
    cost_share: float = 1.0,
    step_size: float = 1.0,
) -> QueryMechanism:
    """Return the mechanism that adds discrete Laplace or Gaussian noise to a vector with one number for each key.

    suffix: end of the mechanism's name in the account; "" if the query has one mechanism.
    cost_share: share of the query's cost that the mechanism may use.
    step_size: size of one step of the vector's numbers, in units of the answer.
    """
    return noisy_vector_of(query, setting, sensitivity(setting.adjacency, contribution), suffix, cost_share, step_size)


def noisy_vector_of(
    query: NoisyQuery, setting: QuerySetting, norms: Sensitivity, suffix: str = "", cost_share: float = 1.0, step_size: float = 1.0
) -> QueryMechanism:
    """Return the mechanism that adds noise to a vector of this sensitivity. The other arguments are as in `noisy_vector`."""
    law = _law(query, setting.cost, norms, cost_share, step_size)
    spread = figures(law.spread, 6, ROUND_FLOOR)
    if isinstance(law, DiscreteLaplaceLaw):
        noise = f"discrete Laplace noise of scale {spread} on an L1 sensitivity of {norms.l1:,}"
        keys = {"scale": law.scale, "sensitivity": norms.l1}
        return QueryMechanism(suffix, "discrete-laplace", keys, (*norms.why, noise), law, step_size=step_size)
    noise = f"discrete Gaussian noise of sigma {spread} on an L2 sensitivity of {figures(norms.l2, 6, ROUND_CEILING)}"
    # Noise on one integer has a tighter price than noise on a vector with the same norm, so a single coordinate is stated as such.
    stated = {"sensitivity": norms.l1, "dimension": 1} if norms.coordinates == 1 else {"l2_sensitivity": norms.l2}
    return QueryMechanism(
        suffix, "discrete-gaussian", {"sigma": law.spread, **stated}, (*norms.why, noise), law, step_size=step_size
    )


def key_selection(
    query: NoisyQuery, setting: QuerySetting, contribution: Contribution, delta: float, suffix: str = "", cost_share: float = 1.0
) -> QueryMechanism:
    """Return a stability histogram: noise on the count of each key in the data, and a threshold above which a key is shown.

    delta: bound on the probability of showing a key that only one unit has. The threshold is the smallest that keeps it.
    suffix, cost_share: as in `noisy_vector`.
    """
    norms = sensitivity(setting.adjacency, contribution)
    law = _law(query, setting.cost, norms, cost_share, step_size=1.0)
    spread = {"scale": law.spread} if isinstance(law, DiscreteLaplaceLaw) else {"sigma": law.spread}
    limits = {"max_groups": contribution.groups, "max_rows": contribution.rows}
    spec = StabilityHistogramSpec(threshold=1, **spread, **limits)  # type: ignore[arg-type]  # `least_threshold` replaces the threshold
    threshold = least_threshold(spec, Neighbours(setting.adjacency), delta)
    shown = (
        f"a key is shown if its count, with noise of {figures(law.spread, 6, ROUND_FLOOR)}, exceeds {threshold:,}: a key that only one "
        f"unit has is shown with probability at most {delta:g}"
    )
    return QueryMechanism(suffix, "stability-histogram", {"threshold": threshold, **spread, **limits}, (*norms.why, shown), law)


def is_laplace(query: NoisyQuery, cost: QueryCost | None) -> bool:
    """Return whether the noise is discrete Laplace: as the query states, or, without a statement, if the cost is a pure epsilon."""
    if query.noise is not None:
        return query.noise == "laplace"
    return cost is not None and cost.pure


def _law(query: NoisyQuery, cost: QueryCost | None, norms: Sensitivity, cost_share: float, step_size: float) -> NoiseLaw:
    """Return the distribution of the noise: it meets the query's error target if there is no cost, and else costs a share of the cost."""
    if cost is None:
        return _law_within_error(query, step_size)
    shared_cost = cost.share(cost_share) if cost_share < 1.0 else cost  # `share` rounds down, which the whole cost does not need
    if is_laplace(query, cost):
        return DiscreteLaplaceLaw(shared_cost.laplace_scale(norms.l1))
    return DiscreteGaussianLaw(shared_cost.gaussian_sigma(norms.squared_l2))


def _law_within_error(query: NoisyQuery, step_size: float) -> NoiseLaw:
    """Return the law with the most noise that meets the query's error target."""
    assert query.error is not None
    law_class = DiscreteLaplaceLaw if is_laplace(query, None) else DiscreteGaussianLaw
    return law_class(spread_within(law_class, whole_steps(query.error.within, step_size), query.error.confidence))
