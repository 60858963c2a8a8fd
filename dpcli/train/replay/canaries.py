"""The canaries of an audit: synthetic records or gradients, each of which is inserted into the run if a fair coin toss says so.

The keys canaries and canary of [audit] declare them. step/prepare.py makes them for a run, which writes a score for each of them at its end
(`write_scores`). `dpcli audit` guesses from the scores which canaries are *members*, that is, were inserted (dpcli/audit). Its success
gives a lower bound on epsilon, which holds however the scores are computed: better scores make the bound larger.

A canary *record* is a synthetic record that is trained on like the private ones. Its score is its loss under the final model with the sign
changed, because the loss of a member tends to be smaller. The run remains private. A canary *gradient* is added to the clipped sums, in a
direction of its own, and recognised in the noisy sums. This is a stronger test, but its scores tell something about the noise alone,
without the records, so the run is not private (`TrainingPlan.open_to_audit`).

C is the clipping norm, and a *stage* is a sequence of steps of one mechanism of the file (plan/stages.py).

Source: Steinke, Nasr, Jagielski 2023, arXiv:2305.08846.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcli.audit.audit_settings import read_settings
from dpcli.audit.evidence import RUN_FILE, SCHEMA
from dpcli.audit.gradient_scores import log_ratios, split_significance
from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import FixedSize, Unsampled
from dpcli.random.streams import Stream, insecure_seed
from dpcli.sessions.folder import replace_file
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.clip import Clip
from dpcli.train.noise import noise_of
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.replay.step_claims import ObservedSteps, noise_std, record_rate, sampled_steps
from dpcli.train.run.outcome import CANARIES
from dpcli.train.run.processes import several_processes
from dpcli.train.run.ranks import Ranks
from dpcli.train.sampling.batch_samplers import batch_count
from dpcli.train.tasks.learning import Learning, evaluation_mode, to_device

# The three limits below bound memory. Their values are arbitrary.
SCORED_TOGETHER = 256  # number of canaries whose losses are computed at once
MOST_NUMBERS = 2**26  # largest count of the numbers in all directions, which are held in memory: 256 MiB in single precision
MOST_STEPS = 1024  # largest number of steps of correlated noise, whose covariance is a matrix over the steps
# For n steps, the covariance of correlated noise is estimated from this number times n draws. More draws give better scores. Arbitrary.
DRAWS_PER_STEP = 8

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Canaries:
    """Canary records.

    Attributes:
        records: The m canaries, in the form of the task's records.
        member: Whether each canary is in the run, of shape (m,).
    """

    records: Batch
    member: torch.Tensor

    @property
    def sampled(self) -> int:
        """Return the number of canaries that are sampled in addition to the records. It is 0, because the records include them."""
        return 0

    @property
    def inserted(self) -> Batch:
        """Return the canaries that are in the run."""
        return take(self.records, self.member.nonzero()[:, 0])

    def write_scores(self, folder: str, problem: Learning) -> None:
        """Write the file that `dpcli audit` reads. It gives the membership of each canary, and minus its loss under the final model."""
        device = next(problem.model.parameters()).device
        with torch.no_grad(), evaluation_mode(problem.model):
            starts = range(0, size(self.records), SCORED_TOGETHER)
            chunks = [take(self.records, slice(start, start + SCORED_TOGETHER)) for start in starts]
            losses = torch.cat([problem.loss(problem.model, to_device(chunk, device)).cpu() for chunk in chunks])
        rows = [{"member": bool(member), "score": -float(loss)} for member, loss in zip(self.member, losses, strict=True)]
        content = json.dumps({"schema": SCHEMA, "neighbours": "add-remove", "canaries": rows})
        replace_file(os.path.join(folder, RUN_FILE), content.encode())


def record_canaries(problem: Learning, count: int, stream: Stream, folder: str, *, resumed: bool) -> Canaries:
    """Return the canary records of the run in a folder. A new run draws and saves them, and a resumed run reads them again.

    Raises InputError if the task cannot draw synthetic records, or the saved canaries cannot be read.
    """
    path = os.path.join(folder, CANARIES)
    if resumed:
        return _load_canaries(path)
    if problem.draw is None:
        raise InputError(
            "audit.canaries: expected a task that can draw synthetic records, found sampled units, or a custom task without train.canary"
        )
    records = problem.draw(count, stream)
    member = torch.tensor([int(word) >> 63 == 1 for word in stream.words(count)])  # the highest of 64 bits is a fair coin
    buffer = io.BytesIO()
    torch.save({"records": records, "member": member}, buffer)
    replace_file(path, buffer.getvalue())
    return Canaries(records, member)


def _load_canaries(path: str) -> Canaries:
    """Return the canaries in a file. Raises InputError if the file cannot be read."""
    try:
        return Canaries(**torch.load(path, weights_only=True))
    except Exception as problem:  # a damaged file may raise anything
        raise InputError(f"--resume: {path}: the canaries of the run cannot be read ({type(problem).__name__})") from None


@dataclass(slots=True)
class GradientCanaries(Ranks):
    """Canary gradients, which are added to the clipped sums and compared with the noisy sums.

    They take the place of the processes of the run (run/ranks.py), because a trainer passes each sample to `part`, each clipped sum to
    `reduce`, and each noisy sum to `broadcast_tensors`. The canaries are added and the noise is observed there.

    Attributes:
        records: Number of records. In a batch, indices from this number on are canaries.
        member: Whether each canary is in the run, of shape (m,).
        directions: Orthonormal directions of the canaries, of shape (m, d), over the trained parameters in order.
        bound: Function that returns the current C.
        inserted: Indices of the canaries that are in the run, of shape (k,).
        drawn: Indices of the canaries in the current step.
        single_norm: Function that returns the norm of the clipped gradient of one record, given its index as a tensor.
        observed: Noise and batches of the steps so far.
        batch_size: Number of records and canaries in the current step.
        sums: Clipped sums of the current step, with canaries.
        clipped_sum: Clipped sum of the current step, without canaries; None between steps.
        products: Inner products of the directions with the noisy sum of each step, of shape (m,). The sum of the records is subtracted
            first. The products are in units of C.
    """

    plan: TrainingPlan
    records: int
    member: Tensor
    directions: Tensor
    bound: Callable[[], float]
    single_norm: Callable[[Tensor], float] = lambda row: 0.0
    inserted: Tensor = field(init=False)
    drawn: Tensor = field(init=False)
    observed: ObservedSteps = field(init=False)
    batch_size: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    clipped_sum: Tensor | None = None
    products: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inserted = self.drawn = self.member.nonzero()[:, 0]
        self.observed = ObservedSteps(self.plan)

    @property
    def sampled(self) -> int:
        """Return the number of canaries that are sampled in addition to the records."""
        return len(self.inserted)

    def part(self, batch: Tensor) -> Tensor:
        self.drawn, self.batch_size = self.inserted[batch[batch >= self.records] - self.records], len(batch)
        records = batch[batch < self.records]
        if len(records):
            row = secrets.randbelow(len(records))
            self.observed.add_single(self.single_norm(records[row : row + 1]) / self.bound())
        return records

    def reduce(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.clipped_sum = _flat(sums)
        added = self.bound() * self.directions[self.drawn].sum(0)
        added_parts = torch.split(added, [value.numel() for value in sums.values()])
        result: dict[str, Tensor] = {}
        for (name, value), added_part in zip(sums.items(), added_parts, strict=True):
            result[name] = value + added_part.view(value.shape).to(value)
        self.sums = {name: value.clone() for name, value in result.items()}  # the noise is added to the result in place
        return result

    def broadcast_tensors(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.clipped_sum is not None:  # it is None in the call that sends the initial weights
            without_records = (_flat(values) - self.clipped_sum) / self.bound()
            self.observed.add(len(self.products), self.batch_size, self.sums, values, self.bound())
            self.products.append(self.directions @ without_records.float())
            self.clipped_sum, self.sums = None, {}
        return values

    def write_scores(self, folder: str, problem: Learning) -> None:
        """Write the file that `dpcli audit` reads, with the membership of each canary, its log likelihood ratio, and the checks."""
        products = torch.stack(self.products).double().numpy()
        scores = np.zeros(len(self.member))
        for stage in self.plan.stages:
            scores += _log_likelihood_ratios(self.plan, stage, products[stage.start : stage.stop])
        rows = [{"member": bool(member), "score": float(score)} for member, score in zip(self.member, scores, strict=True)]
        steps = [asdict(sampled_step) for sampled_step in sampled_steps(self.plan)]
        confidence = read_settings(self.plan.source, self.plan.path).confidence
        checks = self.observed.checks(self.records + self.sampled, split_significance(confidence))
        content = {
            "schema": SCHEMA,
            "neighbours": "add-remove",
            "gradients": steps,
            "confidence": confidence,
            "checks": [asdict(check) for check in checks],
            "canaries": rows,
        }
        replace_file(os.path.join(folder, RUN_FILE), json.dumps(content).encode())


def _flat(values: Mapping[str, Tensor]) -> Tensor:
    """Return all numbers of the tensors as one vector in double precision, on the CPU."""
    return torch.cat([value.detach().reshape(-1).double().cpu() for value in values.values()])


def gradient_canaries(plan: TrainingPlan, records: int, width: int, clip: Clip, stream: Stream) -> GradientCanaries:
    """Return new canary gradients.

    Args:
        width: Number of trained scalars of the model.
        clip: Clipping, whose bound is C.

    Raises:
        InputError: The batches would reveal the canaries, there are several processes, or the canaries or the model are too large.
    """
    if several_processes():
        raise InputError("audit.canary: expected one process with gradients, found several")
    for stage in plan.stages:
        _require_independent(plan, stage)
    most = min(width, MOST_NUMBERS // width)  # more directions than dimensions cannot be orthogonal
    if plan.canaries > most:
        raise InputError(
            f"audit.canaries: expected at most {most:,} gradients for a model with {width:,} trained numbers, found {plan.canaries:,}"
        )
    orthonormal, _ = np.linalg.qr(stream.bulk().standard_normal((width, plan.canaries)))
    directions = np.ascontiguousarray(orthonormal.T.astype(np.float32))
    member = torch.from_numpy((stream.words(plan.canaries) >> np.uint64(63)).astype(bool))
    return GradientCanaries(plan, records, member, torch.from_numpy(directions), lambda: clip.bound)


def _require_independent(plan: TrainingPlan, stage: Stage) -> None:
    """Raise InputError unless canaries are sampled independently and the run is short enough to compute scores."""
    sampling, spec = stage.entry.sampling, stage.spec
    if spec.final_only:
        raise InputError(
            f"{plan.path}: audit.canary: expected record with last-iterate, found gradient: the audit would see sums that its price hides"
        )
    if isinstance(sampling, FixedSize) or getattr(sampling, "max_batch_size", None) is not None:
        raise InputError(
            f'{plan.path}: mechanism["{stage.entry.name}"].sampling: expected batches without a fixed or largest size with gradients as '
            "canaries: the number of records in a batch would reveal the number of canaries"
        )
    if isinstance(spec, CorrelatedSpec) and not isinstance(sampling, Unsampled | None):
        raise InputError(
            f'{plan.path}: mechanism["{stage.entry.name}"].sampling: expected no sampling with correlated noise and gradients as canaries, '
            f'found "{sampling.scheme}"'
        )
    if isinstance(spec, CorrelatedSpec) and spec.iterations > MOST_STEPS:
        raise InputError(
            f'{plan.path}: mechanism["{stage.entry.name}"].iterations: expected at most {MOST_STEPS:,} with gradients as canaries, found '
            f"{spec.iterations:,}"
        )


def _log_likelihood_ratios(plan: TrainingPlan, stage: Stage, products: Array) -> Array:
    """Return the log likelihood ratio of each canary over a stage, of shape (m,)."""
    if isinstance(stage.spec, CorrelatedSpec):
        return correlated_log_ratios(stage.spec, products)
    return log_ratios(products, record_rate(plan, stage), noise_std(plan, stage))


def correlated_log_ratios(spec: CorrelatedSpec, products: Array) -> Array:
    """Return the log likelihood ratio of each canary for correlated noise. The covariance of the noise is estimated from draws.

    A canary is in one of `batch_count(spec)` batches with equal probabilities. Its likelihood ratio is the mean of the likelihood ratios
    given each batch, up to a constant factor.

    Args:
        products: Inner products of the noisy sums with the directions, of shape (steps, m).
    """
    steps, count = len(products), batch_count(spec)
    if not steps:
        return np.zeros(products.shape[1])
    source = noise_of(spec, 1.0, insecure_seed(0).noise)  # these draws protect nothing; with a fixed seed, scores are reproducible
    shapes = {"": torch.Size([DRAWS_PER_STEP * spec.iterations])}
    noise = np.stack([source.next(shapes)[""].double().numpy() for _ in range(steps)])
    covariance = noise @ noise.T / noise.shape[1]
    # Column b marks the steps that take batch b. A canary in batch b shifts the mean of the products by this column.
    shifts = (np.arange(steps)[:, None] % count == np.arange(min(count, steps))).astype(float)
    solved = np.linalg.solve(covariance, shifts)
    log_ratios_by_batch = solved.T @ products - 0.5 * np.sum(shifts * solved, axis=0)[:, None]
    result: Array = np.logaddexp.reduce(log_ratios_by_batch, axis=0)
    return result
