"""How far epsilon may rise over the base: in nats and in percent of what it was, to be stopped or to be told."""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.base.stated import product, quotient
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Caps
from dpcli.file.toml.findings import Problem
from dpcli.gate.merged_caps import BASE, FILE, Outside, StatedCap, held


@dataclass(frozen=True, slots=True)
class RiseLimits:
    """A limit in nats, and one in percent of the base's epsilon; where both are stated, both hold.

    kind: the key without its unit. whose: whose limit in nats it is, where several state one.
    """

    kind: str
    nats: float | None
    percent: float | None
    whose: str = ""

    def allowed(self, base: float) -> float | None:
        """The smaller of both, in nats; None where there is none. In percent of an epsilon of 0, nothing."""
        return min((limit for limit, _ in self._limits(base)), default=None)

    def passed_by(self, change: float, base: float) -> bool:
        """Whether a change is larger than what is allowed."""
        limit = self.allowed(base)
        return limit is not None and not change <= limit

    def words(self, base: float) -> str:
        """The smaller of both, as it was stated."""
        return min(self._limits(base))[1]

    def stated(self) -> list[str]:
        """Each limit with its key."""
        keys = ((self.kind, self.nats), (f"{self.kind}_percent", self.percent))
        return [f"{key} = {value:g}" for key, value in keys if value is not None]

    def _limits(self, base: float) -> Iterator[tuple[float, str]]:
        if self.nats is not None:
            yield self.nats, f"+{self.nats:g}{self.whose}"
        if self.percent is not None:
            yield -product(-base, quotient(self.percent, 100)), f"+{self.percent:g} %"


def blocking(outside: Outside, own: float | None, base: float | None = None) -> RiseLimits:
    """What no rise may pass: the smallest limit in nats of flags, policy, file and base; in percent from outside alone."""
    files = [
        StatedCap(limit, source) for limit, source in ((own, FILE), (base if base != own else None, BASE)) if limit is not None
    ]
    caps = held([*files, *outside.stated("max_increase", "--max-increase")])
    nats, words = (caps[0].cap.value, caps[0].words()) if caps else (None, "")
    return RiseLimits("max_increase", nats, outside.tightest.max_increase_percent, words)


def warning(outside: Outside) -> RiseLimits:
    """Above what a rise is told, and passes."""
    caps = outside.tightest
    return RiseLimits("warn_increase", caps.warn_increase, caps.warn_increase_percent)


def level_problems(caps: Caps) -> Iterator[Problem]:
    """A warning level at which the limit beside it has stopped the file already."""
    for key, warn, block in (
        ("increase", caps.warn_increase, caps.max_increase),
        ("increase_percent", caps.warn_increase_percent, caps.max_increase_percent),
    ):
        if warn is not None and block is not None and warn >= block:
            yield (f"warn_{key}",), f"less than max_{key} = {block!r}", f"{warn!r}"
