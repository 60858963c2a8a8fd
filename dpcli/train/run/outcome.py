"""The outcome of a run, and the names of the files that it leaves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dpcli.base.rounding import up
from dpcli.sessions.folder import LOCK
from dpcli.train.plan.plan import Portion, TrainingPlan

SEEDED = "the noise was drawn from a seed that somebody knows"
LAID_OPEN = "an audit put gradients of its own into the sums, and its scores tell of the noise"
STATE, MODEL, METRICS, STATEMENT = "state.pt", "model.safetensors", "metrics.jsonl", "statement.md"
DESCRIPTION = "model.json"
PIPELINE = "pipeline.toml"  # the file that it was trained by, byte for byte
ATTESTATION = "attestation.json"  # dpcli attest writes it
KEPT = "canaries.pt"  # while the run lasts: a resumed run must have the same canaries
ADAPTER = "adapter"  # folder that PEFT reads, where a part of a language model was trained
LEFT_BEHIND = (DESCRIPTION, MODEL, STATEMENT, PIPELINE, METRICS, STATE, ATTESTATION)  # files of a folder that describes itself


def epsilon_at_delta(epsilon: float, delta: float) -> str:
    """Return a guarantee in words, its epsilon rounded up."""
    return f"epsilon <= {up(epsilon)} at delta = {delta!r}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        repeated: Portions of steps that may have been taken twice, and are charged twice.
        metrics: On data declared public; empty if there are none.
        method: How the clipped sums were computed.
        noise: Source of the noise.
        earlier: Whether the model replaces that of an earlier run.
        taken: Steps; fewer than planned where a caller's own loop ended sooner.
        unchecked: Sentences of the statement about what the guarantee also rests on and nobody checked.
        constants: Tensors that the user's own program reads besides its parameters, its buffers and the records, by name.
        unmeasured: Why there are no metrics, where the user's function raised.
        charged: Charged to the ledger, in words, with repeated steps; "" without one.
    """

    plan: TrainingPlan
    folder: str
    run: str
    repeated: tuple[Portion, ...]
    private: bool
    metrics: Mapping[str, float]
    method: str
    noise: str
    earlier: bool
    taken: int
    unchecked: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    unmeasured: str = ""
    charged: str = ""

    @property
    def epsilon(self) -> float:
        """Return an upper bound on the epsilon of every step that drew noise, repeated steps included."""
        return self.plan.account_with(self.repeated).upper

    @property
    def guarantee(self) -> str:
        """Return epsilon, rounded up, at the delta of the file, in words."""
        return epsilon_at_delta(self.epsilon, self.plan.account.delta)

    @property
    def unprotected(self) -> str:
        """Return why a run is not private; without meaning for one that is."""
        return LAID_OPEN if self.plan.laid_open else SEEDED

    @property
    def repeated_steps(self) -> int:
        return sum(stop - start for start, stop in self.repeated)


def left_by_run(folder: str, path: str) -> bool:
    """Return whether a run wrote the file at `path` into the folder: it must not be overwritten, as another model costs epsilon again."""
    if not os.path.exists(path) or not os.path.lexists(os.path.join(folder, DESCRIPTION)):
        return False
    adapter = os.path.join(folder, ADAPTER)
    files = [os.path.join(folder, name) for name in (*LEFT_BEHIND, LOCK)]
    if os.path.isdir(adapter):
        files += [os.path.join(adapter, name) for name in os.listdir(adapter)]
    return any(os.path.exists(file) and os.path.samefile(path, file) for file in files)
