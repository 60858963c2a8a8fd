"""The ledger in a PostgreSQL database, for teams: roles, row-level security, and rules that the server itself enforces.

One writer at a time: the dataset's row is locked before the first read (dpcli.hold), under READ COMMITTED, whose every statement sees what
was committed before it. Rows are written through dpcli.append alone, which checks them again. Source:
https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS, https://www.postgresql.org/docs/current/wal-async-commit.html.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import StoredRow
from dpcli.ledger.stores.postgres_connection import (
    CONNECT_SECONDS,
    WORK,
    Limits,
    bounded,
    driver,
    place_of,
    settings_of,
    unreachable,
)
from dpcli.ledger.stores.postgres_install import ATTEMPTS, COUNTS, NOTED, SOUND, VERSION, Raced, install, installed_version, renew
from dpcli.ledger.stores.store import StoredCheckpoint, error_after_write

BUSY_SECONDS = 30.0  # to wait for a lock
LONGEST_CONNECT = 600  # seconds that a URL may ask for
SERVER_IDENTITY = (
    "SELECT pg_catalog.pg_postmaster_start_time()::text, oid::bigint FROM pg_catalog.pg_database "
    "WHERE datname = pg_catalog.current_database()"
)
SERVER_TIME = "SELECT pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
HEAD = "SELECT seq, head FROM dpcli.dataset WHERE name = %s"
ROWS_AFTER = "SELECT seq, body, hash FROM dpcli.entry WHERE dataset = %s AND seq > %s ORDER BY seq LIMIT %s"
ROWS_OF_KEY = "SELECT seq, body, hash FROM dpcli.entry WHERE dataset = %s AND key = %s ORDER BY seq"
ROWS_OF_PREFIX = "SELECT seq, body, hash FROM dpcli.entry WHERE dataset = %s AND pg_catalog.starts_with(key, %s) ORDER BY seq"
# Each returns a sentence per fault; a sound ledger has no row.
CUT_CHAINS = (
    "SELECT format('dataset \"%%s\": its entries end at %%s, the chain that was written ends at %%s', d.name, max(e.seq), d.seq) "
    "FROM dpcli.dataset d LEFT JOIN dpcli.entry e ON e.dataset = d.name WHERE d.name = coalesce(%(dataset)s::text, d.name) "
    "GROUP BY d.name, d.seq, d.head "
    "HAVING (max(e.seq) = d.seq AND count(*) = d.seq AND bool_or(e.seq = d.seq AND e.hash = d.head)) IS NOT TRUE ORDER BY d.name"
)
UNSAFE_SETTINGS = (
    "SELECT format('the server runs with %%s off: commits may not survive a power failure', name) FROM pg_catalog.pg_settings "
    "WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
)


@dataclass(frozen=True, slots=True)
class PostgresTail:
    """The end of one chain, under the writer's lock."""

    connection: Any
    dataset: str
    place: str

    def after(self, seq: int) -> Sequence[StoredRow]:
        return self.page(seq, None)

    def page(self, seq: int, most: int | None) -> Sequence[StoredRow]:
        """Return up to `most` rows after `seq`.

        Raises:
            LedgerError: If the last entries that were written are missing: the spending would be understated.
        """
        head = self.connection.execute(
            HEAD, (self.dataset,)
        ).fetchone()  # before the rows: what others write meanwhile comes after it
        rows = self.rows(ROWS_AFTER, seq, most)
        ends_below_head = head is not None and head[0] > seq and len(rows) != most
        if ends_below_head and tuple(head) not in ((row.seq, row.hash) for row in rows):
            raise LedgerError(
                f'{self.place}: dataset "{self.dataset}": its entries end before entry {head[0]}, which was written: '
                "the database is damaged, or was changed by hand"
            )
        return rows

    def rows(self, statement: str, *values: object) -> list[StoredRow]:
        return [StoredRow(*row) for row in self.connection.execute(statement, (self.dataset, *values)).fetchall()]

    def append(self, row: StoredRow) -> None:
        self.connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (self.dataset, row.seq, row.body, row.hash))

    def take(self, row: StoredRow) -> None:
        self.connection.execute("SELECT dpcli.take(%s, %s, %s, %s)", (self.dataset, row.seq, row.body, row.hash))

    def note(self, checkpoint: StoredCheckpoint) -> None:
        """Do nothing: the server notes its own totals, and believes no login's."""


