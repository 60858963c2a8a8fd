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


SEARCH_ROUNDS = 60  # of L-BFGS: more rounds gain less than a thousandth


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
