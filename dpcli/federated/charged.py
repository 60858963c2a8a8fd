"""What a ledger has charged under the key of a run: read from its own entries, each held against the file that goes on with the key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import LedgerError
from dpcli.federated.plan import FederatedPlan
from dpcli.file.pipeline.document import tables_of
from dpcli.ledger.chain import canonical

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import Run

KINDS = ("round", "charge")
NAME = re.compile(rf"({'|'.join(KINDS)})-([0-9]{{6,}})|beside")


@dataclass(slots=True)
class Charged:
    """rounds: that the entries pay for, in whatever sizes. beside: whether the rest of the file is charged. last: number of each kind."""

    rounds: int = 0
    beside: bool = False
    last: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))


def charged_under(ledger: Ledger, plan: FederatedPlan, key: str) -> Charged:
    """All entries of a run, whatever process wrote them; entries of other keys are not read.

    Raises LedgerError where one was charged for another file or window: its rounds would be counted at this file's price.
    """
    found, window, known = Charged(), ledger.stated_window(plan.pipeline), Tables(plan)
    for run in _under(ledger, key):
        name, rounds = _named(key, run.key), known.rounds(run, key, window)
        found.rounds += rounds
        if name is None or name[1] is None:
            found.beside = True
        else:
            found.last[name[1]] = max(found.last[name[1]], int(name[2]))
    return found


def is_charged(ledger: Ledger, plan: FederatedPlan, key: str, name: str) -> bool:
    """Whether the ledger has this one of the keys of a run. Raises LedgerError where it was charged for another file or window."""
    runs = ledger.state().runs
    if name in runs:
        Tables(plan).rounds(runs[name], key, ledger.stated_window(plan.pipeline))
        return True
    return False


def beside_is_charged(ledger: Ledger, plan: FederatedPlan, key: str) -> bool:
    """Whether the rest of the file has its entry in the ledger; True where there is no rest. Raises LedgerError as `is_charged`."""
    return is_charged(ledger, plan, key, beside_key(key)) or plan.beside is None


def charge_key(key: str, number: int, chunk: int) -> str:
    """The key of a run's charge, by its number from 1."""
    return f"{key}/{kind_of(chunk)}-{number:06d}"


def beside_key(key: str) -> str:
    """The key of what the file releases besides its rounds."""
    return f"{key}/beside"


def kind_of(chunk: int) -> str:
    """How charges of so many rounds are called."""
    return KINDS[chunk != 1]


class Tables:
    """A file's charges as a ledger writes them down."""

    def __init__(self, plan: FederatedPlan) -> None:
        self._plan, self._known = plan, dict[int, str]()
        self._beside = None if plan.beside is None else canonical(tables_of(plan.beside))

    def rounds(self, run: Run, key: str, window: tuple[str, ...]) -> int:
        """How many rounds a charge under `key` pays for, 0 for the rest of the file. Raises LedgerError where it is of another run."""
        if run.key == beside_key(key):
            rounds = 0 if canonical(run.pipeline) == self._beside else None
        else:
            rounds = self.rounds_of(run.pipeline)
        if rounds is None or run.window != window or run.content.get("kind") != "spend":
            raise LedgerError(_another(key, self._plan, run))
        return rounds

    def rounds_of(self, tables: Mapping[str, Any]) -> int | None:
        """How many rounds of the file they are; None where they are something else."""
        steps = next((entry.get("steps", 1) for entry in tables["mechanism"]), None)
        if type(steps) is not int or steps < 1:
            return None
        rounds = steps * self._plan.per_step
        if steps not in self._known:
            self._known[steps] = canonical(tables_of(self._plan.charge(rounds, beside=False)))
        return rounds if canonical(tables) == self._known[steps] else None


def _named(key: str, name: str) -> re.Match[str] | None:
    return NAME.fullmatch(name[len(key) + 1 :]) if name.startswith(f"{key}/") else None


def _under(ledger: Ledger, key: str) -> Iterator[Run]:
    return (run for run in ledger.runs_beginning(f"{key}/") if _named(key, run.key))


def _another(key: str, plan: FederatedPlan, run: Run) -> str:
    return (
        f'key "{key}": expected charges of {plan.path} as it stands, found entry {run.seq} ("{run.key}"), which was charged for another '
        "file or window: another run needs a key of its own"
    )
