"""The noise of the training steps, which an entry of the file (a mechanism) declares: independent from step to step, or correlated.

step/prepare.py calls `noise_of` with the mechanism and the bound on a record's clipped gradient. The result draws the noise of one step
after the other, which step/loop.py adds to the sums of clipped gradients.

Correlated noise comes from a matrix mechanism. Its *encoder*, a matrix C, turns the sums x of the steps into C x, to which independent
Gaussians z are added. The accountant prices this release. A decoder turns the independent Gaussians z into correlated noise w, and stores
only a few vectors. For Toeplitz and banded encoders C, it solves C w = z by substitution. For a tree, it estimates each prefix sum from a
few noisy nodes.

The file and the mechanism determine most encoders. The encoder of a banded matrix mechanism is optimised (train/banded_encoder.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.noise.correlated import BandedSpec, BufferedToeplitzSpec, ToeplitzSpec, TreeSpec, square_root
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.last_iterate import LastIterateSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream, normal_parts, normals
from dpcli.sessions.folder import this_process
from dpcli.train.banded_encoder import optimise_banded

if TYPE_CHECKING:
    import torch

    from dpcli.random.streams import Reals

    Shapes = Mapping[str, torch.Size]


class Noise(ABC):
    """Noise for the sums of clipped gradients. It is drawn once for each step."""

    __slots__ = ()

    @property
    @abstractmethod
    def std(self) -> float | None:
        """Return the standard deviation of the noise of every step; None if steps differ or are correlated."""

    @property
    @abstractmethod
    def drawn_std(self) -> float:
        """Return the standard deviation of the noise of the first step.

        The noisy sums of all steps are rounded to a grid, whose width is a small fraction of this number (`add_noise` in step/loop.py).
        """

    @abstractmethod
    def parts(self, count: int) -> Iterator[Reals]:
        """Return the noise of the next step in double precision, as consecutive parts of a vector of `count` numbers.

        The caller may change a part, which is valid until the next one is drawn.
        """

    def next(self, shapes: Shapes) -> dict[str, torch.Tensor]:
        """Return the noise of the next step in double precision, as tensors on the CPU, by parameter name.

        The tensors are new memory, which the caller may change.
        """
        import torch

        flat = torch.from_numpy(np.concatenate([np.empty(0), *(part.copy() for part in self.parts(number_count(shapes)))]))
        pieces = flat.split_with_sizes([shape.numel() for shape in shapes.values()])
        return {name: piece.view(shape) for piece, (name, shape) in zip(pieces, shapes.items(), strict=True)}


class Independent(Noise):
    """Independent Gaussian noise in every step. It has no state, so a resumed run simply continues.

    Args:
        std: Standard deviation of the noise on the sum of a batch, not on its mean. It is noise_multiplier times the bound on one
            example's clipped gradient.
    """

    __slots__ = ("_std", "_stream")

    def __init__(self, std: float, stream: Stream) -> None:
        self._std = require_std(std)
        self._stream = stream

    @property
    def std(self) -> float:
        return self._std

    @property
    def drawn_std(self) -> float:
        return self._std

    def parts(self, count: int) -> Iterator[Reals]:
        return normal_parts(count, self._stream, self._std)


class Correlated(Noise):
    """Noise that is correlated from step to step, as in DP-FTRL.

    The accountant prices the release of C x + z. Here x are the sums of the steps, C is the encoder, and z are independent Gaussians. The
    noisy sums are x + w with C w = z, so they are post-processing of that release.

    The state contains the noise of past steps. A reader of the state and of the released models could compute sums without noise. The state
    therefore stays in this process: it is never saved, pickled, copied or used after a fork. An interrupted run cannot continue its noise,
    and is charged for all of its steps.

    Args:
        std: Standard deviation of z, which is noise_multiplier times the bound on one example's contribution to a step.
        stream: Source of z.
        iterations: Number of steps that the accountant covers.
    """

    __slots__ = ("_count", "_iterations", "_process", "_std", "_step", "_stream")

    def __init__(self, std: float, stream: Stream, iterations: int) -> None:
        self._std = require_std(std)
        self._stream = stream
        self._iterations = iterations
        self._step = 0
        self._process = this_process()

    def __reduce__(self) -> NoReturn:
        raise InternalError("correlated noise is never saved or copied: a reader of it could remove it from the released models")

    @property
    def std(self) -> None:
        return None

    @property
    def drawn_std(self) -> float:
        return self._std

    def parts(self, count: int) -> Iterator[Reals]:
        """Return the noise of the next step in double precision, in one part.

        Raises:
            InternalError: The call is in a fork, or the count is another than in the first step.
            InputError: All steps of the run were taken.
        """
        if this_process() != self._process:
            raise InternalError("correlated noise was used after a fork: parent and child would release the same noise")
        if self._step == self._iterations:
            raise InputError(
                f"all {self._iterations} steps of correlated noise that the accountant covers were taken; for another step, raise the "
                "number of steps of the entry"
            )
        if self._step == 0:
            self._count = count
            self.start(count)
        if count != self._count:
            raise InternalError(f"expected parameters of {self._count} numbers as in the previous step, found {count}")
        self._step += 1
        return iter((self.step(self._step),))

    @abstractmethod
    def start(self, size: int) -> None:
        """Initialise the state for vectors of `size` numbers, before the first step."""

    @abstractmethod
    def step(self, number: int) -> Reals:
        """Return the noise of a step, in memory that the state does not share. Steps are numbered from 1."""

    def draw(self, size: int) -> Reals:
        """Draw `size` entries of z."""
        return normals(size, self._stream, self._std)


def number_count(shapes: Shapes) -> int:
    """Return the total number of entries of tensors of the given shapes."""
    return sum(shape.numel() for shape in shapes.values())


def require_std(std: float) -> float:
    """Return the standard deviation unchanged. Raises InternalError unless it is positive and finite: no step may be without noise."""
    if not 0.0 < std < math.inf:
        raise InternalError(f"expected noise of a positive finite standard deviation, found {std!r}")
    return std


class Banded(Correlated):
    """Noise of a banded encoder C with b bands. The state is the noise of the last b - 1 steps.

    The decoder computes w_t = (z_t - C[t, t-1] w_{t-1} - ... - C[t, t-b+1] w_{t-b+1}) / C[t, t].

    Args:
        columns: Entries of C, of shape (iterations, bands). Row t contains C[t, t], C[t + 1, t], .... A Toeplitz encoder has equal rows.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    __slots__ = ("_columns", "_past", "_size")

    def __init__(self, columns: Reals, std: float, stream: Stream) -> None:
        super().__init__(std, stream, len(columns))
        self._columns = columns

    @property
    def drawn_std(self) -> float:
        return self._std / float(self._columns[0, 0])

    def start(self, size: int) -> None:
        self._size = size
        self._past: deque[Reals] = deque(maxlen=self._columns.shape[1] - 1)  # the latest step first

    def step(self, number: int) -> Reals:
        noise = self.draw(self._size)
        for lag, past in enumerate(self._past, 1):
            noise -= self._columns[number - 1 - lag, lag] * past
        noise /= self._columns[number - 1, 0]
        self._past.appendleft(noise.copy())  # the caller may change what it receives
        return noise


