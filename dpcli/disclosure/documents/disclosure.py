"""A disclosure as a document: the plain words, every item, and the tables behind the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpcli.analysis.documents import account as account_report
from dpcli.disclosure.documents import meaning as meaning_report
from dpcli.disclosure.item import Answer
from dpcli.disclosure.statement import Statement
from dpcli.document.chart import Chart
from dpcli.document.document import Document, Passage, Table, reason
from dpcli.file.pipeline.document import tables_of
from dpcli.plots.drawing import name_of

COLUMNS = ("item", "asked by", "answer")
TRUST = "who is trusted with what, and which premises each number rests on: dpcli explain threats"


def document(
    statement: Statement, pictures: Iterable[Chart] = (), strict: bool = False, date: str | None = None, name: str = "report"
) -> Document:
    """Everything that `dpcli report` says about one pipeline.

    strict: exit code 1 where an item is not stated. date: printed in the title; none otherwise, so that the bytes depend on the file alone.
    name: of the machine form's schema.
    """
    facts = statement.facts
    code = account_report.exit_code(facts.account, facts.diagnostics) or int(strict and bool(statement.silent))
    whole = account_report.document(facts.account, facts.diagnostics)
    behind = () if facts.meaning is None else meaning_report.document(facts.account, facts.meaning).tables
    return Document(
        headline=whole.headline,
        data=_data(statement, code, date, name),
        verdict="fail" if facts.unsound else whole.verdict,
        title=f"{statement.title}: {name_of(facts.account)}" + (f", {date}" if date else ""),
        passages=tuple(Passage(one.title, one.paragraphs, one.points) for one in statement.passages),
        pictures=tuple(pictures),
        tables=(*_items(statement), *((*whole.tables, *behind) if statement.passages else ())),
        notes=(_count(statement), TRUST),
        total=whole.total,
        log=tuple(f"{answer.item.id}: {answer.line}" for answer in statement.answers),
        exit_code=code,
        why=reason(whole) if whole.exit_code else _count(statement),
        records=[_record(answer) for answer in statement.answers],
    )


def _items(statement: Statement) -> Iterable[Table]:
    last = len(statement.chapters) - 1
    for i, (title, answers) in enumerate(statement.chapters):
        rows = tuple((one.item.question, one.item.asked_by, one.line) for one in answers)
        silent = frozenset(row for row, one in enumerate(answers) if not one.stated)
        yield Table(title, COLUMNS, rows, footnotes=statement.asked_by if i == last else (), flagged=silent)


def _count(statement: Statement) -> str:
    stated = len(statement.answers) - len(statement.silent)
    return f"{stated} of {len(statement.answers)} items stated; NOT STATED: " + (
        ", ".join(answer.item.id for answer in statement.silent) or "none"
    )


def _data(statement: Statement, code: int, date: str | None, name: str) -> Mapping[str, Any]:
    """The machine form; numbers unrounded."""
    facts = statement.facts
    without = facts.unamplified
    whole = account_report.data(facts.account, facts.diagnostics)
    return {
        "schema": f"dpcli/{name}/v1",
        "date": date,
        **{key: whole[key] for key in ("pipeline", "statement", "delta", "result")},
        "parameters": tables_of(facts.pipeline)["mechanism"],
        "items": [_record(answer) for answer in statement.answers],
        "not_stated": [answer.item.id for answer in statement.silent],
        "plain": [{"title": one.title, "paragraphs": one.paragraphs, "points": one.points} for one in statement.passages],
        "without_amplification": None if without is None else account_report.data(without)["result"],
        "meaning": meaning_report.data(facts.account, facts.meaning, (), code)["meaning"],
        **{key: whole[key] for key in ("accountants", "mechanisms", "budget", "diagnostics")},
        "exit_code": code,
    }


def _record(answer: Answer) -> dict[str, Any]:
    item = answer.item
    return {
        "id": item.id,
        "question": item.question,
        "asked_by": item.asked_by,
        "keys": list(item.keys),
        "answer": answer.text,
        "stated": answer.stated,
    }
