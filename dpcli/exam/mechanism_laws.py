"""Laws that every mechanism must obey, tested through `account`. A law is a function that yields its violations.

They need no enumeration, and so they are tested on random files (subjects.py), in which an *entry* is one mechanism with its number of
steps. For example, an entry of n steps costs as much as n entries of one step. A law raises InputError if the file that it makes is not
allowed, and is then skipped (`lawless` in examine.py). The last entry of a file is the one under test, and others are those to which it
refers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from dpcli.analysis import account as accounting
from dpcli.analysis.account import account
from dpcli.file.pipeline.model import Pipeline
from dpcli.mechanisms.sampling.schemes import BallsInBins, OncePerEpoch

ACCOUNTANTS = ("basic", "rdp", "zcdp")  # fast accountants, each of which composes in another privacy measure
ROUNDING = 1e-9  # relative and absolute error of epsilon allowed in a comparison; a larger one would hide small violations
DELTA = 1e-6  # the delta at which epsilons are compared; arbitrary


def upper(pipeline: Pipeline, group: int = 1, delta: float = DELTA) -> dict[str, float]:
    """Return the epsilon of each accountant; inf if the accountant has none."""
    return _upper(pipeline, group, delta, vars(accounting)["resolve"])  # a planted bug (mechanism_plants.py) replaces `resolve`


@functools.lru_cache(256)
def _upper(pipeline: Pipeline, group: int, delta: float, resolve: object) -> dict[str, float]:
    """Return the bounds, cached because several laws use them. `resolve` separates those of a planted bug from the honest ones."""
    return {row.accountant.name: row.upper for row in account(pipeline, ACCOUNTANTS, delta=delta, group_size=group).rows}


def below(low: dict[str, float], high: dict[str, float]) -> list[str]:
    """Return the accountants with a finite bound in `low` that is not at most their bound in `high`."""
    return [name for name in low if low[name] < math.inf and not low[name] <= high[name] * (1.0 + ROUNDING) + ROUNDING]


def copies(pipeline: Pipeline) -> Iterator[str]:
    """An entry of n steps costs as much as n entries of one step. The law applies to entries that count steps, not passes."""
    *parts, entry = pipeline.mechanisms
    if entry.epochs is not None or isinstance(entry.sampling, OncePerEpoch | BallsInBins):  # These schemes count passes.
        return
    entries = tuple(replace(entry, name=f"it {i}", steps=1) for i in range(entry.steps))
    joint, separate = upper(pipeline), upper(replace(pipeline, mechanisms=(*parts, *entries)))
    for name in {*below(joint, separate), *below(separate, joint)}:
        yield f"{name}: {entry.steps} steps cost {joint[name]}, and as separate entries {separate[name]}"


def steps(pipeline: Pipeline) -> Iterator[str]:
    """More steps never cost less."""
    *parts, entry = pipeline.mechanisms
    if entry.epochs is None:
        more = upper(replace(pipeline, mechanisms=(*parts, replace(entry, steps=4 * entry.steps))))  # any factor above 1 would do
        yield from (f"{name}: four times the steps cost less" for name in below(upper(pipeline), more))


def groups(pipeline: Pipeline) -> Iterator[str]:
    """The epsilon of two units together is never smaller than the epsilon of one unit."""
    yield from (f"{name}: two units cost less than one" for name in below(upper(pipeline), upper(pipeline, group=2)))


def deltas(pipeline: Pipeline) -> Iterator[str]:
    """Epsilon at a smaller delta is never smaller."""
    bounds = upper(pipeline), upper(pipeline, delta=DELTA / 100.0)
    yield from (f"{name}: epsilon increases with delta" for name in below(*bounds))


def numbers(pipeline: Pipeline) -> Iterator[str]:
    """Epsilon is a number >= 0, or inf if nothing is certified."""
    yield from (f"{name}: epsilon = {value}" for name, value in upper(pipeline).items() if math.isnan(value) or value < 0.0)


LAWS = (copies, steps, groups, deltas, numbers)
