"""Tests of windows on tables of private data: every command reads exactly the rows of the window, whatever the others contain."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.file.pipeline.datasets import UNCHECKED
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.sessions.window import over_window
from dpcli.train.plugin import TASKS
from dpcli.train.tasks.files import row_place
from tests.cases import of_each
from tests.command import dpcli
from tests.predict import generate_files, prompt_files
from tests.predict.pmixed import pmixed_files
from tests.sessions.tables import BAG, WRITERS, Row, as_csv, fine_tuning, learnt, table_of, writing

WINDOW, WORDS = ("2026-01-01..2026-01-07",), 'only rows whose "day" lies in 2026-01-01..2026-01-07 are read'
OUTSIDE = [None, "2025-12-31", "2026-01-08", "soon", "2026-01-03x", ""]


@dataclass(frozen=True)
class Reading:
    """A command on a table.

    text: its file, whose data are in rows.csv. unit: of its ledger. inside: what a row of the window holds beside its day. outside: what
    would be refused there, or change what is read. plan, read: the plan, and what it has read of the private data. words: of the command.
    """

    text: str
    unit: str
    inside: Callable[[int], Row]
    outside: Row
    plan: str
    read: Callable[[Any], Any]
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()


def voting(plan: Any) -> Any:
    from dpcli.predict.prompt.demonstrations import labelled_texts, teacher_demonstrations

    private = labelled_texts(plan.prompt.data, plan.prompt, plan.path, "data", plan.prompt.units, plan.rows)
    return teacher_demonstrations(private, plan.prompt, plan.pipeline.privacy.adjacency)


NUMBERS = table_of("classification", model="logistic", classes=2, public="held-out")
DECLARED = NUMBERS + 'label = "label"\n[train.columns]\nx = { min = -2, max = 2 }\ny = { min = -2, max = 2 }\n'


def number_row(k: int) -> Row:
    return {"x": 0.25 * (k % 7) - 1.0, "y": 0.5 * (k % 5) - 1.0, "label": k % 2}


READINGS: dict[str, Reading] = {
    "train, arrays": Reading(
        NUMBERS, "example", number_row, {"x": 1e300, "y": 1.0, "label": 9}, "train.plan.plan", learnt, ("train",), ("torch",)
    ),
    "train, declared columns": Reading(
        DECLARED, "example", number_row, {"x": None, "y": 1.0, "label": 9}, "train.plan.plan", learnt, ("train",), ("torch",)
    ),
    "train, causal-lm": Reading(
        table_of("causal-lm", model="bags:bag", tokenizer="bytes", context=12),
        "example",
        lambda k: {"text": f"text {k} of some"},
        {"text": "another, of nobody"},
        "train.plan.plan",
        learnt,
        ("train",),
        ("torch",),
    ),
    "train, soft-prompt": Reading(
        table_of(
            "soft-prompt", model="bags:gpt2", tokenizer="bytes", context=12, soft_prompt=2, labels=["no", "yes"], public="held-out"
        ),
        "example",
        lambda k: {"text": f"text {k} of some", "label": "yes" if k % 3 else "no"},
        {"text": "another, of nobody", "label": "perhaps"},
        "train.plan.plan",
        learnt,
        ("train",),
        ("torch", "transformers"),
    ),
    "prompt": Reading(
        prompt_files.FILE.replace("stub:data", "rows.csv"),
        "user",
        lambda k: {"text": f"ash {k}", "label": "yes" if k % 2 else "no", "user": f"u{k // 2}"},
        {"text": "eel", "label": "perhaps", "user": ""},
        "predict.prompt.prompt_plan",
        voting,
        ("prompt",),
    ),
    "pmixed": Reading(
        pmixed_files.HEAD.replace("small_texts:letters", "rows.csv") + 'output = "out"\n',
        "example",
        lambda k: {"text": " ".join(f"w{(k + n) % 12}" for n in range(9))},
        {"text": "w1 unknown"},
        "predict.pmixed.pmixed_plan",
        fine_tuning,
        ("pmixed", "fit"),
    ),
    "generate": Reading(
        generate_files.FILE.replace("notes:private", "rows.csv"),
        "user",
        lambda k: {"text": "aabaabab"[: 2 + k % 6], "user": f"u{k // 2}"},
        {"text": "SECRETS", "user": ""},
        "predict.decode.generate_plan",
        writing,
        ("generate",),
    ),
}


READERS_OF = {"train": "train.tasks.array_files"}


def endings(reading: str) -> frozenset[str]:
    """The tables that a command reads: those of its own registry of readers."""
    module = READERS_OF.get(reading.partition(" ")[0].rstrip(","), "predict.models.texts")
    if reading in ("train, causal-lm", "train, soft-prompt"):
        module = "train.tasks.lm_texts"
    found = __import__(f"dpcli.{module}", fromlist=["READERS"]).READERS
    return frozenset(found) & WRITERS.keys()


def cases() -> list[Any]:
    return [
        pytest.param(name, ending, id=f"{name}{ending}", marks=[*slow, *([pytest.mark.needs(*needs)] if needs else [])])
        for name, one in READINGS.items()
        for slow in [[pytest.mark.long] if "transformers" in one.needs else []]  # to import that takes seconds
        for ending in sorted(endings(name))
        for needs in [(*one.needs, *(("pyarrow",) if ending == ".parquet" else ()))]
    ]


EACH = pytest.mark.parametrize(("name", "ending"), cases())


@dataclass
class Folder:
    reading: Reading
    place: Path
    ending: str

    def write(self, rows: Sequence[Row], text: str = "") -> None:
        WRITERS[self.ending](rows, self.place / f"rows{self.ending}")
        (self.place / "file.toml").write_text((text or self.reading.text).replace("rows.csv", f"rows{self.ending}"))

    def plan(self, window: Sequence[str] = WINDOW) -> Any:
        module = __import__(f"dpcli.{self.reading.plan}", fromlist=["plan_of"])
        with open_ledger(str(self.place / "l.db"), None) as books:
            return over_window(module.plan_of(str(self.place / "file.toml")), books, window)

    def rows(self, seed: int, count: int = 60) -> tuple[list[Row], list[Row]]:
        draw = random.Random(seed)
        inside = [{"day": f"2026-01-0{draw.randrange(1, 8)}", **self.reading.inside(k)} for k in range(count)]
        every = list(inside)
        for k in range(30):
            every.insert(draw.randrange(len(every) + 1), {"day": OUTSIDE[k % len(OUTSIDE)], **self.reading.outside})
        return inside, every


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Folder]:
    (tmp_path / "stub.py").write_text(prompt_files.STUB)
    (tmp_path / "notes.py").write_text(generate_files.NOTES)
    (tmp_path / "small_texts.py").write_text(pmixed_files.MODULE)
    (tmp_path / "bags.py").write_text(BAG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("stub", "notes", "small_texts", "bags"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)

    def made(name: str, ending: str = ".csv", column: str = "day", by: str = "day") -> Folder:
        one = READINGS[name]
        cut = {"by": by, "column": column, "max_blocks": 1, **({"count": 8} if by == "hash" else {})}
        init(
            str(tmp_path / "l.db"), "visits", LedgerTerms(one.unit, "add-remove", 1e5, 0.5, filter="approx-dp", blocks=cut)
        ).close()
        return Folder(one, tmp_path, ending)

    return made


def test_every_table_that_a_task_reads_is_examined() -> None:
    for task, target in TASKS.items():
        tables = load(target).tables
        known = [endings(name) for name, one in READINGS.items() if f'task = "{task}"' in one.text]
        assert all(one == tables for one in known), task
        assert bool(tables) == bool(known), task


@EACH
def test_what_is_read_is_that_of_a_file_of_the_window_alone(name: str, ending: str, folder: Callable[..., Folder]) -> None:
    """Rows outside the window have no effect, although they are invalid or would change the result."""
    here = folder(name, ending)
    seed = random.randrange(2**32)
    inside, every = here.rows(seed)
    here.write(every)
    plan = here.plan()
    assert plan.rows is not None and plan.rows.words == WORDS
    found = here.reading.read(plan)
    here.write(inside)
    assert found == here.reading.read(here.plan()), seed
    here.write(every)
    try:
        whole = here.reading.read(plan.on_rows(None))
    except InputError:
        return
    assert whole != found, seed


@EACH
def test_a_window_without_rows_is_refused(name: str, ending: str, folder: Callable[..., Folder]) -> None:
    here = folder(name, ending)
    here.write(here.rows(1)[1])
    with pytest.raises(InputError, match='there are no rows whose "day" lies in 2026-03-01'):
        here.reading.read(here.plan(["2026-03-01"]))


@EACH
def test_a_table_without_the_column_is_the_word_of_the_file(name: str, ending: str, folder: Callable[..., Folder]) -> None:
    """All rows are read. But a .jsonl file must not decide this by what its records contain."""
    here = folder(name, ending, column="when")
    inside = here.rows(1)[0]
    here.write([{key: value for key, value in row.items() if key != "day"} for row in inside])
    plan = here.plan()
    if ending == ".jsonl":
        with pytest.raises(InputError, match='there are no rows whose "when" lies in '):
            here.reading.read(plan)
        return
    assert plan.rows is None and here.reading.read(plan)
    assert plan.fingerprint() == plan.on_rows(None).fingerprint()


@pytest.mark.parametrize("name", READINGS)
def test_parts_of_a_hash_are_the_word_of_the_file(name: str, folder: Callable[..., Folder]) -> None:
    here = folder(name, by="hash")
    here.write(here.rows(1)[0])
    assert here.plan(["0..3"]).rows is None


@pytest.mark.parametrize("name", READINGS)
def test_other_rows_are_another_session(name: str, folder: Callable[..., Folder]) -> None:
    """A session on all rows cannot be resumed on some of them, and one on a window not on the rows of other blocks."""
    here = folder(name)
    here.write(here.rows(1)[0])
    plan = here.plan()
    seen = {plan.fingerprint(), plan.on_rows(None).fingerprint(), here.plan(["2026-01-01"]).fingerprint()}
    assert plan.rows is not None and len(seen) == 3
    seen.add(plan.on_rows(replace(plan.rows, column="other")).fingerprint())
    assert len(seen) == 4


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs(*READINGS[name].needs)] if READINGS[name].needs else []


LIKE_OTHERS = ("train, declared columns", "train, causal-lm", "train, soft-prompt")


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[*marks(name), *([pytest.mark.long] if name in LIKE_OTHERS else [])]) for name in READINGS]
)
def test_a_session_says_which_rows_it_read(name: str, folder: Callable[..., Folder]) -> None:
    """On standard error, in its result, its JSON and its statement. They also say if rows were not restricted."""
    here = folder(name)
    inside, every = here.rows(2, 120)
    here.write(every)
    window = [word for block in WINDOW for word in ("--window", block)]
    done = dpcli(*here.reading.words, "file.toml", "--ledger", "l.db", *window, "-f", "json", folder=here.place)
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["window"] == [*WINDOW] and said["rows"]["words"] == WORDS and WORDS in done.err
    statement = here.place / "out" / "statement.md"
    if statement.exists():
        assert WORDS in statement.read_text().replace("\\", "") and UNCHECKED not in statement.read_text()
    assert not re.search(rf"\b({len(inside)}|{len(every)})\b rows", done.out + done.err)


def weights(where: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return {name: value.tolist() for name, value in load_file(where / "model.safetensors").items()}


@pytest.mark.long
@pytest.mark.needs("torch", "safetensors")
@pytest.mark.parametrize("name", ["train, arrays", "train, declared columns"])
def test_the_model_is_that_of_a_file_of_the_window_alone(name: str, folder: Callable[..., Folder]) -> None:
    """NOT PRIVATE: both runs draw from one seed."""
    from dpcli.train.run.training_run import train

    here = folder(name)
    inside, every = here.rows(3)
    found = []
    for turn, rows in enumerate((every, inside)):
        here.write(rows)
        plan = here.plan()
        train(replace(plan, train=replace(plan.train, output=str(here.place / f"{turn}"))), None, insecure_seed=5)
        found.append(weights(here.place / f"{turn}"))
    assert found[0] == found[1]


@pytest.mark.needs("torch", "safetensors")
def test_what_comes_after_a_run_reads_the_same_rows(folder: Callable[..., Folder]) -> None:
    """The attestation, the card and the evaluation. A description of other rows is not attested."""
    here = folder("train, arrays")
    here.write(here.rows(4)[1])
    assert dpcli("train", "file.toml", "--ledger", "l.db", "--window", WINDOW[0], folder=here.place).code == 0
    found = json.loads(dpcli("attest", "out", "-f", "json", folder=here.place).out)
    assert found["attestation"]["predicate"]["guarantee"]["rows"]["words"] == WORDS
    assert WORDS in dpcli("attest", "out", "--verify", found["path"], folder=here.place).out
    measured = json.loads(dpcli("evaluate", "out", "-f", "json", folder=here.place).out)
    left = json.loads((here.place / "out" / "metrics.jsonl").read_text().splitlines()[-1])
    assert measured["metrics"]["accuracy"] == left["accuracy"]
    given = dpcli("evaluate", "out", "rows.csv", folder=here.place)
    assert given.code == 2  # what a user names is read whole
    as_csv(here.rows(4)[0], here.place / "new.csv")
    for command in ("predict", "evaluate"):
        assert dpcli(command, "out", "new.csv", folder=here.place).code == 0
    path = here.place / "out" / "model.json"
    described = json.loads(path.read_text())
    rows = described["guarantee"]["rows"]
    for forged in (7, {}, {**rows, "words": "all"}, {**rows, "spans": [["2020-01-01"]]}, {**rows, "type": "week"}):
        path.write_text(json.dumps({**described, "guarantee": {**described["guarantee"], "rows": forged}}))
        assert dpcli("attest", "out", "-f", "json", folder=here.place).code == 2, forged


@pytest.mark.nightly
@pytest.mark.needs("torch", "safetensors")
@pytest.mark.long
def test_a_resumed_run_reads_the_same_rows(folder: Callable[..., Folder], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that began on all rows is refused."""
    from dpcli.sessions import window as windows
    from dpcli.train.run.charged_run import ChargedRun

    here = folder("train, causal-lm")
    here.write(here.rows(5)[1])
    ask = ("train", "file.toml", "--ledger", "l.db", "--window", WINDOW[0])

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    for earlier in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(ChargedRun, "end", stop)
            if earlier:
                patch.setattr(windows, "rows_in_table", lambda *_: None)
            assert dpcli(*ask, folder=here.place).code == 130
        again = dpcli(*ask, "--resume", folder=here.place)
        assert again.code == (2 if earlier else 0), again.err


