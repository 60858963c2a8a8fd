"""The result of a gate as a document: verdicts on files and sums, the conditions behind them, costs of changes, and waivers in force.

`document` turns the result of the gate (`Gated`) into a `Document`, of which each output format shows some parts. `dpcli gate` and
`dpcli comment` call it. It decides nothing, but must show each condition that does not pass, and each waiver: a reviewer approves what they
see. Words, most of them from verdicts.py:

* A *condition* is one requirement that the gate checked, with its own verdict. A file has the worst verdict of its conditions, and the
  worst of all files and sums decides the exit code.
* A *sum* is the joint cost of all files that name one dataset. It is a bound under a *premise*: all files were fixed before the first ran.
  Without a cap it can only give a warning, and its account is called *uncapped*.
* The *base* of a file is its earlier version, with which the gate compared it. The JSON of a file contains the form that a later gate reads
  as its base (bases.py).
* A *waiver* pardons the failures of one rule or condition until a day, and a `Pardon` is a waiver in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dpcli.analysis.documents import account as account_report
from dpcli.analysis.documents.diff import priced_data
from dpcli.base.rounding import signed, up
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
# The columns of the csv output, whose names programs rely on.
SHEET_COLUMNS = (
    "file",
    "verdict",
    "base_epsilon",
    "epsilon_upper",
    "increase",
    "cap_epsilon",
    "cap_delta",
    "delta",
    "unit",
    "adjacency",
    "accountant",
)
# The verdict by which a document is coloured, if the verdict is not one of a document; and the level of a finding for each verdict that has
# one.
COLOURS: dict[Verdict, Any] = {"waived": "warn", "invalid": "fail", "error": "fail"}
LEVELS: dict[Verdict, Level] = {"fail": "error", "unknown": "error", "invalid": "error", "error": "error", "warn": "warning"}


def document(gated: Gated) -> Document:
    judged, verdict = gated.judged, gated.verdict
    files = [_file_data(file) for file in gated.files]
    sums = [_sum_data(total) for total in gated.together]
    data = {
        "schema": "dpcli/gate/v1",
        "verdict": verdict,
        "files": files,
        "together": sums,
        "policy": None
        if gated.policy is None
        else {"path": gated.policy, "warnings": [notice.message for notice in gated.notices]},
        "exit_code": EXIT_CODES[verdict],
    }
    premises = [f"{total.path}: {_premise()}" for total in gated.together if total.account or total.uncapped]
    policy_warnings = [f"{gated.policy}: warning: {notice.message}" for notice in gated.notices]
    findings: list[Finding] = []
    for file in judged:
        findings += _findings(file)
    findings += [_notice(gated, notice) for notice in gated.notices]
    # `findings` are for CI systems, `checks` for test reports such as junit, `records` for jsonl, `sheet` for csv, and `log` for lines
    # next to the findings.
    return Document(
        headline(gated),
        data,
        verdict=COLOURS.get(verdict, verdict),
        tables=tuple(table for table in _tables(judged) if table.rows),
        notes=(*premises, *policy_warnings),
        findings=tuple(findings),
        checks=tuple(_check(file.path, condition) for file in judged for condition in file.conditions),
        exit_code=EXIT_CODES[verdict],
        records=[*files, *sums],
        marker="dpcli:gate",  # by which a bot finds its earlier comment
        sheet=Sheet(SHEET_COLUMNS, tuple(_sheet_row(file) for file in judged)),
        log=tuple(f"{file.path}: {WORDS[file.verdict]}: {_summary(file)}" for file in judged if file.account is not None),
    )


def headline(gated: Gated) -> str:
    """Return the verdict of the gate, and the number of files and sums with each verdict.

    A file or sum without an account counts only if it does not pass. Its warnings always count.
    """
    counted = [file for file in gated.judged if file.account is not None or file.verdict != "pass"]
    counts = {verdict: sum(file.verdict == verdict for file in counted) for verdict in PRECEDENCE}
    summary = ", ".join(f"{count} {WORDS[verdict].lower()}" for verdict, count in counts.items() if count)
    verdicts = [condition.verdict for file in gated.judged for condition in file.conditions]
    warnings = verdicts.count("warn") + len(gated.notices)
    warning_words = f"; {warnings} warning{'s' if warnings != 1 else ''}" if warnings else ""
    return f"gate: {WORDS[gated.verdict]}{f' ({summary})' if summary else ''}{warning_words}"


def _summary(file: Judged) -> str:
    assert file.account is not None
    epsilon, budget = f"epsilon {up(file.account.upper)}", file.account.budget
    if budget is not None and budget.epsilon is not None:
        return f"{epsilon} of {budget.epsilon.cap!r} at delta = {budget.epsilon.delta!r}"
    if budget is not None and budget.rho is not None:
        return f"{epsilon}, {budget.rho.words()}"
    return epsilon


def _tables(judged: Sequence[Judged]) -> Iterator[Table]:
    conditions: list[tuple[str, ...]] = []
    changes: list[tuple[str, ...]] = []
    waivers: list[tuple[str, ...]] = []
    for file in judged:
        changes += _change_rows(file)
        for condition in file.conditions:
            conditions.append((file.path, condition.name, WORDS[condition.verdict], condition.message))
            if condition.pardon is not None:
                waivers.append(_waiver_row(file, condition, condition.pardon))
    # The sets are the indices of the columns with numbers.
    file_columns = ("", "file", "before", "epsilon", "change", "cap", "at delta")
    yield Table("files", file_columns, tuple(_file_row(file) for file in judged), frozenset({2, 3, 4, 5, 6}))
    yield Table("conditions", ("file", "condition", "verdict", "why"), tuple(conditions))
    yield Table("cost of each change alone", ("file", "change", "epsilon", "effect"), tuple(changes), frozenset({2, 3}))
    waiver_columns = ("file", "rule", "up to", "approver", "expires", "days left", "written in", "reason")
    yield Table("waivers in force", waiver_columns, tuple(waivers), frozenset({2, 5}), folded=True)


class FileRow(NamedTuple):
    """A row of the table of files and sums. `before` is the epsilon of the base, and "-" stands for a missing number."""

    verdict: str
    path: str
    before: str = "-"
    epsilon: str = "-"
    change: str = "-"
    cap: str = "-"
    delta: str = "-"


def _file_row(file: Judged) -> FileRow:
    """Return the row of a file or a sum. Epsilons are rounded up."""
    # A file or sum without an account, such as a deleted file, can pass with a warning, and its row would otherwise say "pass" alone.
    has_only_warnings = file.account is None and any(condition.verdict == "warn" for condition in file.conditions)
    word = WORDS["warn" if has_only_warnings and file.verdict == "pass" else file.verdict]
    if isinstance(file, JudgedSum) and file.uncapped is not None:
        return FileRow(word, file.path, epsilon=up(file.uncapped.upper), delta=f"{file.uncapped.delta!r}")
    if file.account is None or file.account.budget is None:
        return FileRow(word, file.path)
    budget = file.account.budget
    before, change = "-", "-"
    if file.base is not None and file.epsilon_at_base_delta is not None:
        before, change = up(file.base.epsilon), signed(file.epsilon_at_base_delta - file.base.epsilon)
    cap, delta = "-", file.account.delta
    if budget.epsilon is not None:
        cap, delta = f"{budget.epsilon.cap!r}", budget.epsilon.delta
    elif budget.rho is not None:
        cap = f"rho {budget.rho.cap!r}"
    return FileRow(word, file.path, before, up(file.account.upper), change, cap, f"{delta!r}")


def _sheet_row(file: Judged) -> tuple[Value, ...]:
    """Return the row of a file or a sum in the csv output. Numbers are not rounded, and an absent value is None."""
    account = file.uncapped if isinstance(file, JudgedSum) and file.uncapped is not None else file.account
    values: dict[str, Value] = {"file": file.path, "verdict": file.verdict}
    if file.base is not None:
        values["base_epsilon"] = file.base.epsilon
        if file.epsilon_at_base_delta is not None:
            values["increase"] = file.epsilon_at_base_delta - file.base.epsilon
    if account is not None:
        privacy = account.pipeline.privacy
        values |= {
            "epsilon_upper": account.upper,
            "delta": account.delta,
            "unit": privacy.unit or "record",
            "adjacency": privacy.adjacency.value,
            "accountant": account.winner.accountant.name if account.winner else None,
        }
        if account.budget is not None and account.budget.epsilon is not None:
            values |= {"cap_epsilon": account.budget.epsilon.cap, "cap_delta": account.budget.epsilon.delta}
    return tuple(values.get(column) for column in SHEET_COLUMNS)


def _change_rows(file: Judged) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a file in the table of changes.

    A change that costs nothing because its keys never do (`Change.free`) is shown only if it is in a mechanism.
    """
    for priced in file.changes:
        if priced.increase or not priced.change.free or priced.change.edits[0].section == "mechanism":
            epsilon = "-" if priced.epsilon is None else up(priced.epsilon)
            yield (file.path, edits_in_words(priced), epsilon, priced.reason or signed(priced.increase))


