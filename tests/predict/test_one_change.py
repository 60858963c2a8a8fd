"""A change of the data changes what is made of one shard, and nothing is left of a learner, whatever it draws, keeps, seeds or starts."""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.predict import shard_processes as apart
from tests.predict.leaving import ROW, left
from tests.predict.one_change import HABITS, LEARNERS, OWN_LEARNERS, of_members, of_pate, of_pmixed
from tests.predict.pmixed_files import HEAD
from tests.predict.samples import working_folder

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


@pytest.mark.long
@pytest.mark.parametrize(("learner", "habit"), ALL)
def test_one_change_of_the_data_changes_one_model(learner: str, habit: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All other files are equal byte by byte, where each shard's entropy is what it was."""
    key = secrets.token_bytes(16)
    monkeypatch.setattr(apart, "fresh_entropy", lambda number: hashlib.sha256(key + bytes([number])).digest())
    made = []
    for name, changed in (("before", False), ("after", True)):
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


@pytest.mark.parametrize("habit", SHARES)
def test_one_change_of_the_data_changes_what_one_fitted_model_answers(
    habit: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a user's class keeps what its objects have learnt, and whoever is asked first."""
    from dpcli.predict.pmixed.model_ensemble import ensemble

    rows = []
    for name, changed in (("before", False), ("after", True)):
        folder = again(place, name)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [str(folder), *(one for one in sys.path if not one.startswith(str(place)))])
        plan = of_members(folder, MEMBERS.replace("HABIT", SHARES[habit]), changed)
        models = ensemble(plan)
        rows.append([models._private(order, (119, 49)) for order in (range(6), (5, 0, 3))])
    (all_before, some_before), (all_after, some_after) = rows
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


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("model", "tokenizer", "more", "message"),
    [
        ("Net", "bytes", LORA, "dropout that is not switched off"),
        ("Noisy", "bytes", "", "answers must not be random"),
        ("Plain", "own_code:mixed", "", "the same tokens in the same order.*found another order: that of a set"),
        (
            "ngram",
            "own_code:mixed",
            "public = 'news.txt'\n",
            "the same tokens in the same order.*found another order: that of a set",
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


def require_own_entropy(place: Path) -> None:
    """Require entropy of its own in each generator: Python's, numpy's and torch's."""
    begun = [line.split(";") for line in (place / "begun").read_text().splitlines()]
    assert [len(set(one)) for one in zip(*begun, strict=True)] == [len(begun)] * 3 and len(begun) in (
        6,
        7,
    )  # of shards, and of a rehearsal


@pytest.mark.parametrize("learner", ["pate", "pmixed"])
@pytest.mark.parametrize("habit", [one for one in HABITS if one != "build"])
@pytest.mark.needs("torch")
def test_no_two_shards_begin_with_the_same_entropy(learner: str, habit: str, place: Path) -> None:
    """Whatever the user's module seeds when it is imported."""
    (of_pate if learner == "pate" else of_pmixed)(place, habit, False)
    require_own_entropy(place)


@pytest.mark.needs("torch")
def test_a_seed_where_the_public_model_is_built_is_not_the_seed_of_all_shards(place: Path) -> None:
    of_pmixed(place, "build", False)
    require_own_entropy(place)


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


@pytest.mark.needs("torch")
@pytest.mark.parametrize("code", [UNSEEDED, OWN], ids=["torch", "own"])
def test_a_public_model_that_is_another_one_each_time_is_refused_before_the_charge(code: str, place: Path) -> None:
    from dpcli.predict.pmixed.ensemble_fit import fit
    from dpcli.predict.pmixed.pmixed_plan import plan_of

    (place / "own_code.py").write_text(code)
    table = '[pmixed]\ndata = "own_code:texts"\ntokenizer = "bytes"\nmax_tokens = 4\nmodel = "own_code:model"\n'
    more = "lora = { rank = 2, targets = ['q'] }\ncontext = 32\n" if "torch" in code else ""
    (place / "own.toml").write_text(HEAD.partition("[pmixed]")[0] + table + more)
    with pytest.raises(InputError, match="the public model: expected the same one whenever it is built"):
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


def test_where_forking_is_impossible_each_shard_has_a_process_that_is_started_anew(place: Path) -> None:
    """The user's module starts a thread."""
    from dpcli.numerics.arrays import np
    from dpcli.predict.pate.records import Records
    from dpcli.predict.pate.teachers import Lesson
    from dpcli.predict.shard_processes import Apart

    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    records = [(number, Records(np.zeros((4, 2)), np.array([0, 1, 0, 1]))) for number in range(3)]
    for module, start in (("forking", ""), ("threaded", thread)):
        (place / f"{module}.py").write_text(KEEPS.replace("THREAD", start))
        (place / "imported").write_text("")
        with Apart(Lesson(np.zeros((2, 2)), f"{module}:learn", 3, 8, str(place / "a.toml")), "gone", 2) as result:
            message = dict(result.each(records))
        assert {number: one.tolist() for number, one in message.items()} == {0: [0, 0], 1: [0, 0], 2: [0, 0]}
        assert len((place / "imported").read_text().splitlines()) == (4 if module == "threaded" else 1)


def test_a_process_that_is_killed_is_told(place: Path) -> None:
    from dpcli.numerics.arrays import np
    from dpcli.predict.pate.records import Records
    from dpcli.predict.pate.teachers import Lesson
    from dpcli.predict.shard_processes import Apart

    (place / "killed.py").write_text("import os\ndef learn(inputs, labels):\n    os.kill(os.getpid(), 9)\n")
    records = Records(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    lesson = Lesson(np.zeros((2, 2)), "killed:learn", 3, 8, str(place / "a.toml"))
    with Apart(lesson, "it is gone") as result, pytest.raises(InputError, match="it is gone"):
        list(result.each([(0, records)]))


PATIENCE = 60.0  # seconds, for what ends after a command has


def left_at_last(place: Path) -> list[str]:
    until = time.monotonic() + PATIENCE
    while (still := left(place)) and time.monotonic() < until:
        time.sleep(0.05)
    return still


@pytest.mark.long
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
from tests.predict.leaving import leave
class Said:
    def predict(self, inputs):
        return np.zeros(len(inputs))
def learn(inputs, labels):
    leave()
    END
"""
RUNS = """
from dpcli.numerics.arrays import np
from dpcli.predict.shard_processes import Apart
from dpcli.predict.pate.records import Records
from dpcli.predict.pate.teachers import Lesson
with Apart(Lesson(np.zeros((2, 2)), "leaves:learn", 3, 8, "a.toml"), "gone") as apart:
    list(apart.each([(0, Records(np.zeros((4, 2)), np.array([0, 1, 0, 1])))]))
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_whatever_a_learner_has_started_ends_with_it_and_with_dpcli(end: str, stop: signal.Signals, place: Path) -> None:
    (place / "leaves.py").write_text(LEARNS.replace("END", ENDS[end]))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", RUNS], env=environment, stderr=subprocess.PIPE) as process:
        while end in ("waits", "spins") and not (place / "left").exists():
            time.sleep(0.05)
            assert process.poll() is None, process.stderr and process.stderr.read()
        if end in ("waits", "spins"):
            process.send_signal(stop)
        process.wait()
    assert left_at_last(place) == []
