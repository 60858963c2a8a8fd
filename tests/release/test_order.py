"""The order of a release: nothing is seen that was not paid for, and nothing is drawn twice for one payment."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import tomllib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import CannotCertify, Denied, InputError, InternalError, LedgerError, NotRepresentable
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init
from dpcli.release import release_run as running
from dpcli.release.aggregate import Aggregation, Total, Totals
from dpcli.release.query_answer import ANSWERS, CROISSANT, STATEMENT
from dpcli.release.release_plan import ReleaseOutcome, ReleasePlan, plan_of
from dpcli.release.release_run import release
from dpcli.sessions.charged import RUN, Session
from tests.cases import of_each
from tests.inline import text_of
from tests.ledger.filters.setting import DATASET, terms
from tests.release.tables.files import COLUMNS, document

COUNT = {"name": "adults", "measure": "count", "epsilon": 0.5}


class Killed(BaseException):
    """The process ends here."""


class Table:
    """An engine with one number, which notes that it was asked. Stands in for a table of data."""

    asked = 0

    def check(self, aggregation: Aggregation) -> None: ...

    def limit_columns(self, aggregations: Iterable[Aggregation]) -> None: ...

    def require_joinable(self) -> None: ...

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        Table.asked += 1
        return {(): Total(1000, 1000, tuple(0 for _ in aggregation.values))}


@pytest.fixture(autouse=True)
def a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcli.release.engines import source_engine as opening

    @contextmanager
    def opened(*_: Any) -> Iterator[Table]:
        yield Table()

    Table.asked = 0
    monkeypatch.setattr(opening, "open_source", opened)


def plan(folder: Path, **query: Any) -> ReleasePlan:
    (folder / "visits.csv").write_text(f"{','.join(COLUMNS)}\n")
    path = folder / "file.toml"
    tables = document({**COUNT, **query}, by_unit=False)
    tables["source"]["output"] = str(folder / "out")
    tables["privacy"]["delta"] = 0
    path.write_bytes(text_of(tables))
    return plan_of(str(path))


def books(folder: Path, epsilon: float = 2.0) -> Ledger:
    return init(str(folder / "ledger.db"), DATASET, terms(epsilon))


def value(done: ReleaseOutcome) -> Any:
    return done.answers[0].rows[0].value


STEPS: dict[str, tuple[Any, str]] = {
    "session": (Session, "write"),
    "reserve": (Ledger, "reserve"),
    "start": (Ledger, "start"),
    "compute": (Table, "totals"),
    "answers": (running, "_compute_answers"),
    "store": (running, "store"),
    "statement": (running, "replace_file"),
    "commit": (running, "commit"),
}


@of_each("after", [False, True])
@of_each("step", STEPS)
@of_each("charged", [False, True])
def test_a_crash_at_every_event(step: str, after: bool, charged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards there is the one answer that was drawn, or none for ever; the data were asked once; the charge is there if they were."""
    Table.asked = 0
    ledger = books(tmp_path) if charged else None
    owner, name = STEPS[step]
    done = getattr(owner, name)

    def broken(*arguments: Any, **keys: Any) -> Any:
        if after:
            done(*arguments, **keys)
        raise Killed

    if not charged and owner is Ledger:
        return
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, broken)
        with pytest.raises(Killed):
            release(plan(tmp_path), ledger)
    asked, stored = Table.asked, (tmp_path / "out" / ANSWERS).exists()
    found: list[Any] = []
    for _ in range(2):
        with suppress(LedgerError):
            found.append(value(release(plan(tmp_path), ledger)))
    if not found:
        with pytest.raises(LedgerError, match="the answer was lost before anybody saw it"):
            release(plan(tmp_path), ledger)
    assert Table.asked <= 1 and len(set(found)) <= 1
    assert bool(found) == (stored or (asked == 0 and step in ("session", "reserve")) or (step == "start" and not after and charged))
    if ledger is not None:
        runs = ledger.state().runs
        assert len(runs) == 1
        (only,) = runs.values()
        assert only.status == ("committed" if found else "started")
        ledger.close()


