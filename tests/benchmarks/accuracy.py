"""Accuracy at epsilon 1, 3 and 8 beside Opacus with the same budget and beside no privacy: medians of five seeds, on public data.

    python -m tests.benchmarks.accuracy [examples/digits-sweep.toml ...]

Each file has a [sweep] that says its epsilons and settings. Opacus trains the same model on the same records with the noise, the clipping
norm, the learning rate and the number of steps that dpcli solved for, on all records in each step. Without privacy: the same model and as
many steps again for each, of Adam, without clipping and noise. Noise comes from seeds here, so that the table can be had again.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.random.streams import insecure_seed
from dpcli.sweep.sweep_plan import Variant, plan_sweep
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.training_run import train
from dpcli.train.tasks.learning import Learning, learning

SEEDS = range(1, 6)
EXAMPLES = ("breast-cancer.toml", "digits-sweep.toml")
RATE, PASSES = 0.01, 5  # of Adam, and its steps for each of the private run


def _problem(plan: TrainingPlan, seed: int) -> tuple[Learning, Tensor, Tensor]:
    problem = learning(plan.train, plan.path, insecure_seed(seed).initialisation)
    inputs, labels = problem.records
    assert isinstance(inputs, Tensor) and isinstance(labels, Tensor)
    return problem, inputs, labels


def ours(plan: TrainingPlan, seed: int) -> float:
    """As dpcli train does it."""
    with tempfile.TemporaryDirectory() as folder:
        found = train(replace(plan, train=replace(plan.train, output=folder)), insecure_seed=seed)
    return found.metrics["accuracy"]


def opacus(plan: TrainingPlan, seed: int) -> float:
    """Its engine and its noise; dpcli's schedule and average are left out, as it has none."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    problem, inputs, labels = _problem(plan, seed)
    (stage,) = plan.stages
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(problem.model.parameters(), plan.train.learning_rate)
    module, private, loader = PrivacyEngine().make_private(
        module=problem.model.train(),
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(inputs, labels), batch_size=len(labels)),
        noise_multiplier=stage.noise_multiplier,
        max_grad_norm=plan.train.clipping.norm,
        poisson_sampling=False,
    )
    for _ in range(plan.steps):
        for part, wanted in loader:
            private.zero_grad()
            nn.functional.cross_entropy(module(part), wanted).backward()
            private.step()
    return problem.measure()["accuracy"]


def not_private(plan: TrainingPlan, seed: int) -> float:
    """What the same model comes to without clipping and noise."""
    problem, inputs, labels = _problem(plan, seed)
    optimizer = torch.optim.Adam(problem.model.parameters(), RATE)
    for _ in range(PASSES * plan.steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(problem.model(inputs), labels).backward()
        optimizer.step()
    return problem.measure()["accuracy"]


def _median(way: Callable[[TrainingPlan, int], float], variant: Variant) -> str:
    found = sorted(way(variant.plan, seed) for seed in SEEDS)
    return f"{statistics.median(found):.3f} ({found[0]:.3f} to {found[-1]:.3f})"


def main(files: list[str]) -> None:
    """Print a row for each file and epsilon."""
    folder = Path(__file__).parents[2] / "examples"
    for file in files or [str(folder / name) for name in EXAMPLES]:
        for variant in plan_sweep(file).variants:
            if any(not isinstance(stage.entry.sampling or Unsampled("none"), Unsampled) for stage in variant.plan.stages):
                raise SystemExit(f"{file}: expected steps on all records, found samples, which Opacus draws otherwise")
            cells = (f"{way.__name__}: {_median(way, variant)}" for way in (ours, opacus, not_private))
            sys.stdout.write(f"{Path(file).name:20} epsilon {variant.epsilon:g}  {'  '.join(cells)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
