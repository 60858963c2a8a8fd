"""PromptPATE from a file to a prompt, on a function that stands for a language model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.predict.prompt.demonstrations import Demonstration, PromptShape, labels_in_turn, prompt_that_fits
from dpcli.predict.prompt.labellers import labeller_of
from dpcli.predict.prompt.prompt_plan import PromptPlan, plan_of
from dpcli.predict.prompt.prompt_session import VoteTranscript, vote_and_teach
from dpcli.predict.prompt.prompt_teachers import prompt_teachers
from dpcli.random.streams import insecure_seed
from tests.cases import of_each, tiered
from tests.command import dpcli
from tests.predict.prompt_files import FILE, STUB, written
from tests.predict.samples import new_ledger, working_folder


def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the file and the user's module."""
    (tmp_path / "stub.toml").write_text(written(tmp_path))
    return working_folder(tmp_path, monkeypatch, "stub")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return placed(tmp_path, monkeypatch)


def edited(folder: Path, *changes: tuple[str, str]) -> PromptPlan:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "stub.toml").write_text(text)
    return plan_of("stub.toml")


@pytest.mark.long
@pytest.mark.usefixtures("whole_statements")
def test_from_private_demonstrations_to_a_public_prompt(folder: Path) -> None:
    result = dpcli("prompt", "stub.toml", "-f", "json", folder=folder)
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert data["accuracy"] > 0.95 > 0.7 > data["accuracy_without_demonstrations"]
    assert data["asked"] <= 30 and 15 <= data["answered"] <= 25 and data["waiting"] >= 10
    out = folder / "out"
    assert data["prompt"] == (out / "prompt.txt").read_text()
    labels = [json.loads(line) for line in (out / "labels.jsonl").read_text().splitlines()]
    assert sum(line["label"] is not None for line in labels) == data["answered"]
    assert "epsilon <=" in (out / "statement.md").read_text()
    for path in out.iterdir():  # of the private texts nothing is left
        assert re.search(rb"secret\d", path.read_bytes()) is None, path


def test_each_teacher_sees_its_own_shard_alone(folder: Path) -> None:
    """In a process of its own, so that what it is asked is told by a file."""
    recording = (
        "\nscores = labeller\ndef labeller(prompt):\n    with open('calls', 'a') as file:\n        file.write(prompt + '\\n')\n"
    )
    (folder / "stub.py").write_text(STUB + recording + "    return scores(prompt)\n")
    import stub  # type: ignore[import-not-found]

    plan = plan_of("stub.toml")
    vote_and_teach(plan)
    shown: dict[str, set[str]] = {}
    assert not any("secret" in prompt for prompt in stub.calls)  # in this process: public texts alone
    for prompt in (folder / "calls").read_text().splitlines():
        private = frozenset(word for word in prompt.split() if word.startswith("secret"))
        for word in private:
            shown.setdefault(word, set()).update(private)
    owners = dict(zip([text.split()[-1] for text in stub.data()[0]], stub.data()[2], strict=True))
    teachers = {frozenset(group) for group in shown.values()}
    assert 16 < sum(len(group) for group in teachers) == len(shown) <= 32  # disjoint
    seen: dict[int, frozenset[str]] = {}
    for group in teachers:
        for word in group:
            assert seen.setdefault(owners[word], group) == group  # all records of a unit are one teacher's


def test_queries_are_charged_once_and_denied_when_spent(folder: Path) -> None:
    first = vote_and_teach(plan_of("stub.toml"))
    transcript = (folder / "out" / "transcript.jsonl").read_bytes()
    with pytest.raises(InputError, match="continue it with --resume"):
        vote_and_teach(plan_of("stub.toml"))
    again = vote_and_teach(plan_of("stub.toml"), resume=True)
    assert (again.queries, again.answered, again.session.run) == (first.queries, first.answered, first.session.run)
    assert (folder / "out" / "transcript.jsonl").read_bytes() == transcript
    (folder / "out" / "queries.db").unlink()
    with pytest.raises(LedgerError, match="no count of queries"):
        vote_and_teach(plan_of("stub.toml"), resume=True)


def test_a_session_of_another_file_does_not_go_on(folder: Path) -> None:
    vote_and_teach(plan_of("stub.toml"))
    for change in (("sigma = 2.0", "sigma = 2.5"), ("queries = 30", "queries = 31"), ("teachers = 16", "teachers = 17")):
        with pytest.raises(InputError, match="found a change"):
            vote_and_teach(edited(folder, change), resume=True)
    assert vote_and_teach(edited(folder, ("teachers = 16", "teachers = 16\ncandidates = 3")), resume=True).waiting  # it is public


