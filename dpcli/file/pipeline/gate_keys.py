"""The [gate] table: limits on the increase of epsilon, planned repetition of the pipeline, and waivers that expire.

These classes only declare and check keys; dpcli/gate judges by them. `Caps` are caps that a policy, which is a file for many pipelines,
adds to those of each file. Of several caps the smallest holds, and a file can make the policy's caps stricter but, without a waiver, never
looser. A *horizon* is a schedule of runs on the same data that was fixed in advance. A *waiver* excuses one broken rule or condition: it
names the rule, its approver, a last day and, for a condition on epsilon, the largest epsilon that it allows. The checks yield *problems*:
triples of the path of a key, the text after "expected", and the text after "found".

A *condition* is what the gate requires of the whole file: epsilon within its cap (budget), its increase over the base version (increase),
the cap on all planned runs (horizon), an unchanged meaning of epsilon (statement), and that no cost which followed from noise at the base
version is only stated now (restatement).
"""

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

# Number of runs in a year of 365.25 days.
PER_YEAR: dict[str, Fraction] = {
    "day": Fraction(36525, 100),
    "week": Fraction(36525, 700),
    "month": Fraction(12),
    "quarter": Fraction(4),
    "year": Fraction(1),
}
MEASURED = ("budget", "increase", "horizon")  # conditions on an epsilon; a waiver of one must state the largest epsilon it allows
WAIVABLE = (*MEASURED, "statement", "restatement")
_CODE = re.compile(r"DP[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Horizon:
    """A schedule of runs of the whole pipeline on the same data, fixed in advance, and a cap on the epsilon of all runs together.

    The cap holds at the delta of the budget, which is then the delta of all runs together. If earlier results decide about later runs, use
    a ledger instead.
    """

    epsilon: Annotated[float, Key("cap on epsilon of all runs together", POSITIVE)]
    every: Annotated[
        Literal["day", "week", "month", "quarter", "year"] | None, Key("interval between runs; needs years, and replaces runs")
    ] = None
    years: Annotated[
        float | None, Key("number of years in which the pipeline runs; part of a run counts as a whole run", POSITIVE)
    ] = None
    runs: Annotated[int | None, Key("number of runs, instead of every and years", COUNT)] = None

    @property
    def count(self) -> int:
        """The number of runs, rounded up: 53 weekly runs in a year."""
        if self.runs is not None:
            return self.runs
        assert self.every is not None and self.years is not None
        return math.ceil(PER_YEAR[self.every] * Fraction(repr(self.years)))

    @property
    def schedule(self) -> str:
        """The schedule in words, such as "53 runs (every week, years: 1)"."""
        counted = f"{self.count:,} run{'s' if self.count != 1 else ''}"
        return counted if self.runs is not None else f"{counted} (every {self.every}, years: {self.years:g})"

    def problems(self) -> Iterator[Problem]:
        """Yield the contradictions among the keys."""
        has_interval = self.every is not None or self.years is not None
        if self.runs is not None and has_interval:
            yield ("runs",), "either runs, or every and years", "both"
        elif self.runs is None and self.every is None:
            yield ("every",), "every and years, or runs", "nothing"
        elif self.runs is None and self.years is None:
            yield ("years",), "a number of years with every", "nothing"
        elif self.count > 10**18:  # the largest number of runs of a mechanism; the key `runs` has this limit, too (COUNT)
            yield ("years",), "at most 10^18 runs", "more"


@dataclass(frozen=True, slots=True)
class Waiver:
    """A waiver: an exception from one rule or condition of the gate, with an approver and an expiry date.

    Until that date the gate passes although the rule or condition is violated. `dpcli explain CODE` says which rules can be waived. A file
    that cannot be read, or whose epsilon cannot be certified, fails in spite of any waiver.
    """

    rule: Annotated[
        str,
        Key(
            "the waived rule or condition: a code of dpcli lint such as DP105, or budget, increase, horizon, statement or restatement"
        ),
    ]
    reason: Annotated[Prose, Key("reason for the exception")]
    approver: Annotated[Person, Key("name of the person who is responsible for the exception")]
    expires: Annotated[datetime.date, Key("last day of the waiver, in UTC")]
    mechanism: Annotated[str | None, Key("name of the mechanism whose findings are waived; all mechanisms if absent")] = None
    epsilon: Annotated[
        float | None,
        Key("largest epsilon that the waiver allows; required for budget, increase and horizon", POSITIVE),
    ] = None

    def problems(self) -> Iterator[Problem]:
        """Yield the contradictions among the keys, and a problem for a rule that is neither a condition nor of the form of a code."""
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
        float | None, Key("largest allowed increase of epsilon over the base version, in nats", NON_NEGATIVE, safer="smaller")
    ] = None
    horizon: Annotated[Horizon | None, Key("planned repetition of the whole pipeline, and a cap on all runs together")] = None
    waiver: Annotated[tuple[Waiver, ...], Key("exceptions, one [[gate.waiver]] table each")] = ()


NO_GATE = Gate()


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps that apply in addition to those of a file. Of two caps, the smaller one holds."""

    epsilon: Annotated[float | None, Key("cap on epsilon; if the file's budget has a smaller one, that one holds", POSITIVE)] = None
    delta: Annotated[
        float | None,
        Key(
            "delta of the cap; if absent, the smallest stated delta; without epsilon, the largest delta at which a cap may hold",
            DELTA,
        ),
    ] = None
    max_increase: Annotated[
        float | None, Key("largest allowed increase of epsilon over the base version, in nats", NON_NEGATIVE)
    ] = None
    allow_statement_change: Annotated[
        bool | None,
        Key("true if a file may change the meaning of its epsilon, or loosen its own caps, compared with the base version"),
    ] = None
    rho: Annotated[float | None, Key("cap on rho in zCDP; if the file's budget has a smaller one, that one holds", POSITIVE)] = None
    max_increase_percent: Annotated[
        float | None,
        Key("largest allowed increase of epsilon over the base version, in percent; max_increase holds too", NON_NEGATIVE),
    ] = None
    warn_increase: Annotated[
        float | None, Key("increase of epsilon over the base version above which there is a warning, in nats", NON_NEGATIVE)
    ] = None
    warn_increase_percent: Annotated[
        float | None, Key("increase of epsilon over the base version above which there is a warning, in percent", NON_NEGATIVE)
    ] = None


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
    """Yield the problems of a table with paths from the top of the file."""
    for key, expected, actual in problems:
        yield (*table, *key), expected, actual
