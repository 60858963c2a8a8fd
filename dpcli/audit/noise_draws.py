"""The noise of a replay as a table of independent draws: what the statistics of it are taken from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SINGLE = 2.0**-23  # relative resolution of sums in single precision


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Noise over its declared standard deviation; under the claim every number in it is an independent N(0, s^2), s >= 1, s of a tensor.

    tensors: by name, (draws, numbers): one row for each step of each run. positions: the step of each row in its run, from 0.
    resolution: how finely the numbers are known, as they may be the difference of sums in single precision.
    """

    tensors: Mapping[str, Array]
    positions: NDArray[np.intp]
    resolution: float

    @property
    def count(self) -> int:
        """Rows."""
        return len(self.positions)

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return sum(values.shape[1] for values in self.tensors.values())

    def scaled(self) -> Draws:
        """Each tensor over its own root mean square: too much noise costs no privacy, and is not what a shape is judged by."""
        sizes = {name: float(np.sqrt(np.mean(np.square(values)))) or 1.0 for name, values in self.tensors.items()}
        tensors = {name: values / sizes[name] for name, values in self.tensors.items()}
        return Draws(tensors, self.positions, self.resolution / min(sizes.values()))

    def few(self, width: int) -> Array:
        """(draws, at most about `width` numbers): of every tensor its first ones, as many of each as there is room for."""
        room, parts = width, []
        for left, values in zip(range(len(self.tensors), 0, -1), sorted(self.tensors.values(), key=_width), strict=True):
            parts.append(values[:, : max(1, room // left)])
            room -= parts[-1].shape[1]
        return np.concatenate(parts, axis=1)

    def named(self) -> Iterator[tuple[str, Array]]:
        """Each tensor by itself, and where there are several all of them together."""
        if len(self.tensors) > 1:
            yield "all together", np.concatenate(list(self.tensors.values()), axis=1)
        yield from self.tensors.items()


def _width(values: Array) -> int:
    return int(values.shape[1])


def draws_of(runs: Sequence[Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]], std: float, fresh: bool) -> Draws | None:
    """The table of the steps that hold numbers; None where not every step has noise of the same names and sizes, or none is left.

    Args:
        runs: of each run its steps, (sums, noise) by name. std: as declared. fresh: whether steps are independent; else the first alone is.
    """
    rows = [(i, *step) for run in runs for i, step in enumerate(run if fresh else run[:1]) if _finite(step)]
    shapes = [{name: np.size(value) for name, value in noise.items()} for _, _, noise in rows]
    if not rows or not shapes[0] or any(shape != shapes[0] for shape in shapes) or not sum(shapes[0].values()):
        return None
    names = [name for name, size in shapes[0].items() if size]
    tensors = {name: np.stack([np.ravel(noise[name]) for _, _, noise in rows]) / std for name in names}
    largest = max(
        float(np.max(np.abs(np.asarray(value)), initial=0.0)) for _, *tables in rows for table in tables for value in table.values()
    )
    return Draws(tensors, np.array([i for i, _, _ in rows], dtype=np.intp), SINGLE * largest / std)


def _finite(step: tuple[Mapping[str, Array], Mapping[str, Array]]) -> bool:
    """What is not a number is another check's."""
    return all(bool(np.all(np.isfinite(value))) for table in step for value in table.values())