def test_the_same_release_gives_the_same_answer_for_ever(tmp_path: Path) -> None:
    with books(tmp_path) as ledger:
        first = release(plan(tmp_path), ledger, "key")
        again = [release(plan(tmp_path), ledger, key) for key in ("key", None)]
        assert first.fresh and [(value(one), one.fresh) for one in again] == [(value(first), False)] * 2
        assert Table.asked == 1 and len(ledger.state().runs) == 1


@of_each("change", [{"epsilon": 0.6}, {"where": "age >= 18"}, {"name": "others"}, {"confidence": 0.9}])
def test_another_question_in_the_same_folder_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    Table.asked = 0
    release(plan(tmp_path))
    with pytest.raises(InputError, match="found a change") as found:
        release(plan(tmp_path, **change))
    assert Table.asked == 1 and "--resume" not in str(found.value)


@pytest.mark.parametrize("charged", [False, True], ids=["alone", "ledger"])
def test_what_is_asked_otherwise_in_the_same_folder_is_told_what_to_do(charged: bool, tmp_path: Path) -> None:
    """In words of this command: it has no --resume."""
    with books(tmp_path) as ledger:
        release(plan(tmp_path), ledger if charged else None)
        for other, key in ((None if charged else ledger, None), (ledger if charged else None, "another")):
            with pytest.raises(InputError, match=r"out: expected (no|the) (--ledger|key)") as found:
                release(plan(tmp_path), other, key)
            assert "--resume" not in str(found.value)
    assert Table.asked == 1


def test_the_same_key_from_another_folder_draws_nothing(tmp_path: Path) -> None:
    with books(tmp_path) as ledger:
        release(plan(tmp_path), ledger, "key")
        shutil.rmtree(tmp_path / "out")
        with pytest.raises(Denied, match="was charged before"):
            release(plan(tmp_path), ledger, "key")
    assert Table.asked == 1


def test_an_earlier_copy_of_the_folder_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back as it was before the start, under a ledger that knows of it."""
    with books(tmp_path) as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "reserve", lambda *_, **__: (_ for _ in ()).throw(Killed()))
            with pytest.raises(Killed):
                release(plan(tmp_path), ledger)
        shutil.copytree(tmp_path / "out", tmp_path / "copy")
        release(plan(tmp_path), ledger)
        shutil.rmtree(tmp_path / "out")
        os.rename(tmp_path / "copy", tmp_path / "out")
        with pytest.raises(Denied, match="was charged before"):
            release(plan(tmp_path), ledger)
    assert Table.asked == 1


def test_a_ledger_that_does_not_know_the_charge_is_not_charged_instead(tmp_path: Path) -> None:
    """Another one, or the same put back: the answers that are gone were shown, or may have been."""
    with books(tmp_path) as ledger, init(str(tmp_path / "other.db"), "other", terms(2.0)) as other:
        release(plan(tmp_path), ledger)
        for lost in (False, True):
            if lost:
                os.remove(tmp_path / "out" / ANSWERS)
            with pytest.raises(LedgerError, match="it is another ledger, or was restored"):
                release(plan(tmp_path), other)
        assert not other.state().runs
    assert Table.asked == 1


def test_a_key_of_another_release_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    """Nothing was charged for it: it may be answered under a key of its own."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with books(tmp_path) as ledger:
        release(plan(tmp_path / "a"), ledger, "key")
        with pytest.raises(Denied, match="was charged before"):
            release(plan(tmp_path / "b"), ledger, "key")
        assert release(plan(tmp_path / "b"), ledger, "other").fresh


@of_each("kind", [Denied, InputError, CannotCertify, NotRepresentable])
def test_what_a_ledger_refuses_leaves_the_folder_as_it_was(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise kind("no")

    with books(tmp_path) as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "reserve", refused)
            with pytest.raises(kind):
                release(plan(tmp_path), ledger)
        assert not (tmp_path / "out").exists()
        assert release(plan(tmp_path, epsilon=0.2), ledger).fresh


