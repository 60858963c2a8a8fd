"""The joint cost of several pipelines on one dataset: all their mechanisms, added up as if one file held them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpcli.analysis.account import Account, priced
from dpcli.analysis.account_rows import require_known
from dpcli.analysis.asking import Panel
from dpcli.analysis.promised import binding_charges
from dpcli.base.errors import InputError
from dpcli.base.registry import ACCOUNTANTS
from dpcli.file.pipeline.datasets import by_dataset
from dpcli.file.pipeline.model import Budget, Pipeline, Privacy
from dpcli.numerics.work import limited

FIXED = (
    "the sum holds if its files were fixed before the first of them ran; charge what was chosen later to a ledger (dpcli budget)"
)


@limited
def together(
    parts: Sequence[tuple[Pipeline, int]],
    accountants: Sequence[str] | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    group_size: int = 1,
    tolerance: float | None = None,
    budget: Budget | None = None,
    rows: bool = True,
) -> Account:
    """The account of pipelines that name one dataset, each with how often it runs.

    Every mechanism is resolved in its own file (contributions, size, samples, partitions: those of two files are never taken for one), and
    all are composed by the accountants: an upper bound, and at most what the files' epsilons at shares of delta add up to by any of them.
    An adaptive file counts with its cap, which is what it may come to.

    Premise: the files were fixed before the first run. One that joins later may have been chosen from outputs, and is charged to a ledger.

    Args:
        delta: at which epsilon is asked for; the budget's, else the smallest above 0 that a file states.
        budget: the cap on all together, if there is one.

    Raises:
        InputError: as `dpcli.analysis.account.account`; pipelines of no or different datasets, units or adjacencies.
    """
    pipelines = [pipeline for pipeline, _ in parts]
    if len(by_dataset(pipelines)) != 1 or any(pipeline.privacy.dataset is None for pipeline in pipelines):
        datasets = ", ".join(sorted({pipeline.privacy.dataset or "none" for pipeline in pipelines}))
        raise InputError(f"expected pipelines of one dataset, found {datasets}")
    for name in accountants or ():
        require_known(name)
    quick = accountants is None and tolerance is None
    panel = Panel(tuple(dict.fromkeys(accountants or ACCOUNTANTS)), quick, tolerance, rows)
    joint = replace(_joint(pipelines), budget=budget)
    at = budget.delta if delta is None and epsilon is None and budget is not None else delta
    charges = tuple(
        replace(charge, name=f"{pipeline.path}: {charge.name}")
        for pipeline, runs in parts
        for charge in binding_charges(pipeline, group_size, runs)
    )
    return priced(joint, charges, panel, at, epsilon, group_size)


def _joint(pipelines: Sequence[Pipeline]) -> Pipeline:
    """Return the statement that covers all files; what they state differently is not stated."""
    first = pipelines[0].privacy
    stated = [pipeline.privacy for pipeline in pipelines]
    privacy = Privacy(
        first.adjacency,
        first.unit,
        max((one.max_contributions for one in stated if one.max_contributions is not None), default=None),
        first.dataset_size if all(one.dataset_size == first.dataset_size for one in stated) else None,
        dataset=first.dataset,
        delta=smallest_delta(map(_delta, pipelines)),
        releases=first.releases if all(one.releases == first.releases for one in stated) else None,
    )
    entries = tuple(
        replace(entry, name=f"{pipeline.path}: {entry.name}") for pipeline in pipelines for entry in pipeline.mechanisms
    )
    return Pipeline(privacy, entries, name=first.dataset, path=f"dataset {first.dataset}")


def smallest_delta(deltas: Iterable[float | None]) -> float | None:
    """Return the smallest delta above 0 of those that are stated, at which the others hold too; 0 where all are 0, None without any."""
    stated = [delta for delta in deltas if delta is not None]
    return min((delta for delta in stated if delta > 0.0), default=min(stated, default=None))


def _delta(pipeline: Pipeline) -> float | None:
    own = pipeline.privacy.delta
    return own if own is not None or pipeline.budget is None else pipeline.budget.delta
