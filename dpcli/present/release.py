"""A release as a document: what it would cost and how far its answers will be off, and the answers themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli.document.document import Document, Sheet, Table
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.present.account import headline
from dpcli.present.training import shown
from dpcli.rounding import percent, up

if TYPE_CHECKING:
    from dpcli.release.answer import AnswerRow, QueryAnswer, Value
    from dpcli.release.entries import AskedQuery
    from dpcli.release.plan import ReleasePlan
    from dpcli.release.query import QueryRelease
    from dpcli.release.run import ReleaseOutcome

SHOWN = 1_000  # answers in a table; csv and json have all of them


def planned(plan: ReleasePlan) -> Document:
    """Mechanisms, cost and the error to expect; no data were touched."""
    rows = tuple(row for one in plan.asked for row in _planned_rows(one))
    table = Table("queries", ("query", "measure", "mechanism", "error to expect"), rows)
    notes = ("no data were touched", *_unit_note(plan), f"answers will be kept in {shown(plan.folder)}")
    found = plan.account
    data = {
        "schema": "dpcli/release-plan/v1",
        "queries": [_planned_data(one) for one in plan.asked],
        "result": {"epsilon_upper": found.upper, "delta": found.delta},
        "fingerprint": plan.fingerprint(),
        "exit_code": 0,
    }
    details = tuple(f"{one.query.name} ({one.query.measure}): {one.query.expected_error(one.setting)}" for one in plan.asked)
    return Document(
        headline(found), data, "pass", tables=(table,), notes=notes, details=(*details, *notes), total=repr(found.upper)
    )


def outcome(done: ReleaseOutcome) -> Document:
    """The answers."""
    plan, found = done.plan, done.plan.account
    sheet = sheet_of(done.answers)
    data = {
        "schema": "dpcli/release/v1",
        "answers": [_answer_data(answer) for answer in done.answers],
        "fresh": done.fresh,
        "run": done.run,
        "folder": done.folder,
        "result": {"epsilon_upper": found.upper, "delta": found.delta},
        "exit_code": 0,
    }
    notes = (
        *(() if done.fresh else ("these are the answers that were drawn when this release was charged: nothing more was charged",)),
        *_unit_note(plan),
        f"answers and statement are in {shown(done.folder)}",
    )
    tables = tuple(answer_table(answer) for answer in done.answers)
    lines = tuple(line for answer in done.answers for line in answer_lines(answer))
    return Document(
        headline(found), data, "pass", tables=tables, notes=notes, details=(*lines, *notes), sheet=sheet, total=repr(found.upper)
    )


def sheet_of(answers: Sequence[QueryAnswer]) -> Sheet:
    """Every answer as a row of data."""
    columns = ("query", "measure", "key", "value", "lower", "upper", "confidence")
    rows = (
        (answer.query, answer.measure, key_text(answer, row), row.value, row.lower, row.upper, answer.confidence)
        for answer in answers
        for row in answer.rows
    )
    return Sheet(columns, tuple(rows))


def answer_table(answer: QueryAnswer) -> Table:
    """One query's answers with their intervals."""
    spoken = any(row.lower is not None for row in answer.rows)
    columns = (*answer.by, answer.measure, *((f"{percent(answer.confidence)} interval",) if spoken else ()))
    rows = tuple(
        (*map(str, row.key), value_text(row.value), *((interval_text(row),) if spoken else ())) for row in answer.rows[:SHOWN]
    )
    more = (f"{len(answer.rows) - SHOWN:,} more are in csv and json",) if len(answer.rows) > SHOWN else ()
    done = (f"after the noise: {', '.join(answer.postprocessed)}",) if answer.postprocessed else ()
    numeric = frozenset({len(answer.by), len(answer.by) + 1})
    return Table(answer.query, columns, rows, numeric, footnotes=(answer.covers, *done, *more))


def answer_lines(answer: QueryAnswer) -> Iterator[str]:
    """One query's answers as lines of text."""
    for row in answer.rows[:SHOWN]:
        key, interval = key_text(answer, row), interval_text(row)
        place = f"{answer.query}, {key}" if key else answer.query
        yield f"{place}: {value_text(row.value)}" + (f" ({interval}, {percent(answer.confidence)})" if interval else "")


