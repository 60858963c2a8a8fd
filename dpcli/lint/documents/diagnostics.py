"""Conversion of diagnostics to JSON, to findings of documents, and to notes, for every command that reports findings with its result.

A *diagnostic* is an error or warning about a file with its place (dpcli/file/toml/findings.py). A *document* is the result of a command
before a format renders it, and a *finding* in it is a diagnostic with the explanation of its rule, which CI systems show at the line. A
*note* is one line of a document next to its numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpcli.document.document import Document, Finding
from dpcli.file.toml.findings import Diagnostic


def diagnostic_data(d: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as JSON values, which all JSON documents with findings share."""
    return {
        "rule": d.rule,
        "severity": d.severity,
        "file": d.path,
        "path": d.key,
        "line": d.line,
        "column": d.column,
        "message": d.message,
    }


def finding(d: Diagnostic) -> Finding:
    """Return a diagnostic as a finding of a document, with the explanation of its rule for CI systems."""
    from dpcli.lint.catalogue import entry_of, link_to_source, summary_of

    return Finding(
        d.path,
        d.rule,
        d.severity,
        f"{d.key}: {d.message}" if d.key else d.message,
        d.line,
        d.column,
        title=entry_of(d.rule).title,
        key=d.key,
        help=summary_of(d.rule),
        link=link_to_source(d.rule),
    )


def with_diagnostics(document: Document, diagnostics: tuple[Diagnostic, ...], sets_exit_code: bool = True) -> Document:
    """Return the document with the diagnostics added to its data, notes and findings.

    If a diagnostic is an error, the verdict of the document becomes "fail"; the verdict "unknown" stays. If `sets_exit_code` is true, an
    error also changes exit code 0 to 1. `dpcli diff` passes False unless its option --exit-code is given.
    """
    if not diagnostics:
        return document
    has_error = any(d.severity == "error" for d in diagnostics)
    code = document.exit_code or int(has_error and sets_exit_code)
    return replace(
        document,
        exit_code=code,
        verdict="fail" if has_error and document.verdict != "unknown" else document.verdict,
        data={**document.data, "diagnostics": [diagnostic_data(d) for d in diagnostics], "exit_code": code},
        notes=(*map(note, diagnostics), *document.notes),
        findings=(*document.findings, *map(finding, diagnostics)),
    )


def note(d: Diagnostic) -> str:
    """Return a diagnostic as one line of text, without its line number."""
    return f"{d.path}: {d.severity} {d.rule}: {f'{d.key}: ' if d.key else ''}{d.message}"
