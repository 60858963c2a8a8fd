"""Tests of the fingerprint of data files, and of ledgers that are opened with one."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger import opening
from dpcli.ledger.opening import fingerprint_of
from dpcli.ledger.stores import places
from dpcli.ledger.stores.places import init as opened
from dpcli.ledger.stores.places import open_store, refuse_known_data
from tests.cases import fresh_random
from tests.command import Result, dpcli
from tests.ledger.cases import every
from tests.ledger.conftest import Database, Place
from tests.ledger.filters.setting import run_file, terms

TERMS = ("--unit", "example", "--adjacency", "add-remove", "--epsilon", "1", "--delta", "0", "--filter", "approx-dp")


def init(url: str, name: str, *flags: str) -> Result:
    return dpcli("budget", "init", url, "--dataset", name, *TERMS, *flags)


@given(contents=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5))
def test_order_names_and_repetition_do_not_matter(contents: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    paths = [str(folder / f"part {i}") for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    found = fingerprint_of(paths)
    assert len(found) == 64 and all(fingerprint_of([*order, order[0]]) == found for order in itertools.permutations(paths))
    os.rename(paths[0], folder / "renamed")
    assert fingerprint_of([str(folder / "renamed"), *paths[1:]]) == found
    (folder / "renamed").write_bytes(contents[0] + b"x")
    changed = {*contents[1:], contents[0] + b"x"}
    assert (fingerprint_of([str(folder / "renamed"), *paths[1:]]) == found) == (changed == {*contents})


def test_one_file_has_its_own_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint is what sha256sum prints, whatever the size of the pieces in which the file is read."""
    (tmp_path / "a").write_bytes(content := fresh_random().randbytes(10_000))
    for piece in (1, 7, 4096, 1 << 20):
        monkeypatch.setattr(opening, "PIECE", piece)
        assert fingerprint_of([str(tmp_path / "a")]) == hashlib.sha256(content).hexdigest()


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("empty", "pipe", ".", "nowhere"):
        with pytest.raises(InputError, match=f"--data {tmp_path / name}"):
            fingerprint_of([str(tmp_path / name)])


def _grows(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _changes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


def test_a_file_that_is_written_meanwhile_has_none(tmp_path: Path) -> None:
    def refused(at: int, change: Callable[[Path], None]) -> None:
        (data := tmp_path / f"data {at} {change.__name__}").write_bytes(b"abcd")
        os.utime(data, ns=(0, 0))  # whatever the clock of the file system shows
        reads = iter(range(10))

        class Total:
            def update(self, piece: bytes) -> None:
                if next(reads) == at:
                    change(data)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opening, "PIECE", 1)
            patch.setattr(opening.hashlib, "sha256", Total)
            with pytest.raises(InputError, match="changed while it was read"):
                fingerprint_of([str(data)])

    every(itertools.product(range(4), (_grows, _changes)), refused)


def test_the_same_data_under_a_second_name(place: Place, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    first, second, third = (str(tmp_path / name) for name in ("a", "b", "c"))
    assert init(place.url, "clicks", "--data", first, "--data", second).code == 0
    again = init(place.url, "visits", "--data", second, "--data", first)
    assert again.code == 4 and 'found the fingerprint of dataset "clicks"' in again.err
    assert init(place.url, "visits", "--data", third).code == 0


def test_what_is_left_open_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    flags = {"a": (), "b": ("--data", str(tmp_path / "a")), "c": ("--fingerprint", "f"), "d": ("--blocks", "day", "--column", "d")}
    for name, more in flags.items():
        more = (*more, "--max-blocks", "1") if name == "d" else more
        done = init(str(tmp_path / f"{name}.db"), name, *more, "-f", "text")
        lines = [line for line in done.out.splitlines() if "can be registered twice" in line]
        assert len(lines) == (name == "a"), done
        done = init(str(tmp_path / f"{name}2.db"), name, *more, "-f", "json")
        assert len(json.loads(done.out)["told"]) == (name == "a")


def test_one_fingerprint_is_stated(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    done = init(str(tmp_path / "l.db"), "clicks", "--data", str(tmp_path / "a"), "--fingerprint", "f")
    assert done.code == 2 and "--fingerprint: expected none with --data" in done.err
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize(("stated", "code"), [(None, 0), ("clicks", 0), ("visits", 2), ("Clicks", 2)])
def test_declared_runs_of_another_dataset_open_nothing(stated: str | None, code: int, tmp_path: Path) -> None:
    """The ledger would refuse each of these runs."""
    (file := tmp_path / "run.toml").write_text(
        run_file().replace("[privacy]", "[privacy]" if stated is None else f'[privacy]\ndataset = "{stated}"')
    )
    url = str(tmp_path / "l.db")
    done = dpcli("budget", "init", url, "--dataset", "clicks", *TERMS[:-2], "--mode", "declared", "--declare", f"{file}:2")
    assert done.code == code, done
    assert (tmp_path / "l.db").exists() == (code == 0)
    if code:
        assert f'privacy.dataset: expected "clicks", the dataset of this ledger, or none, found "{stated}"' in done.err
    else:
        assert dpcli("budget", "spend", url, str(file), "--key", "one").code == 0


HASHES = [("a" * 64, "A" * 64), ("AB" * 32, "ab" * 32), ("aB" * 32, "Ab" * 32), ("sha256:" + "f" * 64, "SHA256:" + "F" * 64)]


@pytest.mark.sampled
@pytest.mark.parametrize(("first", "second"), HASHES)
def test_a_hash_in_capitals_is_the_same_data(first: str, second: str, place: Place) -> None:
    opened(place.url, "clicks", replace(terms(), fingerprint=first)).close()
    for stated in (first, second):
        done = init(place.url, "visits", "--fingerprint", stated)
        assert done.code == 4 and 'found the fingerprint of dataset "clicks"' in done.err
    assert init(place.url, "visits", "--fingerprint", "0" * 64).code == 0


def test_the_server_knows_the_data_of_a_team_whose_member_nobody_is(database: Database) -> None:
    """The person who opens the ledger cannot see the team's dataset, but the server compares fingerprints with it."""
    opened(database.url, "clicks", replace(terms(), fingerprint="a" * 64)).close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "refuse_known_data", lambda *_: None)
        with pytest.raises(LedgerError, match="expected new data, found the fingerprint"):
            opened(database.url, "visits", replace(terms(), fingerprint="A" * 64)).close()
    store = open_store(database.url)
    assert store.datasets() == ("clicks",)
    refuse_known_data(store, "visits", replace(terms(), fingerprint="b" * 64))
    store.close()
