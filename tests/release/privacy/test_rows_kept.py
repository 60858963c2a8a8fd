"""Which rows of a unit count is drawn: every row has the same chance, whatever its values are, in every measure and engine.

In a sum, the mean of a unit's rows counts instead, which is rounded at random.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from dpcli.release.aggregate import MOST_ROWS, Aggregation, GroupKey, Steps, Totals
from dpcli.release.engines import sql_statement as statements
from dpcli.release.engines.source_engine import open_source
from dpcli.release.engines.sql_engine import SqlEngine
from dpcli.release.plugin import MEASURES
from dpcli.release.query_entries import PricedQuery
from tests.cases import fresh_random
from tests.release.privacy.brute import Asked, integer_of, part_of
from tests.release.tables.files import COLUMNS, document, priced, queries
from tests.release.tables.places import Table, cluster_of, everywhere, made, source_of

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
UNITS = 600
RARE = 1e-7  # of a chance that is as it should be
TYPES = {name: str(column["type"]) for name, column in COLUMNS.items()}
COMMON = {"state": "CA", "city": "A", "name": "x", "age": 20, "spent": 1.0}
OTHER = {"state": "NY", "city": "B", "name": "y", "age": 90, "spent": 400.07}
COPIES = 19  # of the common row, beside one other
MEANINGS = {f'"{name}"': lambda row, name=name: row.get(name) for name in TYPES} | {
    "age >= 18": lambda row: row["age"] >= 18,
}


def questions() -> Iterator[PricedQuery]:
    """Every example of every measure, with one row of a unit."""
    for _, table in queries():
        bound = {key: 1 for key in ("max_groups", "max_rows") if key in table}
        yield from priced(document({**table, **bound}))


@contextmanager
def told_apart(place: str, rows: Sequence[Mapping[str, Any]], folder: Path, request: pytest.FixtureRequest) -> Iterator[SqlEngine]:
    """The engine on these rows of each of many units, in any order."""
    chance = fresh_random()
    units = [f"{chance.randrange(10**9)}-{number}" for number in range(UNITS)]
    every = [{"visitor": unit, **row} for unit in units for row in rows]
    chance.shuffle(every)
    source = source_of(place, Table(TYPES, every), made(folder / "rows"), cluster_of(place, request), "visitor")
    with open_source(source, str(folder / "rows" / "file.toml")) as engine:
        yield engine


def others_kept(question: Aggregation, totals: Totals, of_units: bool) -> tuple[int, int, float] | None:
    """How many rows are the other one, how many there are, and the chance of each; None where the two are the same to a query.

    Of a sum: how many units have a mean that was rounded up.
    """
    meant = Asked(question, MEANINGS)
    common, other = (tuple(part_of(meant, key, row) for key in question.keys) for row in (COMMON, OTHER))
    kept = {key: total.units if of_units else total.rows for key, total in totals.items()}
    if common != other:
        return kept.get(other, 0), sum(kept.values()), 0.5 if of_units else 1 / (COPIES + 1)
    for place, steps in enumerate(question.values):
        low, high = (integer_of(meant, steps, row) for row in (COMMON, OTHER))
        if low != high:
            assert low is not None and high is not None
            keys = [common] if common in totals else list(totals)  # by unit, each has a key of its own
            count = sum(kept[key] for key in keys)
            least, rest = divmod(COPIES * low + high, COPIES + 1)
            return sum(totals[key].sums[place] for key in keys) - count * least, count, rest / (COPIES + 1)
    return None


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("place", everywhere("spark-csv"))
def test_one_row_of_a_unit_is_any_of_its_rows(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Of twenty, nineteen of which are alike. Where units are counted it is one of two keys."""
    told, secret = set(), random.randbytes(32)
    with told_apart(place, [*[COMMON] * COPIES, OTHER], tmp_path, request) as engine:
        for one in questions():
            question = one.query.aggregation(one.setting)
            of_units = question.max_rows == MOST_ROWS  # all rows of a key count
            if question.distinct is not None or (of_units and not question.keys):
                continue
            kept = others_kept(question, engine.totals(question, secret), of_units)
            if kept is not None:
                assert kept[1] == UNITS and stats.binomtest(*kept).pvalue > RARE, (place, one.query, kept, secret.hex())
                told.add(one.query.measure)
    assert told == set(MEASURES) - {"distinct"}


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("place", everywhere("spark-csv"))
def test_one_value_of_a_unit_is_any_of_its_values(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each unit has a value of its own in one row, and one that all have in many: it keeps either as often, however many have it."""
    secret, units = random.randbytes(32), [f"{random.randrange(10**9)}-{number}" for number in range(UNITS)]
    rows = [{"visitor": unit, **COMMON, "name": name} for unit in units for name in [*["x"] * COPIES, unit]]
    source = source_of(place, Table(TYPES, rows), made(tmp_path / "rows"), cluster_of(place, request), "visitor")
    question = Aggregation("visitor", None, (GroupKey("state"),), (), 1, 1, distinct=GroupKey("name"))
    with open_source(source, str(tmp_path / "rows" / "file.toml")) as engine:
        ((_, total),) = engine.totals(question, secret).items()
        both = engine.totals(replace(question, max_rows=2), secret)
    assert stats.binomtest(total.rows - 1, UNITS, 0.5).pvalue > RARE, (place, total.rows, secret.hex())
    assert {key: each.rows for key, each in both.items()} == {("CA",): UNITS + 1}


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize("place", everywhere("spark-csv"))
def test_a_part_of_a_sum_stays_between_what_as_many_rows_add(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Of each unit that has up to four rows of four values."""
    secret = random.randbytes(32)
    units = [values for size in range(1, 5) for values in itertools.combinations_with_replacement(range(-2, 2), size)]
    rows = [{"visitor": str(values), "age": value} for values in units for value in values]
    source = source_of(
        place, Table({"visitor": "text", "age": "integer"}, rows), made(tmp_path / "rows"), cluster_of(place, request), "visitor"
    )
    steps = (Steps("age", -2, 1, 1.0), Steps("age", -2, 1, 1.0, squared_about=1))
    with open_source(source, str(tmp_path / "rows" / "file.toml")) as engine:
        for most in (1, 2, 3):
            totals = engine.totals(Aggregation("visitor", None, (GroupKey("visitor"),), steps, 1, most), secret)
            for values in units:
                total, counted = totals[str(values),], min(len(values), most)
                assert (total.units, total.rows) == (1, counted)
                for bounded, each in zip(total.sums, (values, [(value - 1) ** 2 for value in values]), strict=True):
                    case = (place, most, values, bounded, secret.hex())
                    assert counted * min(each) <= bounded <= counted * max(each), case
                    assert abs(bounded * len(each) - counted * sum(each)) < len(each), case


ROWS = {"a": (0, 0, 0, 0, 1), "b": (2, 2, 2, 3), "c": (4,)}


def chances(groups: int, rows: int) -> dict[tuple[str, int], float]:
    """Of each value of each key, expected rows of one unit: keys are drawn one after the other."""
    weight = {key: len(values) / min(len(values), rows) for key, values in ROWS.items()}
    chosen: Counter[str] = Counter()
    for order in itertools.permutations(weight, groups):
        left, p = dict(weight), 1.0
        for key in order:
            p *= left.pop(key) / sum([left.get(other, 0.0) for other in weight] + [weight[key]])
        chosen.update(dict.fromkeys(order, p))
    return {
        (key, value): chosen[key] * min(len(values), rows) * values.count(value) / len(values)
        for key, values in ROWS.items()
        for value in set(values)
    }


@pytest.mark.sampled(2, 1)
@pytest.mark.parametrize("place", everywhere("spark-parquet"))
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (1, 2), (2, 1), (2, 3), (3, 2), (1, 9)])
def test_rows_are_drawn_as_is_said(place: str, groups: int, rows: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each in its key alike; where there is one key, each over all keys alike."""
    secret = random.randbytes(32)
    table = [{**COMMON, "state": key, "age": value} for key, values in ROWS.items() for value in values]
    keys = (GroupKey("state", tuple(ROWS)), GroupKey("", steps=Steps("age", 0, 4, 1.0)))
    with told_apart(place, table, tmp_path, request) as engine:
        totals = engine.totals(Aggregation("visitor", None, keys, (), groups, rows), secret)
    expected = chances(groups, rows)
    if groups == 1:
        assert len({round(p / ROWS[key].count(value), 12) for (key, value), p in expected.items()}) == 1
    assert totals.keys() <= expected.keys()
    for (key, value), p in expected.items():
        seen = totals[key, value].rows if (key, value) in totals else 0
        spread = math.sqrt(UNITS * min(rows, ROWS[key].count(value)) * p)
        assert abs(seen - UNITS * p) <= 5.5 * spread + 1e-9, (place, groups, rows, key, value, seen, UNITS * p, secret.hex())


@pytest.mark.long
def test_texts_that_run_into_each_other_are_drawn_apart(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What separates texts may be in them: keys that were hashed to one number would be kept or left out together."""
    secret = random.randbytes(32)
    pairs = [("p|q", "r"), ("p", "q|r"), ("p", "q")]
    table = [{**COMMON, "state": state, "city": city} for state, city in pairs]
    question = Aggregation("visitor", None, (GroupKey("state"), GroupKey("city")), (), 2, 1)
    with told_apart("parquet", table, tmp_path, request) as engine:
        found = engine.totals(question, secret)
    for pair in pairs:
        assert stats.binomtest(found[pair].units, UNITS, 2 / 3).pvalue > RARE, (pair, found[pair].units, secret.hex())


def of_secret(columns: Sequence[str], dialect: Any, secret: bytes) -> str:
    """One number for every unit."""
    return str(dialect.digest(dialect.text(secret.hex())))


def test_units_with_one_hash_are_seen(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_hash_of", of_secret)
    with pytest.raises(AssertionError, match="'csv'"):
        test_one_row_of_a_unit_is_any_of_its_rows("csv", tmp_path, request)


def of_values(columns: Sequence[str], dialect: Any, secret: bytes) -> str:
    texts = (dialect.text(secret.hex()), *(dialect.cast(column, "text") for column in columns))
    return str(dialect.digest(" || '|' || ".join(texts)))


def test_keys_that_are_drawn_alike_are_seen(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their rows are."""
    monkeypatch.setattr(statements, "_random_rank", lambda columns, most, dialect, secret: of_values(columns, dialect, secret))
    with pytest.raises(AssertionError, match="'csv'"):
        test_rows_are_drawn_as_is_said("csv", 1, 1, tmp_path, request)