class BufferedToeplitz(Correlated):
    """Noise of a Toeplitz encoder with coefficients c_0 = 1 and c_k = sum_i a_i d_i^{k-1}.

    Buffer i contains sum_k d_i^{k-1} w_{t-k}, so the decoder computes w_t = z_t - sum_i a_i buffer_i.

    Args:
        decays: The decays d_i.
        scales: The scales a_i.

    Source: Dvijotham et al. 2024, arXiv:2404.16706; McMahan et al. 2024, arXiv:2408.08868.
    """

    __slots__ = ("_buffers", "_decays", "_scales")

    def __init__(self, decays: Reals, scales: Reals, std: float, stream: Stream, iterations: int) -> None:
        super().__init__(std, stream, iterations)
        self._decays = decays[:, None]
        self._scales = scales

    def start(self, size: int) -> None:
        self._buffers = np.zeros((len(self._decays), size))

    def step(self, number: int) -> Reals:
        noise = self.draw(self._buffers.shape[1]) - self._scales @ self._buffers
        self._buffers *= self._decays
        self._buffers += noise
        return noise


class Tree(Correlated):
    """Noise of a binary tree, in which every complete node releases its sum with independent Gaussian noise.

    The estimate of a node combines its own value, of variance 1, with the sum of the estimates of its two children, of variance 2 v. The
    weights are inverse to the variances. The estimate then has variance v' = 2 v / (2 v + 1), and the node's own value has weight v'.

    A prefix sum is the sum of the estimates of the nodes that correspond to the binary digits of its length. The noise of a step is the
    difference of two prefix sums. The state has at most one node for each level.

    Args:
        sizes: Number of steps of each tree. After the last step of a tree, the next one begins with fresh noise.

    Source: Kairouz et al. 2021, arXiv:2103.00039, Algorithm 1 and Appendix B (estimates from below, after Honaker 2015).
    """

    __slots__ = ("_ends", "_nodes", "_prefix")

    def __init__(self, std: float, stream: Stream, sizes: tuple[int, ...]) -> None:
        super().__init__(std, stream, sum(sizes))
        self._ends = [0, *accumulate(sizes)]

    def start(self, size: int) -> None:
        self._nodes: list[Reals] = []
        self._prefix = np.zeros(size)

    def step(self, number: int) -> Reals:
        """Return the noise of step t of a tree, which completes one node on each level up to the number of trailing binary zeros of t."""
        number -= self._ends[bisect_left(self._ends, number) - 1]
        if number == 1:
            self.start(len(self._prefix))
        node, variance = self.draw(len(self._prefix)), 1.0
        while number % 2 == 0:
            number //= 2
            variance = 2.0 * variance / (2.0 * variance + 1.0)
            node = variance * self.draw(len(node)) + (1.0 - variance) * (self._nodes.pop() + node)
        self._nodes.append(node)
        prefix = np.sum(self._nodes, axis=0)
        noise: Reals = prefix - self._prefix
        self._prefix = prefix
        return noise


