"""Charts by the names of their kinds (`draw`), and the words about an account that charts and reports share.

Each kind has a module with a function that plugin.py registers: `dpcli plot KIND FILE` calls draw(KIND, Question(pipeline, ...), findings).
A *question* is a pipeline with the settings of its account (epsilons.py); the *account* has a bound on epsilon by each accountant, and its
*headline*, the smallest one. A *finding* is an error or warning about the file; errors make it unsound, and the chart says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import PLOTS
from dpcli.base.rounding import up
from dpcli.document.chart import Chart
from dpcli.file.pipeline.parts import scheme_names
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.suggest import did_you_mean
from dpcli.numerics.work import SEARCH, limited_to  # a limit on work, and the decorator that applies it
from dpcli.plots.epsilons import Question

VARYING = ("epsilon-steps", "epsilon-sigma")  # kinds that vary a parameter of one mechanism
DELTA_FOR_ZERO = 1e-6  # replaces an account's delta of 0 on a log axis, which cannot show 0; the value is arbitrary


def checked_kind(kind: str) -> str:
    """Return the kind. Raises InputError, with a suggestion, if there is no such kind."""
    if kind not in PLOTS:
        meant = did_you_mean(kind, PLOTS)
        raise InputError(f"expected a kind of plot among {', '.join(PLOTS)}, found {kind!r}{'; ' + meant if meant else ''}")
    return kind


@limited_to(SEARCH)
def draw(kind: str, question: Question, diagnostics: tuple[Diagnostic, ...] = ()) -> Chart:
    """Return the chart of a kind. Its notes include the findings that make the file unsound.

    Raises:
        InputError: If the kind is unknown, the question names a mechanism that the kind does not vary, or there is nothing to draw.
        CannotCertify: If there is no finite epsilon.
    """
    if question.mechanism is not None and kind not in VARYING:
        raise InputError(f"--mechanism cannot be combined with {kind}, which varies no mechanism")
    if question.cap is not None and kind not in VARYING:
        raise InputError(f"--cap cannot be combined with {kind}, which has no axis of epsilon with a cap")
    if question.cap is not None and not 0.0 < question.cap < math.inf:
        raise InputError(f"--cap: expected a finite epsilon > 0, found {question.cap!r}")
    make: Callable[[Question], Chart] = load(PLOTS[checked_kind(kind)])
    return with_findings(make(question), diagnostics)


def with_findings(chart: Chart, diagnostics: tuple[Diagnostic, ...]) -> Chart:
    """Return the chart with the findings that make the file unsound added to its notes."""
    unsound = tuple(f"NOT SOUND: {error.rule}: {error.message}" for error in diagnostics if error.severity == "error")
    return replace(chart, notes=(*unsound, *chart.notes))


def name_of(account: Account) -> str:
    """Return the pipeline's name; its path if it has no name."""
    path = account.pipeline.path
    return account.pipeline.name or ("standard input" if path == "-" else path) or "the pipeline"


def setting(account: Account) -> str:
    """Return the unit, adjacency, delta and sampling in words."""
    privacy = account.pipeline.privacy
    group = f"groups of {account.group_size:,}, " if account.group_size > 1 else ""
    unit = privacy.unit or "record"
    return f"{group}per {unit}, {privacy.adjacency.value}, delta = {account.delta!r}, sampling: {scheme_names(account.pipeline)}"


def positive_delta(account: Account) -> float:
    """Return the account's delta, or DELTA_FOR_ZERO in place of 0, which a log axis cannot show."""
    return account.delta or DELTA_FOR_ZERO


def epsilon_at_most(account: Account) -> str:
    """Return the headline, rounded up, and its accountant as a label. The account must have a winner."""
    assert account.winner is not None
    return f"epsilon <= {up(account.upper)} ({account.winner.accountant.name})"


def not_a_bound(account: Account, drawn: Iterable[str]) -> tuple[str, ...]:
    """Return a note that names the drawn accountants whose numbers are approximations; () if there are none."""
    approximate = {row.accountant.name for row in account.rows if not row.accountant.sound and row.bound is not None}
    names = sorted(approximate & set(drawn))
    return (f"{', '.join(names)}: an approximation, not a bound",) if names else ()
