"""The class of a lint rule, with its explanation and its check; rules DP001 to DP005, which the reader of files checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dpcli.base.values import dataclass

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry, Pipeline
    from dpcli.file.toml.findings import Path, Severity


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A finding of a check about one key.

    path: from the top of the file, list positions 0-based, e.g. ("mechanism", 2, "sampling", "scheme").
    message: lower case, no full stop, complete without the path.
    severity: if this finding weighs otherwise than its rule does.
    """

    path: Path
    message: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A row of the failure catalogue.

    code: stable, never reused.
    severity: what its findings weigh unless they say otherwise.
    waivable: whether a gate may waive it (with a reason, an approver and an expiry).
    what, why, fix: plain sentences: what the rule finds, what goes wrong otherwise, what to do.
    source: the paper or report that shows the failure.
    bad, good: whole pipeline files; `bad` gives this rule alone, `good` gives none.
    check: None if the reader of the file decides.
    """

    code: str
    title: str
    what: str
    why: str
    fix: str
    source: str
    bad: str
    good: str
    check: Callable[[Pipeline], Iterator[RuleFinding]] | None = None
    severity: Severity = "warning"
    waivable: bool = True


def entries(pipeline: Pipeline) -> Iterator[tuple[Path, Entry]]:
    """Yield every mechanism with the path of its table."""
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
    """Return the text with its one occurrence of `old` replaced."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


SYNTAX = RuleInfo(
    code="DP001",
    severity="error",
    waivable=False,
    title="not a TOML file",
    what="The file is not valid TOML 1.0, not UTF-8, too large, or nested too deeply.",
    why="A file that two readers may understand in two ways cannot carry a guarantee.",
    fix="Correct the place that the line and column point to; save the file as UTF-8 without a byte-order mark.",
    source="TOML 1.0.0, https://toml.io/en/v1.0.0",
    bad=edited(HEAD, 'unit = "example"', 'unit = "example') + TRAIN,
    good=HEAD + TRAIN,
)

UNKNOWN_KEY = RuleInfo(
    code="DP002",
    severity="error",
    waivable=False,
    title="unknown key",
    what="The file has a key that no part of the format knows; look-alike letters and control characters are shown escaped.",
    why="A misspelt key would silently leave its default in force, and the default may claim more privacy than was meant.",
    fix="Use the suggested spelling, or remove the key.",
    source="NIST SP 800-226 (2025), on privacy hazards of implementations",
    bad=edited(HEAD, "unit =", "unti =") + TRAIN,
    good=HEAD + TRAIN,
)

WRONG_TYPE = RuleInfo(
    code="DP003",
    severity="error",
    waivable=False,
    title="wrong type",
    what="A value has another type than its key: text or true/false in place of a number, a fraction in place of a count.",
    why="Converting it would be a guess, and a guessed parameter gives a guessed epsilon.",
    fix="Write numbers without quotes and counts without a decimal point.",
    source="TOML 1.0.0, https://toml.io/en/v1.0.0",
    bad=HEAD + edited(TRAIN, "= 1.1", '= "1.1"'),
    good=HEAD + TRAIN,
)

OUT_OF_RANGE = RuleInfo(
    code="DP004",
    severity="error",
    waivable=False,
    title="value out of range",
    what="A number is outside the range of its key, or is nan, inf, or too large for a float.",
    why="Formulas fed with nan can answer 0, the best guarantee there is: published accountants return epsilon = 0 for "
    "a noise of nan.",
    fix="Give a finite value in the range that the message states.",
    source="observed in two published accountants: noise = nan yields epsilon = 0",
    bad=HEAD + edited(TRAIN, "= 1.1", "= nan"),
    good=HEAD + TRAIN,
)

INCONSISTENT = RuleInfo(
    code="DP005",
    severity="error",
    waivable=False,
    title="keys that contradict one another",
    what="Keys that say the same thing differ (rate against batch_size / dataset_size, steps against epochs), or one "
    "that another needs is missing.",
    why="The accountant would use one of the two and the training the other, so that the printed epsilon belongs to no run.",
    fix="State each quantity once, in the form that the program uses.",
    source="Opacus issue 813, https://github.com/pytorch/opacus/issues/813",
    bad=HEAD + edited(TRAIN, "batch_size = 256", "batch_size = 256, rate = 0.5"),
    good=HEAD + TRAIN,
)
