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


def diagnostic_data(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as JSON values, which all JSON documents with findings share."""
    return {
        "rule": diagnostic.rule,
        "severity": diagnostic.severity,
        "file": diagnostic.path,
        "path": diagnostic.key,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "message": diagnostic.message,
    }


def finding(diagnostic: Diagnostic) -> Finding:
    """Return a diagnostic as a finding of a document, with the explanation of its rule for CI systems."""
    from dpcli.lint.catalogue import entry_of, link_to_source, summary_of

    return Finding(
        diagnostic.path,
        diagnostic.rule,
        diagnostic.severity,
        f"{diagnostic.key}: {diagnostic.message}" if diagnostic.key else diagnostic.message,
        diagnostic.line,
        diagnostic.column,
        title=entry_of(diagnostic.rule).title,
        key=diagnostic.key,
        help=summary_of(diagnostic.rule),
        link=link_to_source(diagnostic.rule),
    )


def with_diagnostics(document: Document, diagnostics: tuple[Diagnostic, ...], sets_exit_code: bool = True) -> Document:
    """Return the document with the diagnostics added to its data, notes and findings.

    If a diagnostic is an error, the verdict of the document becomes "fail"; the verdict "unknown" stays. If `sets_exit_code` is true, an
    error also changes exit code 0 to 1. `dpcli diff` passes False unless its option --exit-code is given.
    """
    if not diagnostics:
        return document
    has_error = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    code = document.exit_code or int(has_error and sets_exit_code)
    return replace(
        document,
        exit_code=code,
        verdict="fail" if has_error and document.verdict != "unknown" else document.verdict,
        data={**document.data, "diagnostics": [diagnostic_data(diagnostic) for diagnostic in diagnostics], "exit_code": code},
        notes=(*map(note, diagnostics), *document.notes),
        findings=(*document.findings, *map(finding, diagnostics)),
    )


def note(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as one line of text, without its line number."""
    key = f"{diagnostic.key}: " if diagnostic.key else ""
    return f"{diagnostic.path}: {diagnostic.severity} {diagnostic.rule}: {key}{diagnostic.message}"
