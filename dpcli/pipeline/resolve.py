"""From the file's values to mechanisms and counts: adjacency, unit, sampling, groups and partitions are settled here, once."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.errors import InputError
from dpcli.mechanisms.base import Mechanism, Neighbours, Spec
from dpcli.mechanisms.sampling import Runs
from dpcli.pipeline.model import Entry, PartitionKey, Pipeline

MAX_DEPTH = 16
MAX_MEMBERS = 10_000


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the bill: what the accountants add up. entries: the entries of the file that it stands for."""

    name: str
    mechanism: Mechanism
    count: int
    entries: tuple[Entry, ...]


def resolve(pipeline: Pipeline, group_size: int = 1) -> tuple[Charge, ...]:
    """The charges of a pipeline, in the file's order.

    Args:
        group_size: units of privacy that change together.

    Raises:
        InputError: a mechanism makes no sense under the file's adjacency or sampling.
    """
    neighbours = Neighbours(pipeline.privacy.adjacency, pipeline.privacy.max_contributions or 1, group_size)
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    members = {name for entry in pipeline.mechanisms for name in getattr(entry.spec, "mechanisms", ())}
    charges: list[Charge] = []
    parts: dict[str, dict[str, list[tuple[Mechanism, int, Entry]]]] = {}
    for entry in pipeline.mechanisms:
        if entry.name in members:
            continue
        try:
            mechanism, count = _run(entry, entries, pipeline, neighbours)
        except InputError as error:
            raise InputError(f'{pipeline.path or "<pipeline>"}: mechanism["{entry.name}"]: {error}') from None
        if isinstance(entry.partition, PartitionKey):
            parts.setdefault(entry.partition.of, {}).setdefault(entry.partition.part, []).append((mechanism, count, entry))
        else:
            charges.append(Charge(entry.name, mechanism, count, (entry,)))
    return (*charges, *(_parallel(of, branches) for of, branches in parts.items()))


def _run(entry: Entry, entries: dict[str, Entry], pipeline: Pipeline, neighbours: Neighbours) -> tuple[Mechanism, int]:
    spec = _bound(entry, entries)
    parts = _parts_touched(entry, spec, neighbours)
    runs = Runs(None if entry.epochs is not None else entry.steps, entry.epochs, pipeline.privacy.dataset_size)
    if entry.sampling is None:
        return spec.resolve(neighbours), parts * runs.steps_at(None)
    mechanism, count = entry.sampling.resolve(spec, runs, neighbours)
    return mechanism, parts * count


def _parts_touched(entry: Entry, spec: Spec, neighbours: Neighbours) -> int:
    """How many parts of a partition one change may touch, beyond what the mechanism's own resolution covers.

    A unit's records may lie in as many parts. Where noise is stated per contribution, all of them in one part is the worst case and is
    what `resolve` assumes; a bare sensitivity or epsilon bounds one part's release only.
    """
    if entry.partition is None:
        return 1
    if neighbours.replaces:
        raise InputError(
            "a replaced record may move from one part to another and touch two: partition needs add-remove or zero-out"
        )
    if isinstance(entry.partition, PartitionKey) and neighbours.records > 1:
        raise InputError(
            "several records may lie in several parts: partition = { of, part } needs one record per unit, groups of one"
        )
    return 1 if spec.contribution_form else neighbours.contributions


def _bound(entry: Entry, entries: dict[str, Entry], depth: int = 0, budget: list[int] | None = None) -> Spec:
    """The entry's spec with the groups that it names expanded; nesting and size are capped, since names may repeat."""
    left = [MAX_MEMBERS] if budget is None else budget
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        raise InputError(f"expected groups at most {MAX_DEPTH} deep with {MAX_MEMBERS} members in all, found more")
    return entry.spec.bind(lambda name: (_bound(entries[name], entries, depth + 1, left), entries[name].steps))


def _parallel(of: str, branches: dict[str, list[tuple[Mechanism, int, Entry]]]) -> Charge:
    from dpcli.mechanisms.composed import Composed
    from dpcli.mechanisms.parallel import Parallel

    mechanism = Parallel(tuple(Composed(tuple((m, n) for m, n, _ in branch)) for branch in branches.values()))
    entries = tuple(entry for branch in branches.values() for _, _, entry in branch)
    return Charge(f"{of}: " + " | ".join(entry.name for entry in entries), mechanism, 1, entries)
