"""The word "calibrate" in place of a number in a pipeline file, and the numbers that replace it.

A file says "calibrate" where dpcli is to compute the number from the budget, or { calibrate = { weight = 2.0 } }, whose *weight* says how
several such numbers share the cost. read.py replaces it before it checks a file: by a number that the caller of `load` gives
(`with_number`), or by a placeholder, with which the file can be checked before the number is known (`with_placeholders`). A calibration
then replaces the placeholder by the numbers that it tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpcli.file.keys.kinds import calibration_weight
from dpcli.file.pipeline.series import numbers_in, with_value
from dpcli.file.toml.findings import Path

COUNT_KEYS = frozenset({"steps", "batch_size"})  # keys whose value must be an int, although the number that replaces it is a float
# Keys of noise that is stated in units of the query, and keys of its sensitivity. Some mechanism types refuse noise that is much smaller
# than the sensitivity, and would refuse a placeholder of 1.
NOISE_KEYS = frozenset({"sigma", "scale"})
SENSITIVITY_KEYS = ("sensitivity", "l2_sensitivity", "max_rows")


def find_calibrate(tables: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """Return the numeric keys whose value is "calibrate", with or without a weight, as (index of the mechanism, key).

    A key of the sampling table is written "sampling.KEY".
    """
    return tuple((index, ".".join(map(str, path))) for index, path in _calibrated_keys(tables))


def with_number(tables: Mapping[str, Any], value: float) -> Mapping[str, Any]:
    """Return a copy of the tables with `value` in place of "calibrate"."""
    return _with_numbers(tables, lambda table, key: value)


def with_placeholders(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of the tables with a number in place of "calibrate".

    The number is 1. If the key is the noise, it is the sensitivity if that is larger, so that checks that compare both are satisfied.
    """
    return _with_numbers(tables, lambda table, key: _largest_sensitivity(table) if key in NOISE_KEYS else 1.0)


def _calibrated_keys(tables: Mapping[str, Any]) -> Iterator[tuple[int, Path]]:
    """Yield (index of the mechanism, path of the key) for each "calibrate"."""
    mechanisms = tables.get("mechanism")
    for index, table in enumerate(mechanisms if type(mechanisms) is list else ()):
        if type(table) is dict:
            yield from ((index, path) for path, _ in numbers_in(table, lambda value: calibration_weight(value) is not None))


def _with_numbers(tables: Mapping[str, Any], number: Callable[[Mapping[str, Any], str], float]) -> Mapping[str, Any]:
    """Return a copy of the tables with a number in place of each "calibrate". `number` takes the table of the entry and the key."""
    mechanisms = None  # copied at the first "calibrate" only
    for index, path in _calibrated_keys(tables):
        mechanisms = mechanisms or list(tables["mechanism"])
        value = number(mechanisms[index], str(path[-1]))
        if path[-1] in COUNT_KEYS and float(value).is_integer():
            value = int(value)
        mechanisms[index] = with_value(mechanisms[index], path, value)
    return tables if mechanisms is None else {**tables, "mechanism": mechanisms}


def _largest_sensitivity(table: Mapping[str, Any]) -> float:
    """Return the largest sensitivity that the table states, at least 1. Infinite and absurdly large ones are left out.

    The limit is arbitrary. It keeps out integers that no float can hold.
    """
    stated: list[float] = [table[key] for key in SENSITIVITY_KEYS if type(table.get(key)) in (int, float)]
    return max((float(value) for value in stated if 1.0 < value < 1e100), default=1.0)
