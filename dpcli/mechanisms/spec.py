"""The base class of mechanism types, whose fields are the keys of an entry in a pipeline file.

An *entry* of the file is one release, with its type, its keys and the number of its steps; its `Spec` holds the keys. The life of a spec:
the reader of files makes it, and `problems` reports keys that contradict each other. Some types, such as "composed", name other entries
that they run, the *parts*; `bind` replaces these names by specs. Then it becomes a `Mechanism`, a release whose cost accountants bound,
under a neighbouring relation (`Neighbours`): `resolve` without sampling, `poisson` or `poisson_run` on Poisson samples; other schemes
(sampling/schemes.py) start from `resolve`.

The attributes of the type are facts on which other packages rely in place of its name. A new type needs a theorem: what `resolve` returns
must *dominate* every release that its keys allow, so that its cost is an upper bound on theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction


class CostEvidence(IntEnum):
    """The basis of the cost of a mechanism, from the weakest to the strongest. A JSON report holds the number."""

    FREE = 0  # someone states that no private data are used
    STATED = 1  # someone states the cost
    PRICED = 2  # the cost follows from the noise by a theorem


class Spec:
    """The keys of one mechanism type. Subclasses are frozen dataclasses whose fields are the keys, and override `resolve`.

    A registered type also has `premises` (base/premise.py): what must hold for the cost, each with a test that violates it on purpose and
    the commands that enforce it, if any.

    Attributes of the type:
        example: Keys that make sense under every adjacency that the type allows. Entries that it names are called "part".
        evidence: What the cost of this type is based on. For a type that runs other entries, the weakest evidence among them and this
            type counts.
        needs_delta: Whether no finite epsilon holds at delta = 0. For a type that runs other entries, those entries decide.
        free: Whether the type never uses private data.
        selects: Whether the type is a search that releases only its best run.
        fixed_threshold: Whether more noise may cost more, because it carries more values over a fixed threshold. Then no search for the
            noise is possible.
        discrete_twin: The type with the same noise on whole numbers, if this type draws floating-point numbers that are published.
        shows_presence: Whether the release shows if a record takes part, so that the type makes no sense under add-remove.
        final_only: Whether the cost holds only if no model but the last one is released.
        takes_turns: Whether Poisson samples are drawn, in the steps of one run, from groups of the records that take turns.
    """

    __slots__ = ()

    example: ClassVar[Mapping[str, Any]] = {}
    evidence: ClassVar[CostEvidence] = CostEvidence.FREE
    needs_delta: ClassVar[bool] = False
    free: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    fixed_threshold: ClassVar[bool] = False
    discrete_twin: ClassVar[str | None] = None
    shows_presence: ClassVar[bool] = False
    final_only: ClassVar[bool] = False
    takes_turns: ClassVar[bool] = False

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield each inconsistency of the keys, as (key, expected, found)."""
        return iter(())

    @property
    def contribution_form(self) -> bool:
        """Tell whether the noise is stated relative to C, the bound on one record's contribution.

        Sampling under replace-one needs this, because it must also compare each version of the record with its absence.
        """
        return False

    @property
    def bounds_one_record(self) -> bool:
        """Tell whether the keys bound the effect of one record, and not only that of all records of a unit together."""
        return self.contribution_form or getattr(self, "stated_for", None) == "record"

    @property
    def stated_pair(self) -> tuple[float, float] | None:
        """The pair (epsilon, delta) if the keys state one, otherwise None."""
        return None

    @property
    def delta_spent(self) -> float:
        """The delta that one step needs for one unit at any epsilon: the least delta at which epsilon is finite, or 0."""
        return self.stated_pair[1] if self.stated_pair else 0.0

    @property
    def taken_for_vector(self) -> int | None:
        """A sensitivity that is priced as that of a vector because no key says that it is of one number; None if there is none."""
        return None

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        """Return the spec with the entries that it names; the spec itself if it names none.

        lookup: returns the spec of an entry, and the number of its steps.
        """
        return self

    @property
    def sampling_refusal(self) -> str | None:
        """The reason why the entry cannot be sampled, as a clause ("whose keys ...") for a message; None if it can be sampled."""
        return None

    @property
    def whole_runs(self) -> bool:
        """Tell whether an entry that this one names runs with its own sampling and epochs."""
        return False

    @property
    def mean_trials(self) -> float | None:
        """The mean number of runs of the entry that this one names, if that number is random, otherwise None."""
        return None

    def part_path(self, position: int) -> tuple[str | int, ...]:
        """Return the path of the key that names the entry at `position` among the entries that this one names."""
        return ("mechanisms", position)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism of one run on all of the data. Raises InputError if it makes no sense under this neighbouring relation."""
        raise InputError(f"{type(self).__name__} cannot be resolved")

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """Return the mechanism of one run on a sample that contains each record independently with probability `rate` in (0, 1].

        Raises InputError as `resolve` and `require_contribution_form` do.
        """
        # Some record of the group is in the sample with probability 1 - (1-q)^k. Given that, the bound for the whole group holds.
        group_rate = any_sampled(rate, neighbours.records)
        inner = self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        sampled = PoissonReplaced(inner, group_rate) if neighbours.replaces else PoissonSampled(inner, group_rate)
        # `unclaimed` drops the claim that some data attain the bounds.
        return sampled if rate == 1.0 or self.moved_by_any(neighbours) else sampled.unclaimed()

    def poisson_run(self, rate: Fraction, neighbours: Neighbours) -> tuple[Mechanism, int]:
        """Return the mechanism of one run on Poisson samples, and its count. Raises InputError as `poisson` does."""
        return self.poisson(float(rate), neighbours), 1

    def moved_by_any(self, neighbours: Neighbours) -> bool:
        """Return whether any one of the changing records may move the release as far as all of them together.

        This is so for one record, and for the records of one unit if the statement covers the unit. Otherwise a sample with only some of
        the records moves the release less.
        """
        return neighbours.records == 1 or (neighbours.group == 1 and not self.bounds_one_record)

    def require_contribution_form(self, neighbours: Neighbours) -> None:
        """Raise InputError if the keys do not bound the difference between a version of a record and its absence.

        Poisson sampling needs this bound under replace-one and zero-out.
        """
        if neighbours.adjacency is not Adjacency.ADD_REMOVE and not self.contribution_form:
            raise InputError(
                f"Poisson sampling under {neighbours.adjacency.value} needs noise_multiplier (noise over one record's contribution): both "
                "versions of the record enter the mixture together with its absence, and a bare sensitivity or epsilon does not bound that"
            )
