"""What a method of computing clipped sums is, and the loss that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from torch import Tensor, nn

from dpcli.base.errors import InputError
from dpcli.train.engine.asked import as_followed
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.pieces import Piece

Loss = Callable[[nn.Module, Batch], Tensor]
Part = tuple[Mapping[str, Piece], int]  # of every parameter that has a gradient, and the number of examples


class Method(Protocol):
    """A way to the per-example gradients of a batch."""

    @property
    def name(self) -> str:
        """What a report calls it."""

    @property
    def isolates(self) -> bool:
        """Whether each example is differentiated on its own by construction."""

    def on(self, model: nn.Module) -> Method:
        """The same for a model of which this one's is a copy."""

    def parts(self, batch: Batch) -> Iterator[Part]:
        """Consecutive parts of the batch.

        Raises:
            Unsuitable: the method does not apply to the model.
        """


def per_example_losses(model: nn.Module, loss: Loss, batch: Batch, size: int) -> Tensor:
    """The losses, one per example.

    Raises:
        InputError: anything else; a mean or a sum over the batch cannot be taken apart again.
    """
    with as_followed():
        losses = loss(model, batch)
    if losses.shape != (size,):
        raise InputError(
            f"loss: expected one loss per example, shape ({size},) for {size} of them, found shape {tuple(losses.shape)}; "
            'a mean over the batch hides who contributed what: use reduction="none"'
        )
    return losses
