"""Sessions of votes as documents: what they cost, and what came of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from dpcli.analysis.documents import account as account_report
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table
from dpcli.predict.documents.pate_setting import counts, sanitised_data, setting
from dpcli.predict.documents.pate_statement import BOTH
from dpcli.predict.pate.session import LABELS, STATEMENT
from dpcli.predict.pate.student import STUDENT
from dpcli.predict.pate.transcript import TRANSCRIPT
from dpcli.sessions.documents.dry_run import shown, window_note

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.predict.pate.account import VoteAccount, VoteEpsilon
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.session import SessionOutcome
    from dpcli.predict.pate.student import StudentOutcome
    from dpcli.predict.pate.teachers import Teachers

UNSANITISED = "unsanitised, do not publish"
WHY = "an epsilon that depends on the votes tells how far the teachers agree, which is private: it stands in no statement, ledger or gate"


def accounted(found: VoteAccount) -> Document:
    """Everything that `dpcli pate account` says."""
    plan = found.plan
    whole = account_report.document(plan.as_filed, plan.diagnostics)
    private = {name: one for name, one in (("expected", found.expected), ("realised", found.realised)) if one is not None}
    data = {
        **setting(plan),
        **{key: whole.data[key] for key in ("statement", "budget", "diagnostics", "result")},
        "queries": max(plan.queries, plan.stated),
        "answers": plan.stated,
        "session": {"queries": plan.queries, "answers": plan.answers, "epsilon_upper": plan.account.upper},
        "votes": None if found.votes is None else {"queries": len(found.votes)},
        "sanitised": sanitised_data(plan, found.sanitised),
        "held": None if found.as_planned is None or found.realised is None else _held(found.as_planned, found.realised),
        "unsanitised_do_not_publish": {name: _numbers(one) for name, one in private.items()} or None,
        "exit_code": whole.exit_code,
    }
    return replace(
        whole,
        data=data,
        tables=((_given_votes(private, plan),) if private else ()) + whole.tables,
        notes=(
            *whole.notes,
            *window_note(plan),
            *_limits(plan),
            *_so_far(found),
            *_above(private, plan),
            *_noised(found),
            *((WHY,) if private else ("no votes yet: what they would cost is not known",)),
        ),
        details=(*window_note(plan), *_limits(plan)),
        records=(),
        sheet=None,
    )


def _held(account: Account, realised: VoteEpsilon) -> dict[str, Any]:
    numbers = {"asked": realised.asked, "answered": int(realised.answered)}
    rows = {row.accountant.name: row.bound.upper for row in account.rows if row.bound is not None and row.accountant.sound}
    return {**numbers, "epsilon_had_it_been_planned_so": account.upper, "by_accountant": rows}


def _so_far(found: VoteAccount) -> tuple[str, ...]:
    """What was charged of what was planned: whoever stops where he does because of what he saw is charged for the plan."""
    if found.as_planned is None or found.realised is None:
        return ()
    return (
        f"charged so far: {found.realised.asked:,} queries and {int(found.realised.answered):,} answers; had {found.realised.asked:,} "
        f"queries and {int(found.realised.answered):,} answers been declared beforehand, the session would cost epsilon <= "
        f"{up(found.as_planned.upper)} whatever the votes are; it costs what was declared",
    )


def _above(private: dict[str, VoteEpsilon], plan: VotingPlan) -> tuple[str, ...]:
    """What depends on the votes is computed by fewer accountants, and may be the larger."""
    if all(one.epsilon <= plan.account.upper for one in private.values()):
        return ()
    return (
        f"an epsilon given the votes above the guarantee takes nothing from it: epsilon <= {up(plan.account.upper)} holds whatever the "
        "votes are",
    )


def _noised(found: VoteAccount) -> tuple[str, ...]:
    delta = found.plan.account.delta
    if found.sanitised is None or not delta:
        return ()
    return (
        f"sanitised, may be published: epsilon <= {up(found.sanitised.epsilon(delta))} for these labels and this number, an ex-post bound "
        f"{BOTH}, except with probability {found.sanitised.failure:g} over its noise; released once, and kept",
    )


def _numbers(found: VoteEpsilon) -> dict[str, Any]:
    names = {"epsilon": "epsilon", "order": "order", "classic": "epsilon_classic", "asked": "queries", "answered": "answered"}
    return {names[name]: value for name, value in asdict(found).items()}


def _limits(plan: VotingPlan) -> tuple[str, ...]:
    if plan.answers == plan.stated:
        return ()
    return (
        f"the budget allows {plan.answers:,} of the {plan.stated:,} answers of the file; a session stops at {plan.answers:,} answers: "
        f"epsilon <= {up(plan.account.upper)}",
    )


ROWS = {
    "expected": "expected over the noise (planning, no guarantee)",
    "realised": "of the session held: every threshold, answered queries",
}


def _given_votes(private: dict[str, VoteEpsilon], plan: VotingPlan) -> Table:
    rows = tuple(
        (ROWS[name], f"{one.asked:,}", f"{one.answered:,.1f}", up(one.epsilon), up(one.classic), f"{one.order:.4g}")
        for name, one in private.items()
    )
    return Table(
        f"epsilon given these votes at delta = {plan.account.delta!r} ({UNSANITISED})",
        ("cost", "queries", "answered", "epsilon", "classic", "order"),
        rows,
        frozenset({1, 2, 3, 4, 5}),
        flagged=frozenset(range(len(rows))),
    )


def labelled(found: SessionOutcome) -> Document:
    """What a session came to."""
    plan, held = found.plan, found.transcript
    private = "" if held.private else "NOT PRIVATE (seeded noise): "
    said = (
        f"{private}{len(held.labels):,} of {len(held):,} queries answered; epsilon <= {up(plan.account.upper)} at delta = "
        f"{plan.account.delta!r}, whatever the votes are"
    )
    folder = shown(plan.folder)
    details = [f"{LABELS}, {STATEMENT} and {TRANSCRIPT} are in {folder}", *window_note(plan), *_limits(plan), *_unasked(found)]
    if not held.session.charged and held.private:
        details.append("charged to no ledger: sessions on the same data add up (--ledger)")
    if found.earlier:
        details.append("this session had been held before: its labels are those of then, and nothing was drawn or charged")
    if held.lost:
        details.append(
            f"{len(held.lost):,} queries were charged and lost in a crash: they are not put again, as that would be a second release"
        )
    if held.reinforced:
        details.append(f"{len(held.reinforced):,} further queries have the student's own label, which is free")
    data = {
        **setting(plan),
        "private": held.private,
        "run": held.run,
        "folder": plan.folder,
        **counts(held),
        "there": found.queries,
        "exit_code": 0,
    }
    return Document(
        said, data, "pass" if held.private else "warn", notes=tuple(details), details=tuple(details), total=repr(plan.account.upper)
    )


def _unasked(found: SessionOutcome) -> tuple[str, ...]:
    """Queries that are paid for and were not there."""
    if found.fitting is None:
        return ()
    key = found.plan.aggregator.key
    return (
        f"the file pays for {found.plan.queries:,} queries, and {found.queries:,} were there: {key} = {found.queries} would cost "
        f"epsilon <= {up(found.fitting.upper)}",
    )


def fitted(plan: VotingPlan, found: Teachers) -> Document:
    """What `dpcli pate fit` came to."""
    said = f"{plan.pate.teachers:,} teachers voted on {len(found.votes):,} queries; nothing is released yet, and nothing charged"
    details = [f"their votes are in {shown(plan.folder)}: private, not to be published; dpcli pate label makes labels of them"]
    if found.earlier:
        details.append(f"{found.earlier:,} of them had been fitted before")
    if found.empty or found.single:
        details.append(
            f"{found.empty:,} shards have no record and {found.single:,} a single label: their teachers always say the same (private)"
        )
    data = {
        **setting(plan),
        "folder": plan.folder,
        "pool": len(found.votes),
        "fitted_before": found.earlier,
        "private_do_not_publish": {"empty_shards": found.empty, "single_label_shards": found.single},
        "exit_code": 0,
    }
    return Document(said, data, "", notes=tuple(details), details=tuple(details))


def taught(found: StudentOutcome) -> Document:
    """What `dpcli pate student` came to."""
    plan = found.plan
    learnt = f"{found.labelled:,} labels of teachers" + (f" and {found.pseudo:,} of its own" if found.pseudo else "")
    private = "" if found.transcript.private else "NOT PRIVATE (seeded noise): "
    measured = (
        ""
        if found.accuracy is None
        else f": accuracy {found.accuracy:.4f} on {found.tested:,} records declared public (not checked)"
    )
    costs = f"{STUDENT} is in {shown(plan.folder)}; it costs nothing beyond the labels: epsilon <= {up(plan.account.upper)}"
    details = (costs, *window_note(plan))
    data = {
        **setting(plan),
        "private": found.transcript.private,
        "labelled": found.labelled,
        "pseudo_labelled": found.pseudo,
        "metrics": {} if found.accuracy is None else {"accuracy": found.accuracy},
        "folder": plan.folder,
        "exit_code": 0,
    }
    return Document(f"{private}the student learnt from {learnt}{measured}", data, "", notes=details, details=details)
