"""The command `dpcli release`: answer queries about a table with noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dpcli.cli.options import each_once, emit, output_options, write
from dpcli.cli.outputs import ledger_files, protect, require_writable, split_pictures
from dpcli.cli.printing import show
from dpcli.sessions.commands.predicting import charged_ledger

if TYPE_CHECKING:
    from dpcli.release.release_plan import ReleasePlan


@click.command(short_help="Answer queries about a table with noise, once, and remember the answers.")
@click.argument("file")
@click.option(
    "--compare",
    is_flag=True,
    help="For a mode by propose-test-release: how likely it is right, beside noisy maxima and the stability histogram, by gap and domain.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print mechanisms, cost, the error to expect, and whether --ledger has room for it; no data are touched, nothing is charged.",
)
@click.option("--key", metavar="KEY", help="Key of the charge in the ledger, once for each release. Made up where absent.")
@charged_ledger("Charge this ledger before the data are touched.")
@click.option("--parquet", metavar="PATH", help="Also write the answers to PATH, as parquet.")
@output_options("table", "total", "records", "pictures", spares_data=True)
def command(
    file: str,
    compare: bool,
    dry_run: bool,
    key: str | None,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    parquet: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Answer the [[query]] tables of FILE about the table of its [source]: counts, sums, means, quantiles and others, each with noise that
    is scaled to what one unit may change, and with an interval.

    All queries are one composition, priced together before any data are touched. The answers are kept in the folder of the release: asked
    again, the same answers are given, and nothing more is charged.

    Exit code 1 where the budget or the ledger says no, 2 where the file asks for what cannot be done, 4 where the ledger or the folder
    cannot be relied on, or where the release was charged and its answers are lost.
    """
    from dpcli.release.documents.release import outcome, planned
    from dpcli.release.release_plan import plan_of, protected_files
    from dpcli.sessions.commands.predicting import opened_or_none
    from dpcli.sessions.window import over_window

    plan = plan_of(file)
    places = [*(output.partition("=")[2] for output in outputs), *([] if parquet is None else [parquet])]
    protect((*protected_files(plan), *(() if ledger is None else ledger_files(ledger))))
    each_once(places)
    require_writable(places)
    if compare:
        return _compared(plan, format_, outputs)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import quoted
        from dpcli.release.release_run import charged_before

        with opened_or_none(ledger, dataset) as books:
            plan = over_window(plan, books, window)
            if books is not None or plan.pipeline.privacy.window is None:
                plan = plan.reading(books)
        return emit(quoted(planned(plan), ledger, dataset, plan.pipeline, charged_before(plan)), format_, outputs)
    from dpcli.cli.printing import progress
    from dpcli.release.documents.release import parquet_of, sheet_of
    from dpcli.release.release_run import release
    from dpcli.sessions.commands.predicting import warn_after_run

    with opened_or_none(ledger, dataset) as books, progress("queries") as report:
        done = release(over_window(plan, books, window), books, key, report)
        if done.fresh:
            warn_after_run(books, done.run)
    if parquet is not None:
        write(parquet, parquet_of(sheet_of(done.answers)))
    return emit(outcome(done), format_, outputs)


def _compared(plan: ReleasePlan, format_: str, outputs: tuple[str, ...]) -> int:
    """Show the comparison of ways to release a mode: pictures and then tables in a terminal, one document in other formats."""
    from dpcli.cli.picture import show as show_picture
    from dpcli.release.documents.stability import document, domains, picture
    from dpcli.release.stability.mode_comparison import comparison_of

    pictures, documents = split_pictures(outputs)
    comparison = comparison_of(plan.queries, plan.path)
    drawn = picture(comparison)
    if pictures:
        show_picture(drawn, None, pictures)
    if format_ == "table":
        for chart in (drawn, domains(comparison)):
            show_picture(chart, None, ())
            show("\n")
    return emit(document(comparison), format_, documents)
