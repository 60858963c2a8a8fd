"""What a rule is: the words that `explain` prints, and the check that `lint` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dpcli.base.values import dataclass

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry, Pipeline
    from dpcli.file.toml.findings import Path, Severity


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a check says about one key.

    path: from the top of the file, list positions 0-based, e.g. ("mechanism", 2, "sampling", "scheme").
    message: lower case, no full stop, complete without the path.
    severity: where this finding weighs otherwise than its rule does.
    """

    path: Path
    message: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """One row of the failure catalogue.

    code: stable, never reused.
    severity: what its findings weigh unless they say otherwise.
    waivable: whether a gate may waive it (with a reason, an approver and an expiry).
    what, why, fix: plain sentences: what the rule finds, what goes wrong otherwise, what to do.
    source: the paper or report that shows the failure.
    bad, good: whole pipeline files; `bad` gives this rule alone, `good` gives none.
    check: None where the reader of the file decides.
    """

    code: str
    severity: Severity
    waivable: bool
    title: str
    what: str
    why: str
    fix: str
    source: str
    bad: str
    good: str
    check: Callable[[Pipeline], Iterator[RuleFinding]] | None = None


def entries(pipeline: Pipeline) -> Iterator[tuple[Path, Entry]]:
    """Every mechanism with the path of its table."""
    for index, entry in enumerate(pipeline.mechanisms):
        yield ("mechanism", index), entry


# Shared by the examples: a file with nothing to complain about, up to its first mechanism.
HEAD = """\
format = 1

[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 60_000
delta = 1e-6
releases = "final-model"
"""

TRAIN = """
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 1.1
steps = 1000
sampling = { scheme = "poisson", batch_size = 256 }
"""


def edited(text: str, old: str, new: str) -> str:
    """`text` with its one occurrence of `old` replaced: an example states its difference, not the whole file."""
    assert text.count(old) == 1, old
    return text.replace(old, new)
