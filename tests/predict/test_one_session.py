"""Laws of every session of private prediction: no answer is drawn twice, and none on other inputs, whatever is put back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import verify
from dpcli.predict.aggregators import ConfidentGnMax
from dpcli.predict.decode.text_writer import Writer
from dpcli.predict.pate import pate_session
from dpcli.predict.pmixed import ensemble_fit as fitting
from dpcli.predict.pmixed.model_ensemble import Ensemble
from dpcli.predict.prediction_session import add_line, whole_lines
from tests.cases import of_each
from tests.command import Result, dpcli
from tests.predict import generate_files, prompt_files, samples
from tests.predict.pmixed import pmixed_files

MODULES = ("stub", "notes", "small_texts")


def of_pate(folder: Path) -> str:
    samples.saved(folder)
    (folder / "queries.csv").write_text("a,b\n" + "".join(f"{k},0.5\n" for k in range(60)))
    return samples.written(folder, keys='votes = "votes.npy"\nqueries = "queries.csv"\noutput = "out"').read_text()


def of_pmixed(folder: Path) -> str:
    return pmixed_files.written(folder, output='"out"').read_text()


def other_votes(folder: Path) -> None:
    table = samples.counts()
    table[-1, :2] += [1, -1]
    np.save(folder / "votes.npy", table)


def other_queries(folder: Path) -> None:
    head, *rows = (folder / "queries.csv").read_text().splitlines()
    (folder / "queries.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")


def changed(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


@dataclass(frozen=True)
class Kept:
    """A command and how it is asked again. draw: what draws noise, and how many answers a call of it makes. answers: its file of them.

    total: answers that are paid for. things: as the ledger calls them. inputs: how each is changed. stopped: where it is cut off, for it to
    go on with other inputs.
    """

    first: tuple[tuple[str, ...], ...]
    again: tuple[str, ...]
    draw: tuple[type, str]
    drawn: Callable[[Any], int]
    answers: str | None
    counts: tuple[str, ...]
    total: int
    things: str
    written: Callable[[Path], str]
    unit: str
    inputs: dict[str, Callable[[Path], None]]
    stopped: tuple[Any, str]


ASK = ("pmixed", "predict", "file.toml", "--prompt", "w1", "--max-tokens", "8")
COMMANDS = {
    "pate": Kept(
        (("pate", "label", "file.toml"),),
        ("pate", "label", "file.toml"),
        (ConfidentGnMax, "reached"),
        lambda arguments: len(arguments[0]),
        "transcript.jsonl",
        ("queries.db", "answers.db"),
        60,
        "queries",
        of_pate,
        "example",
        {"votes": other_votes, "queries": other_queries},
        (pate_session.QueryParts, "ask_remaining"),
    ),
    "pmixed": Kept(
        (("pmixed", "fit", "file.toml"), *[ASK] * 12),
        ASK,
        (Ensemble, "token"),
        lambda arguments: 1,
        None,
        ("queries.db",),
        40,
        "tokens",
        of_pmixed,
        "example",
        {
            "private texts": changed("small_texts.py", "sentences(200, 2, 5)", "sentences(200, 44, 5)"),
            "public model": changed("small_texts.py", "sentences(200, 1, 1)", "sentences(200, 66, 1)"),
        },
        (fitting, "teach_shards"),
    ),
    "prompt": Kept(
        (("prompt", "file.toml"),),
        ("prompt", "file.toml", "--resume"),
        (ConfidentGnMax, "reached"),
        lambda arguments: len(arguments[0]),
        "transcript.jsonl",
        ("queries.db", "answers.db"),
        30,
        "queries",
        prompt_files.written,
        "user",
        {"private texts": changed("stub.py", "texts(1, 400)", "texts(77, 400)")},
        (ConfidentGnMax, "reached"),
    ),
    "generate": Kept(
        (("generate", "file.toml"),),
        ("generate", "file.toml", "--resume"),
        (Writer, "text"),
        lambda arguments: 1,
        "texts.jsonl",
        ("queries.db",),
        6,
        "texts",
        generate_files.written,
        "user",
        {
            "private texts": changed("notes.py", '"aSECRETS"', '"aSECRET"'),
            "model": changed("notes.py", "10.0 *", "110.0 *"),
        },
        (Writer, "text"),
    ),
}
EACH = pytest.mark.parametrize("command", COMMANDS)


class Begun:
    """A command in a folder of its own, which counts what is drawn and keeps what stood there in the middle of it."""

    def __init__(self, kept: Kept, folder: Path, ledger: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept, self.folder, self.drawn, self.middle = kept, folder, 0, dict[Path, bytes]()
        (folder / "file.toml").write_text(kept.written(folder))
        self.books = ("--ledger", str(folder / "ledger.db")) if ledger else ()
        if ledger:
            init(self.books[1], "people", LedgerTerms(kept.unit, "add-remove", 1e5, 0.5, filter="approx-dp")).close()
        owner, name = kept.draw
        complete = getattr(owner, name)

        def drawing(this: Any, *arguments: Any) -> Any:
            self.drawn += kept.drawn(arguments)
            if self.drawn >= kept.total // 2 and not self.middle:
                self.middle = {path: path.read_bytes() for path in (folder / "out").iterdir() if path.is_file()}
            return complete(this, *arguments)

        monkeypatch.setattr(owner, name, drawing)

    def __call__(self, *words: str) -> Result:
        for name in MODULES:
            __import__("sys").modules.pop(name, None)
        return dpcli(*words, *self.books, folder=self.folder)

    def put_back(self, *names: str) -> None:
        """Put back what these files held in the middle, in place: the same files, so that no copy can be told."""
        for path, content in self.middle.items():
            if path.name in names:
                path.write_bytes(content)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], Begun]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda command, ledger: Begun(COMMANDS[command], tmp_path, ledger, monkeypatch)


@pytest.mark.sampled
@EACH
@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "alone"])
def test_nothing_that_is_put_back_has_an_answer_drawn_twice(
    command: str, ledger: bool, begun: Callable[[str, bool], Begun]
) -> None:
    """With a ledger the whole folder, as it counts there. Without one the answers alone."""
    session = begun(command, ledger)
    kept = session.kept
    for words in kept.first:
        assert session(*words).code in (0, 1)  # once all tokens are drawn no more are
    assert kept.total - 5 <= session.drawn <= kept.total and session.middle  # prompt ends with its last answer, too
    before = session.drawn
    present = [path.name for path in session.middle]
    if ledger:
        session.put_back(*present)
        assert session(*kept.again).code in (0, 1)
        with open_ledger(session.books[1]) as books:
            assert verify(books).problems == ()
            (run,) = books.state().runs.values()
            assert run.counts[kept.things] == session.drawn == before
    elif kept.answers is not None:
        session.put_back(kept.answers)
        assert session(*kept.again).code in (0, 1) and session.drawn <= kept.total


@EACH
def test_a_count_that_is_put_back_alone_is_told(command: str, begun: Callable[[str, bool], Begun]) -> None:
    """The answers know numbers that it does not; of tokens of pmixed nothing is kept, and the statement of its fit says so."""
    session = begun(command, False)
    for words in session.kept.first:
        assert session(*words).code in (0, 1)
    before = session.drawn
    session.put_back(*session.kept.counts)
    transcript = session.folder / "out" / "transcript.jsonl"
    if command == "pate":  # one that has ended is not asked again, whatever its count says
        transcript.write_text("".join(line for line in transcript.read_text().splitlines(keepends=True) if '"end"' not in line))
    result = session(*session.kept.again)
    if session.kept.answers is not None:
        assert result.code == 4 and "the count was restored" in result.err and session.drawn == before


CHANGES = [(command, name) for command, kept in COMMANDS.items() for name in kept.inputs]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("command", "name"), CHANGES)
def test_a_session_goes_on_with_the_inputs_that_it_began_with(
    command: str, name: str, begun: Callable[[str, bool], Begun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is known by its content: other records, another order, another public model are refused before anything is drawn."""
    session = begun(command, True)
    kept = session.kept

    def stop(*arguments: Any, **keys: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*kept.stopped, stop)
        assert session(*kept.first[0]).code == 130
    before = session.drawn
    kept.inputs[name](session.folder)
    result = session(*(kept.again if command != "pmixed" else (*kept.first[0], "--resume")))
    assert result.code == 2 and f"expected the {name} with which its session began" in result.err, result.err
    assert session.drawn == before


@of_each("written", [0, 1, 9])
def test_a_disk_that_takes_a_part_of_a_line_is_full(written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lines")
    add_line(path, {"number": 1})
    inner: Any = os.write
    monkeypatch.setattr(os, "write", lambda file, content: inner(file, content[:written]))
    with pytest.raises(OSError, match="No space left"):
        add_line(path, {"number": 2})
    monkeypatch.undo()
    add_line(path, {"number": 3})
    assert whole_lines(path) == [b'{"number": 1}', b'{"number": 3}']
