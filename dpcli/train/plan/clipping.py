"""From [train.clipping] to the engine's clipping style."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpcli.train.engine.clip import Adaptive, Automatic, Clip, Flat, PerLayer
from dpcli.train.plan.settings import Clipping


def clip_of(clipping: Clipping, names: Sequence[str]) -> Clip:
    """The style; its `bound` is C, which the noise is relative to."""
    return STYLES[clipping.style](clipping, names)


STYLES: dict[str, Callable[[Clipping, Sequence[str]], Clip]] = {
    "flat": lambda clipping, names: Flat(clipping.norm),
    "automatic": lambda clipping, names: Automatic(clipping.norm, clipping.gamma),
    "per-layer": lambda clipping, names: PerLayer(clipping.norm),
    "adaptive": lambda clipping, names: Adaptive(clipping.norm, clipping.quantile, clipping.quantile_rate),
}
