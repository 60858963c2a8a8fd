"""Lines of epsilon over something, with their certified bands: what three of the kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpcli.analysis.account import Account
from dpcli.analysis.calibrate import Parameter, parameter_key, substitute
from dpcli.base.errors import CannotCertify, InputError
from dpcli.document.chart import SERIES, Band, Line, Points, Tone
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.plots.epsilons import Epsilon, Progress, Question, smallest
from dpcli.plots.words import certificate, line_label

Found = tuple[tuple[float, Epsilon], ...]
Setting = Callable[[float], tuple[Pipeline, float]]  # the pipeline and the delta at a value

PROBE = 8  # every so many values all accountants are asked; between two such, those that won at either


@dataclass(frozen=True, slots=True)
class EpsilonCurve:
    """epsilon of one group of accountants at increasing values."""

    names: tuple[str, ...]
    label: str
    epsilons: Found
    sound: bool
    tone: Tone

    def line(self, place: Callable[[float, float], tuple[float, float]]) -> Line:
        """The upper bounds; `place` says which of (value, epsilon) goes on which axis."""
        return Line(self.label, tuple(place(x, e.upper) for x, e in self.epsilons), self.tone, dashed=not self.sound)

    def bands(self, place: Callable[[float, float], tuple[float, float]]) -> tuple[Band, ...]:
        """Between the certified bounds, where there are such."""
        both = [(x, e.lower, e.upper) for x, e in self.epsilons if e.lower is not None]
        if len(both) < 2:
            return ()
        lower: Points = tuple(place(x, low) for x, low, _ in both)
        return (Band(f"{self.label}, certified", lower, tuple(place(x, high) for x, _, high in both), self.tone),)


def curves(question: Question, account: Account, values: Sequence[float], at: Setting) -> tuple[EpsilonCurve, ...]:
    """A curve for each group of accountants, through the values at which it finds a finite epsilon.

    Raises CannotCertify where that is nowhere, or at one value only.
    """
    groups = question.groups(account.rows)
    sound = {row.accountant.name: row.accountant.sound for row in account.rows}
    found = [
        (group, _epsilons(replace(question, progress=_part(question, i, len(groups))), group, values, at))
        for i, group in enumerate(groups)
    ]
    drawn = [(group, pairs) for group, pairs in found if len(pairs) > 1]
    if not drawn:
        raise CannotCertify("nothing to draw: no finite epsilon at two or more of the values")
    missing = [group[0] for group, pairs in found if question.accountants and len(pairs) < 2]
    if missing:
        raise CannotCertify(f"cannot draw what was asked for: {', '.join(missing)}: no finite epsilon at two or more of the values")
    return tuple(
        EpsilonCurve(
            group, line_label(group, (e for _, e in pairs)), pairs, all(sound[name] for name in group), SERIES[i % len(SERIES)]
        )
        for i, (group, pairs) in enumerate(drawn)
    )


def _epsilons(question: Question, group: tuple[str, ...], values: Sequence[float], at: Setting) -> Found:
    """The smallest epsilon at each value: fewer accountants asked in between is still an upper bound, and a tenth of the time."""
    known: dict[float, Epsilon | None] = {}
    probes = {*values[::PROBE], values[-1]}
    order = [*sorted(probes), *(value for value in values if value not in probes)]
    for value in question.each(order):
        pipeline, delta = at(value)
        if any(True for entry in pipeline.mechanisms for _ in entry.spec.problems()):
            continue  # the file's own rules refuse this value
        known[value] = smallest(pipeline, _near(known, probes, value) or group, delta, group_size=question.group_size)
    return tuple((value, epsilon) for value in values if (epsilon := known.get(value)) is not None)


def _near(known: dict[float, Epsilon | None], probes: set[float], value: float) -> tuple[str, ...]:
    """The winners at the probes on both sides of a value; none where it is a probe itself, or one of them has no winner."""
    if value in probes:
        return ()
    ends = known.get(max(p for p in probes if p < value)), known.get(min(p for p in probes if p > value))
    return tuple(dict.fromkeys(end.accountant for end in ends if end is not None)) if None not in ends else ()


def _part(question: Question, i: int, of: int) -> Progress:
    """Progress of the i-th of several lines."""
    return lambda done, total: question.progress(i * total + done, of * total)


def certificates(epsilon_curves: tuple[EpsilonCurve, ...]) -> tuple[str, ...]:
    """What each line is worth."""
    sound = [curve for curve in epsilon_curves if curve.sound]
    if len(sound) == 1:
        return (certificate(e for _, e in sound[0].epsilons),)
    return tuple(f"{curve.label}: {certificate(e for _, e in curve.epsilons)}" for curve in sound)


def varied(question: Question, parameter: Parameter) -> tuple[Entry, str]:
    """The mechanism whose parameter is varied, and its key. Raises InputError where there is none, or several and none was named."""
    entries = question.pipeline.mechanisms
    known = [(entry, key) for entry in entries if (key := parameter_key(entry, parameter)) is not None]
    names = ", ".join(entry.name for entry, _ in known) or "none"
    if question.mechanism is not None:
        chosen = [pair for pair in known if pair[0].name == question.mechanism]
        if not chosen:
            raise InputError(f"--mechanism: expected a mechanism with {parameter} to vary ({names}), found {question.mechanism!r}")
        return chosen[0]
    if len(known) != 1:
        what = "name one (--mechanism NAME)" if known else "another kind of plot may suit this file"
        raise InputError(f"expected one mechanism whose {parameter} can be varied, found {names}: {what}")
    return known[0]


def replaced(question: Question, entry: Entry, key: str, value: float) -> Pipeline:
    """The pipeline with `value` for one key of one mechanism."""
    return substitute(question.pipeline, ((entry.name, key),), value)
