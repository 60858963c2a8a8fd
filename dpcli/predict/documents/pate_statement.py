"""What a session leaves for those who use its labels: the guarantee, which holds whatever the votes are, and what was done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.base.rounding import up
from dpcli.document.document import jsonable
from dpcli.file.pipeline.model import Disclosure
from dpcli.predict.documents.pate_setting import counts, sanitised_data, setting
from dpcli.predict.session import RESTORED

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.sanitised import Sanitised
    from dpcli.predict.pate.transcript import Transcript


BOTH = "for these votes against any neighbouring ones and the reverse"
EX_POST = "It was not fixed before the votes were seen; what was fixed, and what composes with other runs, is the first epsilon."


def statement(plan: VotingPlan, held: Transcript, noised: Sanitised | None) -> tuple[str, dict[str, Any]]:
    """Markdown, and the machine form. No number in either depends on the votes but through the labels that are released."""
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.facts import gather
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    facts = gather(replace(plan.pipeline, path=plan.path, disclosure=_stated(plan, held)), None, ())
    heading = "" if held.private else "**NOT PRIVATE: the noise was drawn from a seed that somebody knows.**\n\n"
    text = f"{heading}{_done(plan, held)}{_noised(plan, noised)}\n\n" + format_markdown.render(
        disclosure_report.document(disclosure(facts))
    )
    machine = {**setting(plan), "private": held.private, "run": held.run, **counts(held), "sanitised": sanitised_data(plan, noised)}
    return text, jsonable(machine)


def _done(plan: VotingPlan, held: Transcript) -> str:
    account = plan.account
    lines = [
        f"{len(held):,} queries were put to {plan.pate.teachers:,} teachers on disjoint shards ({plan.entry.type}), and "
        f"{len(held.labels):,} answered: epsilon <= {up(account.upper)} at delta = {account.delta!r}, which pays for up to "
        f"{plan.queries:,} queries and {plan.answers:,} answers and holds whatever the votes were."
    ]
    if held.lost:
        lines.append(
            f"{len(held.lost):,} queries were charged and lost, in a crash or as an older transcript was put back; none was put again."
        )
    if held.sanitised is not None and "rdp" not in held.sanitised:
        lines.append("What was released of their cost given the votes is lost, and is not released again.")
    if not held.session.charged:
        lines.append(RESTORED)
    if held.reinforced:
        lines.append(f"{len(held.reinforced):,} labels are the student's own predictions, which read no private data.")
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


def _stated(plan: VotingPlan, held: Transcript) -> Disclosure:
    """The file's own answers, and beside them the session's."""
    known = {
        "implementation": f"dpcli {__version__}",
        "randomness": "the noise is drawn from the operating system (OpenSSL); no seed exists and nothing is saved"
        if held.private
        else "NOT PRIVATE: a seed that somebody knows",
        "floating_point": "labels alone are released, never a noisy count: rounding changes one with probability below 1e-12 for each",
        "clipping": "none: all records of a unit are in one teacher's shard, so that a unit moves one vote",
        "privacy_model": "central",
    }
    own = plan.pipeline.disclosure
    return replace(own, **{name: value for name, value in known.items() if getattr(own, name) is None})  # type: ignore[arg-type]