@pytest.mark.needs("torch", "safetensors")
def test_a_run_of_a_sweep_reads_the_rows_of_the_window(folder: Callable[..., Folder]) -> None:
    from dpcli.sweep.sweep_plan import plan_sweep
    from dpcli.sweep.worker import Job, perform

    here = folder("train, arrays")
    here.write(here.rows(6)[1], NUMBERS.replace('output = "out"\n', "") + '[sweep]\nepsilon = [8.0]\ntuning = "public"\n')
    with open_ledger("l.db", None) as books:
        before = plan_sweep("file.toml")
        plan = over_window(before, books, WINDOW)
    one = plan.variants[0]
    assert one.plan.rows is not None and one.fingerprint not in {v.fingerprint for v in before.on_blocks(WINDOW).variants}
    perform(Job(plan.path, one.text, str(here.place / "1"), one.fingerprint, window=one.window, rows=one.plan.rows))
    assert WORDS in (here.place / "1" / "run" / "statement.md").read_text().replace("\\", "")
    with pytest.raises(InputError, match="expected numbers"):
        perform(Job(plan.path, one.text, str(here.place / "2"), one.fingerprint, window=one.window))


@pytest.mark.nightly
@pytest.mark.needs("torch", "safetensors")
@pytest.mark.long
def test_every_process_reads_the_rows_that_the_first_has_asked_for(folder: Callable[..., Folder]) -> None:
    """Only the first process has the ledger. The others would read the rows of other blocks, and fail."""
    from tests.train.run.processes import together

    here = folder("train, arrays")
    here.write(here.rows(7)[1])
    first, second = together(here.place, "file.toml", "--ledger", "l.db", "--window", WINDOW[0])
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert json.loads(first.stdout)["rows"]["words"] == WORDS


