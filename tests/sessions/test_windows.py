"""Tests of datasets with blocks before every command that charges a ledger. The commands are found by walking the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.file.pipeline.datasets import UNCHECKED, blocks_words
from dpcli.ledger.blocks.family import BlockFamily, window_spelling
from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import verify
from dpcli.predict.pate.pate_plan import plan_of
from dpcli.predict.pate.transcript import read_transcript
from dpcli.sessions.priced import FilePlan
from dpcli.sweep import private_search as selecting
from dpcli.sweep import sweep_runs as sweeping
from dpcli.sweep.worker import Job, perform
from tests.cli.commands import commands
from tests.command import Result, dpcli
from tests.inline import text_of
from tests.ledger.conftest import Place, database, place, shared_database  # noqa: F401
from tests.ledger.filters.families import FAMILIES, family
from tests.predict import generate_files, prompt_files, samples
from tests.predict.pmixed import pmixed_files
from tests.release.tables.files import COLUMNS, document
from tests.sweep.fake_runs import InOneProcess, fake_runs
from tests.sweep.samples import HEAD, PRIVATE, PUBLIC, TRAIN

Words = tuple[str, ...]
MODULES = ("stub", "notes", "small_texts")
WINDOW, OTHER, GONE = ("2026-01-01..2026-01-03", "2026-01-05"), ("2026-01-02",), "2026-01-20"
BLOCKS_OF = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-05")


ALL = {words: command for words, command in commands() if any("--ledger" in parameter.opts for parameter in command.params)}
# Those that ask a ledger or count in it, and charge nothing.
READING = {("gate",), ("lint",), ("doctor",), ("comment", "github"), ("comment", "gitlab"), ("pmixed", "predict")}
CHARGING = {words: command for words, command in ALL.items() if words not in READING}


@dataclass(frozen=True)
class Scenario:
    """A small file for a command.

    written: makes it in a folder, and says where its table [privacy] is known by. unit: of the ledger. again: flags of a session that goes
    on. stopped: what raises KeyboardInterrupt in the first call, after its charge, as "module:Class.method"; "" where the first call ends.
    anew: whether other blocks make it another charge, and are not refused. statement: where the session says what it guarantees.
    """

    written: Callable[[Path], str]
    unit: str
    again: Words = ()
    stopped: str = ""
    anew: bool = False
    statement: str = ""
    checked: bool = False


def of_release(folder: Path) -> str:
    rows = [f"2026-01-0{k % 9 + 1},v{k},CA,A,n,{20 + k},1" for k in range(30)]
    (folder / "visits.csv").write_text("\n".join([",".join(["when", *COLUMNS]), *rows]))
    tables = document({"name": "adults", "measure": "count", "where": "age >= 18", "epsilon": 0.5, "max_rows": 3})
    tables["source"]["output"] = "out"
    return re.sub("^privacy = {", 'privacy = { releases = "outputs", ', text_of(tables).decode(), flags=re.MULTILINE)


def of_train(folder: Path) -> str:
    return HEAD + TRAIN + 'output = "out"\ncheckpoint_every = 5\n'


def of_sweep(folder: Path) -> str:
    return PUBLIC.replace("[sweep]", '[sweep]\noutput = "out"')


def of_pate(folder: Path) -> str:
    samples.saved(folder)
    return samples.written(folder, keys='votes = "votes.npy"\noutput = "out"').read_text()


def of_pmixed(folder: Path) -> str:
    return pmixed_files.written(folder, output='"out"').read_text()


SCENARIOS: dict[Words, Scenario] = {
    ("release",): Scenario(of_release, "visitor", statement="out/statement.md", checked=True),
    ("train",): Scenario(
        of_train, "example", ("--resume",), "dpcli.train.run.charged_run:ChargedRun.end", statement="out/statement.md"
    ),
    ("sweep",): Scenario(of_sweep, "example", anew=True),
    ("pate", "label"): Scenario(of_pate, "example", statement="out/statement.md"),
    ("pmixed", "fit"): Scenario(of_pmixed, "example", ("--resume",), "dpcli.predict.pmixed:ensemble_fit.teach_shards"),
    ("prompt",): Scenario(prompt_files.written, "user", ("--resume",), statement="out/statement.md"),
    ("generate",): Scenario(
        generate_files.written,
        "user",
        ("--resume",),
        "dpcli.predict.decode.generation:WritingSession.write",
        statement="out/statement.md",
    ),
}


IN_A_DATABASE = (("release",), ("pate", "label"))


def marks(words: Words) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs("torch")] if words in (("train",), ("sweep",)) else []


EACH = pytest.mark.parametrize("words", [pytest.param(words, id=" ".join(words), marks=marks(words)) for words in SCENARIOS])

# Each with a ledger in a file, two of them with one in a database as well.
PLACES = [(words, kind) for words in SCENARIOS for kind in ("sqlite", "postgres") if kind == "sqlite" or words in IN_A_DATABASE]
EACH_PLACE = pytest.mark.parametrize(
    ("words", "place"),
    [pytest.param(words, kind, id=f"{' '.join(words)}-{kind}", marks=marks(words)) for words, kind in PLACES],
    indirect=["place"],
)

IN_A_FILE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@dataclass
class Asked:
    words: Words
    folder: Path
    ledger: str
    scenario: Scenario
    text: str

    def __call__(self, *flags: str, window: Sequence[str] = (), ledger: bool = True) -> Result:
        books = ("--ledger", self.ledger) if ledger else ()
        given = [word for block in window for word in ("--window", block)]
        return dpcli(*self.words, "file.toml", *books, *given, *flags, folder=self.folder)

    def states(self, window: Sequence[str]) -> None:
        blocks = ", ".join(f'"{block}"' for block in window)
        end = "," if "privacy = {" in self.text else "\n"
        lines = self.text.replace('releases = "', f'window = [{blocks}]{end} releases = "', 1)
        assert lines != self.text
        (self.folder / "file.toml").write_text(lines)

    def charged(self) -> list[tuple[str, ...]]:
        """The window of each run in the ledger, which is sound."""
        with open_ledger(self.ledger, None) as books:
            assert verify(books).problems == ()
            return [run.window for run in books.state().runs.values()]


def terms(unit: str, blocks: bool) -> LedgerTerms:
    cut = {"by": "day", "column": "when", "max_blocks": 1} if blocks else None
    return LedgerTerms(unit, "add-remove", 1e5, 0.5, filter="approx-dp", blocks=cut)


@pytest.fixture
def begun(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Words], Asked]:  # noqa: F811
    """A command before its own ledger of blocks, one of which is retired."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in MODULES:
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    monkeypatch.setattr(sweeping, "Pool", InOneProcess)
    InOneProcess.done = []
    InOneProcess.work = staticmethod(fake_runs(lambda job: 0.5))  # type: ignore[assignment]

    def made(words: Words) -> Asked:
        scenario = SCENARIOS[words]
        text = scenario.written(tmp_path)
        (tmp_path / "file.toml").write_text(text)
        with init(place.url, "visits", terms(scenario.unit, blocks=True)) as books:
            books.retire([GONE], "deleted")
        return Asked(words, tmp_path, place.url, scenario, text)

    return made


