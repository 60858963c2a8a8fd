"""The outcome of a run, and the names of the files that it leaves in its folder.

run/results.py makes the outcome when the run ends and writes the files. The documents and the statement (train/documents) only read it. The
names are part of the interface: later commands, and users, look for the files by them. The *statement* tells the users of the model what
was guaranteed, in Markdown, and the *description* (model.json) holds facts about the model and the guarantee, as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dpcli.base.rounding import up
from dpcli.sessions.folder import LOCK
from dpcli.train.plan.plan import Portion, TrainingPlan

# Reasons why a run is not private. The second is for *canary gradients*, which an audit adds to the sums (replay/canaries.py).
SEEDED = "the noise was drawn from a seed that somebody knows"
OPEN_TO_AUDIT = "an audit inserted gradients into the sums, and its scores reveal the noise"
# Names of the files of a run.
STATE, MODEL, METRICS, STATEMENT = "state.pt", "model.safetensors", "metrics.jsonl", "statement.md"
DESCRIPTION = "model.json"
PIPELINE = "pipeline.toml"  # an exact copy of the training file
ATTESTATION = "attestation.json"  # written by dpcli attest
CANARIES = "canaries.pt"  # canaries of an unfinished run, which a resumed run must reuse; removed at the end
ADAPTER = "adapter"  # folder in the format of PEFT, written if only a part of a language model was trained
RESULT_FILES = (DESCRIPTION, MODEL, STATEMENT, PIPELINE, METRICS, STATE, ATTESTATION)  # files that no other output may overwrite


def epsilon_at_delta(epsilon: float, delta: float) -> str:
    """Return a guarantee in words, with epsilon rounded up."""
    return f"epsilon <= {up(epsilon)} at delta = {delta!r}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        run: Key of the run in the ledger.
        repeated: Portions of steps that may have been taken twice. They are charged twice.
        private: Whether all noise was secret.
        metrics: Metrics on data that the file declares public; empty if there are none.
        method: Method of the clipped sums, in words.
        noise: Source of the noise, in words.
        earlier: Whether the model replaces the model of an earlier run.
        taken: Number of steps taken. It is less than planned if the user's own loop ended early.
        unchecked: Paragraphs of the statement on the user's own loop, including the assumptions that were not checked.
        constants: Names of the constant tensors that the user's own program reads.
        unmeasured: Message of the error that the measurement raised; None if it raised none.
        charged: Amounts that the ledger charged, including repeated steps, in words; None without a ledger.
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
    unmeasured: str | None = None
    charged: str | None = None

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
        """Return the reason why the run is not private. The result has no meaning for a private run."""
        return OPEN_TO_AUDIT if self.plan.open_to_audit else SEEDED

    @property
    def repeated_steps(self) -> int:
        """Return the number of steps that may have been taken twice."""
        return sum(stop - start for start, stop in self.repeated)


def left_by_run(folder: str, path: str) -> bool:
    """Return whether the file at `path` is a result of the run in the folder.

    Such a file must not be overwritten, because training the model again would cost epsilon again.
    """
    if not os.path.exists(path) or not os.path.lexists(os.path.join(folder, DESCRIPTION)):
        return False
    adapter = os.path.join(folder, ADAPTER)
    files = [os.path.join(folder, name) for name in (*RESULT_FILES, LOCK)]  # LOCK: the lock file of the folder
    if os.path.isdir(adapter):
        files += [os.path.join(adapter, name) for name in os.listdir(adapter)]
    return any(os.path.exists(file) and os.path.samefile(path, file) for file in files)
