"""dpcli lint."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Check files against the catalogue of known failures.")
@click.argument("files", nargs=-1, required=True)
@output_options("text", "json", "jsonl", "markdown", "csv", "github", "junit", "sarif")
def command(files: tuple[str, ...], format_: str, outputs: tuple[str, ...]) -> int:
    """Check FILES against the catalogue of known failures (dpcli explain DP101 tells what a rule means).

    Exit code 0: no errors. 1: an error. 2: a file cannot be read as a pipeline.
    """
    from dpcli.lint.run import lint
    from dpcli.report.lint_text import exit_code, render

    diagnostics = [d for file in files for d in lint(file)]
    if format_ == "text" and not outputs:
        click.echo(render(files, diagnostics), nl=False)
        return exit_code(diagnostics)
    from dpcli.report.lint_report import document

    return emit(document(files, diagnostics), format_, outputs)
