"""The aggregations that queries ask an engine for: their keys and sums, and the order of the answers.

A *key* is a combination of values of the columns in `by`. Keys come from declarations, so that an absent key has an answer too, or from a
stability histogram, which is paid for. Answers are in the order of the declarations, and other keys are sorted: the order in which an
engine returns keys might reveal something. What the sensitivity assumes of a unit (`groups`, `rows`, a clipped total), an aggregation must
enforce.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from dpcli.base.errors import InternalError
from dpcli.base.rounding import counted
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.aggregate import Aggregation, GroupKey, KeyValue, Steps, Total, Totals, quoted
from dpcli.release.column_values import declared_keys_of, stepped_range
from dpcli.release.data_source import Source, stored_columns
from dpcli.release.query import NoisyQuery, Query, QuerySetting
from dpcli.release.query_answer import AnswerRow, QueryAnswer


def aggregation_of(
    query: NoisyQuery, setting: QuerySetting, values: tuple[Steps, ...] = (), rows: int | None = None
) -> Aggregation:
    """Return the aggregation of a query whose keys are the columns of `by`.

    rows: largest number of rows of a unit in a key; None for the query's own number.
    """
    return aggregation_by(query, setting, group_keys(query, setting), values, query.groups, query.rows if rows is None else rows)


def aggregation_by(
    query: Query, setting: QuerySetting, keys: tuple[GroupKey, ...], values: tuple[Steps, ...], groups: int, rows: int
) -> Aggregation:
    """Return the aggregation of a query with these keys, sums and bounds on a unit."""
    return Aggregation(setting.source.unit, query.where, keys, values, groups, rows, filled=filled(setting))


def filled(setting: QuerySetting) -> tuple[str, ...]:
    """Return the columns in at least one of which a row must have a value to count; none if every row may count.

    Under zero-out, a row that is a unit of its own does not count if all its declared columns are empty. So a row that is blanked changes
    every number as a row that is removed does, even where a column or an expression has a value for an empty cell. If no column is stored,
    rows are alike, and a row that is blanked changes no number.
    """
    if setting.adjacency is not Adjacency.ZERO_OUT or setting.source.unit is not None:
        return ()
    return stored_columns(setting.source.columns, setting.source.join)


def group_keys(query: Query, setting: QuerySetting) -> tuple[GroupKey, ...]:
    """Return the columns of `by` as keys. They have their declared values, unless the query takes the values from the data."""
    return tuple(column_key(setting, name, declared=not query.shows_keys) for name in query.by)


def column_key(setting: QuerySetting, name: str, declared: bool = True) -> GroupKey:
    """Return a column as a key. declared: whether only declared values count, as other values would reveal who is in the data.

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
    edges = getattr(query, "bins", ())
    has_other_keys = (query.keyed and not edges) or query.shows_keys
    keys = declared_key_count(query, source)
    if query.max_groups is None or has_other_keys or keys is None:
        return query
    if edges:
        keys *= len(edges) - 1
    return replace(query, max_groups=min(query.max_groups, keys))


def declared_key_count(query: Query, source: Source) -> int | None:
    """Return the number of keys that the columns of `by` declare in the file; 1 without `by`, and None if another file declares some.

    The price of a query must not depend on a file that may be missing.
    """
    columns = [source.columns[name] for name in query.by]
    if any(column.domain_file for column in columns):
        return None
    return math.prod(len(declared_keys_of(column, "", "") or ()) for column in columns)


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
    """Return the totals of each declared key of `by`, in the declared order, by the rest of the key.

    totals: Totals whose keys begin with the columns of `by`.
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
    last = max(map(len, places), default=0)

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
