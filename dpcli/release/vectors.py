"""Noise on a vector of whole numbers: which mechanism answers it at a query's cost."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR

from dpcli.base.rounding import figures
from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.release.cost import QueryCost
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from dpcli.release.query import NoisyQuery, QueryRelease, QuerySetting
from dpcli.release.sensitivity import Contribution, Sensitivity, sensitivity
from dpcli.release.stability.histogram import least_threshold


def noisy_vector(
    query: NoisyQuery, setting: QuerySetting, contribution: Contribution, suffix: str = "", part: float = 1.0, unit: float = 1.0
) -> QueryRelease:
    """Discrete Laplace or Gaussian noise for one number of each key.

    Args:
        contribution: what one unit adds, in whole numbers. part: of the query's cost. unit: of the answer per whole number.
    """
    return noisy_moved(query, setting, sensitivity(setting.adjacency, contribution), suffix, part, unit)


def noisy_moved(
    query: NoisyQuery, setting: QuerySetting, moved: Sensitivity, suffix: str = "", part: float = 1.0, unit: float = 1.0
) -> QueryRelease:
    """The same for a vector that is known to move by this much."""
    law = _law(query, setting.cost, moved, part, unit)
    if isinstance(law, DiscreteLaplaceLaw):
        said = f"discrete Laplace noise of scale {figures(law.scale, 6, ROUND_FLOOR)} on an L1 sensitivity of {moved.l1:,}"
        return QueryRelease(
            suffix, "discrete-laplace", {"scale": law.scale, "sensitivity": moved.l1}, (*moved.why, said), law, unit
        )
    sigma, l2 = figures(law.spread, 6, ROUND_FLOOR), figures(moved.l2, 6, ROUND_CEILING)
    said = f"discrete Gaussian noise of sigma {sigma} on an L2 sensitivity of {l2}"
    one = {"sensitivity": moved.l1, "dimension": 1} if moved.coordinates == 1 else {"l2_sensitivity": moved.l2}
    return QueryRelease(suffix, "discrete-gaussian", {"sigma": law.spread, **one}, (*moved.why, said), law, unit)


def shown_keys(query: NoisyQuery, setting: QuerySetting, contribution: Contribution, delta: float) -> QueryRelease:
    """Noisy counts of the keys that the data hold, where they exceed the least threshold that costs no more than delta."""
    moved = sensitivity(setting.adjacency, contribution)
    law = _law(query, setting.cost, moved, 1.0, 1.0)
    spread = {"scale": law.spread} if isinstance(law, DiscreteLaplaceLaw) else {"sigma": law.spread}
    limits = {"max_groups": contribution.groups, "max_rows": contribution.rows}
    spec = StabilityHistogramSpec(threshold=1, **spread, **limits)  # type: ignore[arg-type]
    threshold = least_threshold(spec, Neighbours(setting.adjacency), delta)
    said = (
        f"a key is shown where its count, with noise of {figures(law.spread, 6, ROUND_FLOOR)}, exceeds {threshold:,}: one that a unit "
        f"alone holds with probability {delta:g} at most"
    )
    return QueryRelease("", "stability-histogram", {"threshold": threshold, **spread, **limits}, (*moved.why, said), law)


def laplace(query: NoisyQuery, cost: QueryCost | None) -> bool:
    """Whether the noise is discrete Laplace: what is pure stays so unless the query says otherwise."""
    return query.noise == "laplace" if query.noise is not None else cost is not None and cost.pure


def _law(query: NoisyQuery, cost: QueryCost | None, moved: Sensitivity, part: float, unit: float) -> NoiseLaw:
    if cost is None:
        return _within(query, unit)
    mine = cost.share(part) if part < 1.0 else cost
    if laplace(query, cost):
        return DiscreteLaplaceLaw(mine.laplace_scale(moved.l1))
    return DiscreteGaussianLaw(mine.gaussian_sigma(moved.squared_l2))


def _within(query: NoisyQuery, unit: float) -> NoiseLaw:
    """The law that keeps the query's promise of an error."""
    from dpcli.release.answers.target import spread_within, whole_steps

    assert query.error is not None
    steps, kind = whole_steps(query.error.within, unit), DiscreteLaplaceLaw if laplace(query, None) else DiscreteGaussianLaw
    return kind(spread_within(kind, steps, query.error.confidence))
