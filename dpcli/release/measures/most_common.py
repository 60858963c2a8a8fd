"""The measures top-k and mode: the most common values of a column. A mode by propose-test-release needs no declared values.

A *choice* releases a value and not its count. It compares counts, so its cost follows from the largest change of the difference of two
counts (`score_range`) when one *unit* changes, that is, somebody whom the release protects, with all rows. Values that are declared in
[source.columns] can all be chosen. A value from the data may only be shown after a noisy test, which costs a delta. A unit counts with at
most `rows` rows (max_rows) for each *key*, a combination of values of `by` and the column, and with at most max_groups keys.

The fields of each class are the settings of a [[query]] table with its measure; `Key` has a setting's line in the manual and its
constraint, and `examples` has tables for tests. query.py says in which order `dpcli release` calls the methods: `problems` and `needs`
check the table and yield (path of a setting, what was expected, what was found), `mechanisms` returns the choices to price, `aggregation`
the exact counts to ask an engine for, and `answer` the chosen values. `setting` has what they depend on outside of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import DELTA, Constraint, Key, NeededSetting
from dpcli.file.toml.findings import Problem
from dpcli.release.aggregate import KeyValue
from dpcli.release.answers.choice_error import peeling_slack
from dpcli.release.column_values import declared_keys_of
from dpcli.release.data_source import Source
from dpcli.release.group_keys import aggregation_by, changed_keys, changed_words, column_key, group_keys, totals_by_key
from dpcli.release.noise.selection import choice_scale, count_range
from dpcli.release.noisy_answers import sort_key
from dpcli.release.query import BY, MEASURE, Query, QueryMechanism, QuerySetting, key_type_problems, undeclared_problem
from dpcli.release.query_answer import AnswerRow, QueryAnswer

if TYPE_CHECKING:
    from dpcli.release.aggregate import Aggregation, Totals


MOST_CHOSEN = 10_000  # largest `top`; arbitrary; each choice is priced, so it bounds the work
TOP = Constraint(
    f"a whole number from 1 to {MOST_CHOSEN}", lambda x: 1 <= x <= MOST_CHOSEN, (("minimum", 1), ("maximum", MOST_CHOSEN))
)
VALUES = Key("column whose values are counted")
# The setting without which delta has no effect.
OF_TEST = NeededSetting('method = "propose-test-release"', lambda query: query.uses_test)
# For messages about a column without declared values: how to ask for its mode, and how to ask for its most common values.
ADVISED_TEST = 'method = "propose-test-release" in the query, which answers if the lead is large'
ADVISED_COUNT = (
    'measure = "count" with by = [{}] and keys = "threshold", which shows values that enough units have, with their counts'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuery(Query):
    """A measure that releases common values of a column, but not their counts."""

    keyed: ClassVar[bool] = True  # the answer has a row for each value, so it has keys even without `by`

    column: Annotated[str, VALUES]
    by: Annotated[tuple[str, ...], BY] = ()

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from Query.needs(self, source)
        yield from self.key_problems(source)
        yield from self.column_in_by_problems()

    def score_range(self, setting: QuerySetting) -> int:
        """Return the largest change of the difference of two counts when one unit changes."""
        return count_range(self.rows, setting.adjacency)

    def choice_mechanism(self, setting: QuerySetting, kind: str, choices: int = 1) -> QueryMechanism:
        """Return the mechanism of type `kind` that makes this many choices for each key of `by`.

        It is priced as one run for each choice that a unit can change: those of the keys of `by` in which the unit counts.
        """
        assert setting.cost is not None  # only a NoisyQuery may state an error in place of a cost
        runs, score_range = choices * changed_keys(self, setting), self.score_range(setting)
        cost = setting.cost if runs == 1 else setting.cost.share(1.0 / runs)
        epsilon = cost.bounded_range_epsilon  # the stated epsilon, or the one whose bounded range implies the stated rho
        choice_scale(score_range, epsilon)  # raises InputError if no sampler supports the scale
        why = (
            f"one unit adds at most {self.rows:,} to a count{changed_words(self, setting)}: the difference of two counts changes by at "
            f"most {score_range:,}",
            f"{'one choice' if runs == 1 else f'each of {runs:,} choices'} by {kind} at epsilon {epsilon:.6g}",
        )
        return QueryMechanism("", kind, {"epsilon": epsilon}, why, runs=runs)

    def aggregation_of_values(self, setting: QuerySetting, declared: bool = True) -> Aggregation:
        """Return the numbers of rows with each value, for each key of `by`. declared: whether only declared values count."""
        return aggregation_by(self, setting, (*group_keys(self, setting), column_key(setting, self.column, declared=declared)))

    def expected_error(self, setting: QuerySetting) -> str:
        """Return a description of how far the count of each chosen value may be below the largest remaining count.

        Raises InputError if a domain file has fewer values than are to be chosen.
        """
        (mechanism,) = self.mechanisms(setting)
        domain = declared_keys_of(setting.source.columns[self.column], self.column, setting.folder) or ()
        scale = self.score_range(setting) / mechanism.keys["epsilon"]
        choices = mechanism.runs // changed_keys(self, setting)  # of one key
        if domain and choices > len(domain):
            file = setting.source.columns[self.column].domain_file
            raise InputError(f'query "{self.name}": top: expected at most the {len(domain):,} values in {file}, found {choices:,}')
        distance = peeling_slack(max(len(domain), 1), choices, scale, 1.0 - self.confidence)
        return f"each count is within {distance:,} of the largest remaining count, with probability {self.confidence:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopQuery(ChoiceQuery):
    """The k most common values of a column, in the order in which they were chosen. Their counts are not released.

    Each value is chosen by the exponential mechanism among the remaining values (peeling).
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "city", "top": 3, "rho": 0.05, "max_groups": 2, "max_rows": 1},
        {"column": "city", "top": 2, "by": ["state"], "rho": 0.05, "max_groups": 2, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "top-k"
    top: Annotated[int, Key("number of values to choose", TOP)]

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from ChoiceQuery.needs(self, source)
        names = ", ".join(f'"{name}"' for name in (*self.by, self.column))
        yield from choice_problems(source, self.column, ADVISED_COUNT.format(names))
        column = source.columns.get(self.column)
        if column is None or column.domain_file is not None:
            return  # `expected_error` reads the file
        values = len(declared_keys_of(column, self.column, "") or ())
        if 0 < values < self.top:
            yield ("top",), f'at most the {values:,} values that "{self.column}" may have', str(self.top)

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        return (self.choice_mechanism(setting, "exponential", self.top),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return self.aggregation_of_values(setting)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        from dpcli.release.noise.selection import top_k

        (mechanism,) = self.mechanisms(setting)
        rows: list[AnswerRow] = []
        for key, value_totals in totals_by_key(self, setting, totals).items():
            values = sorted(value_totals, key=sort_key)
            counts = [value_totals[value].rows for value in values]
            chosen = top_k(counts, self.top, self.score_range(setting), mechanism.keys["epsilon"])
            rows += (AnswerRow((*key, place), values[index][0]) for place, index in enumerate(chosen, start=1))
        key_names = (*self.by, "place")
        return QueryAnswer(self.name, self.measure, key_names, tuple(rows), self.confidence, self.expected_error(setting))


def choice_problems(source: Source, column: str, otherwise: str = "") -> Iterator[Problem]:
    """Yield a problem if a query chooses among the values of a column and these are not declared, or cannot be keys.

    otherwise: clause for the message that says how to ask about undeclared values; "" if it is impossible.
    """
    if column not in source.columns:
        return
    type_problems = tuple(key_type_problems(source.columns[column], column, ("column",)))
    yield from type_problems
    if not (type_problems or source.columns[column].declares_keys):
        yield undeclared_problem(source.columns[column], column, ("column",), "values", otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeQuery(ChoiceQuery):
    """The most common value of a column.

    noisy-max chooses among the declared values. propose-test-release needs no domain. It adds noise to the number of units that would have
    to change before another value became the most common, and answers only if the noisy number is large. Otherwise the answer is none.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"column": "city", "epsilon": 0.5, "max_groups": 1, "max_rows": 1},
        {"column": "name", "method": "propose-test-release", "epsilon": 0.5, "delta": 1e-6, "max_groups": 1, "max_rows": 1},
        {"column": "city", "by": ["state"], "epsilon": 0.5, "max_groups": 1, "max_rows": 1},
    )

    measure: Annotated[str, MEASURE] = "mode"
    method: Annotated[
        Literal["noisy-max", "propose-test-release"],
        Key("mechanism: noisy-max over declared values, or propose-test-release over any values"),
    ] = "noisy-max"
    delta: Annotated[float | None, Key("largest probability of an answer that one unit could change", DELTA, needs=OF_TEST)] = None

    @property
    def uses_test(self) -> bool:
        return self.method == "propose-test-release"

    def problems(self) -> Iterator[Problem]:
        yield from Query.problems(self)
        if self.uses_test and not self.delta:
            yield ("delta",), "a delta above 0 with propose-test-release", "none"
        if self.uses_test and self.by:
            yield ("by",), 'no keys with propose-test-release, or method = "noisy-max"', ", ".join(self.by)

    def needs(self, source: Source) -> Iterator[Problem]:
        yield from ChoiceQuery.needs(self, source)
        if not self.uses_test:
            yield from choice_problems(source, self.column, "" if self.by else ADVISED_TEST)
        elif self.column in source.columns:
            yield from key_type_problems(source.columns[self.column], self.column, ("column",))

    def mechanisms(self, setting: QuerySetting) -> tuple[QueryMechanism, ...]:
        assert setting.cost is not None
        if self.uses_test:
            epsilon = setting.cost.pure_epsilon
            why = (
                "one unit changes by at most 1 the number of units that must change for another answer",
                f"a test of this number at epsilon {epsilon:.6g}",
            )
            return (QueryMechanism("", "propose-test-release", {"epsilon": epsilon, "delta": self.delta}, why),)
        # At the same epsilon, permute-and-flip is never less accurate. But the exponential mechanism has bounded range, so that the same
        # rho allows it a larger epsilon (`bounded_range_epsilon`).
        return (self.choice_mechanism(setting, "permute-and-flip" if setting.cost.pure else "exponential"),)

    def aggregation(self, setting: QuerySetting) -> Aggregation:
        return self.aggregation_of_values(setting, declared=not self.uses_test)

    def answer(self, setting: QuerySetting, totals: Totals) -> QueryAnswer:
        choose = self._most_common_if_stable if self.uses_test else self._noisy_most_common
        rows = []
        for key, value_totals in totals_by_key(self, setting, totals).items():
            chosen = choose(setting, {value: value_totals[value].rows for value in sorted(value_totals, key=sort_key)})
            rows.append(AnswerRow(key, None if chosen is None else chosen[0]))  # `chosen` is a key with one part, the value
        return QueryAnswer(self.name, self.measure, self.by, tuple(rows), self.confidence, self.expected_error(setting))

    def _noisy_most_common(self, setting: QuerySetting, counts: Mapping[tuple[KeyValue, ...], int]) -> tuple[KeyValue, ...]:
        """Return a value with a high count: by permute-and-flip at a pure epsilon, and by the exponential mechanism at a rho."""
        from dpcli.release.noise.selection import exponential, permute_and_flip

        (mechanism,) = self.mechanisms(setting)
        choose = permute_and_flip if setting.cost is not None and setting.cost.pure else exponential
        index = choose(list(counts.values()), self.score_range(setting), mechanism.keys["epsilon"])
        return list(counts)[index]

    def _most_common_if_stable(
        self, setting: QuerySetting, counts: Mapping[tuple[KeyValue, ...], int]
    ) -> tuple[KeyValue, ...] | None:
        """Return the most common value if propose-test-release finds that it is stable; None otherwise."""
        from dpcli.release.noisy_answers import laplace_draw
        from dpcli.release.stability.propose_test import StabilityTest, released_mode

        (mechanism,) = self.mechanisms(setting)
        test = StabilityTest(mechanism.keys["epsilon"], mechanism.keys["delta"])
        return released_mode(counts, test, laplace_draw, setting.adjacency, self.rows)

    def expected_error(self, setting: QuerySetting) -> str:
        if self.uses_test:
            return "the answer, if there is one, is right; there is none if few units could change it"
        return ChoiceQuery.expected_error(self, setting)
