"""The statement that a certificate proves: the parts of a pipeline with exact numbers, and the assumptions about their pairs.

certificate.py calls `certified_parts` to make a certificate, and to check that one is about a pipeline. A *part* is a pair of distributions
that dominates a mechanism, in the form that checker.py reads, such as {"kind": "laplace", "epsilon": "1/2"}; part_conversions.py converts
one mechanism. This file finds the mechanisms of a pipeline, counts equal parts, and collects the assumptions. A number that the accountants
compute, and the file does not state, is such an assumption (`AsComputed`).

`line` is a line of the bill (`BillLine`): a mechanism with its count, and the entries of the file from which its exact numbers are read. If
mechanisms run on disjoint parts of the data, a unit is in one *branch* of each such division; an *alternative* is a choice of branches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpcli.accountants.directions import parts_of
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.certify.part_conversions import CONVERSIONS, AsComputed, Part, is_rounded_up, only_spec, without_dominated
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import part_names
from dpcli.file.pipeline.resolve import BillLine, resolve
from dpcli.mechanisms.combined.composed import Composed, Parallel
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Free

# What a certificate assumes of all pairs together.
COMPOSITION = "the pairs compose (Zhu, Dong, Wang 2022, arXiv:2106.08567, Theorem 10)"
DISJOINT = "a unit is in one part of each division of the data (McSherry 2009, Theorem 4)"
# Two limits on the time of a proof.
MOST_PARTS = 40  # most parts that differ; the checker integrates each by itself
MOST_ALTERNATIVES = 64  # most choices of one branch from each division of the data; each needs proofs of its own

# Each part with its count. The part is given by its items, which are hashable.
Counted = tuple[tuple[tuple[tuple[str, Any], ...], int], ...]


@dataclass(frozen=True, slots=True)
class CertifiedParts:
    """The parts of a pipeline as a certificate states them.

    parts: the parts that compose for all data, in the checker's form, each with its count.
    assumptions: what is assumed of the pairs, in words.
    attained: whether the stated pairs are those of some data. Only then is a lower bound for them a lower bound for the pipeline.
    alternatives: lists of parts for the disjoint parts of the data. One list composes with `parts`, and proofs must hold for each. Empty if
        there are fewer than two different lists.
    """

    parts: tuple[Part, ...]
    assumptions: tuple[str, ...]
    attained: bool
    alternatives: tuple[tuple[Part, ...], ...] = ()

    def stated(self) -> dict[str, Any]:
        """Return the keys of a certificate that say what is composed: "parts", and "alternatives" if there are any."""
        keys: dict[str, Any] = {"parts": list(self.parts)}
        if self.alternatives:
            keys["alternatives"] = [list(parts) for parts in self.alternatives]
        return keys


def certified_parts(pipeline: Pipeline, group_size: int = 1) -> CertifiedParts:
    """Return what a certificate states about a pipeline.

    group_size: number of units of privacy that change together.

    Raises:
        NotRepresentable: the checker knows no pair of a mechanism, the file is adaptive, nothing in it costs anything, or it has more than
            MOST_PARTS parts or MOST_ALTERNATIVES alternatives.
        InternalError: the accountants use a smaller number than the one that the file states.
        InputError: `resolve` refuses an entry of the file.
    """
    privacy = pipeline.privacy
    if privacy.adaptive:
        raise NotRepresentable("an adaptive file promises its cap, which no composition of fixed mechanisms proves")
    lines = resolve(pipeline, group_size)
    neighbours = Neighbours(privacy.adjacency, privacy.max_contributions or 1, group_size)
    conversion = _Conversion(neighbours, privacy.dataset_size, {entry.name: entry for entry in pipeline.mechanisms})
    common = conversion.parts(line for line in lines if not _is_divided(line))
    divided = [line for line in lines if _is_divided(line)]
    alternatives = _choices([[conversion.parts(branch) for branch in _branches(line)] for line in divided])
    if len(alternatives) == 1:  # there is nothing to choose, so these parts compose with the others
        common, alternatives = _join((common, *alternatives)), []
    if not common and not alternatives:
        raise NotRepresentable("nothing costs anything: epsilon is 0, and there is nothing to prove")
    part_count = len(common) + sum(map(len, alternatives))
    if part_count > MOST_PARTS:
        raise NotRepresentable(f"{part_count} different mechanisms; certify takes at most {MOST_PARTS}")
    assumptions = [COMPOSITION, *conversion.assumptions]
    if divided:
        assumptions.append(DISJOINT)
    return CertifiedParts(_with_counts(common), tuple(assumptions), conversion.attained, tuple(map(_with_counts, alternatives)))


def _is_divided(line: BillLine) -> bool:
    """Return whether the line stands for mechanisms on disjoint parts of the data."""
    return isinstance(without_dominated(line.mechanism), Parallel)


def _choices(divisions: list[list[Counted]]) -> list[Counted]:
    """Return the different lists of parts that result from choosing one branch of each division. Without divisions it is one empty list.

    An empty list is left out if there is another one, which costs at least as much. Raises NotRepresentable if there are more than
    MOST_ALTERNATIVES choices.
    """
    if math.prod(map(len, divisions)) > MOST_ALTERNATIVES:
        raise NotRepresentable(f"more than {MOST_ALTERNATIVES} choices of one part from each division of the data")
    different = list(dict.fromkeys(map(_join, itertools.product(*divisions))))
    return [choice for choice in different if choice] or different


def _join(lists: Iterable[Counted]) -> Counted:
    """Return all parts of several lists. The counts of equal parts add up."""
    counts: dict[tuple[tuple[str, Any], ...], int] = {}
    for counted in lists:
        for items, count in counted:
            counts[items] = counts.get(items, 0) + count
    return tuple(counts.items())


def _with_counts(counted: Counted) -> tuple[Part, ...]:
    """Return the parts as a certificate lists them, each with its count under the key "count"."""
    return tuple({**dict(items), "count": count} for items, count in counted)


def _branches(line: BillLine) -> Iterator[list[BillLine]]:
    """Yield, for each disjoint part of the data, a line for each of its entries.

    Raises NotRepresentable if entries of one part share a sample, because they have a mechanism in common.
    """
    mechanism = without_dominated(line.mechanism)
    assert isinstance(mechanism, Parallel)
    if sum(len(branch.parts) for branch in mechanism.branches) != len(line.entries):
        raise NotRepresentable(f'"{line.name}": entries that share a sample within a part of the data')
    entries = iter(line.entries)  # those of the first branch come first, one for each of its parts
    for branch in mechanism.branches:
        own_entries = itertools.islice(entries, len(branch.parts))
        yield [BillLine(entry.name, part, count, (entry,)) for (part, count), entry in zip(branch.parts, own_entries, strict=True)]


class _Conversion:
    """Converts mechanisms into parts, and records on the way what is assumed of their pairs and whether all of them are attained."""

    def __init__(self, neighbours: Neighbours, dataset_size: int | None, entries: Mapping[str, Entry]) -> None:
        self.neighbours, self.dataset_size, self.entries = neighbours, dataset_size, entries
        self.assumptions: dict[str, None] = {}  # a set that keeps its order
        self.attained = True

    def parts(self, lines: Iterable[BillLine]) -> Counted:
        """Return the parts of some lines, without those that cost nothing.

        Raises NotRepresentable if the checker has no pair for a mechanism, and InternalError if the accountants use a smaller number than
        the file states.
        """
        return _join(((tuple(part.items()), count),) for part, count in self._convert(lines))

    def _convert(self, lines: Iterable[BillLine]) -> Iterator[tuple[Part, int]]:
        """Yield the part of each mechanism of some lines, and its count. It raises what `parts` lists."""
        for line, mechanism, count in _mechanisms(self.entries, lines):
            self.attained = self.attained and mechanism.attained() and not is_rounded_up(line)
            plain = without_dominated(mechanism)
            if isinstance(plain, Free):
                continue
            convert = CONVERSIONS.get(type(plain))  # the exact class, because a subclass may have another pair
            if convert is None:
                raise NotRepresentable(f'"{line.name}": certify has no pair for {_description(line, self.neighbours)}')
            part, assumed = convert(plain, line, self.neighbours, self.dataset_size)
            self.assumptions |= dict.fromkeys(assumed)
            self.attained = self.attained and not any(isinstance(assumption, AsComputed) for assumption in assumed)
            yield part, count


def _description(line: BillLine, neighbours: Neighbours) -> str:
    """Return a refused mechanism in words: its type, its sampling, and the number of records if it is above 1."""
    entry = line.entries[0]
    words = [f"mechanisms of type {entry.type}"]
    if entry.sampling is not None:
        words.append(f"with sampling {entry.sampling.scheme}")
        if getattr(entry.sampling, "max_batch_size", None) is not None:
            words.append("and max_batch_size")
    if neighbours.records > 1:
        words.append(f"of {neighbours.records:,} records of a unit")
    return " ".join(words)


def _mechanisms(entries: Mapping[str, Entry], lines: Iterable[BillLine]) -> Iterator[tuple[BillLine, Mechanism, int]]:
    """Yield each line with its mechanism and count. A mechanism on a sample of all records is replaced by the one without sampling."""
    for line in lines:
        yield from _members(entries, line, _without_sampling_of_all(line.mechanism), line.count)


def _members(
    entries: Mapping[str, Entry], line: BillLine, mechanism: Mechanism, count: int
) -> Iterator[tuple[BillLine, Mechanism, int]]:
    """Yield the members of a composed mechanism with their counts, or the mechanism itself if it is not composed.

    A member that the file declares by an entry gets a line with this entry, from which its numbers are read.
    """
    spec = only_spec(line)
    names = [] if spec is None else part_names(spec)  # names of the entries that this entry runs
    if isinstance(mechanism, Composed) and len(names) == len(mechanism.parts):
        for name, (part, runs) in zip(names, mechanism.parts, strict=True):
            yield from _members(entries, replace(line, entries=(entries[name],)), part, runs * count)
    else:
        yield from ((line, part, runs) for part, runs in parts_of(mechanism, count))


def _without_sampling_of_all(mechanism: Mechanism) -> Mechanism:
    """Drop sampling at rate 1: every record is in every sample, so the pair without sampling is exact."""
    plain = without_dominated(mechanism)
    if not isinstance(plain, PoissonSampled) or plain.rate != 1.0:
        return mechanism
    return plain.inner if mechanism.attained() else plain.inner.unclaimed()  # unclaimed: no data are said to attain the pair
