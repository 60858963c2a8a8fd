"""The class of lint rules, with the rules DP001 to DP005, which the reader of files checks.

The other rules are in modules by theme. In each, a function that yields findings is the check of one `RuleInfo`, whose `what` and `why`
describe it. HEAD and TRAIN are the texts from which the example files of most rules are built; a test lints every example. An error fails a
gate (unless it is waived), a warning does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcli.base.values import dataclass

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry, Pipeline
    from dpcli.file.toml.findings import Path, Severity


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A finding of a rule about one key.

    Attributes:
        path: Path of the key from the top of the file, with 0-based positions in lists: ("mechanism", 2, "sampling", "scheme").
        message: The message, in lower case and without a full stop. It must be understandable without the path.
        severity: Severity of this finding; None for that of the rule.
    """

    path: Path
    message: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A lint rule in the failure catalogue.

    Attributes:
        code: Code of the rule. A code is never changed and never reused.
        what: The settings that the rule reports.
        why: The harm that such settings do.
        fix: The change that removes the finding.
        source: Paper or report about the failure.
        bad, good: Complete pipeline files. `bad` breaks only this rule, and `good` breaks none.
        check: Function that yields the findings in a pipeline; None for a rule that the reader of files checks.
        severity: Severity of findings that do not state their own.
        waivable: Whether a gate may waive the rule, with a reason, an approver and an expiry date.
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
    """Yield every mechanism with the path of its table, in the order of the file."""
    for index, entry in enumerate(pipeline.mechanisms):
        yield ("mechanism", index), entry


def steps_in(epochs: float, rate: Fraction | None) -> Fraction:
    """Return the number of steps in a number of epochs, without rounding.

    Without a rate, or at rate 0, the result is the number of epochs. `repr` gives the decimal number that the file states, and not its
    binary approximation.
    """
    return Fraction(repr(epochs)) / (rate or 1)


# The beginning of most example files, up to the first mechanism. No rule reports it.
HEAD = """\
format = 1

[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 60_000
delta = 1e-6
releases = "final-model"
"""

# The mechanism of most example files: a run of DP-SGD. After HEAD no rule reports it.
TRAIN = """
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 1.1
steps = 1000
sampling = { scheme = "poisson", batch_size = 256 }
"""


def edited(text: str, old: str, new: str) -> str:
    """Return the text with `old` replaced by `new`. The text must contain `old` exactly once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


SYNTAX = RuleInfo(
    code="DP001",
    severity="error",
    waivable=False,
    title="not a TOML file",
    what="The file is not valid TOML 1.0, not UTF-8, too large, or nested too deeply.",
    why="If two programs may read a file in different ways, it states no definite guarantee.",
    fix="Correct the text at the stated line and column. Save the file as UTF-8 without a byte-order mark.",
    source="TOML 1.0.0, https://toml.io/en/v1.0.0",
    bad=edited(HEAD, 'unit = "example"', 'unit = "example') + TRAIN,
    good=HEAD + TRAIN,
)

UNKNOWN_KEY = RuleInfo(
    code="DP002",
    severity="error",
    waivable=False,
    title="unknown key",
    what="The file has a key that the format does not define. Letters that look like ASCII letters, and control "
    "characters, are shown escaped.",
    why="With a mistyped key the default of the right key would apply, and might claim more privacy than was meant.",
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
    what="A value has the wrong type for its key, such as text or true/false in place of a number, or a fraction in place of a count.",
    why="A conversion would be a guess, and a guessed parameter gives a wrong epsilon.",
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
    why="A formula with nan may give 0, the strongest guarantee. Published accountants return epsilon = 0 for a noise of nan.",
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
    what="Two keys for the same quantity contradict each other (rate and batch_size / dataset_size, steps and epochs), or a key "
    "that another key needs is missing.",
    why="If the accountant used one of the keys and the training the other, the printed epsilon would not describe the run.",
    fix="State each quantity once, in the form that the program uses.",
    source="Opacus issue 813, https://github.com/pytorch/opacus/issues/813",
    bad=HEAD + edited(TRAIN, "batch_size = 256", "batch_size = 256, rate = 0.5"),
    good=HEAD + TRAIN,
)
