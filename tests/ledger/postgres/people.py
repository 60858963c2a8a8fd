"""Ledgers as different logins see them, and entries that a login writes by SQL without dpcli's requests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from dpcli.ledger.chain import digest, seal, utc_now
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores import postgres_install
from dpcli.ledger.stores.places import open_store
from dpcli.ledger.stores.postgres import PostgresStore
from tests.ledger.conftest import Database, Place
from tests.ledger.filters.setting import DATASET

FUNCTIONS = Path(postgres_install.__file__).with_name("postgres_functions.sql")
# How often a server notes what its entries add up to: as it is installed, and at every third entry.
(USUAL,) = re.findall(r"(?s)CREATE OR REPLACE FUNCTION dpcli.every.*?\$\$;", FUNCTIONS.read_text(encoding="utf-8"))
EVERY = USUAL.replace("256", "3")


def by(place: Place, who: str, role: str = "dpcli_admin", dataset: str = DATASET) -> Ledger:
    """Return the ledger as a person opens it: under a login of the database, or under an account name for a file."""
    if hasattr(place, "cluster"):  # whichever name its module was imported under
        place.cluster.login(who, role)
        return Ledger(PostgresStore(place.cluster.url(place.name, who)), dataset)
    return Ledger(open_store(place.url), dataset, who=who)


def signed(ledger: Ledger, content: dict[str, Any], who: str) -> dict[str, Any]:
    """Return the next entry of the chain, signed by a person."""
    head = ledger.state().head
    chain = {"ledger": 1, "dataset": DATASET, "seq": head.seq + 1, "previous": head.hash}
    return {**content, "who": who, "when": utc_now(), "dpcli": "0", **chain}


def written(ledger: Ledger, content: dict[str, Any], who: str) -> None:
    """Append an entry without a request, as anybody who can write the file can do."""
    entry = seal({**content, "who": who, "when": utc_now(), "dpcli": "0"}, DATASET, ledger.state().head)
    with ledger.store.writing(DATASET) as tail:
        tail.append(entry.row)


def by_hand(
    database: Database, user: str, text: str, *, seq: int | None = None, hash_: str | None = None, dataset: str = DATASET
) -> None:
    """Call the append function of the database without dpcli."""
    number = json.loads(text)["seq"] if seq is None else seq
    with database.cluster.connect(database.name, user) as connection:
        connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (dataset, number, text, hash_ or digest(text)))
