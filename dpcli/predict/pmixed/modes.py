"""What a token is drawn from: the average of the drawn models, each projected in one of two ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpcli.numerics.arrays import Array, np
from dpcli.predict.pmixed.paper_radius import Published
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.project import Projection, ball, clip, mix
from dpcli.predict.pmixed.project_paper import renyi_ball
from dpcli.predict.pmixed.whole import multiples, whole_ball

if TYPE_CHECKING:
    from dpcli.predict.pmixed.whole import Multiples

PROJECTIONS: dict[str, Projection] = {"clip": clip, "mix": mix}


class Mode(Protocol):
    """How models are projected. All arrays are (vocabulary,); `public` adds up to 1."""

    def total(self, public: Array, private: Sequence[Array]) -> tuple[Multiples, int]:
        """The sum of the projected models as multiples of 2^-50, and how many they are: the public one alone where there is none."""
        ...

    def projected(self, public: Array, private: Array, drawn: int) -> Array:
        """One of `drawn` models that take part, for measurements."""
        ...


@dataclass(frozen=True, slots=True)
class Sound:
    """Within a radius of the public model, whatever the others are. The numbers that are drawn from keep it exactly."""

    radius: float
    projection: Projection = clip

    def total(self, public: Array, private: Sequence[Array]) -> tuple[Multiples, int]:
        around = ball(public, self.radius)
        whole = whole_ball(around)
        if not private:
            return whole.public.astype(np.int64), 1
        found = np.zeros(len(public), np.int64)
        for model in private:
            found += whole.rounded(self.projection(around, model))
        return found, len(private)

    def projected(self, public: Array, private: Array, drawn: int) -> Array:
        return self.projection(ball(public, self.radius), private)


@dataclass(frozen=True, slots=True)
class Paper:
    """The published protocol: a radius that depends on how many models were drawn. Not a DP guarantee."""

    published: Published
    _radii: dict[int, float] = field(default_factory=dict, init=False)

    def total(self, public: Array, private: Sequence[Array]) -> tuple[Multiples, int]:
        found = [self.projected(public, model, len(private)) for model in private] or [public]
        return sum((multiples(model) for model in found), np.zeros(len(public), np.int64)), len(found)

    def projected(self, public: Array, private: Array, drawn: int) -> Array:
        return renyi_ball(public, float(self.published.order), self._radius(drawn)).mixed(private)

    def _radius(self, drawn: int) -> float:
        if drawn not in self._radii:
            self._radii[drawn] = self.published.radius(drawn)
        return self._radii[drawn]


def mode_of(plan: PmixedPlan) -> Mode:
    """The one that the file states."""
    if plan.published is not None:
        return Paper(plan.published)
    return Sound(plan.spec.radius, PROJECTIONS[plan.settings.projection])


def probabilities(log_probabilities: Array, temperature: float) -> Array:
    """At a temperature, along the last axis."""
    with np.errstate(all="ignore"):  # what is no model's answer stays one that is none
        scaled = log_probabilities / temperature if temperature != 1.0 else log_probabilities
        found = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
        return np.asarray(found / found.sum(axis=-1, keepdims=True))
