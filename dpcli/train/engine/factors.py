"""From the gradient of what an operator makes to the one at an operand, number by number, before sums over what was repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from dpcli.train.engine.rule import wide

Factor = Callable[[Tensor], Tensor]


def product(node: Any, operand: int) -> Factor:
    """x y."""
    other = constant(node._saved_other if operand == 0 else node._saved_self)
    return lambda gradient: gradient * other


def quotient(node: Any, operand: int) -> Factor:
    """x / y."""
    below = constant(node._saved_other)
    if operand == 0:
        return lambda gradient: gradient / below
    above = constant(node._saved_self)
    return lambda gradient: -(gradient / below) * (above / below)


def addition(node: Any, operand: int) -> Factor:
    """x + a y."""
    return scaled(1 if operand == 0 else node._saved_alpha)


def subtraction(node: Any, operand: int) -> Factor:
    """x - a y."""
    return scaled(1 if operand == 0 else -node._saved_alpha)


def repetition(node: Any, operand: int) -> Factor:
    """x for each example."""
    return scaled(1)


def leak(node: Any, operand: int) -> Factor:
    """x where it is positive, else x times the weight: at the weight."""
    below = constant(node._saved_self).clamp(max=0.0)
    return lambda gradient: gradient * below if operand == 1 else gradient


def constant(saved: Tensor) -> Tensor:
    """What an operator kept, without its own way down the graph."""
    return wide(saved.detach())


def scaled(by: float) -> Factor:
    return lambda gradient: gradient if by == 1 else gradient * by


FACTORS: dict[str, Callable[[Any, int], Factor]] = {
    "AddBackward0": addition,
    "SubBackward0": subtraction,
    "MulBackward0": product,
    "DivBackward0": quotient,
    "ExpandBackward0": repetition,
    "RepeatBackward0": repetition,
    "PreluKernelBackward0": leak,
}
