"""Tests of sessions/charged.py: a run is charged once however it is interrupted, and its folder names it before the ledger does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init
from dpcli.sessions.charged import RUN, Session, charge, commit, mark_counted, open_session, require_charged, require_unfinished
from dpcli.sessions.folder import exclusive
from tests.cases import of_each
from tests.ledger.filters.setting import DATASET, run, terms


def books(folder: Path, epsilon: float = 1.0) -> Ledger:
    return init(str(folder / "ledger.db"), DATASET, terms(epsilon))


def begun(folder: Path, ledger: Ledger | None, resume: bool = False) -> Session:
    return open_session(str(folder), "of this file", resume, ledger)


@of_each("step, after", [(step, after) for step in ("write", "reserve", "start", "commit") for after in (False, True)])
def test_an_interruption_anywhere_charges_once_and_in_full(
    step: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If anything of the session is left, it resumes under the same run."""
    ledger = books(tmp_path)
    owner: Any = Session if step == "write" else Ledger
    done = getattr(owner, step)

    def broken(self: Any, *arguments: Any, **keys: Any) -> Any:
        if after:
            done(self, *arguments, **keys)
        raise KeyboardInterrupt

    def whole(resume: bool) -> None:
        session = begun(tmp_path, ledger, resume)
        charge(session, run(), ledger, "a test")
        require_charged(ledger, session.run)
        commit(mark_counted(session), ledger)

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, broken)
        with pytest.raises(KeyboardInterrupt):
            whole(resume=False)
    written = (tmp_path / RUN).exists()
    assert {*ledger.state().runs} <= ({json.loads((tmp_path / RUN).read_text())["run"]} if written else set())
    for _ in range(2):
        whole(resume=written)
        written = True
    (only,) = ledger.state().runs.values()
    assert only.status == "committed"
    assert json.loads((tmp_path / RUN).read_text())["run"] == only.key
    ledger.close()


def test_what_is_denied_is_not_started_and_may_be_asked_again(tmp_path: Path) -> None:
    """A denied session leaves no folder. One that was interrupted before its charge can be resumed."""
    ledger, folder = books(tmp_path, 0.005), tmp_path / "made" / "folder"
    for _ in range(2):
        with pytest.raises(Denied), exclusive(str(folder)):
            charge(begun(folder, ledger), run(), ledger, "a test")
        assert not folder.parent.exists()
    with exclusive(str(folder)):
        begun(folder, ledger).write()
    for _ in range(2):
        with pytest.raises(Denied), exclusive(str(folder)):
            charge(begun(folder, ledger, resume=True), run(), ledger, "a test")
    assert ledger.state().runs == {}
    ledger.close()


def test_what_was_charged_before_it_failed_is_known_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, start = books(tmp_path), Ledger.start

    def broken(self: Ledger, *arguments: Any, **keys: Any) -> Any:
        raise InputError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "start", broken)
        with pytest.raises(InputError, match="not now"):
            charge(begun(tmp_path, ledger), run(), ledger, "a test")
    assert Ledger.start is start
    assert charge(begun(tmp_path, ledger, resume=True), run(), ledger, "a test").run in ledger.state().runs
    assert len(ledger.state().runs) == 1
    ledger.close()


def test_a_run_that_was_voided_draws_nothing(tmp_path: Path) -> None:
    ledger, session = books(tmp_path), begun(tmp_path, None)
    ledger.reserve(run(), session.run)
    ledger.void(session.run, why="because")
    with pytest.raises(LedgerError, match="found it void: no answer is given"):
        charge(session, run(), ledger, "a test")
    assert ledger.state().run(session.run).status == "void"
    ledger.close()


def test_a_ledger_that_lost_the_run_is_not_charged_again(tmp_path: Path) -> None:
    """The ledger is an older copy or another one, so the noise was paid for elsewhere."""
    ledger = books(tmp_path)
    charge(begun(tmp_path, ledger), run(), ledger, "a test")
    session = mark_counted(begun(tmp_path, ledger, resume=True))
    ledger.close()
    (tmp_path / "other").mkdir()
    other = books(tmp_path / "other")
    with pytest.raises(LedgerError, match=r"has no run .*, but this session was charged under it"):
        charge(session, run(), other, "a test")
    assert other.state().runs == {}
    other.close()


def test_a_session_goes_on_as_it_began_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--resume: expected a session in"):
        begun(tmp_path, None, resume=True)
    session = begun(tmp_path, None)
    session.write()
    with pytest.raises(InputError, match="expected a new folder, found a session"):
        begun(tmp_path, None)
    with pytest.raises(InputError, match="expected the file and the window with which the session began"):
        open_session(str(tmp_path), "of another file", True, None)
    ledger = books(tmp_path)
    with pytest.raises(InputError, match="--resume: expected no --ledger, as at its start, found one"):
        begun(tmp_path, ledger, resume=True)
    Session(str(tmp_path), session.run, session.fingerprint, charged=True).write()
    with pytest.raises(InputError, match="--resume: expected the --ledger that was charged for this session, found none"):
        begun(tmp_path, None, resume=True)
    assert begun(tmp_path, ledger, resume=True).run == session.run
    ledger.close()


KEYS = ("run", "fingerprint", "charged", "counted")


@of_each("key, value", [(key, value) for key in KEYS for value in (None, 1, "missing")])
def test_a_damaged_record_answers_nothing(key: str, value: object, tmp_path: Path) -> None:
    """Started as a new session, it would give answers that nobody paid for."""
    begun(tmp_path, None).write()
    content = json.loads((tmp_path / RUN).read_text())
    if value == "missing":
        del content[key]
    else:
        content[key] = value
    (tmp_path / RUN).write_text(json.dumps(content))
    if key == "counted" and value == "missing":  # of a version that did not write it
        assert not getattr(begun(tmp_path, None, resume=True), key)
        return
    with pytest.raises(InputError, match="no further answers are given from this folder"):
        begun(tmp_path, None, resume=True)


@of_each(
    "moves, who, said",
    [
        (("start",), None, None),
        ((), None, None),
        (("start", "commit"), None, "found one that has ended \\(this folder is a copy\\)"),
        (("void",), None, "found one that was voided"),
        (("start",), "somebody", "--resume: expected the login that reserved this run, .*, found somebody"),
    ],
)
def test_more_noise_is_for_a_run_that_goes_on_and_its_owner(
    moves: tuple[str, ...], who: str | None, said: str | None, tmp_path: Path
) -> None:
    ledger = books(tmp_path)
    ledger.reserve(run(), "run")
    for move in moves:
        getattr(ledger, move)("run", why="because")
    if who is not None:
        ledger.who = who
    if said is None:
        require_unfinished("--resume", "run", ledger, "run")
    else:
        with pytest.raises(InputError, match=said):
            require_unfinished("--resume", "run", ledger, "run")
    ledger.close()


@of_each("moves, granted", [((), False), (("start",), True), (("start", "commit"), True), (("void",), False)])
def test_the_ledger_must_hold_the_run_as_started(moves: tuple[str, ...], granted: bool, tmp_path: Path) -> None:
    ledger = books(tmp_path)
    ledger.reserve(run(), "run")
    for move in moves:
        getattr(ledger, move)("run", why="because")
    if granted:
        require_charged(ledger, "run")
    else:
        with pytest.raises(LedgerError, match="no answer is given"):
            require_charged(ledger, "run")
    with pytest.raises(LedgerError, match="no entry has"):
        require_charged(ledger, "another")
    ledger.close()
