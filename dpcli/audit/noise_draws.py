"""The noise of a replay, divided by its declared standard deviation.

A *replay* runs steps of a program with and without one record (replay.py, which calls `noise_draws`). What a step adds to its exact sums is
its noise; divided by the standard deviation that the file declares, it must be independent normal numbers with mean 0 and a standard
deviation of at least 1, and noise_statistics.py tests this. A *tensor* is the noise on one parameter, and a *row* that of one step (of one
batch of records).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SINGLE_PRECISION = 2.0**-23  # relative resolution of sums in single precision


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step of a program under test.

    Attributes:
        sums: The clipped sums before noise, by name.
        batch: Ids of the records in the batch, in any order.
        noise: The noise that is added to the sums, by name; empty if only the sums are checked.
    """

    sums: Mapping[str, Any]
    batch: Sequence[Any] = ()
    noise: Mapping[str, Any] = field(default_factory=dict)

    def arrays(self) -> list[Array]:
        """Return all arrays of sums and noise."""
        return [*map(np.asarray, self.sums.values()), *map(np.asarray, self.noise.values())]


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Noise divided by its declared standard deviation. If the claim is true, all numbers are independent and Gaussian.

    The numbers of a tensor then have mean 0 and a common standard deviation of at least 1.

    Attributes:
        tensors: Noise by tensor name, as arrays of shape (rows, numbers) with one row for each step of each run.
        positions: Step of each row in its run, from 0.
        resolution: Resolution of the numbers, which may be differences of sums in single precision.
    """

    tensors: Mapping[str, Array]
    positions: NDArray[np.intp]
    resolution: float

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.positions)

    @property
    def width(self) -> int:
        """The number of numbers in a row, over all tensors."""
        return sum(values.shape[1] for values in self.tensors.values())

    def scaled(self) -> Draws:
        """Return each tensor divided by its root mean square, so that tests of shape do not depend on size."""
        # A tensor without noise, whose root mean square is 0, is not rescaled.
        sizes = {name: float(np.sqrt(np.mean(np.square(values)))) or 1.0 for name, values in self.tensors.items()}
        tensors = {name: values / sizes[name] for name, values in self.tensors.items()}
        return Draws(tensors, self.positions, self.resolution / min(sizes.values()))

    def first_columns(self, width: int) -> Array:
        """Return an array of shape (rows, about `width`) with the first numbers of every tensor, in shares as equal as possible."""
        # What a narrow tensor leaves of its share goes to the wider ones after it.
        narrow_first = sorted(self.tensors.values(), key=lambda values: values.shape[1])
        remaining_width, parts = width, []
        for index, values in enumerate(narrow_first):
            share = remaining_width // (len(narrow_first) - index)
            parts.append(values[:, : max(1, share)])
            remaining_width -= parts[-1].shape[1]
        return np.concatenate(parts, axis=1)

    def parts(self) -> Iterator[tuple[str, Array]]:
        """Yield the name and the array of each tensor, after one array that joins all tensors if there are several."""
        if len(self.tensors) > 1:
            yield "all together", np.concatenate(list(self.tensors.values()), axis=1)
        yield from self.tensors.items()


def noise_draws(runs: Sequence[Sequence[Step]], std: float, fresh: bool) -> Draws | None:
    """Return the noise of all steps with finite numbers; None if names or sizes differ between steps, or no step remains.

    Args:
        runs: Steps of each run.
        std: Declared standard deviation.
        fresh: Whether the noise of different steps is independent. If not, only the first step of each run is used.
    """
    positions: list[int] = []
    noises: list[Mapping[str, Any]] = []
    largest = 0.0
    for run in runs:
        for position, step in enumerate(run if fresh else run[:1]):
            arrays = step.arrays()
            if not all(np.isfinite(values).all() for values in arrays):
                continue  # replay.py reports this step
            positions.append(position)
            noises.append(step.noise)
            largest = max([largest, *(float(np.abs(values).max(initial=0.0)) for values in arrays)])
    sizes = [{name: np.size(values) for name, values in noise.items()} for noise in noises]
    if not sizes or any(step_sizes != sizes[0] for step_sizes in sizes) or not any(sizes[0].values()):
        return None
    tensors = {}
    for name, size in sizes[0].items():
        if size:
            tensors[name] = np.stack([np.ravel(noise[name]) for noise in noises]) / std
    return Draws(tensors, np.array(positions, dtype=np.intp), SINGLE_PRECISION * largest / std)
