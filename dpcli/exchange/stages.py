"""Stages of noise, one after the other, as one entry whose lists are their columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.series import MOST

WIDTH = 120
HELD = "\xa0"  # a space at which no line ends
LISTED = ("noise_multiplier = ", "steps = ", "sampling = ")  # lines of numbers
Number = int | float
Stage = Mapping[str, Number]


def merged_stages(rows: Iterable[Stage]) -> list[dict[str, Number]]:
    """Runs of rows that differ in nothing but their steps as one, with the steps of all."""
    parted = (({name: value for name, value in row.items() if name != "steps"}, int(row["steps"])) for row in rows)
    return [{**each, "steps": sum(steps for _, steps in run)} for each, run in groupby(parted, key=lambda pair: pair[0])]


def staged_entry(name: str, stages: Sequence[Stage], scheme: str) -> dict[str, Any]:
    """The entry of Gaussian noise that says all stages, in their order; a number in place of a list where all are the same.

    Args:
        stages: merged: noise_multiplier, steps, and the keys of their sampling, the same in each.

    Raises:
        InputError: there are none, or more than the lists of a file may make.
    """
    if not 0 < len(stages) <= MOST:
        raise InputError(f"expected 1 to {MOST:,} stages, equal ones that follow each other taken as one, found {len(stages):,}")
    columns = {key: _value([stage[key] for stage in stages]) for key in stages[0]}
    noise, steps = columns.pop("noise_multiplier"), columns.pop("steps")
    own = {"sample": "own"} if len(stages) > 1 else {}
    sampling = {"scheme": scheme, **columns}
    return {"name": name, "type": "gaussian", **own, "noise_multiplier": noise, "steps": steps, "sampling": sampling}


def _value(values: Sequence[Number]) -> Number | list[Number]:
    return values[0] if len(set(values)) == 1 else list(values)


def wrapped(line: str) -> list[str]:
    """Long lists of numbers on several lines, which TOML allows nowhere else."""
    if not line.startswith(LISTED) or len(line) <= WIDTH:
        return [line]
    held = re.sub(r"(?:^|\])[^\[]*", lambda outside: outside.group().replace(" ", HELD), line)
    found = textwrap.wrap(held, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [part.replace(HELD, " ") for part in found]