class PostgresStore:
    """A store in the schema dpcli of the database at `url`, which must be there: only `create` makes one.

    Attributes:
        seconds: Seconds to wait for a lock.
        work: For a transaction besides. A lost connection is opened again by the next call.
    """

    hides = True

    def __init__(self, url: str, seconds: float = BUSY_SECONDS, installing: bool = False, work: float = WORK) -> None:
        settings = settings_of(url)
        self._place, self._limits = place_of(settings), Limits(seconds, work)
        self._version, self.wrote = VERSION, False
        self._connect = connector(url, settings, self._place)  # a closure: no attribute holds the password
        self._last_connection = self._new_connection()
        if not installing:
            self._read_version()

    @property
    def place(self) -> str:
        return self._place

    @property
    def address(self) -> str:
        """The database, whoever is logged in and however the URL names it."""
        info = self.connection.info
        return f"postgresql://{info.host}:{info.port}/{info.dbname}"

    @property
    def identity(self) -> tuple[object, ...]:
        """The start of the server, to the microsecond, and the number of the database there."""
        with self._transaction() as connection:
            return tuple(connection.execute(SERVER_IDENTITY).fetchone())

    @property
    def who(self) -> str | None:
        """The login: the database signs, and takes no other signature."""
        return self._text("SELECT session_user::text")

    @property
    def version(self) -> int:
        """The version of the definitions in the database: an older one can be read and written, and has weaker checks."""
        return self._version

    @property
    def outdated(self) -> str:
        if self._version >= VERSION:
            return ""
        if self._version >= SOUND:
            return f"the database's definitions are those of version {self._version}, by which every run adds up all blocks"
        return f"the database's checks are those of version {self._version} and let a spender write what they should not"

    @property
    def takes_counts(self) -> bool:
        return self._version >= COUNTS

    @property
    def takes_notes(self) -> bool:
        return False

    def now(self) -> str:
        return self._text(SERVER_TIME)

    @property
    def connection(self) -> Any:
        """The connection; a new one where the last one is closed."""
        if self._last_connection.closed:
            self._last_connection = self._new_connection()
        return self._last_connection

    def datasets(self) -> tuple[str, ...]:
        with self._transaction() as connection:
            return tuple(sorted(name for (name,) in connection.execute("SELECT name FROM dpcli.dataset").fetchall()))

    def after(self, dataset: str, seq: int, most: int | None = None) -> Sequence[StoredRow]:
        with self._transaction() as connection:
            return PostgresTail(connection, dataset, self._place).page(seq, most)

    def about(self, dataset: str, key: str) -> Sequence[StoredRow]:
        with self._transaction() as connection:
            return PostgresTail(connection, dataset, self._place).rows(ROWS_OF_KEY, key)

    def beginning(self, dataset: str, start: str) -> Sequence[StoredRow]:
        with self._transaction() as connection:
            return PostgresTail(connection, dataset, self._place).rows(ROWS_OF_PREFIX, start)

    def checkpoint(self, dataset: str) -> StoredCheckpoint | None:
        if self._version < NOTED:
            return None
        with self._transaction() as connection:
            row = connection.execute("SELECT body, digest FROM dpcli.checkpoint WHERE dataset = %s", (dataset,)).fetchone()
        return StoredCheckpoint(*row) if row else None

    @contextmanager
    def writing(self, dataset: str) -> Iterator[PostgresTail]:
        with self._transaction(writes=True) as connection:
            connection.execute("SELECT dpcli.hold(%s, %s)", (dataset, round(1000 * self._limits.lock)))
            yield PostgresTail(connection, dataset, self._place)

    def schema(self) -> str:
        statement = Path(__file__).with_name("postgres_schema.sql").read_text(encoding="utf-8")
        with self._transaction() as connection:
            # The search_path decides which names the server writes in full: that of every transaction here.
            return "\n".join(line for (line,) in connection.execute(statement).fetchall())

    def check(self, dataset: str | None = None) -> tuple[str, ...]:
        with self._transaction() as connection:
            faults = [connection.execute(query, {"dataset": dataset}).fetchall() for query in (CUT_CHAINS, UNSAFE_SETTINGS)]
        return tuple(text for rows in faults for (text,) in rows)

    def close(self) -> None:
        self._last_connection.close()

    def _text(self, query: str) -> str:
        with self._transaction() as connection:
            text: str = connection.execute(query).fetchone()[0]
        return text

    @contextmanager
    def _transaction(self, writes: bool = False) -> Iterator[Any]:
        """Yield the connection in a transaction, or a part of the one that is open, whose every wait has an end."""
        try:
            connection = self.connection
            with bounded(connection, self._place, self._limits, writes=writes):
                yield connection
        except LedgerError as error:
            if self.wrote:
                raise error_after_write(error) from error.__context__
            raise
        is_idle = connection.info.transaction_status == 0  # else this was a part of a transaction that is still open
        self.wrote |= writes and is_idle

    def _new_connection(self) -> Any:
        connection = self._connect()
        weakref.finalize(self, connection.close)  # a store that is dropped gives its place among the server's connections back
        return connection

    def _read_version(self) -> None:
        """Note the version of the definitions. Raises LedgerError, and close, if there are none or a later dpcli made them."""
        try:
            with self._transaction() as connection:
                version = installed_version(connection)
            if version is None:
                raise LedgerError(f"{self._place}: no ledger here (the database has no schema dpcli); dpcli budget init opens one")
            if version > VERSION:
                raise LedgerError(f"{self._place}: written by a later version of dpcli: upgrade to read it")
            self._version = version
        except LedgerError:
            self.close()
            raise


