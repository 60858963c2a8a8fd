"""Several sets of caps as one: an order of precedence, or the smallest of each. Nothing here needs numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpcli.pipeline.gate_keys import Caps


def over(first: Caps, second: Caps) -> Caps:
    """Each cap of the first, else of the second."""
    return Caps(
        second.epsilon if first.epsilon is None else first.epsilon,
        second.delta if first.delta is None else first.delta,
        second.max_increase if first.max_increase is None else first.max_increase,
        second.allow_statement_change if first.allow_statement_change is None else first.allow_statement_change,
        second.rho if first.rho is None else first.rho,
        second.max_increase_percent if first.max_increase_percent is None else first.max_increase_percent,
        second.warn_increase if first.warn_increase is None else first.warn_increase,
        second.warn_increase_percent if first.warn_increase_percent is None else first.warn_increase_percent,
    )


def tightest(caps: Sequence[Caps]) -> Caps:
    """Each cap at its smallest, so that the order in which caps are written means nothing."""
    allowed = [c.allow_statement_change for c in caps if c.allow_statement_change is not None]
    return Caps(
        min((c.epsilon for c in caps if c.epsilon is not None), default=None),
        min((c.delta for c in caps if c.delta is not None), default=None),
        min((c.max_increase for c in caps if c.max_increase is not None), default=None),
        all(allowed) if allowed else None,
        min((c.rho for c in caps if c.rho is not None), default=None),
        min((c.max_increase_percent for c in caps if c.max_increase_percent is not None), default=None),
        min((c.warn_increase for c in caps if c.warn_increase is not None), default=None),
        min((c.warn_increase_percent for c in caps if c.warn_increase_percent is not None), default=None),
    )


def loosened(old: Caps, new: Caps) -> Iterator[str]:
    """Each cap that is larger than it was, or gone: `epsilon 1 -> 3`."""
    for key in ("epsilon", "delta", "max_increase", "rho", "max_increase_percent"):
        was, now = getattr(old, key), getattr(new, key)
        if was is not None and (now is None or now > was):
            yield f"{key} {was:g} -> {'none' if now is None else f'{now:g}'}"
