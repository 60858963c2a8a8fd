"""Tests that the recipe in dpcli-backup(7) restores a ledger of teams on a new server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.verify import verify
from tests.command import ROOT
from tests.ledger.filters.setting import charge, terms
from tests.ledger.postgres.cluster import Cluster, missing, programs, running

DATABASE = "budget"
PAGE = (ROOT / "dpcli" / "explain" / "backup.md").read_text()
INSTALLED = (
    "CREATE ROLE ledger_owner LOGIN CREATEROLE",
    f"CREATE DATABASE {DATABASE}",
    f"GRANT CREATE ON DATABASE {DATABASE} TO ledger_owner",
    "CREATE ROLE ads",
    "CREATE ROLE sam LOGIN",
    "CREATE ROLE bob LOGIN",
    "CREATE ROLE ada LOGIN",
)
GRANTED = ("GRANT dpcli_spender, ads TO sam", "GRANT dpcli_spender TO bob", "GRANT dpcli_admin, ads TO ada")


def recipe(heading: str) -> tuple[list[str], str]:
    """The statements of the section's first block of commands, and its command for the dump."""
    block = PAGE.partition(f"## {heading}")[2].partition("```sh\n")[2].partition("```")[0]
    *statements, command = block.replace("\\\n", "").strip().splitlines()
    return [one.strip() for one in " ".join(statements).split(";") if one.strip()], command


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with running() as cluster:
        yield cluster


@pytest.mark.long
def test_a_ledger_of_teams_comes_back_with_its_teams(other: Cluster, tmp_path: Path) -> None:
    """Members of the team see and charge the dataset, others do not, and the owner can still create roles."""
    folder = programs()
    assert folder is not None

    dump = tmp_path / "monday.sql"
    with running() as first:
        first.run(*INSTALLED)
        init(first.url(DATABASE, "ledger_owner"), "open", terms()).close()
        first.run(*GRANTED)
        with init(first.url(DATABASE, "ada"), "clicks", replace(terms(), team="ads")) as ledger:
            charge(ledger, "first", "0.1")
        dump.write_bytes(
            subprocess.run([folder / "pg_dump", "--schema", "dpcli", first.url(DATABASE)], check=True, capture_output=True).stdout
        )
    statements, command = recipe("restore, and compare with the anchor")
    assert "CREATE DATABASE budget" in statements, "on a new server there is no database yet"
    other.run(*statements)
    program, *flags = command.split()
    assert program == "psql" and flags[-1] == DATABASE
    flags = [str(dump) if flag == "monday.sql" else flag for flag in flags]
    done = subprocess.run([folder / program, "-qX", *flags[:-1], other.url(DATABASE)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    with open_ledger(other.url(DATABASE, "sam"), "clicks") as ledger:
        charge(ledger, "second", "0.1")
        assert verify(ledger).problems == () and ledger.state().charges == 2
    other.run("CREATE ROLE bob LOGIN", "GRANT dpcli_spender TO bob")
    with pytest.raises(LedgerError, match="belongs to a team that the login is not in"):
        open_ledger(other.url(DATABASE, "bob"), "clicks").state()
    with open_ledger(other.url(DATABASE, "bob"), "open") as ledger:
        charge(ledger, "third", "0.1")
    init(other.url(DATABASE, "ledger_owner"), "new", terms()).close()
    other.run("CREATE ROLE vera LOGIN")
    other.run("GRANT dpcli_viewer TO vera", user="ledger_owner")
    assert open_ledger(other.url(DATABASE, "vera"), "new").state().charges == 0
