"""dpcli lint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain, show
from dpcli.errors import InputError

if TYPE_CHECKING:
    from dpcli.toml.diagnostics import Diagnostic


@click.command(short_help="Check files against the catalogue of known failures.")
@click.argument("files", nargs=-1)
@click.option("--ledger", metavar="LEDGER", help="Check a budget ledger too: a path or postgresql://...")
@click.option("--dataset", metavar="NAME", help="The dataset of --ledger, where that holds several.")
@click.option(
    "--select", metavar="CODES", multiple=True, help="Tell these rules alone: DP304, or DP3 for all that begin so; repeatable."
)
@click.option(
    "--ignore", metavar="CODES", multiple=True, help="Tell these rules not; of --select and --ignore the longer code decides."
)
@click.option(
    "--fix", is_flag=True, help="First mend, in place, what can have only one meaning; each change is a line on standard error."
)
@output_options("text", "findings", "checks", "records")
def command(
    files: tuple[str, ...],
    ledger: str | None,
    dataset: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fix: bool,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Check FILES against the catalogue of known failures (dpcli explain DP101 tells what a rule means).

    A file with keys of a policy of dpcli gate, and none of a pipeline, is read as a policy. A folder stands for all pipelines and policies
    in it (*.toml). That a file cannot be read is told whatever is ignored, and the last line counts what is not told.

    --fix mends keys and words that differ from known ones by a letter, numbers in quotes or with a needless point, and epochs that are no
    whole number of steps, which become the steps that are charged. Comments and order stay. Files with lists of values or [defaults],
    policies and whatever may have several meanings are left to you.

    Exit code 0: no errors. 1: an error. 2: a file cannot be read. 4: --ledger cannot be read.
    """
    from dpcli.lint.run import is_own, lint
    from dpcli.lint.scope import scope_of
    from dpcli.pipeline.folders import unfolded
    from dpcli.present.lint_text import exit_code, first_error, render

    if not files and ledger is None:
        raise click.UsageError("expected FILES or --ledger, found neither")
    scope = scope_of(select, ignore)
    files = unfolded(files, is_own)
    for file in files if fix else ():
        _mend(file)
    found = [d for file in files for d in lint(file)] + (_of_ledger(ledger, dataset) if ledger else [])
    diagnostics, untold = scope.told(found)
    places = (*files, *([ledger] if ledger else []))
    if format_ == "text" and not outputs:
        show(render(places, diagnostics, untold))
        if code := exit_code(diagnostics):
            complain(first_error(diagnostics))
        return code
    from dpcli.present.lint import document

    return emit(document(places, diagnostics, untold), format_, outputs)


def _mend(path: str) -> None:
    """The file replaced in one piece, where something can be mended; a link keeps leading to it, and one that is not TOML is left."""
    from dpcli.lint.mend import mended
    from dpcli.sessions.folder import replaced
    from dpcli.toml.limits import escaped_path, read_bytes
    from dpcli.toml.render import InvalidFile

    if path == "-":
        raise InputError("--fix: expected files, found standard input, which cannot be changed")
    try:
        data, done = mended(read_bytes(path), path)
    except InvalidFile:
        return
    if not done:
        return
    real = os.path.realpath(path)
    try:
        replaced(real, data, os.stat(real).st_mode & 0o777, fresh=True)
    except OSError as error:
        raise InputError(f"--fix: {escaped_path(path)}: cannot be written: {error.strerror}") from None
    for mend in done:
        complain(f"{escaped_path(path)}:{mend.line}: {mend.rule}: mended: {mend.words}")


def _of_ledger(ledger: str, dataset: str | None) -> list[Diagnostic]:
    from dpcli.cli.budget.options import opened
    from dpcli.ledger.findings import findings

    with opened(ledger, dataset) as found:
        return list(findings(found))
