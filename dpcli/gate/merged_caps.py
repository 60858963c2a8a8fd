"""Several sets of caps as one: an order of precedence, or the smallest of each. Nothing here needs numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from dpcli.pipeline.gate_keys import Caps

ALLOWED = "allow_statement_change"  # the one that is no number: the smallest of several is false
KEYS = tuple(field.name for field in fields(Caps))


def over(first: Caps, second: Caps) -> Caps:
    """Each cap of the first, else of the second."""
    return Caps(**{key: getattr(second if getattr(first, key) is None else first, key) for key in KEYS})


def tightest(caps: Sequence[Caps]) -> Caps:
    """Each cap at its smallest, so that the order in which caps are written means nothing."""
    stated = {key: [value for one in caps if (value := getattr(one, key)) is not None] for key in KEYS}
    return Caps(**{key: min(values, default=None) for key, values in stated.items()})


def loosened(old: Caps, new: Caps) -> Iterator[str]:
    """Each cap that is larger than it was, or gone, warning levels too: `epsilon 1 -> 3`."""
    for key in KEYS:
        was, now = getattr(old, key), getattr(new, key)
        if key != ALLOWED and was is not None and (now is None or now > was):
            yield f"{key} {was:g} -> {'none' if now is None else f'{now:g}'}"
