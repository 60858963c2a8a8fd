"""Lint findings as text, each with its source line and a caret, and as the document from which all other formats follow.

Findings that --select or --ignore left out are counted in every format, so that a report never looks cleaner than the file. This module
imports nothing large, because lint must be fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from dpcli.base.rounding import counted
from dpcli.document.document import Check, Document, Finding, Sheet, Table, Value, visible
from dpcli.file.toml.findings import Diagnostic, render_all
from dpcli.lint.documents.diagnostics import diagnostic_data, finding


def render(paths: Sequence[str], diagnostics: Sequence[Diagnostic], omitted: Mapping[str, int] | None = None) -> str:
    """Return the findings and the summary line as text. `omitted` has the numbers of left-out findings by rule."""
    return (render_all(tuple(diagnostics)) + "\n" if diagnostics else "") + summary(paths, diagnostics, omitted) + "\n"


def summary(paths: Sequence[str], diagnostics: Sequence[Diagnostic], omitted: Mapping[str, int] | None = None) -> str:
    """Return a line, without a newline, with the numbers of errors, warnings, files and left-out findings."""
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    warnings = len(diagnostics) - errors
    counts = f"{counted(errors, 'error')}, {counted(warnings, 'warning')} in {counted(len(paths), 'file')}"
    return f"{counts}; {left_out(omitted)}" if omitted else counts


def left_out(omitted: Mapping[str, int]) -> str:
    """Return the left-out findings in words, such as `3 left out by --select or --ignore (2 DP105, 1 DP304)`."""
    rules = ", ".join(f"{count} {code}" for code, count in omitted.items())
    return f"{sum(omitted.values())} left out by --select or --ignore ({rules})"


def exit_code(diagnostics: Sequence[Diagnostic]) -> int:
    """Return 2 if there is an error of the reader (DP001 to DP005), 1 if there is another error, else 0."""
    errors = [d.rule for d in diagnostics if d.severity == "error"]
    if any(rule <= "DP005" for rule in errors):  # codes have three digits, so the order of the texts is that of the numbers
        return 2
    return 1 if errors else 0


def first_error(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the first error in one line, with the number of the others. At least one diagnostic must be an error."""
    first, *more = [d for d in diagnostics if d.severity == "error"]
    place = f"{first.path}:{first.line}:{first.column}" if first.line else first.path
    words = f"{place}: {first.rule}: {f'{first.key}: ' if first.key else ''}{first.message}"
    return visible(words) + (f" (and {len(more)} more)" if more else "")


def document(
    paths: Sequence[str], diagnostics: Sequence[Diagnostic], omitted: Mapping[str, int] | None = None, repair_refused: bool = False
) -> Document:
    """Return the document of `dpcli lint`.

    Args:
        omitted: Number of findings by rule that --select or --ignore left out. Every format shows it.
        repair_refused: Whether a file could not be repaired. The exit code is then 2.
    """
    omitted = omitted or {}
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    code = max(exit_code(diagnostics), 2 if repair_refused else 0)
    verdict: Literal["pass", "warn", "fail"] = "warn" if diagnostics else "pass"
    if errors:
        verdict = "fail"
    notes = {rule: left_out({rule: count}) for rule, count in omitted.items()}
    note_findings = [Finding(".", rule, "note", note) for rule, note in notes.items()]
    note_checks = [Check(rule, passed=True, message=note, waived=True) for rule, note in notes.items()]
    # A note about left-out findings has the form of a diagnostic, so that a reader of jsonl needs no second form.
    note_records = [{**diagnostic_data(Diagnostic(rule, "warning", note, ".")), "severity": "note"} for rule, note in notes.items()]
    return Document(
        headline=summary(paths, diagnostics, omitted),
        data={
            "schema": "dpcli/lint/v1",
            "files": list(paths),
            "left_out": sum(omitted.values()),
            "left_out_rules": dict(omitted),
            "diagnostics": [diagnostic_data(diagnostic) for diagnostic in diagnostics],
            "exit_code": code,
        },
        verdict=verdict,
        tables=(_table(diagnostics),) if diagnostics else (),
        findings=(*map(finding, diagnostics), *note_findings),
        checks=(*(_check(path, errors) for path in paths), *note_checks),
        exit_code=code,
        records=[*map(diagnostic_data, diagnostics), *note_records],
        sheet=_sheet(diagnostics, notes),
    )


def _table(diagnostics: Sequence[Diagnostic]) -> Table:
    rows = tuple((f"{d.path}:{d.line}:{d.column}", d.severity, d.rule, d.key, d.message) for d in diagnostics)
    return Table("findings", ("place", "severity", "rule", "key", "message"), rows)


def _sheet(diagnostics: Sequence[Diagnostic], notes: Mapping[str, str]) -> Sheet:
    """Return the findings as rows of data, followed by the notes about left-out findings, by rule."""
    rows: list[tuple[Value, ...]] = [(d.path, d.line, d.column, d.severity, d.rule, d.key, d.message) for d in diagnostics]
    rows += [(".", 0, 0, "note", rule, "", note) for rule, note in notes.items()]
    return Sheet(("file", "line", "column", "severity", "rule", "key", "message"), tuple(rows))


def _check(path: str, errors: Sequence[Diagnostic]) -> Check:
    """Return the check of a file, which fails if the file has errors. `errors` may contain those of other files."""
    texts = [f"{d.line}:{d.column}: {d.rule}: {d.key}: {d.message}" for d in errors if d.path == path]
    return Check(path, not texts, "; ".join(texts))
