"""The noise of the steps of training: independent from step to step, or correlated, as an entry of the file declares it.

Noise is float32, whatever the batch held. Decoders turn fresh Gaussians into correlated noise and keep a few vectors: Toeplitz and banded
encoders C are solved by substitution (C w = z); a tree gives each prefix sum a few noisy nodes.

A banded matrix mechanism is optimised for prefix sums: of the encoders that cost the same, the one that leaves the least noise.
Source: Choquette-Choo et al. 2023, arXiv:2306.08153, Section 4; parametrised by its columns and solved by L-BFGS.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.noise.correlated import BandedSpec, BufferedToeplitzSpec, ToeplitzSpec, TreeSpec, square_root
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream, normals, singles
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from dpcli.random.streams import Reals

    Shapes = Mapping[str, torch.Size]

SEARCH_ROUNDS = 60  # of L-BFGS: more rounds gain less than a thousandth


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


class Banded(Correlated):
    """w_t = (z_t - C[t, t-1] w_{t-1} - ... - C[t, t-b+1] w_{t-b+1}) / C[t, t]: keeps b - 1 steps.

    Args:
        columns: (iterations, bands), row t has C[t, t], C[t + 1, t], ...; of a Toeplitz encoder every row is the same.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    __slots__ = ("_columns", "_past", "_size")

    def __init__(self, columns: Reals, std: float, stream: Stream) -> None:
        super().__init__(std, stream, len(columns))
        self._columns = columns

    def start(self, size: int) -> None:
        self._size = size
        self._past: deque[Reals] = deque(maxlen=self._columns.shape[1] - 1)  # the latest first

    def step(self, number: int) -> Reals:
        noise = self.fresh(self._size)
        for lag, past in enumerate(self._past, 1):
            noise -= self._columns[number - 1 - lag, lag] * past
        noise /= self._columns[number - 1, 0]
        self._past.appendleft(np.asarray(noise))
        return noise


