"""Documents of a release: its plan with costs and expected errors, its answers, its statement, and reasons for its noise.

The plan, the explanation and the expected errors are made before any data are read. The answers are noisy already when they arrive here, so
everything in this file is public, and nothing here may open the source. The ends of an interval are rounded outward. Columns of csv and
keys of json are promised to programs; tables and sentences may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

from dpcli.analysis.documents.account import headline_of_run
from dpcli.base.extras import require
from dpcli.base.rounding import figures, up
from dpcli.document.document import Document, Sheet, Table
from dpcli.document.short_numbers import rounded_key
from dpcli.file.pipeline.datasets import window_data
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.aggregate import quoted
from dpcli.release.query_answer import as_json
from dpcli.release.release_plan import UNREAD, can_read_expressions
from dpcli.sessions.documents.dry_run import shown

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Disclosure
    from dpcli.release.query import QueryMechanism
    from dpcli.release.query_answer import AnswerRow, QueryAnswer, Value
    from dpcli.release.query_entries import PricedQuery
    from dpcli.release.release_plan import ReleaseOutcome, ReleasePlan
    from dpcli.release.table_release import PlannedRelease, ReleasedAnswers


# Columns of a sheet before and after the columns of the keys.
QUERY_COLUMNS, VALUE_COLUMNS = ("query", "measure"), ("value", "lower", "upper", "confidence")
CHOSEN = "chosen"  # parquet column for values that are text, such as a chosen key
MOST_SHOWN = 1_000  # largest number of answers in a table; csv and json contain all answers


def plan_document(plan: ReleasePlan) -> Document:
    """Return the document of a plan: its mechanisms, cost and expected errors. No data are read."""
    rows = tuple(row for priced in plan.queries for row in _planned_rows(priced))
    account, over = plan.account, plan.over_budget
    notes = _plan_notes(plan)
    data = {
        "schema": "dpcli/release-plan/v1",
        "queries": list(map(_planned_data, plan.queries)),
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "fingerprint": plan.fingerprint(),
        **_joined_data(plan),
        "exit_code": int(over),
    }
    errors = (f"{priced.query.name} ({priced.query.measure}): {priced.expected_error}" for priced in plan.queries)
    return Document(
        headline_of_run(account),
        data,
        "fail" if over else "pass",
        exit_code=int(over),
        tables=(Table("queries", ("query", "measure", "mechanism", "expected error"), rows),),
        notes=notes,
        details=(*errors, *notes),
        total=repr(account.upper),
    )


def _plan_notes(plan: ReleasePlan) -> tuple[str, ...]:
    notes = ["no data were read"]
    if not can_read_expressions():
        notes.append(UNREAD)
    notes += [_unit_note(plan), *_window_note(plan), *_join_notes(plan)]
    if plan.window is None and plan.pipeline.privacy.window is not None:
        notes.append("the file states a window of a ledger's blocks: without --ledger nothing would be answered")
    if plan.source.path is None and plan.source.url is None:
        notes.append("the file names no data: only dpcli.release, in Python, answers it about a table")
    if plan.over_budget:
        notes += ["over budget: nothing would be answered", *_weights_note(plan)]
    else:
        notes.append(f"answers will be stored in {shown(plan.folder)}")
    return tuple(notes)


def outcome_document(result: ReleaseOutcome) -> Document:
    """Return the answers as a document."""
    plan, account = result.plan, result.plan.account
    data = {
        "schema": "dpcli/release/v1",
        "answers": [as_json(answer) for answer in result.answers],
        "fresh": result.fresh,
        "run": result.run,
        "folder": result.folder,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        **window_data(plan.pipeline.privacy),
        **_joined_data(plan),
        "exit_code": 0,
    }
    notes = (_unit_note(plan), *_window_note(plan), *_join_notes(plan), f"answers and statement are in {shown(result.folder)}")
    if not result.fresh:
        notes = ("these answers were drawn when this release was charged; this call charged nothing", *notes)
    lines = (line for answer in result.answers for line in answer_lines(answer))
    return Document(
        headline_of_run(account),
        data,
        "pass",
        tables=tuple(map(answer_table, result.answers)),
        notes=notes,
        details=(*lines, *notes),
        sheet=sheet_of(result.answers),
        total=repr(account.upper),
    )


def answers_page(result: ReleasedAnswers) -> Document:
    """Return the document that a notebook shows of answers."""
    return outcome_document(result.outcome)


def plan_page(result: PlannedRelease) -> Document:
    """Return the document that a notebook shows of a planned release."""
    return plan_document(result.plan)


def sheet_of(answers: Sequence[QueryAnswer]) -> Sheet:
    """Return a sheet with one row for each answer.

    It has a column for each key of any query; the column is empty in rows without that key.
    """
    column_names = _key_columns(dict.fromkeys(name for answer in answers for name in answer.by))
    rows = []
    for answer in answers:
        for row in answer.rows:
            key = dict(zip(answer.by, row.key, strict=True))
            key_cells = (key.get(name) for name in column_names)
            rows.append((answer.query, answer.measure, *key_cells, row.value, row.lower, row.upper, answer.confidence))
    return Sheet((*QUERY_COLUMNS, *column_names.values(), *VALUE_COLUMNS), tuple(rows))


def _key_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the column name of each key: the name of the key, with the prefix `key.` if another column has this name up to case."""
    taken = {*QUERY_COLUMNS, *VALUE_COLUMNS, CHOSEN}
    column_names = {}
    for name in names:
        column = name
        while column.lower() in taken:
            column = f"key.{column}"
        taken.add(column.lower())
        column_names[name] = column
    return column_names


