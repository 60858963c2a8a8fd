"""The joint cost of several pipelines on one dataset: all of their mechanisms are composed as if they were in one file.

`dpcli account` with several files, and `dpcli gate`, ask for it, because two cheap files about the same people may be too much together.
Files belong together if they state the same name in privacy.dataset. A *charge* is a mechanism with the number of its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpcli.analysis.account import Account, account_of_charges, panel_of, stated_delta
from dpcli.analysis.adaptive_cap import binding_charges
from dpcli.base.errors import InputError
from dpcli.file.pipeline.datasets import by_dataset
from dpcli.file.pipeline.model import Budget, Pipeline, Privacy
from dpcli.file.pipeline.resolve import BillLine
from dpcli.numerics.work import limited

FIXED = (  # the premise of a joint cost, as documents state it
    "the sum is valid if all files were fixed before the first of them ran; charge a file that was chosen later to a ledger (dpcli "
    "budget)"
)


@limited
def account_of_dataset(
    parts: Sequence[tuple[Pipeline, int]],
    accountants: Sequence[str] | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    group_size: int = 1,
    tolerance: float | None = None,
    budget: Budget | None = None,
    with_rows: bool = True,
) -> Account:
    """Return the joint account of pipelines that name the same dataset.

    Every mechanism is resolved in its own file, with the contributions, sizes, samples and partitions that this file states. For example,
    samples of one name in two files are two samples. Then all mechanisms are composed. The result is an upper bound. It is at most the sum,
    by any one accountant, of the files' epsilons at shares of delta. An adaptive file counts with its cap, which is the largest cost that
    it may have.

    Premise: all files were fixed before the first of them ran. A file that is added later may have been chosen from outputs, and must be
    charged to a ledger instead.

    parts: pairs of a pipeline and its number of runs.
    accountants, epsilon, group_size, tolerance: as for `account`.
    delta: the delta at which epsilon is bounded; if None, that of the budget, else the smallest delta above 0 that a file states.
    budget: the cap on the joint cost, if there is one.
    with_rows: whether rows of other accountants are computed although the headline is settled.

    Raises:
        InputError: as for `account`, or if the pipelines name no dataset, or differ in dataset, unit or adjacency.
    """
    pipelines = [pipeline for pipeline, _ in parts]
    if len(by_dataset(pipelines)) != 1 or any(pipeline.privacy.dataset is None for pipeline in pipelines):
        datasets = ", ".join(sorted({pipeline.privacy.dataset or "none" for pipeline in pipelines}))
        raise InputError(f"expected pipelines of one dataset, found {datasets}")
    panel = panel_of(accountants, tolerance, with_rows)
    joint = replace(_joint(pipelines), budget=budget)
    if budget is not None and delta is None and epsilon is None:
        delta = budget.delta
    charges: list[BillLine] = []
    for pipeline, runs in parts:
        lines = binding_charges(pipeline, group_size, runs)
        charges += [replace(line, name=f"{pipeline.path}: {line.name}") for line in lines]
    return account_of_charges(joint, tuple(charges), panel, delta, epsilon, group_size)


def _joint(pipelines: Sequence[Pipeline]) -> Pipeline:
    """Return one pipeline with the entries of all pipelines. It states dataset_size and releases only if all pipelines agree in them."""
    first, *others = [pipeline.privacy for pipeline in pipelines]
    contributions = [privacy.max_contributions for privacy in (first, *others) if privacy.max_contributions is not None]
    same_size = all(privacy.dataset_size == first.dataset_size for privacy in others)
    same_releases = all(privacy.releases == first.releases for privacy in others)
    joint_privacy = Privacy(
        first.adjacency,
        first.unit,
        max_contributions=max(contributions, default=None),
        dataset_size=first.dataset_size if same_size else None,
        dataset=first.dataset,
        delta=smallest_delta(map(stated_delta, pipelines)),
        releases=first.releases if same_releases else None,
    )
    entries = tuple(
        replace(entry, name=f"{pipeline.path}: {entry.name}") for pipeline in pipelines for entry in pipeline.mechanisms
    )
    return Pipeline(joint_privacy, entries, name=first.dataset, path=f"dataset {first.dataset}")


def smallest_delta(deltas: Iterable[float | None]) -> float | None:
    """Return the smallest stated delta above 0; 0 if all stated deltas are 0, and None if none is stated."""
    stated = [delta for delta in deltas if delta is not None]
    return min((delta for delta in stated if delta > 0.0), default=min(stated, default=None))
