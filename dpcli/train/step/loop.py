"""The steps of DP-SGD.

A step draws a sample and clips the gradient of each record. It adds the clipped gradients, adds noise once, and divides by a public number.
The noisy sum is the release of the step. The update of the weights and their moving average only post-process it. Adaptive clipping also
releases a noisy count, which the accountant includes.

`Trainer` takes the steps. It is given what a step needs: the *engine*, which computes clipped sums (train/engine), the samples
(sampling/batch_samplers.py), the noise (train/noise.py), and the processes of the run (run/ranks.py). step/prepare.py puts them together.
C is the bound on the clipped gradient of one record. A *micro-batch* is a part of a sample that is in memory at once.

Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Andrew et al. 2019, arXiv:1905.03871, Algorithm 1 and Theorem 1 (quantile); De et
al. 2022, arXiv:2204.13650, Section 3.4 (average, with the usual warm-up of its decay).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dpcli.base.errors import InternalError
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.random.streams import Stream, grid_of, normals, round_to_grid, rounding_shift
from dpcli.train.engine.batches import Batch, take
from dpcli.train.engine.clip import Adaptive, gradient_noise_multiplier
from dpcli.train.engine.method import trained_parameters
from dpcli.train.engine.sums import Sums
from dpcli.train.noise import Noise, first_weight
from dpcli.train.run.processes import Stopped
from dpcli.train.run.ranks import Ranks
from dpcli.train.step.optimizers import set_noise_variance
from dpcli.train.tasks.user_code import call_on_records
from dpcli.train.torch_internals import foreach_divide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.streams import Reals
    from dpcli.train.isolation.checked_sums import CheckedSums

    Array = NDArray[np.floating]


# Bound on the relative rounding error of a sum in single precision, for each record of a micro-batch: four machine epsilons. The noise is
# enlarged by it (`Prepared.rounding`), so too small a value would make the guarantee false; a larger one adds noise.
ROUNDING_OF_RECORD = 4.0 * 2.0**-23


@dataclass(slots=True)
class WeightAverage:
    """A moving average of the trained weights.

    Each step moves the average towards the weights by the fraction 1 - decay of their difference. The decay of step t is at most
    t / (t + 9), so that the average soon forgets the first weights. This is the usual warm-up (1 + n) / (10 + n), with n = t - 1.

    Attributes:
        decay: Largest decay, which the file declares.
        values: Averages by parameter name; empty before the first step of a new run.
    """

    model: nn.Module
    decay: float
    values: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Update the average after a step. Steps are numbered from 1. The first call sets the average to the weights."""
        decay = min(self.decay, step / (step + 9.0))
        for name, parameter in trained_parameters(self.model).items():
            if name not in self.values:
                self.values[name] = parameter.detach().clone()
            self.values[name].lerp_(parameter, 1.0 - decay)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Set the model to its average weights within the block, and restore its weights afterwards."""
        weights = {name: parameter.detach().clone() for name, parameter in trained_parameters(self.model).items()}
        try:
            self._put(self.values)
            yield
        finally:
            self._put(weights)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        """Copy values into the trained parameters of the model."""
        for name, parameter in trained_parameters(self.model).items():
            if name in values:
                parameter.copy_(values[name])


@dataclass(slots=True)
class AdaptiveNorm:
    """The clipping norm C of adaptive clipping, which changes after each step.

    Attributes:
        count_noise: Standard deviation of the noise on the count of unclipped examples, in examples.
        expected_batch: Public number by which the noisy count is divided.
    """

    clip: Adaptive
    count_noise: float
    expected_batch: float
    stream: Stream

    def follow(self, norms: torch.Tensor, ranks: Ranks) -> None:
        """Update C from the noisy count of norms that are at most C. Noise is drawn once in every step, even for an empty batch.

        Args:
            norms: Norms of this process's part of the batch before clipping, (B,).
            ranks: Processes of the run, which add their counts.
        """
        count = ranks.total(self.clip.centred_count(norms))
        noisy_count = count + float(normals(1, self.stream, self.count_noise)[0])
        noisy_count = ranks.broadcast(round_to_grid(noisy_count, grid_of(self.count_noise)))
        # `centred_count` subtracts half of the batch, which halves its sensitivity. With 1/2 added, this is about the share of unclipped
        # examples.
        self.clip.update(0.5 + noisy_count / self.expected_batch)


def first_step_std(spec: Spec, count_noise: float | None) -> float:
    """Return the standard deviation of the noise of the first step, in units of C. This noise is independent in each number.

    Correlated noise of the first step is independent noise divided by a number (`first_weight`), which is 1 if the steps are independent.

    Args:
        count_noise: Noise on the count of adaptive clipping; None for other clipping styles.
    """
    if count_noise is not None:
        spec = gradient_spec(spec, count_noise)
    return float(spec.noise_multiplier) / first_weight(spec)  # type: ignore[attr-defined]


def gradient_spec(spec: Spec, count_noise: float) -> Spec:
    """Return the mechanism for the gradients of adaptive clipping, which has more noise than the declared one.

    The gradients and the noisy count together then cost as much as the declared mechanism.

    Raises InputError if the count alone would cost at least as much as the declared mechanism.
    """
    assert isinstance(spec, GaussianSpec) and spec.noise_multiplier is not None
    return replace(spec, noise_multiplier=gradient_noise_multiplier(spec.noise_multiplier, count_noise))


def add_noise(sums: Mapping[str, Tensor], noise: Noise, scale: float = 1.0) -> None:
    """Draw the noise of a step and add it, multiplied by `scale`, to the sums in place.

    Noise is added in double precision, and the result is rounded to a grid. Without the grid, the last bits of the result could reveal what
    the noise was added to (Mironov 2012). What the sum's own number format rounds further is a function of the rounded noisy sum.

    Noise is added where it is drawn, which is on the CPU, in parts that its cache can hold.
    """
    shift = rounding_shift(grid_of(noise.drawn_std * scale))
    on_cpu = {name: value.detach().cpu().contiguous() for name, value in sums.items()}
    vectors = [value.view(-1).numpy() for value in on_cpu.values()]
    for part, target in parts_with_targets(noise.parts(sum(map(len, vectors))), vectors):
        if scale != 1.0:
            part *= scale
        part += target
        part += shift  # this addition and the subtraction do what `round_to_grid` does
        np.subtract(part, shift, out=target, casting="same_kind")
    for name, value in sums.items():
        if on_cpu[name].data_ptr() != value.data_ptr():
            value.detach().copy_(on_cpu[name])


def parts_with_targets(parts: Iterable[Reals], vectors: Sequence[Array]) -> Iterator[tuple[Reals, Array]]:
    """Yield the parts of one vector next to what they are added to, which is the concatenation of `vectors`, as pairs of equal length.

    Raises InternalError if the parts end before the vectors do.
    """
    left = sum(map(len, vectors))
    targets = iter(vectors)
    target = next(targets)
    for part in parts:
        while len(part):
            while not len(target):
                target = next(targets)
            count = min(len(part), len(target))
            yield part[:count], target[:count]
            part, target, left = part[count:], target[count:], left - count
    if left:
        raise InternalError(f"expected noise for every number, found {left} numbers without noise")


def set_gradients(model: nn.Module, noisy: Mapping[str, Tensor], expected_batch: float) -> None:
    """Set the .grad of each trained parameter to its noisy sum, divided by `expected_batch`. The sums are divided in place."""
    foreach_divide(list(noisy.values()), expected_batch)
    for name, parameter in trained_parameters(model).items():
        parameter.grad = noisy[name].to(parameter)


# The samples of successive steps. Each sample is the array of the indices of its records.
Samples = Iterator["np.ndarray[tuple[int], np.dtype[np.int64]]"]


@dataclass(slots=True)
class Trainer:
    """DP-SGD on one model and its records.

    `advance` takes whole steps. A loop of the user's own (loop/steps.py) calls `draw`, `backward` and `count` instead, and updates the
    weights by its own optimizer.

    Attributes:
        records: Tensors whose first dimension counts the records, or the units if units are sampled.
        rate: Function of a step's number, counted from 0, that returns the learning rate relative to the declared one; None if the caller's
            program sets it.
        physical: Number of records in a micro-batch, which are in memory at once. The sum depends on it only by rounding.
        adaptive_norm: Norm of adaptive clipping; None for other styles. If it is given, the noise is drawn in units of C.
        average: Moving average of the weights; None if the file does not ask for it.
        radius: Radius of the ball around 0 onto which the weights are projected after each step; None for no projection.
        before_sums: Function that is called before each sum over private records, to charge for them.
        step: Number of steps taken so far.
        shapes: Shape of each trained parameter, by name.
        base_rates: Declared learning rate of each group of parameters; empty if `rate` is None.
    """

    model: nn.Module
    gradients: CheckedSums
    optimizer: torch.optim.Optimizer
    records: Batch
    rate: Callable[[int], float] | None = lambda step: 1.0
    physical: int = 256  # the default is for tests; a run has the number in its file
    step: int = 0
    adaptive_norm: AdaptiveNorm | None = None
    ranks: Ranks = field(default_factory=Ranks)
    average: WeightAverage | None = None
    radius: float | None = None
    before_sums: Callable[[], None] = lambda: None
    shapes: dict[str, torch.Size] = field(init=False)
    base_rates: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = {name: parameter.shape for name, parameter in trained_parameters(self.model).items()}
        groups = self.optimizer.param_groups if self.rate is not None else []
        # A restored optimizer has the rate of its last step in "lr". The declared rate is therefore stored in the group at the start.
        self.base_rates = [float(group.setdefault("declared_lr", group["lr"])) for group in groups]

    def advance(
        self,
        until: int,
        batches: Samples,
        noise: Noise,
        expected_batch: float,
        after: Callable[[int], None],
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take steps until `step` equals `until`.

        Args:
            until: Number of the last step, counted from 1.
            batches: Samples of record indices, drawn as the accountant assumes. A step is also taken for an empty sample.
            noise: Noise that is added to the sum of each step.
            expected_batch: Public number by which the noisy sum is divided. It is never the number of records drawn.
            after: Function that is called after each step with the number of the step.
            stop_asked: Function that is called before each step and returns whether to stop there.

        Raises:
            Stopped: `stop_asked` returned True.
            InputError: A check found that the program combines records.
            Raised: The user's code raised an error.
        """
        while self.step < until:
            self.backward(self.draw(batches, stop_asked), noise, expected_batch)
            self.apply()
            self.count()
            after(self.step)

    def draw(self, batches: Samples, stop_asked: Callable[[], bool] = lambda: False) -> Tensor:
        """Return the next sample, which may be empty. Raises Stopped if `stop_asked` returns True."""
        sample, stop = self.ranks.broadcast((next(batches), stop_asked()) if self.ranks.first else None)
        if stop:
            raise Stopped
        return torch.from_numpy(np.ascontiguousarray(sample))

    def backward(self, sample: Tensor, noise: Noise, expected_batch: float) -> None:
        """Set the .grad of each trained parameter to the noisy sum of a sample, divided by `expected_batch`."""
        self.before_sums()
        self.optimizer.zero_grad()  # the gradient of the last step would take memory until the new one replaces it
        # With adaptive clipping, the scale is C of this step. It is read before `follow` changes C below.
        noise_scale = 1.0 if self.adaptive_norm is None else self.adaptive_norm.clip.bound
        sums = self._sums(self.ranks.part(sample))
        total = self.ranks.reduce(sums.gradients)
        if self.ranks.first:
            add_noise(total, noise, noise_scale)  # drawn once in every step, even for an empty sample
        set_gradients(self.model, self.ranks.broadcast_tensors(total), expected_batch)
        # AdamBC, an Adam corrected for noise, needs the variance of the noise in .grad: the noise as it was drawn, times this factor.
        set_noise_variance(self.optimizer, noise, noise_scale / expected_batch)
        if self.adaptive_norm is not None:
            self.adaptive_norm.follow(sums.norms, self.ranks)

    def apply(self) -> None:
        """Take a step of the optimizer, which post-processes the noisy gradient."""
        if self.rate is not None:
            for group, base in zip(self.optimizer.param_groups, self.base_rates, strict=True):
                group["lr"] = base * self.rate(self.step)
        self.optimizer.step()
        if self.radius is not None:
            self._project(self.radius)

    @torch.no_grad()
    def _project(self, radius: float) -> None:
        """Scale the trained weights down to the length `radius` if they are longer."""
        weights = trained_parameters(self.model).values()
        length = float(torch.stack([value.square().sum() for value in weights]).sum().sqrt())
        factor = min(1.0, radius / length) if length else 1.0
        for value in weights:
            value.mul_(factor)

    def count(self) -> None:
        """Count a step, and update the moving average of the weights."""
        self.step += 1
        if self.average is not None:
            self.average.follow(self.step)

    def _sums(self, sample: Tensor) -> Sums:
        """Return the clipped sum of a sample. One random record is offered to the engine's check, `CheckedSums.checked_sums`.

        Micro-batches are added in double precision. In single precision, the rounding of a long sum could hide or enlarge the contribution
        of a record.
        """
        first, *later = torch.split(sample, self.physical)  # micro-batches
        checked_row = secrets.randbelow(max(1, len(sample)))
        sums = self._micro_batch_sums(first, checked_row)
        if not later:
            return sums
        sums = Sums({name: value.double() for name, value in sums.gradients.items()}, sums.norms, sums.finite)
        for number, rows in enumerate(later, 1):
            sums = sums + self._micro_batch_sums(rows, checked_row - number * self.physical)
        return sums

    def _micro_batch_sums(self, rows: Tensor, checked_row: int) -> Sums:
        """Return the clipped sum of a micro-batch.

        Args:
            checked_row: Row of the record that is also computed alone. There is no check if the row is outside the micro-batch.

        Raises:
            Raised: The user's code raised an error. The message does not quote that error, because it may contain records.
        """
        records = take(self.records, rows)
        sums: Sums
        if 0 <= checked_row < len(rows):
            sums = call_on_records("a step", self.gradients.checked_sums, records, checked_row)
        else:
            sums = call_on_records("a step", self.gradients, records)
        return sums
