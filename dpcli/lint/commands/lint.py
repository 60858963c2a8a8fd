"""The command `dpcli lint`, which reports findings in files and, with --fix, makes unambiguous repairs.

run.py finds them, and mend.py decides what may be repaired. This file writes a repaired file back in one atomic step, and only if nothing
but its text would change: no link, owner, permission or second name is lost (`_refusal`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import emit, output_options
from dpcli.cli.printing import complain, on_one_terminal, show

if TYPE_CHECKING:
    from dpcli.file.toml.findings import Diagnostic
    from dpcli.lint.mend import Mend

ACCESS_LIST = "system.posix_acl_access"  # name of the extended attribute in which Linux keeps an access control list


@click.command(short_help="Check files against the catalogue of known failures.")
@click.argument("files", nargs=-1)
@click.option("--ledger", metavar="LEDGER", help="Check a budget ledger too: a path or postgresql://...")
@click.option("--dataset", metavar="NAME", help="Dataset of --ledger, if the ledger has several.")
@click.option(
    "--select",
    metavar="CODES",
    multiple=True,
    help="Report only these rules: DP304, or DP3 for all codes with this prefix; repeatable.",
)
@click.option(
    "--ignore",
    metavar="CODES",
    multiple=True,
    help="Leave these rules out; if --select and --ignore both match, the longer prefix decides.",
)
@click.option("--fix", is_flag=True, help="First make unambiguous repairs in the files; each repair is a line on standard error.")
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
    """Check FILES against the catalogue of known failures (for example, dpcli explain DP101 explains a rule).

    A file with keys of a policy of dpcli gate, and without keys of a pipeline, is read as a policy. The same holds for a schedule of dpcli
    budget plan. A folder stands for all pipelines, policies and schedules in it (*.toml). Unreadable files, and errors that no gate may
    waive, are always reported. Every format shows the number of findings by rule that --select or --ignore left out.

    --fix repairs keys and words that differ by one letter from a known one, numbers in quotes or with a needless decimal point, and epochs
    that are no whole number of steps: these become the number of steps that is charged. Comments and order stay. --fix does not change a
    problem with several possible repairs, a file without format = 1, a file with lists of values or [defaults], or a policy. It does not
    change a file that is read-only, has several names (hard links), is a link out of the given folder, or was changed in the meantime.

    Exit code 0: no errors. 1: an error. 2: a file cannot be read or repaired. 4: --ledger cannot be read.
    """
    from dpcli.file.pipeline.read import expand_folders
    from dpcli.lint.documents.lint import document, exit_code, first_error, render
    from dpcli.lint.rule_scope import scope_of
    from dpcli.lint.run import is_lintable

    if not files and ledger is None:
        raise click.UsageError("expected FILES or --ledger, found neither")
    scope = scope_of(select, ignore)
    given, files = files, expand_folders(files, is_lintable)
    if fix and "-" in files:
        raise InputError("--fix: expected files, found standard input, which cannot be changed")
    refused = [file for file in files if not _mend(file, given)] if fix else []
    places = list(files)
    findings: list[Diagnostic] = []
    for file in files:
        findings += _findings(file, given)
    if ledger:
        places.append(ledger)
        findings += _ledger_findings(ledger, dataset)
    diagnostics, omitted = scope.selected(findings)
    if format_ == "text" and not outputs:
        show(render(places, diagnostics, omitted))
        code = exit_code(diagnostics)
        if code and not on_one_terminal():  # standard error repeats the first error
            complain(first_error(diagnostics))
        return max(code, 2 if refused else 0)  # 2: a file could not be repaired
    return emit(document(places, diagnostics, omitted, repair_refused=bool(refused)), format_, outputs)


def _mend(path: str, given: Sequence[str]) -> bool:
    """Repair a file in place, print each repair, and return True, also if there is nothing to repair.

    If the file may not or cannot be replaced, print the reason and return False.

    Args:
        given: The files and folders on the command line. A file that is not among them must lie in one of these folders.
    """
    from dpcli.file.toml.limits import escaped_path

    try:
        # A link in a folder must not lead to a file elsewhere, which the user has not named.
        repairs = _rewrite(path, None if path in given else [folder for folder in given if os.path.isdir(folder)])
    except InputError as error:
        complain(str(error))
        return False
    for mend in repairs:
        complain(f"{escaped_path(path)}:{mend.line}: {mend.rule}: repaired: {mend.words}")
    return True


def _findings(path: str, given: Sequence[str]) -> Sequence[Diagnostic]:
    """Return the findings in a file. If a file in a folder of `given` cannot be read, this is its only finding.

    Raises InputError if the file cannot be read and is itself in `given`, the files and folders on the command line.
    """
    from dpcli.file.toml.findings import Diagnostic
    from dpcli.file.toml.limits import escaped_path
    from dpcli.lint.run import lint

    try:
        return lint(path)
    except InputError as error:
        if path in given:
            raise
        return (Diagnostic("DP001", "error", str(error).removeprefix(f"{escaped_path(path)}: "), path),)


def _ledger_findings(url: str, dataset: str | None) -> list[Diagnostic]:
    """Return the findings about a dataset of a ledger. Raises InputError or LedgerError if it cannot be opened."""
    from dpcli.ledger.commands.budget import opened_ledger
    from dpcli.ledger.ledger_findings import findings

    with opened_ledger(url, dataset) as ledger:
        return list(findings(ledger))


def _rewrite(path: str, folders: Sequence[str] | None) -> tuple[Mend, ...]:
    """Replace a file by its repaired text, and return the repairs. A file that cannot be read or is not TOML is left as it is.

    If `folders` is not None, the file must lie in one of them. Raises InputError if the file must not or cannot be replaced
    (`_replace_text`).
    """
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.file.toml.limits import read_bytes
    from dpcli.lint.mend import mended

    try:
        before = read_bytes(path)
    except InputError:
        return ()  # lint reports the error
    try:
        after, repairs = mended(before, path)
    except InvalidFile:
        return ()  # lint reports the error
    if repairs:
        _replace_text(path, before, after, folders)
    return repairs


def _replace_text(path: str, before: bytes, after: bytes, folders: Sequence[str] | None) -> None:
    """Replace the content of a file in one atomic step. A link keeps pointing to its target.

    Args:
        before: The content on which the new content is based.
        folders: The folders in one of which the file must lie; None if it may lie anywhere.

    Raises:
        InputError: The replacement would change more than the text of the file. Or the file has changed since it was read, or cannot be
            written. Or the system is not POSIX.
    """
    from dpcli.base.extras import require_posix
    from dpcli.file.toml.limits import escaped_path, read_bytes
    from dpcli.sessions.folder import replace_file

    require_posix("lint --fix")
    name = f"--fix: {escaped_path(path)}"
    real = os.path.realpath(path)

    def finish_draft() -> None:
        """Give the draft, which `replace_file` has written, the owner of the file. Raises InputError if the file was changed meanwhile."""
        os.chown(f"{real}.new", info.st_uid, info.st_gid)
        if read_bytes(real) != before:
            raise InputError(f"{name}: not repaired: it was changed by another program in the meantime")

    try:
        info = os.stat(real)
        refusal = _refusal(real, info, folders)
        if refusal is not None:
            raise InputError(f"{name}: not repaired: {refusal}")
        # `fresh`: a draft that another process is writing is not overwritten.
        replace_file(real, after, stat.S_IMODE(info.st_mode), fresh=True, last=finish_draft)
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror}") from None


def _refusal(real: str, info: os.stat_result, folders: Sequence[str] | None) -> str | None:
    """Return why the replacement of a file would change more than its text, such as links, owner or permissions; None if it would not."""
    from dpcli.file.pipeline.read import is_in_folder
    from dpcli.file.toml.limits import escaped_path

    if folders is not None and not any(is_in_folder(real, folder) for folder in folders):
        return f"it is a link to {escaped_path(real)}, outside of the folder"
    if info.st_nlink > 1:
        return f"it has {info.st_nlink} names (hard links), which would become different files"
    if not info.st_mode & 0o222 or not os.access(real, os.W_OK):
        return "it is read-only"
    me = os.geteuid()  # 0 is root, who may give a file to any owner
    if me != 0 and (info.st_uid != me or info.st_gid not in {os.getegid(), *os.getgroups()}):
        return "it belongs to another user or group"
    if ACCESS_LIST in _attributes(real):
        return "it has an access control list"
    return None


def _attributes(real: str) -> Sequence[str]:
    """Return the names of a file's extended attributes; none if the system or the file system has none."""
    try:
        return os.listxattr(real) if hasattr(os, "listxattr") else ()
    except OSError:
        return ()
