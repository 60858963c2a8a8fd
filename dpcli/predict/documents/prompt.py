"""PromptPATE as a document: the plan, with its cost, and the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.rounding import percent, up
from dpcli.document.document import Document
from dpcli.sessions.documents.dry_run import dry_run, rows_data, shown, window_note

if TYPE_CHECKING:
    from dpcli.predict.prompt.prompt_plan import PromptPlan
    from dpcli.predict.prompt.prompt_session import PromptOutcome


def planned(plan: PromptPlan) -> Document:
    """Return what `dpcli prompt` would do and cost."""
    prompt, entry = plan.prompt, plan.entry
    public = 3 if prompt.model else 1  # calls on a query alone: a model is asked before and after the teachers, too
    bounded = "" if plan.answers is None else f", at most {plan.answers:,} of them answered"
    details = (
        f"{prompt.teachers:,} teachers with up to {prompt.demonstrations:,} demonstrations each, from {prompt.data}",
        f"at most {plan.queries:,} queries by {entry.name} ({entry.type}){bounded}, from {prompt.queries}",
        f"up to {plan.queries * (prompt.teachers + public):,} calls of {prompt.model or prompt.labeller}, then up to "
        f"{prompt.candidates * (plan.answers or plan.queries):,} to choose the student's prompt, which costs no privacy",
        f"leaves labels, prompt and statement in {shown(plan.folder)}",
    )
    data = {
        "teachers": prompt.teachers,
        "queries": plan.queries,
        "answers": plan.answers,
    }
    return dry_run(plan, "dpcli/prompt-plan/v1", data, details)


def outcome(done: PromptOutcome) -> Document:
    """Return what `dpcli prompt` did."""
    plan, account, chosen = done.plan, done.plan.account, done.student
    measured = ""
    if done.accuracy is not None:
        with_, without = done.accuracy
        measured = f"; accuracy {with_:.4f} on texts declared public (not checked), {without:.4f} without demonstrations"
    headline = (
        f"epsilon <= {up(account.upper)} at delta = {account.delta!r}: {done.answered:,} of {done.texts:,} public texts were labelled, "
        f"{done.queries:,} of {plan.queries:,} queries are spent{measured}"
    )
    agreement = "" if chosen.agreement is None else f", which agrees with {percent(chosen.agreement)} of the other labels"
    details = (
        f"the prompt has {len(chosen.demonstrations):,} demonstrations{agreement}",
        *window_note(plan),
        f"labels, prompt and statement are in {shown(done.folder)}",
        *((f"{done.waiting:,} texts were not asked about: no query or answer is left for them",) if done.waiting else ()),
    )
    data = {
        "schema": "dpcli/prompt/v1",
        **rows_data(plan),
        "asked": done.queries,
        "queries": plan.queries,
        "texts": done.texts,
        "answered": done.answered,
        "waiting": done.waiting,
        "prompt": done.prompt,
        "agreement": chosen.agreement,
        "accuracy": None if done.accuracy is None else done.accuracy[0],
        "accuracy_without_demonstrations": None if done.accuracy is None else done.accuracy[1],
        "folder": done.folder,
        "run": done.run,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "exit_code": 0,
    }
    return Document(headline, data, "pass", notes=details, details=details, total=repr(account.upper))
