"""A ledger store in a PostgreSQL database, for teams. The server enforces roles, row-level security and the rules of entries.

A store keeps the entries of datasets as *rows*: number, text and SHA-256. Each text contains the hash of the row before it, so that the
rows of a dataset are a hash *chain*, whose end is its *head* (dpcli/ledger/chain.py). stores/places.py opens, creates and upgrades a store;
dpcli/ledger/entry_log.py reads and appends through the interface in store.py. The *definitions* are the tables, triggers and SQL functions
in the .sql files of this folder. They have a version number, because a database keeps those that an earlier dpcli installed. Only the
SQL functions append, append_all and take write rows, and they check each row again, whatever client sends it.

A writer reads without a lock, and then appends in one statement, which commits by itself. So a client that stops blocks nobody. The SQL
function `dpcli.append_all` locks the head of the dataset. If others have appended since the writer read, it puts the writer's rows after
theirs and computes the hashes again. So a slow writer is not refused over and over. The writer must read and decide again (HeadMoved) in
four cases: others wrote about the same run; both wrote entries that belong to no run; the rows raise or lower the cap and the first charge
came in between; or the rows are no longer valid. At the isolation level READ COMMITTED, what the function reads after the lock includes all
commits before it. At a stricter level the server itself refuses the rows.

Source: https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS and
https://www.postgresql.org/docs/current/wal-async-commit.html.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.ledger.chain import StoredRow, is_sealed_again
from dpcli.ledger.stores.postgres_connection import (
    CHAIN_HAS_GROWN,
    CONNECT_SECONDS,
    MEANINGS,
    WORK_SECONDS,
    Limits,
    bounded_statement,
    bounded_transaction,
    driver,
    place_of,
    settings_of,
    unreachable,
)
from dpcli.ledger.stores.postgres_install import ATTEMPTS, OLDEST_READ, VERSION, CreatedByOther, install, installed_version, renew
from dpcli.ledger.stores.store import NOT_READ_BACK, HeadMoved, StoredCheckpoint, error_after_write

# The first version of the definitions in which the name of a run may begin with its login, as in "ada//week-7".
LOGIN_IN_NAMES = 8
# The times are arbitrary, and affect only waiting: after an error nothing is written, or the message says that it is uncertain.
# The longest wait for a lock, in seconds. The SQL function append_all gives up after 25 s, because clients wait for 30.
BUSY_SECONDS = 30.0
LONGEST_CONNECT = 600  # seconds; a larger connect_timeout in a URL is reduced to this value
NO_TRANSACTION = 0  # the status of a connection on which no transaction is open (psycopg.pq.TransactionStatus.IDLE)
SERVER_IDENTITY = (
    "SELECT pg_catalog.pg_postmaster_start_time()::text, oid::bigint FROM pg_catalog.pg_database "
    "WHERE datname = pg_catalog.current_database()"
)
SERVER_TIME = "SELECT pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
# The parameters of append_all: the dataset, the number of the first row, the texts, the hashes, and the wait for a lock in ms.
APPEND = "SELECT seq, body, hash FROM dpcli.append_all(%s, %s, %s, %s, %s)"
HEAD_OF_CHAIN = "SELECT seq, head FROM dpcli.dataset WHERE name = %s"
ROWS_AFTER = "SELECT seq, body, hash FROM dpcli.entry WHERE dataset = %s AND seq > %s ORDER BY seq LIMIT %s"
ROWS_OF_KEY = "SELECT seq, body, hash FROM dpcli.entry WHERE dataset = %s AND key = %s ORDER BY seq"
ROWS_OF_PREFIX = "SELECT seq, body, hash FROM dpcli.entry WHERE dataset = %s AND pg_catalog.starts_with(key, %s) ORDER BY seq"
# Each of these queries returns one sentence per fault, and no row for a sound ledger.
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
class PostgresRows:
    """The rows of one dataset's chain, as a transaction sees them."""

    connection: Any
    dataset: str
    place: str

    def page(self, seq: int, most: int | None) -> Sequence[StoredRow]:
        """Return up to `most` rows after `seq`.

        Raises LedgerError if the last entries are missing, so that the spending would seem smaller than it is.
        """
        # The head is read before the rows, so that an entry that is appended in between cannot seem missing.
        head = self.connection.execute(HEAD_OF_CHAIN, (self.dataset,)).fetchone()
        rows = self.rows(ROWS_AFTER, seq, most)
        if head is None or len(rows) == most:  # no such dataset, or there may be further rows
            return rows
        end, end_hash = head
        if end > seq and (end, end_hash) not in ((row.seq, row.hash) for row in rows):
            raise LedgerError(
                f'{self.place}: dataset "{self.dataset}": its entries end before entry {end}, which was written: '
                "the database is damaged, or was changed by hand"
            )
        return rows

    def rows(self, statement: str, *values: object) -> list[StoredRow]:
        """Return the rows of a query whose first parameter is the dataset."""
        return [StoredRow(*row) for row in self.connection.execute(statement, (self.dataset, *values)).fetchall()]