def parquet_of(sheet: Sheet) -> bytes:
    """Return the rows of a sheet as parquet. Numeric values are in the column `value`, and text values in the column `chosen`.

    Raises Unavailable if DuckDB is not installed.
    """
    require("duckdb")
    import os
    import tempfile

    import duckdb

    place = sheet.columns.index("value")
    columns = [*sheet.columns[: place + 1], CHOSEN, *sheet.columns[place + 1 :]]
    declared = [f"{quoted(name)} {'DOUBLE' if name in VALUE_COLUMNS else 'VARCHAR'}" for name in columns]
    rows = [(*row[:place], *_number_and_text(row[place]), *row[place + 1 :]) for row in sheet.rows]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE answers ({', '.join(declared)})")
        if rows:
            connection.executemany(f"INSERT INTO answers VALUES ({', '.join('?' for _ in declared)})", rows)
        path = os.path.join(folder, "answers.parquet")
        in_quotes = path.replace("'", "''")
        connection.execute(f"COPY answers TO '{in_quotes}' (FORMAT parquet)")
        with open(path, "rb") as file:
            return file.read()


def _number_and_text(value: Value) -> tuple[float | None, str | None]:
    """Return the pair (number, None) for a number, (None, text of the csv) for another value, and (None, None) for no value."""
    if value is None:
        return None, None
    if isinstance(value, bool | str):
        return None, _word(value)
    return float(value), None


def answer_table(answer: QueryAnswer) -> Table:
    """Return the first MOST_SHOWN answers to a query as a table, with their intervals if there are any."""
    columns = [*answer.by, answer.measure]
    rows = [[*map(_word, row.key), value_text(row.value)] for row in answer.rows[:MOST_SHOWN]]
    if any(row.lower is not None for row in answer.rows):
        columns.append(f"{_share(answer.confidence)} interval")
        for cells, row in zip(rows, answer.rows, strict=False):  # `rows` has only the first MOST_SHOWN
            cells.append(interval_text(row))
    footnotes = [answer.covers]
    if answer.postprocessed:
        footnotes.append(f"postprocessing: {', '.join(answer.postprocessed)}")
    if len(answer.rows) > MOST_SHOWN:
        footnotes.append(f"{len(answer.rows) - MOST_SHOWN:,} further answers are in csv and json")
    numeric = frozenset({len(answer.by), len(answer.by) + 1})  # the value and its interval
    return Table(answer.query, tuple(columns), tuple(map(tuple, rows)), numeric, footnotes=tuple(footnotes))


def answer_lines(answer: QueryAnswer) -> Iterator[str]:
    """Yield the first MOST_SHOWN answers to a query as lines of text."""
    for row in answer.rows[:MOST_SHOWN]:
        key, interval = key_text(answer, row), interval_text(row)
        label = f"{answer.query}, {key}" if key else answer.query
        line = f"{label}: {value_text(row.value)}"
        yield f"{line} ({interval}, {_share(answer.confidence)})" if interval else line


