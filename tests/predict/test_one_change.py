"""A change of the data changes what is made of one shard, and nothing is left of a learner, whatever it draws, keeps, seeds or starts."""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.predict import shard_processes as apart
from dpcli.predict.pate.records import Records
from dpcli.predict.pate.teachers import TeacherWork
from dpcli.predict.pmixed.model_ensemble import ensemble
from dpcli.predict.shard_processes import ShardProcesses
from tests.ledger.spenders import started
from tests.predict.leftovers import ROW, left
from tests.predict.one_change import HABITS, LEARNERS, OWN_LEARNERS, of_members, of_pate, of_pmixed
from tests.predict.pmixed.pmixed_files import HEAD
from tests.predict.samples import working_folder
from tests.waiting import until

ALL = [
    pytest.param(name, habit, marks=pytest.mark.needs(*NEEDED), id=f"{name}-{habit}")
    for name in LEARNERS
    for habit in HABITS
    for NEEDED in [("torch", "transformers", "peft", "safetensors") if "adapters" in name else ("torch", "sklearn")]
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return working_folder(tmp_path, monkeypatch, "own_code")


def again(folder: Path, name: str) -> Path:
    """A folder for the same once more, where what was imported is forgotten."""
    result = folder / name
    result.mkdir()
    sys.modules.pop("own_code", None)
    return result


@pytest.mark.sampled(0, 0)
@pytest.mark.parametrize(("learner", "habit"), ALL)
def test_one_change_of_the_data_changes_one_model(learner: str, habit: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other files are equal byte by byte, where each shard's entropy is what it was."""
    key = secrets.token_bytes(16)
    made = []
    for name, changed in (("before", False), ("after", True)):
        numbers = itertools.count()  # shards are started in their order
        monkeypatch.setattr(apart, "fresh_entropy", lambda numbers=numbers: hashlib.sha256(key + bytes([next(numbers)])).digest())
        folder = again(place, name)
        if name == "after" and (place / "before" / "weights").exists():
            (folder / "weights").symlink_to(place / "before" / "weights")
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [str(folder), *(one for one in sys.path if not one.startswith(str(place)))])
        made.append(LEARNERS[learner](folder, habit, changed))
    before, after = made
    assert len(before) == len(after) == 6
    moved = [number for number, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    assert len(moved) <= 1, f"key {key.hex()}: {moved}"


MEMBERS = """
from pathlib import Path
import numpy as np
texts = lambda: Path("texts").read_text().split("\\n")
seen, total = [], np.zeros(256)

def said(counts):
    return np.log((counts + 1) / (counts + 1).sum())

class Tuned:
    vocabulary, context = 256, 999
    cache = {}
    def __init__(self, counts):
        self.counts = counts
    def answer(self, context, known={}):
        HABIT
    def next_token(self, contexts):
        return np.stack([self.answer(tuple(one)) for one in contexts])

class Model:
    vocabulary, context = 256, 999
    counts = np.zeros(256)
    def next_token(self, contexts):
        return np.stack([said(self.counts)] * len(contexts))
    def tune(self, records):
        return np.bincount([t for r in records for t in r], minlength=256).astype(float).tobytes()
    def tuned(self, content):
        found = Tuned(np.frombuffer(content))
        seen.append(found.counts)
        total[:] += found.counts
        if "self.public" in "HABIT":
            self.counts = found.counts
            found.public = self
        return found

def model():
    return Model()
"""
SHARES = {
    "class": "return self.cache.setdefault(context, said(self.counts))",
    "default": "return known.setdefault(context, said(self.counts))",
    "module": "return said(sum(seen))",
    "total": "return said(total)",
    "public": "return said(self.public.counts)",
}
RIGHT = "return said(self.counts)"


def rows_of(folder: Path, monkeypatch: pytest.MonkeyPatch, habit: str, changed: bool) -> list[list[np.ndarray]]:
    """Return what fitted models answer, all of them and some in another order."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    sys.modules.pop("own_code", None)
    models = ensemble(of_members(folder, MEMBERS.replace("HABIT", habit), changed))
    return [models._private_rows(order, (119, 49)) for order in (range(6), (5, 0, 3))]


@pytest.fixture(scope="module")
def right_rows(tmp_path_factory: pytest.TempPathFactory) -> list[list[np.ndarray]]:
    """Before the change, of a class that keeps nothing."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return rows_of(tmp_path_factory.mktemp("right"), monkeypatch, RIGHT, False)


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("habit", SHARES)
def test_one_change_of_the_data_changes_what_one_fitted_model_answers(
    habit: str, right_rows: list[list[np.ndarray]], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a user's class keeps what its objects have learnt, and whoever is asked first."""
    (all_before, some_before), (all_after, some_after) = right_rows, rows_of(place, monkeypatch, SHARES[habit], True)
    assert sum((one != other).any() for one, other in zip(all_before, all_after, strict=True)) == 1
    assert sum((one != other).any() for one, other in zip(some_before, some_after, strict=True)) <= 1
    assert len({one.tobytes() for one in all_before}) == 6


DROPS = """
import torch, random
import numpy as np
from pathlib import Path
from dpcli.predict.models.model_loading import WordVocabulary
texts = lambda: Path("texts").read_text().split("\\n")
WORDS = [f"w{place}" for place in range(254)]
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.back = torch.nn.Embedding(256, 32), torch.nn.Linear(32, 256)
    def forward(self, ids):
        return self.back(torch.nn.functional.dropout(self.wide(ids), 0.5))
class Noisy:
    vocabulary, context = 256, 999
    def next_token(self, contexts):
        scores = np.random.default_rng().normal(size=(len(contexts), 256))
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    def tune(self, records):
        return b""
    def tuned(self, content):
        return self
class Plain(Noisy):
    def next_token(self, contexts):
        return np.log(np.full((len(contexts), 256), 1 / 256))
def mixed():
    return WordVocabulary(list(set(WORDS)))
"""
LORA = "lora = { rank = 2, targets = ['back'] }\ncontext = 32\n"


@pytest.mark.sampled(1, 1)
@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("model", "tokenizer", "more", "message"),
    [
        ("Net", "bytes", LORA, "switch off dropout"),
        ("Noisy", "bytes", "", "must not be random"),
        ("Plain", "own_code:mixed", "", "the same tokens in the same order.*found a changed order: the order of a set"),
        (
            "ngram",
            "own_code:mixed",
            "public = 'news.txt'\n",
            "the same tokens in the same order.*found a changed order: the order of a set",
        ),
    ],
)
def test_what_depends_on_the_file_alone_is_refused_before_the_charge(
    model: str, tokenizer: str, more: str, message: str, place: Path
) -> None:
    (place / "news.txt").write_text("w1 w2 w3")
    named = model if model == "ngram" else f"own_code:{model}"
    with pytest.raises(InputError, match=message):
        of_members(place, DROPS, False, f'model = "{named}"\n{more}', tokenizer)
    assert not (place / "runs").exists()


def require_own_entropy(place: Path, generators: int) -> None:
    """Require entropy of its own in each generator: Python's, numpy's and torch's, of six shards and a rehearsal."""
    begun = [line.split(";") for line in (place / "begun").read_text().splitlines()]
    assert [len(set(one)) for one in zip(*begun, strict=True)] == [len(begun)] * generators and len(begun) in (6, 7)


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("torch", [False, pytest.param(True, marks=[pytest.mark.needs("torch"), pytest.mark.long])])
@pytest.mark.parametrize(("learner", "habit"), [("pate", "module"), ("pate", "none"), *(("pmixed", habit) for habit in HABITS)])
def test_no_two_shards_begin_with_the_same_entropy(learner: str, habit: str, torch: bool, place: Path) -> None:
    """Whatever the user's module seeds when it is imported, or where the public model is built."""
    (of_pate if learner == "pate" else of_pmixed)(place, habit, False, torch=torch)
    require_own_entropy(place, 3 if torch else 2)


UNSEEDED = """
import torch
texts = lambda: ["w1 w2", "w3 w4"] * 9
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = torch.nn.Embedding(256, 256)
    def forward(self, ids):
        return self.q(ids)
def model():
    return Net()
"""

OWN = """
import numpy as np
texts = lambda: ["w1 w2", "w3 w4"] * 9
class Model:
    vocabulary, context = 256, 999
    def __init__(self):
        scores = np.random.default_rng().normal(size=256)
        self.row = scores - np.log(np.exp(scores).sum())
    def next_token(self, contexts):
        return np.stack([self.row] * len(contexts))
    def tune(self, records):
        return b""
    def tuned(self, content):
        return self
def model():
    return Model()
"""


@pytest.mark.parametrize(
    "code", [pytest.param(UNSEEDED, marks=[pytest.mark.needs("torch"), pytest.mark.nightly]), OWN], ids=["torch", "own"]
)
def test_a_public_model_that_is_another_one_each_time_is_refused_before_the_charge(code: str, place: Path) -> None:
    from dpcli.predict.pmixed.ensemble_fit import fit
    from dpcli.predict.pmixed.pmixed_plan import plan_of

    (place / "own_code.py").write_text(code)
    table = '[pmixed]\ndata = "own_code:texts"\ntokenizer = "bytes"\nmax_tokens = 4\nmodel = "own_code:model"\n'
    more = "lora = { rank = 2, targets = ['q'] }\ncontext = 32\n" if "torch" in code else ""
    (place / "own.toml").write_text(HEAD.partition("[pmixed]")[0] + table + more)
    with pytest.raises(InputError, match="the public model: expected the same content whenever it is built"):
        fit(plan_of(str(place / "own.toml")))
    assert not (place / "runs").exists()


KEEPS = """
import threading
import numpy as np
THREAD
state = []
class Said:
    def predict(self, inputs):
        state.append(1)
        return np.full(len(inputs), len(state) - 1)
with open("imported", "a") as file:
    file.write("once\\n")
def learn(inputs, labels):
    return Said()
"""


def learnt_apart(module: str, place: Path, shards: int = 1, jobs: int = 1) -> dict[int, list[int]]:
    """Return what a learner of the user's own says of each shard."""
    records = [(number, Records(np.zeros((4, 2)), np.array([0, 1, 0, 1]))) for number in range(shards)]
    with ShardProcesses(
        TeacherWork(np.zeros((2, 2)), f"{module}:learn", 3, 8, str(place / "a.toml")), "it is gone", jobs
    ) as result:
        return {number: votes.tolist() for number, votes in result.results(records)}


@pytest.mark.nightly
def test_where_forking_is_impossible_each_shard_has_a_process_that_is_started_anew(place: Path) -> None:
    """The user's module starts a thread."""
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    for module, start, imports in (("forking", "", 1), ("threaded", thread, 3)):
        (place / f"{module}.py").write_text(KEEPS.replace("THREAD", start))
        (place / "imported").write_text("")
        assert learnt_apart(module, place, 2, 2) == {0: [0, 0], 1: [0, 0]}
        assert len((place / "imported").read_text().splitlines()) == imports


def test_a_process_that_is_killed_is_told(place: Path) -> None:
    (place / "killed.py").write_text("import os\ndef learn(inputs, labels):\n    os.kill(os.getpid(), 9)\n")
    with pytest.raises(InputError, match="it is gone"):
        learnt_apart("killed", place)


PATIENCE = 60.0  # seconds, for what ends after a command has


def left_at_last(place: Path) -> list[str]:
    until = time.monotonic() + PATIENCE
    while (still := left(place)) and time.monotonic() < until:
        time.sleep(0.05)
    return still


@pytest.mark.sampled(0, 0)
@pytest.mark.needs("torch")
@pytest.mark.parametrize("learner", OWN_LEARNERS)
def test_nothing_is_left_of_a_learner_and_nothing_is_shown(
    learner: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAVES", str(os.getpid()))
    OWN_LEARNERS[learner](place, "none", False)
    shown = capfd.readouterr()
    assert ROW not in shown.out + shown.err
    assert len((place / "left").read_text().splitlines()) >= 6
    assert left_at_last(place) == []


ENDS = {
    "answers": "return Said()",
    "is killed": "os.kill(os.getpid(), 9)",
    "waits": "time.sleep(1000)",
    "spins": "while True: pass",
}
LEARNS = """
import os, time
import numpy as np
from tests.predict.leftovers import leave
class Said:
    def predict(self, inputs):
        return np.zeros(len(inputs))
def learn(inputs, labels):
    leave()
    END
"""


@pytest.mark.parametrize("end", ["answers", pytest.param("is killed", marks=pytest.mark.long)])
def test_whatever_a_learner_has_started_ends_with_it(end: str, place: Path) -> None:
    (place / "leaves.py").write_text(LEARNS.replace("END", ENDS[end]))
    with pytest.raises(InputError, match="it is gone") if end == "is killed" else nullcontext():
        learnt_apart("leaves", place)
    assert left_at_last(place) == []


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("end", "stop"),
    [
        ("waits", signal.SIGKILL),
        pytest.param("spins", signal.SIGINT, marks=pytest.mark.long),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("waits", signal.SIGINT), ("spins", signal.SIGKILL))),
    ],
)
def test_whatever_a_learner_has_started_ends_with_dpcli(end: str, stop: signal.Signals, place: Path) -> None:
    (place / "leaves.py").write_text(LEARNS.replace("END", ENDS[end]))
    child = started(lambda: learnt_apart("leaves", place) and None)
    until((place / "left").exists)
    os.kill(child, stop)
    os.waitpid(child, 0)
    assert left_at_last(place) == []
