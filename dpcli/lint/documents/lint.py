"""Lint findings as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpcli.document.document import Check, Document, Finding, Sheet, Table
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding
from dpcli.lint.documents.lint_text import exit_code, left_out, summary


def document(
    paths: Sequence[str], diagnostics: Sequence[Diagnostic], left: Mapping[str, int] | None = None, unmended: bool = False
) -> Document:
    """Everything that `dpcli lint` says about several files.

    left: of which rules how many findings were not to be told, which every format says. unmended: whether a repair was refused.
    """
    left = left or {}
    errors = [d for d in diagnostics if d.severity == "error"]
    code = max(exit_code(diagnostics), 2 if unmended else 0)
    columns = ("place", "severity", "rule", "key", "message")
    rows = tuple((f"{d.path}:{d.line}:{d.column}", d.severity, d.rule, d.key, d.message) for d in diagnostics)
    notes = tuple((rule, left_out({rule: count})) for rule, count in left.items())
    sheet = [(d.path, d.line, d.column, d.severity, d.rule, d.key, d.message) for d in diagnostics]
    return Document(
        headline=summary(paths, diagnostics, left),
        data={
            "schema": "dpcli/lint/v1",
            "files": list(paths),
            "left_out": sum(left.values()),
            "left_out_rules": dict(left),
            "diagnostics": [diagnostic_data(d) for d in diagnostics],
            "exit_code": code,
        },
        verdict="fail" if errors else "warn" if diagnostics else "pass",
        tables=(Table("findings", columns, rows),) if rows else (),
        findings=(*map(finding, diagnostics), *(Finding(".", rule, "note", text) for rule, text in notes)),
        checks=(
            *(Check(path, not any(d.path == path for d in errors), _text(path, errors)) for path in paths),
            *(Check(rule, True, text, waived=True) for rule, text in notes),
        ),
        exit_code=code,
        records=[*map(diagnostic_data, diagnostics), *(_record(rule, text) for rule, text in notes)],
        sheet=Sheet(
            ("file", "line", "column", "severity", "rule", "key", "message"),
            (*sheet, *((".", 0, 0, "note", rule, "", text) for rule, text in notes)),
        ),
    )


def _record(rule: str, text: str) -> dict[str, Any]:
    """In the form of a diagnostic."""
    return {**diagnostic_data(Diagnostic(rule, "warning", text, ".")), "severity": "note"}


def _text(path: str, errors: Sequence[Diagnostic]) -> str:
    return "; ".join(f"{d.line}:{d.column}: {d.rule}: {d.key}: {d.message}" for d in errors if d.path == path)
