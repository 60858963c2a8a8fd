"""What changed and what it costs, as a document."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from dpcli.analysis.account import Account
from dpcli.analysis.difference import Difference, Priced
from dpcli.document.document import Document, Sheet, Table, Value
from dpcli.present import account as account_report
from dpcli.rounding import up

LONGEST = 72


def document(found: Difference, judged: bool = False) -> Document:
    """Everything that `dpcli diff` says; `judged` makes a rise of epsilon exit code 1, and a comparison that cannot be made 3."""
    code = found.exit_code if judged else 0
    return Document(
        headline=headline(found),
        data=data(found, code),
        verdict="unknown" if found.exit_code == 3 else "warn" if found.exit_code else "pass",
        tables=(_table(found),) if found.priced else (),
        notes=tuple(_notes(found)),
        total=_total(found.increase),
        exit_code=code,
        records=[priced_data(one) for one in found.priced],
        sheet=_sheet(found),
    )


def headline(found: Difference) -> str:
    """Both epsilons at one delta, and whether they can be compared."""
    if not found.priced:
        return f"no difference: epsilon <= {up(found.before.upper)} at delta = {found.before.delta!r}"
    epsilons = f"epsilon {up(found.before.upper)} -> {up(found.after.upper)} ({_signed(found.increase)})"
    comparable = f"; NOT COMPARABLE: {', '.join(found.statement)}" if found.statement else ""
    return f"{epsilons} at delta = {found.before.delta!r}{comparable}"


def data(found: Difference, code: int) -> dict[str, Any]:
    """The machine form dpcli/diff/v1; numbers unrounded, an increase that means nothing is null."""
    return {
        "schema": "dpcli/diff/v1",
        "before": _side(found.before),
        "after": _side(found.after),
        "delta": found.before.delta,
        "increase": found.increase,
        "comparable": not found.statement,
        "statement_changes": list(found.statement),
        "changes": [priced_data(one) for one in found.priced],
        "interaction": found.interaction,
        "exit_code": code,
    }


def _side(account: Account) -> dict[str, Any]:
    whole = account_report.data(account)
    return {key: whole[key] for key in ("pipeline", "statement", "result")}


def priced_data(one: Priced) -> dict[str, Any]:
    """One change in the machine form."""
    edits = [{"key": e.key, "before": _plain(e.old), "after": _plain(e.new)} for e in one.change.edits]
    return {"edits": edits, "epsilon_upper": one.epsilon, "increase": one.increase, "reason": one.reason}


def _table(found: Difference) -> Table:
    reasons = dict.fromkeys(one.reason for one in found.priced if one.reason)
    marks = {reason: mark for mark, reason in enumerate(reasons, 1)}
    rows = [row for one in found.priced for row in _rows(one, marks)]
    if len(found.priced) > 1:
        rows.append(("interaction of the changes", "", "", "", _signed(found.interaction)))
    rows.append(("all changes together", "", "", up(found.after.upper), _signed(found.increase)))
    return Table(
        f"changes, each made alone to {found.before.pipeline.path}: its epsilon at delta = {found.before.delta!r}",
        ("change", "before", "after", "epsilon", "effect"),
        tuple(rows),
        frozenset({3, 4}),
        tuple(f"[{mark}] {reason}" for reason, mark in marks.items()),
    )


def _sheet(found: Difference) -> Sheet:
    """A row per edit, with what its change costs made alone; then all changes together, and what they cost beyond their sum."""
    delta = found.before.delta
    rows: list[tuple[Value, ...]] = [
        ("change", i, e.key, _datum(e.old), _datum(e.new), delta, one.epsilon, one.increase, one.reason or None)
        for i, one in enumerate(found.priced, start=1)
        for e in one.change.edits
    ]
    if len(found.priced) > 1:
        rows.append(("interaction", None, None, None, None, delta, None, found.interaction, None))
    rows.append(("all", None, None, None, None, delta, found.after.upper, found.increase, None))
    return Sheet(("kind", "change", "key", "before", "after", "delta", "epsilon_upper", "increase", "reason"), tuple(rows))


def _datum(value: Any) -> Value:
    return value if value is None or isinstance(value, str | bool | int | float) else _toml(value)


def _rows(one: Priced, marks: dict[str, int]) -> Iterator[tuple[str, ...]]:
    """One row per edit, the numbers beside the first."""
    cost = (
        (f"[{marks[one.reason]}]", "-") if one.reason else ("" if one.epsilon is None else up(one.epsilon), _signed(one.increase))
    )
    for i, edit in enumerate(one.change.edits):
        yield (f"{'  and ' if i else ''}{edit.label}", _value(edit.old), _value(edit.new), *(("", "") if i else cost))


def _notes(found: Difference) -> Iterator[str]:
    if found.statement:
        yield (
            f"not comparable ({', '.join(found.statement)}): the two epsilons state different things, and the smaller one "
            "is not necessarily better"
        )
    if any("delta" in word.split() for word in found.statement):
        yield f"both files are priced at delta = {found.before.delta!r}"
    names = [side.winner.accountant.name if side.winner else "none" for side in (found.before, found.after)]
    if found.priced:
        yield f"effects are differences of upper bounds (accountant before: {names[0]}, after: {names[1]})"


def _signed(x: float) -> str:
    if math.isnan(x):
        return "-"
    return f"+{up(x)}" if x > 0.0 else up(x)


def _total(x: float) -> str:
    return "nan" if math.isnan(x) else repr(x)


def _value(value: Any) -> str:
    """A value as the file would spell it, cut where it is long."""
    text = "(none)" if value is None else _toml(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if key != "name") + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, str | bool) else str(value)


def _plain(value: Any) -> Any:
    """The value as JSON can hold it: dates, which TOML has, as text."""
    return json.loads(json.dumps(value, default=str))
