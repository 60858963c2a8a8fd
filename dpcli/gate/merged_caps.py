"""Several sets of caps as one: the smallest of each holds, whoever states it. Nothing here needs numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Caps

ALLOWED = "allow_statement_change"  # the one that is no number: the smallest of several is false
KEYS = tuple(field.name for field in fields(Caps))


class CapSource(NamedTuple):
    """Who states a cap, as in `the policy's 3.0` and in `the policy allows 3.0`."""

    whose: str
    who: str


FILE, BUDGET, BASE = (
    CapSource("the file's", "the file"),
    CapSource("the file's budget", "the file's budget"),
    CapSource("the base's", "the base"),
)
POLICY = CapSource("the policy's", "the policy")


def flag(name: str) -> CapSource:
    """A cap of the command line."""
    return CapSource(name, name)


@dataclass(frozen=True, slots=True)
class StatedCap:
    """A cap, who states it, and the delta at which it holds, of an epsilon."""

    value: float
    source: CapSource
    delta: float | None = None

    def is_within(self, value: float, delta: float | None) -> bool:
        """Whether whatever meets this cap meets another one too: epsilon falls where delta rises (None: no delta matters)."""
        return self.value <= value and (self.delta or 0.0) <= (delta or 0.0)


@dataclass(frozen=True, slots=True)
class HeldCap:
    """A cap that holds, and those of others that it makes needless. alone: whether nobody else states one."""

    cap: StatedCap
    looser: tuple[StatedCap, ...]
    alone: bool

    def words(self) -> str:
        """`(the file's budget; the policy allows 3.0)` after a blank; nothing where one alone states it, or all the same."""
        said = [
            f"{one.source.who} allows {one.value!r}" + ("" if one.delta == self.cap.delta else f" at delta = {one.delta!r}")
            for one in self.looser
            if (one.value, one.delta) != (self.cap.value, self.cap.delta)
        ]
        return f" ({'; '.join([self.cap.source.whose, *said])})" if said or not (self.alone or self.looser) else ""


def held(stated: Iterable[StatedCap]) -> tuple[HeldCap, ...]:
    """The caps that hold, by their deltas: each of which no other one makes needless."""
    ordered = sorted(stated, key=lambda cap: (cap.delta or 0.0, cap.value))
    holding: list[StatedCap] = []
    looser: dict[int, list[StatedCap]] = {}
    for cap in ordered:
        by = next((k for k, one in enumerate(holding) if one.is_within(cap.value, cap.delta)), None)
        if by is None:
            holding.append(cap)
        else:
            looser.setdefault(by, []).append(cap)
    return tuple(HeldCap(cap, tuple(looser.get(k, ())), len(ordered) == 1) for k, cap in enumerate(holding))


@dataclass(frozen=True, slots=True)
class Outside:
    """The caps that stand outside of a file: those of flags, and those of the policy for it."""

    flags: Caps
    policy: Caps

    @property
    def tightest(self) -> Caps:
        """The smaller of each; a flag that allows a change of the statement allows it whatever the policy says."""
        allowed = self.policy.allow_statement_change if self.flags.allow_statement_change is None else True
        return replace(tightest((self.flags, self.policy)), allow_statement_change=allowed)

    @property
    def deltas(self) -> dict[str, float | None]:
        """Every delta of these caps, by the name that a message calls it."""
        return {"--delta": self.flags.delta, "the policy's delta": self.policy.delta}

    def stated(self, key: str, name: str) -> Iterator[StatedCap]:
        """The caps of one key. name: of its flag."""
        for caps, source in ((self.flags, flag(name)), (self.policy, POLICY)):
            value = getattr(caps, key)
            if value is not None:
                yield StatedCap(value, source)


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
