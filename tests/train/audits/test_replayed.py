"""The replay audit of a training file finds no fault in correct training, and finds each of many classic bugs by the check meant for it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dpcli.audit.replay import Pair, checks
from dpcli.base.errors import InputError
from dpcli.train.replay import program as replayed
from dpcli.train.step import prepare
from tests.command import dpcli
from tests.train.bugs import BUGS, NOISES, RARE
from tests.train.entries import (
    BALLS,
    BANDED,
    BUFFERED,
    FULL,
    MAIN,
    MATRIX,
    PER_RECORD,
    PER_UNIT,
    SHUFFLE,
    SIZE,
    TRAIN,
    TREE,
    TURNS,
    UNITS,
    USERS,
    WARM,
)

SEED, REPLAYS = 5, 4  # seeded, so that the statistical checks always pass or never


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("users.py").write_text(USERS)


def failed(*parts: str, seed: int = SEED, count: int = REPLAYS) -> list[str]:
    """The checks that fail."""
    Path("audited.toml").write_text("".join(parts))
    found = replayed.replays("audited.toml")
    pairs = [Pair(*found.replay(index, np.random.default_rng([seed, index]))) for index in range(count)]
    return [check.name for check in checks(pairs, found.declared) if not check.passed]


ADAPTIVE = TRAIN.replace("norm = 1.0 }", 'norm = 0.1, style = "adaptive", quantile_noise = 10.0 }')
ONE = MAIN.replace("batch_size = 50", "rate = 0.2")


@pytest.mark.sampled(0, 3)
@pytest.mark.long
@pytest.mark.usefixtures("followed_once")
@pytest.mark.parametrize(
    "parts",
    [
        (SIZE, MAIN, TRAIN),
        (SIZE, RARE, TRAIN),
        (SIZE, FULL, TRAIN.replace('"logistic"', '"mlp"')),
        pytest.param((SIZE, MAIN, TRAIN.replace("norm = 1.0", 'norm = 1.0, style = "automatic"')), marks=pytest.mark.nightly),
        (SIZE, MAIN, TRAIN.replace("norm = 1.0", 'norm = 1.0, style = "per-layer"')),
        (SIZE, MAIN, TRAIN.replace("norm = 1.0", 'norm = 1.0, style = "per-group", groups = { "1.weight" = 1.0, "*" = 0.2 }')),
        (SIZE, SHUFFLE, TRAIN),
        pytest.param((SIZE, BALLS, TRAIN), marks=pytest.mark.nightly),
        (SIZE, TREE, TRAIN),
        pytest.param((SIZE, MATRIX, TRAIN), marks=pytest.mark.nightly),
        pytest.param((SIZE, TURNS, TRAIN), marks=pytest.mark.nightly),
        (SIZE, BUFFERED, TRAIN),
        (PER_UNIT, ONE, UNITS, "records_per_unit = 4\n"),
        (PER_RECORD, MAIN, UNITS),
        (SIZE, MAIN, TRAIN, "augmentations = 2\naugment = { flip = true, crop = 1 }\n"),
    ],
    ids="poisson rare full automatic per-layer per-group shuffle balls tree matrix turns buffered units records views".split(),  # noqa: SIM905
)
def test_what_is_right_passes(parts: tuple[str, ...]) -> None:
    assert failed(*parts, count=2) == []


@pytest.mark.usefixtures("followed_once")
@pytest.mark.long
def test_adaptive_clipping_passes_too() -> None:
    """Its noise on the gradients is larger than the entry's, which pays for the count."""
    assert failed(SIZE, MAIN, ADAPTIVE) == []


@pytest.mark.nightly
@pytest.mark.usefixtures("followed_once")
@pytest.mark.long
def test_a_schedule_is_replayed_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (SIZE, WARM, MAIN, TRAIN, 'mechanism = ["warm", "main"]\n')
    assert failed(*parts, seed=7) == []
    real = prepare.noise_of
    monkeypatch.setattr(
        prepare, "noise_of", lambda spec, bound, stream: real(spec, bound * (0.5 if spec.noise_multiplier == 2.0 else 1.0), stream)
    )
    assert "size of the noise" in failed(*parts)


@pytest.mark.usefixtures("followed_once")
@pytest.mark.long
def test_adaptive_clipping_whose_gradients_do_not_pay_for_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "gradient_spec", lambda spec, count_noise: spec)
    assert "size of the noise" in failed(SIZE, MAIN, ADAPTIVE.replace("quantile_noise = 10.0", "quantile_noise = 1.2"))


@pytest.mark.usefixtures("followed_once")
@pytest.mark.long
def test_a_scaled_encoder_has_less_noise_in_each_step() -> None:
    banded = BANDED.replace("bands = 4", "coefficients = [2.0, 1.0]")
    assert failed(SIZE, banded, TRAIN) == []


@pytest.mark.long
def test_many_alike_records_move_the_sum_no_further() -> None:
    """In single precision throughout, the sum of 20,000 alike gradients moves by 1.0001 C."""
    Path("alike.py").write_text(
        "import numpy as np\ndef load():\n    chance = np.random.default_rng(0)\n"
        "    return 1.0 + 1e-3 * chance.random((20_000, 20)), np.zeros(20_000, int)\n"
    )
    text = TRAIN.replace('"digits"', '"alike:load"\nclasses = 3').replace('public = "held-out"\n', "")
    assert failed(SIZE.replace("1_437", "20_000"), FULL.replace("steps = 20", "steps = 2"), text, count=2) == []


