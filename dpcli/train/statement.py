"""What a run leaves for those who will use its model: the disclosure of this run, with what was really done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.rounding import up

if TYPE_CHECKING:
    from dpcli.train.run import Outcome


def statement(outcome: Outcome) -> str:
    """Markdown: the verdict on the run, then the disclosure statement of the pipeline as it was run."""
    from dpcli.disclosure.facts import gather
    from dpcli.disclosure.statement import disclosure
    from dpcli.report import disclosure_report, format_markdown

    plan = outcome.plan
    heading = "" if outcome.private else "**NOT PRIVATE: the noise was drawn from a seed that somebody knows.**\n\n"
    measured = "" if outcome.accuracy is None else f" Accuracy on the data declared public: {outcome.accuracy:.4f}."
    again = (
        f" {outcome.repeated:,} steps may have been done twice after a crash, and are counted twice." if outcome.repeated else ""
    )
    done = (
        f"{heading}This run took {plan.steps:,} steps with noise multiplier {plan.noise_multiplier:.7g} and clipping norm "
        f"{plan.train.clipping.norm:g}: epsilon <= {up(outcome.epsilon)} at delta = {plan.account.delta!r}.{again}{measured}\n\n"
    )
    pipeline = plan.partial(plan.steps + outcome.repeated) if outcome.repeated else plan.pipeline
    facts = gather(replace(pipeline, path=plan.path), None, ())
    return done + format_markdown.render(disclosure_report.document(disclosure(facts)))
