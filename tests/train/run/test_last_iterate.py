"""Training of which only the last model is released: its premises, its steps, and what a run leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import parse
from dpcli.random.streams import insecure_seed
from dpcli.train.documents.step import step_document
from dpcli.train.noise import Independent
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.training_run import train
from dpcli.train.step import prepare
from dpcli.train.tasks.classification import BoundedLogistic
from dpcli.train.tasks.learning import learning
from dpcli.train.watch.watch import watch
from tests.cases import fresh_random, require_each
from tests.train.samples import Stopped, stop_at

FILE = """
format = 1
name = "last"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 1_440
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "descent"
type = "last-iterate"
noise_multiplier = 20.0
iterations = 14
learning_rate = 3.0
smoothness = 0.3
strong_convexity = 0.05
[train]
task = "classification"
data = "digits"
model = "bounded-logistic"
learning_rate = 3.0
weight_decay = 0.05
clipping = { norm = 1.0 }
public = "held-out"
physical_batch_size = 512
checkpoint_every = 4
"""
BALL = "strong_convexity = 0.05\nlipschitz = 1.0\ndiameter = 0.5\ndivisor = 1_440"
TURNS = "strong_convexity = 0.05\nbatches = 7"
POISSON = 'strong_convexity = 0.05\ndrawn = "poisson"\ninclusion = 0.25'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_what_breaks_a_premise_is_refused() -> None:
    """Each case changes one line of a file that is right: (old, new, words of the refusal)."""
    right = FILE.replace("strong_convexity = 0.05", BALL)
    plan_of("last.toml", right.encode())
    drawn = FILE.replace("strong_convexity = 0.05", POISSON).replace("learning_rate = 3.0", "learning_rate = 1.5")
    plan_of("last.toml", drawn.replace("smoothness = 0.3", "smoothness = 1.05").encode())

    def check(case: tuple[str, str, str]) -> None:
        old, new, words = case
        assert right.count(old), old
        with pytest.raises(InputError) as refusal:
            plan_of("last.toml", right.replace(old, new).encode())
        assert words in str(refusal.value), (str(refusal.value), words)

    require_each(
        [
            ("learning_rate = 3.0\n", "learning_rate = 7.0\n", "learning_rate: expected at most 2 / smoothness = 6.66667"),
            ("learning_rate = 3.0\nweight", "learning_rate = 6.0\nweight", "train.learning_rate: expected 3.0, as in mechanism"),
            ("weight_decay = 0.05\n", "", "train.weight_decay: expected at least strong_convexity = 0.05"),
            ("weight_decay = 0.05", "weight_decay = 0.06", "smoothness: expected at least 0.31 = 1 C^2 / 4 + weight_decay"),
            ("norm = 1.0", "norm = 2.0", "smoothness: expected at least 1.05"),
            ("norm = 1.0", "norm = 0.5", "lipschitz: expected train.clipping.norm = 0.5"),
            ("divisor = 1_440", "divisor = 1_400", "divisor: expected 1440, the records of a batch"),
            ("diameter = 0.5\n", 'diameter = 0.5\ndrawn = "poisson"\ninclusion = 0.25\n', "expected at least 1.05 = 4 C^2 / 4"),
            ('"bounded-logistic"', '"logistic"', "train.model: expected 'bounded-logistic'"),
            ("norm = 1.0", 'norm = 1.0, style = "automatic"', "train.clipping.style: expected 'flat'"),
            ("norm = 1.0 }", "norm = 1.0 }\nmomentum = 0.9", "train.momentum: expected 0.0"),
            ("norm = 1.0 }", "norm = 1.0 }\naverage = 0.9", "train.average: expected no such key"),
            ("norm = 1.0 }", 'norm = 1.0 }\nschedule = "linear"', "train.schedule: expected 'constant'"),
            ("norm = 1.0 }", 'norm = 1.0 }\noptimizer = "adam"', "train.optimizer: expected 'sgd'"),
            ("norm = 1.0 }", 'norm = 1.0 }\nengine = "opacus"', "train.engine: expected 'dpcli'"),
            ("norm = 1.0 }", f"norm = 1.0 }}\nclass_weights = {[2.0] * 10}", "train.class_weights: expected no such key"),
            ('"final-model"', '"all-checkpoints"', 'expected releases = "final-model"'),
            ('releases = "final-model"\n', "", 'privacy.releases: expected "final-model"'),
        ],
        check,
    )


@pytest.mark.long
def test_other_entries_and_other_tasks_do_not_train_it() -> None:
    gaussian = '[[mechanism]]\nname = "other"\ntype = "gaussian"\nnoise_multiplier = 2.0\nsteps = 3\n[train]\n'
    head, table = FILE.split("[train]")
    cases = {
        "no other entry with last-iterate": FILE.replace("[train]\n", f'{gaussian}mechanism = ["other", "descent"]\n'),
        "expected an entry of type last-iterate with bounded-logistic": FILE.replace(
            "[train]\n", f'{gaussian}mechanism = "other"\n'
        ),
        "train.model: expected 'bounded-logistic'": head + '[train]\ntask = "loop"\nclipping = { norm = 1.0 }\n',
    }
    for words, text in cases.items():
        with pytest.raises(InputError, match=words):
            plan_of("last.toml", text.encode())
    assert "mechanism" not in table


def test_no_other_loop_is_watched_for_it(folder: Path) -> None:
    (folder / "last.toml").write_text(FILE)
    with pytest.raises(InputError, match="no entry of type last-iterate, found one: no loop but dpcli train's keeps its premises"):
        watch("last.toml")


def test_a_run_is_priced_as_the_mechanism_and_once_more_if_it_is_resumed() -> None:
    plan = plan_of("last.toml", FILE.encode())
    assert plan.account.upper == account(parse(FILE.encode(), "last.toml")).upper
    assert [(stage.steps, stage.expected_batch) for stage in plan.stages] == [(14, 1440.0)]
    entries = [plan.costs(portions).mechanisms for portions in ([(0, 1)], [(0, 14)], [(0, 14), (4, 8)])]
    assert [entry.steps for (entry,) in entries] == [1, 1, 2]
    all_models = replace(plan.pipeline.mechanisms[0].spec, strong_convexity=0.0)
    whole = account(replace(plan.pipeline, mechanisms=(replace(plan.pipeline.mechanisms[0], spec=all_models),))).upper
    assert plan.account.upper < whole


@pytest.mark.long
def test_a_step_keeps_the_bounds_of_the_proof() -> None:
    """Gradients are no longer than C, steps bring models together, and two labels of equal records attain the curvature."""
    seed = fresh_random().getrandbits(32)
    rng = torch.Generator().manual_seed(seed)
    for classes, norm, scale in ((2, 1.0, 1.0), (3, 0.1, 1e-3), (10, 4.0, 1e6)):
        records = scale * torch.randn(30, 5, generator=rng)
        labels = torch.randint(classes, (30,), generator=rng)
        model = BoundedLogistic(5, classes, norm / math.sqrt(2.0))
        weights = [torch.randn(classes, 6, generator=rng, dtype=torch.float64) * 5.0 / norm for _ in range(2)]
        for row in range(30):
            assert gradient(model, weights[0], records[row : row + 1], labels[row : row + 1]).norm() <= norm * (1 + 1e-12), seed
        for rate in (1.0, 2.0):
            moved = [point - rate * 4.0 / norm**2 * gradient(model, point, records, labels) / 30.0 for point in weights]
            assert (moved[0] - moved[1]).norm() <= (weights[0] - weights[1]).norm() * (1 + 1e-12), seed
    model = BoundedLogistic(1, 2, 1.0 / math.sqrt(2.0))
    record, label = torch.full((1, 1), 1e4), torch.tensor([0])
    along = torch.tensor([[1e-6, 0.0], [-1e-6, 0.0]], dtype=torch.float64)
    moved = [point - 8.8 * gradient(model, point, record, label) for point in (along, -along)]
    assert (moved[0] - moved[1]).norm() > 1.19 * (2.0 * along).norm()  # 2.2 / smoothness: apart by 1.2


def gradient(model: nn.Module, weights: Tensor, records: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the summed loss at these weights."""
    point = weights.clone().requires_grad_()
    scores = torch.func.functional_call(model, {"linear.weight": point}, (records,))
    nn.functional.cross_entropy(scores, labels, reduction="sum").backward()
    assert point.grad is not None
    return point.grad


