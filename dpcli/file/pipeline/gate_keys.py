"""The [gate] table: conditions on a change besides the budget, planned repetition, and waivers that expire."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Annotated, Literal

from dpcli.base.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, Key, Person, Prose
from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Path, Problem
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import did_you_mean

# Runs in a year of 365.25 days.
PER_YEAR: dict[str, Fraction] = {
    "day": Fraction(36525, 100),
    "week": Fraction(36525, 700),
    "month": Fraction(12),
    "quarter": Fraction(4),
    "year": Fraction(1),
}
MEASURED = ("budget", "increase", "horizon")  # conditions that compare an epsilon, so that a waiver must say up to which
WAIVABLE = (*MEASURED, "statement", "restatement")
_CODE = re.compile(r"DP[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Horizon:
    """A schedule fixed in advance: the whole pipeline run so many times on the same data, and the most that all runs may spend.

    The cap holds at the delta of the budget, which is then the delta of all runs together. Runs decided on after looking at earlier
    results are no schedule: they belong in a ledger.
    """

    epsilon: Annotated[float, Key("cap on epsilon of all runs together", POSITIVE)]
    every: Annotated[
        Literal["day", "week", "month", "quarter", "year"] | None, Key("how often the pipeline runs; with years, instead of runs")
    ] = None
    years: Annotated[float | None, Key("for how many years it runs; part of a run counts as a whole one", POSITIVE)] = None
    runs: Annotated[int | None, Key("how many times it runs, instead of every and years", COUNT)] = None

    @property
    def count(self) -> int:
        """The number of runs, rounded up: 53 weekly runs in a year."""
        if self.runs is not None:
            return self.runs
        assert self.every is not None and self.years is not None
        return math.ceil(PER_YEAR[self.every] * Fraction(repr(self.years)))

    @property
    def schedule(self) -> str:
        """`53 runs (every week, years: 1)`."""
        counted = f"{self.count:,} run{'s' if self.count != 1 else ''}"
        return counted if self.runs is not None else f"{counted} (every {self.every}, years: {self.years:g})"

    def problems(self) -> Iterator[Problem]:
        """Yield the contradictions among the keys."""
        paced = self.every is not None or self.years is not None
        if self.runs is not None and paced:
            yield ("runs",), "either runs, or every and years", "both"
        elif self.runs is None and self.every is None:
            yield ("every",), "every and years, or runs", "nothing"
        elif self.runs is None and self.years is None:
            yield ("years",), "a number of years with every", "nothing"
        elif self.count > 10**18:
            yield ("years",), "at most 10^18 runs", "more"


@dataclass(frozen=True, slots=True)
class Waiver:
    """An exception that somebody answers for until a day: it lets one rule or condition of the gate say no without failing.

    Only what can be waived (dpcli explain CODE says so) and only a no: what cannot be certified or read stays so.
    """

    rule: Annotated[
        str, Key("what is waived: a code of dpcli lint such as DP105, or budget, increase, horizon, statement or restatement")
    ]
    reason: Annotated[Prose, Key("why the exception is right")]
    approver: Annotated[Person, Key("who answers for it")]
    expires: Annotated[datetime.date, Key("the last day on which it holds, in UTC")]
    mechanism: Annotated[str | None, Key("name of the mechanism whose findings of a lint code are waived; all where absent")] = None
    epsilon: Annotated[
        float | None,
        Key(
            "the most that the epsilon judged may be; required for budget, increase and horizon, where it is what is waived",
            POSITIVE,
        ),
    ] = None

    def problems(self) -> Iterator[Problem]:
        """Yield the contradictions among the keys, and a rule that is neither a condition nor looks like a code."""
        if self.rule not in WAIVABLE and not _CODE.fullmatch(self.rule):
            hint = did_you_mean(self.rule, WAIVABLE)
            result = quoted(self.rule) + (f"; {hint}" if hint else "")
            yield ("rule",), f"a code of dpcli lint, or one of {', '.join(WAIVABLE)}", result
            return
        if self.rule in MEASURED and self.epsilon is None:
            yield ("epsilon",), f"the epsilon up to which {quoted(self.rule)} is waived", "nothing"
        if self.rule not in MEASURED and self.epsilon is not None:
            yield ("epsilon",), f"no epsilon with the rule {quoted(self.rule)}", f"{self.epsilon!r}"
        if self.rule in WAIVABLE and self.mechanism is not None:
            yield ("mechanism",), f"no mechanism with {quoted(self.rule)}, which judges the whole file", quoted(self.mechanism)


@dataclass(frozen=True, slots=True)
class Gate:
    """Conditions that `dpcli gate` adds to the budget."""

    max_increase: Annotated[
        float | None, Key("largest rise of epsilon over the base that passes, in nats", NON_NEGATIVE, "smaller")
    ] = None
    horizon: Annotated[Horizon | None, Key("planned repetition of the whole pipeline, and a cap on all runs together")] = None
    waiver: Annotated[tuple[Waiver, ...], Key("exceptions, one [[gate.waiver]] table each")] = ()


NO_GATE = Gate()


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps from outside a file; of each and the file's own, the smaller one holds."""

    epsilon: Annotated[float | None, Key("cap on epsilon; a smaller one of the file's budget holds too", POSITIVE)] = None
    delta: Annotated[
        float | None,
        Key("delta of the cap, the smallest that is stated where absent; without epsilon, no cap holds at a larger one", DELTA),
    ] = None
    max_increase: Annotated[float | None, Key("largest rise of epsilon over the base, in nats", NON_NEGATIVE)] = None
    allow_statement_change: Annotated[
        bool | None, Key("true where a file may change what its epsilon means, or loosen its own caps, against the base")
    ] = None
    rho: Annotated[float | None, Key("cap on rho in zCDP; a smaller one of the file's budget holds too", POSITIVE)] = None
    max_increase_percent: Annotated[
        float | None, Key("largest rise of epsilon over the base, in percent of it; max_increase holds too", NON_NEGATIVE)
    ] = None
    warn_increase: Annotated[
        float | None, Key("rise of epsilon over the base above which a warning is given, in nats", NON_NEGATIVE)
    ] = None
    warn_increase_percent: Annotated[float | None, Key("the same in percent of the base's epsilon", NON_NEGATIVE)] = None


def gate_problems(gate: Gate, mechanisms: Iterable[str]) -> Iterator[Problem]:
    """Yield the contradictions among the keys of a file's [gate]."""
    if gate.horizon is not None:
        yield from under(("gate", "horizon"), gate.horizon.problems())
    names = frozenset(mechanisms)
    for index, waiver in enumerate(gate.waiver):
        path: Path = ("gate", "waiver", index)
        yield from under(path, waiver.problems())
        if waiver.mechanism is not None and waiver.mechanism not in names:
            yield (*path, "mechanism"), "the name of a mechanism", quoted(waiver.mechanism)


def under(table: Path, problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems of a table, with the path of the table before theirs."""
    for key, expected, actual in problems:
        yield (*table, *key), expected, actual
