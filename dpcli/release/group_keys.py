"""The question of a query to an engine: its rows, its keys, and what is added up."""

from __future__ import annotations

import math
from dataclasses import replace

from dpcli.base.errors import InternalError
from dpcli.release.aggregate import Aggregation, GroupKey, Steps
from dpcli.release.data_source import Source, domain_of, stepped
from dpcli.release.query import NoisyQuery, Query, QuerySetting
from dpcli.release.query_answer import QueryAnswer


def aggregation_of(
    query: NoisyQuery, setting: QuerySetting, values: tuple[Steps, ...] = (), rows: int | None = None
) -> Aggregation:
    """Ask for a query by columns. rows: of a unit in a key, where it is not the query's own."""
    return aggregation_by(query, setting, group_keys(query, setting), values, query.groups, query.rows if rows is None else rows)


def aggregation_by(
    query: Query, setting: QuerySetting, keys: tuple[GroupKey, ...], values: tuple[Steps, ...], groups: int, rows: int
) -> Aggregation:
    """Ask for the query's rows, by these keys, bounded for each unit."""
    return Aggregation(setting.source.unit, query.where, keys, values, groups, rows)


def group_keys(query: NoisyQuery, setting: QuerySetting) -> tuple[GroupKey, ...]:
    """The columns of `by`, with their domains unless the data shall show them."""
    return tuple(column_key(setting, name, declared=not query.shows_keys) for name in query.by)


def column_key(setting: QuerySetting, name: str, declared: bool = True) -> GroupKey:
    """Use a column as a key. declared: whether its values are known without the data; others would show who is in them."""
    domain = domain_of(setting.source.columns[name], name, setting.folder) if declared else None
    if declared and not domain:
        raise InternalError(f'no values of "{name}" are declared: nothing was asked')
    return GroupKey(reference(name), domain)


def within_keys(query: Query, source: Source) -> Query:
    """Bound max_groups by the keys that the file declares: more would cost noise, and serve nobody."""
    columns = [source.columns[name] for name in getattr(query, "by", ())]
    bins = getattr(query, "bins", None)
    if query.max_groups is None or (query.keyed and not bins) or getattr(query, "shows_keys", False):
        return query
    if any(column.domain_file for column in columns):  # which is not there wherever the file is priced
        return query
    keys = math.prod(len(domain_of(column, "", "") or ()) for column in columns) * (len(bins) - 1 if bins else 1)
    return replace(query, max_groups=min(query.max_groups, keys))


def in_declared_order(answer: QueryAnswer, keys: tuple[GroupKey, ...], by: tuple[str, ...]) -> QueryAnswer:
    """The rows of an answer by columns in the order in which their values were declared, others (a total) last.

    by: of the query. Where the data show the keys, or the answer is by something else, it stays as it is.
    """
    domains = [key.domain for key in keys]
    if answer.by != by or len(by) != len(keys) or None in domains:
        return answer
    places = [{value: place for place, value in enumerate(domain or ())} for domain in domains]
    last = max(map(len, places), default=0)
    rows = sorted(answer.rows, key=lambda row: [known.get(value, last) for known, value in zip(places, row.key, strict=True)])
    return replace(answer, rows=tuple(rows))


def binned_key(name: str, edges: tuple[float, ...]) -> GroupKey:
    """A column of numbers as the number of its bin, from 0."""
    return GroupKey(reference(name), None, edges)


def stepped_key(source: Source, name: str) -> GroupKey:
    """A column of numbers as its whole number of steps, clamped."""
    return GroupKey(reference(name), steps=steps_of(source, name))


def steps_of(source: Source, name: str, squared: int | None = None) -> Steps:
    """A column as whole numbers of steps. squared: the centre, where squares of distances are added up."""
    values, missing = stepped(source, name), source.columns[name].missing
    return Steps(reference(name), values.least, values.most, values.step, missing, squared)


def reference(name: str) -> str:
    """A column in SQL by its name, of the data or computed: the engine knows which."""
    quoted = name.replace('"', '""')
    return f'"{quoted}"'
