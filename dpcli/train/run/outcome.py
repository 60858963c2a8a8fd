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
PIPELINE = "pipeline.toml"  # an exact copy of the training file
ATTESTATION = "attestation.json"  # the file that dpcli attest writes
KEPT = "canaries.pt"  # canaries for a resumed run, which must have the same ones; removed at the end
ADAPTER = "adapter"  # folder in the format of PEFT, if only a part of a language model was trained
LEFT_BEHIND = (DESCRIPTION, MODEL, STATEMENT, PIPELINE, METRICS, STATE, ATTESTATION)  # files of a folder that describes itself


def epsilon_at_delta(epsilon: float, delta: float) -> str:
    """Return a guarantee in words, with epsilon rounded up."""
    return f"epsilon <= {up(epsilon)} at delta = {delta!r}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        repeated: Portions of steps that may have been taken twice, and are charged twice.
        metrics: Metrics on data that the file declares public; empty if there are none.
        method: Method of the clipped sums, in words.
        noise: Source of the noise, in words.
        earlier: Whether the model replaces that of an earlier run.
        taken: Number of steps taken. It is less than planned if the caller's own loop ended early.
        unchecked: Sentences of the statement on assumptions of the guarantee that were not checked.
        constants: Names of the constant tensors that the user's own program reads.
        unmeasured: Reason why there are no metrics, if the user's function raised an error; "" otherwise.
        charged: Amounts that the ledger charged, including repeated steps, in words; "" without a ledger.
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
        """Return an upper bound on epsilon for all planned steps, including repeated ones."""
        return self.plan.account_with(self.repeated).upper

    @property
    def guarantee(self) -> str:
        """Return the guarantee at the delta of the file in words, with epsilon rounded up."""
        return epsilon_at_delta(self.epsilon, self.plan.account.delta)

    @property
    def unprotected(self) -> str:
        """Return why the run is not private. The result has no meaning for a private run."""
        return LAID_OPEN if self.plan.laid_open else SEEDED

    @property
    def repeated_steps(self) -> int:
        """Return the number of steps that may have been taken twice."""
        return sum(stop - start for start, stop in self.repeated)


def left_by_run(folder: str, path: str) -> bool:
    """Check whether a run wrote the file at `path` into the folder.

    Such a file must not be overwritten, because another model would cost epsilon again.
    """
    if not os.path.exists(path) or not os.path.lexists(os.path.join(folder, DESCRIPTION)):
        return False
    adapter = os.path.join(folder, ADAPTER)
    files = [os.path.join(folder, name) for name in (*LEFT_BEHIND, LOCK)]
    if os.path.isdir(adapter):
        files += [os.path.join(adapter, name) for name in os.listdir(adapter)]
    return any(os.path.exists(file) and os.path.samefile(path, file) for file in files)
