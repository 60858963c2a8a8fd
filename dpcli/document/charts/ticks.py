"""The ticks of an axis: round values, with their labels.

Every format that draws axes draws these ticks, so an axis reads the same everywhere; only how many fit depends on the format. Linear axes
have multiples of 1, 2 or 5 times a power of ten, logarithmic ones round numbers of each decade, and axes of dates round times, from seconds
to years.
"""

from __future__ import annotations

import math
from datetime import datetime

from dpcli.document.chart import Axis, date_of, moment
from dpcli.document.charts.labels import multiples

Tick = tuple[float, str]  # the value and its label
MOST_TICKS = 9  # largest number of ticks in svg, png and vega-lite; chosen by eye
FEWEST_DATES = 5  # smallest limit on the ticks of an axis of dates (SECONDS)
# Relative rounding error up to which a value counts as being at an end of the axis, or as a round number; layout alone.
ROUNDING = 1e-9
# Sets of round numbers of each decade, from many to few. The first set is used whose ticks fit.
ROUND_MANTISSAS = ((1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))


def ticks(axis: Axis, most: int) -> tuple[Tick, ...]:
    """Return up to `most` ticks of an axis as (value, label), for most >= 2. An axis with categories has a tick for each category."""
    if axis.categories:
        return tuple((float(i), name) for i, name in enumerate(axis.categories))
    if axis.scale == "log":
        return tuple((value, _log_words(value)) for value in _log(axis, most))
    if axis.scale == "utc":  # dates are about twice as wide as numbers
        return _dates(axis, max((most + 1) // 2, FEWEST_DATES))
    values = _linear(axis, most)
    if max(map(abs, values), default=1.0) < 1e-6:  # such numbers would need many decimals
        return tuple((value, f"{value:g}") for value in values)
    places = max(map(_places, values), default=0)
    return tuple((value, _words(value, places)) for value in values)


def _linear(axis: Axis, most: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten."""
    least_step = (axis.high - axis.low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(least_step))
    step = next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= least_step * (1.0 - ROUNDING))
    first, last = math.ceil(axis.low / step - ROUNDING), math.floor(axis.high / step + ROUNDING)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]  # without the last digits, which are rounding errors


def _log(axis: Axis, most: int) -> list[float]:
    """Return round numbers of each decade, as many as `most` allows. If it allows fewer than one per decade, return some powers of ten."""
    first, last = math.floor(math.log10(axis.low) + ROUNDING), math.ceil(math.log10(axis.high) - ROUNDING)
    exponents = range(first, last + 1)
    for mantissas in ROUND_MANTISSAS:
        numbers = [float(f"{mantissa}e{exponent}") for exponent in exponents for mantissa in mantissas]
        result = _within_axis(axis, numbers)
        if len(result) <= most:
            return result
    skip = math.ceil(len(exponents) / most)
    return _within_axis(axis, [float(f"1e{exponent}") for exponent in exponents if exponent % skip == 0])


# Distances of dates, in seconds and in months. Each is at most FEWEST_DATES times the one before, so that some tick remains.
SECONDS = (1, 5, 15, 60, 300, 900, 3_600, 10_800, 43_200, DAY := 86_400, 2 * DAY, 7 * DAY, 14 * DAY)
MONTHS = (1, 3, 6, 12, 24, 60, 120, 600, 1_200, 6_000, 12_000, 60_000)


def _dates(axis: Axis, most: int) -> tuple[Tick, ...]:
    """Return up to `most` round moments, for most >= FEWEST_DATES. Times have their date at the first tick and at midnights."""
    for step in SECONDS:
        times = [date_of(value) for value in multiples(axis.low, axis.high, 1e3 * step)]
        if len(times) <= most:
            if step >= DAY:
                return tuple((moment(time), f"{time:%Y-%m-%d}") for time in times)
            form = "%H:%M" if step >= 60 else "%H:%M:%S"
            with_date = {time for time in times if time == times[0] or time == datetime(time.year, time.month, time.day)}
            dates = (f"{time:%Y-%m-%d} " if time in with_date else "" for time in times)
            return tuple((moment(time), date + time.strftime(form)) for time, date in zip(times, dates, strict=True))
    first, last = date_of(axis.low), date_of(axis.high)
    for step in MONTHS:
        # Months are numbered from the year 0. The first number is rounded up to a multiple of the step, so that a year begins in January.
        first_number = -(-(12 * first.year + first.month - 1) // step) * step
        numbers = range(first_number, 12 * last.year + last.month, step)
        starts = [datetime(number // 12, number % 12 + 1, 1) for number in numbers]
        starts = [start for start in starts if first <= start]
        if len(starts) <= most:
            break
    return tuple((moment(start), f"{start:%Y}" if step >= 12 else f"{start:%Y-%m}") for start in starts)


def _within_axis(axis: Axis, values: list[float]) -> list[float]:
    """Return the values that are on a logarithmic axis."""
    return [value for value in values if axis.low * (1.0 - ROUNDING) <= value <= axis.high * (1.0 + ROUNDING)]


def _places(value: float) -> int:
    """Return the number of decimals that a round number needs."""
    text = f"{value:.12f}".rstrip("0")
    return len(text.partition(".")[2])


def _words(value: float, places: int) -> str:
    """Return a number with this number of decimals, or in scientific notation if it is large."""
    return f"{value:,.{min(places, 12)}f}" if abs(value) < 1e7 else f"{value:g}"


def _log_words(value: float) -> str:
    """Return a number in plain digits if that is short, and in scientific notation otherwise."""
    if 1e-3 <= value < 1e6:
        return f"{value:,.{_places(value)}f}"
    digits, _, exponent = f"{value:e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"
