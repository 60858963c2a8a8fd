"""The statements (statement.md) that sessions write for users of their answers, and the data that all documents of PATE share.

A *session* is everything that one charge pays for: labels of pate or prompt, or texts of generate. A statement travels with these answers,
and its readers have nothing else: it names the cost of the whole session, rounded up, and what the guarantee rests on. Its numbers depend
on private data only through the answers, which were paid for, and, with pate, an epsilon given the votes that was *sanitised*: released
with noise, at a cost (vote_release.py).
"""

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
    from dpcli.predict.pate.vote_release import Sanitised
    from dpcli.sessions.priced import PricedSession

SCHEMA = "dpcli/pate/v1"
# Words about an epsilon given the votes (`Sanitised`): what it compares, and why it does not replace the first epsilon.
BOTH_WAYS = "for these votes against any neighbouring votes, and the reverse"
EX_POST = "This bound was not fixed before the votes were read. The first epsilon was, and only it composes with other runs."


def guarantee(account: Account) -> str:
    """Return the guarantee of a session, in words: "epsilon <= 2.1000 at delta = 1e-06"."""
    return f"epsilon <= {up(account.upper)} at delta = {account.delta!r}"


def statement(priced: PricedSession, summary: str, known_facts: Mapping[str, str]) -> str:
    """Return the statement of a session as Markdown: its summary, then the disclosure of its file.

    `known_facts` are texts by key of [disclosure], for the keys that the file does not set.
    """
    return f"{summary}\n\n{disclosure_of(priced, known_facts)}"


def disclosure_of(priced: PricedSession, known_facts: Mapping[str, str]) -> str:
    """Return the disclosure statement of a file as Markdown, with `known_facts` for the keys of [disclosure] that the file does not set."""
    from dpcli.disclosure.disclosed_facts import gather
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    stated = priced.pipeline.disclosure
    facts_of_dpcli = {"implementation": f"dpcli {__version__}", "privacy_model": "central", **known_facts}
    missing = {name: text for name, text in facts_of_dpcli.items() if getattr(stated, name) is None}
    completed = replace(stated, **missing)  # type: ignore[arg-type]
    facts = gather(replace(priced.pipeline, path=priced.path, disclosure=completed))
    facts = replace(facts, rows=rows_words(priced))  # the rows of the window that the session read, if it has one
    return format_markdown.render(disclosure_report.document(disclosure(facts)))


def session_data(plan: VotingPlan) -> dict[str, Any]:
    """Return the data that every document of a voting session has, for JSON."""
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


def query_data(transcript: Transcript) -> dict[str, Any]:
    """Return the numbers of queries by outcome, for JSON."""
    return {
        "asked": len(transcript),
        "answered": len(transcript.labels),
        "charged_answers": len(transcript.answered),
        "lost": len(transcript.lost),
    }


def sanitised_data(plan: VotingPlan, sanitised: Sanitised | None) -> dict[str, Any] | None:
    """Return the sanitised epsilon given the votes, for JSON; None if none was released."""
    if sanitised is None or not plan.account.delta:
        return None
    return {
        "epsilon_upper": sanitised.epsilon(plan.account.delta),
        "delta": plan.account.delta,
        "order": sanitised.order,
        "rdp": sanitised.rdp,
        "release_rdp": sanitised.release_rdp,
        "failure": sanitised.failure,
    }


def pate_statement(plan: VotingPlan, transcript: Transcript, sanitised: Sanitised | None) -> tuple[str, dict[str, Any]]:
    """Return the statement of a voting session as Markdown, and its data for JSON.

    The numbers in them depend on the votes only through the released labels and the released sanitised epsilon.
    """
    if transcript.private:
        heading = ""
        randomness = "the noise is drawn from the operating system (OpenSSL); there is no seed, and no random number is saved"
    else:
        heading = "**NOT PRIVATE: the noise was drawn from a known seed.**\n\n"
        randomness = "NOT PRIVATE: the noise comes from a known seed"
    known_facts = {
        "randomness": randomness,
        "floating_point": "only labels are released, never a noisy count: rounding changes a label with probability below 1e-12",
        "clipping": "none: all records of a unit are in one teacher's shard, so a unit changes one vote",
    }
    text = statement(plan, f"{heading}{_summary(plan, transcript)}{_sanitised_sentence(plan, sanitised)}", known_facts)
    data = {
        **session_data(plan),
        "private": transcript.private,
        "run": transcript.session.run,
        **query_data(transcript),
        "sanitised": sanitised_data(plan, sanitised),
    }
    return text, jsonable(data)


def _summary(plan: VotingPlan, transcript: Transcript) -> str:
    """Return the first sentences of the statement of a voting session: queries, answers, their cost, and what was lost."""
    lines = [
        f"{len(transcript):,} queries were put to {plan.pate.teachers:,} teachers on disjoint shards ({plan.entry.type}), and "
        f"{len(transcript.labels):,} were answered: {guarantee(plan.account)}. This pays for up to {plan.queries:,} queries and "
        f"{plan.answers:,} answers, and holds whatever the votes were."
    ]
    if transcript.lost:
        lines.append(
            f"{len(transcript.lost):,} queries were charged and then lost, in a crash or by restoring an older transcript. None was "
            "answered again."
        )
    if transcript.sanitised is not None and "rdp" not in transcript.sanitised:
        lines.append("The release of the epsilon given the votes was lost, and is not repeated.")
    if not transcript.session.charged:
        lines.append(RESTORED)
    if transcript.student_labels:
        lines.append(f"{len(transcript.student_labels):,} labels are the student's own predictions, which read no private data.")
    return " ".join(lines)


def _sanitised_sentence(plan: VotingPlan, sanitised: Sanitised | None) -> str:
    """Return sentences about the released epsilon given the votes; "" if none was released, or the file's delta is 0."""
    delta = plan.account.delta
    if sanitised is None or not delta:
        return ""
    return (
        " An ex-post bound given the votes was also released, with noise in proportion to its smooth sensitivity. The labels and this "
        f"number together cost epsilon <= {up(sanitised.epsilon(delta))} at delta = {delta!r}, {BOTH_WAYS}, except with probability "
        f"{sanitised.failure:g} over that noise. {EX_POST}"
    )
