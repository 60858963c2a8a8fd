"""The document of `dpcli diff`: the changes between two pipelines, and their costs.

analysis/difference.py computes the result. An *edit* is one key with its old and its new value, and a *change* consists of edits that are
valid only together. Each change is priced alone, on top of the first file; the *interaction* is what all changes together cost beyond the
sum of these prices. Files whose epsilons mean different things (another unit, adjacency or delta) are shown side by side, with the verdict
"unknown". Passwords in addresses are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from dpcli.analysis.account import Account
from dpcli.analysis.difference import Difference, Priced
from dpcli.analysis.documents import account as account_report
from dpcli.base.rounding import signed, up
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.file.toml.shown import public

VERDICTS: dict[int, Literal["pass", "warn", "unknown"]] = {0: "pass", 1: "warn", 3: "unknown"}  # the verdict for each exit code
LONGEST_VALUE = 72  # largest number of characters of a value in the table; arbitrary


def document(difference: Difference, sets_exit_code: bool = False) -> Document:
    """Return the output of `dpcli diff`.

    sets_exit_code: whether the exit code is 1 if epsilon rises, and 3 if the files cannot be compared.
    """
    code = difference.exit_code if sets_exit_code else 0
    return Document(
        headline=headline(difference),
        data=data(difference, code),
        verdict=VERDICTS[difference.exit_code],
        tables=(_table(difference),) if difference.priced else (),
        notes=tuple(_notes(difference)),
        total=repr(difference.increase),
        exit_code=code,
        records=[{"delta": difference.before.delta, **priced_data(change)} for change in difference.priced],
        sheet=_sheet(difference),
    )


def headline(difference: Difference) -> str:
    """Return both epsilons at one delta, and whether they can be compared."""
    if not difference.priced:
        return f"no difference: epsilon <= {up(difference.before.upper)} at delta = {difference.before.delta!r}"
    epsilons = f"epsilon {up(difference.before.upper)} -> {up(difference.after.upper)} ({signed(difference.increase)})"
    comparable = f"; NOT COMPARABLE: {', '.join(difference.statement)}" if difference.statement else ""
    return f"{epsilons} at delta = {difference.before.delta!r}{comparable}"


def data(difference: Difference, code: int) -> dict[str, Any]:
    """Return the JSON document dpcli/diff/v1. Its numbers are not rounded, and an undefined number is null."""
    return {
        "schema": "dpcli/diff/v1",
        "before": _side(difference.before),
        "after": _side(difference.after),
        "delta": difference.before.delta,
        "increase": difference.increase,
        "comparable": not difference.statement,
        "statement_changes": list(difference.statement),
        "changes": [priced_data(change) for change in difference.priced],
        "interaction": difference.interaction,
        "exit_code": code,
    }


def _side(account: Account) -> dict[str, Any]:
    """Return the account of one of the two files as JSON data, in short."""
    data_of_account = account_report.data(account)
    return {key: data_of_account[key] for key in ("pipeline", "statement", "result")}


def priced_data(change: Priced) -> dict[str, Any]:
    """Return a change as JSON data."""
    edits = [{"key": edit.key, "before": _json_data(edit.old), "after": _json_data(edit.new)} for edit in change.change.edits]
    return {"edits": edits, "epsilon_upper": change.epsilon, "increase": change.increase, "reason": change.reason}


def _table(difference: Difference) -> Table:
    """Return the table of the changes, with their interaction and the effect of all. Footnotes say why a change has no cost."""
    reasons = dict.fromkeys(change.reason for change in difference.priced if change.reason)
    marks = {reason: mark for mark, reason in enumerate(reasons, 1)}
    rows = [row for change in difference.priced for row in _rows(change, marks)]
    if len(difference.priced) > 1:
        rows.append(("interaction of the changes", "", "", "", signed(difference.interaction)))
    rows.append(("all changes together", "", "", up(difference.after.upper), signed(difference.increase)))
    return Table(
        f"changes, each made alone to {difference.before.pipeline.path}: its epsilon at delta = {difference.before.delta!r}",
        ("change", "before", "after", "epsilon", "effect"),
        tuple(rows),
        numeric=frozenset({3, 4}),
        footnotes=tuple(f"[{mark}] {reason}" for reason, mark in marks.items()),
    )


def _sheet(difference: Difference) -> Sheet:
    """Return a row per edit with the cost of its change alone, then the interaction, and all changes together."""
    delta = difference.before.delta
    rows: list[tuple[Value, ...]] = []
    for number, change in enumerate(difference.priced, start=1):
        cost = (delta, change.epsilon, change.increase, change.reason or None)
        rows += [("change", number, edit.key, _cell(edit.old), _cell(edit.new), *cost) for edit in change.change.edits]
    if len(difference.priced) > 1:
        rows.append(("interaction", None, None, None, None, delta, None, difference.interaction, None))
    rows.append(("all", None, None, None, None, delta, difference.after.upper, difference.increase, None))
    return Sheet(("kind", "change", "key", "before", "after", "delta", "epsilon_upper", "increase", "reason"), tuple(rows))


def _cell(value: Any) -> Value:
    """Return a value for a cell of a spreadsheet."""
    if isinstance(value, str):
        return public(value)
    return value if value is None or isinstance(value, bool | int | float) else _toml(value)


def _rows(change: Priced, marks: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each edit of a change. The first row has the numbers."""
    epsilon = "" if change.epsilon is None else up(change.epsilon)
    cost = (f"[{marks[change.reason]}]", "-") if change.reason else (epsilon, signed(change.increase))
    first, *others = change.change.edits  # valid only together, so that they have one cost
    yield (first.label, _table_text(first.old), _table_text(first.new), *cost)
    for edit in others:
        yield (f"  and {edit.label}", _table_text(edit.old), _table_text(edit.new), "", "")


def _notes(difference: Difference) -> Iterator[str]:
    """Yield why the files cannot be compared, and what the effects are."""
    if difference.statement:
        yield (
            f"not comparable ({', '.join(difference.statement)}): the two epsilons are different guarantees, so the smaller one is not "
            "necessarily better"
        )
    if any("delta" in word.split() for word in difference.statement):
        yield f"both files are priced at delta = {difference.before.delta!r}"
    names = [side.winner.accountant.name if side.winner else "none" for side in (difference.before, difference.after)]
    if difference.priced:
        yield f"effects are differences of upper bounds (accountant before: {names[0]}, after: {names[1]})"


def _table_text(value: Any) -> str:
    """Return a value in the syntax of TOML, shortened to LONGEST_VALUE characters; "(none)" if the key is missing."""
    text = "(none)" if value is None else _toml(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _toml(value: Any) -> str:
    """Return a value in the syntax of TOML, without passwords. The name of an entry is left out, because the label of its row has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if key != "name") + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(public(value), ensure_ascii=False) if isinstance(value, str) else str(value)


def _json_data(value: Any) -> Any:
    """Return a value as JSON data. Dates become text, and addresses lose their passwords."""
    return _public_data(json.loads(json.dumps(value, default=str)))


def _public_data(value: Any) -> Any:
    """Return JSON data in which addresses have lost their passwords."""
    if isinstance(value, dict):
        return {key: _public_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_public_data(item) for item in value]
    return public(value) if isinstance(value, str) else value