def test_the_ledger_is_charged_before_the_first_vote(folder: Path) -> None:
    from dpcli.ledger.stores.places import open_ledger

    new_ledger(folder, 50.0)
    assert dpcli("prompt", "stub.toml", "--ledger", "ledger.db", folder=folder).code == 0
    with open_ledger("ledger.db") as ledger:
        (run,) = ledger.state().runs.values()
    assert run.status == "committed"
    assert json.loads((folder / "out" / "run.json").read_text())["run"] == run.key
    assert dpcli("prompt", "stub.toml", "--resume", folder=folder).code == 2  # without the ledger
    again = dpcli("prompt", "stub.toml", "--resume", "--ledger", "ledger.db", folder=folder)
    assert again.code == 0, again.err
    with open_ledger("ledger.db") as ledger:
        assert len(ledger.state().runs) == 1


def test_a_ledger_or_budget_that_says_no_stops_before_the_data_and_leaves_no_folder(folder: Path) -> None:
    import stub

    before = {*folder.rglob("*")}
    new_ledger(folder, 0.1)
    for _ in range(2):
        refused = dpcli("prompt", "stub.toml", "--ledger", "ledger.db", folder=folder)
        assert refused.code == 1, refused.err
    with pytest.raises(Denied, match="budget: expected at most epsilon 1 "):
        vote_and_teach(edited(folder, ("[[mechanism]]", "[budget]\nepsilon = 1.0\n[[mechanism]]")))
    assert stub.calls == []
    assert {path for path in folder.rglob("*") if "__pycache__" not in path.parts} - before == {folder / "ledger.db"}


def test_a_dry_run_reads_and_charges_nothing(folder: Path) -> None:
    (folder / "stub.py").write_text("raise SystemExit(3)")
    result = dpcli("prompt", "stub.toml", "--dry-run", "-f", "json", folder=folder)
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert (data["queries"], data["answers"], data["teachers"]) == (30, 25, 16)
    assert (
        data["result"]["epsilon_upper"]
        == json.loads(dpcli("account", "stub.toml", "-f", "json", folder=folder).out)["result"]["epsilon_upper"]
    )
    assert not (folder / "out").exists()


