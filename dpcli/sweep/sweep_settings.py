"""The [sweep] table, read as strictly as the rest of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import POSITIVE, Constraint, Key, Open
from dpcli.base.premise import Premise, Premises
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.toml.findings import Findings, Problem

RUNS = Constraint("a whole number from 1 to 10000", lambda x: 1 <= x <= 10_000, (("minimum", 1), ("maximum", 10_000)))
REPEATS = 5  # default number of runs of each setting
TUNING = (
    '"public" (chosen on public data, or not counted and labelled so) or "repeat-and-select" (the search is a mechanism of the file): '
    "the choice of the best of many runs depends on the private data of each of them"
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Training runs of one file at several epsilons, each with several settings; and how the choice among these is accounted for.

    Each run draws its own random numbers from the operating system: there are no seeds.
    """

    premises: ClassVar[Premises] = (
        Premise(
            "A trial that is not made again is the one that was made: its code, its data, its labels.",
            "sweep",
            "tests/sweep/test_run.py::test_other_labels_from_the_same_function_are_another_run",
        ),
        Premise(
            "Of a search that is charged as repeat-and-select, nobody learns how many trials there were.",
            "sweep",
            "tests/sweep/test_search.py::test_what_is_printed_does_not_tell_how_many_trials_there_were",
        ),
    )

    epsilon: Annotated[
        tuple[float, ...], Key("epsilons of one run (public), or of the whole search; the noise is solved for", POSITIVE)
    ]
    tuning: Annotated[
        Literal["public", "repeat-and-select"] | None,
        Key(
            "required; public: each point is labelled as tuned on public data, its epsilon that of one run; repeat-and-select: the runs "
            "are the trials of that mechanism, which the file must have, and only the best is kept",
            claim=True,
        ),
    ] = None
    grid: Annotated[
        Open | None, Key('lists of values by dotted key ("train.learning_rate", "mechanism.NAME.epochs"): all combinations')
    ] = None
    setting: Annotated[
        tuple[Open, ...], Key("in place of a grid: single settings by dotted key, each for one epsilon where it states one")
    ] = ()
    repeats: Annotated[
        int | None,
        Key(f"independent runs of each setting at each epsilon, {REPEATS} where absent; none with repeat-and-select", RUNS),
    ] = None
    better: Annotated[
        Literal["higher", "lower"] | None,
        Key(
            "which value of the metric that runs are compared by is the better one; required with a custom task, known of the others"
        ),
    ] = None
    reference: Annotated[float | None, Key("metric without privacy, as declared, drawn for comparison")] = None
    output: Annotated[str | None, Key("folder of the runs; runs/NAME-sweep where absent")] = None

    def problems(self) -> Iterator[Problem]:
        if self.tuning is None:
            yield ("tuning",), TUNING, "nothing"
        if not self.epsilon or len(set(self.epsilon)) < len(self.epsilon):
            yield ("epsilon",), "one or more different numbers", "one of them twice" if self.epsilon else "an empty list"
        if self.grid is not None and self.setting:
            yield ("setting",), "either a grid or settings", "both"
        if self.tuning == "repeat-and-select":
            yield from self._search_problems()

    def _search_problems(self) -> Iterator[Problem]:
        """Yield what contradicts a search, which releases one model, once."""
        if self.repeats is not None:
            yield (
                ("repeats",),
                'none with tuning = "repeat-and-select": the number of trials is drawn at random',
                str(self.repeats),
            )
        if len(self.epsilon) > 1:
            yield (
                ("epsilon",),
                'one number with tuning = "repeat-and-select": each further search would be a further release',
                str(len(self.epsilon)),
            )


def read_sweep(data: bytes, path: str) -> tuple[Sweep, Mapping[str, Any], str]:
    """Return the [sweep] table of a file, with the tables and the text of the whole.

    Raises:
        InvalidFile: With every problem found, at its place; a file without [sweep] is one.
    """
    text, tables = toml_document(data, path)
    sweep = section(data, path, "sweep")
    if not isinstance(sweep, Sweep):
        findings = Findings()
        findings.add("DP005", ("sweep",), "a [sweep] table, which says what is varied and how the choice is accounted for", "none")
        refuse(findings, tables, text, path)
    assert isinstance(sweep, Sweep)
    return sweep, tables, text
