"""The documents that the commands of `dpcli pate` print: costs and outcomes of voting sessions.

Teachers of disjoint shards of private data vote on public *queries*; a noisy vote gives an *answer*, or none (pate_session.py). Two kinds
of epsilon occur. The guarantee holds for any votes and is public. An epsilon *given the votes* is usually smaller, and private, since it
reveals how far the teachers agree: it is printed for the operator, marked UNSANITISED, and never reaches a statement, a ledger or `dpcli
gate`. `sanitise` releases it with noise, at a cost. Every epsilon is printed rounded up. A *window* is the data that a session reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dpcli.analysis.documents import account as account_report
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table
from dpcli.predict.documents.statements import BOTH_WAYS, query_data, sanitised_data, session_data
from dpcli.predict.pate.pate_session import LABELS
from dpcli.predict.pate.student import STUDENT
from dpcli.predict.pate.transcript import TRANSCRIPT
from dpcli.predict.prediction_session import STATEMENT
from dpcli.sessions.documents.dry_run import shown, window_note

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.pate.pate_session import SessionOutcome
    from dpcli.predict.pate.student import StudentOutcome
    from dpcli.predict.pate.teachers import Teachers
    from dpcli.predict.pate.transcript import Transcript
    from dpcli.predict.pate.vote_account import VoteAccount, VoteEpsilon

UNSANITISED = "unsanitised, do not publish"
WHY_PRIVATE = (
    "an epsilon given the votes reveals how far the teachers agree, which is private: no statement, ledger or gate contains it"
)
NO_VOTES = "no votes yet: the cost given the votes is not known"
COSTS_GIVEN_VOTES = {  # names of the epsilons given the votes -> their descriptions in the table
    "expected": "expected over the noise (planning, no guarantee)",
    "realised": "of the session: every threshold, answered queries",
}


def account_document(cost: VoteAccount) -> Document:
    """Return the document of `dpcli pate account`: the cost of the file and, marked as private, the costs given the votes."""
    plan = cost.plan
    # The document of `dpcli account` for the file as written. `plan` may have fewer answers, if the budget does not allow all of them.
    filed = account_report.document(plan.as_filed, plan.diagnostics)
    given_votes = _epsilons_given_votes(cost)
    data = {
        **session_data(plan),
        **{key: filed.data[key] for key in ("statement", "budget", "diagnostics", "result")},
        # The queries that the file states. Where every query is answered, plan.queries is limited to the answers that the budget allows.
        "queries": max(plan.queries, plan.stated_answers),
        "answers": plan.stated_answers,
        "session": {"queries": plan.queries, "answers": plan.answers, "epsilon_upper": plan.account.upper},
        "votes": None if cost.votes is None else {"queries": len(cost.votes)},
        "sanitised": sanitised_data(plan, cost.sanitised),
        "held": _as_planned_data(cost),  # the queries and answers so far, priced as if exactly these had been declared
        "unsanitised_do_not_publish": {name: _epsilon_data(epsilon) for name, epsilon in given_votes.items()} or None,
        "exit_code": filed.exit_code,
    }
    limits = (*window_note(plan), *_budget_limit(plan))
    notes = (*filed.notes, *limits, *_cost_notes(cost, given_votes), WHY_PRIVATE if given_votes else NO_VOTES)
    tables = (_given_votes_table(given_votes, plan), *filed.tables) if given_votes else filed.tables
    # The records and the sheet of `dpcli account` are left out, because jsonl and csv then show `data` instead.
    return replace(filed, data=data, tables=tables, notes=notes, details=limits, records=(), sheet=None)


def _epsilons_given_votes(cost: VoteAccount) -> dict[str, VoteEpsilon]:
    """Return the epsilons given the votes that are known, by name: expected over the noise, and realised by the session so far."""
    epsilons = {"expected": cost.expected, "realised": cost.realised}
    return {name: epsilon for name, epsilon in epsilons.items() if epsilon is not None}


def _epsilon_data(given_votes: VoteEpsilon) -> dict[str, Any]:
    """Return an epsilon given the votes, for JSON. The classic conversion is the weaker of the two from Renyi divergences."""
    return {
        "epsilon": given_votes.epsilon,
        "order": given_votes.order,
        "epsilon_classic": given_votes.classic,
        "queries": given_votes.queries,
        "answered": given_votes.answered,
    }


def _as_planned_data(cost: VoteAccount) -> dict[str, Any] | None:
    """Return the cost that the session would have if its queries and answers had been declared, for JSON."""
    if cost.as_planned is None or cost.realised is None:
        return None
    # Rows of accountants that do not prove an upper bound are left out.
    sound_rows = [row for row in cost.as_planned.rows if row.accountant.sound]
    return {
        "asked": cost.realised.queries,
        "answered": int(cost.realised.answered),
        "epsilon_had_it_been_planned_so": cost.as_planned.upper,
        "by_accountant": {row.accountant.name: row.bound.upper for row in sound_rows if row.bound is not None},
    }


def _cost_notes(cost: VoteAccount, given_votes: dict[str, VoteEpsilon]) -> Iterator[str]:
    """Yield notes on the charges so far, on an epsilon given the votes above the guarantee, and on the sanitised epsilon."""
    account = cost.plan.account
    if cost.as_planned is not None and cost.realised is not None:  # A session that ends early is charged in full.
        charged = f"{cost.realised.queries:,} queries and {int(cost.realised.answered):,} answers"
        yield (
            f"charged so far: {charged}; had {charged} been declared beforehand, the session would cost epsilon <= "
            f"{up(cost.as_planned.upper)} whatever the votes are; its cost remains the declared one"
        )
    # This may happen because fewer accountants compute an epsilon from votes.
    if any(not epsilon.epsilon <= account.upper for epsilon in given_votes.values()):
        yield (
            f"an epsilon given the votes exceeds the guarantee, which still holds: epsilon <= {up(account.upper)} whatever the "
            "votes are"
        )
    if cost.sanitised is not None and account.delta:
        yield (
            f"sanitised, may be published: epsilon <= {up(cost.sanitised.epsilon(account.delta))} for these labels and this number, an "
            f"ex-post bound {BOTH_WAYS}, except with probability {cost.sanitised.failure:g} over its noise; it is drawn once and saved"
        )


def _given_votes_table(given_votes: dict[str, VoteEpsilon], plan: VotingPlan) -> Table:
    """Return the table of epsilons given the votes, by two conversions from Renyi divergences. All rows are highlighted, as private."""
    rows = []
    for name, epsilon in given_votes.items():
        counts = (f"{epsilon.queries:,}", f"{epsilon.answered:,.1f}")
        rows.append((COSTS_GIVEN_VOTES[name], *counts, up(epsilon.epsilon), up(epsilon.classic), f"{epsilon.order:.4g}"))
    title = f"epsilon given these votes at delta = {plan.account.delta!r} ({UNSANITISED})"
    columns = ("cost", "queries", "answered", "epsilon", "classic", "order")
    return Table(title, columns, tuple(rows), numeric=frozenset({1, 2, 3, 4, 5}), flagged=frozenset(range(len(rows))))


def _budget_limit(plan: VotingPlan) -> tuple[str, ...]:
    """Return a note if the budget allows fewer answers than the file states; () otherwise."""
    if plan.answers == plan.stated_answers:
        return ()
    return (
        f"the budget allows {plan.answers:,} of the {plan.stated_answers:,} answers of the file; a session stops at {plan.answers:,} "
        f"answers: epsilon <= {up(plan.account.upper)}",
    )


def label_document(outcome: SessionOutcome) -> Document:
    """Return the document of `dpcli pate label`: how many queries were answered, at which cost. It warns of seeded noise."""
    plan, transcript = outcome.plan, outcome.transcript
    headline = (
        f"{_seeded_noise(transcript)}{len(transcript.labels):,} of {len(transcript):,} queries answered; epsilon <= "
        f"{up(plan.account.upper)} at delta = {plan.account.delta!r}, whatever the votes are"
    )
    details = tuple(_label_details(outcome))
    data = {
        **session_data(plan),
        "private": transcript.private,
        "run": transcript.session.run,
        "folder": plan.folder,
        **query_data(transcript),
        "there": outcome.queries,  # number of queries that exist, up to the number that the file pays for
        "exit_code": 0,
    }
    verdict: Literal["pass", "warn"] = "pass" if transcript.private else "warn"
    # notes: sentences below the tables; details: lines of the plain text format; total: the single number for scripts
    return Document(headline, data, verdict, notes=details, details=details, total=repr(plan.account.upper))


def _seeded_noise(transcript: Transcript) -> str:
    """Return a warning if the noise of a session can be reproduced; "" otherwise."""
    return "" if transcript.private else "NOT PRIVATE (seeded noise): "


def _label_details(outcome: SessionOutcome) -> Iterator[str]:
    """Yield the lines below the headline: where the files are, how far the payment reached, what was lost, and free labels."""
    plan, transcript = outcome.plan, outcome.transcript
    yield f"{LABELS}, {STATEMENT} and {TRANSCRIPT} are in {shown(plan.folder)}"
    yield from window_note(plan)
    yield from _budget_limit(plan)
    if outcome.exact_account is not None:
        yield (
            f"the file pays for {plan.queries:,} queries, but there are only {outcome.queries:,}: {plan.aggregator.queries_key} = "
            f"{outcome.queries} would cost epsilon <= {up(outcome.exact_account.upper)}"
        )
    if not transcript.session.charged and transcript.private:
        yield "no ledger was charged: the costs of sessions on the same data add up (use --ledger)"
    if outcome.had_ended:
        yield "this session had already ended: these are its labels, and nothing was drawn or charged now"
    if transcript.lost:
        yield (
            f"{len(transcript.lost):,} queries were charged and lost in a crash: none is answered again, as this would be a second release"
        )
    if transcript.student_labels:
        yield f"{len(transcript.student_labels):,} further queries have a label that the student predicted, which costs nothing"


def fit_document(plan: VotingPlan, teachers: Teachers) -> Document:
    """Return the document of `dpcli pate fit`: where the votes are. They are private, and nothing is charged yet."""
    headline = f"{plan.pate.teachers:,} teachers voted on {len(teachers.votes):,} queries; nothing has been released or charged yet"
    details = [
        f"their votes are in {shown(plan.folder)} and are private: do not publish them; dpcli pate label turns them into labels"
    ]
    if teachers.fitted_before:
        details.append(f"{teachers.fitted_before:,} of them had been fitted before")
    if teachers.empty or teachers.single:
        details.append(
            f"{teachers.empty:,} shards have no record and {teachers.single:,} have a single label: their teachers always vote the same "
            "(private)"
        )
    data = {
        **session_data(plan),
        "folder": plan.folder,
        "pool": len(teachers.votes),
        "fitted_before": teachers.fitted_before,
        "private_do_not_publish": {"empty_shards": teachers.empty, "single_label_shards": teachers.single},
        "exit_code": 0,
    }
    return Document(headline, data, verdict="", notes=tuple(details), details=tuple(details))


def student_document(outcome: StudentOutcome) -> Document:
    """Return the document of `dpcli pate student`: its accuracy on public data, at no cost beyond that of the labels."""
    plan = outcome.plan
    labels = f"{outcome.labelled:,} labels of teachers"
    if outcome.pseudo:
        labels += f" and {outcome.pseudo:,} that it predicted"
    headline = f"{_seeded_noise(outcome.transcript)}the student learnt from {labels}"
    metrics = {}
    if outcome.accuracy is not None:
        headline += f": accuracy {outcome.accuracy:.4f} on {outcome.tested:,} records declared public (not checked)"
        metrics["accuracy"] = outcome.accuracy
    place = (
        f"{STUDENT} is in {shown(plan.folder)}" if outcome.is_written else "the student cannot be pickled, so it was not written"
    )
    costs = f"{place}; it costs nothing beyond the labels: epsilon <= {up(plan.account.upper)}"
    details = (costs, *window_note(plan))
    data = {
        **session_data(plan),
        "private": outcome.transcript.private,
        "labelled": outcome.labelled,
        "pseudo_labelled": outcome.pseudo,
        "metrics": metrics,
        "folder": plan.folder,
        "exit_code": 0,
    }
    return Document(headline, data, verdict="", notes=details, details=details)
