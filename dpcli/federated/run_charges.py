"""The charges of a federated run: ledger entries whose keys begin with the key of the run, such as "week-7/round-000001".

`Rounds` (rounds.py) charges a *ledger*, the account book of a dataset's privacy budget, and a later process finds here how many rounds are
paid for. A *round* is one noisy sum of the updates of some clients. The *rest* of a file is the entries ([[mechanism]] tables) that no
round performs. Each charge is compared with the current file and *window*, the part of the dataset that is read, because rounds of another
file may cost more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import LedgerError
from dpcli.federated.federated_plan import FederatedPlan
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.chain import canonical
from dpcli.ledger.charges.ledger_run import payer

if TYPE_CHECKING:
    from dpcli.ledger.charges.ledger_run import Run
    from dpcli.ledger.ledger import Ledger


# The words in the keys of charges for one round, and for several rounds. Keys are stored in ledgers, so the words must not change.
WORDS = ("round", "charge")
CHARGE_NAME = re.compile(rf"({'|'.join(WORDS)})-([0-9]{{6,}})|beside")  # end of a charge's key, after the key of the run and "/"


@dataclass(slots=True)
class RunCharges:
    """The charges in the ledger under the key of one run.

    Attributes:
        rounds: Number of rounds that the charges pay for.
        last_numbers: Highest number of a charge, for each word of `WORDS`; 0 if there is no such charge.
    """

    rounds: int = 0
    last_numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WORDS, 0))


def charges_of_run(ledger: Ledger, plan: FederatedPlan, key: str) -> RunCharges:
    """Return the charges that any process made for a run. Entries under other keys are not read.

    Raises LedgerError if a charge was made for another file or window, so that the cost of its rounds differs.
    """
    charges, window, tables = RunCharges(), ledger.stated_window(plan.pipeline), ChargedTables(plan)
    for run in ledger.runs_with_prefix(f"{key}/"):
        name = CHARGE_NAME.fullmatch(run.key[len(key) + 1 :])
        if name is None:
            continue
        charges.rounds += tables.rounds(run, key, window)
        word, number = name.groups()
        if word is not None:
            charges.last_numbers[word] = max(charges.last_numbers[word], int(number))
    return charges


def is_charged(ledger: Ledger, plan: FederatedPlan, key: str, charge: str) -> bool:
    """Return whether the ledger has the charge with the key `charge`, of the run with the key `key`.

    Raises LedgerError if the charge was made for another file or window.
    """
    run = ledger.state().runs.get(charge)
    if run is None:
        return False
    ChargedTables(plan).rounds(run, key, ledger.stated_window(plan.pipeline))
    return True


def is_rest_charged(ledger: Ledger, plan: FederatedPlan, key: str) -> bool:
    """Return whether the entries that no round performs are charged; True if there are none.

    Raises LedgerError if they were charged for another file or window.
    """
    return is_charged(ledger, plan, key, rest_key(key)) or plan.rest is None


def run_name(ledger: Ledger, key: str) -> str:
    """Return the key under which this login charges the run `key`, as `Ledger.own_key` does for a single charge.

    If this login has made charges under `key` itself, from before keys had logins, the run continues under `key`.
    """
    if any(payer(run.content) == ledger.who for run in ledger.runs_with_prefix(f"{key}/")):
        return key
    return ledger.own_key(key)


def charge_key(key: str, number: int, chunk: int) -> str:
    """Return the ledger key of a run's charge for `chunk` rounds. Charges are numbered from 1."""
    return f"{key}/{charge_word(chunk)}-{number:06d}"


def rest_key(key: str) -> str:
    """Return the ledger key of the charge for the entries of the file that no round performs."""
    return f"{key}/beside"


def charge_word(chunk: int) -> str:
    """Return the word in the key of a charge for `chunk` rounds: "round" for one round, and "charge" for several."""
    return "round" if chunk == 1 else "charge"


class ChargedTables:
    """The tables that charges of the current file have, by which its ledger entries are recognised."""

    def __init__(self, plan: FederatedPlan) -> None:
        # `canonical` gives the text of JSON values that a ledger hashes: equal tables have equal texts.
        self._plan, self._texts = plan, dict[int, str]()
        self._rest_text = None if plan.rest is None else canonical(tables_of(plan.rest))

    def rounds(self, run: Run, key: str, window: tuple[str, ...]) -> int:
        """Return the number of rounds that a charge of the run `key` pays for; 0 for the entries that no round performs.

        Raises LedgerError if the entry was charged for another file or window.
        """
        if run.key == rest_key(key):
            rounds = 0 if canonical(run.pipeline) == self._rest_text else None
        else:
            rounds = self._rounds_of(run.pipeline)
        # "spend" is the kind of an entry that charges at once. A reservation under this key pays for no round.
        if rounds is None or run.window != window or run.content.get("kind") != "spend":
            raise LedgerError(
                f'key "{key}": expected charges of {self._plan.path} as it is now, found entry {run.seq} ("{run.key}"), which was charged '
                "for another file or window: another run needs a key of its own"
            )
        return rounds

    def _rounds_of(self, tables: Mapping[str, Any]) -> int | None:
        """Return the number of rounds that these tables charge; None if they are not the tables of rounds of the current file."""
        # The first entry decides, because all entries of a charge have the same number of steps.
        steps = next((entry.get("steps", 1) for entry in tables["mechanism"]), None)
        if type(steps) is not int or steps < 1:
            return None
        rounds = steps * self._plan.rounds_per_step
        if steps not in self._texts:
            self._texts[steps] = canonical(tables_of(self._plan.charge(rounds, with_rest=False)))
        return rounds if canonical(tables) == self._texts[steps] else None
