"""Caps on epsilon and rho, limits on the rise of epsilon, and caps on sums over files. Epsilons and their rises are in nats.

Flags, the policy file and a pipeline file can state caps, and the smallest applies. A cap on epsilon at one delta implies no cap at a
smaller delta, so several caps may apply at once: `binding_caps` keeps those that no other cap implies, and `caps_in_force` gives the caps
that hold for a file. `written` is a pipeline with the caps that its own file states, `ExternalCaps` are those of flags and policy, and the
*base* is the earlier version of the file. Each cap keeps words for its source, so that a message says whose cap failed. An absent cap is
None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Annotated, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.fields import DELTA, POSITIVE, RATE, Key
from dpcli.base.stated import product, quotient
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Caps
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import quoted

ALLOWED = "allow_statement_change"  # the only key whose value is not a number; if several values are stated, false applies
KEYS = tuple(field.name for field in fields(Caps))  # the names of all caps that flags and the policy can state


class CapSource(NamedTuple):
    """The words for the source of a cap: `possessive` as in `the policy's 3.0`, `subject` as in `the policy allows 3.0`."""

    possessive: str
    subject: str


FILE = CapSource("the file's", "the file")
BUDGET = CapSource("the file's budget", "the file's budget")
BASE = CapSource("the base's", "the base")
POLICY = CapSource("the policy's", "the policy")


def flag(name: str) -> CapSource:
    """Return the source of a cap from the command line."""
    return CapSource(name, name)


@dataclass(frozen=True, slots=True)
class StatedCap:
    """A cap, its source and, for an epsilon, the delta at which it holds."""

    value: float
    source: CapSource
    delta: float | None = None

    def is_within(self, value: float, delta: float | None) -> bool:
        """Return whether this cap implies a cap `value` at `delta`.

        It does if its value and its delta are at most as large: a guarantee at one delta also holds at every larger delta. A delta of None
        belongs to a cap without a delta, such as a cap on rho.
        """
        return self.value <= value and (self.delta or 0.0) <= (delta or 0.0)


@dataclass(frozen=True, slots=True)
class BindingCap:
    """A cap that no other cap implies.

    Attributes:
        looser: The looser caps that it implies.
        alone: Whether no other cap is stated.
    """

    cap: StatedCap
    looser: tuple[StatedCap, ...]
    alone: bool

    def words(self) -> str:
        """Return the sources of the caps, to be put behind the cap in a message: ` (the file's budget; the policy allows 3.0)`.

        The result is "" if there is only one cap, or if all caps are equal: whose cap failed is then no question.
        """
        words = [self.cap.source.possessive]
        for looser_cap in self.looser:
            if looser_cap.delta != self.cap.delta:
                words.append(f"{looser_cap.source.subject} allows {looser_cap.value!r} at delta = {looser_cap.delta!r}")
            elif looser_cap.value != self.cap.value:
                words.append(f"{looser_cap.source.subject} allows {looser_cap.value!r}")
        all_equal = len(words) == 1 and len(self.looser) > 0
        return "" if self.alone or all_equal else f" ({'; '.join(words)})"


def binding_caps(stated: Iterable[StatedCap]) -> tuple[BindingCap, ...]:
    """Return the caps that no other cap implies, in the order of their deltas.

    Sorting by delta puts each cap after the caps that can imply it. Of equal caps, the first one that is stated is kept as binding.
    """
    ordered = sorted(stated, key=lambda cap: (cap.delta or 0.0, cap.value))
    looser: dict[StatedCap, list[StatedCap]] = {}  # by binding cap
    for cap in ordered:
        implying = next((binding for binding in looser if binding.is_within(cap.value, cap.delta)), None)
        if implying is None:
            looser[cap] = []
        else:
            looser[implying].append(cap)
    return tuple(BindingCap(cap, tuple(implied), alone=len(ordered) == 1) for cap, implied in looser.items())


@dataclass(frozen=True, slots=True)
class ExternalCaps:
    """The caps that do not come from a pipeline file."""

    flags: Caps
    policy: Caps

    @property
    def tightest(self) -> Caps:
        """The smaller value of each cap. A flag that allows statement changes overrides the policy. No flag can forbid them."""
        allowed = self.policy.allow_statement_change if self.flags.allow_statement_change is None else True
        return replace(tightest((self.flags, self.policy)), allow_statement_change=allowed)

    @property
    def deltas(self) -> dict[str, float | None]:
        """The deltas of the flags and of the policy, by their names in messages."""
        return {"--delta": self.flags.delta, "the policy's delta": self.policy.delta}

    def stated(self, key: str, flag_name: str) -> Iterator[StatedCap]:
        """Yield the caps of flags and policy for one key."""
        for caps, source in ((self.flags, flag(flag_name)), (self.policy, POLICY)):
            value = getattr(caps, key)
            if value is not None:
                yield StatedCap(value, source)


@dataclass(frozen=True, slots=True)
class CapsInForce:
    """The caps that hold for a file.

    Attributes:
        epsilon: The caps on epsilon, in the order of their deltas. There are several caps if no cap implies the others.
        rho: The caps on rho.
        delta: The smallest delta that the file, the flags or the policy state; None if none states a delta.
    """

    epsilon: tuple[BindingCap, ...]
    rho: tuple[BindingCap, ...]
    delta: float | None

    def judges(self, delta: float | None) -> bool:
        """Return whether a cap on epsilon holds at this delta. Without any cap, return whether epsilon is reported at this delta."""
        return delta in ({binding.cap.delta for binding in self.epsilon} or {self.delta})


class EpsilonAndDelta(NamedTuple):
    """The cap on epsilon and the delta that one source states; None for a value that it does not state."""

    source: CapSource
    epsilon: float | None
    delta: float | None


def caps_in_force(written: Pipeline, external: ExternalCaps) -> CapsInForce:
    """Return the caps in force for a file, which come from the file itself, from flags and from the policy.

    A cap on epsilon holds at the delta that its source states, or else at the smallest delta of any source. A delta that is stated without
    an epsilon limits every cap, so that no cap holds at a larger delta.
    """
    budget = written.budget or Budget()
    flags, policy = external.flags, external.policy
    pairs = (
        # A delta of [budget] without an epsilon limits every cap. The delta of [privacy], to which `cap_delta` falls back, does not.
        EpsilonAndDelta(BUDGET, budget.epsilon, budget.delta if budget.epsilon is None else written.cap_delta),
        EpsilonAndDelta(POLICY, policy.epsilon, policy.delta),
        EpsilonAndDelta(flag("--max-epsilon"), flags.epsilon, flags.delta),
    )
    deltas = (written.cap_delta, written.privacy.delta, policy.delta, flags.delta)
    smallest = min((delta for delta in deltas if delta is not None), default=None)
    limits = [pair.delta for pair in pairs if pair.epsilon is None and pair.delta is not None]
    epsilon_caps = []
    for pair in pairs:
        if pair.epsilon is not None:
            delta = smallest if pair.delta is None else pair.delta
            epsilon_caps.append(StatedCap(pair.epsilon, pair.source, None if delta is None else min((delta, *limits))))
    rho_caps = [] if budget.rho is None else [StatedCap(budget.rho, BUDGET)]
    rho_caps += external.stated("rho", "--max-rho")
    return CapsInForce(binding_caps(epsilon_caps), binding_caps(rho_caps), smallest)


def with_caps_in_force(written: Pipeline, external: ExternalCaps) -> Pipeline:
    """Return the pipeline with the caps in force as its budget. If no cap is in force, the pipeline is unchanged.

    If several caps on epsilon are in force, the budget has the cap at the smallest delta.
    """
    caps = caps_in_force(written, external)
    if not caps.epsilon and not caps.rho:
        return written
    epsilon_cap = caps.epsilon[0].cap if caps.epsilon else None  # at the smallest delta
    budget = Budget(
        epsilon=None if epsilon_cap is None else epsilon_cap.value,
        delta=caps.delta if epsilon_cap is None else epsilon_cap.delta,
        warn_at=(written.budget or Budget()).warn_at,
        rho=caps.rho[0].cap.value if caps.rho else None,
    )
    return replace(written, budget=budget)


def require_cap(written: Pipeline, external: ExternalCaps) -> None:
    """Raise InputError if no cap on epsilon or rho is in force."""
    caps = caps_in_force(written, external)
    if not caps.epsilon and not caps.rho:
        raise InputError(f"{written.path}: budget: there is no cap: state a [budget] in the file, or use --max-epsilon or --policy")


def with_defaults(caps: Caps, defaults: Caps) -> Caps:
    """Return the caps. If a cap is not stated, it is taken from `defaults`."""
    return Caps(**{key: getattr(defaults if getattr(caps, key) is None else caps, key) for key in KEYS})


def tightest(caps: Sequence[Caps]) -> Caps:
    """Return the smallest stated value of each cap; None for a cap that none of them states."""
    smallest = {}
    for key in KEYS:
        stated = [getattr(one_source, key) for one_source in caps]
        smallest[key] = min((value for value in stated if value is not None), default=None)
    return Caps(**smallest)


def number_words(value: float) -> str:
    """Return a number with all its digits, but without a trailing `.0`, so that two different numbers never look equal."""
    return repr(value).removesuffix(".0")


def loosened_caps(old: Caps, new: Caps) -> Iterator[str]:
    """Yield each cap or warning level that was raised or removed, as `epsilon 1 -> 3`."""
    for key in KEYS:
        was, now = getattr(old, key), getattr(new, key)
        if key != ALLOWED and was is not None and (now is None or now > was):
            yield f"{key} {number_words(was)} -> {'none' if now is None else number_words(now)}"


@dataclass(frozen=True, slots=True)
class RiseLimits:
    """A limit on the rise of epsilon in nats, and a limit in percent of the base's epsilon. Both apply.

    Attributes:
        kind: The name of the key without its unit, "max_increase" or "warn_increase".
        nats, percent: The limits; None if not stated.
        sources: The sources of the limits in nats, in words; "" if only one limit is stated.
    """

    kind: str
    nats: float | None
    percent: float | None
    sources: str = ""

    def allowed(self, base: float) -> float | None:
        """Return the smaller limit in nats; None if no limit is stated. A percentage of a zero epsilon allows no rise."""
        return min((limit for limit, _ in self._limits(base)), default=None)

    def is_exceeded_by(self, change: float, base: float) -> bool:
        """Return whether a rise by `change` exceeds the smaller limit. A rise that is NaN exceeds it."""
        limit = self.allowed(base)
        return limit is not None and not change <= limit

    def words(self, base: float) -> str:
        """Return the smaller limit in words, in the unit in which it was stated."""
        return min(self._limits(base))[1]

    def stated(self) -> list[str]:
        """Return each stated limit as a text "key = value"."""
        keys = ((self.kind, self.nats), (f"{self.kind}_percent", self.percent))
        return [f"{key} = {number_words(value)}" for key, value in keys if value is not None]

    def _limits(self, base: float) -> Iterator[tuple[float, str]]:
        """Yield each stated limit in nats, and in words."""
        if self.nats is not None:
            yield self.nats, f"+{number_words(self.nats)}{self.sources}"
        if self.percent is not None:  # a product is rounded up, so its sign is changed: a limit must be rounded down
            yield -product(-base, quotient(self.percent, 100)), f"+{number_words(self.percent)} %"


def max_rise(external: ExternalCaps, limit: float | None, base: float | None = None) -> RiseLimits:
    """Return the limits on the rise above which a file fails.

    The limit in nats is the smallest limit of flags, policy, file (`limit`) and base. A limit in percent can come only from the policy.
    """
    # Of equal limits, the first in this list is the binding one: that of the file, then the base, then flags and policy.
    stated = list(external.stated("max_increase", "--max-increase"))
    if base is not None and base != limit:  # an unchanged limit is named as the file's
        stated.insert(0, StatedCap(base, BASE))
    if limit is not None:
        stated.insert(0, StatedCap(limit, FILE))
    percent = external.tightest.max_increase_percent
    if not stated:
        return RiseLimits("max_increase", None, percent)
    (smallest,) = binding_caps(stated)  # the limits have no delta, so one implies all others
    return RiseLimits("max_increase", smallest.cap.value, percent, smallest.words())


def warn_rise(external: ExternalCaps) -> RiseLimits:
    """Return the limits on the rise above which a file gets a warning."""
    caps = external.tightest
    return RiseLimits("warn_increase", caps.warn_increase, caps.warn_increase_percent)


def level_problems(caps: Caps) -> Iterator[Problem]:
    """Yield a problem for each warning level that is not below its limit, so that the warning could never appear."""
    for key in ("increase", "increase_percent"):
        warning, limit = getattr(caps, f"warn_{key}"), getattr(caps, f"max_{key}")
        if warning is not None and limit is not None and warning >= limit:
            yield (f"warn_{key}",), f"less than max_{key} = {limit!r}", f"{warning!r}"


@dataclass(frozen=True, slots=True)
class SharedCaps:
    """Caps on the sum over all files of some datasets."""

    datasets: Annotated[
        tuple[str, ...], Key("names of datasets, as files state them in [privacy]; the files of all these datasets are added up")
    ]
    epsilon: Annotated[float | None, Key("cap on epsilon of all these files together; rho may replace it", POSITIVE)] = None
    delta: Annotated[
        float | None, Key("delta of the cap; if absent, the smallest delta of the files, the policy and --delta", DELTA)
    ] = None
    rho: Annotated[
        float | None, Key("cap on rho in zCDP of all these files together, instead of epsilon or in addition", POSITIVE)
    ] = None
    warn_at: Annotated[float, Key("share of the cap above which a warning is shown", RATE)] = 0.8

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.warn_at, self.rho)

    @property
    def words(self) -> str:
        """The datasets in words, such as `dataset clicks` or `datasets clicks, views`."""
        return f"dataset{'s' if len(self.datasets) > 1 else ''} {', '.join(self.datasets)}"

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for a missing cap, missing datasets and invalid names."""
        if self.epsilon is None and self.rho is None:
            yield ("epsilon",), "a cap on epsilon, on rho or on both", "none"
        if not self.datasets:
            yield ("datasets",), "the name of a dataset", "none"
        yield from name_problems("datasets", self.datasets)


def name_problems(key: str, names: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem for each name that is not a valid name of a dataset, and for each repeated name."""
    from dpcli.file.pipeline.datasets import dataset_problems

    counted = Counter(names)
    for index, name in enumerate(names):
        yield from (((key, index), expected, value) for _, expected, value in dataset_problems(name))
        if counted[name] > 1 and name not in names[index + 1 :]:  # report a repeated name once, at its last place
            yield (key, index), "each name once", quoted(name)
