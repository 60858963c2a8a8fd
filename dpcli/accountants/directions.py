"""The privacy losses of a composition, in each direction of the neighbouring relation.

One direction compares the output on a dataset with the output on its neighbour, the other one the reverse. The two may cost different
amounts, so the accountants exact and pld bound them separately, and epsilon is the larger of both. They compose privacy losses log dP/dQ of
pairs of distributions (P, Q) that *dominate* the mechanisms: the delta of a pair is at least that of its mechanism at every epsilon. A
mechanism *attains* its pair if some neighbouring datasets really have these two laws. `directions` returns one list of losses per
direction. Where several compositions dominate the given one, `smallest_bound` returns the smallest of their bounds.
"""

from __future__ import annotations

from collections.abc import Callable

from dpcli.accountants.base import Bound, Steps, join_equal_steps, views
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss, in_direction
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import Array, np

Losses = tuple[tuple[PrivacyLoss, int], ...]


def parts_of(mechanism: Mechanism, count: int) -> Steps:
    """Return the steps that `count` runs of a mechanism consist of: 3 runs of `Composed(((A, 2), (B, 1)))` are 6 of A and 3 of B."""
    if isinstance(mechanism, Composed):
        return flatten(tuple((part, n * count) for part, n in mechanism.parts))
    return ((mechanism, count),)


def flatten(steps: Steps) -> Steps:
    """Return the steps with each composed mechanism replaced by its parts, times its count."""
    return tuple(part for mechanism, count in steps for part in parts_of(mechanism, count))


def directions(steps: Steps) -> tuple[Losses, ...]:
    """Return the composition's losses in each direction, "remove" first, or in one direction if both have the same losses.

    Steps that cost nothing are dropped. Steps that have a Renyi curve but no dominating pair are replaced by a single loss, that of the
    best pair for the sum of their curves.

    Raises NotRepresentable if no step has a pair, if a step has neither a pair nor a curve, or if a step that attains its pair has no
    computable losses.
    """
    parts = join_equal_steps(flatten(steps))
    parts = tuple(step for step in parts if step[0] != Free()) or parts[:1]  # Free costs nothing; one is kept if all are
    losses_of_parts: list[tuple[tuple[PrivacyLoss, ...], int]] = []  # losses by direction, and the number of runs
    without_pair: list[tuple[Mechanism, int]] = []
    for mechanism, count in parts:
        try:
            losses_of_parts.extend(mechanism.losses_of_runs(count))
        except NotRepresentable:
            if mechanism.attained():  # a lower bound for a substitute pair would be taken for one on the mechanism
                raise
            without_pair.append((mechanism, count))
    if without_pair:
        from dpcli.mechanisms.stated.renyi import RenyiPairLoss

        # `views` raises NotRepresentable, naming the steps that lack what is needed: a Renyi curve, or a pair if no step has one.
        needed_view: Callable[[Mechanism], object] = _order_two if losses_of_parts else lambda mechanism: mechanism.losses()
        views(tuple(without_pair), needed_view)
        losses_of_parts.append(((RenyiPairLoss(tuple(without_pair)),), 1))
    number = max(len(losses) for losses, _ in losses_of_parts)
    return tuple(tuple((in_direction(losses, k), count) for losses, count in losses_of_parts) for k in range(number))


def _order_two(mechanism: Mechanism) -> Array:
    """Return the mechanism's Renyi divergence of order 2. Raises NotRepresentable if it has no Renyi curve."""
    return mechanism.rdp(np.array([2.0]))


def dominating_compositions(steps: Steps) -> tuple[Steps, ...]:
    """Return compositions that each dominate this one. The k-th uses the k-th of each mechanism's `dominating`, or the last one.

    A release with several proofs has several dominating mechanisms, none of which is the best at every epsilon (`LeastOf`).
    """
    parts = [(mechanism.dominating(), count) for mechanism, count in flatten(steps)]
    number = max((len(dominating) for dominating, _ in parts), default=1)
    if number == 1:
        return (steps,)
    return tuple(tuple((dominating[min(k, len(dominating) - 1)], count) for dominating, count in parts) for k in range(number))


def smallest_bound(bound_of: Callable[[Steps], Bound], steps: Steps) -> Bound:
    """Return the smallest of the bounds that `bound_of` gives for the dominating compositions.

    The smallest of their lower bounds is a lower bound on the smallest epsilon, if all of them are known. If all compositions are refused,
    raises NotRepresentable with the first reason.
    """
    compositions = dominating_compositions(steps)
    if len(compositions) == 1:
        return bound_of(steps)
    bounds: list[Bound] = []
    reason: NotRepresentable | None = None
    for composition in compositions:
        try:
            bounds.append(bound_of(composition))
        except NotRepresentable as error:
            reason = reason or error
    if not bounds and reason is not None:
        raise reason
    best = min(bounds, key=lambda bound: bound.upper)
    lowers = [bound.lower for bound in bounds if bound.lower is not None]
    return Bound(best.upper, min(lowers) if len(lowers) == len(compositions) else None, best.detail)
