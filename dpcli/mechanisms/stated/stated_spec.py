"""Base classes of the mechanism types that state a guarantee, such as an epsilon or a curve, instead of noise.

A *statement* is a guarantee that someone writes into a pipeline file. Nobody checks it. It is for one record or for the unit of privacy of
the file, such as a user with several records (`stated_for`). A `GivenSpec` may also state an adjacency of its own. `changes` counts how
many changes of the stated kind make up one change of the file's kind. `resolve` prices them, by the group theorem (combined/group.py)
unless a class has a sharper bound. If no number of changes suffices, the file is refused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import Key
from dpcli.base.premise import SECRET, STATED, Premises
from dpcli.base.stated import multiple  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.group import for_group
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.spec import CostEvidence, Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSpec(Spec):
    """A guarantee that somebody states for one record or for the file's unit of privacy."""

    evidence: ClassVar[CostEvidence] = CostEvidence.STATED

    stated_for: Annotated[
        Literal["record", "unit"] | None,
        Key("whether the statement is for one record or for the unit; required if a unit contributes several records"),
    ] = None

    def stated(self) -> Mechanism:
        """Return the mechanism as stated, for one change of a record or unit as `stated_for` says. Each subclass overrides this."""
        raise InputError(f"{type(self).__name__} states nothing")

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return for_group(self.stated(), self.changes(neighbours))

    def changes(self, neighbours: Neighbours) -> int:
        """Return how many changes of the stated kind, of one unit or one record, make up the change of a group of units.

        Raises InputError if a unit contributes several records and `stated_for` is not stated.
        """
        if self.stated_for is None and neighbours.contributions > 1:
            raise InputError(
                f'a unit contributes at most {neighbours.contributions} records: say whom the guarantee covers, stated_for = "record" '
                '(the group theorem is then applied) or "unit"'
            )
        return neighbours.group if self.stated_for == "unit" else neighbours.records


class EpsilonSpec(StatedSpec):
    """A guarantee that is stated as an epsilon alone, which adds up over the changes of a group."""

    __slots__ = ()

    epsilon: float

    def priced(self, epsilon: float) -> Mechanism:
        """Return the mechanism with this epsilon. Each subclass overrides this."""
        raise InputError(f"{type(self).__name__} states nothing")

    def stated(self) -> Mechanism:
        return self.priced(self.epsilon)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return self.priced(multiple(self.changes(neighbours), self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSpec(StatedSpec):
    """A stated guarantee that may state its own adjacency."""

    # What must hold for the cost: every draw is fresh and secret, and the statement is true.
    premises: ClassVar[Premises] = (SECRET, STATED)

    adjacency: Annotated[
        Adjacency | None, Key("adjacency of the statement, if it is not the file's; it is converted, or refused")
    ] = None

    def changes(self, neighbours: Neighbours) -> int:
        return StatedSpec.changes(self, neighbours) * conversion(self.adjacency, neighbours.adjacency)


def conversion(stated: Adjacency | None, wanted: Adjacency) -> int:
    """Return how many changes under the stated adjacency make up one change under the wanted one.

    A replacement is a removal and an addition, or at most two zeroings. Raises InputError for any other conversion.
    """
    if stated is None or stated is wanted:
        return 1
    if wanted is Adjacency.REPLACE_ONE:
        return 2
    raise InputError(
        f"a guarantee stated under {stated.value} says nothing under {wanted.value}: state it under the file's adjacency"
    )
