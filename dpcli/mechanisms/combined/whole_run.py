"""An entry of the file as it stands, with its steps and its sampling, as one mechanism that another entry runs."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.sampling.schemes import Runs, Scheme
from dpcli.mechanisms.spec import Spec


@dataclass(frozen=True, slots=True)
class WholeRun(Spec):
    """All steps of an entry, sampled as it says."""

    spec: Spec
    sampling: Scheme | None
    runs: Runs

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        from dpcli.mechanisms.combined.composed import Composed

        if self.sampling is None:
            mechanism, count = self.spec.resolve(neighbours), self.runs.steps_at(None)
        else:
            mechanism, count = self.sampling.resolve(self.spec, self.runs, neighbours)
        return mechanism if count == 1 else Composed(((mechanism, count),))
