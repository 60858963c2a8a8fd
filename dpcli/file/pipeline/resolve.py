"""The translation of a pipeline into mechanisms and counts, which accountants compose.

`resolve` returns *charges*: a charge (`BillLine`) is a mechanism with the number of its runs. Here, and in the mechanism types and sampling
schemes that this module calls, the adjacency, the unit of privacy, samples and partitions are applied; accountants compose mechanisms
alone. A *group* entry names other entries, its *members*, which are charged with it only. Entries that read one sample become one
mechanism. A unit with several records, or several units that change together, are resolved as one larger change (`Neighbours`). An *entry*
is one [[mechanism]] table, and its *spec* holds the keys of its mechanism type.

A case for which nothing is proved must be refused here at the latest: behind this module every charge is believed. Where a bound need not
be reached by any data, the mechanism says so (`unclaimed`), so that no lower bound is claimed for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Entry, PartitionKey, Pipeline
from dpcli.file.pipeline.parts import entries_by_sample, part_names, sampling_differences
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.sampling.schemes import Poisson, Unsampled, WholeRun
from dpcli.mechanisms.spec import Spec

# Limits on time that no sensible file reaches: a short file whose groups name each other several times would otherwise take unlimited time.
# The numbers are arbitrary; a file beyond them is refused.
MAX_DEPTH = 16  # largest depth of nested groups
MAX_MEMBERS = 10_000  # largest number of members of a group, including those of nested groups
MAX_COUNT = 10**18  # largest number of runs of one mechanism; it fits into a signed 64-bit integer, as databases of ledgers store
# Largest number of choices of one part from each partition that are priced separately, each of which takes as long as a whole file. Beyond
# it, each partition is priced as a mechanism that dominates all of its parts: the bound stays sound, and may be larger.
MAX_CASES = 64


@dataclass(frozen=True, slots=True)
class BillLine:
    """A mechanism, and the number of its runs.

    Attributes:
        name: Name for tables.
        count: Number of runs that are composed.
        entries: The entries of the file for which the mechanism stands.
        parts: If the mechanism runs others on disjoint parts of the data, their lines, for one run of all parts.
    """

    name: str
    mechanism: Mechanism
    count: int
    entries: tuple[Entry, ...]
    parts: tuple[BillLine, ...] = ()


def steps_of(charges: Iterable[BillLine]) -> tuple[tuple[Mechanism, int], ...]:
    """Return the charges in the form that accountants take: pairs of mechanism and count."""
    return tuple((charge.mechanism, charge.count) for charge in charges)


def resolve(pipeline: Pipeline, group_size: int = 1) -> tuple[BillLine, ...]:
    """Return the charges of a pipeline in the order of the file. Charges of entries on one part of the data come last, by partition.

    Args:
        group_size: Number of units of privacy that change together.

    Raises:
        InputError: Two mechanisms have one name, a group is too large, or a mechanism has no meaning under the adjacency, the sampling or
            the partition of the file.
    """
    neighbours = Neighbours(pipeline.privacy.adjacency, pipeline.privacy.max_contributions or 1, group_size)
    entries = {entry.name: entry for entry in pipeline.mechanisms}
    if len(entries) < len(pipeline.mechanisms):
        raise InputError(
            "expected mechanisms of different names, found two of the same name: a group that names it would leave one of them uncharged"
        )
    # parts.py calls the members of a group its parts.
    members = {name for entry in pipeline.mechanisms for name in part_names(entry.spec)}
    samples = entries_by_sample(pipeline.mechanisms)
    charges: list[BillLine] = []
    # By the attribute that divides the data, and by the part of the data.
    charges_of_parts: dict[str, dict[str, list[BillLine]]] = {}
    for entry in pipeline.mechanisms:
        sample_entries = samples.get(entry.sample, (entry,))
        # The first entry of a sample is charged for all of them, and a member with the entry that names it. A member that shares a sample
        # is an error, which `_require_one_draw` reports below.
        is_charged_with_another = entry is not sample_entries[0] or (entry.name in members and len(sample_entries) == 1)
        if is_charged_with_another:
            continue
        try:
            _require_one_draw(sample_entries, members)
            mechanism, count = _counted_mechanism(sample_entries, entries, pipeline, neighbours)
        except InputError as error:
            raise InputError(f"{pipeline.path or '<pipeline>'}: {_place(sample_entries)}: {error}") from None
        charge = BillLine(_title(sample_entries), mechanism, count, sample_entries)
        if isinstance(entry.partition, PartitionKey):
            parts = charges_of_parts.setdefault(entry.partition.of, {})
            parts.setdefault(entry.partition.part, []).append(charge)
        else:
            charges.append(charge)
    partitions = [_parallel(attribute, parts) for attribute, parts in charges_of_parts.items()]
    # A partition has a case for each part that the changed record may be in; equal parts share one. Each choice of cases is priced.
    if math.prod(len(line.mechanism.cases()) for line in partitions) > MAX_CASES:
        partitions = [replace(line, mechanism=Dominated(line.mechanism)) for line in partitions]
    return (*charges, *partitions)


def charges_of_runs(charges: tuple[BillLine, ...], runs: int) -> tuple[BillLine, ...]:
    """Return the charges of `runs` runs of the whole pipeline on the same data.

    Raises InputError if there is no run, or a count exceeds MAX_COUNT.
    """
    if runs < 1 or any(charge.count * runs > MAX_COUNT for charge in charges):
        raise InputError(f"expected a number of runs for which no mechanism runs more than 10^18 times, found {runs}")
    return charges if runs == 1 else tuple(replace(charge, count=charge.count * runs) for charge in charges)


def _place(sample_entries: tuple[Entry, ...]) -> str:
    """Return the place of these entries in the file, for messages."""
    return " and ".join(f'mechanism["{entry.name}"]' for entry in sample_entries)


def _title(sample_entries: tuple[Entry, ...]) -> str:
    """Return the name of an entry or, if several entries read one sample, the name of the sample and theirs."""
    names = " + ".join(entry.name for entry in sample_entries)
    return names if len(sample_entries) == 1 else f"{sample_entries[0].sample}: {names}"


def _require_one_draw(sample_entries: tuple[Entry, ...], members: set[str]) -> None:
    """Raise InputError if entries of one sample draw it differently, or are parts of other entries.

    read.py refuses such files. This check is for pipelines that were made by a program.
    """
    if len(sample_entries) == 1:
        return
    for entry in sample_entries:
        for key, expected, actual in sampling_differences(sample_entries[0], entry):
            raise InputError(f"{key}: expected {expected}, found {actual}")
        if entry.name in members:
            raise InputError(
                f'sample: expected entries that no other one names, found "{entry.name}", which is a part of another entry'
            )


def _counted_mechanism(
    sample_entries: tuple[Entry, ...], entries: dict[str, Entry], pipeline: Pipeline, neighbours: Neighbours
) -> tuple[Mechanism, int]:
    """Return the mechanism and the count of an entry or, if several entries read one sample, of their composition on this sample."""
    entry, dataset_size = sample_entries[0], pipeline.privacy.dataset_size
    specs = [_bound_spec(entry_of_sample, entries, dataset_size) for entry_of_sample in sample_entries]
    spec = specs[0] if len(specs) == 1 else _on_one_sample(specs)
    _check_sampling(entry, spec)  # `_bound_spec` has checked each spec alone, but not several on one sample
    factor = _partition_factor(entry, spec, neighbours)
    runs = entry.runs(dataset_size)
    if entry.sampling is None:
        mechanism, count = spec.resolve(neighbours), runs.steps_at(rate=None)
    else:
        mechanism, count = entry.sampling.resolve(spec, runs, neighbours)
    # The records of a unit may lie in fewer parts, so that the bound need not be attained.
    return mechanism if factor == 1 else mechanism.unclaimed(), factor * count


def _partition_factor(entry: Entry, spec: Spec, neighbours: Neighbours) -> int:
    """Return the factor by which a partition multiplies the runs of a mechanism: 1, or the largest number of records of a unit.

    The records of a unit may lie in as many parts as the unit has records. A bare sensitivity or epsilon bounds the release of one part
    only, so that each part counts as a run. If the noise is stated relative to C, the bound on the contribution of one record to a sum
    (`contribution_form`), all parts together count as one run, and `Spec.resolve` prices it with all records of the unit in one part. This
    is the worst case:

    * The sums of all parts are a vector with one coordinate for each part. The L1 norm of its change is the change of the single sum if all
      records of the unit lie in one part.
    * Laplace noise: the path argument in the docstring of `Laplace` (mechanisms/noise) applies to this vector. The sampled records are any
      subset of the unit's records, and the hockey-stick divergence is convex.
    * Gaussian noise: the L2 norm of the change is no larger than its L1 norm. Mixtures of Gaussians are dominated by those of their norms
      (Choquette-Choo et al. 2023, arXiv:2310.15526).

    Under zero-out, the blank that replaces a record may lack the column that assigns it to a part, so that it enters another part. If the
    noise is stated relative to C, this costs no more than a blank in place: the sum of the old part moves by C, and the blank adds 0 to the
    sum of the new part. A bare sensitivity or epsilon does not cover a record that leaves its part. In a batch of limited size, a blank
    takes the place of another record, which the price does not cover.

    Raises InputError for a partition whose cost no such argument bounds.
    """
    if entry.partition is None:
        return 1
    if neighbours.replaces:
        raise InputError(
            "a replaced record may move from one part to another and change two parts: partition needs add-remove or zero-out"
        )
    is_limited = getattr(entry.sampling, "max_batch_size", None) is not None
    if neighbours.adjacency is Adjacency.ZERO_OUT and (is_limited or not spec.contribution_form):
        raise InputError(
            "a blanked record may leave its part and enter another: under zero-out a partition needs noise_multiplier and no "
            "max_batch_size, as a blank then adds nothing; for other mechanisms use adjacency = add-remove"
        )
    if isinstance(entry.partition, PartitionKey) and neighbours.records > 1:
        raise InputError(
            "several records may lie in several parts: partition = { of, part } needs one record per unit, and groups of one unit"
        )
    return 1 if spec.contribution_form else neighbours.contributions


def _bound_spec(
    entry: Entry,
    entries: dict[str, Entry],
    dataset_size: int | None,
    depth: int = 0,
    member_numbers: Iterator[int] | None = None,
) -> Spec:
    """Return the spec of an entry, in which the specs of the entries that it names replace their names (`Spec.bind`).

    `depth` is the number of groups around the entry, and `member_numbers` counts the members that were inserted so far (None if the entry
    is not a member). Raises InputError if there are more groups or members than the limits allow, or the entry is sampled although its type
    cannot be.
    """
    counter = itertools.count() if member_numbers is None else member_numbers  # the entry itself is number 0, and no member
    if depth > MAX_DEPTH or next(counter) > MAX_MEMBERS:
        raise InputError(f"expected groups at most {MAX_DEPTH} deep with at most {MAX_MEMBERS} members in all, found more")

    def lookup(name: str) -> tuple[Spec, int]:
        """Return the spec and the number of steps of a member."""
        member = entries[name]
        spec = _bound_spec(member, entries, dataset_size, depth + 1, counter)
        # A search over whole training runs repeats the member with its sampling and its steps, as one unit.
        return (_whole_run(spec, member, dataset_size), 1) if entry.spec.whole_runs else (spec, member.steps)

    bound = entry.spec.bind(lookup)
    _check_sampling(entry, bound)
    return bound


def _check_sampling(entry: Entry, spec: Spec) -> None:
    """Raise InputError if the entry is sampled although its mechanism cannot be, or not in this way."""
    scheme = entry.sampling
    if not spec.sampling_refusal or isinstance(scheme, Unsampled | None):
        return
    # A type that takes turns draws Poisson samples from groups of the records, one group after the other, a stated number of times.
    has_turns = spec.takes_turns and isinstance(scheme, Poisson) and scheme.max_batch_size is None and entry.epochs is None
    if not has_turns:
        raise InputError(f"expected no sampling with {entry.type}, {spec.sampling_refusal}")


def _whole_run(spec: Spec, member: Entry, dataset_size: int | None) -> Spec:
    """Return one run of an entry with all of its sampled steps as the spec of one mechanism."""
    return WholeRun(spec, member.sampling, member.runs(dataset_size))


def _on_one_sample(specs: list[Spec]) -> Spec:
    """Return the spec of a group that runs each of these specs once, on the same sample."""
    from dpcli.mechanisms.combined.composed import BoundGroup

    return BoundGroup(tuple((spec, 1) for spec in specs))


def _parallel(attribute: str, parts: dict[str, list[BillLine]]) -> BillLine:
    """Return the line of the partition by an attribute, whose parts have these lines."""
    from dpcli.mechanisms.combined.composed import Composed, Parallel

    mechanism = Parallel(tuple(Composed(steps_of(lines)) for lines in parts.values()))
    lines_of_parts = tuple(itertools.chain.from_iterable(parts.values()))
    entries = tuple(entry for line in lines_of_parts for entry in line.entries)
    return BillLine(f"{attribute}: " + " | ".join(entry.name for entry in entries), mechanism, 1, entries, lines_of_parts)
