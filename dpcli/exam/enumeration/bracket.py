"""The test that lower bound <= enumerated delta <= upper bound, for one reference in one situation.

A *reference* is an entry of a file with the releases that it allows (references.py). A *situation* is an adjacency, a way of sampling, and
the numbers of records of a unit and of units in a group. The enumerated delta is that of the worst release, so an upper bound below it is
false. A lower bound above it is false unless the cells hide the difference: a reference states how much of delta they may hide (`loss`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from dpcli.accountants.base import Bound
from dpcli.analysis.account import attains_pairs, sound_profiles
from dpcli.base import registry
from dpcli.base.errors import InputError, InternalError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.exam.enumeration.drawing_records import SCHEMES, Records, Situation, datasets, hockey_stick, pair
from dpcli.exam.enumeration.references import REFERENCES, Reference
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.write import toml_text
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Poisson

EPSILONS = (0.1, 0.9)  # epsilons at which bounds on delta are compared; arbitrary
BEYOND = 2.0  # a further epsilon, for questions.py; delta is then mainly the delta of the steps themselves
SIZES = ((1, 1), (2, 1), (1, 2))  # (records of a unit, units of a group); the number of samples doubles with each record
TWO_SIDED, ONE_SIDED = ("exact", "pld"), ("rdp", "basic")  # accountants that also bound delta from below, and others
# Relative error of sums of many floating-point numbers. It also covers the mass of the tails beyond all cells, which adds to delta.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Bracket:
    """The claimed bounds on delta at `epsilon`, and the exact delta of the worst enumerated release."""

    epsilon: float
    lower: float | None
    exact: float
    upper: float

    def holds(self, loss: float) -> bool:
        """Return whether the exact delta lies between the bounds. The cells may hide the share `loss` of delta."""
        below = self.lower is None or self.lower * (1.0 - loss) <= self.exact + ROUNDING
        return below and self.exact <= self.upper * (1.0 + ROUNDING) + ROUNDING * 1e-3  # the last term is for deltas near 0


@dataclass(frozen=True, slots=True)
class BracketRow:
    """The brackets of one reference in one situation.

    Attributes:
        refused: Reason for which dpcli refuses the file; None if it accepts the file.
        contradiction: Text of the internal error by which dpcli says that its own bounds contradict each other; None if there is none.
    """

    reference: Reference
    scheme: str
    situation: Situation
    brackets: tuple[Bracket, ...] = ()
    refused: str | None = None
    contradiction: str | None = None

    @property
    def label(self) -> str:
        situation, reference = self.situation, self.reference
        # Without the table of trials and the names of composed mechanisms.
        keys = ", ".join(f"{key} {value}" for key, value in reference.keys.items() if key not in ("trials", "mechanisms"))
        owners = f"{situation.contributions} record{'s' * (situation.contributions > 1)}, group {situation.group}"
        return f"{reference.type} ({keys}), {situation.adjacency}, {self.scheme} ({situation.draws.label}), {owners}"

    def faults(self) -> list[Bracket | str]:
        """Return the brackets that do not hold, or the contradiction."""
        if self.contradiction is not None:
            return [self.contradiction]
        return [bracket for bracket in self.brackets if not bracket.holds(self.reference.loss)]


def situations(kind: str, every: bool = False) -> Iterator[tuple[Reference, str, Situation]]:
    """Yield every adjacency and scheme for the references of one mechanism type, `kind`. Samples that are drawn inside a run are left out.

    Units of two records and groups of two units take long if there are other records in the data. They are then left out unless `every`.
    """
    for reference in references_of(kind):
        for adjacency, (scheme, draws) in itertools.product(Adjacency, SCHEMES.items()):
            if draws_within_a_run(kind, scheme):
                continue
            for draw in draws:
                for contributions, group in SIZES if every or not draw.others else SIZES[:1]:
                    yield reference, scheme, Situation(adjacency.value, draw, contributions, group)


def draws_within_a_run(kind: str, scheme: str) -> bool:
    """Return whether a type draws Poisson samples inside a run, from groups that take turns. Releases of this package are whole runs."""
    return load(registry.SAMPLING[scheme]) is Poisson and bool(load(registry.MECHANISMS[kind]).takes_turns)


def references_of(kind: str) -> tuple[Reference, ...]:
    """Return the references of a mechanism type, from this package and from the plugin that registers the type."""
    stated: tuple[Reference, ...] = load(registry.REFERENCES[kind]) if kind in registry.REFERENCES else ()
    return tuple(reference for reference in (*REFERENCES, *stated) if reference.type == kind)


def row(reference: Reference, scheme: str, situation: Situation) -> BracketRow:
    """Return the brackets of a reference, which compare the claimed bounds with the enumerated delta."""
    try:
        bounds = claimed_bounds(reference, scheme, situation)
    except InputError as error:
        return BracketRow(reference, scheme, situation, refused=str(error))
    except InternalError as error:
        return BracketRow(reference, scheme, situation, contradiction=str(error))
    deltas = worst_deltas(reference, situation)[: len(EPSILONS)]  # without the delta at BEYOND
    brackets = [
        Bracket(epsilon, bound.lower, delta, min(bound.upper, 1.0))
        for epsilon, bound, delta in zip(EPSILONS, bounds, deltas, strict=True)
    ]
    return BracketRow(reference, scheme, situation, tuple(brackets))


def claimed_bounds(reference: Reference, scheme: str, situation: Situation) -> tuple[Bound, ...]:
    """Return the claimed bounds on delta at each of EPSILONS. Raises InputError if dpcli refuses the file."""
    pipeline = reference_pipeline(reference, scheme, situation)
    return tuple(_delta(pipeline, epsilon, situation.group) for epsilon in EPSILONS)


def reference_pipeline(reference: Reference, scheme: str, situation: Situation) -> Pipeline:
    """Return the pipeline of a reference in a situation. Raises InputError if dpcli refuses the file."""
    size = max(map(len, _datasets(situation)))
    return parse(_file_text(reference, scheme, situation, size).encode(), "it.toml")


@functools.cache
def worst_deltas(reference: Reference, situation: Situation) -> tuple[float, ...]:
    """Return the enumerated delta of the worst allowed release over all passes, at each of EPSILONS and BEYOND.

    The enumeration uses no code of mechanisms and accountants, so that no bug in them can change it.
    """
    draws, records = situation.draws, _datasets(situation)
    pairs = [pair(draws, release, records) for release in reference.releases(situation)]
    return tuple(max(hockey_stick(p, q, epsilon, draws.passes) for p, q in pairs) for epsilon in (*EPSILONS, BEYOND))


def _datasets(situation: Situation) -> tuple[Records, Records]:
    return datasets(situation.adjacency, situation.contributions * situation.group, situation.draws)


def _delta(pipeline: Pipeline, epsilon: float, group: int) -> Bound:
    """Return the bounds on delta that `account` would return, without its cross-checks.

    The one-sided accountants are used if no two-sided one has a number. Lower bounds hold for the dominating pair, so they count only if
    the mechanisms attain their pairs.
    """
    for names in (TWO_SIDED, ONE_SIDED):
        bounds = []
        for _, profile in sound_profiles(pipeline, names, group):
            with suppress(NotRepresentable):
                bounds.append(profile.delta(epsilon))
        if bounds:
            upper = min(bound.upper for bound in bounds)
            lowers = [bound.lower for bound in bounds if bound.lower is not None]
            return Bound(upper, max(lowers, default=None) if attains_pairs(pipeline, group) else None)
    return Bound(1.0)


def _file_text(reference: Reference, scheme: str, situation: Situation, size: int) -> str:
    """Return the text of a pipeline file with the reference as its last entry, after the entries to which it refers."""
    privacy: dict[str, object] = {"unit": "example", "adjacency": situation.adjacency, "delta": 1e-5, "dataset_size": size}
    entry: dict[str, object] = {"name": "it", "type": reference.type, **reference.keys}
    if situation.contributions > 1:
        privacy |= {"unit": "user", "max_contributions": situation.contributions}
        if reference.stated:
            entry["stated_for"] = "record"
    entry["steps"] = situation.draws.steps * situation.draws.passes
    if situation.draws.keys is not None:
        entry["sampling"] = {"scheme": scheme, **situation.draws.keys}
    others = [{"name": name, **keys} for name, keys in reference.members.items()]
    return toml_text({"format": 1, "privacy": privacy, "mechanism": [*others, entry]})
