"""The [sweep] table of a pipeline file: which training runs `dpcli sweep` makes, and how the choice among them is accounted for.

A *setting* is a list of changes to values of the file; setting.py reads the settings in `grid` or `setting`, and sweep_plan.py calibrates
the noise of each to each epsilon. `tuning` is required: the best of many runs depends on the private data, so that its epsilon is more than
that of one run. With "public", every result says so; "repeat-and-select" charges for the search (private_search.py). A *premise* is a
sentence on which the guarantee rests, with the command that ensures it (here sweep) and a test that violates it on purpose. Of the keys'
annotations (base/fields.py), `Key` has a key's line in the manual, and `Open` is a table whose keys are checked by the code that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import POSITIVE, Constraint, Key, Open
from dpcli.base.premise import Premise, Premises
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.toml.findings import Findings, Problem

# The limit is arbitrary; it affects the time of a sweep alone.
RUNS = Constraint("a whole number from 1 to 10000", lambda x: 1 <= x <= 10_000, (("minimum", 1), ("maximum", 10_000)))
REPEATS = 5  # default number of runs of each setting, whose median is shown; arbitrary, more runs take more time
TUNING = (
    '"public" (settings chosen on public data, or a search that is not accounted for and is labelled so) or "repeat-and-select" (a '
    "mechanism of the file accounts for the search), because the choice of the best run depends on private data"
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The [sweep] table: the epsilons and the settings of the training runs, and the accounting of the choice among them.

    Each run draws separate random numbers from the operating system. There are no seeds.
    """

    premises: ClassVar[Premises] = (
        Premise(
            "A saved run is reused only if its code, its data and its labels are unchanged.",
            "sweep",
            "tests/sweep/test_run.py::test_other_labels_from_the_same_function_are_another_run",
        ),
        Premise(
            "Nobody learns the number of trials of a search that is charged as repeat-and-select.",
            "sweep",
            "tests/sweep/test_search.py::test_what_is_printed_does_not_tell_how_many_trials_there_were",
        ),
    )

    epsilon: Annotated[
        tuple[float, ...], Key("epsilons of one run (public) or of the whole search; the noise is calibrated to each", POSITIVE)
    ]
    tuning: Annotated[
        Literal["public", "repeat-and-select"] | None,
        Key(
            "required; public: each point is labelled as tuned on public data, and its epsilon covers one run; repeat-and-select: the runs "
            "are the trials of a mechanism of this type, which the file must have, and only the best run is kept",
            claim=True,  # a statement about the data or the program that dpcli does not enforce
        ),
    ] = None
    grid: Annotated[
        Open | None, Key('lists of values by dotted key ("train.learning_rate", "mechanism.NAME.epochs"): all combinations')
    ] = None
    setting: Annotated[
        tuple[Open, ...],
        Key("instead of a grid: single settings by dotted key; a setting with an epsilon is used for this epsilon only"),
    ] = ()
    repeats: Annotated[
        int | None,
        Key(f"number of runs of each setting at each epsilon; absent: {REPEATS}; not allowed with repeat-and-select", RUNS),
    ] = None
    better: Annotated[
        Literal["higher", "lower"] | None,
        Key("whether higher or lower values of the metric are better; required with a custom task, known for the others"),
    ] = None
    reference: Annotated[float | None, Key("declared metric of a model without privacy, drawn for comparison")] = None
    output: Annotated[str | None, Key("folder of the runs; absent: runs/NAME-sweep")] = None

    def problems(self) -> Iterator[Problem]:
        """Yield the keys that are missing, invalid, or contradict each other.

        A `Problem` has the path of the key in this table, and the words after "expected" and after "found" in the message.
        """
        if self.tuning is None:
            yield ("tuning",), TUNING, "nothing"
        if not self.epsilon or len(set(self.epsilon)) < len(self.epsilon):
            yield ("epsilon",), "one or more different numbers", "a repeated number" if self.epsilon else "an empty list"
        if self.grid is not None and self.setting:
            yield ("setting",), "either a grid or settings", "both"
        if self.tuning == "repeat-and-select":
            yield from self._search_problems()

    def _search_problems(self) -> Iterator[Problem]:
        """Yield the keys that contradict a private search, which releases a single model."""
        if self.repeats is not None:
            expected = 'none with tuning = "repeat-and-select": the number of trials is drawn at random'
            yield ("repeats",), expected, str(self.repeats)
        if len(self.epsilon) > 1:
            expected = 'one number with tuning = "repeat-and-select": each further search would be a further release'
            yield ("epsilon",), expected, str(len(self.epsilon))


def read_sweep(data: bytes, path: str) -> tuple[Sweep, Mapping[str, Any], str]:
    """Return the [sweep] table of a file, all tables of the file, and its text.

    Raises InvalidFile if the file has problems, each reported at its place, or it has no table [sweep].
    """
    text, tables = toml_document(data, path)
    sweep = section(data, path, "sweep")
    if not isinstance(sweep, Sweep):
        findings = Findings()
        findings.add("DP005", ("sweep",), "a [sweep] table with the settings to try and the accounting of the choice", "none")
        refuse(findings, tables, text, path)
    assert isinstance(sweep, Sweep)  # `refuse` raises if there are findings, which type checkers do not know
    return sweep, tables, text
