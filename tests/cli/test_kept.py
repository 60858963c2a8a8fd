"""Tests that no output of any command overwrites a ledger, or a file that SQLite keeps next to one."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from dpcli.ledger.stores.places import init
from tests.cases import of_each
from tests.cli.commands import COMMANDS, own_formats
from tests.command import dpcli
from tests.ledger.filters.setting import DATASET, terms

ROOT = Path(__file__).parents[2]
MNIST = str(ROOT / "examples" / "mnist.toml")
EXAMPLE = str(ROOT / "examples" / "audit" / "laplace-mean.toml")
WRITING = [words for words, command in COMMANDS.items() if any(one.name == "write" for one in command.params)]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "budget"  # no ending tells what it is
    init(str(path), DATASET, terms()).close()
    (tmp_path / "link").symlink_to(path)
    return path


@pytest.mark.long
@of_each("words", COMMANDS)
def test_no_report_replaces_a_ledger(words: tuple[str, ...], ledger: Path) -> None:
    """By its own name or by a link, of a line that can be read or that cannot: all of it of the first format, a fourth of the others."""
    before, ways = ledger.read_bytes(), [*product((ledger, ledger.parent / "link"), ((), ("--nope",)))]
    for place, name in enumerate(own_formats(words)):
        for path, wrong in ways if not place else [ways[place % len(ways)]]:
            done = dpcli(*words, MNIST, "-o", f"{name}={path}", *wrong)
            assert done.code not in (0, 70), done
            assert ledger.read_bytes() == before, done


@of_each("words", WRITING)
def test_no_file_that_is_written_replaces_one(words: tuple[str, ...], ledger: Path) -> None:
    before = ledger.read_bytes()
    done = dpcli(*words, MNIST, "--write", str(ledger))
    assert done.code == 2 and ledger.read_bytes() == before, done


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_what_is_kept_beside_one_stays(ending: str, ledger: Path) -> None:
    beside = Path(f"{ledger}{ending}")
    beside.write_bytes(b"kept")
    done = dpcli("account", MNIST, "-o", f"json={beside}")
    assert done.code == 2 and "found a ledger" in done.err and beside.read_bytes() == b"kept"


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_nothing_comes_to_lie_beside_one(ending: str, ledger: Path) -> None:
    beside, linked = Path(f"{ledger}{ending}"), ledger.parent / "beside"
    linked.symlink_to(beside)
    for path in (beside, linked):
        done = dpcli("account", MNIST, "-o", f"json={path}")
        assert done.code == 2 and "found a ledger" in done.err and not beside.exists(), done
        done = dpcli("init", "-o", str(path))
        assert done.code == 2 and not beside.exists(), done
        done = dpcli("audit", EXAMPLE, "--trials", "2", "--jobs", "1", "--scores", str(path))
        assert done.code == 2 and "found a ledger" in done.err and not beside.exists(), done
    assert dpcli("budget", "show", str(ledger)).code == 0


@of_each("ending", ["-wal", ".json"])
def test_other_files_are_replaced(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"report{ending}"
    path.write_text("old")
    (tmp_path / "report").write_text("no database")
    assert dpcli("account", MNIST, "-o", f"json={path}").code == 0
    assert path.read_text() != "old" and os.path.getsize(path) > 3
