"""Access to ledgers by the path or URL that a user gives: a path, sqlite:///path or postgresql://...

The commands and `dpcli.budget` call `open_ledger`. opening.py calls `init`, `dpcli budget upgrade` calls `upgrade`, and copying.py opens
and creates stores. A *store* keeps the entries of one or more datasets in a file or a database (store.py). This module decides which store
a text names, opens or creates it, and keeps passwords out of messages (`without_secrets`). A misspelt URL must not become the name of a new
file, because a new ledger has its whole budget left: so a URL of another scheme, the parameters of a connection, and a text that may
contain a password are refused. For the same reason a new dataset is refused if another dataset in the store has its *fingerprint*, a hash
of the data.

The *definitions* are the tables, triggers and SQL functions that guard the entries; every dataset records their hash and version. A dataset
in a copy that is *not open* has not arrived yet, and still records the definitions of its origin (copying.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.lazy import load
from dpcli.file.toml.shown import first_names
from dpcli.ledger.chain import digest, next_entry
from dpcli.ledger.filters.declared_set import declared_caps
from dpcli.ledger.grammar import LONGEST_NAME, WORDS, is_a
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store, error_after_write
from dpcli.ledger.terms import LedgerTerms

POSTGRES = ("postgresql://", "postgres://")
EXPECTED = "expected a path, sqlite:///path or postgresql://..."
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}")
# Connection parameters, which libpq accepts in place of a URL. They are refused: they would become a file name that contains a password.
CONNINFO = re.compile(r"(^|\s)(host|hostaddr|port|dbname|user|password|passfile|sslpassword|sslkey|service)\s*=")
# A URL with a password, of which the scheme was forgotten. A text that begins with ./ or the letter of a drive is the path of a file.
CREDENTIALS = re.compile(r"(?![A-Za-z]:[\\/])[^/]+:[^@]*@")


def open_store(url: str) -> Store:
    """Return the existing store at a path or URL. Raises LedgerError if there is none, InputError if the URL has another scheme."""
    if url.startswith(POSTGRES):
        store: Store = load("dpcli.ledger.stores.postgres:PostgresStore")(url)
        return store
    from dpcli.ledger.stores.sqlite import SqliteStore

    return SqliteStore(path_of(url))


def absolute_url(url: str) -> str:
    """Return the path or URL in a form that names the same ledger from every working directory."""
    return url if url.startswith(POSTGRES) else os.path.abspath(path_of(url))


def path_of(url: str) -> str:
    """Return the path of a ledger in a file. Raises InputError if the text is not a path or sqlite:/// URL."""
    scheme, separator, after_scheme = url.partition("://")
    if not separator:
        if CONNINFO.search(url):
            raise InputError(f"{EXPECTED}, found the parameters of a connection")
        if CREDENTIALS.match(url):
            raise InputError(f"{EXPECTED}, found a text that may contain a password (write ./ before the path of a file)")
        return url
    if scheme != "sqlite" or not after_scheme.startswith("/") or not after_scheme.strip("/"):
        raise InputError(f"{EXPECTED}, found {without_secrets(url) if scheme != 'sqlite' else 'sqlite:// without a path'}")
    return after_scheme[1:]  # sqlite:///relative, sqlite:////absolute


