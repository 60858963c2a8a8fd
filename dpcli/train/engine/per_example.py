"""Clipped sums of per-example gradients. This is the query of DP-SGD, with L2 sensitivity C to adding or removing one example."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
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
    """A class of modules that is refused: under which condition, why, and what to use instead."""

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
    """Raise InputError for a model whose modules mix examples or update buffers, or that has no parameters to train."""
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
    """Check whether a parameter has hooks on its gradient.

    Such a hook would receive a gradient without noise. The checks cannot observe it, because a copy of the model loses hooks.
    """
    return any(getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))


def return_memory() -> None:
    """Return freed memory to the system, if the C library can (glibc); elsewhere it stays with the process."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(slots=True)
class ClippedGradients:
    """A function that returns the sum over the examples of a batch of their clipped gradients.

    Args:
        model: Model that the caller trains in place. Only parameters with requires_grad are used.
        loss: Function that returns the losses of a batch, shape (B,). Sums or means over the batch are refused.
        clip: Clipping style, with the bound C on one example's contribution.

    Raises:
        InputError: A module mixes examples or keeps statistics, as BatchNorm does. The rehearsal, or else the first batch, also raises it
            if the program combines examples, naming the module, or if the loss is not one number per example.

    Edge cases:
        An empty batch gives zeros, and the model does not run. An example whose gradient is zero or not finite adds zero, whatever the
        other examples are. A finite gradient whose squared norm overflows is clipped to C in double precision. If its norm overflows even
        there, it counts as not finite. If there was no rehearsal, the first batch causes one, on synthetic examples.

    Every sum is accumulated in at least single precision. Norms are increased by 8 machine epsilons, 1e-6 in single precision, so that
    rounding lowers the influence of an example. One effect of rounding remains: the last digit of a row of a matrix product may depend on
    the number of rows. When one example leaves, the clipped gradients of the others then change by rounding, or by up to 2 C each if a
    kink of the loss or of an activation is exactly at that point. Book-keeping on a CPU computes nn.Linear without this effect (`aligned`).

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
        """Return the clipped sums of one micro-batch. The caller adds those of a step: `first + second`."""
        parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        if not size(batch):
            return zero(parameters)
        batch = laid_out(batch)
        self.ready(batch)
        try:
            return clipped(self.method.parts(batch), self.clip, parameters)
        except InputError:
            raise
        except Exception:  # an error that the rehearsal did not show: from here on one example at a time
            if isinstance(self.method, Looped):
                raise
            self.choice = MethodChoice(Looped(self.model, self.loss), (f"not {self.method.name}: it fails on some batches",))
            return clipped(self.method.parts(batch), self.clip, parameters)

    def ready(self, batch: Batch) -> None:
        """Rehearse, unless this was done for the present modes of the modules and the form of the records."""
        if self.choice is None or self.mode != modes(self.model) or self.form != form(batch):
            self.rehearse(like(batch))

    def rehearse(self, draw: Draw) -> None:
        """Check that the program isolates examples, and choose a method for the present modes of the modules, training or evaluation.

        Args:
            draw: Function that draws synthetic examples.
        """
        self.choose_among(draw, CANDIDATES)

    def choose_among(self, draw: Draw, candidates: Sequence[tuple[str, Build]]) -> None:
        """Choose one of the methods. Methods that rely on the rules are left out if isolation was not proven."""
        refuse(self.model)
        with full_precision(next(self.model.parameters()).device):  # lower precision would hide differences
            self.program = check_isolation(self.model, self.loss, draw)
            doubt = self.program.doubt
            isolating = [
                candidate for candidate in candidates if (self.program.mapped if candidate[0] == "vmap" else doubt is None)
            ]
            choice = choose(self.model, self.loss, draw, isolating)
        reasons = () if doubt is None else (f"not book-keeping: {doubt}",)
        self.choice, self.mode = MethodChoice(choice.method, (*reasons, *choice.passed_over)), modes(self.model)
        self.form, self.description = form(draw(1)), str(self.choice)
        return_memory()  # of the copies that were tried: a gigabyte for GPT-2

    def checked(self, batch: Batch, row: int) -> Sums:
        """Return the sums, after the gradient of one example was also computed alone.

        Raises:
            InputError: The norm of the gradient differs alone.
        """
        if not size(batch):
            return self(batch)
        self.ready(batch)
        return sums_with_check(self, batch, row)

    @property
    def method(self) -> Method:
        """Return the method of the sums. It processes one example at a time until the rehearsal."""
        return self.choice.method if self.choice else Looped(self.model, self.loss)

    def settle(self) -> None:
        """Update the description of the method after a batch of synthetic records, which may have changed the method."""
        self.description = str(self.choice)

    def describe(self) -> str:
        """Return the method that the rehearsal chose, and why each faster method was not chosen.

        Later changes of the method are not described, because they may depend on private records.
        """
        return self.description
