"""From an entry of the file to the noise that it declares: the very parameters that are accounted for."""

from __future__ import annotations

from collections.abc import Callable

from dpcli.base.errors import InputError
from dpcli.mechanisms.noise.correlated import BandedSpec, BufferedToeplitzSpec, ToeplitzSpec, TreeSpec, square_root
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream
from dpcli.train.noise.banded import Banded
from dpcli.train.noise.step import Independent, Noise
from dpcli.train.noise.strategy import optimised
from dpcli.train.noise.toeplitz import BandedToeplitz, BufferedToeplitz
from dpcli.train.noise.tree import Tree


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
    return BandedToeplitz(column[: spec.iterations], spec.noise_multiplier * bound, stream, spec.iterations, runs, run)


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
