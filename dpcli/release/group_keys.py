"""The aggregations that queries ask an engine for: their keys and sums, and the order of the answers.

An *aggregation* (aggregate.py) is the question to an engine: exact sums for each key, after the rows of each unit were limited. A *key* is
a combination of values of the columns in `by`; a *unit* is whom the release protects, with all of its rows. The measures call these
functions, which turn their settings into `GroupKey` (a part of a key) and `Steps` (a value in whole steps).

Keys are declared in [source.columns], so that a key without rows has an answer too, or come from the data: then a stability histogram, a
threshold on noisy counts, decides which are shown (`shows_keys`). A *domain file* is a public file that lists the keys of a column. Answers
are in the declared order, and other keys are sorted, since the order in which an engine returns keys might reveal something. The
sensitivity assumes that a unit counts in at most `groups` keys with at most `rows` rows in each; the aggregation must state the same
bounds, or the noise is too small.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from dpcli.base.errors import InternalError
from dpcli.base.rounding import counted
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.aggregate import MOST_ROWS, Aggregation, GroupKey, KeyValue, Steps, Total, Totals, quoted
from dpcli.release.column_values import declared_keys_of, stepped_range
from dpcli.release.data_source import Source, stored_columns
from dpcli.release.query import NoisyQuery, Query, QuerySetting
from dpcli.release.query_answer import AnswerRow, QueryAnswer


def aggregation_of(query: NoisyQuery, setting: QuerySetting, values: tuple[Steps, ...] = ()) -> Aggregation:
    """Return the aggregation of a query whose keys are the columns of `by`, with the sums of these values.

    If another setting than max_rows bounds a unit (`replaces_max_rows`), all of its rows count: max_rows of the aggregation is the most
    that a table may have. If a unit has more than max_groups keys, each of them is then equally likely to be kept: an engine draws a key of
    n rows with a probability proportional to n / min(n, max_rows), which is 1 for every key.
    """
    rows = query.rows if query.replaces_max_rows is None else MOST_ROWS
    return replace(aggregation_by(query, setting, group_keys(query, setting)), values=values, max_rows=rows)


def aggregation_by(query: Query, setting: QuerySetting, keys: tuple[GroupKey, ...]) -> Aggregation:
    """Return the aggregation of a query that counts rows by these keys, within the query's bounds on a unit."""
    return Aggregation(
        setting.source.unit,
        query.where,
        keys,
        values=(),
        max_groups=query.groups,
        max_rows=query.rows,
        filled_columns=filled_columns(setting),
    )


def filled_columns(setting: QuerySetting) -> tuple[str, ...]:
    """Return the columns in at least one of which a row must have a value to count; none if every row may count.

    Under zero-out, if each row is a unit, neighbouring tables differ by a row whose cells are all blanked. So that blanking a row changes
    every number as removing it does, a row whose declared columns are all empty does not count, even where a column or an expression has a
    value for an empty cell. If no declared column is stored in the table, rows are alike, and blanking one changes no number.
    """
    if setting.adjacency is not Adjacency.ZERO_OUT or setting.source.unit is not None:
        return ()
    return stored_columns(setting.source.columns, setting.source.join)


def group_keys(query: Query, setting: QuerySetting) -> tuple[GroupKey, ...]:
    """Return the columns of `by` as keys. They have their declared values, unless the query takes the values from the data."""
    return tuple(column_key(setting, name, declared=not query.shows_keys) for name in query.by)


def column_key(setting: QuerySetting, name: str, declared: bool = True) -> GroupKey:
    """Return a column as a key. declared: whether only declared values count; other values would reveal who is in the data.

    Raises InternalError if only declared values count, and the column declares none.
    """
    domain = declared_keys_of(setting.source.columns[name], name, setting.folder) if declared else None
    if declared and not domain:
        raise InternalError(f'no values of "{name}" are declared: the query was not run')
    return GroupKey(quoted(name), domain)


