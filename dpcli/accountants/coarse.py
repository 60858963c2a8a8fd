"""Thousands of different sampled Gaussians, as fewer that are a little louder, and as fewer that are a little quieter.

Between such steps of one number of records the larger contribution and the larger rate lose more, in either direction and at every epsilon.
Of a group of k records of which each is sampled at rate q, and whose contributions are mu over the noise, the sum moves by j mu with the
weight of Bin(k, q) at j, which grows stochastically with q and with mu. Add-remove: P is N(j mu, 1) so mixed, Q is N(0, 1), and P/Q is a
sum of increasing exponentials, so that the sets {x > t} attain H_g(P, Q), and {x < t} attain H_g(Q, P): P(x > t) grows and Q stays.
Replace-one: Q is the mirror image, P/Q increases again, and Q(x > t) falls. Composition keeps an order that holds for every part: Zhu,
Dong, Wang 2022, arXiv:2106.08567, Theorem 10.
"""

from __future__ import annotations

from dataclasses import replace

from dpcli.accountants.base import Steps
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import shared

FEW = 500  # different sampled Gaussians that are left of more
RATIOS = tuple(2.0**-k for k in range(16, 0, -1))  # logarithms of the ratios between neighbours, finest first
KINDS: tuple[type[Mechanism], ...] = (SampledGaussian, SampledGaussianReplaced)


@shared(4)
def coarse(steps: Steps, most: int, few: int = FEW) -> tuple[Steps, Steps] | None:
    """Steps that dominate these, one for one, and steps that these dominate; None for at most `most` different ones, or `few` sampled
    Gaussians.

    Contributions and rates are moved to powers of the smallest ratio that leaves at most `few` different sampled Gaussians, up or down, and
    never past the largest or smallest that there is.
    """
    each = {mechanism for mechanism, _ in steps}
    moved = sorted((m for m in each if type(m) in KINDS), key=repr)
    if len(each) <= most or len(moved) <= few:
        return None
    columns = np.array([(KINDS.index(type(m)), m.records, m.mu, m.rate) for m in moved])  # type: ignore[attr-defined]
    for ratio in RATIOS:
        above, below = _moved(columns, ratio, np.ceil), _moved(columns, ratio, np.floor)
        if max(len(np.unique(rows, axis=0)) for rows in (above, below)) <= few:
            return _replaced(steps, moved, above), _replaced(steps, moved, below)
    return None


def _moved(columns: Array, ratio: float, way: np.ufunc) -> Array:
    """Contributions and rates at powers of the ratio, and on the right side of what they were."""
    result = columns.copy()
    for k in (2, 3):
        values = columns[:, k]
        powers = np.exp(ratio * way(np.log(values) / ratio))
        limit = np.maximum if way is np.ceil else np.minimum
        result[:, k] = limit(np.clip(powers, values.min(), values.max()), values)
    return result


def _replaced(steps: Steps, moved: list[Mechanism], rows: Array) -> Steps:
    """Return the steps with those of `rows` in place of `moved`; equal rows are one mechanism."""
    known: dict[tuple[float, ...], Mechanism] = {}
    instead: dict[Mechanism, Mechanism] = {}
    for mechanism, row in zip(moved, rows.tolist(), strict=True):
        key = tuple(row)
        if key not in known:
            known[key] = replace(mechanism, mu=key[2], rate=key[3])  # type: ignore[type-var]
        instead[mechanism] = known[key]
    return tuple((instead.get(mechanism, mechanism), count) for mechanism, count in steps)
