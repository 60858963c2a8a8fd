"""The keys of [train.clipping], with a class for each clipping style.

DP-SGD bounds the influence of a record by C, the clipping norm, and adds noise in proportion to C. The key `style` selects one of the
classes below (STYLES in train/plugin.py). A class holds the settings, and `clip` returns the function of engine/clip.py that does the work.
This module does not import torch.

The fields of a class are keys. A `Key` annotates a field with its meaning and a `Constraint` on its value, which states the allowed values
in words, as a function and in JSON Schema (base/fields.py). `varies` marks a key in which the runs of a sweep may differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import POSITIVE, RATE, Constraint, Key, Selection
from dpcli.train.engine.clip import LARGEST, SMALLEST, Adaptive, Automatic, Clip, Flat, PerGroup, PerLayer, shares
from dpcli.train.plugin import STYLES

# The limits of C. Within them, single precision can compare gradients with it (engine/clip.py).
MEASURABLE = Constraint(
    f"a number from {SMALLEST:g} to {LARGEST:g}", lambda x: SMALLEST <= x <= LARGEST, (("minimum", SMALLEST), ("maximum", LARGEST))
)
STYLE = Key(
    "clipping style; flat scales long gradients down to C; automatic scales every gradient to about C; per-layer splits C evenly over "
    "layers; per-group splits C by groups; with adaptive, C follows a quantile",
    varies=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping(ABC):
    """A bound on one example's gradient in the sum of a step."""

    selection: ClassVar[Selection] = Selection("style", STYLES, "flat")
    # Example tables that together contain every key of a style.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    # Keys that are newer than some saved runs. The fingerprint of a run omits them if the file does not set them (`every_key` in
    # settings.py), so that these runs can still be resumed.
    later: ClassVar[frozenset[str]] = frozenset()

    norm: Annotated[
        float, Key("C, the L2 bound on one example's gradient; noise_multiplier is the noise divided by C", MEASURABLE, varies=True)
    ]
    style: Annotated[str, STYLE] = "flat"

    @property
    def count_noise(self) -> float | None:
        """Return the noise of the count that a step also releases, in examples; None if a step releases no count."""
        return None

    @property
    def split(self) -> str | None:
        """Return in words how the file splits C; None if it does not."""
        return None

    @abstractmethod
    def clip(self) -> Clip:
        """Return the clipping function of the engine. Its `bound` is C, and the noise is stated relative to C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatClipping(Clipping):
    """A gradient that is longer than C is scaled down to C."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0},)

    def clip(self) -> Clip:
        return Flat(self.norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticClipping(Clipping):
    """Every gradient is scaled to a length of about C."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0, "gamma": 0.1},)

    style: Annotated[str, STYLE] = "automatic"
    gamma: Annotated[
        float,
        Key("constant that is added to each gradient's length, so that short gradients remain short", MEASURABLE, varies=True),
    ] = 0.01

    def clip(self) -> Clip:
        return Automatic(self.norm, self.gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerLayerClipping(Clipping):
    """Each layer's part of a gradient is scaled down separately. All parts together have at most length C."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0},)

    style: Annotated[str, STYLE] = "per-layer"

    def clip(self) -> Clip:
        return PerLayer(self.norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGroupClipping(Clipping):
    """Each group's part of a gradient is scaled down to its share C_g of C. The squares of the shares add up to C^2."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0, "groups": {"encoder": 1.0, "head": 2.0}},)
    later: ClassVar[frozenset[str]] = frozenset({"groups"})

    style: Annotated[str, STYLE] = "per-group"
    groups: Annotated[
        Mapping[str, float],
        Key(
            "relative share of C for each group of parameters; a group is named by the beginning of its parameters' names, up to a dot; "
            "* is the group of all others",
            POSITIVE,
            varies=True,
        ),
    ]

    @property
    def split(self) -> str:
        limits = shares(self.norm, tuple(self.groups.values()))
        return ", ".join(f"{name} to {limit:.4g}" for name, limit in zip(self.groups, limits, strict=True))

    def clip(self) -> Clip:
        return PerGroup(self.norm, tuple(self.groups.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveClipping(Clipping):
    """C begins at norm and follows a quantile of the gradients' lengths. Each step also releases a noisy count."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"norm": 1.0, "quantile": 0.7, "quantile_noise": 9.0, "quantile_rate": 0.1},
    )

    style: Annotated[str, STYLE] = "adaptive"
    quantile: Annotated[float, Key("share of the examples that remain unclipped", RATE, varies=True)] = 0.5
    quantile_noise: Annotated[
        float, Key("noise on the count of unclipped examples, in examples; the accounting includes it", POSITIVE, varies=True)
    ]
    quantile_rate: Annotated[float, Key("rate at which C follows the quantile", POSITIVE, varies=True)] = 0.2

    @property
    def count_noise(self) -> float | None:
        return self.quantile_noise

    def clip(self) -> Clip:
        return Adaptive(self.norm, self.quantile, self.quantile_rate)
