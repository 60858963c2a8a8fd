"""Learners that use shared random generators and files, for tests that one changed record changes the output of its own shard alone.

A user's learner may draw from a generator that all shards share, and more often for more records. If shards ran one after the other in one
process, a record of the first shard would then change all later ones. Each learner (LEARNERS) fits all shards of a small plan, with or
without one more record in the first shard, and returns the output of each shard.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpcli.predict.pate.pate_plan import plan_of as pate_plan
from dpcli.predict.pate.teachers import fit as teach
from dpcli.predict.pmixed.ensemble_fit import fit as fine_tune
from dpcli.predict.pmixed.pmixed_plan import PmixedPlan
from dpcli.predict.pmixed.pmixed_plan import plan_of as pmixed_plan
from dpcli.predict.prompt.prompt_plan import plan_of as prompt_plan
from dpcli.predict.prompt.prompt_session import vote_and_teach
from dpcli.predict.shards import shard_of
from tests.predict.pmixed.pmixed_files import HEAD, sentences
from tests.predict.prompt_files import FILE
from tests.predict.samples import GNMAX, written

SEEDS = "random.seed(0); np.random.seed(0)"
TORCH = "torch.manual_seed(0)"
# Where a user's code seeds its generators: when its module is imported, when a model is built or a learner is called, or nowhere.
HABITS = ("module", "build", "none")

SHARED = """
import os, random
from pathlib import Path
import numpy as np
from tests.predict.leftovers import leave
IMPORT
np.savez("open.npz", a=np.arange(5000.0), b=np.arange(7.0))
handles = [os.open("open.npz", os.O_RDONLY) for _ in range(2)]  # which nobody closes
arrays, log = np.load(open(handles[0], "rb", closefd=False)), open(handles[1], "rb", buffering=0, closefd=False)  # read by all
def seed():
    SEED
AT_MODULE
kept = []  # and keeps state

def drawn(much):
    found = [random.random() + np.random.rand() FROM_TORCH for _ in range(1 + much)]
    kept.append(much)
    log.read(much)
    kept.append(log.tell() + arrays["a"].sum() + arrays["b"].sum())
    if "LEAVES" in os.environ:
        leave()
    with open("begun", "a") as file:
        file.write(f"{random.getstate()[1][:4]};{tuple(np.random.get_state()[1][:4])}BEGUN\\n")
    return found[-1] + sum(kept)
"""

PATE = """
class Said:
    def __init__(self, number):
        self.number = number
    def predict(self, inputs):
        return ((np.abs(inputs[:, 0]) + self.number) * 1e4).astype(int) % 3

def learn(inputs, labels):
    AT_BUILD
    return Said(drawn(len(inputs)))
"""

PMIXED = """
from tests.predict.pmixed.pmixed_files import sentences
texts = lambda: Path("texts").read_text().split("\\n")

class Model:
    vocabulary, context = 256, 999
    def next_token(self, contexts):
        return np.log(np.full((len(contexts), 256), 1 / 256))
    def tune(self, records):
        return np.array([drawn(len(records))]).tobytes()
    def tuned(self, content):
        return Model()

def model():
    AT_BUILD
    return Model()
"""

PEFT = """
import transformers
texts = lambda: Path("texts").read_text().split("\\n")
def model():
    AT_BUILD
    return transformers.GPT2LMHeadModel.from_pretrained("weights")
"""

PROMPT = """
calls = []
def data():
    return tuple(map(list, zip(*[eval(line) for line in Path("texts").read_text().split("\\n")])))
def queries():
    return [f"ash {n}" for n in range(12)]
def labeller(prompt):
    AT_BUILD
    return [0.0, (drawn(len(prompt)) * 1e4) % 2 - 1.0]