@dataclass(frozen=True, slots=True)
class PostgresTail:
    """The end of one dataset's chain.

    Attributes:
        new: The rows to append, which are sent when `PostgresStore.writing` ends, and are then the rows as the database has them.
    """

    store: PostgresStore
    dataset: str
    new: list[StoredRow] = field(default_factory=list)

    def after(self, seq: int) -> Sequence[StoredRow]:
        return [*self.store.after(self.dataset, seq), *(row for row in self.new if row.seq > seq)]

    def append(self, row: StoredRow) -> None:
        self.new.append(row)

    def append_copied(self, row: StoredRow) -> None:
        # `create` has opened a transaction, so that others see all copied rows at once.
        self.store.connection.execute("SELECT dpcli.take(%s, %s, %s, %s)", (self.dataset, row.seq, row.body, row.hash))

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        """Do nothing, because the server makes its own checkpoints and accepts none from a login."""


class PostgresStore:
    """A store in the schema dpcli of the database at `url`. The schema must exist. The function `create` makes it.

    `Store` (store.py) describes the attributes and methods: `after`, `rows_of_key` and `rows_of_prefix` read rows, `writing` appends, and
    `schema` and `check` are for `dpcli budget verify`. If the connection is lost, the next call opens a new connection.

    Args:
        url: URL of the database.
        seconds: Longest wait for a lock.
        work: Longest time of a transaction in seconds, without its wait for a lock.
        installing: Whether the database may lack the schema, because the caller creates it.
    """

    hides = True  # row-level security hides the datasets of teams that the login is not in

    def __init__(self, url: str, seconds: float = BUSY_SECONDS, installing: bool = False, work: float = WORK_SECONDS) -> None:
        settings = settings_of(url)
        self._place, self._limits = place_of(settings), Limits(seconds, work)
        self._version, self.wrote = VERSION, False
        self._connect = connection_function(url, settings, self._place)  # a closure, so that no attribute holds the password
        self._last_connection = self._new_connection()
        if not installing:
            self._read_version()

    @property
    def place(self) -> str:
        return self._place

    @property
    def address(self) -> str:
        """The URL of the database without a user. It does not depend on the login or on the spelling of the URL."""
        info = self.connection.info
        return f"postgresql://{info.host}:{info.port}/{info.dbname}"

    @property
    def identity(self) -> tuple[object, ...]:
        """The start time of the server to the microsecond, and the OID of the database."""
        with self._transaction() as connection:
            return tuple(connection.execute(SERVER_IDENTITY).fetchone())

    @property
    def who(self) -> str | None:
        """The login. The database refuses entries that are signed by another name."""
        return self._one_text("SELECT session_user::text")

    @property
    def version(self) -> int:
        """The version number of the definitions in the database. It lies between `OLDEST_READ` and `VERSION`."""
        return self._version

    @property
    def scopes_keys(self) -> bool:
        return self._version >= LOGIN_IN_NAMES

    @property
    def outdated(self) -> str:
        if self._version >= VERSION:
            return ""
        return f"the database has the definitions of version {self._version}"

    def now(self) -> str:
        return self._one_text(SERVER_TIME)

    @property
    def connection(self) -> Any:
        """An open connection. If the last connection was closed, a new one is opened."""
        if self._last_connection.closed:
            self._last_connection = self._new_connection()
        return self._last_connection

    def datasets(self) -> tuple[str, ...]:
        with self._transaction() as connection:
            return tuple(sorted(name for (name,) in connection.execute("SELECT name FROM dpcli.dataset").fetchall()))

    def after(self, dataset: str, seq: int, most: int | None = None) -> Sequence[StoredRow]:
        with self._transaction() as connection:
            return PostgresRows(connection, dataset, self._place).page(seq, most)

    def rows_of_key(self, dataset: str, key: str) -> Sequence[StoredRow]:
        with self._transaction() as connection:
            return PostgresRows(connection, dataset, self._place).rows(ROWS_OF_KEY, key)

    def rows_of_prefix(self, dataset: str, prefix: str) -> Sequence[StoredRow]:
        with self._transaction() as connection:
            return PostgresRows(connection, dataset, self._place).rows(ROWS_OF_PREFIX, prefix)

    def checkpoint(self, dataset: str) -> StoredCheckpoint | None:
        with self._transaction() as connection:
            row = connection.execute("SELECT body, digest FROM dpcli.checkpoint WHERE dataset = %s", (dataset,)).fetchone()
        return StoredCheckpoint(*row) if row else None

    @contextmanager
    def writing(self, dataset: str) -> Iterator[PostgresTail]:
        tail = PostgresTail(self, dataset)
        yield tail
        if tail.new:
            tail.new[:] = self._append(dataset, tail.new)

    def _append(self, dataset: str, rows: Sequence[StoredRow]) -> Sequence[StoredRow]:
        """Append rows in one statement, and return them as the database has them. Raises HeadMoved if the chain must be read again."""
        milliseconds = round(1000 * self._limits.lock)
        if self._version < VERSION:
            self._read_version()  # someone may have upgraded the database since, and taken away dpcli.hold
        if self._version < VERSION:
            self._append_under_lock(dataset, rows, milliseconds)
            return rows
        values = (dataset, rows[0].seq, [row.body for row in rows], [row.hash for row in rows], milliseconds)
        with self._transaction(writes=True, single_statement=True) as connection:
            stored = [StoredRow(*row) for row in connection.execute(APPEND, values).fetchall()]
        if len(stored) != len(rows) or not all(map(is_sealed_again, rows, stored)):
            raise LedgerError(f"{self._place}: {NOT_READ_BACK}")
        return stored

    def _append_under_lock(self, dataset: str, rows: Sequence[StoredRow], milliseconds: int) -> None:
        """Append rows to a database with definitions of version 7, whose function `hold` locks the dataset until a transaction ends.

        `milliseconds` is the longest wait for this lock.
        """
        with self._transaction(writes=True) as connection:
            connection.execute("SELECT dpcli.hold(%s, %s)", (dataset, milliseconds))
            if PostgresRows(connection, dataset, self._place).page(rows[0].seq - 1, None):  # others have appended meanwhile
                raise HeadMoved(f"{self._place}: {MEANINGS[CHAIN_HAS_GROWN]}")
            for row in rows:
                connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (dataset, row.seq, row.body, row.hash))

    def schema(self) -> str:
        statement = Path(__file__).with_name("postgres_schema.sql").read_text(encoding="utf-8")
        with self._transaction() as connection:
            # The text is hashed. It depends on the search_path of the transaction, which determines the names that the server qualifies.
            return "\n".join(line for (line,) in connection.execute(statement).fetchall())

    def check(self, dataset: str | None = None) -> tuple[str, ...]:
        rows: list[tuple[str]] = []
        with self._transaction() as connection:
            for query in (CUT_CHAINS, UNSAFE_SETTINGS):
                rows += connection.execute(query, {"dataset": dataset}).fetchall()
        return tuple(text for (text,) in rows)

    def close(self) -> None:
        self._last_connection.close()

    def _one_text(self, query: str) -> str:
        with self._transaction() as connection:
            text: str = connection.execute(query).fetchone()[0]
        return text

    @contextmanager
    def _transaction(self, writes: bool = False, single_statement: bool = False) -> Iterator[Any]:
        """Yield the connection in a transaction with bounded waits, or in a savepoint if a transaction is open already.

        Args:
            writes: Whether the transaction may write.
            single_statement: Whether it is one statement, which commits by itself unless a transaction is open.
        """
        try:
            connection = self.connection
            if single_statement and connection.info.transaction_status == NO_TRANSACTION:
                bounded = bounded_statement(connection, self._place, self._limits)
            else:
                bounded = bounded_transaction(connection, self._place, self._limits, writes=writes)
            with bounded:
                yield connection
        except LedgerError as error:
            if self.wrote:
                raise error_after_write(error) from error.__context__
            raise
        is_committed = connection.info.transaction_status == NO_TRANSACTION  # not after a savepoint in an open transaction
        self.wrote |= writes and is_committed

    def _new_connection(self) -> Any:
        connection = self._connect()
        weakref.finalize(self, connection.close)  # closes the connection if `close` is never called
        return connection

    def _read_version(self) -> None:
        """Read the version of the definitions. If there is no schema, or this dpcli cannot read it, close and raise LedgerError."""
        try:
            with self._transaction() as connection:
                version = installed_version(connection)
            if version is None:
                raise LedgerError(f"{self._place}: no ledger here (the database has no schema dpcli); dpcli budget init opens one")
            if version > VERSION:
                raise LedgerError(f"{self._place}: written by a later version of dpcli: upgrade to read it")
            if version < OLDEST_READ:
                raise LedgerError(f"{self._place}: made before dpcli 0.1.0: this version cannot read such a ledger")
            self._version = version
        except LedgerError:
            self.close()
            raise


