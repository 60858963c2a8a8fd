"""One run on two processes: the same steps, noise once in total, and nobody waits for one who does not come."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.terms import LedgerTerms
from dpcli.train.plan.plan import plan_of
from tests.train.run.processes import together
from tests.train.samples import FILE

RARE = (
    FILE.replace("steps = 30", "steps = 100")
    .replace("batch_size = 64", "rate = 0.0001")
    .replace("checkpoint_every = 10", "checkpoint_every = 50")
)


@pytest.mark.nightly
@pytest.mark.long
def test_two_processes_and_batches_that_are_mostly_empty(tmp_path: Path) -> None:
    """Rank-local empty batches hang elsewhere: of 100 steps at rate 1e-4 all but a few have at least one."""
    (tmp_path / "tiny.toml").write_text(RARE)
    books = init(
        str(tmp_path / "l.db"), "digits", LedgerTerms("example", "add-remove", 5.0, 1e-5, filter="rdp", parameters={"order": 4.0})
    )
    books.store.close()
    first, second = together(tmp_path, "tiny.toml", "--ledger", "l.db")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert second.stdout == ""  # one speaks for both
    found = json.loads(first.stdout)
    assert (found["steps"], found["private"], found["repeated"]) == (100, True, 0)
    assert found["result"]["epsilon_upper"] == pytest.approx(plan_of(str(tmp_path / "tiny.toml")).account.upper, rel=1e-12)
    (run,) = open_ledger(str(tmp_path / "l.db")).state().runs.values()
    assert run.status == "committed"


@pytest.mark.nightly
def test_a_ledger_that_says_no_stops_everybody(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(FILE)
    books = init(
        str(tmp_path / "l.db"), "digits", LedgerTerms("example", "add-remove", 0.3, 1e-5, filter="rdp", parameters={"order": 60.0})
    )
    books.store.close()
    first, second = together(tmp_path, "tiny.toml", "--ledger", "l.db")
    assert first.returncode == 1
    assert second.returncode != 0
    assert not (tmp_path / "runs" / "tiny" / "model.safetensors").exists()


# In each process as torchrun starts it: data() in an order of its own, and a fixed sample; what is left is who was in each part of it.
DISORDER = """
import os, sys, numpy, torch
from dpcli.train.run.ranks import ranks_of
from dpcli.train.engine.batches import take

def records():
    count = 1000 + int(os.environ["RANK"]) * (sys.argv[2] == "more")  # a split that is not seeded may leave one more
    order = torch.from_numpy(numpy.random.default_rng(int.from_bytes(os.urandom(8), "big")).permutation(count))
    return {"id": order, "mark": order[:, None] % 2 == 0, "none": torch.zeros(count, 0)}

