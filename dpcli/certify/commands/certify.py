"""The command `dpcli certify`: prove the headline of a file, check a certificate, or print the program that checks one.

The *headline* is the epsilon (or delta) that `dpcli account` prints for the file. A certificate is a proof in JSON, which that program
(checker.py) verifies. The imports stand in the functions, because the checker needs python-flint, which is an extra, and the rest of dpcli
must start without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import CannotCertify, InputError, NotRepresentable
from dpcli.base.extras import require
from dpcli.cli.accounting_options import write_option
from dpcli.cli.options import emit, output_options, working

if TYPE_CHECKING:
    from dpcli.document.document import Document

CHECKER = Path(__file__).parents[1] / "checker.py"
DIGITS = 4  # default of --digits


@click.command(short_help="Prove an epsilon, and check a proof.")
@click.argument("file", required=False)
@click.option("--delta", type=float, help="Prove epsilon at this delta, in place of the file's.")
@click.option("--epsilon", type=float, help="Prove delta at this epsilon instead.")
@click.option("--group-size", type=click.IntRange(1), default=1, show_default=True, help="Units of privacy that change together.")
@click.option(
    "--digits", type=click.IntRange(0, 9), default=DIGITS, show_default=True, help="Decimals of the bounds that are proved."
)
@click.option("--check", metavar="PATH", help="Check the certificate at PATH; with FILE, also that it is about FILE.")
@click.option("--print-checker", is_flag=True, help="Print the checker, a Python program that needs python-flint alone.")
@write_option("the certificate (JSON)")
@output_options("table", "findings", "total")
def command(
    file: str | None,
    delta: float | None,
    epsilon: float | None,
    group_size: int,
    digits: int,
    check: str | None,
    print_checker: bool,
    write: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Prove what the pipeline in FILE costs: that the epsilon which `account` prints holds at its delta.

    `account` computes in floating point, with allowances for its errors. `certify` derives the same bound again in ball arithmetic, where
    every number carries a bound on its own error, by a program that shares no code with the accountants. --write PATH keeps the proof as a
    certificate, and prints its SHA-256, by which report, attest, gate and a ledger name it. Whoever has it can check it without dpcli:
    --print-checker prints the checker, one file that runs alone.

    If the proof of the printed epsilon would need too much work, certify proves the smallest epsilon that it can, and says so. A mechanism
    whose pair the checker does not know is refused. The assumptions of a proof are printed with it: that the file describes what was run,
    and that each pair dominates its mechanism, with the theorem.

    Exit code 1 where the proved epsilon exceeds the file's budget or a certificate proves nothing, 3 where nothing can be proved.
    """
    # Options that say what to prove, by whether they are set. A certificate that is checked states these itself.
    settings = {
        "--delta": delta is not None,
        "--epsilon": epsilon is not None,
        "--write": write is not None,
        "--group-size": group_size != 1,
        "--digits": digits != DIGITS,
    }
    if print_checker:
        others = {"FILE": file is not None, "--check": check is not None, **settings, "-o": bool(outputs)}
        if any(others.values()):
            raise InputError(f"--print-checker: expected it alone, found {', '.join(name for name in others if others[name])}")
        click.echo(CHECKER.read_text(encoding="utf-8"), nl=False)
        return 0
    if epsilon is not None and delta is not None:
        raise InputError("expected --epsilon or --delta, found both")
    require("flint")
    if check is not None:
        if any(settings.values()):
            raise InputError(
                "--check: expected a certificate alone, or with FILE: it states its own epsilon, delta, group size and digits"
            )
        return emit(_check_certificate(check, file), format_, outputs)
    if file is None:
        raise InputError("expected FILE, or --check PATH")
    return emit(_prove_file(file, delta, epsilon, group_size, digits, write), format_, outputs)


def _check_certificate(path: str, file: str | None) -> Document:
    """Return the document of what the certificate at `path` proves, of `file` if there is one."""
    from dpcli.certify.documents.proof import document_of_check
    from dpcli.certify.named_certificate import read_certificate
    from dpcli.file.pipeline.read import load

    certificate, digest = read_certificate(path)
    return document_of_check(path, certificate, digest, None if file is None else load(file))


def _prove_file(file: str, delta: float | None, epsilon: float | None, group_size: int, digits: int, write: str | None) -> Document:
    """Prove the headline of a file, write the certificate if `write` is a path, and return the document of the proof."""
    from dpcli.certify.certificate import prove
    from dpcli.certify.documents.proof import document_of_proof
    from dpcli.certify.named_certificate import text_of
    from dpcli.cli.document_files import write as write_file
    from dpcli.file.pipeline.read import parse
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.run import judge

    data = read_bytes(file)
    pipeline = parse(data, file)
    try:
        with working():  # prints a notice if it takes long
            result = prove(pipeline, delta, epsilon, group_size, digits)
    except NotRepresentable as error:
        raise CannotCertify(f"{file}: not proved: {error}") from None
    if write is not None:
        write_file(write, text_of(result.certificate))
    findings = judge(pipeline, data, {"--delta": delta})  # findings of the lint rules
    return document_of_proof(result, findings, write)