def _waiver_row(file: Judged, condition: Condition, pardon: Pardon) -> tuple[str, ...]:
    waiver = pardon.waiver
    if pardon.in_policy:
        place = "policy"
    else:
        place = "file (new)" if pardon.is_new else "file"
    bound = "-" if waiver.epsilon is None else f"{waiver.epsilon!r}"
    expires, days_left = waiver.expires.isoformat(), str(pardon.days_left)
    return (file.path, condition.name, bound, waiver.approver, expires, days_left, place, " ".join(waiver.reason.split()))


def _file_data(file: Judged) -> dict[str, Any]:
    """Return the verdict on a file as JSON values. If it has an account, they contain the form with which a later gate compares."""
    common = {
        "verdict": file.verdict,
        "conditions": [_condition_data(condition) for condition in file.conditions],
        "base_epsilon": file.base.epsilon if file.base else None,
        "epsilon_at_base_delta": file.epsilon_at_base_delta,
        "changes": [priced_data(change) for change in file.changes],
    }
    if file.account is None:
        diagnostics = [diagnostic_data(diagnostic) for diagnostic in file.diagnostics]
        return {"pipeline": {"path": file.path}, **common, "result": None, "diagnostics": diagnostics}
    account = account_report.data(file.account, file.diagnostics)
    return {
        **{key: account[key] for key in ("pipeline", "statement", "delta", "result", "budget", "diagnostics")},
        **common,
        "base_form": base_form(file.written or file.account.pipeline, capped=file.account.pipeline),
    }


