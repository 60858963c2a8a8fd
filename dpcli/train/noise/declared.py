"""The noise that an entry of the file declares, from the parameters that are accounted for.

A banded matrix mechanism is optimised for prefix sums: of the encoders that cost the same, the one that leaves the least noise.
Source: Choquette-Choo et al. 2023, arXiv:2306.08153, Section 4; parametrised by its columns and solved by L-BFGS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.correlated import BandedSpec, BufferedToeplitzSpec, ToeplitzSpec, TreeSpec, square_root
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream
from dpcli.train.noise.decoders import Banded, BufferedToeplitz, Tree
from dpcli.train.noise.step import Independent, Noise

if TYPE_CHECKING:
    import torch

    from dpcli.random.streams import Reals


ROUNDS = 60  # of L-BFGS: more gain less than a thousandth


@lru_cache(maxsize=8)
def optimised(steps: int, bands: int) -> Reals:
    """Column t of C as row t: C[t, t], C[t + 1, t], ..., (n, bands), zero beyond the end; every one of Euclidean length 1.

    Minimises the Frobenius norm of A C^-1, A the prefix sums: its square is the sum of the variances of all prefix sums under noise z of
    variance 1. Never worse than the columns of the banded square root of A, each made as long, where the search starts. Read-only.
    """
    import torch

    start = torch.from_numpy(np.tile(square_root(bands), (steps, 1)))
    start = start * (torch.arange(steps)[:, None] + torch.arange(bands) < steps)
    free = start.clone().requires_grad_()
    search = torch.optim.LBFGS([free], max_iter=ROUNDS, history_size=20, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def closure() -> torch.Tensor:
        search.zero_grad()
        loss = error(unit(free))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        best = min(unit(start), unit(free), key=judged)
    columns: Reals = best.numpy()
    columns.flags.writeable = False
    return columns


def unit(columns: torch.Tensor) -> torch.Tensor:
    """Each of length 1."""
    lengths: torch.Tensor = columns.square().sum(1, keepdim=True).sqrt()
    return columns / lengths


def matrix(columns: torch.Tensor) -> torch.Tensor:
    """C of its columns."""
    steps, bands = columns.shape
    encoder = columns.new_zeros(steps, steps)
    for lag in range(bands):
        encoder += columns[: steps - lag, lag].diag(-lag)
    return encoder


def error(columns: torch.Tensor) -> torch.Tensor:
    """|A C^-1|^2, the sum over steps of the variance of the prefix sum."""
    import torch

    encoder = matrix(columns)
    prefixes = torch.ones_like(encoder).tril()
    left: torch.Tensor = torch.linalg.solve_triangular(encoder, prefixes, upper=False, left=False)
    return left.square().sum()


def judged(columns: torch.Tensor) -> float:
    """The error; infinite where the columns are of no encoder."""
    value = float(error(columns))
    return value if bool((columns[:, 0] > 0.0).all()) and math.isfinite(value) else math.inf


def noise_of(spec: Spec, bound: float, stream: Stream, runs: int = 1, run: int = 0) -> Noise:
    """The noise of the sums of clipped gradients.

    Args:
        bound: C, the L2 bound on what one record contributes to the sum of one step.
        runs: the entry's `steps` under correlated noise, where each is a run of `iterations`; of no meaning elsewhere.
        run: how many of them began before this process did. A run that was cut short has begun; after a crash, so has every run that
            may have begun since the last saved state, and the training goes on at the first step of run number `run`.

    Raises:
        InputError: the mechanism is not one whose noise is added to a sum in each step, it states its noise otherwise than by
            noise_multiplier, or no run is left to begin.
    """
    if type(spec) not in NOISES:
        raise InputError(
            f"expected one of {', '.join(known.__name__ for known in NOISES)} to train with, found {type(spec).__name__}"
        )
    return NOISES[type(spec)](spec, bound, stream, runs, run)


def _independent(spec: GaussianSpec, bound: float, stream: Stream, runs: int, run: int) -> Noise:
    if spec.noise_multiplier is None:
        raise InputError("expected noise_multiplier, which training turns into noise relative to the clipping norm, found sigma")
    return Independent(spec.noise_multiplier * bound, stream)


def _tree(spec: TreeSpec, bound: float, stream: Stream, runs: int, run: int) -> Noise:
    return Tree(spec.noise_multiplier * bound, stream, spec.iterations, runs, run)


def _banded(spec: ToeplitzSpec, bound: float, stream: Stream, runs: int, run: int) -> Noise:
    column = np.array(spec.coefficients) if spec.coefficients is not None else square_root(spec.bands or 1)
    column = column[: spec.iterations]
    columns = np.broadcast_to(column, (spec.iterations, len(column)))
    return Banded(columns, spec.noise_multiplier * bound, stream, runs, run)


def _matrix(spec: BandedSpec, bound: float, stream: Stream, runs: int, run: int) -> Noise:
    columns = optimised(spec.iterations, min(spec.bands, spec.iterations))
    return Banded(columns, spec.noise_multiplier * bound, stream, runs, run)


def _buffered(spec: BufferedToeplitzSpec, bound: float, stream: Stream, runs: int, run: int) -> Noise:
    decays, scales = np.array(spec.buf_decay), np.array(spec.output_scale)
    return BufferedToeplitz(decays, scales, spec.noise_multiplier * bound, stream, spec.iterations, runs, run)


def first_weight(spec: Spec) -> float:
    """C[0, 0] of the encoder, which the noise of the first step is divided by; 1 where steps are independent."""
    return FIRST[type(spec)](spec) if type(spec) in FIRST else 1.0


FIRST: dict[type[Spec], Callable[..., float]] = {
    ToeplitzSpec: lambda spec: 1.0 if spec.coefficients is None else spec.coefficients[0],
    BandedSpec: lambda spec: float(optimised(spec.iterations, min(spec.bands, spec.iterations))[0, 0]),
}

NOISES: dict[type[Spec], Callable[..., Noise]] = {
    GaussianSpec: _independent,
    TreeSpec: _tree,
    ToeplitzSpec: _banded,
    BandedSpec: _matrix,
    BufferedToeplitzSpec: _buffered,
}