def create(url: str, fill: Callable[[PostgresStore], None], seconds: float = BUSY_SECONDS, work: float = WORK) -> None:
    """Make the schema if the database has none, and what `fill` writes, in one transaction: both are there afterwards, or neither.

    Where another login makes the schema at the same moment, its schema is used.
    """
    with closing(PostgresStore(url, seconds, installing=True, work=work)) as store:
        for _ in range(ATTEMPTS):
            try:
                with store._transaction(writes=True) as connection:
                    store._version = install(connection, store.place)
                    fill(store)
                return
            except Raced:
                continue
        raise LedgerError(f"{store.place}: others are making a ledger in this database again and again; nothing was written")


def upgraded(url: str) -> PostgresStore:
    """Return the store after its definitions were made again as this version has them. Raises LedgerError if the user may not."""
    store = PostgresStore(url)
    try:
        if store.version < VERSION:
            with store._transaction(writes=True) as connection:
                store._version = renew(connection, store.place)
    except BaseException:
        store.close()
        raise
    return store


def connector(url: str, settings: dict[str, Any], place: str) -> Callable[[], Any]:
    """Return a function that opens a connection, in autocommit and READ COMMITTED. The password is in the closure alone."""
    psycopg = driver()

    def connect() -> Any:
        try:
            connection = psycopg.connect(
                url,
                autocommit=True,
                prepare_threshold=None,  # a pooler between may hand every transaction to another server process
                client_encoding="utf8",
                application_name="dpcli",
                connect_timeout=_connect_seconds(settings),
            )
        except psycopg.Error as error:
            raise unreachable(place, error, settings) from None
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    return connect


def _connect_seconds(settings: dict[str, Any]) -> int:
    """Return the timeout of a URL, or the default: libpq takes 0 and less as no limit."""
    text = str(settings.get("connect_timeout", CONNECT_SECONDS)).strip()
    stated = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    return min(stated, LONGEST_CONNECT) or CONNECT_SECONDS
