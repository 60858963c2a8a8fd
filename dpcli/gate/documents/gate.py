"""The result of a gate as a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpcli.analysis.documents import account as account_report
from dpcli.analysis.documents.diff import priced_data
from dpcli.base.rounding import up
from dpcli.document.document import Check, Document, Finding, Level, Sheet, Suppression, Table, Value
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.shown import key_text
from dpcli.gate.bases import base_form, waiver_data
from dpcli.gate.blame import edits_in_words
from dpcli.gate.verdicts import (
    CONDITIONS,
    EXIT_CODES,
    FAILURES,
    PRECEDENCE,
    Condition,
    Gated,
    Judged,
    JudgedSum,
    Pardon,
    Verdict,
)
from dpcli.lint.documents.diagnostics import diagnostic_data, finding

# The words of tables and headlines for each verdict.
WORDS: dict[Verdict, str] = {
    "pass": "pass",
    "warn": "warning",
    "waived": "waived",
    "fail": "FAIL",
    "unknown": "UNKNOWN",
    "invalid": "INVALID",
    "error": "LEDGER ERROR",
}
# The columns of the csv output.
SHEET = (
    *("file", "verdict", "base_epsilon", "epsilon_upper", "increase", "cap_epsilon", "cap_delta"),
    *("delta", "unit", "adjacency", "accountant"),
)
# The verdict by which a document is coloured, and the level of a finding, if they differ from the verdict.
COLOURS: dict[Verdict, Any] = {"waived": "warn", "invalid": "fail", "error": "fail"}
LEVELS: dict[Verdict, Level] = {"fail": "error", "unknown": "error", "invalid": "error", "error": "error", "warn": "warning"}


def document(gated: Gated) -> Document:
    """Return the document that `dpcli gate` prints about all files, sums and the policy."""
    judged, verdict = gated.judged, gated.verdict
    checks = (_check(file.path, condition) for file in judged for condition in file.conditions)
    return Document(
        headline=headline(gated),
        data={
            "schema": "dpcli/gate/v1",
            "verdict": verdict,
            "files": [_file_data(file) for file in gated.files],
            "together": [_sum_data(total) for total in gated.together],
            "policy": _policy_data(gated),
            "exit_code": EXIT_CODES[verdict],
        },
        verdict=COLOURS.get(verdict, verdict),
        tables=tuple(table for table in _tables(judged) if table.rows),
        notes=(
            *(f"{total.path}: {_premise()}" for total in gated.together if total.account or total.uncapped),
            *(f"{gated.policy}: warning: {notice.message}" for notice in gated.notices),
        ),
        findings=(*(f for file in judged for f in _findings(file)), *(_notice(gated, notice) for notice in gated.notices)),
        checks=tuple(checks),
        exit_code=EXIT_CODES[verdict],
        records=[*map(_file_data, gated.files), *map(_sum_data, gated.together)],
        marker="dpcli:gate",
        sheet=Sheet(SHEET, tuple(_sheet_row(file) for file in judged)),
        log=tuple(f"{file.path}: {WORDS[file.verdict]}: {_summary(file)}" for file in judged if file.account is not None),
    )


def headline(gated: Gated) -> str:
    """Return the verdict of the gate, and the number of files and sums with each verdict.

    A file or sum without an account counts only if it does not pass. Its warnings always count.
    """
    counted = [file for file in gated.judged if file.account is not None or file.verdict != "pass"]
    counts = {word: sum(file.verdict == word for file in counted) for word in PRECEDENCE}
    summary = ", ".join(f"{count} {WORDS[word].lower()}" for word, count in counts.items() if count)
    warnings = sum(c.verdict == "warn" for file in gated.judged for c in file.conditions) + len(gated.notices)
    tail = f"; {warnings} warning{'s' if warnings != 1 else ''}" if warnings else ""
    return f"gate: {WORDS[gated.verdict]}{f' ({summary})' if summary else ''}{tail}"


def _summary(file: Judged) -> str:
    """Return the epsilon of a file and its cap in a few words."""
    assert file.account is not None
    cap = file.account.budget
    if cap is None:
        return f"epsilon {up(file.account.upper)}"
    rho = "" if cap.epsilon is not None or cap.rho is None else f", {cap.rho.words()}"
    limit = "" if cap.epsilon is None else f" of {cap.epsilon.cap!r} at delta = {cap.epsilon.delta!r}"
    return f"epsilon {up(file.account.upper)}{limit}{rho}"


def _tables(judged: Sequence[Judged]) -> Iterator[Table]:
    """Yield the tables of the document: files, conditions, costs of changes, and waivers in force."""
    columns = ("", "file", "before", "epsilon", "change", "cap", "at delta")
    yield Table("files", columns, tuple(_row(file) for file in judged), frozenset({2, 3, 4, 5, 6}))
    rows = tuple((f.path, c.name, WORDS[c.verdict], c.message) for f in judged for c in f.conditions)
    yield Table("conditions", ("file", "condition", "verdict", "why"), rows)
    changes = tuple(row for file in judged for row in _change_rows(file))
    yield Table("cost of each change alone", ("file", "change", "epsilon", "effect"), changes, frozenset({2, 3}))
    waivers = tuple(_waiver_row(f, c, c.pardon) for f in judged for c in f.conditions if c.pardon is not None)
    names = ("file", "rule", "up to", "approver", "expires", "days left", "written in", "reason")
    yield Table("waivers in force", names, waivers, frozenset({2, 5}), folded=True)


def _row(file: Judged) -> tuple[str, ...]:
    """Return the row of a file or sum in the table of files."""
    warned = file.account is None and any(condition.verdict == "warn" for condition in file.conditions)
    word = WORDS["warn" if warned and file.verdict == "pass" else file.verdict]
    if isinstance(file, JudgedSum) and file.uncapped is not None:
        return (word, file.path, "-", up(file.uncapped.upper), "-", "-", f"{file.uncapped.delta!r}")
    if file.account is None or file.account.budget is None:
        return (word, file.path, "-", "-", "-", "-", "-")
    cap = file.account.budget
    before, change = ("-", "-") if file.base is None or file.now is None else (up(file.base.epsilon), _increase(file))
    limit = ("-", f"{file.account.delta!r}") if cap.epsilon is None else (f"{cap.epsilon.cap!r}", f"{cap.epsilon.delta!r}")
    if cap.epsilon is None and cap.rho is not None:
        limit = (f"rho {cap.rho.cap!r}", limit[1])
    return (word, file.path, before, up(file.account.upper), change, *limit)


def _sheet_row(file: Judged) -> tuple[Value, ...]:
    before = None if file.base is None else file.base.epsilon
    increase = None if before is None or file.now is None else file.now - before
    account = file.uncapped if isinstance(file, JudgedSum) and file.uncapped is not None else file.account
    if account is None:
        return (file.path, file.verdict, before, None, increase, *[None] * 6)
    cap, privacy = account.budget, account.pipeline.privacy
    winner = account.winner.accountant.name if account.winner else None
    caps = (None, None) if cap is None or cap.epsilon is None else (cap.epsilon.cap, cap.epsilon.delta)
    stated = (account.delta, privacy.unit or "record", privacy.adjacency.value, winner)
    return (file.path, file.verdict, before, account.upper, increase, *caps, *stated)


def _increase(file: Judged) -> str:
    assert file.base is not None and file.now is not None
    return _signed(file.now - file.base.epsilon)


def _signed(x: float) -> str:
    if math.isnan(x):
        return "-"
    return f"+{up(x)}" if x > 0.0 else up(x)


def _change_rows(file: Judged) -> Iterator[tuple[str, ...]]:
    for priced in (priced for priced in file.changes if not priced.change.free or priced.change.edits[0].path[0] == "mechanism"):
        epsilon = "-" if priced.epsilon is None else up(priced.epsilon)
        yield (file.path, edits_in_words(priced), epsilon, priced.reason or _signed(priced.increase))


def _waiver_row(file: Judged, condition: Condition, pardon: Pardon) -> tuple[str, ...]:
    waiver = pardon.waiver
    place = "policy" if pardon.external else "file"
    if pardon.new and not pardon.external:
        place += " (new)"
    bound = "-" if waiver.epsilon is None else f"{waiver.epsilon!r}"
    until, left = waiver.expires.isoformat(), str(pardon.days)
    return (file.path, condition.name, bound, waiver.approver, until, left, place, " ".join(waiver.reason.split()))


def _file_data(file: Judged) -> dict[str, Any]:
    common = {
        "verdict": file.verdict,
        "conditions": [_condition_data(c) for c in file.conditions],
        "base_epsilon": file.base.epsilon if file.base else None,
        "epsilon_at_base_delta": file.now,
        "changes": [priced_data(change) for change in file.changes],
    }
    if file.account is None:
        diagnostics = [diagnostic_data(d) for d in file.diagnostics]
        return {"pipeline": {"path": file.path}, **common, "result": None, "diagnostics": diagnostics}
    account = account_report.data(file.account, file.diagnostics)
    return {
        **{key: account[key] for key in ("pipeline", "statement", "delta", "result", "budget", "diagnostics")},
        **common,
        "base_form": base_form(file.own or file.account.pipeline, file.account.pipeline),
    }


def _sum_data(total: JudgedSum) -> dict[str, Any]:
    """Return a sum as JSON values. They are similar to the values of a file, and also list the files in the sum."""
    common = {
        "datasets": list(total.datasets),
        "files": list(total.members),
        "premise": _premise(),
        "path": total.at,
        "verdict": total.verdict,
        "conditions": [_condition_data(c) for c in total.conditions],
        "base_epsilon": total.base.epsilon if total.base else None,
    }
    account = total.account or total.uncapped
    if account is None:
        return {**common, "result": None}
    report = account_report.data(account, ())
    return {**common, **{key: report[key] for key in ("statement", "delta", "result", "budget")}}


def _premise() -> str:
    """Return the assumption under which a sum over files is a bound. The import is local, as a gate without sums does not need it."""
    from dpcli.analysis.dataset_sum import FIXED

    return FIXED


def _condition_data(condition: Condition) -> dict[str, Any]:
    line, column = condition.place
    common: dict[str, Any] = {
        "name": condition.name,
        "verdict": condition.verdict,
        "message": condition.message,
        "line": line,
        "column": column,
    }
    if condition.shares is not None:
        common["ledger"] = {"share": condition.shares[0], "left": condition.shares[1]}
    if condition.pardon is None:
        return common
    pardon = condition.pardon
    waiver = {**waiver_data(pardon.waiver), "days_left": pardon.days, "new": pardon.new, "in_policy": pardon.external}
    return {**common, "waiver": waiver}


def _policy_data(gated: Gated) -> dict[str, Any] | None:
    return None if gated.policy is None else {"path": gated.policy, "warnings": [notice.message for notice in gated.notices]}


def _check(path: str, condition: Condition) -> Check:
    waived = condition.verdict == "waived"
    passed, error = waived or condition.verdict in ("pass", "warn"), condition.verdict in ("unknown", "invalid", "error")
    return Check(f"{path}: {condition.name}", passed, condition.message, waived, error)


def _findings(file: Judged) -> Iterator[Finding]:
    """Yield a finding for each condition that does not pass, and the lint findings that are not conditions.

    If a file cannot be read and its errors have lines, these errors replace the condition "file".
    """
    names = {condition.name for condition in file.conditions}
    has_errors = any(
        diagnostic.line > 0 and diagnostic.severity == "error" and diagnostic.rule not in names for diagnostic in file.diagnostics
    )
    for condition in file.conditions:
        if condition.verdict != "pass" and not (condition.name == "file" and has_errors):
            yield _finding(file, condition)
    yield from (finding(d) for d in file.diagnostics if d.rule not in names and not _is_repeated(d, file))


def _is_repeated(diagnostic: Diagnostic, file: Judged) -> bool:
    """Return whether a diagnostic is about all of the file and a condition already has its message."""
    return diagnostic.line == 0 and any(condition.message.endswith(diagnostic.message) for condition in file.conditions)


def _finding(file: Judged, condition: Condition) -> Finding:
    """Return the finding about a condition of a file, with its place, title and explanation."""
    from dpcli.lint.catalogue import link_to_source, rule, summary_of

    pardon = condition.pardon
    lint = condition.name.startswith("DP")
    level = LEVELS.get(condition.verdict, "warning" if pardon is not None and pardon.new else "note")
    return Finding(
        file.at if isinstance(file, JudgedSum) else file.path,
        condition.name if lint else f"gate/{condition.name}",
        level,
        condition.message,
        *condition.place,
        title=rule(condition.name).title if lint else _title(condition),
        key=condition.message.partition(": ")[0] if lint else key_text(condition.key),
        suppression=None if pardon is None else Suppression(_justification(pardon), pardon.external),
        help=summary_of(condition.name) if lint else _meaning(condition),
        link=link_to_source(condition.name) if lint else "",
    )


def _title(condition: Condition) -> str:
    title = CONDITIONS[condition.name][0]
    return FAILURES.get(condition.name, title) if condition.verdict == "fail" else title


def _meaning(condition: Condition) -> str:
    return f"{CONDITIONS[condition.name][1]} All conditions are in dpcli-gate(7)."


def _justification(pardon: Pardon) -> str:
    waiver = pardon.waiver
    return f"{waiver.reason} (approved by {waiver.approver}, until {waiver.expires})"


def _notice(gated: Gated, notice: Condition) -> Finding:
    path, rule, text = gated.policy or "", f"gate/{notice.name}", notice.message
    return Finding(path, rule, "warning", text, 1, 1, _title(notice), text, help=_meaning(notice))
