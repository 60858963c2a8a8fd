"""Clipped sums of per-example gradients. This is the query of DP-SGD, with L2 sensitivity C to adding or removing one example.

This is dpcli's own *engine*: step/loop.py calls it with each micro-batch of a step. A *method* (method.py) computes the gradient of each
example; a *clip* (clip.py) bounds its norm by C. The sensitivity holds only if the gradient of an example depends on that example alone
(*isolation*): modules that mix examples are refused (`REFUSALS`), the *program* (the model with its loss) is *rehearsed*, which is to say
checked on synthetic records, and in some steps one real example is checked (`checked_sums`). Findings on private records are reported only
by a refusal.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.prune import BasePruningMethod

from dpcli.base.errors import InputError
from dpcli.train.engine.batches import Batch, form, make_contiguous, size
from dpcli.train.engine.choice import CANDIDATES, Build, MethodChoice, choose, modes
from dpcli.train.engine.method import Method, full_precision, trained_parameters
from dpcli.train.engine.sums import Sums, clipped_sums
from dpcli.train.engine.vectorised import Looped
from dpcli.train.isolation.checked_sums import CheckedSums, sums_with_check
from dpcli.train.isolation.rehearsal import check_isolation
from dpcli.train.isolation.synthetic_records import Draw, draw_kind
from dpcli.train.torch_internals import BatchNorm, InstanceNorm

# To check isolation, one example is processed alone in each of the first ALWAYS_CHECKED steps, and in a later step with probability 1 /
# CHECKED_EVERY. On a small model this takes as long as the step itself, so a check of every step would double the time of training. Fewer
# checks find a rare fault later (`ClippedGradients.checked_sums` gives the probability).
ALWAYS_CHECKED, CHECKED_EVERY = 32, 8

# Speed: sizes in bytes, for `keep_memory`. An allocation above LARGE_ALLOCATION is always returned when it is freed. Some
# versions of glibc accept no more than 32 MB for it.
KEPT_MEMORY, LARGE_ALLOCATION = 2**28, 2**25
# Numbers of the two settings in glibc's malloc.h, and variables of the environment that set them.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MEMORY_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A class of modules that is refused, with the condition, the reason, and the replacement that the message recommends."""

    module: type[nn.Module] | tuple[type[nn.Module], ...]
    applies: Callable[[Any], bool]
    reason: str
    replacement: str


def uses_batch_statistics(module: Any) -> bool:
    """Return whether a module of batch normalisation computes statistics of the batch, over the examples."""
    return not isinstance(module, InstanceNorm) and (module.training or module.running_mean is None)


REFUSALS = [
    Refusal(
        BatchNorm,
        uses_batch_statistics,
        "whose output for one example depends on the others",
        "use GroupNorm, or freeze it: .eval()",
    ),
    Refusal(
        InstanceNorm,
        lambda module: module.track_running_stats,
        "whose running statistics depend on every example, without clipping",
        "set track_running_stats=False",
    ),
    Refusal(
        torch.jit.ScriptModule,
        lambda module: True,
        "whose forward cannot be inspected",
        "use the module from which it was compiled",
    ),
    Refusal(
        nn.Module,
        lambda module: module.training and has_power_iteration(module),
        "whose power iteration changes its state in every forward",
        "freeze it: .eval()",
    ),
    Refusal(
        nn.Module,
        lambda module: "WeightNorm" in names_of_hooks(module),
        "whose weight is computed outside of the model's parameters",
        "use torch.nn.utils.parametrizations.weight_norm",
    ),
    Refusal(
        nn.Module,
        lambda module: is_pruned(module) and any(own.requires_grad for own in module.parameters(recurse=False)),
        "whose weight torch.nn.utils.prune computes outside of the model's parameters",
        "use torch.nn.utils.parametrize, with the mask as a buffer",
    ),
    Refusal(
        (nn.Embedding, nn.EmbeddingBag),
        lambda module: module.max_norm is not None,
        "whose max_norm rewrites the rows that were looked up",
        "leave max_norm out",
    ),
    Refusal(
        (nn.Embedding, nn.EmbeddingBag),
        lambda module: module.scale_grad_by_freq,
        "whose scale_grad_by_freq counts ids over the whole batch",
        "set scale_grad_by_freq=False",
    ),
]


def refuse(model: nn.Module) -> None:
    """Raise InputError for a model that cannot be trained with per-example gradients.

    Its modules mix examples or update buffers (`REFUSALS`), it has no parameter to train, or a parameter is lazy, is complex, or has a hook
    on its gradient.
    """
    require_shapes(model)
    for name, parameter in model.named_parameters():
        if parameter.is_complex():
            raise InputError(f"model: {name}: expected real parameters, found complex ones; noise would cover them only in part")
        if has_hooks(parameter):
            raise InputError(
                f"model: {name}: expected a parameter without hooks, found a hook that receives the gradient of a batch; "
                "do its work in the forward instead"
            )
    for name, module in model.named_modules():
        for refusal in REFUSALS:
            if isinstance(module, refusal.module) and refusal.applies(module):
                raise InputError(
                    f"model: {name or 'the model'}: expected modules that keep examples apart, "
                    f"found {type(module).__name__}, {refusal.reason}; {refusal.replacement}"
                )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("model: no parameter has requires_grad: nothing to train")


def require_shapes(model: nn.Module) -> None:
    """Raise InputError if a parameter or a buffer is lazy, so that it has no shape yet."""
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(value):
            raise InputError(
                f"model: {name}: expected a tensor with a shape, found a lazy one; run public data through the model once"
            )