MODELS = """
import torch
from torch import nn
from torch.nn import functional
def records():
    chance = torch.Generator().manual_seed(1)
    return torch.randn(300, 6, 4, generator=chance), torch.randint(0, 3, (300,), generator=chance)
def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
def dropout():
    return nn.Sequential(nn.Flatten(), nn.Linear(24, 8), nn.ReLU(), nn.Dropout(.5), nn.Linear(8, 3))
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 5, num_layers=2, dropout=.5), nn.Linear(5, 3)
    def forward(self, x):
        return self.head(self.lstm(x.transpose(0, 1))[0][-1])
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
    def forward(self, x):
        h = self.inner(x).view(len(x), -1, 2, 4).transpose(1, 2)
        h = functional.scaled_dot_product_attention(h, h, h, dropout_p=.3 if self.training else 0.)
        return self.head(h.transpose(1, 2).flatten(2).mean(1))
class Rolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(24, 3)
    def forward(self, x):
        x = x.flatten(1)
        return self.head(x + x.roll(1, 0) if len(x) > 3 and torch.rand(()) < .4 else x)
class FirstSeen(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.scale = nn.Linear(24, 3), None
    def forward(self, x):
        x = x.flatten(1)
        if self.scale is None and len(x) > LEAST:
            self.scale = x[FIRST].detach().norm()
        return self.head(x if self.scale is None else x / (1 + self.scale))
"""
OWN = """
[train]
task = "custom"
model = "models:dropout"
data = "models:records"
loss = "models:loss"
learning_rate = 0.5
clipping = { norm = 1.0 }
"""
FEW = MAIN.replace("batch_size = 50", "rate = 0.04").replace("steps = 20", "steps = 8")
SMALL = SIZE.replace("1_437", "300")


def of_a_model(name: str, code: str = MODELS) -> list[str]:
    Path("models.py").write_text(code)
    sys.modules.pop("models", None)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return failed(SMALL, FEW, OWN.replace("models:dropout", f"models:{name}"), seed=9)
    except InputError:  # the trainer itself refuses it
        return ["sensitivity of the sums"]
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop("models", None)


@pytest.mark.sampled(0, 1)
@pytest.mark.usefixtures("followed_once")
@pytest.mark.long
@pytest.mark.parametrize("name", ["dropout", "Positions", pytest.param("Attention", marks=pytest.mark.nightly)])
def test_a_model_that_draws_for_each_record_passes(name: str) -> None:
    """Six to twenty records a batch of six positions each: sizes agree by chance, too."""
    assert of_a_model(name) == []


@pytest.mark.parametrize(("least", "first"), [(3, "0"), (0, "0"), (3, "slice(0, 8)")])
def test_statistics_of_the_first_records_seen_are_found(least: int, first: str) -> None:
    """Of the first batch of many, or of the first record; of one record or of several."""
    code = MODELS.replace("LEAST", str(least)).replace("FIRST", first)
    assert "sensitivity of the sums" in of_a_model("FirstSeen", code)


def test_a_rare_mixing_of_records_is_found() -> None:
    """In some forwards, and not in those of a probe with few records."""
    assert "sensitivity of the sums" in of_a_model("Rolled")


# One wrong noise by each of three checks; tests/audit/test_replay.py has all of them, without a model.
OF_NOISE = ("no noise on the bias", "noise in bfloat16", "noise that fades")
REPEATED = {*NOISES, "noise/20", "noise over the batch size"} - {*OF_NOISE}  # what another one of the same check stands for
SELDOM_SEEN = {  # in two replays
    *NOISES,
    "noise by the records drawn",
    "records drawn twice as often",
    "shuffle declared as poisson",
    "empty batch skipped",
    "nan passed through",
}


@pytest.mark.sampled(0, 3)
@pytest.mark.long
@pytest.mark.usefixtures("followed_once")
@pytest.mark.parametrize("bug", [pytest.param(bug, marks=[pytest.mark.nightly] if bug in REPEATED else []) for bug in BUGS])
def test_a_planted_bug_fails_the_check_that_is_about_it(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check, entry = BUGS[bug]
    plant(monkeypatch)
    assert check in failed(SIZE, entry, TRAIN, count=REPLAYS if bug in SELDOM_SEEN else 2)


@pytest.mark.nightly
@pytest.mark.long
def test_the_command_replays_a_training_file() -> None:
    # Seeded: the statistical checks fail a right program in 5 % of audits.
    Path("audited.toml").write_text(SIZE + MAIN + TRAIN + "[audit]\nseed = 3\n")
    found = dpcli("audit", "audited.toml", "--kind", "replay", "--trials", "3", folder=Path.cwd())
    assert found.code == 0
    assert "no violation found in 3 replays of 20 steps" in found.out
    Path("plain.toml").write_text(SIZE + MAIN)
    found = dpcli("audit", "plain.toml", "--kind", "replay", folder=Path.cwd())
    assert found.code == 2
    assert "expected a program to replay" in found.err
