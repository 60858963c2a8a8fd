"""The clipping table of [train]: the keys of each style, and the engine's clipping that they make. Reading it needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import POSITIVE, RATE, Constraint, Key, Selection
from dpcli.train.engine.clip import LARGEST, SMALLEST, Adaptive, Automatic, Clip, Flat, PerGroup, PerLayer, shares
from dpcli.train.plugin import STYLES

MEASURABLE = Constraint(
    f"a number from {SMALLEST:g} to {LARGEST:g}", lambda x: SMALLEST <= x <= LARGEST, (("minimum", SMALLEST), ("maximum", LARGEST))
)
STYLE = Key(
    "flat: scaled down to C; automatic: always scaled to about C; per-layer: C split evenly over layers; per-group: as groups says; "
    "adaptive: C follows a quantile",
    varies=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping(ABC):
    """A bound on one example's gradient before the sum."""

    selection: ClassVar[Selection] = Selection("style", STYLES, "flat")
    # Example tables that together state every key of a style.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    # Keys that are newer than some saved runs, as in `Train`.
    later: ClassVar[frozenset[str]] = frozenset()

    norm: Annotated[
        float, Key("C: the L2 bound on one example's gradient; noise_multiplier is noise over C", MEASURABLE, varies=True)
    ]
    style: Annotated[str, STYLE] = "flat"

    @property
    def count_noise(self) -> float | None:
        """Return the noise, in examples, of the count that a step releases besides the sum; None if it releases none."""
        return None

    @property
    def split(self) -> str | None:
        """Return how C is split, in words, where the file says how."""
        return None

    @abstractmethod
    def clip(self) -> Clip:
        """Return the engine's clipping; its `bound` is C, which the noise is relative to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatClipping(Clipping):
    """A gradient that is longer than C is scaled down to C."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0},)

    def clip(self) -> Clip:
        return Flat(self.norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticClipping(Clipping):
    """Every gradient is scaled to a length of about C, whatever its own length is."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0, "gamma": 0.1},)

    style: Annotated[str, STYLE] = "automatic"
    gamma: Annotated[float, Key("added to each gradient's length, so that short ones stay short", MEASURABLE, varies=True)] = 0.01

    def clip(self) -> Clip:
        return Automatic(self.norm, self.gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerLayerClipping(Clipping):
    """Each layer's part of a gradient is scaled down by itself; all parts together are at most C long."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0},)

    style: Annotated[str, STYLE] = "per-layer"

    def clip(self) -> Clip:
        return PerLayer(self.norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGroupClipping(Clipping):
    """Each group's part of a gradient is scaled down by itself, to a share C_g of C; the squares of the shares add up to C^2."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"norm": 1.0, "groups": {"encoder": 1.0, "head": 2.0}},)
    later: ClassVar[frozenset[str]] = frozenset({"groups"})

    style: Annotated[str, STYLE] = "per-group"
    groups: Annotated[
        Mapping[str, float],
        Key(
            "by the beginning of the names of its parameters, up to a dot, each group's share of C, relative to the others'; *: all others",
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
    """C begins at norm and follows a quantile of the gradients' lengths, by a noised count that each step also releases."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"norm": 1.0, "quantile": 0.7, "quantile_noise": 9.0, "quantile_rate": 0.1},
    )

    style: Annotated[str, STYLE] = "adaptive"
    quantile: Annotated[float, Key("share of examples that is left unclipped", RATE, varies=True)] = 0.5
    quantile_noise: Annotated[
        float, Key("noise of the count of unclipped examples, in examples; accounted for", POSITIVE, varies=True)
    ]
    quantile_rate: Annotated[float, Key("how fast C follows", POSITIVE, varies=True)] = 0.2

    @property
    def count_noise(self) -> float | None:
        return self.quantile_noise

    def clip(self) -> Clip:
        return Adaptive(self.norm, self.quantile, self.quantile_rate)