def without_secrets(url: str) -> str:
    """Return a path or sqlite:///path as it is, for messages. Of any other URL only the scheme remains: the rest may have a password."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return "the parameters of a connection" if CONNINFO.search(url) or CREDENTIALS.match(url) else url
    return url if url.startswith("sqlite:///") else f"{scheme if SCHEME.fullmatch(scheme) else '?'}://..."


def open_ledger(url: str, dataset: str | None = None) -> Ledger:
    """Return the ledger of a dataset. If `dataset` is None, the store must have exactly one dataset.

    Raises:
        LedgerError: There is no store at the path or URL.
        InputError: The name is invalid, or it is missing and the store does not have exactly one dataset.
    """
    if dataset is not None and not is_a("name", dataset):
        raise InputError(f"--dataset: expected a name of {WORDS['name']}, found {dataset[:60]!a}")
    store = open_store(url)
    try:
        return Ledger(store, _only_dataset(store) if dataset is None else dataset)
    except BaseException:
        store.close()
        raise


def _only_dataset(store: Store) -> str:
    """Return the only dataset of a store. Raises InputError if there is none, or if there are several."""
    names = store.datasets()
    if len(names) != 1:
        verb = "shows this login" if store.hides else "holds"
        raise InputError(f"--dataset: state the name of a dataset; {store.place} {verb} {first_names(names, 'no dataset')}")
    return names[0]


def init(url: str, dataset: str, terms: LedgerTerms) -> Ledger:
    """Open the ledger of a new dataset, in a new file, in a file with other datasets, or in a database.

    Raises:
        InputError: The name or the terms are invalid.
        LedgerError: The dataset exists already, or the path is not a ledger.
    """
    if not dataset.strip() or not dataset.isprintable() or len(dataset) > LONGEST_NAME:
        raise InputError(f"--dataset: expected a name of at most {LONGEST_NAME} printable characters, found {dataset[:60]!r}")
    terms.refuse_invalid()
    if terms.team is not None and not url.startswith(POSTGRES):
        raise InputError(f"--team: {path_of(url)[:60]} is a file, which cannot distinguish users; use postgresql://...")

    def fill(store: Store) -> None:
        open_dataset(store, dataset, replace(terms, schema=digest(store.schema()), version=store.version))

    create_or_fill(url, fill)
    try:
        ledger = open_ledger(url, dataset)
    except LedgerError as error:
        raise error_after_write(error) from None
    ledger.store.wrote = True  # messages of later errors then say that the opening was written
    return ledger


def open_dataset(store: Store, dataset: str, terms: LedgerTerms, who: str = "", now: Callable[[], str] | None = None) -> Ledger:
    """Append the opening entry of a new dataset.

    Raises LedgerError if the dataset, or a dataset with the same fingerprint, has a ledger already.
    """
    ledger = Ledger(store, dataset, who, now)
    caps = declared_caps(terms.declared) if terms.mode == "declared" else terms.caps(terms.epsilon)
    with store.writing(dataset) as tail:
        if tail.after(0):
            raise LedgerError(
                f'{store.place}: expected a new dataset, found "{dataset}", which has a ledger (its terms cannot be changed)'
            )
        refuse_known_data(store, dataset, terms)
        opening = {"kind": "open", "terms": terms.content(), "caps": caps}
        tail.append(ledger._seal_and_apply(opening, ledger.now(), LedgerState(dataset)).row)
    return ledger


def refuse_known_data(store: Store, dataset: str, terms: LedgerTerms) -> None:
    """Check that no other dataset has the same fingerprint, because the same data under a second name would get a second budget.

    Raises LedgerError if another dataset has the fingerprint.
    """
    if not terms.fingerprint:
        return
    for other in store.datasets():
        known = None if other == dataset else _terms_of(store, other)
        # Hexadecimal digits may be capitals.
        if known is not None and (known.fingerprint or "").lower() == terms.fingerprint.lower():
            raise LedgerError(
                f'{store.place}: expected new data, found the fingerprint of dataset "{other}": charge the runs there'
            )


def _terms_of(store: Store, dataset: str) -> LedgerTerms | None:
    """Return the terms of another dataset. Only its opening entry is read, so that damage in later entries does not matter."""
    state = LedgerState(dataset)
    for row in store.after(dataset, 0, 1):
        state.apply(next_entry(row, dataset, state.head))
    return state.terms


def upgrade(url: str) -> tuple[str, ...]:
    """Renew the definitions of a ledger, and record this in every visible dataset. Return the names of the datasets with a new entry.

    Raises LedgerError if the user may not renew the definitions, or they were changed by hand.
    """
    _refuse_changed_definitions(url)
    # Only a database may have definitions of an earlier version (`Store.outdated`).
    store: Store = load("dpcli.ledger.stores.postgres:upgraded_store")(url) if url.startswith(POSTGRES) else open_store(url)
    with closing(store):
        return tuple(name for name in store.datasets() if not Ledger(store, name).upgrade().repeated)


def _refuse_changed_definitions(url: str) -> None:
    """Check that the definitions were not changed by hand, because an upgrade would record them as definitions of dpcli.

    A fault is reported only if a second check finds it as well, because another process may upgrade the ledger during the first check.

    Raises LedgerError if the definitions were changed.
    """
    if _fault_of_definitions(url) is None:
        return
    fault = _fault_of_definitions(url)
    if fault is not None:
        raise LedgerError(fault)


def _fault_of_definitions(url: str) -> str | None:
    """Return a message about a dataset whose definitions were changed by hand; None if there is none."""
    with closing(open_store(url)) as store:
        schema = digest(store.schema())
        for name in store.datasets():
            state = Ledger(store, name).state()
            if state.version >= store.version and state.schema != schema and not state.awaits_opening:
                return (
                    f'{store.place}: dataset "{name}": the definitions that guard the entries were changed, and not by dpcli; nothing was '
                    "upgraded: restore a backup"
                )
    return None


def address_of(url: str, store: Store) -> str:
    """Return the address of a store (`Store.address`). A file that is being created gets its final address."""
    return store.address if url.startswith(POSTGRES) else os.path.realpath(path_of(url))


def create_or_fill(url: str, fill: Callable[[Store], None], seconds: float = 60.0) -> None:
    """Call `fill`, which writes, with the store at a path or URL. The store is created if it does not exist.

    In a database this is one transaction, which may take up to `seconds`, by default as long as others (`WORK_SECONDS`).
    """
    if url.startswith(POSTGRES):
        load("dpcli.ledger.stores.postgres:create")(url, fill, work=seconds)
        return
    path = path_of(url)
    if os.path.lexists(path):
        with closing(open_store(url)) as store:  # raises LedgerError, with the fault, if the file is not a ledger
            fill(store)
        return
    from dpcli.ledger.stores.sqlite import create

    create(path, fill)
