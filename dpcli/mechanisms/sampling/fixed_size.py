"""Sampling of a fixed number of records without replacement, replace-one."""

from __future__ import annotations

from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.sampling.poisson import PoissonReplaced


def fixed_size(inner: Mechanism, rate: float, records: int) -> Mechanism:
    """`inner`, resolved under replace-one, on a sample of `rate` times the records drawn without replacement.

    A sample that lacks the changed record holds another in its place, so all three distributions of the ternary bound are one
    replacement apart and the query's replace-one sensitivity suffices (arXiv:1808.00087, Theorem 9). For a group, at least one of
    its records is drawn with probability at most `records * rate`.
    """
    group_rate = min(1.0, records * rate)
    if group_rate < 1.0:
        return PoissonReplaced(inner, group_rate)
    return inner if rate >= 1.0 else inner.unclaimed()  # some sample may hold fewer than all of the group
