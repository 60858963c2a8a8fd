"""dpcli lint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain, show

if TYPE_CHECKING:
    from dpcli.file.toml.findings import Diagnostic


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
    in it (*.toml). That a file cannot be read, and an error that no gate may waive, is told whatever is ignored; every format says how many
    findings of which rules were left out.

    --fix mends keys and words that differ from known ones by a letter, numbers in quotes or with a needless point, and epochs that are no
    whole number of steps, which become the steps that are charged. Comments and order stay. Files that do not state format = 1, files with
    lists of values or [defaults], policies and whatever may have several meanings are left to you; so is a file that is read-only, has
    several names (hard links), is a link out of the folder given, or was changed in the meantime.

    Exit code 0: no errors. 1: an error. 2: a file cannot be read or mended. 4: --ledger cannot be read.
    """
    from dpcli.file.pipeline.read import unfolded
    from dpcli.lint.documents.lint_text import exit_code, first_error, render
    from dpcli.lint.run import is_own
    from dpcli.lint.scope import scope_of

    if not files and ledger is None:
        raise click.UsageError("expected FILES or --ledger, found neither")
    scope = scope_of(select, ignore)
    given, files = files, unfolded(files, is_own)
    if fix and "-" in files:
        raise InputError("--fix: expected files, found standard input, which cannot be changed")
    refused = [file for file in files if fix and not _mend(file, given)]
    found = [d for file in files for d in _found(file, given)] + (_of_ledger(ledger, dataset) if ledger else [])
    diagnostics, left = scope.told(found)
    places = (*files, *([ledger] if ledger else []))
    if format_ == "text" and not outputs:
        show(render(places, diagnostics, left))
        if code := exit_code(diagnostics):
            complain(first_error(diagnostics))
        return max(code, 2 if refused else 0)
    from dpcli.lint.documents.lint import document

    return emit(document(places, diagnostics, left, bool(refused)), format_, outputs)


def _mend(path: str, given: Sequence[str]) -> bool:
    """Each repair as a line; of a file that cannot be mended why not, and False: the others are mended all the same."""
    from dpcli.file.toml.limits import escaped_path
    from dpcli.lint.commands.rewriting import rewrite

    try:
        done = rewrite(path, () if path in given else [folder for folder in given if os.path.isdir(folder)])
    except InputError as error:
        complain(str(error))
        return False
    for mend in done:
        complain(f"{escaped_path(path)}:{mend.line}: {mend.rule}: mended: {mend.words}")
    return True


def _found(path: str, given: Sequence[str]) -> Sequence[Diagnostic]:
    """What there is to say of a file; of one in a folder that cannot be read, that."""
    from dpcli.file.toml.findings import Diagnostic
    from dpcli.file.toml.limits import escaped_path
    from dpcli.lint.run import lint

    try:
        return lint(path)
    except InputError as error:
        if path in given:
            raise
        return (Diagnostic("DP001", "error", str(error).removeprefix(f"{escaped_path(path)}: "), path),)


def _of_ledger(ledger: str, dataset: str | None) -> list[Diagnostic]:
    from dpcli.ledger.commands.options import opened
    from dpcli.ledger.findings import findings

    with opened(ledger, dataset) as found:
        return list(findings(found))
