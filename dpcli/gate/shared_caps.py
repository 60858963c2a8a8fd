"""Caps on several files together: the [[together]] tables of a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

from dpcli.base.fields import DELTA, POSITIVE, RATE, Key
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Budget
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import quoted


@dataclass(frozen=True, slots=True)
class SharedCaps:
    """The most that all files of some datasets may spend together, whoever is in them."""

    datasets: Annotated[
        tuple[str, ...], Key("names of datasets, as files state them in [privacy]; the files of all of them add up")
    ]
    epsilon: Annotated[float | None, Key("cap on epsilon of all these files together; rho may take its place", POSITIVE)] = None
    delta: Annotated[
        float | None, Key("delta of the cap; the smallest of the files', the policy's and --delta where absent", DELTA)
    ] = None
    rho: Annotated[
        float | None, Key("cap on rho in zCDP of all these files together, instead of epsilon or beside it", POSITIVE)
    ] = None
    warn_at: Annotated[float, Key("share of the cap above which a warning is given", RATE)] = 0.8

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.warn_at, self.rho)

    @property
    def words(self) -> str:
        """`dataset clicks`; all of several."""
        return f"dataset{'s' if len(self.datasets) > 1 else ''} {', '.join(self.datasets)}"

    def problems(self) -> Iterator[Problem]:
        """Names that no file can have, or none; no cap."""
        if self.epsilon is None and self.rho is None:
            yield ("epsilon",), "a cap on epsilon, on rho or on both", "none"
        if not self.datasets:
            yield ("datasets",), "the name of a dataset", "none"
        yield from name_problems("datasets", self.datasets)


def name_problems(key: str, names: Sequence[str]) -> Iterator[Problem]:
    """Names that no file can state, and names that stand there twice."""
    from dpcli.file.pipeline.datasets import dataset_problems

    counted = Counter(names)
    for index, name in enumerate(names):
        yield from (((key, index), expected, found) for _, expected, found in dataset_problems(name))
        if counted[name] > 1 and name not in names[index + 1 :]:
            yield (key, index), "each name once", quoted(name)
