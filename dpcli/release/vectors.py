"""Noise on a vector of whole numbers: which mechanism answers it at a query's cost."""

from __future__ import annotations

from dpcli.release.cost import Cost
from dpcli.release.query import NoisyQuery, Release, Setting
from dpcli.release.sensitivity import Contribution, sensitivity


def noisy_vector(
    query: NoisyQuery, setting: Setting, contribution: Contribution, suffix: str = "", part: float = 1.0, unit: float = 1.0
) -> Release:
    """Discrete Laplace or Gaussian noise for one number of each key.

    Args:
        contribution: what one unit adds, in whole numbers. part: of the query's cost. unit: of the answer per whole number.
    """
    moved = sensitivity(setting.adjacency, contribution)
    if setting.cost is None:
        assert query.error is not None
        return _of_error(query, moved.l1, moved.l2, moved.coordinates, moved.why, suffix, unit)
    cost = setting.cost.share(part)
    if laplace(query, setting.cost):
        return _laplace(cost.laplace_scale(moved.l1), moved.l1, moved.why, suffix, unit)
    return _gaussian(cost.gaussian_sigma(moved.l2), moved.l1, moved.l2, moved.coordinates, moved.why, suffix, unit)


def laplace(query: NoisyQuery, cost: Cost | None) -> bool:
    """Whether the noise is discrete Laplace: what is pure stays so unless the query says otherwise."""
    return query.noise == "laplace" if query.noise is not None else cost is not None and cost.pure


def _of_error(query: NoisyQuery, l1: int, l2: float, coordinates: int, why: tuple[str, ...], suffix: str, unit: float) -> Release:
    from dpcli.release.answers.scales import gaussian_sigma_within, laplace_scale_within

    assert query.error is not None
    within, confidence = query.error.within / unit, query.error.confidence
    if laplace(query, None):
        return _laplace(laplace_scale_within(within, confidence), l1, why, suffix, unit)
    return _gaussian(gaussian_sigma_within(within, confidence), l1, l2, coordinates, why, suffix, unit)


def _laplace(scale: float, l1: int, why: tuple[str, ...], suffix: str, unit: float) -> Release:
    said = f"discrete Laplace noise of scale {scale:.6g} on an L1 sensitivity of {l1:,}"
    return Release(suffix, "discrete-laplace", {"scale": scale, "sensitivity": l1}, (*why, said), unit=unit)


def _gaussian(sigma: float, l1: int, l2: float, coordinates: int, why: tuple[str, ...], suffix: str, unit: float) -> Release:
    """One number that moves is priced as such, a vector by its L2 sensitivity."""
    keys = {"sigma": sigma, "sensitivity": l1, "dimension": 1} if coordinates == 1 else {"sigma": sigma, "l2_sensitivity": l2}
    said = f"discrete Gaussian noise of sigma {sigma:.6g} on an L2 sensitivity of {l2:.6g}"
    return Release(suffix, "discrete-gaussian", keys, (*why, said), unit=unit)
