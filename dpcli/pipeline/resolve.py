"""From the file's values to mechanisms and counts: adjacency, unit, sampling, groups and partitions are settled here, once."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.errors import InputError
from dpcli.mechanisms.base import Mechanism, Neighbours, Spec
from dpcli.mechanisms.sampling import Runs
from dpcli.pipeline.model import Entry, PartitionKey, Pipeline


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
    if entry.partition is not None and neighbours.replaces:
        raise InputError(
            "a replaced record may move from one part to another and touch two: partition needs add-remove or zero-out"
        )
    spec = _bound(entry, entries)
    runs = Runs(None if entry.epochs is not None else entry.steps, entry.epochs, pipeline.privacy.dataset_size)
    if entry.sampling is None:
        return spec.resolve(neighbours), runs.steps_at(None)
    return entry.sampling.resolve(spec, runs, neighbours)


def _bound(entry: Entry, entries: dict[str, Entry]) -> Spec:
    return entry.spec.bind(lambda name: (_bound(entries[name], entries), entries[name].steps))


def _parallel(of: str, branches: dict[str, list[tuple[Mechanism, int, Entry]]]) -> Charge:
    from dpcli.mechanisms.composed import Composed
    from dpcli.mechanisms.parallel import Parallel

    mechanism = Parallel(tuple(Composed(tuple((m, n) for m, n, _ in branch)) for branch in branches.values()))
    entries = tuple(entry for branch in branches.values() for _, _, entry in branch)
    return Charge(f"{of}: " + " | ".join(entry.name for entry in entries), mechanism, 1, entries)
