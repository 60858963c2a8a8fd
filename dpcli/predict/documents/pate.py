"""The documents that the commands of `dpcli pate` print: costs and outcomes of voting sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dpcli.analysis.documents import account as account_report
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table
from dpcli.predict.documents.statements import BOTH, counts, sanitised_data, setting
from dpcli.predict.pate.pate_session import LABELS
from dpcli.predict.pate.student import STUDENT
from dpcli.predict.pate.transcript import TRANSCRIPT
from dpcli.predict.prediction_session import STATEMENT
from dpcli.sessions.documents.dry_run import shown, window_note

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
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


def account_document(votes: VoteAccount) -> Document:
    """Return the document of `dpcli pate account`."""
    plan = votes.plan
    filed = account_report.document(plan.as_filed, plan.diagnostics)
    private = _private_epsilons(votes)
    as_planned = None
    if votes.as_planned is not None and votes.realised is not None:
        as_planned = _as_planned_data(votes.as_planned, votes.realised)
    data = {
        **setting(plan),
        **{key: filed.data[key] for key in ("statement", "budget", "diagnostics", "result")},
        "queries": max(plan.queries, plan.stated),
        "answers": plan.stated,
        "session": {"queries": plan.queries, "answers": plan.answers, "epsilon_upper": plan.account.upper},
        "votes": None if votes.votes is None else {"queries": len(votes.votes)},
        "sanitised": sanitised_data(plan, votes.sanitised),
        "held": as_planned,
        "unsanitised_do_not_publish": {name: _numbers(epsilon) for name, epsilon in private.items()} or None,
        "exit_code": filed.exit_code,
    }
    limits = (*window_note(plan), *_budget_limit(plan))
    notes = (
        *filed.notes,
        *limits,
        *_charges_so_far(votes),
        *_above_guarantee(private, plan),
        *_sanitised(votes),
        WHY_PRIVATE if private else "no votes yet: the cost given the votes is not known",
    )
    tables = (_given_votes(private, plan), *filed.tables) if private else filed.tables
    return replace(filed, data=data, tables=tables, notes=notes, details=limits, records=(), sheet=None)


def _private_epsilons(votes: VoteAccount) -> dict[str, VoteEpsilon]:
    """Return the epsilons given the votes that are known, by name."""
    epsilons = {"expected": votes.expected, "realised": votes.realised}
    return {name: epsilon for name, epsilon in epsilons.items() if epsilon is not None}


def _as_planned_data(account: Account, realised: VoteEpsilon) -> dict[str, Any]:
    sound_rows = [row for row in account.rows if row.accountant.sound]
    return {
        "asked": realised.queries,
        "answered": int(realised.answered),
        "epsilon_had_it_been_planned_so": account.upper,
        "by_accountant": {row.accountant.name: row.bound.upper for row in sound_rows if row.bound is not None},
    }


def _charges_so_far(votes: VoteAccount) -> tuple[str, ...]:
    """Return a note on the charges so far, and on their cost had they been declared. A session that ends early is charged in full."""
    if votes.as_planned is None or votes.realised is None:
        return ()
    charged = f"{votes.realised.queries:,} queries and {int(votes.realised.answered):,} answers"
    return (
        f"charged so far: {charged}; had {charged} been declared beforehand, the session would cost epsilon <= "
        f"{up(votes.as_planned.upper)} whatever the votes are; its cost remains the declared one",
    )


def _above_guarantee(private: dict[str, VoteEpsilon], plan: VotingPlan) -> tuple[str, ...]:
    """Return a note if an epsilon given the votes is larger than the guarantee.

    It may be larger because fewer accountants compute an epsilon from votes.
    """
    if all(given_votes.epsilon <= plan.account.upper for given_votes in private.values()):
        return ()
    return (
        f"an epsilon given the votes exceeds the guarantee, which still holds: epsilon <= {up(plan.account.upper)} whatever the "
        "votes are",
    )


def _sanitised(votes: VoteAccount) -> tuple[str, ...]:
    delta = votes.plan.account.delta
    if votes.sanitised is None or not delta:
        return ()
    return (
        f"sanitised, may be published: epsilon <= {up(votes.sanitised.epsilon(delta))} for these labels and this number, an ex-post bound "
        f"{BOTH}, except with probability {votes.sanitised.failure:g} over its noise; it is drawn once and saved",
    )


def _numbers(votes: VoteEpsilon) -> dict[str, Any]:
    """Return the fields of the epsilon under their names in JSON."""
    return {
        "epsilon": votes.epsilon,
        "order": votes.order,
        "epsilon_classic": votes.classic,
        "queries": votes.queries,
        "answered": votes.answered,
    }


def _budget_limit(plan: VotingPlan) -> tuple[str, ...]:
    if plan.answers == plan.stated:
        return ()
    return (
        f"the budget allows {plan.answers:,} of the {plan.stated:,} answers of the file; a session stops at {plan.answers:,} answers: "
        f"epsilon <= {up(plan.account.upper)}",
    )


ROWS = {
    "expected": "expected over the noise (planning, no guarantee)",
    "realised": "of the session: every threshold, answered queries",
}


def _given_votes(private: dict[str, VoteEpsilon], plan: VotingPlan) -> Table:
    rows = []
    for name, votes in private.items():
        counts = (f"{votes.queries:,}", f"{votes.answered:,.1f}")
        rows.append((ROWS[name], *counts, up(votes.epsilon), up(votes.classic), f"{votes.order:.4g}"))
    title = f"epsilon given these votes at delta = {plan.account.delta!r} ({UNSANITISED})"
    columns = ("cost", "queries", "answered", "epsilon", "classic", "order")
    return Table(title, columns, tuple(rows), frozenset({1, 2, 3, 4, 5}), flagged=frozenset(range(len(rows))))


def label_document(outcome: SessionOutcome) -> Document:
    """Return the document of `dpcli pate label`."""
    plan, transcript = outcome.plan, outcome.transcript
    headline = (
        f"{_seeded_noise(transcript)}{len(transcript.labels):,} of {len(transcript):,} queries answered; epsilon <= "
        f"{up(plan.account.upper)} at delta = {plan.account.delta!r}, whatever the votes are"
    )
    details = tuple(_label_details(outcome))
    data = {
        **setting(plan),
        "private": transcript.private,
        "run": transcript.run,
        "folder": plan.folder,
        **counts(transcript),
        "there": outcome.queries,
        "exit_code": 0,
    }
    verdict: Literal["pass", "warn"] = "pass" if transcript.private else "warn"
    return Document(headline, data, verdict, notes=details, details=details, total=repr(plan.account.upper))


def _seeded_noise(transcript: Transcript) -> str:
    """Return a warning if the noise of a session can be reproduced; "" otherwise."""
    return "" if transcript.private else "NOT PRIVATE (seeded noise): "


def _label_details(outcome: SessionOutcome) -> list[str]:
    plan, transcript = outcome.plan, outcome.transcript
    details = [
        f"{LABELS}, {STATEMENT} and {TRANSCRIPT} are in {shown(plan.folder)}",
        *window_note(plan),
        *_budget_limit(plan),
        *_unused(outcome),
    ]
    if not transcript.session.charged and transcript.private:
        details.append("no ledger was charged: the costs of sessions on the same data add up (use --ledger)")
    if outcome.had_ended:
        details.append("this session had already ended: these are its labels, and nothing was drawn or charged now")
    if transcript.lost:
        details.append(
            f"{len(transcript.lost):,} queries were charged and lost in a crash: none is answered again, as this would be a second release"
        )
    if transcript.reinforced:
        details.append(
            f"{len(transcript.reinforced):,} further queries have a label that the student predicted, which costs nothing"
        )
    return details


def _unused(outcome: SessionOutcome) -> tuple[str, ...]:
    """Return a note if the file pays for more queries than there are."""
    if outcome.fitting is None:
        return ()
    key = outcome.plan.aggregator.queries_key
    return (
        f"the file pays for {outcome.plan.queries:,} queries, but there are only {outcome.queries:,}: {key} = {outcome.queries} would cost "
        f"epsilon <= {up(outcome.fitting.upper)}",
    )


def fit_document(plan: VotingPlan, teachers: Teachers) -> Document:
    """Return the document of `dpcli pate fit`."""
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
        **setting(plan),
        "folder": plan.folder,
        "pool": len(teachers.votes),
        "fitted_before": teachers.fitted_before,
        "private_do_not_publish": {"empty_shards": teachers.empty, "single_label_shards": teachers.single},
        "exit_code": 0,
    }
    return Document(headline, data, "", notes=tuple(details), details=tuple(details))


def student_document(outcome: StudentOutcome) -> Document:
    """Return the document of `dpcli pate student`."""
    plan = outcome.plan
    labels = f"{outcome.labelled:,} labels of teachers"
    if outcome.pseudo:
        labels += f" and {outcome.pseudo:,} that it predicted"
    headline = f"{_seeded_noise(outcome.transcript)}the student learnt from {labels}"
    metrics = {}
    if outcome.accuracy is not None:
        headline += f": accuracy {outcome.accuracy:.4f} on {outcome.tested:,} records declared public (not checked)"
        metrics["accuracy"] = outcome.accuracy
    costs = f"{STUDENT} is in {shown(plan.folder)}; it costs nothing beyond the labels: epsilon <= {up(plan.account.upper)}"
    details = (costs, *window_note(plan))
    data = {
        **setting(plan),
        "private": outcome.transcript.private,
        "labelled": outcome.labelled,
        "pseudo_labelled": outcome.pseudo,
        "metrics": metrics,
        "folder": plan.folder,
        "exit_code": 0,
    }
    return Document(headline, data, "", notes=details, details=details)
