"""Clipped sums of per-example gradients: DP-SGD's query, of sensitivity C to adding or removing one example."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from dpcli.train.engine.batches import Batch, size
from dpcli.train.engine.choice import CANDIDATES, Choice, choose
from dpcli.train.engine.clip import Clip
from dpcli.train.engine.layers import Unsuitable
from dpcli.train.engine.method import Loss, Method
from dpcli.train.engine.precision import full_precision
from dpcli.train.engine.probe import check_whole
from dpcli.train.engine.refusals import refuse
from dpcli.train.engine.sums import Sums, clipped, zero
from dpcli.train.engine.vectorised import Looped

__all__ = ["Batch", "ClippedGradients", "Loss", "Sums"]


@dataclass(slots=True)
class ClippedGradients:
    """Computes, for a batch, the sum over examples of clipped gradients.

    Args:
        model: trained in place by the caller; only parameters with requires_grad count.
        loss: per-example losses, shape (B,), from the model and a batch. Sums or means over the batch are refused.
        clip: the clipping style, with the bound C on one example's contribution.

    Raises:
        InputError: a module mixes examples or keeps statistics (BatchNorm); at the first batch: the probe found that examples
            are not kept apart, with the module's name; the loss is not one number per example.

    Edge cases:
        Empty batch: zeros, and the model does not run. Non-finite example: adds zero, whatever the others do. Zero gradient: adds
        zero. Norm beyond the number format: as non-finite. Until a batch holds two different examples, they are taken one at a time.

    Every sum is accumulated in at least single precision, and norms are taken 8 machine epsilons longer than computed (1e-6 in
    single precision), so that rounding errs toward less influence. What stays: a row of a matrix product may depend in its last
    digit on how many rows there are, so that the others' clipped gradients move by rounding when one example leaves.

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Bu et al. 2023, arXiv:2210.00038.
    """

    model: nn.Module
    loss: Loss
    clip: Clip
    choice: Choice | None = field(default=None, init=False)
    mode: bool = field(default=True, init=False)
    largest: int = field(default=1, init=False)  # batch in which examples were seen to be kept apart

    def __post_init__(self) -> None:
        refuse(self.model)

    def __call__(self, batch: Batch) -> Sums:
        """One forward and one backward; micro-batches of a step are added by the caller: `first + second`."""
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not size(batch):
            return zero(parameters)
        self.probe(batch)
        try:
            return clipped(self.method.parts(batch), self.clip, parameters)
        except Unsuitable as problem:
            self.demote(batch, problem)
            return clipped(self.method.parts(batch), self.clip, parameters)

    def probe(self, batch: Batch) -> None:
        """Chooses a method where none is chosen for the model's mode, training or evaluation; looks at larger batches anew."""
        if self.choice is None or self.mode != self.model.training:
            with full_precision(next(self.model.parameters()).device):  # else rounding hides what the probe compares
                self.choice, self.mode = choose(self.model, self.loss, batch), self.model.training
        if size(batch) >= 2 * self.largest:
            with full_precision(next(self.model.parameters()).device):
                check_whole(self.model, self.loss, batch)
            self.largest = size(batch)

    @property
    def method(self) -> Method:
        """What computes the sums; one example at a time until the probe has run."""
        return self.choice.method if self.choice else Looped(self.model, self.loss)

    def describe(self) -> str:
        """The method, and why each faster one was passed over."""
        return str(self.choice) if self.choice else "not chosen yet: no batch with two different examples so far"

    def demote(self, batch: Batch, problem: Unsuitable) -> None:
        """A later batch showed what the probe did not: from here on without book-keeping."""
        passed_over = f"not {self.method.name}: {problem}"
        chosen = choose(self.model, self.loss, batch, CANDIDATES[1:]) or Choice(Looped(self.model, self.loss))
        self.choice = Choice(chosen.method, (passed_over, *chosen.passed_over))