def create(url: str, fill: Callable[[PostgresStore], None], seconds: float = BUSY_SECONDS, work: float = WORK_SECONDS) -> None:
    """Create the schema if it is missing and call `fill`, in one transaction.

    If another login creates the schema at the same moment, that schema is used.
    """
    with closing(PostgresStore(url, seconds, installing=True, work=work)) as store:
        for _ in range(ATTEMPTS):
            try:
                with store._transaction(writes=True) as connection:
                    store._version = install(connection, store.place)
                    fill(store)
                return
            except CreatedByOther:
                continue
        raise LedgerError(
            f"{store.place}: other logins create a ledger in this database at the same time; nothing was written: try again"
        )


def upgraded_store(url: str) -> PostgresStore:
    """Upgrade the definitions of the store at `url`, and return the store. Raises LedgerError if the user may not upgrade it."""
    store = PostgresStore(url)
    try:
        if store.version < VERSION:
            with store._transaction(writes=True) as connection:
                store._version = renew(connection, store.place)
    except BaseException:
        store.close()
        raise
    return store


def connection_function(url: str, settings: dict[str, Any], place: str) -> Callable[[], Any]:
    """Return a function that opens a connection with autocommit and READ COMMITTED. Only this closure holds the password."""
    psycopg = driver()

    def connect() -> Any:
        try:
            connection = psycopg.connect(
                url,
                autocommit=True,
                prepare_threshold=None,  # a connection pooler may run each transaction in another server process
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
    """Return the connect_timeout of a URL in seconds. If it is not a number > 0, libpq would wait forever, so return the default."""
    text = str(settings.get("connect_timeout", CONNECT_SECONDS)).strip()
    stated = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0  # a longer number gets the default as well
    return min(stated, LONGEST_CONNECT) or CONNECT_SECONDS
