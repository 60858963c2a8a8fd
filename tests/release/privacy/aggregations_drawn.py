"""Random tables with hostile values, and random aggregations of them, with the meaning of each expression in plain Python."""

from __future__ import annotations

import math
import random
from typing import Any

from dpcli.release.aggregate import Aggregation, GroupKey, Steps
from tests.release.privacy.brute import Asked

# Names of columns that need quotes in SQL.
STATE, WHO, AGE, PAID, VIP = 'state"; DROP TABLE rows; --', "who", "Age", "paid {0} %s", "VIP"
TYPES = {STATE: "text", WHO: "text", AGE: "integer", PAID: "decimal", VIP: "boolean"}
KEYS = ("CA", "ca", "é", "e\u0301", "it's", "", " CA")
UNITS = ["ann", "Ann", "bob", "b\u00f6b", "bo\u0308b", None, ""]
AGES = [None, -5, 0, 7, 40, 200, 2**62]
PAYMENTS = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.005, 12.34, -7.0, 1e308, -1e308, 5e-324, 99.995]


def table(draw: random.Random, count: int, units: list[str | None] | None = None) -> list[dict[str, Any]]:
    choices = {STATE: [None, *KEYS, "elsewhere"], WHO: units or UNITS, AGE: AGES, PAID: PAYMENTS, VIP: [None, True, False]}
    return [{name: draw.choice(values) for name, values in choices.items()} for _ in range(count)]


def quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) or abs(value) > 1.79e308 else value


def older(row: Any) -> bool | None:
    age, vip = row[AGE], row[VIP]
    known = None if age is None else age > 5
    return True if vip or known else None if None in (vip, known) else False


MEANINGS = {
    quoted(STATE): lambda row: row[STATE],
    quoted(AGE): lambda row: row[AGE],
    quoted(PAID): lambda row: finite(row[PAID]),
    quoted(VIP): lambda row: row[VIP],
    f"{quoted(AGE)} > 5 or {quoted(VIP)}": older,
}


def aggregation(draw: random.Random, unit: bool | None = None) -> Asked:
    grouped = [
        GroupKey(quoted(STATE), draw.choice([None, KEYS, KEYS[:2]])),
        GroupKey(quoted(VIP), draw.choice([None, (False, True)])),
        GroupKey(quoted(AGE), draw.choice([None, (0, 7, 40), tuple(range(50))])),
        GroupKey(
            quoted(PAID), bins=draw.choice([tuple(map(float, range(-9, 61))), (0.0, 12.34), (-8.0, -7.0, 0.0, 12.34, 99.995)])
        ),
        GroupKey("", steps=Steps(quoted(PAID), -3, 4, 2.5, draw.choice([None, 1.0]))),
    ]
    added = [
        Steps(quoted(AGE), draw.choice([0, 5]), 115, 1.0, draw.choice([None, 7.0])),
        Steps(quoted(AGE), -3, 30, 3.0),
        Steps(quoted(PAID), -1000, 20_000, 0.01, draw.choice([None, 0.0])),
        Steps(quoted(PAID), -1000, 20_000, 0.01, None, squared_about=9500),
    ]
    kind = draw.choice(["rows", "rows", "totals", "values"])
    (counted,) = draw.sample(grouped[:3], 1)
    if kind != "rows":
        grouped.pop()  # the steps
    if kind == "values":
        grouped.remove(counted)
    keys = tuple(draw.sample(grouped, draw.choice([0, 1, 1, 2])))
    return Asked(
        Aggregation(
            WHO if (draw.random() < 0.8 if unit is None else unit) else None,
            draw.choice([None, f"{quoted(AGE)} > 5 or {quoted(VIP)}"]),
            keys,
            () if kind == "values" or any(key.steps for key in keys) else tuple(draw.sample(added, draw.choice([0, 1, 2]))),
            draw.choice([1, 2, 50]),
            draw.choice([1, 2, 50]),
            draw.choice([(0, 900), (-40, 3), (5, 7), (-(2**61), 2**61)]) if kind == "totals" else None,
            counted if kind == "values" else None,
        ),
        MEANINGS,
    )