def has_power_iteration(module: nn.Module) -> bool:
    """Return whether a module is torch's spectral norm: the parametrization, or the older one, which is a hook of a layer."""
    return type(module).__name__ == "_SpectralNorm" or "SpectralNorm" in names_of_hooks(module)


def is_pruned(module: nn.Module) -> bool:
    """Return whether torch.nn.utils.prune computes a weight of the module itself, by a hook that runs before its forward."""
    return any(isinstance(hook, BasePruningMethod) for hook in module._forward_pre_hooks.values())


def names_of_hooks(module: nn.Module) -> list[str]:
    """Return the names of the classes of a module's hooks that run before its forward."""
    return [type(hook).__name__ for hook in module._forward_pre_hooks.values()]


def has_hooks(parameter: nn.Parameter) -> bool:
    """Return whether a parameter has hooks on its gradient.

    Such a hook would receive a gradient without noise. The isolation check runs copies of the model, which have no such hooks, so it
    cannot observe them.
    """
    return any(getattr(parameter, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))


def return_memory() -> None:
    """Return freed memory to the operating system. Only glibc can do so; with other C libraries the process keeps the memory."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_memory() -> None:
    """Keep what a step frees for the next step, up to `KEPT_MEMORY` in each thread. Only glibc can do so.

    A step allocates more at once than a step without privacy. By default glibc may return this memory to the operating system after each
    step, and receiving it again takes up to a quarter of the time of a step. The setting holds for the whole process, also after training,
    and is left alone if the environment already sets it. `return_memory` returns what is kept.
    """
    if any(name in os.environ for name in MEMORY_SETTINGS):
        return
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY)


@dataclass(slots=True)
class ClippedGradients(CheckedSums):
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
        other examples are. A finite gradient whose squared norm overflows is clipped to C in double precision. If the norm overflows even
        in double precision, the gradient counts as not finite. If there was no rehearsal, the first batch starts one, on synthetic
        examples.

    Every sum is accumulated in at least single precision. Norms are increased by 8 machine epsilons, which is 1e-6 in single precision, so
    that rounding never raises the influence of an example above C.

    One effect of rounding remains. The last digit of a row of a matrix product may depend on the number of rows, so removing an example may
    change the last digits of the others' clipped gradients. An example at a kink of the loss or of an activation may change by up to 2 C.
    Book-keeping on a CPU computes nn.Linear without this effect (`aligned_linear`).

    Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Bu et al. 2023, arXiv:2210.00038.
    """

    choice: MethodChoice | None = field(default=None, init=False)
    description: str = field(default="not chosen yet", init=False)
    step: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        refuse(self.model)

    def sums(self, batch: Batch) -> Sums:
        parameters, batch = trained_parameters(self.model), make_contiguous(batch)
        try:
            return clipped_sums(self.method.parts(batch), self.clip, parameters)
        except InputError:
            raise
        except Exception:  # an error that did not occur in the rehearsal: all later batches use one example at a time
            if isinstance(self.method, Looped):
                raise
            self.choice = MethodChoice(Looped(self.model, self.loss), (f"not {self.method.name}: it fails on some batches",))
            return clipped_sums(self.method.parts(batch), self.clip, parameters)

    def rehearse(self, draw: Draw) -> None:
        """Check that the program isolates examples, and choose a method for the present modes of the modules, training or evaluation."""
        self.choose_among(draw, CANDIDATES)  # book-keeping and vmap; a loop if neither can be used

    def choose_among(self, draw: Draw, candidates: Sequence[tuple[str, Build]]) -> None:
        """Check isolation, and choose one of the candidate methods.

        If isolation was not proven, methods that depend on it are left out.
        """
        refuse(self.model)
        with full_precision(next(self.model.parameters()).device):  # lower precision would hide differences
            self.program = check_isolation(self.model, self.loss, draw)
            doubt = self.program.doubt
            is_allowed = {"book-keeping": doubt is None, "vmap": self.program.mapped}
            allowed = [(name, build) for name, build in candidates if is_allowed[name]]
            draw = draw_kind(self.program.numbers, draw)
            choice = choose(self.model, self.loss, draw, allowed, self.tolerance)
        reasons = () if doubt is None else (f"not book-keeping: {doubt}",)
        self.choice, self.mode = MethodChoice(choice.method, (*reasons, *choice.passed_over)), modes(self.model)
        self.form, self.description = form(draw(1)), str(self.choice)  # the form: shapes and types of one record
        return_memory()  # the copies that were tried take a gigabyte for GPT-2
        keep_memory()

    def checked_sums(self, batch: Batch, row: int) -> Sums:
        """Return the sums, after a comparison of one example's gradient in the batch with its gradient alone.

        The comparison is made in the first `ALWAYS_CHECKED` steps, and in each later step with probability 1 / `CHECKED_EVERY`.

        Suppose that the rehearsal missed a fault that shows in a share s of the steps and records. This check then misses it in n of the
        first steps with probability (1 - s)^n, and in each later step with probability 1 - s / `CHECKED_EVERY`. A fault that shows in every
        record never passes the first step.

        Raises InputError if the norms of the two gradients differ.
        """
        if not size(batch):
            return self(batch)
        self.rehearse_if_needed(batch)
        self.step += 1
        if self.step > ALWAYS_CHECKED and secrets.randbelow(CHECKED_EVERY):
            return self.sums(batch)
        return sums_with_check(self, batch, row)

    @property
    def method(self) -> Method:
        return self.choice.method if self.choice else Looped(self.model, self.loss)

    def fix_description(self) -> None:
        # A batch of synthetic records may have changed the method since the rehearsal.
        self.description = str(self.choice)

    def describe(self) -> str:
        """Return the method that the rehearsal chose, and the reason against each faster method.

        The text does not mention later changes of the method, because they may depend on private records.
        """
        return self.description
