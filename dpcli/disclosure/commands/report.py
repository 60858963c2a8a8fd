"""The command `dpcli report`: write the disclosure statement of a pipeline, for those who have to judge a release that they did not make.

statement.py decides what it says, and documents/disclosure.py renders it. After an error, earlier outputs stay (`outlives_errors`).
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import click

from dpcli.cli.options import emit, output_options, working

if TYPE_CHECKING:
    from dpcli.disclosure.statement import Form


@click.command(short_help="Write the disclosure statement, with every item that a reader needs.")
@click.argument("file")
@click.option("--registry", is_flag=True, help="Write the shorter form that registries of deployments use.")
@click.option("--strict", is_flag=True, help="Exit with code 1 if an item is not stated.")
@click.option("--delta", type=float, help="Use this delta [default: the delta of FILE].")
@click.option(
    "--certificate", metavar="PATH", help="Name the certificate at PATH, which dpcli certify wrote, as the proof of epsilon."
)
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Print this date in the title [default: no date].")
@output_options("table", "total", outlives_errors=True)  # an earlier statement stays if the command fails
def command(
    file: str,
    registry: bool,
    strict: bool,
    delta: float | None,
    certificate: str | None,
    date: datetime.datetime | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Write the disclosure statement of the pipeline in FILE ("-" for standard input): plain words, then every item.

    Every item of How to DP-fy ML (section 5.3.3) and of NIST SP 800-226 has one line. If the file does not state an item, its line says NOT
    STATED and names the key that would state it, usually a key of [disclosure]. -f html writes one page with pictures and without scripts.

    With --certificate, the certificate is checked: it must prove the epsilon that is printed, of this file, at this delta. Its SHA-256 then
    stands in every form of the statement.

    Exit codes: 1 if the budget is overspent, a rule calls the file unsound, or --strict finds an item that is not stated; 3 if nothing can
    be certified, or the certificate does not prove the statement.
    """
    from dpcli.disclosure.documents.disclosure import document, draft

    form: Form = "registry" if registry else "report"
    html = "html" in (format_, *(output.partition("=")[0] for output in outputs))  # it shows pictures; an output is FORMAT=PATH
    with working():  # shows a notice in a terminal if the account takes long
        statement, charts = draft(file, delta, form, certificate, illustrated=html)
    day = date.date().isoformat() if date else None
    # `emit` prints the document, and returns its exit code, which depends on `strict`.
    return emit(document(statement, charts, strict=strict, date=day), format_, outputs)
