"""Lint findings as a document."""

from __future__ import annotations

from collections.abc import Sequence

from dpcli.document.document import Check, Document, Sheet, Table
from dpcli.present.diagnostics import diagnostic_data, finding
from dpcli.present.lint_text import exit_code, summary
from dpcli.toml.diagnostics import Diagnostic


def document(paths: Sequence[str], diagnostics: Sequence[Diagnostic], untold: int = 0) -> Document:
    """Everything that `dpcli lint` says about several files. untold: findings of rules that were not to be told."""
    errors = [d for d in diagnostics if d.severity == "error"]
    code = exit_code(diagnostics)
    columns = ("place", "severity", "rule", "key", "message")
    rows = tuple((f"{d.path}:{d.line}:{d.column}", d.severity, d.rule, d.key, d.message) for d in diagnostics)
    return Document(
        headline=summary(paths, diagnostics, untold),
        data={
            "schema": "dpcli/lint/v1",
            "files": list(paths),
            "left_out": untold,
            "diagnostics": [diagnostic_data(d) for d in diagnostics],
            "exit_code": code,
        },
        verdict="fail" if errors else "warn" if diagnostics else "pass",
        tables=(Table("findings", columns, rows),) if rows else (),
        findings=tuple(map(finding, diagnostics)),
        checks=tuple(Check(path, not any(d.path == path for d in errors), _text(path, errors)) for path in paths),
        exit_code=code,
        records=[diagnostic_data(d) for d in diagnostics],
        sheet=Sheet(
            ("file", "line", "column", "severity", "rule", "key", "message"),
            tuple((d.path, d.line, d.column, d.severity, d.rule, d.key, d.message) for d in diagnostics),
        ),
    )


def _text(path: str, errors: Sequence[Diagnostic]) -> str:
    return "; ".join(f"{d.line}:{d.column}: {d.rule}: {d.key}: {d.message}" for d in errors if d.path == path)
