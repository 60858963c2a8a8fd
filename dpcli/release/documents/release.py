"""Documents of a release: its plan with costs and expected errors, its answers, its statement, and reasons for its noise.

A *document* is the result of a command as tables, sentences and JSON, which every output format can show. `dpcli release` shows
`plan_document` (--dry-run) and `outcome_document`, release_run.py stores `statement`, and `dpcli explain query` shows
`explanation_document`. A *priced* query is a query with its *mechanisms*, the noise or choices that answer it. A *unit* is whom the release
protects, with all of its rows; a *window* is the part of the rows that a ledger's blocks allow it to read.

The plan, the explanation and the expected errors are made before any data are read. The answers are noisy already when they arrive here, so
everything in this file is public, and nothing here may open the source. Epsilon is an upper bound. Keys of JSON are promised to programs;
tables and sentences may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli.analysis.documents.account import headline_of_run
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table
from dpcli.document.short_numbers import rounded_key
from dpcli.file.pipeline.datasets import window_data
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.documents.answers import answer_lines, answer_table, sheet_of
from dpcli.release.query_answer import as_json
from dpcli.release.release_plan import EXPRESSIONS_UNREAD, can_read_expressions
from dpcli.sessions.documents.dry_run import shown

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Disclosure
    from dpcli.release.query import QueryMechanism
    from dpcli.release.query_answer import QueryAnswer
    from dpcli.release.query_entries import PricedQuery
    from dpcli.release.release_plan import ReleaseOutcome, ReleasePlan


def plan_document(plan: ReleasePlan) -> Document:
    """Return the document of a plan: its mechanisms, cost and expected errors. No data are read.

    The exit code is 1 if the budget in the file refuses the release.
    """
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
        total=repr(account.upper),  # what the format "total" prints
    )


def _plan_notes(plan: ReleasePlan) -> tuple[str, ...]:
    """Return the sentences at the end of a plan's document: what it protects, reads and stores, and what was not checked."""
    notes = ["no data were read"]
    if not can_read_expressions():
        notes.append(EXPRESSIONS_UNREAD)
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
    clauses = (rows_read, _block_sentence(plan), *_join_notes(plan))
    scope = "".join(f"{escape(f'{clause[:1].upper()}{clause[1:]}')}.\n\n" for clause in clauses if clause)
    queries_text = f"# Release: {title}\n\n{cost}, for all of these queries together:\n\n{lines}\n{scope}"
    completed_pipeline = replace(plan.pipeline, path=plan.path, disclosure=completed_disclosure(plan, answers))
    facts = replace(gather(completed_pipeline), rows=rows_read)
    return queries_text + render(disclosure_report.document(disclosure(facts)))


def completed_disclosure(plan: ReleasePlan, answers: tuple[QueryAnswer, ...]) -> Disclosure:
    """Return the [disclosure] table of the file. Keys that the file does not state have what dpcli knows about the release."""
    from dpcli import __version__

    unit = f'one "{plan.source.unit}" in one block' if _by_block(plan) else "one unit"
    aggregations = (priced.query.aggregation(priced.setting) for priced in plan.queries)
    # The range to which the sum of a unit is clipped, for each query that sums values; None if its rows are bounded instead.
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
    stated = plan.pipeline.disclosure
    return replace(stated, **{name: value for name, value in known.items() if getattr(stated, name) is None})


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
    """Return a table that derives the noise of a query under the file's adjacency, and under another one at the same cost.

    The other is add-remove for replace-one, and replace-one for add-remove and zero-out, which have equal sensitivities.
    """
    stated = priced.setting.adjacency
    alternative = Adjacency.ADD_REMOVE if stated is Adjacency.REPLACE_ONE else Adjacency.REPLACE_ONE
    rows: list[tuple[str, str, str]] = []
    for mechanism in priced.mechanisms:
        rows += _why_rows(mechanism, stated.value)
    for mechanism in priced.query.mechanisms(replace(priced.setting, adjacency=alternative)):
        rows += _why_rows(mechanism, f"if {alternative.value}")
    return Table(f"{priced.query.name} ({priced.query.measure})", ("", "mechanism", "why"), tuple(rows))


def _why_rows(mechanism: QueryMechanism, adjacency: str) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each step of a derivation; the first one names the adjacency and the mechanism."""
    first, *others = mechanism.why
    yield adjacency, mechanism.suffix or mechanism.type, first
    for line in others:
        yield "", "", line


def _markdown_line(priced: PricedQuery) -> str:
    from dpcli.document.formats.markdown import escape

    query = priced.query
    column: str | None = getattr(query, "column", None)  # not every measure has a column
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
    """Return a mechanism with its keys and its number of runs, such as "sum: discrete-laplace (scale 4, sensitivity 2)"."""
    keys = []
    for name, value in mechanism.keys.items():
        text = rounded_key(name, value) if isinstance(value, float) else str(value)
        keys.append(f"{name} {text}")
    if mechanism.runs > 1:
        keys.append(f"steps {mechanism.runs:,}")
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
                "steps": mechanism.runs,
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
    """Return whether the rows of a unit are bounded in each block of the ledger separately, so that only its rows in one are protected.

    `block_part` is what the rows of a block share, such as their week; it is None if rows are bounded over the whole window.
    """
    return plan.source.unit is not None and plan.window is not None and plan.window.block_part is not None


def _block_sentence(plan: ReleasePlan) -> str:
    """Return sentences that the guarantee covers a unit's rows in one block; "" if it covers all rows of a unit."""
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
