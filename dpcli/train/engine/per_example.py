"""Clipped sums of per-example gradients: DP-SGD's query, of sensitivity C to adding or removing one example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, form, laid_out, size
from dpcli.train.engine.choice import CANDIDATES, Build, MethodChoice, choose, modes
from dpcli.train.engine.clip import Clip
from dpcli.train.engine.method import Loss, Method, full_precision
from dpcli.train.engine.sums import Sums, clipped, zero
from dpcli.train.engine.vectorised import Looped
from dpcli.train.isolation.rehearsal import Draw, check_isolation, like, sums_with_check
from dpcli.train.isolation.traced_program import Program


@dataclass(frozen=True, slots=True)
class Refusal:
    """A class of modules, the condition under which it is refused, why, and what to use instead."""

    module: type[nn.Module]
    applies: Callable[[Any], bool]
    why: str
    instead: str


REFUSALS = [
    Refusal(
        _BatchNorm,
        lambda m: not isinstance(m, _InstanceNorm) and (m.training or m.running_mean is None),
        "whose output for one example depends on the others",
        "use GroupNorm, or freeze it: .eval()",
    ),
    Refusal(
        _InstanceNorm,
        lambda m: m.track_running_stats,
        "whose running statistics take in every example without clipping",
        "set track_running_stats=False",
    ),
    Refusal(
        torch.jit.ScriptModule,
        lambda m: True,
        "whose inside nobody can follow",
        "use the module that it was made from",
    ),
    *(
        Refusal(table, applies, why, instead)
        for table in (nn.Embedding, nn.EmbeddingBag)
        for applies, why, instead in (
            (lambda m: m.max_norm is not None, "whose max_norm rewrites the rows that were looked up", "leave it out"),
            (
                lambda m: m.scale_grad_by_freq,
                "whose scale_grad_by_freq counts ids over the whole batch",
                "set scale_grad_by_freq=False",
            ),
        )
    ),
]


def refuse(model: nn.Module) -> None:
    """Raise InputError for a model that has a module which mixes examples or updates buffers, or that has nothing to train."""
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise InputError(
                f"model: {name}: expected a parameter with a shape, found a lazy one; run public data through the model once"
            )
        if parameter.is_complex():
            raise InputError(f"model: {name}: expected real parameters, found complex ones, which noise would reach in part only")
        if hooked(parameter):
            raise InputError(
                f"model: {name}: expected a parameter without hooks, found one that is called with the gradient of a batch; "
                "do in the forward what it does"
            )
    for name, module in model.named_modules():
        for refusal in REFUSALS:
            if isinstance(module, refusal.module) and refusal.applies(module):
                raise InputError(
                    f"model: {name or 'the model'}: expected modules that keep examples apart, "
                    f"found {type(module).__name__}, {refusal.why}; {refusal.instead}"
                )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("model: no parameter has requires_grad: nothing to train")


def hooked(parameter: nn.Parameter) -> bool:
    """Return whether something is called with its gradient: a copy has lost it, and a gradient before noise goes through it."""
    return any(getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))


@dataclass(slots=True)
class ClippedGradients:
    """Computes, for a batch, the sum over examples of clipped gradients.

    Args:
        model: trained in place by the caller; only parameters with requires_grad count.
        loss: per-example losses, shape (B,), from the model and a batch. Sums or means over the batch are refused.
        clip: the clipping style, with the bound C on one example's contribution.

    Raises:
        InputError: a module mixes examples or keeps statistics (BatchNorm); at the rehearsal, or else the first batch: examples are
            not kept apart, with the module's name; the loss is not one number per example.

    Edge cases:
        Empty batch: zeros, and the model does not run. Non-finite example: adds zero, whatever the others do. Zero gradient: adds
        zero. Finite gradient whose squared norm is not: clipped to C, in double precision; with a norm beyond that, as non-finite.
        Without a rehearsal the first batch brings one, on made-up examples.

    Every sum is accumulated in at least single precision, and norms are taken 8 machine epsilons longer than computed (1e-6 in
    single precision), so that rounding errs toward less influence. What stays: a row of a matrix product may depend in its last digit on
    how many rows there are, so that the others' clipped gradients move by rounding when one example leaves, and by up to 2 C each where a
    kink of the loss or an activation is exactly there. Under book-keeping on a CPU, nn.Linear is computed so that no row does (`aligned`).

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Bu et al. 2023, arXiv:2210.00038.
    """

    model: nn.Module
    loss: Loss
    clip: Clip
    choice: MethodChoice | None = field(default=None, init=False)
    mode: object = field(default=None, init=False)
    program: Program | None = field(default=None, init=False)
    form: object = field(default=None, init=False)
    description: str = field(default="not chosen yet", init=False)

    def __post_init__(self) -> None:
        refuse(self.model)

    def __call__(self, batch: Batch) -> Sums:
        """Run one forward and one backward; micro-batches of a step are added by the caller: `first + second`."""
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not size(batch):
            return zero(parameters)
        batch = laid_out(batch)
        self.ready(batch)
        try:
            return clipped(self.method.parts(batch), self.clip, parameters)
        except InputError:
            raise
        except Exception:  # what the rehearsal did not show, of torch's or the method's: from here on one example at a time
            if isinstance(self.method, Looped):
                raise
            self.choice = MethodChoice(Looped(self.model, self.loss), (f"not {self.method.name}: it fails on some batches",))
            return clipped(self.method.parts(batch), self.clip, parameters)

    def ready(self, batch: Batch) -> None:
        """Rehearse, unless that was done in the mode in which the model is, on records of this form."""
        if self.choice is None or self.mode != modes(self.model) or self.form != form(batch):
            self.rehearse(like(batch))

    def rehearse(self, draw: Draw) -> None:
        """Check that the program keeps examples apart, and choose a method for the model's mode, training or evaluation.

        Args:
            draw: Examples that nobody owns.
        """
        self.chosen(draw, CANDIDATES)

    def chosen(self, draw: Draw, candidates: Sequence[tuple[str, Build]]) -> None:
        """Choose among these methods; where an operator had no rule, among those that do not rely on rules."""
        refuse(self.model)
        with full_precision(next(self.model.parameters()).device):  # else rounding hides what is compared
            self.program = check_isolation(self.model, self.loss, draw)
            doubt = self.program.doubt
            isolating = [
                candidate for candidate in candidates if (self.program.mapped if candidate[0] == "vmap" else doubt is None)
            ]
            choice = choose(self.model, self.loss, draw, isolating)
        reasons = () if doubt is None else (f"not book-keeping: {doubt}",)
        self.choice, self.mode = MethodChoice(choice.method, (*reasons, *choice.passed_over)), modes(self.model)
        self.form, self.description = form(draw(1)), str(self.choice)

    def checked(self, batch: Batch, row: int) -> Sums:
        """Return the sums, after one example's gradient was computed alone as well.

        Raises:
            InputError: It has another length alone.
        """
        if not size(batch):
            return self(batch)
        self.ready(batch)
        return sums_with_check(self, batch, row)

    @property
    def method(self) -> Method:
        """Return the method of the sums; one example at a time until the rehearsal."""
        return self.choice.method if self.choice else Looped(self.model, self.loss)

    def settle(self) -> None:
        """Describe the method as it is after a batch of made-up records, which may have changed it."""
        self.description = str(self.choice)

    def describe(self) -> str:
        """Return the method that the rehearsal chose, and why each faster one was passed over: what a batch changes may tell of records."""
        return self.description
