"""dpcli lint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain, show

if TYPE_CHECKING:
    from dpcli.toml.diagnostics import Diagnostic


@click.command(short_help="Check files against the catalogue of known failures.")
@click.argument("files", nargs=-1)
@click.option("--ledger", metavar="LEDGER", help="Check a budget ledger too: a path or postgresql://...")
@click.option("--dataset", metavar="NAME", help="The dataset of --ledger, where that holds several.")
@output_options("text", "findings", "checks", "records")
def command(files: tuple[str, ...], ledger: str | None, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Check FILES against the catalogue of known failures (dpcli explain DP101 tells what a rule means).

    A file with keys of a policy of dpcli gate, and none of a pipeline, is read as a policy.

    Exit code 0: no errors. 1: an error. 2: a file cannot be read. 4: --ledger cannot be read.
    """
    from dpcli.lint.run import lint
    from dpcli.present.lint_text import exit_code, first_error, render

    if not files and ledger is None:
        raise click.UsageError("expected FILES or --ledger, found neither")
    diagnostics = [d for file in files for d in lint(file)] + (_of_ledger(ledger, dataset) if ledger else [])
    places = (*files, *([ledger] if ledger else []))
    if format_ == "text" and not outputs:
        show(render(places, diagnostics))
        if code := exit_code(diagnostics):
            complain(first_error(diagnostics))
        return code
    from dpcli.present.lint import document

    return emit(document(places, diagnostics), format_, outputs)


def _of_ledger(ledger: str, dataset: str | None) -> list[Diagnostic]:
    from dpcli.cli.budget.options import opened
    from dpcli.ledger.findings import findings

    with opened(ledger, dataset) as found:
        return list(findings(found))
