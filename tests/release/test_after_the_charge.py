"""No refusal after the charge, whatever the data are: it would be an answer without noise."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dpcli.base.errors import DpcliError
from dpcli.release.aggregate import MOST_ROWS, Aggregation, GroupKey, Total, Totals, totals_of
from dpcli.release.query_answer import as_json
from dpcli.release.query_entries import PricedQuery
from tests.cases import of_each
from tests.release.tables.files import document, priced, queries

pytestmark = pytest.mark.needs("opendp")
EACH = of_each("table", [table for _, table in queries()], told=lambda table: f"{table['measure']} {table['name']}")
CONFIDENCES = (1e-300, 1.0 - 2e-11, 1.0 - 1e-16)
COSTS = (1e-6, 1e4)
SHARES = (1e-6, 0.333333, 0.3333333333333)


def stated(table: Mapping[str, Any], confidence: float, cost: float, share: float) -> Mapping[str, Any]:
    """The table with other numbers, where it has such."""
    kinds = {"epsilon": cost, "rho": cost, "quantile": share, "quantiles": [share, 0.5]}
    return {**table, "confidence": confidence, **{key: value for key, value in kinds.items() if key in table}}


def accepted(table: Mapping[str, Any]) -> PricedQuery | None:
    """The question, where nothing is said against it before the charge."""
    try:
        (one,) = priced(document(table, budget={"epsilon": 1e6}))
        one.query.expected_error(one.setting)
        one.query.answer(one.setting, totals_of((), one.query.aggregation(one.setting)))
    except DpcliError:
        return None
    return one


def tables(question: Aggregation, draw: random.Random) -> Iterator[Totals]:
    """Of few rows and of as many as a table may have, all at one end or spread."""
    domains = [_values(key) for key in question.keys]
    for rows, spread in itertools.product((1, 1000, MOST_ROWS), (False, True)):
        keys = list(itertools.islice(itertools.product(*domains), 3))
        sums = [(steps.minimum, steps.maximum) if steps.squared_about is None else (0, steps.furthest) for steps in question.values]
        found = {key: Total(rows, rows, tuple(rows * draw.choice(ends) for ends in sums)) for key in (keys if spread else keys[:1])}
        yield {**totals_of((), question), **found}


def _values(key: GroupKey) -> tuple[Any, ...]:
    if key.steps is not None:
        return key.steps.minimum, key.steps.maximum
    return key.declared or ("a", "b")


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["each", "product"])
@EACH
def test_what_is_accepted_is_answered(table: Mapping[str, Any], whole: bool) -> None:
    """With each of the numbers, and with all products of them."""
    draw, shares = random.Random(table["name"]), SHARES if "quantil" in str(table) else (0.5,)
    each = zip(CONFIDENCES, itertools.cycle(COSTS), itertools.cycle(shares), strict=False)
    for confidence, cost, share in itertools.product(CONFIDENCES, COSTS, shares) if whole else each:
        one = accepted(stated(table, confidence, cost, share))
        for totals in tables(one.query.aggregation(one.setting), draw) if one is not None else ():
            assert json.dumps(as_json(one.query.answer(one.setting, totals)), allow_nan=False)
