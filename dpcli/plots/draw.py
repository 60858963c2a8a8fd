"""A chart by the name of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import PLOTS
from dpcli.document.chart import Chart
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.suggest import did_you_mean
from dpcli.numerics.work import limited
from dpcli.plots.epsilons import Question

VARYING = ("epsilon-steps", "epsilon-sigma")


def checked_kind(kind: str) -> str:
    """The kind itself. Raises InputError, with what was probably meant, where there is no such."""
    if kind not in PLOTS:
        meant = did_you_mean(kind, PLOTS)
        raise InputError(f"expected a kind of plot among {', '.join(PLOTS)}, found {kind!r}{'; ' + meant if meant else ''}")
    return kind


@limited
def draw(kind: str, question: Question, diagnostics: tuple[Diagnostic, ...] = ()) -> Chart:
    """The chart of a kind; what the rules call unsound about the file is in its notes.

    Raises InputError: an unknown kind, or a pipeline that has nothing of the kind to vary. CannotCertify: no finite epsilon.
    """
    if question.mechanism is not None and kind not in VARYING:
        raise InputError(f"--mechanism cannot be combined with {kind}, which varies no mechanism")
    make: Callable[[Question], Chart] = load(PLOTS[checked_kind(kind)])
    return noted(make(question), diagnostics)


def noted(chart: Chart, diagnostics: tuple[Diagnostic, ...]) -> Chart:
    """The chart with what the rules call unsound in its notes."""
    unsound = tuple(f"NOT SOUND: {d.rule}: {d.message}" for d in diagnostics if d.severity == "error")
    return replace(chart, notes=(*unsound, *chart.notes))