@pytest.mark.sampled(0, 0)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_an_evaluation_reads_the_rows_that_its_models_were_fitted_with(ending: str, folder: Callable[..., Folder]) -> None:
    """Without a fit it reads all rows, with another result."""
    here = folder("pmixed", ending)
    inside, every = here.rows(8)
    every += [{"day": "2026-01-08", "text": "w3 w1 w3 w1 w3 w1"}] * 40
    ask, window = ("pmixed", "evaluate", "file.toml", "-f", "json"), ("--window", WINDOW[0])

    def perplexities(rows: Sequence[Row], output: str, fit: bool) -> dict[str, float]:
        text = here.reading.text.replace("shards = 6", "shards = 3").replace("steps = 40", "steps = 10")  # for a small ensemble
        here.write(rows, text.replace('"out"', f'"{output}"'))
        if fit:
            assert dpcli("pmixed", "fit", "file.toml", "--ledger", "l.db", *window, folder=here.place).code == 0
        done = dpcli(*ask, folder=here.place)
        assert done.code == 0, done.err
        return {way["name"]: way["perplexity"] for way in json.loads(done.out)["ways"] if way["kind"] in ("public", "all")}

    found = perplexities(every, "first", True)
    assert found == perplexities(inside, "second", True) and len(found) == 2
    assert found != perplexities(every, "never", False)


