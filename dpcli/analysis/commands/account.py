"""The command `dpcli account`: the cost of one or several pipeline files, or of a pipeline that flags describe.

It reads files and flags; analysis/account.py computes, and documents/account.py and documents/accounts.py make the *documents*, which
options.py prints in a format. The lint rules check every pipeline that is priced (`judge`), and their findings are a part of the document.
Flags without a file describe a pipeline of one mechanism: they become the text of a file (`tables_and_text` in stating.py), which is read
and checked like any file, and which --write keeps.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dpcli.base.errors import InputError
from dpcli.cli.accounting_options import accounting_options, require_one_unit, run_options, write_option
from dpcli.cli.options import composed, emit, output_options, working

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.document.document import Document


class AccountingFlags(NamedTuple):
    """The flags of `dpcli account` about the accounting, in the order in which analysis/account.py takes them."""

    accountants: Sequence[str] | None
    delta: float | None
    epsilon: float | None
    group_size: int
    tolerance: float | None


# Options that describe a pipeline without FILE.
stated_options = composed(
    click.option("--noise-multiplier", type=float, help="Noise divided by the largest contribution of one record (without FILE)."),
    click.option(
        "--laplace", is_flag=True, help="Laplace noise; --noise-multiplier is then its scale instead of a standard deviation."
    ),
    click.option("--pure", type=float, metavar="EPSILON", help="Pure epsilon of one step, if it is known (without FILE)."),
    run_options,
    write_option("the pipeline that the flags describe"),
)


@click.command(short_help="Compute the cost of a pipeline, by every accountant.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@stated_options
@accounting_options
@click.option(
    "--epsilon",
    type=float,
    help="Report delta at this epsilon. To find the noise that meets an epsilon, use dpcli calibrate-sigma.",
)
@click.option("--tolerance", type=float, help="Relative width of the grid accountant's interval [default: 0.001].")
@click.option("--digits", type=click.IntRange(0, 15), default=4, show_default=True, help="Decimals in the table.")
@output_options("table", "findings", "checks", "total", "records")
def command(
    files: tuple[str, ...],
    write: str | None,
    accountants: tuple[str, ...],
    delta: float | None,
    group_size: int,
    epsilon: float | None,
    tolerance: float | None,
    digits: int,
    format_: str,
    outputs: tuple[str, ...],
    **flags: Any,
) -> int:
    """Compute the cost of the pipeline in FILE ("-" for standard input): epsilon at its delta, by every accountant.

    Without FILE, flags describe the pipeline. --noise-multiplier 1.1 --sampling-rate 0.004 --steps 10000 --delta 1e-6 describes DP-SGD with
    Poisson sampling. A second table shows epsilon for shuffled batches and for replace-one. --write PATH writes the pipeline to a file.

    Each of several FILEs is priced separately. Files that name the same dataset (privacy.dataset) are also priced together: their
    mechanisms are composed as in one file, at the smallest delta that a file states. The joint cost is valid if all files were fixed before
    the first of them ran. An adaptive file (privacy.adaptive) guarantees its cap in [budget]; without a cap it guarantees no epsilon.

    Each row is an upper bound, rounded up. The headline is the smallest sound bound. If it is certified to within 1e-9, accountants that
    take more work are not run; -a all runs them too. Exit code 1: the budget of the file is exceeded. Exit code 3: nothing can be
    certified.
    """
    if epsilon is not None and delta is not None:
        raise InputError("give --epsilon or --delta, not both")
    require_one_unit(write, group_size)  # a file cannot state that a group of units changes together
    accounting = AccountingFlags(accountants or None, delta, epsilon, group_size, tolerance)
    cite_sources = click.get_current_context().obj.verbose > 0  # the option -v
    if not files:
        return _account_of_flags(flags, accounting, digits, cite_sources, format_, outputs, write)
    _require_no_flags(files[0], flags, write)
    if len(files) == 1:
        return emit(_document_of_file(files[0], accounting, digits, cite_sources), format_, outputs)
    return emit(several(files, accounting, digits, cite_sources), format_, outputs)


def _document_of_file(path: str, accounting: AccountingFlags, digits: int, cite_sources: bool) -> Document:
    """Return the document with the cost of the pipeline in one file."""
    from dpcli.analysis.account import account
    from dpcli.analysis.documents.account import document
    from dpcli.file.pipeline.read import parse
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.run import judge

    data = read_bytes(path)
    pipeline = parse(data, path)
    diagnostics = judge(pipeline, data, deltas={"--delta": accounting.delta})
    with working():
        result = account(pipeline, *accounting)
    return _with_place_of_cap(document(result, diagnostics, digits, cite_sources), data, result)


def _account_of_flags(
    flags: dict[str, Any],
    accounting: AccountingFlags,
    digits: int,
    cite_sources: bool,
    format_: str,
    outputs: tuple[str, ...],
    write: str | None,
) -> int:
    """Print the cost of the pipeline that flags describe, with its cost under other assumptions, and write its file to `write`."""
    from dpcli.analysis.account import account
    from dpcli.analysis.commands.stating import solving_flags, tables_and_text, without_lines
    from dpcli.analysis.documents.account import document
    from dpcli.analysis.documents.alternatives import alternatives, with_alternatives
    from dpcli.file.pipeline.flags import pipeline_of_flags
    from dpcli.lint.run import judge

    tables, text = tables_and_text(flags, accounting.delta, accounting.epsilon)
    pipeline, data = pipeline_of_flags(tables, text), text.encode()
    diagnostics = without_lines(judge(pipeline, data, deltas={"--delta": None}))  # the text states --delta itself
    with working():
        result = account(pipeline, *accounting)
    report = document(result, diagnostics, digits, cite_sources, solving_flags(flags))
    other_costs = alternatives(tables, accounting.delta, accounting.epsilon, accounting.accountants, accounting.group_size)
    report = with_alternatives(report, other_costs, digits)
    code = emit(_with_place_of_cap(report, data, result), format_, outputs)
    if write is not None:
        from dpcli.cli.new_files import write_new_pipeline

        write_new_pipeline(write, text)
    return code


def _require_no_flags(file: str, flags: dict[str, Any], write: str | None) -> None:
    """Raise InputError if a flag describes a pipeline although FILE does."""
    if any(value is not None and value is not False for value in (write, *flags.values())):
        from dpcli.analysis.commands.stating import refuse_with_file  # needed for the message only

        refuse_with_file(file, {"write": write, **flags})


def _with_place_of_cap(document: Document, data: bytes, result: Account) -> Document:
    """Return the document with the line and column of the cap that is exceeded; those of the start if the file does not state the cap.

    Formats for CI show the failure there.
    """
    if result.exit_code != 1:  # the code of an exceeded budget
        return document
    from dpcli.file.toml.positions import locate
    from dpcli.file.toml.syntax import text_of

    exceeds_epsilon = result.budget is None or (result.budget.epsilon is not None and result.budget.epsilon.verdict == "fail")
    cap = ("budget", "epsilon" if exceeds_epsilon else "rho")
    return replace(document, place=locate(text_of(data), [cap])[cap])


def several(paths: Sequence[str], accounting: AccountingFlags, digits: int, cite_sources: bool) -> Document:
    """Return the document with the cost of each of several pipelines, and the joint cost of pipelines that share a dataset.

    Raises:
        InputError: a file is given twice, or files of one dataset cannot be composed.
        InvalidFile: a file has problems, as for `dpcli.load`.
    """
    from dpcli.analysis.account import account
    from dpcli.analysis.dataset_sum import account_of_dataset
    from dpcli.analysis.documents.accounts import document
    from dpcli.file.pipeline.datasets import by_dataset
    from dpcli.file.pipeline.read import parse
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.run import judge

    _require_each_once(paths)
    contents = [(path, read_bytes(path)) for path in paths]
    pipelines = [parse(data, path) for path, data in contents]
    datasets = {name: members for name, members in by_dataset(pipelines).items() if len(members) > 1}
    findings = [
        judge(pipeline, data, deltas={"--delta": accounting.delta}) for pipeline, (_, data) in zip(pipelines, contents, strict=True)
    ]
    with working():
        accounts = [account(pipeline, *accounting) for pipeline in pipelines]
        # Each file runs once.
        sums = {name: account_of_dataset([(member, 1) for member in members], *accounting) for name, members in datasets.items()}
    return document(list(zip(accounts, findings, strict=True)), sums, digits, cite_sources)


def _require_each_once(paths: Sequence[str]) -> None:
    """Raise InputError if two paths are one file after links are followed."""
    places = [path if path == "-" else os.path.realpath(path) for path in paths]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise InputError(f"{paths[index]}: expected each file once, found it again, which would count its cost twice")