def test_answers_of_other_data_are_not_given_for_these(tmp_path: Path) -> None:
    """Two files that say the same, each beside data of its own, and one folder for both; data that were moved are the same."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    path = plan(tmp_path / "a").path
    text = Path(path).read_text().replace(str(tmp_path / "a" / "out"), str(tmp_path / "out"))
    for name in ("a", "b"):
        plan(tmp_path / name)
        (tmp_path / name / "file.toml").write_text(text)
    first = release(plan_of(path))
    with pytest.raises(InputError, match="the stored answers are about"):
        release(plan_of(str(tmp_path / "b" / "file.toml")))
    os.rename(tmp_path / "a", tmp_path / "moved")
    again = release(plan_of(str(tmp_path / "moved" / "file.toml")))
    assert not again.fresh and value(again) == value(first) and Table.asked == 1


def test_a_statement_that_is_gone_is_written_again(tmp_path: Path) -> None:
    release(plan(tmp_path))
    said = (tmp_path / "out" / STATEMENT).read_text()
    (tmp_path / "out" / STATEMENT).unlink()
    release(plan(tmp_path))
    assert (tmp_path / "out" / STATEMENT).read_text() == said


REQUIRED = {
    "@context",
    "@type",
    "conformsTo",
    "description",
    "license",
    "name",
    "url",
    "creator",
    "datePublished",
}  # by Croissant 1.0


def test_a_release_is_described_once_the_file_states_what_that_takes(tmp_path: Path) -> None:
    """Also after the release, of which nothing is drawn again; a description that is there is kept."""
    stated = {"license": "CC0", "url": "https://example.org", "controller": "a clinic", "published": datetime.date(2026, 11, 29)}
    file, folder = Path(plan(tmp_path).path), tmp_path / "out"
    tables = tomllib.loads(file.read_text())
    for missing in (*stated, None):
        disclosure = {key: value for key, value in stated.items() if key != missing}
        file.write_bytes(text_of({**tables, "disclosure": disclosure}))
        release(plan_of(str(file)))
        assert (folder / CROISSANT).exists() == (missing is None), missing
    described = json.loads((folder / CROISSANT).read_text())
    assert described.keys() == REQUIRED | {"distribution"} and "epsilon <= 0.50000 at delta = 0.0" in described["description"]
    files = {file["contentUrl"]: file["sha256"] for file in described["distribution"]}
    assert files == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (ANSWERS, STATEMENT)}
    (folder / CROISSANT).write_text("{}")
    release(plan_of(str(file)))
    assert (folder / CROISSANT).read_text() == "{}" and Table.asked == 1


def test_two_at_once_under_one_key_draw_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From two folders: between the reservation of the one and its start, the other one runs to its end."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    reserve, inside = Ledger.reserve, False

    def interrupted(self: Ledger, *arguments: Any, **keys: Any) -> Any:
        nonlocal inside
        found = reserve(self, *arguments, **keys)
        if not inside:
            inside = True
            release(plan(tmp_path / "b"), self, "key")
        return found

    with books(tmp_path) as ledger:
        monkeypatch.setattr(Ledger, "reserve", interrupted)
        with pytest.raises((Denied, LedgerError), match=r"started by another process|found a run that is committed"):
            release(plan(tmp_path / "a"), ledger, "key")
    assert Table.asked == 1


@pytest.mark.parametrize("step", ["session", "reserve"])
def test_what_was_begun_in_a_ledger_is_not_drawn_outside_of_it(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash before the start, nor the other way round."""
    owner, name = STEPS[step]
    done = getattr(owner, name)

    def broken(*arguments: Any, **keys: Any) -> Any:
        done(*arguments, **keys)
        raise Killed

    with books(tmp_path) as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, broken)
            with pytest.raises(Killed):
                release(plan(tmp_path), ledger)
        with pytest.raises(InputError, match="expected the --ledger that was charged"):
            release(plan(tmp_path))
        assert Table.asked == 0
        assert release(plan(tmp_path), ledger).fresh


