"""Resolves a pipeline to mechanisms with counts: adjacency, unit, samples, groups and partitions are applied here, once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Entry, PartitionKey, Pipeline
from dpcli.file.pipeline.parts import named
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.mechanisms.spec import Spec

MAX_DEPTH = 16  # largest depth of nested groups
MAX_MEMBERS = 10_000  # largest number of members of a group, with the members of its groups
MAX_COUNT = 10**18  # largest number of runs of one mechanism
MAX_CASES = 64  # choices of one part of each partition that are priced one by one


@dataclass(frozen=True, slots=True)
class BillLine:
    """A mechanism and how often it counts.

    Attributes:
        entries: The entries of the file that it stands for.
    """

    name: str
    mechanism: Mechanism
    count: int
    entries: tuple[Entry, ...]


def steps_of(charges: Iterable[BillLine]) -> tuple[tuple[Mechanism, int], ...]:
    """Return the charges as accountants take them."""
    return tuple((charge.mechanism, charge.count) for charge in charges)


def resolve(pipeline: Pipeline, group_size: int = 1) -> tuple[BillLine, ...]:
    """Return the charges of a pipeline, in the file's order.

    Args:
        group_size: Units of privacy that change together.

    Raises:
        InputError: A mechanism makes no sense under the file's adjacency or sampling.
    """
    neighbours = Neighbours(pipeline.privacy.adjacency, pipeline.privacy.max_contributions or 1, group_size)
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    if len(entries) < len(pipeline.mechanisms):
        raise InputError("expected mechanisms of different names, found two of one: what names it would leave one of them unpaid")
    members = {name for entry in pipeline.mechanisms for name in named(entry.spec)}
    charges: list[BillLine] = []
    parts: dict[str, dict[str, list[BillLine]]] = {}
    shared = _samples(pipeline)
    for entry in pipeline.mechanisms:
        one = shared.get(entry.sample, (entry,))
        if entry is not one[0] or (entry.name in members and len(one) == 1):
            continue
        try:
            _require_one_draw(one, members)
            mechanism, count = _run(one, entries, pipeline, neighbours)
        except InputError as error:
            raise InputError(f"{pipeline.path or '<pipeline>'}: {_place(one)}: {error}") from None
        charge = BillLine(_title(one), mechanism, count, one)
        if isinstance(entry.partition, PartitionKey):
            parts.setdefault(entry.partition.of, {}).setdefault(entry.partition.part, []).append(charge)
        else:
            charges.append(charge)
    partitions = [_parallel(of, branches) for of, branches in parts.items()]
    if math.prod(len(line.mechanism.cases()) for line in partitions) > MAX_CASES:
        partitions = [replace(line, mechanism=Dominated(line.mechanism)) for line in partitions]
    return (*charges, *partitions)


def repeated(charges: tuple[BillLine, ...], runs: int) -> tuple[BillLine, ...]:
    """Return the charges of `runs` runs of the whole pipeline on the same data. Raises InputError if a count would pass 10^18."""
    if runs < 1 or any(charge.count * runs > MAX_COUNT for charge in charges):
        raise InputError(f"expected a number of runs with which nothing runs more than 10^18 times, found {runs}")
    return charges if runs == 1 else tuple(replace(charge, count=charge.count * runs) for charge in charges)


def _samples(pipeline: Pipeline) -> dict[str | None, tuple[Entry, ...]]:
    if all(entry.sample is None for entry in pipeline.mechanisms):
        return {}
    from dpcli.file.pipeline.parts import samples_of

    return samples_of(pipeline.mechanisms)


def _place(one: tuple[Entry, ...]) -> str:
    return " and ".join(f'mechanism["{entry.name}"]' for entry in one)


def _title(one: tuple[Entry, ...]) -> str:
    return one[0].name if len(one) == 1 else f"{one[0].sample}: {' + '.join(entry.name for entry in one)}"


def _require_one_draw(one: tuple[Entry, ...], members: set[str]) -> None:
    """Refuse entries of one sample that do not draw it in the same way, or run as parts of others; a file that was read has none."""
    if len(one) == 1:
        return
    from dpcli.file.pipeline.parts import differing

    for entry in one:
        for key, expected, actual in differing(one[0], entry):
            raise InputError(f"{key}: expected {expected}, found {actual}")
        if entry.name in members:
            raise InputError(f'sample: expected entries that no other one names, found "{entry.name}", which one does')


def _run(one: tuple[Entry, ...], entries: dict[str, Entry], pipeline: Pipeline, neighbours: Neighbours) -> tuple[Mechanism, int]:
    """Return the mechanism and count of an entry, or of entries that read one sample, whose composition is sampled."""
    entry, specs = one[0], [_bound(each, entries, pipeline.privacy.dataset_size) for each in one]
    spec = specs[0] if len(specs) == 1 else _on_one_sample(specs)
    parts = _parts_touched(entry, spec, neighbours)
    runs = entry.runs(pipeline.privacy.dataset_size)
    if entry.sampling is None:
        mechanism, count = spec.resolve(neighbours), runs.steps_at(None)
    else:
        mechanism, count = entry.sampling.resolve(spec, runs, neighbours)
    # A unit's records need not lie in as many parts: there may be fewer, and each then sees fewer of them in a sample.
    return mechanism if parts == 1 else mechanism.unclaimed(), parts * count


def _parts_touched(entry: Entry, spec: Spec, neighbours: Neighbours) -> int:
    """Return how many parts of a partition one change may touch, beyond what the mechanism's own resolution covers.

    A unit's records may lie in as many parts. Where noise is stated per contribution, all of them in one part is the worst case and is
    what `resolve` assumes; a bare sensitivity or epsilon bounds one part's release only.

    All of them in one part is the worst case of noise per contribution C. Spread over parts, they move a vector with a coordinate for each
    part, by as much in L1 as one number. Laplace: path argument of `Laplace`; the sampled ones among them are any subset, and H is convex.
    Gaussian: the L2 norm of that vector is no larger than its L1 norm, and mixtures of Gaussians are dominated by those of their norms
    (Choquette-Choo et al. 2023, arXiv:2310.15526).

    Blanking a record may blank the column that says in which part it is: it then leaves its part, and enters another as a blank. To noise
    per contribution that is the same as a blank in place: one part's sum moves by C, and to another's it adds 0, as a sample without it
    does. A bare statement says nothing of a record that leaves, nor does a batch that is cut down of a blank that takes a place in it.
    """
    if entry.partition is None:
        return 1
    if neighbours.replaces:
        raise InputError(
            "a replaced record may move from one part to another and touch two: partition needs add-remove or zero-out"
        )
    if neighbours.adjacency is Adjacency.ZERO_OUT and not (
        spec.contribution_form and getattr(entry.sampling, "max_batch_size", None) is None
    ):
        raise InputError(
            "a blanked record may leave its part and enter another: under zero-out a partition needs noise_multiplier, to which a blank "
            "adds nothing, and no max_batch_size; expected adjacency = add-remove for any other"
        )
    if isinstance(entry.partition, PartitionKey) and neighbours.records > 1:
        raise InputError(
            "several records may lie in several parts: partition = { of, part } needs one record per unit, groups of one"
        )
    return 1 if spec.contribution_form else neighbours.contributions


def _bound(
    entry: Entry, entries: dict[str, Entry], dataset_size: int | None, depth: int = 0, budget: list[int] | None = None
) -> Spec:
    """Return the entry's spec with the entries that it names expanded; nesting and size are capped, as names may repeat."""
    left = [MAX_MEMBERS] if budget is None else budget
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        raise InputError(f"expected groups at most {MAX_DEPTH} deep with {MAX_MEMBERS} members in all, found more")

    def lookup(name: str) -> tuple[Spec, int]:
        part = entries[name]
        spec = _bound(part, entries, dataset_size, depth + 1, left)
        return (_whole_run(spec, part, dataset_size), 1) if entry.spec.whole_runs else (spec, part.steps)

    bound = entry.spec.bind(lookup)
    if bound.unsampled and not isinstance(entry.sampling, Unsampled | None):
        raise InputError(f"expected no sampling with {entry.type}, {bound.unsampled}")
    return bound


def _whole_run(spec: Spec, part: Entry, dataset_size: int | None) -> Spec:
    from dpcli.mechanisms.sampling.schemes import WholeRun

    return WholeRun(spec, part.sampling, part.runs(dataset_size))


def _on_one_sample(specs: list[Spec]) -> Spec:
    from dpcli.mechanisms.combined.composed import BoundGroup

    return BoundGroup(tuple((spec, 1) for spec in specs))


def _parallel(of: str, branches: dict[str, list[BillLine]]) -> BillLine:
    from dpcli.mechanisms.combined.composed import Composed, Parallel

    mechanism = Parallel(tuple(Composed(tuple((line.mechanism, line.count) for line in branch)) for branch in branches.values()))
    entries = tuple(entry for branch in branches.values() for line in branch for entry in line.entries)
    return BillLine(f"{of}: " + " | ".join(entry.name for entry in entries), mechanism, 1, entries)