@pytest.mark.nightly
@pytest.mark.parametrize("variant", [BALL, TURNS, POISSON])
def test_a_run_is_the_descent_of_the_theorem(folder: Path, monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    """The last model is that of the plain formula with the same batches and noise, and nothing else leaves."""
    noises, batches = [], []
    draw, sample = Independent.parts, prepare.descent_sampler

    def drawn(self: Independent, count: int) -> Iterator[Any]:
        noises.append(np.concatenate([part.copy() for part in draw(self, count)]))
        return iter((noises[-1].copy(),))

    def sampled(*given: Any) -> Iterator[Any]:
        for batch in sample(*given):
            batches.append(batch)
            yield batch

    monkeypatch.setattr(Independent, "parts", drawn)
    text = FILE.replace("strong_convexity = 0.05", variant).replace("iterations = 14", "iterations = 21")
    if variant == POISSON:
        text = text.replace("smoothness = 0.3", "smoothness = 1.05").replace("learning_rate = 3.0", "learning_rate = 1.5")
    plan = plan_of("last.toml", text.encode())
    first: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "descent_sampler", sampled)
        make = prepare.optimizer_of
        patch.setattr(
            prepare,
            "optimizer_of",
            lambda table, model: (first.append(model.linear.weight.detach().clone()), make(table, model))[1],
        )
        reports: list[Any] = []
        outcome = train(plan, report=lambda step, metrics: reports.append(metrics))
    inputs, labels = (values.numpy() for values in learning(plan.train, plan.path, insecure_seed(0).initialisation).records)
    x = np.c_[inputs.reshape(len(inputs), -1), np.ones(len(inputs))].astype(float)
    z = x * np.minimum(1.0, 1.0 / math.sqrt(2.0) / np.linalg.norm(x, axis=1, keepdims=True))
    weights, rate = first[0].numpy(), plan.train.learning_rate
    steps = batches[-21:]
    for batch, noise in zip(steps, noises[-21:], strict=True):
        scores = z[batch] @ weights.T
        p = np.exp(scores - scores.max(1, keepdims=True))
        p = p / p.sum(1, keepdims=True) - np.eye(10)[labels[batch]]
        noisy = (p.T @ z[batch] + noise.reshape(weights.shape)) / plan.stages[0].expected_batch
        weights = weights - rate * (noisy + 0.05 * weights)
        if variant == BALL:
            weights = weights * min(1.0, 0.25 / np.linalg.norm(weights))
    from safetensors.torch import load_file

    left = load_file(f"{outcome.folder}/model.safetensors")["linear.weight"]
    assert left.dtype == torch.float64
    np.testing.assert_allclose(left.numpy(), weights, rtol=0.0, atol=1e-9 * np.abs(weights).max())  # noisy sums are rounded
    if variant == TURNS:
        assert all((steps[k] == steps[k + 7]).all() for k in range(14))
        assert sorted(np.concatenate(steps[:7])) == list(range(len(labels)))
    assert {*reports} == {None}
    lines = (Path(outcome.folder) / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [21]


@pytest.mark.nightly
def test_a_step_says_what_it_projects_and_keeps() -> None:
    for variant, words in ((BALL, "project: weights longer than 0.25 are"), (TURNS, "draw: the records of the next of 7 batches")):
        plan = plan_of("last.toml", FILE.replace("strong_convexity = 0.05", variant).encode())
        details = "\n".join(step_document(plan).details)
        assert words in details
        assert "keep: no model but the last one is written, measured or shown, except the state for --resume" in details


@pytest.mark.long
def test_only_the_last_model_leaves(folder: Path) -> None:
    """The state for --resume is the operator's: it is removed at the end, and a run that is resumed from it is charged as another run."""
    plan = plan_of("last.toml", FILE.encode())
    with pytest.raises(Stopped):
        train(plan, report=stop_at(6))
    assert sorted(path.name for path in (folder / "runs" / "last").glob("[!.]*")) == ["metrics.jsonl", "state.pt"]
    assert not (folder / "runs" / "last" / "metrics.jsonl").read_text()
    outcome = train(plan, resume=True)
    assert not (folder / "runs" / "last" / "state.pt").exists()
    assert outcome.epsilon == account(plan.costs([(0, 14), (4, 8)])).upper > plan.account.upper
    assert "whoever has a copy of it has seen more" in (folder / "runs" / "last" / "statement.md").read_text()