def _sum_data(total: JudgedSum) -> dict[str, Any]:
    common = {
        "datasets": list(total.datasets),
        "files": list(total.members),
        "premise": _premise(),
        "path": total.reported_at,
        "verdict": total.verdict,
        "conditions": [_condition_data(condition) for condition in total.conditions],
        "base_epsilon": total.base.epsilon if total.base else None,
    }
    account = total.account or total.uncapped
    if account is None:
        return {**common, "result": None}
    report = account_report.data(account, ())
    return {
        **common,
        "statement": report["statement"],
        "delta": report["delta"],
        "result": report["result"],
        "budget": report["budget"],
    }


def _premise() -> str:
    """Return the premise of a sum over files. The import is local, because a gate without sums does not need it."""
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
        common["ledger"] = {"share": condition.shares.cost, "left": condition.shares.left}
    pardon = condition.pardon
    if pardon is not None:
        common["waiver"] = {
            **waiver_data(pardon.waiver),
            "days_left": pardon.days_left,
            "new": pardon.is_new,
            "in_policy": pardon.in_policy,
        }
    return common


def _check(path: str, condition: Condition) -> Check:
    passed = condition.verdict in ("pass", "warn", "waived")
    is_error = condition.verdict in ("unknown", "invalid", "error")
    return Check(f"{path}: {condition.name}", passed, condition.message, waived=condition.verdict == "waived", error=is_error)


def _findings(file: Judged) -> Iterator[Finding]:
    """Yield a finding for each condition that does not pass, and for each lint finding that is not a condition.

    The condition "file" repeats the first error in a file that cannot be read, so it is left out if an error has a line of its own.
    """
    names = {condition.name for condition in file.conditions}
    has_errors = any(
        diagnostic.line > 0 and diagnostic.severity == "error" and diagnostic.rule not in names for diagnostic in file.diagnostics
    )
    for condition in file.conditions:
        if condition.verdict != "pass" and not (condition.name == "file" and has_errors):
            yield _finding(file, condition)
    for diagnostic in file.diagnostics:
        if diagnostic.rule not in names and not _is_repeated(diagnostic, file):
            yield finding(diagnostic)


def _is_repeated(diagnostic: Diagnostic, file: Judged) -> bool:
    """Return whether a diagnostic is about all of the file and a condition already has its message."""
    return diagnostic.line == 0 and any(condition.message.endswith(diagnostic.message) for condition in file.conditions)


def _finding(file: Judged, condition: Condition) -> Finding:
    """Return the finding about a condition of a file, with its place, title and explanation."""
    from dpcli.lint.catalogue import link_to_source, rule, summary_of

    pardon, code = condition.pardon, condition.name
    line, column = condition.place
    finding_of_condition = Finding(
        file.reported_at if isinstance(file, JudgedSum) else file.path,
        code,
        # A waiver that the change itself adds is shown as a warning, so that a reviewer sees it.
        LEVELS.get(condition.verdict, "warning" if pardon is not None and pardon.is_new else "note"),
        condition.message,
        line,
        column,
        suppression=None if pardon is None else Suppression(_justification(pardon), external=pardon.in_policy),
    )
    if code.startswith("DP"):  # the condition is a lint rule, and its message begins with the key of the finding
        return replace(
            finding_of_condition,
            title=rule(code).title,
            key=condition.message.partition(": ")[0],
            help=summary_of(code),
            link=link_to_source(code),
        )
    return replace(
        finding_of_condition,
        rule=f"gate/{code}",
        title=_title(condition),
        key=key_text(condition.key),
        help=_meaning(condition),
    )


def _title(condition: Condition) -> str:
    """Return the title of a condition. A failure may have a title of its own, such as "epsilon above its cap" for "cap on epsilon"."""
    title, _ = CONDITIONS[condition.name]
    return FAILURES.get(condition.name, title) if condition.verdict == "fail" else title


def _meaning(condition: Condition) -> str:
    _, explanation = CONDITIONS[condition.name]
    return f"{explanation} All conditions are in dpcli-gate(7)."


def _justification(pardon: Pardon) -> str:
    waiver = pardon.waiver
    return f"{waiver.reason} (approved by {waiver.approver}, until {waiver.expires})"


def _notice(gated: Gated, notice: Condition) -> Finding:
    """Return the finding about a warning that concerns the policy. It is shown at the first line of the policy file."""
    path, rule, text = gated.policy or "", f"gate/{notice.name}", notice.message
    return Finding(path, rule, "warning", text, line=1, column=1, title=_title(notice), key=text, help=_meaning(notice))
