"""Statements that sessions leave for users of their answers, and what all documents of PATE state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.base.rounding import up
from dpcli.document.document import jsonable
from dpcli.file.pipeline.datasets import window_data
from dpcli.predict.prediction_session import RESTORED
from dpcli.sessions.documents.dry_run import rows_words

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript
    from dpcli.predict.pate.vote_account import Sanitised
    from dpcli.sessions.priced import PricedSession

SCHEMA = "dpcli/pate/v1"
BOTH = "for these votes against any neighbouring ones and the reverse"
EX_POST = "It was not fixed before the votes were seen; what was fixed, and what composes with other runs, is the first epsilon."


def guarantee(account: Account) -> str:
    """Return the guarantee of a session, in words."""
    return f"epsilon <= {up(account.upper)} at delta = {account.delta!r}"


def statement(priced: PricedSession, done: str, answers: Mapping[str, str]) -> str:
    """Return the statement of a session as Markdown: what was done, then the disclosure of its file.

    Args:
        answers: Answers of [disclosure], given where the file has none.
    """
    return f"{done}\n\n{disclosure_of(priced, answers)}"


def disclosure_of(priced: PricedSession, answers: Mapping[str, str]) -> str:
    """Return the disclosure statement of a file as Markdown, with these answers where the file has none."""
    from dpcli.disclosure.disclosed_facts import gather
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    stated = priced.pipeline.disclosure
    known = {"implementation": f"dpcli {__version__}", "privacy_model": "central", **answers}
    given = replace(stated, **{name: text for name, text in known.items() if getattr(stated, name) is None})  # type: ignore[arg-type]
    facts = gather(replace(priced.pipeline, path=priced.path, disclosure=given), None, ())
    return format_markdown.render(disclosure_report.document(disclosure(replace(facts, rows=rows_words(priced)))))


def setting(plan: VotingPlan) -> dict[str, Any]:
    """Return the part that every document of a session has, for the machine form."""
    account = plan.account
    return {
        "schema": SCHEMA,
        "pipeline": {"name": plan.pipeline.name, "path": plan.path, "sha256": plan.pipeline.sha256},
        "mechanism": {"name": plan.entry.name, "type": plan.entry.type},
        **window_data(plan.pipeline.privacy),
        "teachers": plan.pate.teachers,
        "classes": plan.pate.labels,
        "queries": plan.queries,
        "answers": plan.answers,
        "result": {
            "epsilon_upper": account.upper,
            "delta": account.delta,
            "accountant": account.winner.accountant.name if account.winner else None,
        },
    }


def counts(transcript: Transcript) -> dict[str, Any]:
    """Return what came of the queries, for the machine form."""
    return {
        "asked": len(transcript),
        "answered": len(transcript.labels),
        "charged_answers": len(transcript.answered),
        "lost": len(transcript.lost),
    }


def sanitised_data(plan: VotingPlan, noised: Sanitised | None) -> dict[str, Any] | None:
    """Return what was released of the epsilon that depends on the votes, for the machine form."""
    if noised is None or not plan.account.delta:
        return None
    return {
        "epsilon_upper": noised.epsilon(plan.account.delta),
        "delta": plan.account.delta,
        "order": noised.order,
        "rdp": noised.rdp,
        "release_rdp": noised.release_rdp,
        "failure": noised.failure,
    }


def pate_statement(plan: VotingPlan, transcript: Transcript, noised: Sanitised | None) -> tuple[str, dict[str, Any]]:
    """Return Markdown, and the machine form. No number in either depends on the votes but through the labels that are released."""
    private = transcript.private
    answers = {
        "randomness": "the noise is drawn from the operating system (OpenSSL); no seed exists and nothing is saved"
        if private
        else "NOT PRIVATE: a seed that somebody knows",
        "floating_point": "labels alone are released, never a noisy count: rounding changes one with probability below 1e-12 for each",
        "clipping": "none: all records of a unit are in one teacher's shard, so that a unit moves one vote",
    }
    heading = "" if private else "**NOT PRIVATE: the noise was drawn from a seed that somebody knows.**\n\n"
    text = statement(plan, f"{heading}{_done(plan, transcript)}{_noised(plan, noised)}", answers)
    machine = {
        **setting(plan),
        "private": private,
        "run": transcript.run,
        **counts(transcript),
        "sanitised": sanitised_data(plan, noised),
    }
    return text, jsonable(machine)


def _done(plan: VotingPlan, transcript: Transcript) -> str:
    lines = [
        f"{len(transcript):,} queries were put to {plan.pate.teachers:,} teachers on disjoint shards ({plan.entry.type}), and "
        f"{len(transcript.labels):,} answered: {guarantee(plan.account)}, which pays for up to "
        f"{plan.queries:,} queries and {plan.answers:,} answers and holds whatever the votes were."
    ]
    if transcript.lost:
        lines.append(
            f"{len(transcript.lost):,} queries were charged and lost, in a crash or as an older transcript was put back; none was put "
            "again."
        )
    if transcript.sanitised is not None and "rdp" not in transcript.sanitised:
        lines.append("What was released of their cost given the votes is lost, and is not released again.")
    if not transcript.session.charged:
        lines.append(RESTORED)
    if transcript.reinforced:
        lines.append(f"{len(transcript.reinforced):,} labels are the student's own predictions, which read no private data.")
    return " ".join(lines)


def _noised(plan: VotingPlan, noised: Sanitised | None) -> str:
    delta = plan.account.delta
    if noised is None or not delta:
        return ""
    return (
        " An ex-post bound, given the votes and told with noise in proportion to their smooth sensitivity: labels and this number together "
        f"cost epsilon <= {up(noised.epsilon(delta))} at delta = {delta!r}, {BOTH}, except with probability {noised.failure:g} over that "
        f"noise. {EX_POST}"
    )
