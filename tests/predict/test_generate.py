"""Private text from a file to texts, on a model without torch that says again what it was shown."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.file.pipeline.model import Pipeline, Privacy
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import Array
from dpcli.predict.decode.generate_plan import GenerationPlan, plan_of
from dpcli.predict.decode.generation import write_texts
from dpcli.predict.decode.text_writer import ContextFrame, Writer, context_batches, frame_of
from dpcli.predict.models.model_loading import ByteVocabulary, language_model
from dpcli.predict.prediction_session import open_queries
from dpcli.predict.shards import require_units
from dpcli.sessions.charged import open_session
from tests.cases import fresh_random, of_each
from tests.command import dpcli
from tests.ledger.conftest import Database
from tests.ledger.spenders import started
from tests.predict import generate_files
from tests.predict.generate_files import FILE, NOTES
from tests.predict.samples import new_ledger, working_folder
from tests.waiting import until


def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the file and the user's module."""
    (tmp_path / "notes.toml").write_text(generate_files.written(tmp_path))
    return working_folder(tmp_path, monkeypatch, "notes")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return placed(tmp_path, monkeypatch)


# Most letters of which are the public model's own: what is private is counted, and ends before the texts do.
SPARSE = (
    ("temperature = 1.0\nsteps = 24", "temperature = 1.0\nthreshold = 0.5\nscale = 0.1\nsteps = 5"),
    ("texts = 3", "texts = 40"),
)


def edited(folder: Path, *changes: tuple[str, str]) -> GenerationPlan:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "notes.toml").write_text(text)
    return plan_of("notes.toml")


def owning(texts: int) -> Privacy:
    """A unit that contributes at most so many texts."""
    return Privacy(Adjacency.ADD_REMOVE, max_contributions=texts)


def lines(folder: Path) -> list[dict[str, object]]:
    """Return the lines that were written in full."""
    return [json.loads(line) for line in (folder / "out" / "texts.jsonl").read_text().splitlines() if line.endswith("}")]


def test_texts_are_written_like_the_private_ones_and_without_the_secret(folder: Path) -> None:
    result = dpcli("generate", "notes.toml", "-f", "json", folder=folder)
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert (len(data["written"]), data["taken"], data["texts"]) == (6, 6, 6)
    assert [(line["number"], line["batch"]) for line in lines(folder)] == [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0), (6, 1)]
    assert all(len(str(line["text"])) <= 8 for line in lines(folder))
    pairs = {"SECRETS"[place : place + 2] for place in range(6)}  # a letter alone is drawn by chance, as every token may be
    assert not any(pair in text for text in data["written"] for pair in pairs)


@pytest.mark.long
@pytest.mark.usefixtures("whole_statements")
def test_a_whole_statement_is_left_beside_the_texts(folder: Path) -> None:
    write_texts(plan_of("notes.toml"), texts=1)
    assert "epsilon <=" in (folder / "out" / "statement.md").read_text()


def test_the_next_letter_is_nearer_to_the_private_ones_and_as_far_from_the_secret_as_before(folder: Path) -> None:
    plan = plan_of("notes.toml")
    model, vocabulary = language_model("notes:model", None, "notes.toml", "generate")
    writer = Writer(model, plan.clipping, b">", True, 8, 10)
    private = context_batches(plan.generate, "notes.toml", owning(2), frame_of(plan.generate, model, vocabulary), vocabulary, 256)

    def chance(contexts: list[tuple[int, ...]]) -> Array:
        scores = writer.next_token(contexts, b"a", None).scores
        return np.exp(scores - np.logaddexp.reduce(scores))

    for batch in private:
        known, public = chance(batch), chance([])
        assert known[ord("c")] < 0.2 * public[ord("c")]
        assert known[ord("S")] < public[ord("S")] * math.exp(2 * 4.0 / 60)


def test_without_a_clip_that_binds_the_secret_comes_out(folder: Path) -> None:
    """The secret that the private way keeps back is there to be said: one context, hardly averaged."""
    loose = (("clip = 4.0", "clip = 1000.0"), ("references = 60", "references = 1"), ('"{text}>"', '">{text}>"'))
    (folder / "notes.py").write_text(NOTES.replace('["aabaabab"] * 119 + ["aSECRETS"]', '["SECURITY"] * 120'))
    assert any("SECURI" in text for text in write_texts(edited(folder, *loose)).written)