def noise_of(spec: Spec, bound: float, stream: Stream) -> Noise:
    """Return the noise that a mechanism adds to the sums of clipped gradients. Correlated noise lasts for `spec.iterations` steps.

    Args:
        bound: C, the L2 bound on the contribution of one record to the sum of one step.

    Raises:
        InputError: The mechanism does not add noise to a sum in each step, or its noise is not stated by noise_multiplier.
    """
    if type(spec) not in NOISES:
        known = ", ".join(mechanism.__name__ for mechanism in NOISES)
        raise InputError(f"expected a mechanism for training ({known}), found {type(spec).__name__}")
    return NOISES[type(spec)](spec, bound, stream)


def _independent(spec: GaussianSpec, bound: float, stream: Stream) -> Noise:
    """Return independent noise. Raises InputError if the noise is stated by sigma."""
    if spec.noise_multiplier is None:
        raise InputError("expected noise_multiplier, the noise relative to the clipping norm, found sigma")
    return Independent(spec.noise_multiplier * bound, stream)


def _toeplitz(spec: ToeplitzSpec, bound: float, stream: Stream) -> Noise:
    """Return the noise of a banded Toeplitz encoder. The file declares its coefficients, or the number of square-root coefficients."""
    all_coefficients = square_root(spec.bands or 1) if spec.coefficients is None else np.array(spec.coefficients)
    column = all_coefficients[: spec.iterations]  # a longer column would reach beyond the last step
    columns = np.broadcast_to(column, (spec.iterations, len(column)))
    return Banded(columns, spec.noise_multiplier * bound, stream)


def _buffered_toeplitz(spec: BufferedToeplitzSpec, bound: float, stream: Stream) -> Noise:
    """Return the noise of a buffered Toeplitz encoder."""
    decays, scales = np.array(spec.buf_decay), np.array(spec.output_scale)
    return BufferedToeplitz(decays, scales, spec.noise_multiplier * bound, stream, spec.iterations)


# Functions that return the noise, by the type of the mechanism.
NOISES: dict[type[Spec], Callable[..., Noise]] = {
    GaussianSpec: _independent,
    LastIterateSpec: lambda spec, bound, stream: Independent(spec.noise_multiplier * bound, stream),
    TreeSpec: lambda spec, bound, stream: Tree(spec.noise_multiplier * bound, stream, spec.sizes),
    ToeplitzSpec: _toeplitz,
    BandedSpec: lambda spec, bound, stream: Banded(_encoder_columns(spec), spec.noise_multiplier * bound, stream),
    BufferedToeplitzSpec: _buffered_toeplitz,
}


def first_weight(spec: Spec) -> float:
    """Return C[0, 0] of the encoder, by which the noise of the first step is divided.

    It is 1 if the steps are independent, and for tree, buffered Toeplitz and default Toeplitz noise. `first_step_std` in step/loop.py
    divides by it.
    """
    if isinstance(spec, ToeplitzSpec) and spec.coefficients is not None:
        return spec.coefficients[0]
    if isinstance(spec, BandedSpec):
        return float(_encoder_columns(spec)[0, 0])
    return 1.0


def _encoder_columns(spec: BandedSpec) -> Reals:
    """Return the columns of the encoder of a banded mechanism, which cannot have more bands than steps."""
    return optimise_banded(spec.iterations, min(spec.bands, spec.iterations))
