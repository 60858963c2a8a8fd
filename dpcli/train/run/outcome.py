"""The outcome of a run, and the names of the files that it leaves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dpcli.sessions.folder import LOCK
from dpcli.train.plan.plan import Portion, TrainingPlan

SEEDED = "the noise was drawn from a seed that somebody knows"
LAID_OPEN = "an audit put gradients of its own into the sums, and its scores tell of the noise"
STATE, MODEL, METRICS, STATEMENT = "state.pt", "model.safetensors", "metrics.jsonl", "statement.md"
DESCRIPTION, PIPELINE = (
    "model.json",
    "pipeline.toml",
)  # what a run says of itself, and the file that it was trained by, byte for byte
ATTESTATION = "attestation.json"  # dpcli attest writes it
KEPT = "canaries.pt"  # while the run lasts: a resumed run must hold the same ones
ADAPTER = "adapter"  # folder that PEFT reads, of a language model that was not trained as a whole
LEFT_BEHIND = (DESCRIPTION, MODEL, STATEMENT, PIPELINE, METRICS, STATE, ATTESTATION)  # files of a folder that describes itself


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    repeated: portions that may have been done twice, and are charged twice. metrics: on data declared public; empty where
    there are none. method: how the clipped sums were computed. noise: where the noise came from. earlier: whether the folder held the model
    of an earlier run, which this one's takes the place of. taken: steps; fewer than planned where a caller's own loop ended sooner.
    unchecked: sentences of the statement about what the guarantee rests on besides, and nobody looked at. constants: tensors that the
    user's own program reads beside its parameters, its buffers and the records, in words.
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
    unmeasured: str = ""  # why there are no metrics, where the user's function raised
    charged: str = ""  # to the ledger, in words, with what a resumed run repeats; "" where there was none

    @property
    def epsilon(self) -> float:
        """Return an upper bound for every step that drew noise, the repeated ones included."""
        return self.plan.account_with(self.repeated).upper

    @property
    def unprotected(self) -> str:
        """Return why the run is not private, where it is not."""
        return LAID_OPEN if self.plan.laid_open else SEEDED

    @property
    def repeated_steps(self) -> int:
        return sum(stop - start for start, stop in self.repeated)


def left_by_run(folder: str, path: str) -> bool:
    """Return whether the file at `path` is one that a run left in the folder: another model costs epsilon again."""
    if not os.path.isdir(folder) or not os.path.exists(path):
        return False
    if not os.path.lexists(os.path.join(folder, DESCRIPTION)):
        return False
    adapter = os.path.join(folder, ADAPTER)
    files = [os.path.join(folder, name) for name in (*LEFT_BEHIND, LOCK)]
    files += [os.path.join(adapter, name) for name in os.listdir(adapter)] if os.path.isdir(adapter) else []
    return any(os.path.exists(one) and os.path.samefile(path, one) for one in files)