@of_each(
    "change, message",
    [
        (('labels = ["no", "yes"]', 'labels = ["no", "no"]'), "at least two labels"),
        (('verbalizers = [" no", " yes"]', 'verbalizers = [" no"]'), "one word for each of 2 labels"),
        (('labeller = "stub:labeller"', 'labeller = "stub:labeller"\nmodel = "gpt2"'), "model or labeller"),
        (('labeller = "stub:labeller"', ""), "model or labeller"),
        (('labeller = "stub:labeller"', 'labeller = "stub:labeller"\ntokenizer = "bytes"'), "this key only with model"),
        (('units = "user"', ""), "prompt.units"),
        (('"{text} ->"', '"text ->"'), "a text that contains {text} once"),
        (
            (
                'type = "confident-gnmax"\nqueries = 30\nanswers = 25\nthreshold = 9.0\nthreshold_sigma = 3.0\nsigma = 2.0',
                'type = "gaussian"\nnoise_multiplier = 1.0',
            ),
            "none of that type",
        ),
        (('output = "out"', 'output = "out"\nmechanism = "other"'), "prompt.mechanism"),
        (('"stub:queries"', '"stub:labeller"'), "stub:labeller"),
        (('"stub:data"', '"os:getcwd"'), "expected 3 lists"),
        (('"stub:queries"', '"stub:data"'), "prompt.queries: expected texts declared public"),
        (('"stub:public"', '"stub:data"'), "prompt.public: expected texts declared public"),
        (('labels = ["no", "yes"]', 'labels = ["no", "no "]'), "at least two labels"),
        (('"stub:data"', '"no.txt"'), "a .csv, .jsonl, .parquet file"),
        (('"stub:data"', '"no.csv"'), "expected a file"),
        (('labels = ["no", "yes"]', 'labels = ["off", "on"]'), "every label of the data"),
        (('"stub:labeller"', '"stub:kind"'), "expected one of the labels, or a score for each"),
    ],
)
def test_what_is_refused(change: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, and without a private text."""
    folder = placed(tmp_path, monkeypatch)
    (folder / "stub.toml").write_text(FILE.replace(*change))
    result = dpcli("prompt", "stub.toml", folder=folder)
    assert result.code == 2, result.err
    assert message in result.err and "secret" not in result.err
    assert not (folder / "out" / "transcript.jsonl").exists()


def test_a_function_may_return_labels(folder: Path) -> None:
    (folder / "stub.py").write_text(
        STUB + "\nscores = labeller\ndef labeller(prompt):\n    return 'no yes'.split()[scores(prompt)[1] > .5]\n"
    )
    result = dpcli("prompt", "stub.toml", "-f", "json", folder=folder)
    assert result.code == 0 and json.loads(result.out)["accuracy"] > 0.95


MODEL = """
from dpcli.predict.models.model_loading import ByteVocabulary
import numpy as np

class Model:
    vocabulary, context = 256, 40
    def next_token(self, contexts):
        assert all(len(context) <= self.context for context in contexts)
        rows = np.full((len(contexts), 256), -9.0)
        for row, context in zip(rows, contexts):
            row[ord("y" if labeller(bytes(context).decode().replace(" n", " no").replace(" y", " yes"))[1] > .5 else "n")] = -1e-9
        return rows

def model():
    return Model(), ByteVocabulary()

def narrow():
    found = Model()
    found.vocabulary = 120  # y is 121
    return found, ByteVocabulary()

def long():
    return ["ash " * 12]

def wordy():
    return long(), ["no"]

class Remembering(Model):
    seen = 0
    def next_token(self, contexts):
        self.seen += sum(bytes(context).count(b"->") > 1 for context in contexts)
        return super().next_token(contexts) - 0.001 * self.seen * (np.arange(256) == ord("y"))

def remembering():
    return Remembering(), ByteVocabulary()

class Wordless(ByteVocabulary):
    tokens = None
    def ids(self, text):
        return self.tokens

def wordless():
    return Model(), Wordless()

class Silent(Wordless):
    tokens = ()

def silent():
    return Model(), Silent()
"""


def test_a_language_model_answers_by_the_first_token_of_a_label(folder: Path) -> None:
    (folder / "stub.py").write_text(STUB + MODEL)
    words = ('verbalizers = [" no", " yes"]', 'verbalizers = ["n", "y"]')
    result = vote_and_teach(
        edited(folder, ('labeller = "stub:labeller"', 'model = "stub:model"'), words, ('"{text} ->"', '"{text} -> "')),
        stream=insecure_seed(3).noise,  # some noise leaves labels of which no prompt is good
    )
    assert result.accuracy is not None and result.accuracy > 0.9  # though only one short demonstration fits
    for change, message in (
        (('"stub:queries"', '"stub:long"'), "fit into the model's context"),
        (('"stub:public"', '"stub:wordy"'), "prompt.public: expected texts that fit"),
        (('["n", "y"]', '["no", "nope"]'), "different tokens"),
        (('"stub:model"', '"stub:wordless"'), "prompt.tokenizer: raised TypeError"),
        (('"stub:model"', '"stub:silent"'), "expected words that have tokens, found 'n', which has none"),
        (('"stub:model"', '"stub:narrow"'), "expected token ids below the model's"),
    ):
        text = (folder / "stub.toml").read_text().replace(*change).replace('"out"', '"other"')
        (folder / "changed.toml").write_text(text)
        with pytest.raises(InputError, match=re.escape(message)):
            vote_and_teach(plan_of("changed.toml"))


def test_what_a_model_remembers_of_one_teacher_reaches_no_other(folder: Path) -> None:
    """Each is asked in a process of its own, which begins with the model as it was built."""
    (folder / "stub.py").write_text(STUB + MODEL)
    words = ('verbalizers = [" no", " yes"]', 'verbalizers = ["n", "y"]')
    votes = {}
    for model in ("model", "remembering"):
        changes = (('labeller = "stub:labeller"', f'model = "stub:{model}"'), words, ('"{text} ->"', '"{text} -> "'))
        plan = edited(folder, *changes)
        labeller = labeller_of(plan.prompt, plan.path)
        shown = [(Demonstration("ash elm 1", number % 2),) for number in range(6)]
        with prompt_teachers(plan, labeller, shown) as teachers:
            votes[model] = teachers.votes(["ash oak 2"]).counts.tolist()
    assert votes["model"] == votes["remembering"]


@pytest.mark.parametrize(
    "body",
    tiered(
        [
            "raise ValueError(prompt)",
            "raise SystemExit(prompt)",
            "raise GeneratorExit(prompt)",
            "raise InputError(prompt)",
            "raise Denied(prompt)",
            "return None",
            "return 'perhaps ' + prompt",
            "return [float('nan')] * 2",
            "return [1.0, 2.0, 3.0]",
            "return np.array([1j, 2j])",
            "return Lazy(prompt)",
            "return [Lazy(prompt)] * 2",
        ],
        0,
        4,
    ),
)
def test_a_labeller_that_fails_on_some_private_texts_tells_nothing_of_them(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would tell that there are any: their teachers vote as prompts without a demonstration do."""
    folder = placed(tmp_path, monkeypatch)
    odd = f"""
import numpy as np
from dpcli.base.errors import Denied, InputError

class Lazy:
    def __init__(self, prompt):
        self.prompt = prompt
    def __float__(self):
        raise ValueError(self.prompt)
    def __array__(self, *how, **more):
        raise ValueError(self.prompt)

usual = labeller
def labeller(prompt):
    if "secret" in prompt and hash(prompt) % 2:
        {body}
    return usual(prompt)
"""
    (folder / "stub.py").write_text(STUB + odd)
    edited(folder, ("queries = 30", "queries = 6"), ("answers = 25", "answers = 6"), ("threshold = 9.0", "threshold = 0.0"))
    result = dpcli("prompt", "stub.toml", folder=folder)
    assert result.code == 0, result.err
    assert "secret" not in result.out + result.err
    assert len((folder / "out" / "labels.jsonl").read_text().splitlines()) > 3


def test_a_labeller_that_says_no_does_not_end_a_session_as_one_that_is_spent(folder: Path) -> None:
    (folder / "stub.py").write_text(
        STUB + "\nfrom dpcli.base.errors import Denied\ndef labeller(prompt):\n    raise Denied('spent')\n"
    )
    with pytest.raises(InputError, match="raised Denied at stub"):
        vote_and_teach(plan_of("stub.toml"))


def test_records_without_an_owner_are_refused(folder: Path) -> None:
    """The owners are not known: their owners would have more than one vote."""
    (folder / "stub.py").write_text(STUB + "\ndef data():\n    return ['ash'] * 4, ['yes'] * 4, ['', '', 'x', 'y']\n")
    with pytest.raises(InputError, match="owners that are missing"):
        vote_and_teach(plan_of("stub.toml"))


@of_each(
    "old, new",
    [
        ('"label": 1', '"label": 2'),
        ('"label": 1', '"label": -1'),
        ('"label": 1', '"label": true'),
        ('"label": 1', '"label": "1"'),
        ('"number": ', '"number": 0.'),
        ('"query": "', '"query": 5, "other": "'),
    ],
)
def test_a_transcript_of_something_else_is_refused(old: str, new: str, tmp_path: Path) -> None:
    line = '{"query": "a", "number": 1, "label": 1}\n'
    (tmp_path / "transcript.jsonl").write_text(line)
    assert VoteTranscript(str(tmp_path / "transcript.jsonl"), 2)
    (tmp_path / "transcript.jsonl").write_text(line.replace(old, new))
    with pytest.raises(InputError, match="expected the transcript"):
        VoteTranscript(str(tmp_path / "transcript.jsonl"), 2)


def test_answers_of_an_earlier_session_are_not_taken_into_another_charge(folder: Path) -> None:
    vote_and_teach(plan_of("stub.toml"))
    for name in ("run.json", "queries.db", "answers.db"):
        (folder / "out" / name).unlink()
    with pytest.raises(InputError, match="released before this session"):
        vote_and_teach(plan_of("stub.toml"))


SHAPE = PromptShape("", "{text} ->", " | ", (" no", " yes"))


def test_a_private_demonstration_that_is_too_long_is_left_out_and_not_refused() -> None:
    shown = [Demonstration("a", 0), Demonstration("b" * 50, 1)]
    assert prompt_that_fits(SHAPE, shown, "c", lambda prompt: True) == f"a -> no | {'b' * 50} -> yes | c ->"
    assert prompt_that_fits(SHAPE, shown, "c", lambda prompt: len(prompt) < 20) == "a -> no | c ->"
    assert prompt_that_fits(SHAPE, shown[1:], "c", lambda prompt: len(prompt) < 20) == "c ->"


def test_demonstrations_are_of_all_labels_in_turn() -> None:
    records = [Demonstration("a", 0), Demonstration("b", 0), Demonstration("c", 0), Demonstration("d", 1)]
    assert labels_in_turn(records, 2) == [("a", 0), ("d", 1), ("b", 0), ("c", 0)]
