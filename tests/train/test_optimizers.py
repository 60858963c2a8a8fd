"""Optimizers change no cost, because they see the noisy gradient only; adam-bc subtracts exactly the variance of the noise."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.random.streams import insecure_seed, system_entropy
from dpcli.train.plan.plan import plan_of
from dpcli.train.plan.settings import Train
from dpcli.train.run.ranks import Ranks
from dpcli.train.run.training_run import train
from dpcli.train.step.optimizers import OPTIMIZERS, AdamBC
from dpcli.train.step.prepare import Prepared, prepare
from tests.train.entries import BANDED, BUFFERED, FULL, MAIN, SIZE, TRAIN, TREE, WARM
from tests.train.samples import Stopped, stop_at

BC = 'optimizer = "adam-bc"\n'
ADAPTIVE = TRAIN.replace("norm = 1.0 }", 'norm = 0.3, style = "adaptive", quantile_noise = 10.0 }')


pytestmark = pytest.mark.usefixtures("folder")  # each test has a current folder of its own


def write(*parts: str) -> str:
    Path("run.toml").write_text("".join(parts))
    return "run.toml"


def random() -> np.random.Generator:
    return np.random.default_rng([SEED, 8])


def of_one(values: np.ndarray, **more: Any) -> tuple[nn.Parameter, AdamBC]:
    parameter = nn.Parameter(torch.tensor(values, dtype=torch.float64))
    return parameter, AdamBC([parameter], **more)


def taken(optimizer: AdamBC, gradient: np.ndarray | Tensor, variance: float) -> None:
    (group,) = optimizer.param_groups
    group["noise_variance"], group["params"][0].grad = variance, torch.as_tensor(gradient, dtype=group["params"][0].dtype)
    optimizer.step()


def test_there_is_one_for_every_word() -> None:
    hint = get_type_hints(Train, include_extras=True)["optimizer"]
    assert set(OPTIMIZERS) == set(get_args(get_args(hint)[0]))


def test_no_optimizer_changes_what_is_released_or_what_it_costs() -> None:
    """The first noisy gradient from the same draws, and epsilon, are the same for all."""
    found = {}
    for name in OPTIMIZERS:
        plan = plan_of(write(SIZE, MAIN, TRAIN, f'optimizer = "{name}"\n'))
        prepared = prepare(plan, insecure_seed(3), Ranks(), None, ".")
        trainer, stage = prepared.trainer, plan.stages[0]
        trainer.backward(trainer.draw(prepared.batches(stage)), prepared.noise(stage), stage.expected_batch)
        released = torch.cat([p.grad.flatten() for p in trainer.model.parameters()]).clone()
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.apply()
        assert any(not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True)), name
        found[name] = plan.account.upper, released
    epsilon, released = found["sgd"]
    for name, (other, also) in found.items():
        assert other == epsilon and torch.equal(released, also), name


@pytest.mark.parametrize("variance", [1e-12, 0.25, 4.0])
def test_one_gradient_again_and_again_has_a_closed_form(variance: float) -> None:
    """Each step is -lr g / sqrt(max(g^2 - Phi, floor Phi)), from the first one on; in units of any size."""
    gradient = random().normal(0.0, 1.5, 50)
    parameter, optimizer = of_one(np.zeros(50), lr=0.3, floor=0.2)
    for number in range(1, 6):
        taken(optimizer, gradient, variance)
        moved = -0.3 * gradient / np.sqrt(np.maximum(gradient**2 - variance, 0.2 * variance))
        assert np.allclose(parameter.detach().numpy(), number * moved, rtol=1e-9)


def test_every_step_is_the_formula() -> None:
    """Against sums over all gradients so far, with noise of changing size and weights that decay."""
    rng = random()
    start, lr, floor, decay, first, second = rng.normal(size=8), 0.1, 0.3, 0.02, 0.7, 0.9
    parameter, optimizer = of_one(start, lr=lr, floor=floor, betas=(first, second), weight_decay=decay)
    gradients, variances, expected = [], [], start
    for _ in range(12):
        gradients.append(rng.normal(size=8))
        variances.append(float(rng.uniform(0.0, 0.5)))
        taken(optimizer, gradients[-1], variances[-1])
        weights = [np.array([beta ** (len(gradients) - 1 - k) for k in range(len(gradients))]) for beta in (first, second)]
        a, b = (weight / weight.sum() for weight in weights)
        mean, square, noise = a @ np.array(gradients), b @ np.array(gradients) ** 2, float(b @ np.array(variances))
        expected = (1.0 - lr * decay) * expected - lr * mean / np.sqrt(np.maximum(square - noise, floor * noise))
        assert np.allclose(parameter.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_without_noise_it_is_adamw() -> None:
    rng = random()
    start = rng.normal(size=20)
    parameter, optimizer = of_one(start, lr=0.1, weight_decay=0.05)
    other = nn.Parameter(torch.tensor(start))
    adamw = torch.optim.AdamW([other], lr=0.1, weight_decay=0.05, eps=0.0)
    for _ in range(10):
        gradient = rng.normal(size=20)
        taken(optimizer, gradient, 0.0)
        other.grad = torch.tensor(gradient)
        adamw.step()
    assert torch.allclose(parameter, other, rtol=1e-9)


def test_a_saved_state_goes_on() -> None:
    rng = random()
    gradients = rng.normal(size=(8, 5))
    parameter, optimizer = of_one(np.zeros(5), lr=0.1)
    again, other = of_one(np.zeros(5), lr=0.1)
    for number, gradient in enumerate(gradients):
        taken(optimizer, gradient, 0.1 * (number + 1))
        if number == 4:
            again.data.copy_(parameter.detach())
            other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        if number > 4:
            taken(other, gradient, 0.1 * (number + 1))
    assert torch.equal(parameter, again)


def prepared(*parts: str) -> Prepared:
    return prepare(plan_of(write(*parts)), system_entropy(), Ranks(), None, ".")


@pytest.mark.parametrize(
    "parts",
    [(FULL, TRAIN), (MAIN, ADAPTIVE), (WARM, MAIN, TRAIN, 'mechanism = ["warm", "main"]\n')],
    ids=["full", "adaptive", "schedule"],
)
def test_the_variance_that_is_taken_off_is_that_of_the_noise(parts: tuple[str, ...]) -> None:
    """Of steps on nobody's records, whose gradient is noise alone: within 6 standard errors, in each entry and as C moves."""
    found = prepared(SIZE, *parts, BC)
    trainer = found.trainer
    for stage in found.plan.stages:
        noise, drawn, told = found.noise(stage), [], []
        for _ in range(60):
            trainer.backward(torch.empty(0, dtype=torch.int64), noise, stage.expected_batch)
            told.append(trainer.optimizer.param_groups[0]["noise_variance"])
            drawn.append(torch.cat([p.grad.flatten() for p in trainer.model.parameters()]).double())
        count = sum(len(one) for one in drawn)
        ratio = float(sum((one.square() / variance).sum() for one, variance in zip(drawn, told, strict=True))) / count
        assert abs(ratio - 1.0) < 6.0 * (2.0 / count) ** 0.5
        assert trainer.adaptive_norm is None or len(set(told)) == len(told)


@pytest.mark.parametrize("entry", [TREE, BANDED, BUFFERED], ids=["tree", "banded", "buffered"])
def test_correlated_noise_is_refused_before_anything_is_charged(entry: str) -> None:
    with pytest.raises(InputError, match="expected sgd, adam or adamw with correlated noise"):
        prepared(SIZE, entry, TRAIN, BC).rehearse()


@pytest.mark.nightly
@pytest.mark.long
def test_it_trains_and_goes_on_after_a_crash() -> None:
    quiet = MAIN.replace("multiplier = 2.0", "multiplier = 0.3")
    plan = plan_of(write(SIZE, quiet, TRAIN.replace("rate = 1.0", "rate = 0.05"), BC))
    with pytest.raises(Stopped):
        train(plan, report=stop_at(15))
    outcome = train(plan, resume=True)
    assert outcome.metrics["accuracy"] > 0.5