def statement(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> str:
    """Markdown: every query and what was done, then the disclosure statement of the file."""
    from dpcli import __version__
    from dpcli.disclosure.facts import gather
    from dpcli.disclosure.statement import disclosure
    from dpcli.formats import markdown as format_markdown
    from dpcli.present import disclosure as disclosure_report

    found, own = plan.account, plan.pipeline.disclosure
    known: dict[str, Any] = {
        "implementation": f"dpcli {__version__} with OpenDP's integer samplers",
        "privacy_model": "central",
        "query_model": "one-release",
        "randomness": "noise is drawn from the operating system; no seed exists and nothing is saved",
        "floating_point": "values are clamped and added as whole numbers; noise is drawn on whole numbers",
        "clipping": "at most max_groups keys and max_rows rows of one unit count, chosen by a hash with a fresh key, in the engine",
        "product": f"answers to {len(answers):,} queries: {', '.join(answer.query for answer in answers)}",
    }
    told = replace(own, **{name: value for name, value in known.items() if getattr(own, name) is None})
    lines = "".join(f"* {_spoken(one)}\n" for one in plan.asked)
    done = f"epsilon <= {up(found.upper)} at delta = {found.delta!r}, for all of these queries together:\n\n{lines}\n"
    facts = gather(replace(plan.pipeline, path=plan.path, disclosure=told), None, ())
    return done + format_markdown.render(disclosure_report.document(disclosure(facts)))


def explained(plan: ReleasePlan) -> Document:
    """How the sensitivity and the noise of each query come about."""
    tables = tuple(_why_table(one) for one in plan.asked)
    data = {"schema": "dpcli/release-why/v1", "queries": [_planned_data(one) for one in plan.asked], "exit_code": 0}
    return Document(headline(plan.account), data, "pass", tables=tables, notes=_unit_note(plan), total=repr(plan.account.upper))


def _why_table(one: AskedQuery) -> Table:
    """Under the file's adjacency, and beside it under the other one, at the same cost."""
    stated = one.setting.adjacency
    other = Adjacency.REPLACE_ONE if stated is not Adjacency.REPLACE_ONE else Adjacency.ADD_REMOVE
    beside = one.query.releases(replace(one.setting, adjacency=other))
    rows = [row for release in one.releases for row in _why_rows(release, stated.value)]
    rows += [row for release in beside for row in _why_rows(release, f"were it {other.value}")]
    return Table(f"{one.query.name} ({one.query.measure})", ("", "mechanism", "why"), tuple(rows))


def _why_rows(release: QueryRelease, adjacency: str) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(release.why):
        yield (adjacency, release.suffix or release.type, line) if number == 0 else ("", "", line)


def _spoken(one: AskedQuery) -> str:
    query = one.query
    where = f" where `{query.where}`" if query.where else ""
    keys: tuple[str, ...] = getattr(query, "by", ())
    by = f" by {', '.join(keys)}" if keys else ""
    mechanisms = " and ".join(_mechanism(one, position) for position in range(len(one.releases)))
    return f"**{query.name}**: {query.measure}{by}{where}; {mechanisms}"


def _planned_rows(one: AskedQuery) -> Iterator[tuple[str, ...]]:
    for position, _release in enumerate(one.releases):
        first = position == 0
        error = one.query.expected_error(one.setting) if first else ""
        yield (one.query.name if first else "", one.query.measure if first else "", _mechanism(one, position), error)


def _mechanism(one: AskedQuery, position: int) -> str:
    release = one.releases[position]
    keys = ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}" for name, value in release.keys.items()
    )
    return f"{release.suffix}: {release.type} ({keys})" if release.suffix else f"{release.type} ({keys})"


def _planned_data(one: AskedQuery) -> dict[str, Any]:
    return {
        "name": one.query.name,
        "measure": one.query.measure,
        "mechanisms": [
            {"name": one.name_of(release), "type": release.type, "steps": release.steps, **release.keys, "why": list(release.why)}
            for release in one.releases
        ],
        "expected_error": one.query.expected_error(one.setting),
    }


def _answer_data(answer: QueryAnswer) -> dict[str, Any]:
    from dpcli.release.answer import as_json

    return as_json(answer)


def _unit_note(plan: ReleasePlan) -> tuple[str, ...]:
    if plan.source.unit is None:
        return ("each row is a unit of its own: nobody is protected who has several rows",)
    return (f'rows of one "{plan.source.unit}" are protected together; rows without one are left out',)


def key_text(answer: QueryAnswer, row: AnswerRow) -> str:
    """The key of a row as one text."""
    return ", ".join(f"{name}={value}" for name, value in zip(answer.by, row.key, strict=False))


def value_text(value: Value) -> str:
    """A value for a table: whole numbers in full, others to six digits."""
    if value is None:
        return "none"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def interval_text(row: AnswerRow) -> str:
    """The interval of a row."""
    if row.lower is None or row.upper is None:
        return ""
    return f"{row.lower:,.6g} to {row.upper:,.6g}"
