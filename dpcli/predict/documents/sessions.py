"""Sessions of `dpcli generate` and `dpcli prompt` as documents: the plan, with its cost, and the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.rounding import percent, up
from dpcli.document.document import Document
from dpcli.predict.documents.statements import guarantee
from dpcli.sessions.documents.dry_run import dry_run, rows_data, shown, window_note

if TYPE_CHECKING:
    from dpcli.predict.decode.generate_plan import GenerationPlan
    from dpcli.predict.decode.generation import GenerationOutcome
    from dpcli.predict.prompt.prompt_plan import PromptPlan
    from dpcli.predict.prompt.prompt_session import PromptOutcome

MANY = 1_000  # texts, whose cost a dry run states


def planned_texts(plan: GenerationPlan) -> Document:
    """Return what `dpcli generate` would do and cost: all texts, the first of each batch, and a thousand."""
    generate, entry = plan.generate, plan.entry
    rho = plan.rho
    first, many = plan.epsilon(generate.batches), plan.epsilon(MANY)
    size = plan.pipeline.privacy.dataset_size
    test = plan.test is not None
    details = (
        f"{'at most ' if test else ''}{plan.texts:,} texts of at most {generate.tokens:,} tokens, {generate.texts:,} from each of "
        f"{generate.batches:,} batches, by {entry.name}",
        *(
            (f"at most {entry.steps:,} private tokens in each batch; what the public context predicts alone costs nothing",)
            if test
            else ()
        ),
        f"rho <= {up(rho, 6)} for a {'private ' if test else ''}token, {up(rho * generate.tokens, 6)} for a text"
        + (" of no others" if test else ""),
        f"epsilon <= {up(first)} for {_texts(generate.batches)}, one of each batch; <= {up(many)} for {MANY:,} texts"
        + (", all tokens private" if test else ""),
        f"each token is averaged over {plan.clipping.size:,} places"
        + ("" if size is None else f"; {size / generate.batches:,.0f} of {size:,} records are expected in a batch"),
        f"leaves texts and statement in {shown(plan.folder)}",
    )
    data = {
        "texts": plan.texts,
        **({"private_tokens": entry.steps * generate.batches} if test else {}),
        "tokens": generate.tokens,
        "batches": generate.batches,
        "rho_per_token": rho,
        "epsilon_of_one_text_per_batch": first,
        "epsilon_of_1000_texts": many,
    }
    return dry_run(plan, "dpcli/generate-plan/v1", data, details)


def written_texts(done: GenerationOutcome) -> Document:
    """Return what was written."""
    plan, account = done.plan, done.plan.account
    written = f"{_texts(len(done.written))} written, {done.taken:,} of {plan.texts:,} in all"
    headline = f"{guarantee(account)}: {written}"
    details: tuple[str, ...] = (
        *window_note(plan),
        f"texts and statement are in {shown(done.folder)}",
    )
    if done.private is not None:
        most = plan.entry.steps * plan.generate.batches
        cut = f"; {_texts(done.cut)} cut short for want of them" if done.cut else ""
        details += (f"{done.private:,} of at most {most:,} private tokens are used{cut}",)
    data = {
        "schema": "dpcli/generate/v1",
        **rows_data(plan),
        "written": list(done.written),
        "taken": done.taken,
        **({} if done.private is None else {"private_tokens": done.private, "cut": done.cut}),
        "texts": plan.texts,
        "folder": done.folder,
        "run": done.run,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "exit_code": 0,
    }
    return Document(headline, data, "pass", notes=details, details=details, total=repr(account.upper))


def _texts(count: int) -> str:
    return f"{count:,} text{'' if count == 1 else 's'}"


def planned_prompt(plan: PromptPlan) -> Document:
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


def chosen_prompt(done: PromptOutcome) -> Document:
    """Return what `dpcli prompt` did."""
    plan, account, chosen = done.plan, done.plan.account, done.student
    measured = ""
    if done.accuracy is not None:
        with_, without = done.accuracy
        measured = f"; accuracy {with_:.4f} on texts declared public (not checked), {without:.4f} without demonstrations"
    headline = (
        f"{guarantee(account)}: {done.answered:,} of {done.texts:,} public texts were labelled, "
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