def test_no_text_is_written_beyond_the_last(folder: Path) -> None:
    plan = plan_of("notes.toml")
    assert len(write_texts(plan, texts=2).written) == 2
    with pytest.raises(InputError, match="continue it with --resume"):
        write_texts(plan)
    assert write_texts(plan, resume=True, texts=1).taken == 3
    with pytest.raises(Denied, match="all 6 texts are spent: more need"):
        write_texts(plan, resume=True, texts=9)
    assert [line["number"] for line in lines(folder)] == [1, 2, 3, 4, 5, 6]
    assert dpcli("generate", "notes.toml", "--resume", folder=folder).code == 1
    (folder / "out" / "queries.db").unlink()
    with pytest.raises(LedgerError, match="no count"):
        write_texts(plan, resume=True)


def killed(plan: GenerationPlan, folder: Path, moments: int) -> Iterator[int]:
    """Kill the session some time after each next text: its lock, its session, its count and its texts. Yield the number of kills."""
    write_texts(plan, texts=1)
    chance = fresh_random()
    for moment in range(1, moments + 1):
        before = len(lines(folder))
        child = started(lambda: write_texts(plan, resume=True) and None)
        until(lambda before=before: len(lines(folder)) > before, every=0.001)  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        yield moment


def counted(plan: GenerationPlan, name: str, total: int) -> int:
    return open_queries(f"out/{name}.db", open_session("out", plan.fingerprint(), True, None).identity, total).taken()


