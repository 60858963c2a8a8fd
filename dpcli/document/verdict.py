"""What a report that a CI system judges must hold: something that was checked, and an error where the command did not pass."""

from __future__ import annotations

from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.document.document import Check, Document, Finding, visible

NOTHING = "nothing was checked, and an empty report would read as a pass: state a [budget], or use dpcli gate --max-epsilon"


def judged(document: Document, name: str, path: str = "") -> Document:
    """The document with a failing check and a finding where its exit code is not 0 and none of its own says so.

    name: of the command. path: of the file that it read. Raises InputError where nothing was checked and nothing went wrong.
    """
    if document.exit_code == 0:
        if not document.checks:
            raise InputError(NOTHING)
        return document
    why = reason(document)
    failed = any(not check.passed and not check.waived for check in document.checks)
    found = any(finding.level == "error" and finding.suppression is None for finding in document.findings)
    return replace(
        document,
        verdict=document.verdict if document.verdict in ("fail", "unknown") else "fail",
        checks=document.checks if failed else (*document.checks, Check(name, False, why, error=True)),
        findings=document.findings if found else (*document.findings, _finding(name, path, why, document.place)),
    )


def stopped(name: str, path: str, message: str, exit_code: int, findings: tuple[Finding, ...] = ()) -> Document:
    """A command that ended without a result, as a document of one error. found: its places in the file, where they are known."""
    errors = [one for one in findings if one.level == "error"]
    why = _at(errors[0]) + _more(len(errors)) if errors else " ".join(message.split())
    return Document(
        headline=f"{name}: {why}",
        data={"error": why, "exit_code": exit_code},
        verdict="unknown",
        findings=findings or (_finding(name, path, why),),
        checks=(Check(f"{path}: {name}" if path else name, False, why, error=True),),
        exit_code=exit_code,
    )


def reason(document: Document) -> str:
    """Why the exit code is not 0, in one line: the first error at its place, else the first check that failed, else the document's word."""
    errors = [_at(f) for f in document.findings if f.level == "error" and f.suppression is None]
    failed = [f"{check.name}: {check.message}" for check in document.checks if not check.passed and not check.waived]
    found = errors or failed or [document.why or document.headline]
    return visible(found[0]) + _more(len(found))


def _more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""


def _at(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path
    return f"{place}: {finding.rule}: {finding.message}"


def _finding(name: str, path: str, why: str, place: tuple[int, int] = (1, 1)) -> Finding:
    return Finding(path or ".", "dpcli/stopped", "error", why, *place, f"{name} did not pass")
