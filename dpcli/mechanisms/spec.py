"""The keys of one mechanism type in a pipeline file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

from dpcli.mechanisms.mechanism import Mechanism


class Spec:
    """The keys of one mechanism type; subclasses are frozen dataclasses whose fields are the keys.

    contribution_form: True if the noise is stated relative to one record's contribution (C), so that sampling under replace-one
    can tell the record's two versions from its absence.
    evidence: what a charge of this type rests on: 2, noise that a theorem prices (or other entries, of which it is as good as the
    weakest); 1, a number that somebody states; 0, the bare word that no private data are touched. A type proves what it claims.
    needs_delta: no finite epsilon holds with probability one; what a type that runs other entries needs, these say.
    free: it never touches private data. selects: it is a search that releases its best run alone.
    fixed_threshold: more noise may cost more, as it carries more over a threshold that stays: no noise can be solved for.
    example: keys that make sense under every adjacency that the type allows; entries that it names are called "part".
    discrete_twin: the type of the same noise on whole numbers, if this one draws floating-point numbers that are published as such.
    shows_presence: whether a record takes part is not hidden, so that it makes no sense under add-remove.
    """

    __slots__ = ()

    example: ClassVar[Mapping[str, Any]] = {}
    evidence: ClassVar[int] = 0
    needs_delta: ClassVar[bool] = False
    free: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    fixed_threshold: ClassVar[bool] = False
    discrete_twin: ClassVar[str | None] = None
    shows_presence: ClassVar[bool] = False

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is inconsistent among the keys, as (key, expected, found)."""
        return iter(())

    @property
    def contribution_form(self) -> bool:
        return False

    @property
    def stated_pair(self) -> tuple[float, float] | None:
        """(epsilon, delta) if that is what somebody states, None if the type prices something else."""
        return None

    @property
    def delta_spent(self) -> float:
        """Delta that one step for one unit needs whatever epsilon is: the least delta at which any epsilon is finite, 0 if any is."""
        return self.stated_pair[1] if self.stated_pair else 0.0

    @property
    def taken_for_vector(self) -> int | None:
        """A sensitivity that is priced as a vector's because nothing says that it is one number's, None if there is none."""
        return None

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        """The spec with the entries that it names looked up; itself if it names none."""
        return self

    @property
    def unsampled(self) -> str:
        """Reason why the entry cannot be sampled ("whose keys ..."); empty if it can."""
        return ""

    @property
    def whole_runs(self) -> bool:
        """Tell whether an entry that it names runs as it stands, with its own sampling and epochs."""
        return False

    def part_path(self, position: int) -> tuple[str | int, ...]:
        """The key that names its `position`-th entry."""
        return ("mechanisms", position)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        """The mechanism run once on all of the data. Raises InputError if it makes no sense under this relation."""
        raise InputError(f"{type(self).__name__} cannot be resolved")

    def poisson(self, rate: float, neighbours: Neighbours) -> Mechanism:
        """The mechanism run on a sample that holds each record independently with probability `rate`."""
        # Some record of the group is in the sample with probability 1 - (1-q)^k; given that, the group theorem covers what follows.
        group_rate = any_sampled(rate, neighbours.records)
        inner = self.resolve(neighbours)
        self.require_contribution_form(neighbours)
        sampled = PoissonReplaced(inner, group_rate) if neighbours.replaces else PoissonSampled(inner, group_rate)
        return sampled if rate == 1.0 or self.moved_by_any(neighbours) else sampled.unclaimed()

    def moved_by_any(self, neighbours: Neighbours) -> bool:
        """Return whether any one of the changing records in a sample may move the release as far as all of them: one record, or a unit's
        records if what is stated covers the unit. Otherwise a sample that holds some of them only moves it less."""
        covers_unit = not self.contribution_form and getattr(self, "stated_for", None) != "record"
        return neighbours.records == 1 or (neighbours.group == 1 and covers_unit)

    def require_contribution_form(self, neighbours: Neighbours) -> None:
        """Refuse Poisson sampling if the statement does not cover a record's absence beside its two versions."""
        if neighbours.adjacency is not Adjacency.ADD_REMOVE and not self.contribution_form:
            raise InputError(
                f"Poisson sampling under {neighbours.adjacency.value} needs noise_multiplier (noise over one record's contribution): both "
                "versions of the record enter the mixture together with its absence, and a bare sensitivity or epsilon does not bound that"
            )
