"""The noise of one step of training: independent from step to step, or correlated. Always float32 tensors, whatever the batch held."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dpcli.base.errors import InputError, InternalError
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream, normals, singles
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from dpcli.random.streams import Reals

    Shapes = Mapping[str, torch.Size]


class Noise(Protocol):
    """Noise that is added to the sums of clipped gradients, one draw for each step."""

    @property
    def std(self) -> float | None:
        """Return the standard deviation of every number of every step; None where steps differ, or depend on each other."""

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        """Return the noise of the next step, float32 on the CPU, one tensor for each name."""


class Independent:
    """Fresh Gaussian noise in every step. Keeps nothing from one step to the next, so a resumed run simply goes on.

    Args:
        std: Noise_multiplier times the bound on one example's clipped gradient; for the sum of a batch, not its mean.
    """

    __slots__ = ("_std", "_stream")

    def __init__(self, std: float, stream: Stream) -> None:
        self._std = checked_std(std)
        self._stream = stream

    @property
    def std(self) -> float:
        return self._std

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        return split(singles(number_count(shapes), self._std, self._stream), shapes)


class Correlated(ABC):
    """Noise that is correlated from step to step (DP-FTRL): x + noise is what a decoder makes of C x + z.

    C is the encoder that the accountant knows, z fresh Gaussians of standard deviation `std` = noise_multiplier times the bound on one
    example's contribution to a step, and the noise of a step what is left of z after decoding: the rest is post-processing.

    The state is noise already used, from which an observer of the released models could compute sums without noise. It stays in this
    process: it is never saved, pickled, copied or used after a fork. So a run that is cut short cannot go on, and counts as a whole one.

    Args:
        iterations: Steps of the run.
    """

    __slots__ = ("_iterations", "_process", "_std", "_step", "_stream")

    def __init__(self, std: float, stream: Stream, iterations: int) -> None:
        self._std = checked_std(std)
        self._stream = stream
        self._iterations = iterations
        self._step = 0
        self._process = this_process()

    def __reduce__(self) -> NoReturn:
        raise InternalError("correlated noise is never saved or copied: who has it can take it off the released models")

    @property
    def std(self) -> None:
        return None

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        if this_process() != self._process:
            raise InternalError("correlated noise was used after a fork: parent and child would release the same noise")
        if self._step == self._iterations:
            raise InputError(
                f"all {self._iterations} steps of correlated noise that are accounted for were taken; going on needs one more in the "
                "entry's steps"
            )
        if self._step == 0:
            self.start(number_count(shapes))
        self._step += 1
        return split(self.step(self._step), shapes)

    @abstractmethod
    def start(self, size: int) -> None:
        """Prepare the state for vectors of `size` numbers, before the first step."""

    @abstractmethod
    def step(self, number: int) -> Reals:
        """Return the noise of step 1, 2, ..."""

    def fresh(self, size: int) -> Reals:
        """Draw entries of z."""
        return normals(size, self._stream) * self._std


def split(values: NDArray[Any], shapes: Shapes) -> dict[str, torch.Tensor]:
    """Cut one vector into float32 tensors of these shapes, in order."""
    import torch

    if len(values) != number_count(shapes):
        raise InternalError(f"expected parameters of {len(values)} numbers as in the step before, found {number_count(shapes)}")
    flat = torch.from_numpy(values.astype(np.float32, copy=False))
    parts = flat.split_with_sizes([shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


def number_count(shapes: Shapes) -> int:
    """Return how many numbers the parameters have."""
    return sum(shape.numel() for shape in shapes.values())


def checked_std(std: float) -> float:
    """Return the standard deviation. Raises InternalError if it is not positive and finite: never a step without noise."""
    if not 0.0 < std < math.inf:
        raise InternalError(f"expected noise of a positive finite standard deviation, found {std!r}")
    return std
