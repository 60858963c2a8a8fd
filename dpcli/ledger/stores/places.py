"""The places of ledgers, as a user writes them (a path, sqlite:///path, postgresql://...), and the stores there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.lazy import load
from dpcli.file.toml.shown import first_names
from dpcli.ledger.chain import digest
from dpcli.ledger.grammar import WORDS, is_a
from dpcli.ledger.ledger import Ledger, open_dataset
from dpcli.ledger.stores.store import Store, error_after_write
from dpcli.ledger.terms import LedgerTerms

POSTGRES = ("postgresql://", "postgres://")
EXPECTED = "expected a path, sqlite:///path or postgresql://..."
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}")
# What libpq reads as well as a URL, and would be made as a file of that name, password and all.
CONNINFO = re.compile(r"(^|\s)(host|hostaddr|port|dbname|user|password|passfile|sslpassword|sslkey|service)\s*=")

# A URL whose slashes are missing; ./ before it makes it the path of a file, and so does the letter of a drive.
CREDENTIALS = re.compile(r"(?![A-Za-z]:[\\/])[^/]+:[^@]*@")


def open_store(url: str) -> Store:
    """Return the store at a path or URL, which must be there. Raises LedgerError if it is not, InputError for another scheme."""
    if url.startswith(POSTGRES):
        store: Store = load("dpcli.ledger.stores.postgres:PostgresStore")(url)
        return store
    from dpcli.ledger.stores.sqlite import SqliteStore

    return SqliteStore(path_of(url))


def absolute_url(url: str) -> str:
    """Return the place as it means the same ledger from every working directory."""
    return url if url.startswith(POSTGRES) else os.path.abspath(path_of(url))


def path_of(url: str) -> str:
    """Return the path of a ledger in a file. Raises InputError for what is none."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        if CONNINFO.search(url):
            raise InputError(f"{EXPECTED}, found the parameters of a connection")
        if CREDENTIALS.match(url):
            raise InputError(f"{EXPECTED}, found what may hold a password (before the path of a file write ./)")
        return url
    if scheme != "sqlite" or not rest.startswith("/") or not rest.strip("/"):
        raise InputError(f"{EXPECTED}, found {without_secrets(url) if scheme != 'sqlite' else 'sqlite:// without a path'}")
    return rest[1:]  # sqlite:///relative, sqlite:////absolute


def without_secrets(url: str) -> str:
    """Return a place as a message may quote it: nothing of a URL but its scheme, as its other parts may hold a password."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        return "the parameters of a connection" if CONNINFO.search(url) or CREDENTIALS.match(url) else url
    return url if scheme == "sqlite" else f"{scheme if SCHEME.fullmatch(scheme) else '?'}://..."


def open_ledger(url: str, dataset: str | None = None) -> Ledger:
    """Return the ledger of a dataset; of the only one where None. Raises LedgerError if there is none, InputError without its name."""
    if dataset is not None and not is_a("name", dataset):
        raise InputError(f"--dataset: expected a name of {WORDS['name']}, found {dataset[:60]!a}")
    store = open_store(url)
    try:
        return Ledger(store, _only_dataset(store) if dataset is None else dataset)
    except BaseException:
        store.close()
        raise


def _only_dataset(store: Store) -> str:
    names = store.datasets()
    if len(names) != 1:
        holds = "shows this login" if store.hides else "holds"
        raise InputError(f"--dataset: name one; {store.place} {holds} {first_names(names, 'no dataset')}")
    return names[0]


def init(url: str, dataset: str, terms: LedgerTerms) -> Ledger:
    """Open the ledger of a new dataset, in a new file, in a file that holds other datasets, or in a database.

    Raises:
        InputError: For terms that make no sense.
        LedgerError: If the dataset or something else is there already.
    """
    if not dataset.strip() or not dataset.isprintable() or len(dataset) > 200:
        raise InputError(f"--dataset: expected a name of at most 200 printable characters, found {dataset[:60]!r}")
    terms.refuse_invalid()
    if terms.team is not None and not url.startswith(POSTGRES):
        raise InputError(f"--team: {path_of(url)[:60]} is a file, which cannot tell one user from another; use postgresql://...")

    def fill(store: Store) -> None:
        open_dataset(store, dataset, replace(terms, schema=digest(store.schema()), version=store.version))

    create_or_fill(url, fill)
    try:
        ledger = open_ledger(url, dataset)
    except LedgerError as error:
        raise error_after_write(error) from None
    ledger.store.wrote = True
    return ledger


def upgrade(url: str) -> tuple[str, ...]:
    """Make the definitions of a ledger again, and note it in every visible dataset. Return the names of those that needed it.

    Raises:
        LedgerError: If the user may not, or the definitions are not those of any version.
    """
    _refuse_changed(url)
    store: Store = load("dpcli.ledger.stores.postgres:upgraded")(url) if url.startswith(POSTGRES) else open_store(url)
    try:
        return tuple(name for name in store.datasets() if not Ledger(store, name).upgrade().repeated)
    finally:
        store.close()


def _refuse_changed(url: str) -> None:
    """Raise LedgerError for definitions that were changed by hand: they would be noted as if a version of dpcli had made them so.

    Looked at twice: whoever upgrades at this moment changes them between two questions of one look.
    """
    if _changed_definitions(url) is not None and (problem := _changed_definitions(url)) is not None:
        raise LedgerError(problem)


def _changed_definitions(url: str) -> str | None:
    store = open_store(url)
    try:
        schema = digest(store.schema())
        for name in store.datasets():
            state = Ledger(store, name).state()
            if state.version >= store.version and state.schema != schema and not state.not_open:
                return (
                    f'{store.place}: dataset "{name}": the definitions that guard the entries were changed since they were noted, and no '
                    "version of dpcli did that; nothing was upgraded: restore a backup"
                )
        return None
    finally:
        store.close()


def address_of(url: str, store: Store) -> str:
    """Return `Store.address`, of a file also before it has its name."""
    return store.address if url.startswith(POSTGRES) else os.path.realpath(path_of(url))


def create_or_fill(url: str, fill: Callable[[Store], None], seconds: float = 60.0) -> None:
    """Make a store at a path or URL if there is none, and let `fill` write to it; in a database within `seconds`."""
    if url.startswith(POSTGRES):
        load("dpcli.ledger.stores.postgres:create")(url, fill, work=seconds)
        return
    path = path_of(url)
    if os.path.lexists(path):
        store = open_store(url)  # says what is wrong with it, if something is
        try:
            fill(store)
        finally:
            store.close()
        return
    from dpcli.ledger.stores.sqlite import create

    create(path, fill)
