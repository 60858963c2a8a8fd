"""Modules of torch that are several layers in one: they run as those, one after the other, so that each has its input and its gradient.

Nothing is computed again: what is differentiated is what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcli.train.engine.capture import Recorder
from dpcli.train.engine.layers import Layer
from dpcli.train.engine.linear import aligned, summed
from dpcli.train.engine.pieces import Outer, PlainRows
from dpcli.train.engine.rule import LayerRule, Pieces, Unsuitable, positions, wide

Forward = Callable[..., Any]  # (run, *args, **kwargs) -> what the module's own forward gives


@dataclass(frozen=True, slots=True)
class Compound:
    """A module, the names of its trainable parameters here and in the model, and how it runs as layers."""

    name: str
    module: nn.Module
    parameters: dict[str, str]
    forward: Forward


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """A compound that runs while a recorder listens; its parameters are constants meanwhile."""

    compound: Compound
    recorder: Recorder

    @property
    def label(self) -> str:
        return f"{self.compound.name} ({type(self.compound.module).__name__})"

    def value(self, local: str) -> Tensor | None:
        """Of one of its parameters, which no gradient reaches; None where it has none of that name.

        Raises:
            Unsuitable: something else stands in its place, made of other parameters perhaps.
        """
        path, _, name = local.rpartition(".")
        found = self.compound.module.get_submodule(path)._parameters.get(name)
        if found is not None and not found.is_leaf:
            raise Unsuitable(f"{self.label}: something else stands in the place of its {local}")
        return None if found is None else found.detach()

    def linear(self, inputs: Tensor, weight: str, biases: Sequence[str] = (), rows: slice | None = None) -> Tensor:
        """x W^T + b, with these rows of W and b; of several biases, with their sum."""
        matrix, several = self.value(weight), [b for b in map(self.value, biases) if b is not None]
        assert matrix is not None
        bias = torch.stack(several).sum(0) if several else None
        if rows is not None:
            matrix, bias = matrix[rows], None if bias is None else bias[rows]
        learnt = bool({weight, *biases} & set(self.compound.parameters))
        output = aligned(inputs, matrix.detach().requires_grad_() if learnt else matrix, bias)
        self.note(inputs, output, weight, biases, rows)
        return output

    def note(self, inputs: Tensor, output: Tensor, weight: str, biases: Sequence[str] = (), rows: slice | None = None) -> None:
        """That these parameters, or rows of them, took the input to the output by a product and sums."""
        own = {local: self.compound.parameters[local] for local in (weight, *biases) if local in self.compound.parameters}
        whole = self.value(weight)
        if own and whole is not None:
            formula = partial(product, weight, tuple(biases), (0 if rows is None else rows.start), whole.shape)
            layer = Layer(f"{self.compound.name}.{weight}", self.compound.module, LayerRule(formula, anywhere=True), own)
            self.recorder.note(layer, inputs, output)


def product(
    weight: str, biases: Sequence[str], start: int, shape: torch.Size, module: nn.Module, inputs: Tensor, gradient: Tensor
) -> Pieces:
    """As of a linear layer; the rows of the parameters that had no part have a gradient of zero."""
    left = wide(positions(gradient))
    if left.shape[2] != shape[0]:
        left = functional.pad(left, (start, shape[0] - start - left.shape[2]))
    bias = cache(lambda: PlainRows(summed(left)))  # biases that are added up have one gradient
    return {weight: lambda: Outer(left, wide(positions(inputs)), shape), **dict.fromkeys(biases, bias)}


@contextmanager
def written(compounds: Sequence[Compound], recorder: Recorder) -> Iterator[None]:
    """The compounds run as layers meanwhile; hooks on them see what they always saw."""
    try:
        for compound in compounds:
            vars(compound.module)["forward"] = partial(compound.forward, WrittenOut(compound, recorder))
        yield
    finally:
        for compound in compounds:
            vars(compound.module).pop("forward", None)
