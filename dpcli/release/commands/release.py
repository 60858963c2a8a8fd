"""The command `dpcli release`: answer the queries of a file about a table, with noise.

release_plan.py makes the plan without data, release_run.py charges, computes and stores, and documents/release.py shows. No output may
overwrite the data, the ledger or the release: paths are checked before the charge, and errors before that replace no data (`spares_data`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dpcli.cli.document_files import write
from dpcli.cli.options import each_once, emit, output_options
from dpcli.cli.outputs import ledger_files, protect, require_writable, split_pictures
from dpcli.cli.printing import show
from dpcli.sessions.commands.ledger_options import charging_options

if TYPE_CHECKING:
    from dpcli.document.document import Document
    from dpcli.release.release_plan import ReleasePlan


@click.command(short_help="Answer queries about a table with noise, once, and remember the answers.")
@click.argument("file")
@click.option(
    "--compare",
    is_flag=True,
    help="Compare propose-test-release with other mechanisms for the mode, by the probability of the right answer. Reads no data.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print mechanisms, cost, expected errors, and whether --ledger has room for them; no data are read and nothing is charged.",
)
@click.option("--key", metavar="KEY", help="Key of the charge in the ledger, unique for each release. The default is a random key.")
@charging_options("Charge this ledger before the data are read.")
@click.option("--parquet", metavar="PATH", help="Also write the answers to PATH as parquet.")
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
    """Answer the [[query]] tables of FILE about the table of its [source], with noise and confidence intervals.

    A query asks for a count, a sum, a mean, a quantile or another measure. The noise is scaled to the largest change that one unit can
    cause.

    All queries are priced together, as one composition, before any data are read. The answers are stored in the folder of the release. A
    repeated call returns the stored answers and charges nothing.

    Exit code 1: the budget or the ledger refuses the charge. Exit code 2: the file asks for something that cannot be done. Exit code 4:
    the ledger or the folder is not reliable, or the release was charged and its answers are lost.
    """
    from dpcli.cli.printing import progress
    from dpcli.release.documents.answers import parquet_of, sheet_of
    from dpcli.release.documents.release import outcome_document
    from dpcli.release.release_plan import plan_of, protected_files
    from dpcli.release.release_run import release
    from dpcli.sessions.commands.ledger_options import opened_or_none, warn_after_run
    from dpcli.sessions.window import over_window

    plan = plan_of(file)
    # No output may replace another one, the data, the ledger or a file of the release. The data are protected by `require_writable` itself.
    paths = [output.partition("=")[2] for output in outputs]  # an output is FORMAT=PATH
    if parquet is not None:
        paths.append(parquet)
    protect((*protected_files(plan), *(() if ledger is None else ledger_files(ledger))))
    each_once(paths)
    require_writable(paths)
    if compare:
        return _show_comparison(plan, format_, outputs)
    if dry_run:
        return emit(_dry_run_document(plan, ledger, dataset, window), format_, outputs)
    with opened_or_none(ledger, dataset) as opened, progress("queries") as report:
        result = release(over_window(plan, opened, window), opened, key, report)  # `over_window` writes --window into the plan
        if result.fresh:
            warn_after_run(opened, result.run)
    if parquet is not None:
        write(parquet, parquet_of(sheet_of(result.answers)))
    return emit(outcome_document(result), format_, outputs)


def _dry_run_document(plan: ReleasePlan, ledger: str | None, dataset: str | None, window: tuple[str, ...]) -> Document:
    """Return the document of the plan, with the ledger's answer to its charge if there is a ledger."""
    from dpcli.ledger.documents.ledger_answers import with_quote
    from dpcli.release.documents.release import plan_document
    from dpcli.release.release_run import charged_before
    from dpcli.sessions.commands.ledger_options import opened_or_none
    from dpcli.sessions.window import over_window

    with opened_or_none(ledger, dataset) as opened:
        plan = over_window(plan, opened, window)
        # A window without a ledger would be refused. A dry run shows the plan, and a note that it needs the ledger.
        if opened is not None or plan.pipeline.privacy.window is None:
            plan = plan.with_window(opened)
    return with_quote(plan_document(plan), ledger, dataset, plan.pipeline, charged_before(plan))


def _show_comparison(plan: ReleasePlan, format_: str, outputs: tuple[str, ...]) -> int:
    """Show the comparison of ways to release a mode: pictures and then tables in a terminal, one document in other formats."""
    from dpcli.cli.picture import show as show_picture
    from dpcli.release.documents.stability import document, domains, picture
    from dpcli.release.stability.mode_comparison import comparison_of

    pictures, documents = split_pictures(outputs)
    comparison = comparison_of(plan.queries, plan.path)
    drawn = picture(comparison)
    if pictures:
        show_picture(drawn, format_=None, outputs=pictures)
    if format_ == "table":
        for chart in (drawn, domains(comparison)):
            show_picture(chart, format_=None, outputs=())  # without outputs, a picture is printed
            show("\n")
    return emit(document(comparison), format_, documents)
