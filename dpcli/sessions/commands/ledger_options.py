"""The options --ledger, --dataset and --window of the commands that charge a ledger, and the messages of these commands about it.

A *ledger* (dpcli/ledger) is the account book of a dataset: it records what each run cost, and refuses a run that does not fit in the rest
of the budget. The commands train, sweep, release, pate, pmixed, prompt and generate have the options. Without --ledger nothing is charged,
and nobody adds the cost of the run to that of other runs. A *plan* is what a command is about to do, with its cost
(dpcli/sessions/priced.py). A *window* is the part of the dataset that a run reads (dpcli/sessions/window.py). It consists of *blocks*, such
as days.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from dpcli.cli.options import composed
from dpcli.cli.printing import complain
from dpcli.ledger.commands.budget import opened_ledger, window_option

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpcli.ledger.ledger import Ledger
    from dpcli.sessions.window import Plan


UNCHARGED = "charged to no ledger: the costs of runs on the same data add up, and only a ledger counts them (--ledger)"


def opened_or_warned(ledger: str | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """Return a context manager that yields the open ledger, or None if no ledger is named.

    If no ledger is named, a line on standard error says that nothing is charged, unless --quiet is given.
    """
    if ledger is None and not click.get_current_context().obj.quiet:
        complain(UNCHARGED)  # prints a line on standard error
    return opened_or_none(ledger, dataset)


def opened_or_none(ledger: str | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """Return a context manager that yields the open ledger, or None if no ledger is named."""
    return nullcontext() if ledger is None else opened_ledger(ledger, dataset)


def restrict_dry_run(plan: Plan, ledger: str | None, dataset: str | None, window: Sequence[str]) -> Plan:
    """Return the plan of a dry run, restricted to its window (`over_window`). The other arguments are the values of the options."""
    from dpcli.sessions.window import over_window

    with opened_or_none(ledger, dataset) as book:
        return over_window(plan, book, window)


def restrict_run(plan: Plan, ledger: Ledger | None, window: Sequence[str]) -> Plan:
    """Return the plan of a run, restricted to its window (`over_window`).

    If it has a window, print on standard error which rows are read, unless --quiet is given. If --window counts the last blocks ("last 7
    days"), print first which blocks these are.
    """
    from dpcli.file.pipeline.datasets import UNCHECKED
    from dpcli.sessions.window import over_window

    plan = over_window(plan, ledger, window)
    blocks = plan.pipeline.privacy.window
    if blocks is not None and not click.get_current_context().obj.quiet:
        if any(text.startswith("last ") for text in window):
            complain(f"--window: {', '.join(blocks)}")
        # UNCHECKED: dpcli does not select the rows, so nobody checks that they lie in the blocks.
        complain(UNCHECKED if plan.rows is None else plan.rows.words)
    return plan


def warn_after_run(ledger: Ledger | None, run: str) -> None:
    """Print a warning after a run if no ledger records it, or if it costs at least half of the ledger's delta. --quiet prints none."""
    if click.get_current_context().obj.quiet:
        return
    if ledger is None:
        complain(UNCHARGED)
        return
    from dpcli.ledger.documents.ledger_balance import delta_warning

    state = ledger.state()
    warning = delta_warning(state, state.run(run))
    if warning:
        complain(warning)


def charging_options(ledger_help: str) -> Callable[..., Any]:
    """Return a decorator that adds --ledger, --dataset and --window to a command. `ledger_help` is the help of --ledger."""
    return composed(
        click.option("--ledger", metavar="LEDGER", help=ledger_help),
        click.option("--dataset", metavar="NAME", help="Use this dataset of --ledger, if the ledger has several."),
        window_option,
    )