@pytest.mark.parametrize("ending", [".csv", pytest.param(".parquet", marks=pytest.mark.needs("pyarrow"))])
def test_a_file_that_lost_rows_meanwhile_is_said_to_have(ending: str, tmp_path: Path) -> None:
    """A message about a row looks up its line again, and another program may have removed it."""
    window = RowWindow("day", "date", (("2026-01-01", "2026-01-07"),), WINDOW)
    days = ["2026-01-02", "2025-12-31", "2026-01-03", "2026-01-08", "2026-01-04"]
    place = tmp_path / f"rows{ending}"
    for count in range(6):
        WRITERS[ending]([{"day": day} for day in days[:count]] or [{"day": "2025-01-01"}], place)
        inside = [number for number, day in enumerate(days[:count]) if window.holds(day)]
        for row in range(4):
            if row < len(inside):
                where = f":{inside[row] + 2}" if ending == ".csv" else f": row {inside[row] + 1}"
                assert row_place(str(place), row, window) == f"{place}{where}"
            else:
                with pytest.raises(InputError, match="the file changed while it was read"):
                    row_place(str(place), row, window)


@pytest.mark.parametrize("ending", [".csv", pytest.param(".parquet", marks=pytest.mark.needs("pyarrow"))])
@of_each("spelled", ["Day", "DAY", "day ", "d_a_y"])
def test_a_column_that_is_spelled_otherwise_is_not_passed_over(ending: str, spelled: str, tmp_path: Path) -> None:
    """Otherwise all rows would be read, but only the blocks of the window be charged."""
    from dpcli.sessions.window import rows_in_table

    rows = RowWindow("day", "date", (("2026-01-01", "2026-01-07"),), WINDOW, {"by": "day", "column": "day", "max_blocks": 1})
    file = tmp_path / f"data{ending}"
    WRITERS[ending]([{spelled: "2026-01-01", "text": "secret"}], file)
    with pytest.raises(InputError, match=re.escape(f'data{ending}: expected the column "day"')) as refused:
        rows_in_table(file.name, str(tmp_path / "file.toml"), rows)
    assert f"found '{spelled}': use the exact name" in str(refused.value) and "secret" not in str(refused.value)
    WRITERS[ending]([{"week": "2026-01-01", "text": "secret"}], file)
    assert rows_in_table(file.name, str(tmp_path / "file.toml"), rows) is None