def limited_to_keys(query: Query, source: Source) -> Query:
    """Return the query with max_groups reduced to the number of declared keys, since a larger bound only adds noise.

    The query is returned unchanged if it states no max_groups, or if its keys are not all declared in the file by `by` and `bins`.
    """
    edges = getattr(query, "bins", ())  # only a histogram has bins, whose edges these are
    has_other_keys = (query.keyed and not edges) or query.shows_keys  # `keyed`: the answer has keys that are not values of `by`
    key_count = declared_key_count(query, source)
    if query.max_groups is None or has_other_keys or key_count is None:
        return query
    if edges:
        key_count *= len(edges) - 1
    return replace(query, max_groups=min(query.max_groups, key_count))


def declared_key_count(query: Query, source: Source) -> int | None:
    """Return the number of keys that the columns of `by` declare in the pipeline file; 1 without `by`.

    The result is None if a domain file lists some of them: the price of a query must not depend on a file that may be missing.
    """
    columns = [source.columns[name] for name in query.by]
    if any(column.domain_file for column in columns):
        return None
    # The name and the folder are used for domain files alone, and no column here has one.
    return math.prod(len(declared_keys_of(column, name="", folder="") or ()) for column in columns)


def changed_keys(query: Query, setting: QuerySetting) -> int:
    """Return the largest number of keys of `by` in which one change of the data changes rows that count; 1 without `by`.

    A unit counts in at most max_groups keys. If it is replaced, its new rows may count in as many others.
    """
    if not query.by:
        return 1
    most = 2 * query.groups if setting.adjacency is Adjacency.REPLACE_ONE else query.groups
    declared = declared_key_count(query, setting.source)
    return most if declared is None else min(most, declared)


def changed_words(query: Query, setting: QuerySetting) -> str:
    """Return words for the keys of `by` in which one change of the data changes rows that count; "" without `by`."""
    if not query.by:
        return ""
    return f", in at most {counted(changed_keys(query, setting), 'key')} of {', '.join(query.by)}"


def totals_by_key(query: Query, setting: QuerySetting, totals: Totals) -> dict[tuple[KeyValue, ...], Totals]:
    """Return the totals of each declared key of `by`, in the declared order. Its totals have the rest of the key as keys, such as a value.

    totals: totals whose keys begin with the columns of `by`.
    """
    length = len(query.by)
    split: dict[tuple[KeyValue, ...], dict[tuple[KeyValue, ...], Total]]
    split = {key: {} for key in itertools.product(*(key.domain or () for key in group_keys(query, setting)))}
    for key, total in totals.items():
        split[key[:length]][key[length:]] = total
    return dict(split)


def in_declared_order(answer: QueryAnswer, keys: tuple[GroupKey, ...], by: tuple[str, ...]) -> QueryAnswer:
    """Return the answer with its rows in the declared order of their keys. Rows with other keys, such as a total, come last.

    An answer whose keys come from the data, or are not the columns of `by`, is returned unchanged.
    """
    domains = [key.domain for key in keys]
    if answer.by != by or len(by) != len(keys) or None in domains:
        return answer
    places = [{value: place for place, value in enumerate(domain or ())} for domain in domains]
    last = max(map(len, places), default=0)  # the place of a value that is in no domain

    def places_of(row: AnswerRow) -> list[int]:
        return [order.get(value, last) for order, value in zip(places, row.key, strict=True)]

    return replace(answer, rows=tuple(sorted(answer.rows, key=places_of)))


def stepped_key(source: Source, name: str) -> GroupKey:
    """Return a key that is the clamped value of a numeric column, in whole steps."""
    return GroupKey(quoted(name), steps=steps_of(source, name))


def steps_of(source: Source, name: str, squared_about: int | None = None) -> Steps:
    """Return a numeric column in whole steps. squared_about: centre, in steps, of squared distances; None to sum the values themselves."""
    values, missing = stepped_range(source, name), source.columns[name].missing
    return Steps(quoted(name), values.least, values.most, values.step, missing, squared_about)
