"""A gate's verdicts as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpcli.gate import EXIT_CODES, PRECEDENCE, Judged, worst
from dpcli.gate_base import statement_of
from dpcli.report import account_report
from dpcli.report.diagnostics import diagnostic_data, finding
from dpcli.report.document import Check, Document, Finding, Level, Table
from dpcli.report.rounding import up

WORDS = {"pass": "pass", "fail": "FAIL", "unknown": "UNKNOWN", "invalid": "INVALID"}


def document(judged: Sequence[Judged]) -> Document:
    """Everything that `dpcli gate` says about several files."""
    verdict = worst(file.verdict for file in judged)
    counts = {word: sum(file.verdict == word for file in judged) for word in PRECEDENCE}
    said = ", ".join(f"{count} {WORDS[word].lower()}" for word, count in counts.items() if count)
    return Document(
        headline=f"gate: {WORDS[verdict]} ({said})",
        data={
            "schema": "dpcli/gate/v1",
            "verdict": verdict,
            "files": [_data(file) for file in judged],
            "exit_code": EXIT_CODES[verdict],
        },
        verdict="fail" if verdict == "invalid" else verdict,
        tables=(_table(judged),),
        notes=tuple(
            f"{d.path}:{d.line}:{d.column}: {d.severity} {d.rule}: {d.key}: {d.message}"
            for file in judged
            for d in file.diagnostics
        ),
        findings=tuple(finding for file in judged for finding in _findings(file)),
        checks=tuple(Check(f"{file.path}: {c.name}", c.verdict == "pass", c.message) for file in judged for c in file.conditions),
        exit_code=EXIT_CODES[verdict],
        records=[_data(file) for file in judged],
    )


def _table(judged: Sequence[Judged]) -> Table:
    rows = []
    for file in judged:
        for i, condition in enumerate(file.conditions):
            first = (WORDS[file.verdict], file.path, up(file.account.upper) if file.account else "-") if i == 0 else ("", "", "")
            rows.append((*first, condition.name, WORDS[condition.verdict], condition.message))
    return Table("files", ("", "file", "epsilon", "condition", "verdict", "why"), tuple(rows), frozenset({2}))


def _data(file: Judged) -> dict[str, Any]:
    conditions = [{"name": c.name, "verdict": c.verdict, "message": c.message} for c in file.conditions]
    common = {"verdict": file.verdict, "conditions": conditions, "base_epsilon": file.base}
    if file.account is None:
        found = [diagnostic_data(d) for d in file.diagnostics]
        return {"pipeline": {"path": file.path}, **common, "result": None, "diagnostics": found}
    whole = account_report.data(file.account, file.diagnostics)
    pipeline = file.account.pipeline
    form = {
        "statement": statement_of(pipeline),
        "budget_epsilon": pipeline.budget.epsilon if pipeline.budget else None,
        "max_increase": pipeline.gate.max_increase,
    }
    return {
        **{key: whole[key] for key in ("pipeline", "statement", "delta", "result", "budget", "diagnostics")},
        **common,
        "base_form": form,
    }


def _findings(file: Judged) -> list[Finding]:
    levels: dict[str, Level] = {"fail": "error", "unknown": "error", "invalid": "error"}
    own = {d.rule for d in file.diagnostics}
    found = [
        Finding(file.path, f"gate/{c.name}", levels[c.verdict], c.message, *_place(file, c.key), title=f"dpcli gate: {c.name}")
        for c in file.conditions
        if c.verdict != "pass" and c.name not in own
    ]
    return found + [finding(d) for d in file.diagnostics]


def _place(file: Judged, key: str) -> tuple[int, int]:
    """Line and column of a key in the file as it stands."""
    from pathlib import Path

    from dpcli.pipeline.positions import locate

    wanted = (key,) if key else ()
    try:
        return locate(Path(file.path).read_text(encoding="utf-8"), [wanted])[wanted]
    except (OSError, UnicodeDecodeError):
        return (1, 1)