"""


def user_code(body: str, habit: str, torch: bool) -> str:
    text = SHARED + body
    seeds = f"{SEEDS}; {TORCH}" if torch else SEEDS
    marks = {
        "IMPORT": "import torch" if torch else "",
        "SEED": seeds,
        "AT_MODULE": "seed()" if habit == "module" else "",
        "AT_BUILD": "seed()" if habit == "build" else "pass",
        "BEGUN": ";{torch.initial_seed()}" if torch else "",
        "FROM_TORCH": "+ float(torch.rand(1))" if torch else "",
    }
    for mark, code in marks.items():
        text = text.replace(mark, code)
    return text


def newcomer(name: str, kind: Callable[[str], str | int] = str) -> str:
    """Return the name of a unit that is assigned to the first of six shards."""
    return next(one for one in map(name.format, range(1000, 2000)) if shard_of(kind(one), 6) == 0)


def of_pate(folder: Path, habit: str, changed: bool, model: str = "own_code:learn", torch: bool = True) -> list[bytes]:
    """Return the votes of each teacher of PATE."""
    (folder / "own_code.py").write_text(user_code(PATE, habit, torch))
    random = np.random.default_rng(0)
    inputs, labels, home = random.normal(size=(60, 2)), random.integers(0, 3, 60), np.arange(60) % 6
    if changed:  # one more record in the first shard
        inputs, labels, home = np.vstack((inputs, [[9.0, 9.0]])), np.append(labels, 0), np.append(home, 0)
    np.savez(folder / "private.npz", inputs=inputs, labels=labels, home=home)
    np.savez(folder / "public.npz", inputs=random.normal(size=(40, 2)))
    keys = f'data = "private.npz"\nqueries = "public.npz"\nshards = "home"\nmodel = "{model}"'
    path = written(folder, GNMAX.replace("sigma = 40.0", "sigma = 3.0"), keys, teachers=6, classes=3)
    plan = pate_plan(str(path))
    teach(plan, 2)
    return [file.read_bytes() for file in sorted(Path(plan.folder, "teachers").glob("*.votes"))]


def of_members(
    folder: Path, code: str, changed: bool, more: str = 'model = "own_code:model"', tokenizer: str = "bytes"
) -> PmixedPlan:
    """Return a plan of PMixED whose models have been fitted."""
    texts = sentences(60, 2, 5)
    (folder / "texts").write_text("\n".join([*texts, *([newcomer("w1 w2 w3 {}")] if changed else [])]))
    (folder / "own_code.py").write_text(code)
    table = f'[pmixed]\ndata = "own_code:texts"\ntokenizer = "{tokenizer}"\nmax_tokens = 4\n{more}'
    file = folder / "own.toml"
    file.write_text(HEAD.partition("[pmixed]")[0] + table)
    plan = pmixed_plan(str(file))
    fine_tune(plan)
    return plan


def _of_pmixed(folder: Path, code: str, more: str, changed: bool) -> list[bytes]:
    plan = of_members(folder, code, changed, more)
    return [one.read_bytes() for one in sorted(Path(plan.folder).glob("*.model"))]


def of_pmixed(folder: Path, habit: str, changed: bool, torch: bool = True) -> list[bytes]:
    """Return the models of PMixED, which the user's own code fits."""
    return _of_pmixed(folder, user_code(PMIXED, habit, torch), 'model = "own_code:model"', changed)


def of_ngram(folder: Path, habit: str, changed: bool) -> list[bytes]:
    (folder / "news.txt").write_text("\n".join(sentences(20, 1, 1)))
    return _of_pmixed(folder, user_code(PMIXED, habit, False), 'model = "ngram"\npublic = "news.txt"', changed)


def of_adapters(folder: Path, habit: str, changed: bool) -> list[bytes]:
    import transformers

    if not (folder / "weights").exists():
        shape = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 256, "n_positions": 32}
        transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=0, eos_token_id=0, **shape)).save_pretrained(
            folder / "weights"
        )
    more = 'model = "own_code:model"\ncontext = 32\nlora = { rank = 2, targets = ["c_attn"] }\nepochs = 1\nbatch_size = 4'
    return _of_pmixed(folder, user_code(PEFT, habit, True), more, changed)


def of_prompt(folder: Path, habit: str, changed: bool) -> list[bytes]:
    """Return the labels of each teacher whose private examples stand in a prompt."""
    from dpcli.predict.prompt.prompt_teachers import PromptTeachers

    rows = [(f"text {n}", ["no", "yes"][n % 2], n // 2) for n in range(40)]
    (folder / "texts").write_text(
        "\n".join(map(repr, [*([("a newcomer", "yes", int(newcomer("{}", int)))] if changed else []), *rows]))
    )
    (folder / "own_code.py").write_text(user_code(PROMPT, habit, True))
    text = FILE.replace("stub:", "own_code:").replace("teachers = 16", "teachers = 6").replace('public = "own_code:public"\n', "")
    (folder / "own.toml").write_text(text)
    result: list[bytes] = []
    complete = PromptTeachers.labels_of

    def kept(self: PromptTeachers, texts: object) -> object:
        message = complete(self, texts)  # type: ignore[arg-type]
        result.extend(repr(message[number]).encode() for number in sorted(message))
        return message

    PromptTeachers.labels_of = kept  # type: ignore[method-assign, assignment]
    try:
        vote_and_teach(prompt_plan(str(folder / "own.toml")))
    finally:
        PromptTeachers.labels_of = complete  # type: ignore[method-assign]
    return result


LEARNERS: dict[str, Callable[[Path, str, bool], list[bytes]]] = {
    "pate-own": of_pate,
    **{
        f"pate-{name}": (lambda folder, habit, changed, name=name: of_pate(folder, habit, changed, name, False))
        for name in ("logistic", "mlp", "svm")
    },
    "pmixed-own": of_pmixed,
    "pmixed-ngram": of_ngram,
    "pmixed-adapters": of_adapters,
    "prompt": of_prompt,
}
OWN_LEARNERS = {name: learner for name, learner in LEARNERS.items() if name in ("pate-own", "pmixed-own", "prompt")}
