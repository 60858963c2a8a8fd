"""The blocks that a session reads, of a dataset that is cut into blocks: settled before anything is read or charged.

They are those of the file, or of --window where the file states none. They then stand in its pipeline, and so in its fingerprint, its
charge, what is charged when it goes on, and its statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from dpcli.errors import InputError
from dpcli.ledger.blocks.spelling import spelled

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.pipeline.model import Pipeline


class Windowed(Protocol):
    """What can be done on some blocks of its dataset."""

    @property
    def pipeline(self) -> Pipeline: ...

    def over(self, window: tuple[str, ...]) -> Self: ...


class Resumable(Windowed, Protocol):
    """What is known again by its fingerprint."""

    def fingerprint(self) -> str: ...


Plan = TypeVar("Plan", bound=Windowed)


def over_window(plan: Plan, ledger: Ledger | None, given: Sequence[str] = ()) -> Plan:
    """The plan with its window in its pipeline; as it is where the file states one, or the dataset is not cut into blocks.

    given: of --window. Raises InputError where it is missing, is another than the file's, or there is no ledger that has blocks.
    """
    if ledger is None:
        if given:
            raise InputError(f"--window: expected --ledger with it, whose blocks it names, found none beside {given[0][:60]!a}")
        return plan
    blocks, family = ledger.stated_window(plan.pipeline, given), ledger.state().open_terms().family
    if family is None or plan.pipeline.privacy.window is not None:
        return plan
    return plan.over(spelled(family, blocks))


def begun_as(plan: Resumable, fingerprint: str, window: Sequence[str]) -> bool:
    """Whether a session with this fingerprint is this plan's, for what reads what it has left.

    window: that the session was begun with. It holds where the file leaves the window to a flag, which what comes after does not take.
    """
    left = plan.pipeline.privacy.window is None and len(window) > 0
    return fingerprint == (plan.over(tuple(window)) if left else plan).fingerprint()
