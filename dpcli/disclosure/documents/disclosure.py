"""The document of dpcli report: plain words, every item, the tables behind the numbers, and pictures.

A *statement* answers *items*, the questions that papers and registries ask about a private release (items.py), and has *passages* in plain
words; statement.py decides its content, and this module renders it. Every item that a key of the file could state appears, if need be as
NOT STATED: a report must not look complete by silence. Without a date, equal inputs give equal bytes, so that a committed report can be
compared.

The numbers come from the *account*, the certified epsilon and delta of the file, and from its *meaning*, what an attacker can still do. A
*curve* has an upper and a lower bound on delta at each epsilon. The *shares* of mechanisms are parts of the total cost, as the winning
accountant measures it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from dpcli.analysis.account import Account
from dpcli.analysis.curve import ProfileCurve
from dpcli.analysis.documents import account as account_report
from dpcli.certify.named_certificate import named_proof
from dpcli.disclosure.disclosed_facts import Facts, gather
from dpcli.disclosure.documents import meaning as meaning_report
from dpcli.disclosure.items import Answer
from dpcli.disclosure.statement import Form, Statement, disclosure, registry_entry
from dpcli.document.chart import Axis, Bar, Chart, Line, Tone
from dpcli.document.document import Document, Table, reason
from dpcli.file.pipeline.canonical import tables_of
from dpcli.lint.run import checked_load
from dpcli.numerics.work import limited
from dpcli.plots.delta_epsilon import GUARANTEES, headline_marker
from dpcli.plots.drawing import draw, name_of, positive_delta, setting, with_findings
from dpcli.plots.epsilons import Question
from dpcli.plots.trade_off_curve import complete_picture

COLUMNS = ("item", "asked by", "answer")
TRUST = "trusted parties, and the premises of each number: dpcli explain threats"

# Limits of the pictures. They are arbitrary, and affect what is drawn alone.
LOWEST_SHARE = 1e-3  # smallest delta in the picture of delta against epsilon, as a share of the file's delta
SMALLEST_AXIS = 1e-300  # smallest end of an axis of deltas, which is a normal double
MOST_BARS = 20  # largest number of bars in the picture of shares, without the bar of all others
ROOM = 1.05  # factor by which an axis is longer than what is drawn

FORMS: Mapping[Form, Callable[[Facts], Statement]] = {"report": disclosure, "registry": registry_entry}


def document(statement: Statement, pictures: Iterable[Chart] = (), *, strict: bool = False, date: str | None = None) -> Document:
    """Return the document of `dpcli report` about one pipeline.

    The verdict and the exit code are the same as those of `dpcli account`, except for `strict`.

    strict: whether an item that is not stated gives exit code 1.
    date: date for the title; None for no date, so that the bytes depend on the file alone.
    """
    facts = statement.facts
    report = account_report.document(facts.account, facts.diagnostics)
    code = account_report.exit_code(facts.account, facts.diagnostics)
    if strict and statement.silent:
        code = code or 1
    tables = [*_item_tables(statement)]
    if statement.passages:  # a registry entry, which has none, is short: it has no tables behind the numbers either
        tables += report.tables
        if facts.meaning is not None:
            tables += meaning_report.document(facts.account, facts.meaning).tables
    title = f"{statement.title}: {name_of(facts.account)}"
    if date:
        title += f", {date}"
    return Document(
        headline=report.headline,
        data=_data(statement, code, date),
        verdict=report.verdict,
        title=title,
        passages=statement.passages,
        pictures=tuple(pictures),
        tables=tuple(tables),
        notes=(_stated_count(statement), TRUST),
        total=report.total,
        details=() if facts.proof is None else (facts.proof.words,),
        log=tuple(f"{answer.item.id}: {answer.line}" for answer in statement.answers),
        exit_code=code,
        why=reason(report) if report.exit_code else _stated_count(statement),  # why the exit code is not 0
        records=[_record(answer) for answer in statement.answers],
    )


def _item_tables(statement: Statement) -> Iterator[Table]:
    """Yield a table for each chapter; the last one has the documents that ask as footnotes."""
    last = len(statement.chapters) - 1
    for position, (title, answers) in enumerate(statement.chapters):
        rows = tuple((answer.item.question, answer.item.asked_by, answer.line) for answer in answers)
        silent = frozenset(row for row, answer in enumerate(answers) if not answer.stated)
        footnotes = statement.asked_by if position == last else ()
        yield Table(title, COLUMNS, rows, footnotes=footnotes, flagged=silent)


def _stated_count(statement: Statement) -> str:
    """Return the number of items that the file states, and the names of the other items."""
    silent = ", ".join(answer.item.id for answer in statement.silent)
    stated = len(statement.answers) - len(statement.silent)
    return f"{stated} of {len(statement.answers)} items stated; NOT STATED: {silent or 'none'}"


def _data(statement: Statement, code: int, date: str | None) -> Mapping[str, Any]:
    """Return the JSON data. Its numbers are not rounded."""
    facts = statement.facts
    account_data = account_report.data(facts.account, facts.diagnostics)
    unamplified = None if facts.unamplified is None else account_report.data(facts.unamplified)["result"]
    return {
        "schema": f"dpcli/{statement.form}/v1",
        "date": date,
        **_some_of(account_data, "pipeline", "statement", "delta", "result"),
        "parameters": tables_of(facts.pipeline)["mechanism"],
        "items": [_record(answer) for answer in statement.answers],
        "not_stated": [answer.item.id for answer in statement.silent],
        "plain": [asdict(passage) for passage in statement.passages],
        "certificate": None if facts.proof is None else facts.proof.data,
        "without_amplification": unamplified,
        "meaning": meaning_report.data(facts.account, facts.meaning, (), code)["meaning"],
        **_some_of(account_data, "accountants", "mechanisms", "budget", "diagnostics"),
        "exit_code": code,
    }


def _some_of(data: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: data[key] for key in keys}


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


def charts(facts: Facts) -> tuple[Chart, ...]:
    """Return the pictures of a statement; an empty tuple if no finite epsilon is certified."""
    if facts.meaning is None:
        return ()
    curve = facts.meaning.curve  # the curve that sentences and tables quote
    errors = complete_picture(facts.account, curve)
    # A curve through a few (epsilon, delta) pairs has steps between them. Epsilon is then computed again at each delta.
    if curve.is_narrow():
        profile = _profile(facts.account, curve)
    else:
        profile = (draw("delta-epsilon", Question(facts.pipeline, delta=facts.account.delta)),)
    return tuple(with_findings(chart, facts.diagnostics) for chart in (errors, *profile, *_shares(facts.account)))


def _profile(account: Account, curve: ProfileCurve) -> tuple[Chart, ...]:
    """Return the picture of delta as a function of epsilon, down to LOWEST_SHARE of the file's delta.

    The result is an empty tuple if fewer than two points of the curve are above that.
    """
    low = max(LOWEST_SHARE * positive_delta(account), SMALLEST_AXIS)
    pairs = zip(curve.epsilons.tolist(), curve.upper.tolist(), strict=True)
    points = tuple((epsilon, min(delta, 1.0)) for epsilon, delta in pairs if delta >= low)
    if len(points) < 2:
        return ()
    chart = Chart(
        kind="delta-epsilon",
        title="privacy profile: delta by epsilon",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=Axis("epsilon", 0.0, ROOM * max(account.upper, points[-1][0])),
        y=Axis("delta", low, 1.0, scale="log"),
        lines=(Line("smallest bound of all accountants", points, Tone.MAIN),),
        markers=headline_marker(account),
        notes=(GUARANTEES,),  # each point is a guarantee; the line between points is a guide
    )
    return (chart,)


def _shares(account: Account) -> tuple[Chart, ...]:
    """Return the picture of each mechanism's share of the cost; an empty tuple for a single mechanism, or without shares.

    The shares are NaN if the winning accountant does not divide the cost among the mechanisms.
    """
    if len(account.shares) < 2 or any(map(math.isnan, account.shares)) or account.winner is None:
        return ()
    shares = sorted(zip(account.shares, (charge.name for charge in account.charges), strict=True), reverse=True)
    others = shares[MOST_BARS:]
    if others:
        shares[MOST_BARS:] = [(sum(share for share, _ in others), f"{len(others):,} others")]
    top = len(shares) - 1
    bars = (
        Bar(name, f"{100.0 * share:.1f} %", float(top - place), 100.0 * share, Tone.MAIN)
        for place, (share, name) in enumerate(shares)
    )
    largest = 100.0 * max(share for share, _ in shares)
    chart = Chart(
        kind="shares",
        title="share of the total cost, by mechanism",
        subtitle=f"{name_of(account)}: {setting(account)}",
        x=Axis("share of the total", 0.0, ROOM * largest or 1.0, unit="%"),
        y=Axis("mechanism", -0.5, top + 0.5, categories=tuple(name for _, name in reversed(shares))),
        bars=tuple(bars),
        notes=(f"shares of the total by the accountant {account.winner.accountant.name}; shares are not epsilons",),
    )
    return (chart,)


@limited  # bounds the work of one call
def draft(
    path: str, delta: float | None, form: Form, certificate: str | None, *, illustrated: bool
) -> tuple[Statement, tuple[Chart, ...]]:
    """Return the statement or registry entry of a file, and its pictures; a registry entry has none.

    certificate: path of a certificate that proves epsilon; None for none.

    Raises:
        InvalidFile, InputError: A file cannot be read.
        CannotCertify: The certificate does not prove the epsilon that is printed, of this file.
    """
    pipeline, diagnostics = checked_load(path, delta)
    facts = gather(pipeline, delta, diagnostics)
    if certificate is not None:
        facts = replace(facts, proof=named_proof(certificate, pipeline, facts.account.upper, facts.account.delta))
    return FORMS[form](facts), charts(facts) if illustrated and form == "report" else ()