def test_changed_answers_are_not_shown(tmp_path: Path) -> None:
    release(plan(tmp_path))
    path = tmp_path / "out" / ANSWERS
    path.write_text(path.read_text().replace('"value": ', '"value": 1'))
    with pytest.raises(InputError, match="were changed"):
        release(plan(tmp_path))


@of_each("name", [RUN, ANSWERS])
@of_each("content", [b"", b"[]", b"{}", b"null", b'"x"', b"\xff", b"[" * 10**5, b'{"run": 1}', b'{"run": "a", "folder": "b"}'])
def test_a_damaged_file_is_refused_and_nothing_is_drawn(name: str, content: bytes, tmp_path: Path) -> None:
    Table.asked = 0
    release(plan(tmp_path))
    (tmp_path / "out" / name).write_bytes(content)
    with pytest.raises(InputError, match=r"were changed|not as dpcli wrote it"):
        release(plan(tmp_path))
    assert Table.asked == 1


@of_each("name", [RUN, ANSWERS, STATEMENT])
@of_each("charged", [False, True])
def test_a_full_disk_is_told_with_the_file_and_what_became_of_the_charge(
    name: str, charged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when there is room again nothing is drawn twice."""
    from dpcli.release import query_answer as storing
    from dpcli.sessions import charged as sessions
    from dpcli.sessions.folder import replace_file

    Table.asked = 0

    def full(path: str, *others: Any) -> None:
        if os.path.basename(path) == name:
            raise OSError(28, "No space left on device")
        replace_file(path, *others)

    with books(tmp_path) as ledger:
        with monkeypatch.context() as patched:
            for owner in (storing, sessions, running):
                patched.setattr(owner, "replace_file", full)
            with pytest.raises(LedgerError, match=rf"{name}: cannot be written \(No space left on device\): .*(drawn|lost|stored)"):
                release(plan(tmp_path), ledger if charged else None)
        assert Table.asked == (name != RUN)
        with suppress(LedgerError):
            release(plan(tmp_path), ledger if charged else None)
        assert Table.asked == 1 and len(ledger.state().runs) == charged


QUOTING = (
    ValueError("4711"),
    KeyError(4711),
    MemoryError("4711"),
    RecursionError("4711"),
    OverflowError("4711"),
    OSError(5, "EIO", "4711"),
)


@of_each("step", ["check", "totals"])
@of_each("error", [*QUOTING, UnicodeDecodeError("utf-8", b"4711", 0, 1, "4711")], told=lambda error: type(error).__name__)
def test_no_error_quotes_the_data(error: Exception, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a library says; what became of the charge is told."""

    def broken(*_: Any, **__: Any) -> Any:
        try:
            raise TypeError("4711")
        except TypeError:
            raise error from None

    monkeypatch.setattr(Table, step, broken)
    with books(tmp_path) as ledger, pytest.raises((InternalError, LedgerError)) as found:
        release(plan(tmp_path), ledger)
    said = "".join(traceback.format_exception(found.value)).replace(str(tmp_path), "")
    assert (
        "4711" not in "\n".join(line for line in said.splitlines() if not line.startswith("    "))
        and found.value.__context__ is None
    )
    assert ("nothing was charged" if step == "check" else "was charged, but no answer") in str(found.value)


def test_an_interrupted_release_says_what_became_of_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Table, "totals", interrupted)
    with books(tmp_path) as ledger, pytest.raises(KeyboardInterrupt, match="stays charged"):
        release(plan(tmp_path), ledger)


def test_what_a_ledger_denies_may_be_asked_for_less_in_the_same_folder(tmp_path: Path) -> None:
    with books(tmp_path, 0.3) as ledger:
        with pytest.raises(Denied):
            release(plan(tmp_path), ledger)
        assert not ledger.state().runs and Table.asked == 0 and not (tmp_path / "out").exists()
        assert release(plan(tmp_path, epsilon=0.2), ledger).fresh