def rank(number):
    os.environ.update(RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
    ranks = ranks_of("cpu")
    held = ranks.broadcast_records(records())
    torch.save((held, take(held, ranks.part(torch.arange(0, 1000, 3)))), f"held-{number}")
    ranks.finish()
    os._exit(0)

children = [child for number in (0, 1) if (child := os.fork()) or rank(number)]
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
"""


@pytest.mark.long
@pytest.mark.parametrize("count", ["same", "more"])
def test_a_row_number_is_one_record_whatever_order_each_process_loads(tmp_path: Path, count: str) -> None:
    """A set's order, an unseeded split: a record that two processes know by two numbers would be in a step twice."""
    (tmp_path / "disorder.py").write_text(DISORDER)
    subprocess.run([sys.executable, "disorder.py", _free_port(), count], cwd=tmp_path, check=True, timeout=600)
    (zero, mine), (one, its) = (torch.load(tmp_path / f"held-{rank}", weights_only=True) for rank in "01")
    assert all(torch.equal(zero[name], one[name]) for name in ("id", "mark", "none"))
    taken = torch.cat([mine["id"], its["id"]]).tolist()
    assert len(set(taken)) == len(taken) == 334


OWN = """
import os
import numpy, torch
def data():
    rng = numpy.random.default_rng(0)
    x, order = rng.normal(size=(400, 3)), numpy.random.default_rng(int.from_bytes(os.urandom(8), "big")).permutation(400)
    return (x[order], (x[order, 0] > 0).astype("int64")), order // 2
def model():
    return torch.nn.Linear(3, 2)
def loss(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
"""
OF_USERS = """
[train]
task = "custom"
data = "disordered:data"
model = "disordered:model"
loss = "disordered:loss"
units = "user"
learning_rate = 1.0
clipping = { norm = 1.0 }
"""


@pytest.mark.sampled(0, 0)
@pytest.mark.parametrize("bounded", ["records_per_unit = 2\n", ""])
def test_a_run_whose_processes_load_in_another_order(tmp_path: Path, bounded: str) -> None:
    (tmp_path / "disordered.py").write_text(OWN)
    unit = f'unit = "user"\nmax_contributions = {1 if bounded else 2}'
    file = FILE.split("[train]")[0].replace('unit = "example"', unit).replace("1_437", "400").replace("steps = 30", "steps = 3")
    (tmp_path / "tiny.toml").write_text(file + OF_USERS + bounded)
    first, second = together(tmp_path, "tiny.toml")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr


# The processes part after what they all import, which takes longer than all else.
STEP = """
import numpy, os, sys, torch
from dpcli.train.step.loop import Trainer
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.run.ranks import ranks_of
from dpcli.train.tasks.classification import cross_entropy

class Known:
    private, drawn_std = False, 1.0
    def parts(self, count):
        return iter((numpy.full(count, 0.25),))

def train(name):
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    records = torch.randn(40, 5), torch.randint(0, 3, (40,))
    ranks = ranks_of("cpu")
    gradients = ClippedGradients(model, cross_entropy, Flat(0.3))
    trainer = Trainer(model, gradients, torch.optim.SGD(model.parameters(), lr=1.0), records, ranks=ranks)
    batches = iter([torch.arange(0, 40, 3).numpy(), torch.arange(0).numpy(), torch.arange(1).numpy(), torch.arange(7, 31).numpy()])
    trainer.advance(4, batches, Known(), 10.0, lambda step: None)
    assert str(getattr(ranks, "rank", "alone")) == name
    torch.save(model.state_dict(), "model-" + name)
    ranks.finish()

def child(name, **world):
    process = os.fork()
    if process == 0:
        os.environ.update(world)
        train(name)
        sys.stdout.flush()
        os._exit(0)
    return process

world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]}
children = [child("alone"), *(child(rank, **world, RANK=rank) for rank in "01")]
assert [os.waitpid(process, 0)[1] for process in children] == [0, 0, 0]
"""


@pytest.mark.nightly
def test_the_sum_and_the_noise_are_those_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(STEP)
    subprocess.run([sys.executable, "step.py", _free_port()], cwd=tmp_path, check=True, timeout=600)
    alone, zero, one = (torch.load(tmp_path / f"model-{name}", weights_only=True) for name in ("alone", "0", "1"))
    for name, value in alone.items():
        assert torch.equal(zero[name], one[name])
        assert torch.allclose(value, zero[name], atol=1e-6)


@pytest.mark.nightly
@pytest.mark.long
def test_who_is_left_by_the_others_ends_with_a_code_of_ours(tmp_path: Path) -> None:
    """Threads of a group that never came to its end abort an orderly end of the process, now and then: nothing of it is waited for."""
    code = (
        "import atexit, os, sys, torch.distributed as group\n"
        "from dpcli.cli.main import run\n"
        "group.init_process_group('gloo', store=group.HashStore(), rank=0, world_size=1)\n"
        "atexit.register(lambda: os._exit(99))\n"
        "run(sys.argv[1:])"
    )
    for arguments, expected, stream in ((["account", "no.toml"], 2, "err"), (["version"], 0, "out")):
        left = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert left.returncode == expected, left.stderr
        assert (left.stdout, left.stderr)[stream == "err"]  # all of it was written before


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])
