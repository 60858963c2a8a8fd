"""Round numbers along an axis."""

from __future__ import annotations

import math

from dpcli.document.chart import Axis

Tick = tuple[float, str]


def ticks(axis: Axis, most: int) -> tuple[Tick, ...]:
    """Up to `most` (at least 2) values of the axis with their words; those of the categories where it has such."""
    if axis.categories:
        return tuple((float(i), name) for i, name in enumerate(axis.categories))
    values = _log(axis, most) if axis.scale == "log" else _linear(axis, most)
    places = max((_places(value) for value in values), default=0)
    return tuple((value, _log_words(value) if axis.scale == "log" else _words(value, places)) for value in values)


def _linear(axis: Axis, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    least = (axis.high - axis.low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= least * (1.0 - 1e-9))
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _log(axis: Axis, most: int) -> list[float]:
    """As many of 1, 2 and 5 of each decade as there is room for, then every so many decades."""
    first, last = math.floor(math.log10(axis.low) + 1e-9), math.ceil(math.log10(axis.high) - 1e-9)
    for factors in ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = _inside(axis, [float(f"{factor}e{k}") for k in range(first, last + 1) for factor in factors])
        if len(found) <= most:
            return found
    skip = math.ceil((last - first + 1) / most)
    return _inside(axis, [10.0**k for k in range(first, last + 1) if k % skip == 0])


def _inside(axis: Axis, values: list[float]) -> list[float]:
    return [value for value in values if axis.low * (1.0 - 1e-9) <= value <= axis.high * (1.0 + 1e-9)]


def _places(value: float) -> int:
    """Decimals that a round number needs."""
    text = f"{value:.12f}".rstrip("0")
    return len(text.partition(".")[2])


def _words(value: float, places: int) -> str:
    return f"{value:,.{min(places, 12)}f}" if abs(value) < 1e7 else f"{value:g}"


def _log_words(value: float) -> str:
    """Plain where that is short, else a power of ten."""
    if 1e-3 <= value < 1e6:
        return f"{value:,.{_places(value)}f}"
    digits, _, exponent = f"{value:e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"
