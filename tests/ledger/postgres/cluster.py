"""A PostgreSQL server for the tests, in a temporary folder and on a Unix socket. Nothing of it remains, however the tests end."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

SUPERUSER = "cluster_owner"
OWNER = "ledger_owner"  # the owner of ledgers, who is no superuser, as in a real installation
SECONDS = 60.0  # longest time for the start or the end of the server
# A shell script that runs the server until its standard input closes, and then removes its folder. The tests hold the other end of this
# pipe, so that nothing remains even after SIGKILL.
GUARD = """
"$1" -D "$2/data" >"$2/log" 2>&1 </dev/null &
server=$!
read -r _
kill -INT $server
wait $server
rm -rf "$2"
"""
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_connections = 60
shared_buffers = '32MB'
wal_level = minimal
max_wal_senders = 0
max_wal_size = '64MB'
min_wal_size = '32MB'
"""
MEMORY, ROOM = (
    "/dev/shm",
    2**30,
)  # a folder that is kept in memory, where a commit waits for no disk; bytes that it needs to have free
# The user with_password has to show one; everybody else is taken at his word.
ACCESS = """
local all with_password scram-sha-256
local all all trust
"""


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL programs on this machine; None if there are none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4].split(".")[0]))
    first = found[-1] if found else shutil.which("initdb")
    return Path(first).resolve().parent if first else None


def missing() -> str | None:
    """Return why no server can run here; None if one can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed: pip install 'dpcli[postgres]'"
    if programs() is None:
        return "no PostgreSQL server is installed: apt-get install postgresql"
    if os.getuid() == 0 and _account() is None:
        return "the server cannot run as root, and there is neither a user postgres nor nobody"
    return None


@dataclass(frozen=True)
class Cluster:
    """A running server. databases: the names of the databases that `database` has made."""

    folder: str
    databases: list[str] = field(default_factory=list)

    def url(self, database: str, user: str = SUPERUSER, password: str = "") -> str:
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{quote(user, safe='')}{secret}@/{database}?host={quote(self.folder, safe='')}"

    def connect(self, database: str = "postgres", user: str = SUPERUSER) -> Any:
        import psycopg

        return psycopg.connect(self.url(database, user), autocommit=True)

    def run(self, *statements: str, database: str = "postgres", user: str = SUPERUSER) -> None:
        with self.connect(database, user) as connection:
            for statement in statements:
                connection.execute(statement)

    def database(self, template: str = "template1") -> str:
        name = f"d{len(self.databases)}_{uuid.uuid4().hex[:8]}"
        self.databases.append(name)
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def login(self, name: str, *roles: str) -> str:
        """Make a user who may log in, with roles. It may exist from an earlier test."""
        with self.connect() as connection:
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
                connection.execute(f'CREATE ROLE "{name}" LOGIN')
            for role in roles:
                connection.execute(f'GRANT "{role}" TO "{name}"')
        return name


@contextmanager
def running() -> Iterator[Cluster]:
    """Run a server within this context."""
    bin_folder = programs()
    assert bin_folder is not None
    account = _account() if os.getuid() == 0 else None
    folder = tempfile.mkdtemp(prefix="dpcli-pg-", dir=_roomy())
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    guard = None
    try:
        _initialise(bin_folder, folder, account)
        guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(bin_folder / "postgres"), folder], stdin=subprocess.PIPE, **_as(account, folder)
        )
        cluster = Cluster(folder)
        _wait(cluster, guard)
        yield cluster
    finally:
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait(SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _roomy() -> str:
    """Return a folder whose path is short enough, as the path of a socket may have 107 characters."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return "/tmp"
    return MEMORY if found.f_bavail * found.f_frsize >= ROOM and os.access(MEMORY, os.W_OK | os.X_OK) else "/tmp"


def _initialise(bin_folder: Path, folder: str, account: pwd.struct_passwd | None) -> None:
    command = [str(bin_folder / "initdb"), "-D", f"{folder}/data", "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    done = subprocess.run([*command, "--no-sync"], capture_output=True, text=True, check=False, **_as(account, folder))
    assert done.returncode == 0, done.stderr
    with open(f"{folder}/data/postgresql.conf", "a") as file:
        file.write(SETTINGS.format(folder=folder))
    Path(f"{folder}/data/pg_hba.conf").write_text(ACCESS)


def _wait(cluster: Cluster, guard: subprocess.Popen[bytes]) -> None:
    import psycopg

    end = time.monotonic() + SECONDS
    while True:
        try:
            cluster.connect().close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > end or guard.poll() is not None:
                raise AssertionError(Path(cluster.folder, "log").read_text()) from None
            time.sleep(0.05)


def _as(account: pwd.struct_passwd | None, folder: str) -> dict[str, Any]:
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": folder}
    user = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return {"env": environment, "cwd": folder, **user}


def _account() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None