def statement(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> str:
    """Return the statement of a release as Markdown: the queries with their mechanisms, then the disclosure statement of the file."""
    from dpcli.disclosure.disclosed_facts import gather
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats.markdown import escape, render

    account = plan.account
    title = escape(plan.pipeline.name or plan.folder)
    cost = f"epsilon <= {up(account.upper)} at delta = {account.delta!r}"
    lines = "".join(f"* {_markdown_line(priced)}\n" for priced in plan.queries)
    rows_read = "" if plan.window is None else plan.window.words
    joins = (f"{note[:1].upper()}{note[1:]}" for note in _join_notes(plan))
    sentences = (f"{rows_read[:1].upper()}{rows_read[1:]}", _bound_words(plan), *joins)
    scope = "".join(f"{escape(sentence)}.\n\n" for sentence in sentences if sentence)
    queries_text = f"# Release: {title}\n\n{cost}, for all of these queries together:\n\n{lines}\n{scope}"
    disclosed_pipeline = replace(plan.pipeline, path=plan.path, disclosure=disclosed(plan, answers))
    facts = replace(gather(disclosed_pipeline), rows=rows_read)
    return queries_text + render(disclosure_report.document(disclosure(facts)))


def disclosed(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> Disclosure:
    """Return the [disclosure] table of the file, in which what dpcli knows about the release replaces missing keys."""
    from dpcli import __version__

    unit = f'one "{plan.source.unit}" in one block' if _by_block(plan) else "one unit"
    aggregations = (priced.query.aggregation(priced.setting) for priced in plan.queries)
    clips = [aggregation.clip for aggregation in aggregations if aggregation.values]
    means = "; of more rows, a sum, mean or variance counts max_rows times their mean, rounded at random" if None in clips else ""
    totals = "; a sum with max_total adds up all its rows, and clips the total in each key" if any(clips) else ""
    known: dict[str, Any] = {
        "implementation": f"dpcli {__version__} with OpenDP's integer samplers",
        "privacy_model": "central",
        "query_model": "one-release",
        "randomness": "noise is drawn from the operating system; no seed exists and nothing is saved",
        "floating_point": "values are clamped and added as whole numbers; noise is drawn on whole numbers",
        "clipping": (
            f"at most max_groups keys and max_rows rows of {unit} count, chosen by a hash with a fresh key, in the engine{means}{totals}"
        ),
        "utility": "; ".join(f"{priced.query.name}: {priced.expected_error}" for priced in plan.queries),
        "product": f"answers to {len(answers):,} queries: {', '.join(answer.query for answer in answers)}",
    }
    disclosed = plan.pipeline.disclosure
    return replace(disclosed, **{name: value for name, value in known.items() if getattr(disclosed, name) is None})


def explanation_document(plan: ReleasePlan) -> Document:
    """Return the document of `dpcli explain query`: the derivation of the sensitivity and the noise of each query."""
    data = {"schema": "dpcli/release-why/v1", "queries": list(map(_planned_data, plan.queries)), "exit_code": 0}
    lines = []
    for priced in plan.queries:
        for mechanism in priced.mechanisms:
            lines += [f"{priced.name_of(mechanism)}: {line}" for line in mechanism.why]
    note = _unit_note(plan)
    return Document(
        headline_of_run(plan.account),
        data,
        "pass",
        tables=tuple(map(_why_table, plan.queries)),
        notes=(note,),
        details=(*lines, note),
        total=repr(plan.account.upper),
    )


def _why_table(priced: PricedQuery) -> Table:
    """Return a table that derives the noise of a query under the file's adjacency, and under the other adjacency at the same cost."""
    stated = priced.setting.adjacency
    other = Adjacency.ADD_REMOVE if stated is Adjacency.REPLACE_ONE else Adjacency.REPLACE_ONE
    rows: list[tuple[str, str, str]] = []
    for mechanism in priced.mechanisms:
        rows += _why_rows(mechanism, stated.value)
    for mechanism in priced.query.mechanisms(replace(priced.setting, adjacency=other)):
        rows += _why_rows(mechanism, f"if {other.value}")
    return Table(f"{priced.query.name} ({priced.query.measure})", ("", "mechanism", "why"), tuple(rows))


def _why_rows(mechanism: QueryMechanism, adjacency: str) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each step of a derivation; the first one names the adjacency and the mechanism."""
    first, *others = mechanism.why
    yield adjacency, mechanism.suffix or mechanism.type, first
    for line in others:
        yield "", "", line


def _markdown_line(priced: PricedQuery) -> str:
    """Return a query with its mechanisms as a line of Markdown."""
    from dpcli.document.formats.markdown import escape

    query = priced.query
    column: str | None = getattr(query, "column", None)
    of = f" of {escape(column)}" if column else ""
    by = f" by {escape(', '.join(query.by))}" if query.by else ""
    where = f" where `{query.where}`" if query.where else ""
    mechanisms = " and ".join(map(_mechanism_words, priced.mechanisms))
    return f"**{escape(query.name)}**: {query.measure}{of}{by}{where}; {mechanisms}"


def _planned_rows(priced: PricedQuery) -> Iterator[tuple[str, ...]]:
    """Yield a row for each mechanism of a query; the first one names the query and its expected error."""
    first, *others = priced.mechanisms
    yield priced.query.name, priced.query.measure, _mechanism_words(first), priced.expected_error
    for mechanism in others:
        yield "", "", _mechanism_words(mechanism), ""


def _mechanism_words(mechanism: QueryMechanism) -> str:
    """Return a mechanism with its keys and its steps, such as "sum: discrete-laplace (scale 4, sensitivity 2)"."""
    keys = []
    for name, value in mechanism.keys.items():
        text = rounded_key(name, value) if isinstance(value, float) else str(value)
        keys.append(f"{name} {text}")
    if mechanism.steps > 1:
        keys.append(f"steps {mechanism.steps:,}")
    words = f"{mechanism.type} ({', '.join(keys)})"
    return f"{mechanism.suffix}: {words}" if mechanism.suffix else words


def _planned_data(priced: PricedQuery) -> dict[str, Any]:
    return {
        "name": priced.query.name,
        "measure": priced.query.measure,
        "mechanisms": [
            {
                "name": priced.name_of(mechanism),
                "type": mechanism.type,
                "steps": mechanism.steps,
                **mechanism.keys,
                "why": list(mechanism.why),
            }
            for mechanism in priced.mechanisms
        ],
        "expected_error": priced.expected_error,
    }


def _unit_note(plan: ReleasePlan) -> str:
    """Return a note about the rows that are protected together."""
    unit = plan.source.unit
    if unit is None:
        return "each row is a unit: a person with several rows is protected only row by row"
    if plan.pipeline.privacy.window is not None and plan.window is None:
        return (
            f'all rows of one "{unit}" are protected together, or only its rows in one block if the ledger has max_blocks = 1 (--ledger '
            f'shows which); rows without a "{unit}" are left out'
        )
    within = " in one block" if _by_block(plan) else ""
    return f'rows of one "{unit}"{within} are protected together; rows without a "{unit}" are left out'


def _by_block(plan: ReleasePlan) -> bool:
    """Return whether the rows of a unit are bounded in each block separately."""
    return plan.source.unit is not None and plan.window is not None and plan.window.block_part is not None


def _bound_words(plan: ReleasePlan) -> str:
    """Return a note that the guarantee covers a unit's rows in one block; "" if it covers all rows of a unit."""
    if not _by_block(plan):
        return ""
    unit = f'one "{plan.source.unit}"'
    return (
        f"The contribution of {unit} is bounded in each block separately, so the guarantee is about the rows of {unit} in one block. All "
        f"rows of {unit} in several blocks get the weaker protection of a group"
    )


def _window_note(plan: ReleasePlan) -> tuple[str, ...]:
    return () if plan.window is None else (plan.window.words,)


def _join_notes(plan: ReleasePlan) -> Iterator[str]:
    """Yield a note for each public table that is joined with the rows."""
    digests = plan.joined
    for join in plan.source.join:
        table = f'"{join.table}"' if join.path is None else f"{join.path} (SHA-256 {digests[join.path]})"
        yield f"the public table {table} adds {', '.join(join.columns)} by {join.on}: the file declares that its rows are about nobody"


def _joined_data(plan: ReleasePlan) -> dict[str, Any]:
    joined = [{"path": path, "sha256": digest} for path, digest in plan.joined.items()]
    return {"joined": joined} if joined else {}


def _weights_note(plan: ReleasePlan) -> tuple[str, ...]:
    """Return a note for a plan over budget: why queries with weights may cost more than the budget. Empty if no query has a weight."""
    if all(priced.query.weight is None for priced in plan.queries):
        return ()
    return (
        "Weights share the budget in rho. A query with a delta has no rho. In a file with such a query, Gaussian noise on several keys or "
        "rows of a unit is added up by basic composition, which costs more; dpcli account FILE shows where. To avoid that, set "
        'noise = "laplace" on the Gaussian queries, or move them to another file.',
    )


def key_text(answer: QueryAnswer, row: AnswerRow) -> str:
    """Return the key of a row as text, such as "state=NY, city=Albany"; "" if it has no parts."""
    return ", ".join(f"{name}={_word(value)}" for name, value in zip(answer.by, row.key, strict=True))


def value_text(value: Value) -> str:
    """Return a value as text for a table. A double is rounded to six digits, and keeps all digits before the decimal point."""
    if value is None:
        return "none"
    if isinstance(value, bool | str):
        return _word(value)
    return f"{value:,}" if isinstance(value, int) else figures(value)


def interval_text(row: AnswerRow) -> str:
    """Return the interval of a row as text; "" if it has none."""
    if row.lower is None or row.upper is None:
        return ""
    return f"{figures(row.lower, 6, ROUND_FLOOR)} to {figures(row.upper, 6, ROUND_CEILING)}"


def _word(value: Value) -> str:
    """Return a key or a value as text; a boolean in lower case, as in SQL."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _share(confidence: float) -> str:
    """Return a confidence in percent."""
    return f"{100.0 * confidence:.10g} %"
