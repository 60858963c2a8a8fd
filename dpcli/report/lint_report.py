"""Lint findings as a document."""

from __future__ import annotations

from collections.abc import Sequence

from dpcli.pipeline.diagnostics import Diagnostic
from dpcli.pipeline.render import render_all
from dpcli.report.diagnostics import diagnostic_data, finding
from dpcli.report.document import Check, Document, Table


def document(paths: Sequence[str], diagnostics: Sequence[Diagnostic]) -> Document:
    """Everything that `dpcli lint` says about several files; exit code 1 where there is an error, 2 where a file cannot be read."""
    errors = [d for d in diagnostics if d.severity == "error"]
    unreadable = any(d.rule <= "DP005" for d in errors)
    counts = ((len(errors), "error"), (len(diagnostics) - len(errors), "warning"), (len(paths), "file"))
    said = "{}, {} in {}".format(*(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts))
    columns = ("place", "severity", "rule", "key", "message")
    rows = tuple((f"{d.path}:{d.line}:{d.column}", d.severity, d.rule, d.key, d.message) for d in diagnostics)
    code = 2 if unreadable else 1 if errors else 0
    return Document(
        headline=said,
        data={
            "schema": "dpcli/lint/v1",
            "files": list(paths),
            "diagnostics": [diagnostic_data(d) for d in diagnostics],
            "exit_code": code,
        },
        verdict="fail" if errors else "warn" if diagnostics else "pass",
        tables=(Table("findings", columns, rows),) if rows else (),
        findings=tuple(map(finding, diagnostics)),
        checks=tuple(Check(path, not any(d.path == path for d in errors), _text(path, errors)) for path in paths),
        exit_code=code,
        records=[diagnostic_data(d) for d in diagnostics],
    )


def _text(path: str, errors: Sequence[Diagnostic]) -> str:
    return "; ".join(f"{d.line}:{d.column}: {d.rule}: {d.key}: {d.message}" for d in errors if d.path == path)


def plain_text(document: Document, diagnostics: Sequence[Diagnostic]) -> str:
    """For people: every finding with its source line and caret, then the count. No numpy, no rich."""
    return (render_all(tuple(diagnostics)) + "\n" if diagnostics else "") + document.headline + "\n"
