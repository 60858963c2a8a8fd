"""From [train.clipping] to the engine's clipping style."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpcli.errors import InputError
from dpcli.train.engine.clip import Automatic, Clip, Flat, PerLayer
from dpcli.train.settings import Clipping


def clip_of(clipping: Clipping, names: Sequence[str]) -> Clip:
    """The style; its `bound` is C, which the noise is relative to. Raises InputError for adaptive clipping, whose noise is not wired in."""
    if clipping.style not in STYLES:
        raise InputError(
            f"train.clipping.style: expected one of {', '.join(STYLES)}, found {clipping.style!r}, which is not implemented yet"
        )
    return STYLES[clipping.style](clipping, names)


STYLES: dict[str, Callable[[Clipping, Sequence[str]], Clip]] = {
    "flat": lambda clipping, names: Flat(clipping.norm),
    "automatic": lambda clipping, names: Automatic(clipping.norm, clipping.gamma),
    "per-layer": lambda clipping, names: PerLayer(clipping.norm),
}