@contextmanager
def interrupted(target: str) -> Iterator[None]:
    """The first call comes to its charge, and then to an end."""
    if not target:
        yield
        return
    module, _, path = target.partition(":")
    owner, _, name = path.partition(".")
    with pytest.MonkeyPatch.context() as patch:

        def stop(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(getattr(__import__(module, fromlist=[owner]), owner), name, stop)
        yield


def test_every_command_that_charges_is_examined() -> None:
    assert set(CHARGING) == set(SCENARIOS) and set(ALL) >= READING
    for words, command in ALL.items():
        assert any("--window" in parameter.opts for parameter in command.params) == (words in CHARGING), words


@pytest.mark.long
@EACH_PLACE
def test_invalid_windows_are_refused_without_a_charge(words: Words, begun: Callable[[Words], Asked], tmp_path: Path) -> None:
    """A missing, invalid or retired window, or one without a ledger that has blocks. Nothing is charged."""
    asked = begun(words)
    for window, said in (
        ((), "expected the blocks of"),
        (("2026-02-30",), "expected a day as"),
        (("2026-01-03..2026-01-01",), "earlier"),
    ):
        found = asked(window=window)
        assert (found.code, "--window: " in found.err, said in found.err) == (2, True, True), found.err
    found = asked(window=("2026-01-19..2026-01-21",))
    assert found.code == 1 and f"block {GONE} was retired" in found.err, found.err
    found = asked(window=WINDOW, ledger=False)
    assert found.code == 2 and "--window: expected --ledger" in found.err
    asked.states(OTHER)
    found = asked(window=WINDOW)
    assert found.code == 2 and "contradicts the window of file.toml" in found.err
    assert asked.charged() == []
    init(str(tmp_path / "plain.db"), "visits", terms(asked.scenario.unit, blocks=False)).close()
    asked.ledger = str(tmp_path / "plain.db")
    found = asked()
    assert found.code == 2 and "not cut into blocks" in found.err and asked.charged() == []


QUICK = (("release",), ("train",), ("sweep",), ("pate", "label"))  # one session serves pate, pmixed, prompt and generate
STATED = [
    pytest.param(words, kind, stated, id=f"{' '.join(words)}-{kind}-{'by the file' if stated else 'by flag'}", marks=both)
    for at, (words, kind) in enumerate(PLACES)
    for stated in (False, True)
    for both in [[*marks(words), *([] if words in QUICK and kind == "sqlite" and stated is bool(at % 2) else [pytest.mark.long])]]
]


@pytest.mark.sampled(2, 3)
@pytest.mark.parametrize(("words", "place", "stated"), STATED, indirect=["place"])
def test_a_session_is_charged_on_its_window_and_stays_with_it(words: Words, stated: bool, begun: Callable[[Words], Asked]) -> None:
    """On exactly these blocks. A resumed session keeps them and names them."""
    asked, scenario = begun(words), SCENARIOS[words]
    given: Sequence[str] = WINDOW
    if stated:
        asked.states(WINDOW)
        given = ()
    with interrupted(scenario.stopped):
        first = asked(window=given)
    assert first.code == (130 if scenario.stopped else 0), first.err
    before = asked.charged()
    assert before and set(before) == {BLOCKS_OF}
    if not scenario.anew:
        if stated:
            asked.states(OTHER)
        refused = asked(*scenario.again, window=() if stated else OTHER)
        assert refused.code == 2 and asked.charged() == before, refused.err
        if stated:
            asked.states(WINDOW)
    after = asked(*scenario.again, window=given if stated else (BLOCKS_OF[3], *BLOCKS_OF[:3]))
    assert after.code == 0 and set(asked.charged()) == {BLOCKS_OF}, after.err
    if scenario.anew:
        assert asked.charged() == before
        if stated:
            asked.states(OTHER)
        assert asked(window=() if stated else OTHER).code == 0
        assert asked.charged() == [*before, *[OTHER for _ in before]]
    if scenario.statement:
        said = (asked.folder / scenario.statement).read_text().replace("\\", "")
        assert ", ".join(WINDOW) in said and (UNCHECKED in said) != scenario.checked


@pytest.mark.long
@IN_A_FILE
@EACH
def test_a_dry_run_asks_about_the_window(words: Words, begun: Callable[[Words], Asked]) -> None:
    """If the command has --dry-run: it charges nothing, and refuses what the command itself would refuse."""
    asked = begun(words)
    if not any("--dry-run" in parameter.opts for parameter in CHARGING[words].params):
        return
    asks_the_ledger = words != ("sweep",)
    assert asked("--dry-run", window=WINDOW).code == 0
    assert asked("--dry-run", window=(GONE,)).code == (1 if asks_the_ledger else 0)
    assert asked("--dry-run").code == (2 if asks_the_ledger else 0)
    for window in (("2026-02-30",), ("eu",)):
        assert asked("--dry-run", window=window).code == 2
    assert asked("--dry-run", window=WINDOW, ledger=False).code == 2
    assert asked.charged() == []


@pytest.mark.nightly
@pytest.mark.long
@IN_A_FILE
def test_a_private_search_stays_with_its_window(begun: Callable[[Words], Asked], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "Pool", InOneProcess)
    asked = begun(("sweep",))
    asked.text = PRIVATE.replace("[sweep]", '[sweep]\noutput = "out"')
    (asked.folder / "file.toml").write_text(asked.text)
    assert asked(window=WINDOW).code == 0 and asked.charged() == [BLOCKS_OF]
    refused = asked(window=OTHER)
    assert refused.code == 2 and "the file has changed since this search began" in refused.err
    assert asked(window=BLOCKS_OF).code == 0 and asked.charged() == [BLOCKS_OF]


@pytest.mark.parametrize("by", BLOCKS)
def test_one_spelling_for_the_same_blocks(by: str) -> None:
    """A spelled window is read as the same blocks, and they are spelled the same way again."""
    found = BlockFamily(**family(by))
    blocks = FAMILIES[by][1]
    for count in range(1, len(blocks) + 1):
        for start in range(len(blocks) - count + 1):
            some = found.window(blocks[start : start + count])
            words = window_spelling(found, some)
            assert found.window(words) == some and window_spelling(found, tuple(reversed(some))) == words
            assert len(words) <= len(some)
    if found.kind.ordered and by != "hash":
        assert window_spelling(found, blocks) == (f"{blocks[0]}..{blocks[-1]}",)
    assert window_spelling(BlockFamily(**family("hash")), ("0", "1", "10", "11", "9")) == ("0..1", "9..11")


def plans() -> list[type[FilePlan]]:
    predictions = ("pate.pate_plan", "pmixed.pmixed_plan", "prompt.prompt_plan", "decode.generate_plan")
    for module in ("train.plan.plan", "release.release_plan", *(f"predict.{one}" for one in predictions)):
        __import__(f"dpcli.{module}")
    found = {kind.__qualname__: kind for kind in below(FilePlan)}
    return [found[name] for name in sorted(found)]  # whichever was imported first


def below(kind: type[FilePlan]) -> Iterator[type[FilePlan]]:
    yield kind
    for one in kind.__subclasses__():
        yield from below(one)


@pytest.mark.parametrize("kind", plans(), ids=lambda kind: kind.__name__)
def test_no_account_of_a_plan_is_left_without_its_window(kind: type[FilePlan]) -> None:
    accounts = {field.name for field in fields(kind) if "Account" in str(field.type)}
    assert accounts == set(kind.accounts)


@IN_A_FILE
def test_what_reads_the_models_takes_the_window_that_they_were_charged_on(begun: Callable[[Words], Asked]) -> None:
    asked = begun(("pmixed", "fit"))
    assert asked(window=WINDOW).code == 0
    ask = ("pmixed", "predict", "file.toml", "--prompt", "w1", "--max-tokens", "2", "--ledger", asked.ledger)
    assert dpcli(*ask, folder=asked.folder).code == 0
    asked.states(OTHER)
    found = dpcli(*ask, folder=asked.folder)
    assert found.code == 2 and "expected the file with which the models" in found.err
    asked.states(WINDOW)
    assert dpcli(*ask, folder=asked.folder).code == 0


@pytest.mark.long
@IN_A_FILE
def test_what_reads_the_labels_takes_the_window_that_they_were_charged_on(begun: Callable[[Words], Asked]) -> None:
    asked = begun(("pate", "label"))
    done = asked(window=WINDOW)
    assert done.code == 0 and UNCHECKED in done.out and UNCHECKED in done.err
    assert UNCHECKED in (asked.folder / "out/statement.md").read_text().replace("\\", "")
    found = read_transcript(plan_of("file.toml"))
    assert (
        found is not None and found.closed and json.loads((asked.folder / "out/statement.json").read_text())["window"] == [*WINDOW]
    )
    asked.states(OTHER)
    with pytest.raises(InputError, match="expected a transcript of this file"):
        read_transcript(plan_of("file.toml"))


@pytest.mark.long
@IN_A_FILE
@pytest.mark.needs("torch")
@pytest.mark.parametrize("stated", [False, True], ids=["by flag", "by the file"])
def test_an_attestation_names_the_window(stated: bool, begun: Callable[[Words], Asked]) -> None:
    """Beside the window in the ledger. A description with another window is not attested."""
    asked = begun(("train",))
    if stated:
        asked.states(WINDOW)
    assert asked(window=() if stated else WINDOW).code == 0
    found = json.loads(dpcli("attest", "out", "-f", "json", folder=asked.folder).out)
    predicate = found["attestation"]["predicate"]
    assert predicate["guarantee"]["window"] == [*WINDOW] and predicate["ledger"]["window"] == [*WINDOW]
    assert UNCHECKED in dpcli("attest", "out", "--verify", found["path"], folder=asked.folder).out
    path = asked.folder / "out" / "model.json"
    described = json.loads(path.read_text())
    without = {name: value for name, value in described["guarantee"].items() if name != "window"}
    for forged in ({}, *({"window": wrong} for wrong in (["2026-01-02"], [], "2026-01-02", [1], None))):
        path.write_text(json.dumps({**described, "guarantee": without | forged}))
        refused = dpcli("attest", "out", "-f", "json", folder=asked.folder)
        assert refused.code == 2 and "guarantee.window" in refused.err, (forged, refused)


@pytest.mark.needs("torch")
def test_a_run_of_a_sweep_states_the_window_that_it_was_charged_on(tmp_path: Path) -> None:
    text = HEAD + TRAIN
    perform(Job(str(tmp_path / "file.toml"), text, str(tmp_path / "1"), "f", window=WINDOW))
    assert ", ".join(WINDOW) in (tmp_path / "1" / "run" / "statement.md").read_text()


@pytest.mark.parametrize("count", [1, 8, 9, 2000])
def test_a_sentence_names_a_few_blocks_and_counts_the_rest(count: int) -> None:
    blocks = [f"{2 * number}" for number in range(count)]
    said = blocks_words(blocks)
    named = re.sub(" and [0-9,]+ more$", "", said).split(", ")
    more = re.search(" and ([0-9,]+) more$", said)
    assert named == blocks[: len(named)] and len(named) == min(count, 8)
    assert len(named) + int(more[1].replace(",", "") if more else "0") == count