MOMENTS = [pytest.param(3, marks=pytest.mark.long), pytest.param(30, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("moments", MOMENTS)
def test_killed_at_any_moment_it_gives_no_text_for_nothing(moments: int, folder: Path) -> None:
    """A text that was being written is lost, and stays charged."""
    plan = edited(folder, ("texts = 3", f"texts = {4 * moments}"), ("steps = 24", f"steps = {32 * moments}"))
    for kills in killed(plan, folder, moments):
        numbers = [int(str(line["number"])) for line in lines(folder)]
        taken = counted(plan, "queries", plan.texts)
        assert len(set(numbers)) == len(numbers) >= kills and max(numbers) <= taken
        assert len(numbers) <= taken <= len(numbers) + kills


@pytest.mark.parametrize("moments", MOMENTS)
def test_killed_at_any_moment_it_gives_no_private_token_for_nothing(moments: int, folder: Path) -> None:
    """Each is counted before its bar is drawn: what was kept never has more of them than were charged, nor the session than were stated."""
    plan = edited(folder, SPARSE[0], ("steps = 5", f"steps = {40 * moments}"), ("texts = 3", f"texts = {40 * moments}"))
    for _ in killed(plan, folder, moments):
        for batch in (0, 1):
            written = sum(int(str(line["private"])) for line in lines(folder) if line["batch"] == batch)
            assert written <= counted(plan, f"private-{batch}", plan.entry.steps) <= plan.entry.steps


def test_private_tokens_end_before_texts_do(folder: Path) -> None:
    plan = edited(folder, SPARSE[0], ("texts = 3", "texts = 400"))  # of 40 they may not all be spent
    result = write_texts(plan)
    kept = lines(folder)
    assert result.private == 10 and len(result.written) == len(kept) <= result.taken <= plan.texts
    for batch in (0, 1):
        mine = [line for line in kept if line["batch"] == batch]
        assert sum(int(str(line["private"])) for line in mine) == 5 < sum(len(str(line["text"])) for line in mine)
        assert not any(line["cut"] for line in mine[:-1])
    assert result.cut == sum(bool(line["cut"]) for line in kept)
    assert "at most 5 private tokens for each batch" in (folder / "out" / "statement.md").read_text()
    with pytest.raises(Denied, match="all private tokens are spent"):
        write_texts(plan, resume=True)
    (folder / "out" / "private-1.db").unlink()
    with pytest.raises(LedgerError, match="no count"):
        write_texts(plan, resume=True)


def test_a_private_token_is_charged_before_its_bar_is_drawn(folder: Path) -> None:
    """A crash at any number that is drawn loses the bar and what was charged for it."""

    class Broken:
        private = True

        def words(self, count: int) -> object:
            raise KeyboardInterrupt

    plan = edited(folder, *SPARSE)
    for taken in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            write_texts(plan, stream=Broken(), resume=taken > 1)  # type: ignore[arg-type]
        identity = open_session("out", plan.fingerprint(), True, None).identity
        counts = [open_queries(f"out/private-{batch}.db", identity, plan.entry.steps).taken() for batch in (0, 1)]
        assert counts == [(taken + 1) // 2, taken // 2]
    assert not (folder / "out" / "texts.jsonl").exists()


def test_what_private_tokens_cost_is_said_before(folder: Path) -> None:
    edited(folder, *SPARSE)
    result = json.loads(dpcli("generate", "notes.toml", "--dry-run", "-f", "json", folder=folder).out)
    account = json.loads(dpcli("account", "notes.toml", "-f", "json", folder=folder).out)
    assert result["result"]["epsilon_upper"] == account["result"]["epsilon_upper"]
    compared = 3 * 2 * 0.5 / 60 / 0.1  # two texts of a user
    assert result["rho_per_token"] == pytest.approx((2 * 4.0 / 60) ** 2 / 2 + compared * math.tanh(compared / 2))
    assert (result["private_tokens"], result["texts"]) == (10, 80)
    message = dpcli("generate", "notes.toml", "--dry-run", folder=folder).out
    assert "at most 5 private tokens in each batch" in message and "all tokens private" in message


@of_each(
    "change, message",
    [
        (("steps = 5", "steps = 321"), "steps: expected at most 320, the tokens of all texts of one batch"),
        (("\nscale = 0.1", ""), "expected threshold and scale together, because a distance is compared with noise, found no scale"),
        (("batches = 2", "batches = 1001"), "generate.batches: expected at most 1,000 with a threshold"),
    ],
)
def test_what_does_not_fit_a_threshold_is_refused(
    change: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed(tmp_path, monkeypatch)
    with pytest.raises(InputError, match=message):
        edited(folder, *SPARSE, change)


def test_a_line_that_was_cut_short_spoils_no_other(folder: Path) -> None:
    plan = plan_of("notes.toml")
    write_texts(plan, texts=1)
    with open("out/texts.jsonl", "ab") as file:
        file.write(b'{"number": 2, "te')
    write_texts(plan, resume=True, texts=1)
    assert [line["number"] for line in lines(folder)] == [1, 2]


@pytest.mark.long
def test_copies_of_a_folder_share_a_count_in_a_database(folder: Path, database: Database) -> None:
    plan = edited(folder, ('output = "out"', f'output = "out"\ncount = "{database.url}#notes"'))
    try:
        assert write_texts(plan, texts=2).taken == 2
        shutil.copytree(folder / "out", folder / "copy")
        copy = replace(plan, generate=replace(plan.generate, output="copy"))
        assert write_texts(copy, resume=True, texts=3).taken == 5
        assert write_texts(plan, resume=True).taken == 6
        for one in (plan, copy):
            with pytest.raises(Denied):
                write_texts(one, resume=True)
    finally:
        database.cluster.run("DROP SCHEMA IF EXISTS dpcli_queries CASCADE", database=database.name)


def test_texts_of_an_earlier_session_are_not_added_to(folder: Path) -> None:
    write_texts(plan_of("notes.toml"), texts=1)
    for name in ("run.json", "queries.db"):
        (folder / "out" / name).unlink()
    with pytest.raises(InputError, match="released before this session"):
        write_texts(plan_of("notes.toml"))


def test_a_copy_of_a_folder_writes_nothing(folder: Path) -> None:
    plan = plan_of("notes.toml")
    write_texts(plan, texts=1)
    shutil.copytree(folder / "out", folder / "copy")
    copy = replace(plan, generate=replace(plan.generate, output="copy"))
    with pytest.raises(LedgerError, match="a copy of"):
        write_texts(copy, resume=True)
    shutil.rmtree(folder / "out")
    assert write_texts(copy, resume=True, moved=True).taken == 6


def test_a_text_is_charged_before_its_first_token(folder: Path) -> None:
    """A crash in the middle of one loses it."""

    class Broken:
        private = True
        left = 3

        def words(self, count: int) -> object:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return np.full(count, 2**63, np.uint64)  # always the same: a text may end early

    plan = plan_of("notes.toml")
    with pytest.raises(KeyboardInterrupt):
        write_texts(plan, stream=Broken())  # type: ignore[arg-type]
    assert write_texts(plan, resume=True, texts=1).taken == 2
    assert [line["number"] for line in lines(folder)] == [2]


def test_what_it_costs_is_said_before(folder: Path) -> None:
    result = json.loads(dpcli("generate", "notes.toml", "--dry-run", "-f", "json", folder=folder).out)
    account = json.loads(dpcli("account", "notes.toml", "-f", "json", folder=folder).out)
    assert result["result"]["epsilon_upper"] == account["result"]["epsilon_upper"]
    assert result["rho_per_token"] == pytest.approx((2 * 4.0 / 60) ** 2 / 2)  # two texts of a user
    text = FILE.replace("steps = 24", "steps = 8")
    assert (
        result["epsilon_of_one_text_per_batch"]
        == json.loads(dpcli("account", "-", "-f", "json", stdin=text.encode()).out)["result"]["epsilon_upper"]
    )
    text = FILE.replace("steps = 24", "steps = 4_000")
    assert (
        result["epsilon_of_1000_texts"]
        == json.loads(dpcli("account", "-", "-f", "json", stdin=text.encode()).out)["result"]["epsilon_upper"]
    )
    assert not (folder / "out").exists()


def test_a_change_of_one_unit_meets_one_batch_in_so_many_contexts_as_it_may_contribute(folder: Path) -> None:
    plan = edited(folder, ("batches = 2", "batches = 7"))
    frame, vocabulary = ContextFrame((), (62,), (62,), 10), ByteVocabulary()

    def contexts(units: list[int]) -> list[Counter[tuple[int, ...]]]:
        texts = [f"{unit} {place}" for place, unit in enumerate(units)]
        body = f"def private():\n    return {texts!r}, {units!r}\n"
        (folder / "more.py").write_text(body)
        __import__("sys").modules.pop("more", None)
        __import__("importlib").invalidate_caches()
        generate = replace(plan.generate, data="more:private")
        return [Counter(batch) for batch in context_batches(generate, "notes.toml", owning(2), frame, vocabulary, 256)]

    units = [unit for unit in range(40) for _ in range(1 + unit % 4)]
    before = contexts(units)
    for unit in (0, 3, 17):
        after = contexts([one if one != unit else 1000 + place for place, one in enumerate(units)])
        gone = [batch - other for batch, other in zip(before, after, strict=True)]
        assert sum(1 for one in gone if one) == 1
        assert 1 <= sum(gone[next(k for k, one in enumerate(gone) if one)].values()) <= 2


def test_texts_that_are_alike_are_units_of_their_own(folder: Path) -> None:
    plan = edited(folder, ('units = "user"\n', ""), ('unit = "user"\nmax_contributions = 2', 'unit = "example"'))
    (folder / "notes.py").write_text(NOTES.replace("], [n // 2 for n in range(120)]", "]"))
    result = context_batches(plan.generate, "notes.toml", owning(1), ContextFrame((), (), (62,), 10), ByteVocabulary(), 256)
    assert sorted(map(len, result)) in ([0, 120], [1, 119])


def test_contexts_are_as_long_as_the_file_says(folder: Path) -> None:
    import notes  # type: ignore[import-not-found]

    write_texts(edited(folder, ("longest = 10", "longest = 3")), texts=1)
    private = {
        context[:4] for context in notes.Model.seen if not context.startswith(b">") and b">" in context
    }  # others are asked about to know the model by
    assert private == {b"aab>", b"aSE>"}


def test_the_ledger_is_charged_for_all_of_it_before_the_first_token(folder: Path) -> None:
    from dpcli.ledger.stores.places import open_ledger

    new_ledger(folder, 9.0)
    assert dpcli("generate", "notes.toml", "--ledger", "ledger.db", "--texts", "1", folder=folder).code == 0
    assert dpcli("generate", "notes.toml", "--ledger", "ledger.db", "--resume", folder=folder).code == 0
    with open_ledger("ledger.db") as ledger:
        (run,) = ledger.state().runs.values()
    assert run.status == "committed" and run.pipeline["mechanism"][0]["steps"] == 24
    other = FILE.replace('"out"', '"again"').replace("clip = 4.0", "clip = 40.0")
    (folder / "notes.toml").write_text(other)
    assert dpcli("generate", "notes.toml", "--ledger", "ledger.db", folder=folder).code == 1
    assert not (folder / "again" / "texts.jsonl").exists()


@of_each(
    "change, message",
    [
        *(
            (("texts = 3", f"texts = 3\n{key}"), "a token is drawn from the whole vocabulary")
            for key in ("top_k = 5", "top_p = 0.9", "greedy = true")
        ),
        (("texts = 3", "texts = 4"), "steps: expected 32"),
        (('prompt = ">"', f'prompt = "{">" * 40}"'), "at most 33 tokens before 8 new ones"),
        (("longest = 10", "longest = 33"), "at most 33 tokens before 8 new ones"),
        (('"notes:model"', '"notes:other"'), "another model"),
        (('"{text}>"', '"text>"'), "a text that contains {text} once"),
        (('units = "user"', ""), "generate.units"),
        (("[generate]", "[prompt]"), "prompt."),
        (
            (
                'type = "private-decoding"\nclip = 4.0\nreferences = 60\ntemperature = 1.0',
                'type = "gaussian"\nnoise_multiplier = 9.0',
            ),
            "none of that type",
        ),
        (("clip = 4.0", "clip = 1e-12"), "rounding moves a logit further"),
        (('"notes:private"', '"notes:alone"'), "2 lists, texts first"),
        (('"notes:private"', '"notes:one_by_one"'), "2 lists, texts first"),
    ],
)
def test_what_is_refused(change: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = placed(tmp_path, monkeypatch)
    (folder / "notes.toml").write_text(FILE.replace(*change))
    result = dpcli("generate", "notes.toml", folder=folder)
    assert result.code == 2, result.err
    assert message in result.err and "SECRET" not in result.err
    assert not (folder / "out" / "texts.jsonl").exists()


MISBEHAVING = """
class Odd(Model):
    def next_token(self, contexts):
        found = super().next_token(contexts)
        own = bytes(contexts[0])  # of a private text; whoever makes the file asks about tokens 0, 1, 2, ... too
        return odd(found, contexts) if own[:1] not in (b">", b"\\0") else found

def model():
    return Odd(), ByteVocabulary()
"""
ODD = {
    "raises": "raise ValueError(bytes(contexts[0]))",
    "leaves": "raise SystemExit('SECRET')",
    "half": "return found.astype(np.float16)",
    "narrow": "return found[:, :1]",
    "wide": "return np.concatenate([found, found], 1)",
    "many rows": "return np.concatenate([found] * 1000)",
    "deep": "return found[:, None]",
    "complex": "return found + 1j",
    "nothing": "return None",
    "words": "return [['SECRET'] * 256]",
    "no numbers": "return found * np.nan",
    "endless": "return found + np.inf",
    "no Exception": "raise BaseException('SECRET')",
    "no array": "return type('Lazy', (), {'__array__': lambda self, *how, **more: 1 / 0})()",
}


@of_each("body", ODD.values())
def test_a_model_that_misbehaves_on_private_contexts_tells_nothing_and_moves_nothing_further(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it answers, no token is further from the public ones than the contexts of the batch may move it, and no error says so."""
    folder = placed(tmp_path, monkeypatch)
    (folder / "notes.py").write_text(f"{NOTES}{MISBEHAVING}\ndef odd(found, contexts):\n    {body}\n")
    plan = plan_of("notes.toml")
    model, vocabulary = language_model("notes:model", None, "notes.toml", "generate")
    private = context_batches(plan.generate, "notes.toml", owning(2), frame_of(plan.generate, model, vocabulary), vocabulary, 256)
    writer = Writer(model, plan.clipping, b">", True, 8, 10)
    for batch in private:
        moved = writer.next_token(batch, b"", None).scores - writer.next_token([], b"", None).scores
        assert np.ptp(moved) <= 2 * len(batch) * 4.0 / 60 + 1e-9
    result = write_texts(plan, texts=1)
    assert len(result.written) == 1


def test_a_model_that_writes_over_its_last_answer_does_not_give_a_private_one_for_the_public_one(folder: Path) -> None:
    over = """
class Odd(Model):
    row = np.zeros((1, 256))
    def next_token(self, contexts):
        self.row[:] = super().next_token(contexts)
        return self.row

def model():
    return Odd(), ByteVocabulary()
"""
    plan = plan_of("notes.toml")
    contexts = [b"aSECRETS>"]
    usual, _ = language_model("notes:model", None, "notes.toml", "generate")
    __import__("sys").modules.pop("notes")
    (folder / "notes.py").write_text(NOTES + over)
    os.utime("notes.py", (1, 1))
    odd, _ = language_model("notes:model", None, "notes.toml", "generate")
    assert type(odd).__name__ == "Odd"
    for written in (b"", b"S", b"a"):
        scores = [
            Writer(model, plan.clipping, b">", True, 8, 10).next_token(contexts, written, None).scores for model in (usual, odd)
        ]
        assert np.array_equal(*scores)


@pytest.mark.parametrize(
    ("state", "kept"),
    [("all that was asked", "seen"), ("private contexts alone", "[one for one in seen if not one.startswith(b'>')]")],
)
def test_a_model_that_remembers_what_it_was_asked_writes_no_token(state: str, kept: str, folder: Path) -> None:
    remembering = f"""
seen = []
class Odd(Model):
    def next_token(self, contexts):
        seen.extend(map(bytes, contexts))
        found = super().next_token(contexts)
        found[:, 97] -= 0.1 * len({kept})
        return found

def model():
    return Odd(), ByteVocabulary()
"""
    (folder / "notes.py").write_text(NOTES + remembering)
    with pytest.raises(InputError, match="an answer must not depend on earlier contexts"):
        write_texts(plan_of("notes.toml"))
    assert not (folder / "out" / "texts.jsonl").exists()


@pytest.mark.long
@of_each(
    "body",
    [
        "raise ValueError(text)",
        "raise SystemExit(text)",
        "raise __import__('asyncio').CancelledError(text)",
        "return [0.5]",
        "return [10**9]",
        "return [-1]",
        "return None",
    ],
)
def test_a_private_text_that_the_tokenizer_fails_on_is_left_out_and_not_told(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed(tmp_path, monkeypatch)
    odd = f"""
class Odd(ByteVocabulary):
    def ids(self, text):
        if "SECRET" in text:
            {body}
        return list(text.encode())

def model():
    return Model(), Odd()
"""
    (folder / "notes.py").write_text(NOTES + odd)
    result = dpcli("generate", "notes.toml", folder=folder)
    assert result.code == 0, result.err
    assert "SECRET" not in result.out + result.err


@of_each(
    "body, message",
    [
        ("Model.context = None", "whole numbers as its vocabulary and context"),
        ("Model.vocabulary = '256'", "whole numbers as its vocabulary and context"),
        ("Model.next_token = lambda self, contexts: np.zeros((1, 9))", "log-probabilities of 256 tokens"),
        ("Model.next_token = lambda self, contexts: np.full((1, 256), np.nan)", "found NaN, inf or only -inf"),
        ("Model.next_token = lambda self, contexts: 1 / 0", "raised ZeroDivisionError"),
        ("Own.ids = lambda self, text: None", "generate.tokenizer: raised TypeError"),
        ("Own.text = lambda self, ids: 1 / 0", "generate.tokenizer: token 0 of the model's 256: raised ZeroDivisionError"),
        ("Own.text = lambda self, ids: None", "expected text of tokens, found NoneType"),
        ("Own.text = lambda self, ids: bytes(ids).decode('ascii')", "token 128 of the model's 256: raised UnicodeDecodeError"),
    ],
)
def test_a_model_that_fails_on_public_contexts_is_refused_in_words(
    body: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed(tmp_path, monkeypatch)
    own = "class Own(ByteVocabulary):\n    pass\n\ndef model():\n    return Model(), Own()\n"
    (folder / "notes.py").write_text(f"{NOTES}\n{own}\n{body}\n")
    result = dpcli("generate", "notes.toml", folder=folder)
    assert result.code == 2, result.err
    assert message in result.err and not (folder / "out").exists()  # before the charge


@pytest.mark.parametrize(("method", "refused"), [("difference", False), ("logits", True)])
def test_a_token_that_the_public_context_rules_out_needs_a_text_where_private_ones_alone_count(
    method: str, refused: bool, folder: Path
) -> None:
    own = """
class Own(ByteVocabulary):
    def text(self, ids):
        return bytes(ids).decode("ascii")

class Odd(Model):
    def next_token(self, contexts):
        found = super().next_token(contexts)
        found[:, 128:] = -np.inf
        return found

def model():
    return Odd(), Own()
"""
    (folder / "notes.py").write_text(NOTES + own)
    plan = edited(folder, ("batches = 2", f'batches = 2\nmethod = "{method}"'))
    if refused:
        with pytest.raises(InputError, match="token 128 of the model's 256"):
            write_texts(plan, texts=1)
        assert not (folder / "out").exists()
    else:
        assert len(write_texts(plan, texts=1).written) == 1


@of_each("unit, reason", [(None, "max_contributions = 3"), ("user", 'the unit of privacy is "user"')])
def test_a_missing_owner_is_asked_for_with_the_reason(unit: str | None, reason: str) -> None:
    pipeline = Pipeline(Privacy(Adjacency.ADD_REMOVE, unit=unit, max_contributions=3), ())
    with pytest.raises(InputError, match=re.escape(f"names each record's owner, as {reason}")):
        require_units(pipeline, None, "notes.toml", "generate")
