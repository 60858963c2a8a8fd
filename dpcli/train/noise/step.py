"""The noise of each step: one draw per logical step, whatever the batch held; float32 tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dpcli.base.errors import InputError, InternalError
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream, normals, singles
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from dpcli.random.streams import Reals, Singles

    Shapes = Mapping[str, torch.Size]


def gaussian(shape: Sequence[int], std: float, stream: Stream) -> torch.Tensor:
    """A float32 tensor of independent N(0, std^2) draws, rounded from float64 once, after scaling."""
    count = math.prod(shape)
    return tensor(normals(count, stream)(count) * std, shape)


def tensor(values: Reals | Singles, shape: Sequence[int]) -> torch.Tensor:
    """The numbers as a float32 tensor."""
    import torch

    return torch.from_numpy(values.astype(np.float32, copy=False)).reshape(tuple(shape))


class Noise(Protocol):
    """Noise that is added to the sums of clipped gradients."""

    @property
    def private(self) -> bool:
        """True where nobody can know or repeat it."""
        ...

    @property
    def std(self) -> float | None:
        """The standard deviation of every number of every step; None where steps differ, or depend on each other."""
        ...

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        """The noise of the next step, float32 on the CPU, one tensor for each name."""
        ...


class Independent:
    """Fresh Gaussian noise in every step. Keeps nothing from one step to the next, so a resumed run simply goes on.

    Args:
        std: noise_multiplier times the bound on one example's clipped gradient; for the sum of a batch, not its mean.
    """

    __slots__ = ("_std", "_stream")

    def __init__(self, std: float, stream: Stream) -> None:
        self._std = positive(std)
        self._stream = stream

    @property
    def private(self) -> bool:
        return self._stream.private

    @property
    def std(self) -> float:
        return self._std

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        return split(singles(total(shapes), self._std, self._stream), shapes)


class Correlated:
    """Base of noise that is correlated from step to step (DP-FTRL): x + noise is what a decoder makes of C x + z.

    C is the encoder that the accountant knows, z fresh Gaussians of standard deviation `std` = noise_multiplier times the bound on one
    example's contribution to a step, and the noise of a step what is left of z after decoding: the rest is post-processing.

    What is kept from step to step is noise already used, from which an observer of the released models could compute sums without
    noise. It stays in this process: it is never saved, pickled, copied or used after a fork. A run that is cut short therefore cannot
    go on; another run may start with `run`, and counts as one more of the entry's `steps`.

    Args:
        iterations: steps of one run. After the last, the next run begins with fresh noise.
        runs: how many runs are accounted for. run: how many of them have begun before, each of which counts as a whole.

    Raises:
        InputError: all runs that are accounted for have begun before, or a step is taken after the last one.
    """

    __slots__ = ("_iterations", "_process", "_run", "_runs", "_std", "_step", "_stream")

    def __init__(self, std: float, stream: Stream, iterations: int, runs: int = 1, run: int = 0) -> None:
        self._std = positive(std)
        self._stream = stream
        self._iterations = iterations
        self._runs = runs
        self._run = run
        self._step = 0
        self._process = this_process()
        self._require_run()

    def __reduce__(self) -> NoReturn:
        raise InternalError("correlated noise is never saved or copied: who has it can take it off the released models")

    @property
    def private(self) -> bool:
        return self._stream.private

    @property
    def std(self) -> None:
        return None

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        if this_process() != self._process:
            raise InternalError("correlated noise was used after a fork: parent and child would release the same noise")
        if self._step == self._iterations:
            self._step, self._run = 0, self._run + 1
            self._require_run()
        if self._step == 0:
            self.restart(total(shapes))
        self._step += 1
        return split(self.step(self._step), shapes)

    def restart(self, size: int) -> None:
        """Forget everything; the next run is on vectors of `size` numbers."""
        raise NotImplementedError

    def step(self, number: int) -> Reals:
        """The noise of step 1, 2, ... of a run."""
        raise NotImplementedError

    def fresh(self, size: int) -> Reals:
        """Entries of z."""
        return normals(size, self._stream)(size) * self._std

    def _require_run(self) -> None:
        if self._run >= self._runs:
            raise InputError(
                f"all {self._runs} x {self._iterations} steps of correlated noise that are accounted for were taken; no more are allowed: "
                "this noise cannot be saved, so a run that was cut short counts as a whole one, and going on needs one more in "
                "the entry's steps"
            )


def split(values: NDArray[Any], shapes: Shapes) -> dict[str, torch.Tensor]:
    """Cut one vector into tensors of these shapes, in order."""
    if len(values) != total(shapes):
        raise InternalError(f"expected parameters of {len(values)} numbers as in the step before, found {total(shapes)}")
    parts = tensor(values, (len(values),)).split_with_sizes([shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


def total(shapes: Shapes) -> int:
    """Return how many numbers the parameters have."""
    return sum(shape.numel() for shape in shapes.values())


def positive(std: float) -> float:
    """The standard deviation itself. Raises InternalError where it is not a positive finite number: never a step without noise."""
    if not 0.0 < std < math.inf:
        raise InternalError(f"expected noise of a positive finite standard deviation, found {std!r}")
    return std