class BufferedToeplitz(Correlated):
    """c_0 = 1 and c_k = sum_i a_i d_i^{k-1}: buffer i holds sum_k d_i^{k-1} w_{t-k}, so w_t = z_t - sum_i a_i buffer_i.

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
        noise = self.fresh(self._buffers.shape[1]) - self._scales @ self._buffers
        self._buffers *= self._decays
        self._buffers += noise
        return noise


class Tree(Correlated):
    """Every complete node of the tree is its sum plus a fresh Gaussian; a prefix is estimated from the nodes below it.

    A node's own value and the estimates of its two children are weighted by their precision: with variances 1 and 2 v its estimate has
    v' = 2 v / (2 v + 1), and its own value the weight v'. A prefix is the sum of the estimates of the nodes in its binary digits, and the
    noise of a step the difference of two prefixes. At most one node for each level is kept.

    Source: Kairouz et al. 2021, arXiv:2103.00039, Algorithm 1 and Appendix B (estimates from below, after Honaker 2015).
    """

    __slots__ = ("_nodes", "_prefix")

    def start(self, size: int) -> None:
        self._nodes: list[Reals] = []
        self._prefix = np.zeros(size)

    def step(self, number: int) -> Reals:
        """Return the noise of step t, which completes a node on each level up to the number of trailing zeros of t."""
        node, variance = self.fresh(len(self._prefix)), 1.0
        while number % 2 == 0:
            number //= 2
            variance = 2.0 * variance / (2.0 * variance + 1.0)
            node = variance * self.fresh(len(node)) + (1.0 - variance) * (self._nodes.pop() + node)
        self._nodes.append(node)
        prefix = np.sum(self._nodes, axis=0)
        noise: Reals = prefix - self._prefix
        self._prefix = prefix
        return noise


def noise_of(spec: Spec, bound: float, stream: Stream) -> Noise:
    """Return the noise of the sums of clipped gradients; with correlated noise, that of one run of `iterations` steps.

    Args:
        bound: C, the L2 bound on what one record contributes to the sum of one step.

    Raises:
        InputError: The mechanism is not one whose noise is added to a sum in each step, or it states its noise otherwise than by
            noise_multiplier.
    """
    if type(spec) not in NOISES:
        raise InputError(
            f"expected one of {', '.join(known.__name__ for known in NOISES)} to train with, found {type(spec).__name__}"
        )
    return NOISES[type(spec)](spec, bound, stream)


def _independent(spec: GaussianSpec, bound: float, stream: Stream) -> Noise:
    if spec.noise_multiplier is None:
        raise InputError("expected noise_multiplier, which training turns into noise relative to the clipping norm, found sigma")
    return Independent(spec.noise_multiplier * bound, stream)


def _tree(spec: TreeSpec, bound: float, stream: Stream) -> Noise:
    return Tree(spec.noise_multiplier * bound, stream, spec.iterations)


def _toeplitz(spec: ToeplitzSpec, bound: float, stream: Stream) -> Noise:
    column = np.array(spec.coefficients) if spec.coefficients is not None else square_root(spec.bands or 1)
    column = column[: spec.iterations]
    columns = np.broadcast_to(column, (spec.iterations, len(column)))
    return Banded(columns, spec.noise_multiplier * bound, stream)


def _banded(spec: BandedSpec, bound: float, stream: Stream) -> Noise:
    return Banded(_columns(spec), spec.noise_multiplier * bound, stream)


def _buffered(spec: BufferedToeplitzSpec, bound: float, stream: Stream) -> Noise:
    decays, scales = np.array(spec.buf_decay), np.array(spec.output_scale)
    return BufferedToeplitz(decays, scales, spec.noise_multiplier * bound, stream, spec.iterations)


NOISES: dict[type[Spec], Callable[..., Noise]] = {
    GaussianSpec: _independent,
    TreeSpec: _tree,
    ToeplitzSpec: _toeplitz,
    BandedSpec: _banded,
    BufferedToeplitzSpec: _buffered,
}


def first_weight(spec: Spec) -> float:
    """Return C[0, 0] of the encoder, which the noise of the first step is divided by; 1 where steps are independent."""
    if isinstance(spec, ToeplitzSpec) and spec.coefficients is not None:
        return spec.coefficients[0]
    return float(_columns(spec)[0, 0]) if isinstance(spec, BandedSpec) else 1.0


def _columns(spec: BandedSpec) -> Reals:
    return optimised(spec.iterations, min(spec.bands, spec.iterations))


@lru_cache(maxsize=8)
def optimised(steps: int, bands: int) -> Reals:
    """Return the columns of the encoder C with the least error: row t is C[t, t], C[t + 1, t], ..., zero beyond the end, of length 1.

    Minimises the Frobenius norm of A C^-1, A the prefix sums: its square is the sum of the variances of all prefix sums under noise z of
    variance 1. Never worse than the columns of the banded square root of A, each made as long, where the search starts. Read-only.
    """
    import torch

    initial = torch.from_numpy(np.tile(square_root(bands), (steps, 1)))
    initial = initial * (torch.arange(steps)[:, None] + torch.arange(bands) < steps)
    free = initial.clone().requires_grad_()
    search = torch.optim.LBFGS([free], max_iter=SEARCH_ROUNDS, history_size=20, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def closure() -> torch.Tensor:
        search.zero_grad()
        loss = prefix_error(_normalised(free))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        best = min(_normalised(initial), _normalised(free), key=_finite_error)
    columns: Reals = best.numpy()
    columns.flags.writeable = False
    return columns


def _normalised(columns: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = columns.square().sum(1, keepdim=True).sqrt()
    return columns / lengths


def prefix_error(columns: torch.Tensor) -> torch.Tensor:
    """Return |A C^-1|^2, the sum over steps of the variance of the prefix sum."""
    import torch

    steps, bands = columns.shape
    encoder = columns.new_zeros(steps, steps)
    for lag in range(bands):
        encoder += columns[: steps - lag, lag].diag(-lag)
    prefixes = torch.ones_like(encoder).tril()
    decoded: torch.Tensor = torch.linalg.solve_triangular(encoder, prefixes, upper=False, left=False)
    return decoded.square().sum()


def _finite_error(columns: torch.Tensor) -> float:
    """Return the error; infinite if the columns are of no encoder."""
    error = float(prefix_error(columns))
    return error if bool((columns[:, 0] > 0.0).all()) and math.isfinite(error) else math.inf
