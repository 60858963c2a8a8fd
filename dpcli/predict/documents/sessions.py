"""The documents that `dpcli generate` and `dpcli prompt` print: the plan, with its cost, and the outcome."""

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

MANY = 1_000  # number of texts whose cost a dry run prints; `epsilon_of_1000_texts` names it


def generate_plan_document(plan: GenerationPlan) -> Document:
    """Return the document of a dry run of `dpcli generate`: the cost of all texts, of one text per batch, and of MANY texts."""
    generate, entry = plan.generate, plan.entry
    rho = plan.rho
    first, many = plan.epsilon(generate.batches), plan.epsilon(MANY)
    size = plan.pipeline.privacy.dataset_size
    test = plan.test is not None
    details = (
        f"{'at most ' if test else ''}{plan.texts:,} texts of at most {generate.tokens:,} tokens, {generate.texts:,} from each of "
        f"{generate.batches:,} batches, by {entry.name}",
        *(
            (f"at most {entry.steps:,} private tokens in each batch; tokens drawn from the public context alone cost nothing",)
            if test
            else ()
        ),
        f"rho <= {up(rho, 6)} for a {'private ' if test else ''}token, {up(rho * generate.tokens, 6)} for a text"
        + (" of private tokens only" if test else ""),
        f"epsilon <= {up(first)} for {_texts(generate.batches)}, one from each batch; <= {up(many)} for {MANY:,} texts"
        + (", all tokens private" if test else ""),
        f"the sum for each token is divided by {plan.clipping.size:,}, the declared size of a batch"
        + ("" if size is None else f"; {size / generate.batches:,.0f} of {size:,} records are expected in a batch"),
        f"writes texts and statement to {shown(plan.folder)}",
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


def generate_document(outcome: GenerationOutcome) -> Document:
    """Return the document of `dpcli generate`."""
    plan, account = outcome.plan, outcome.plan.account
    written = f"{_texts(len(outcome.written))} written, {outcome.taken:,} of {plan.texts:,} in all"
    headline = f"{guarantee(account)}: {written}"
    details: tuple[str, ...] = (
        *window_note(plan),
        f"texts and statement are in {shown(outcome.folder)}",
    )
    if outcome.private is not None:
        most = plan.entry.steps * plan.generate.batches
        cut = f"; {_texts(outcome.cut)} cut short, as none were left" if outcome.cut else ""
        details += (f"{outcome.private:,} of at most {most:,} private tokens were used{cut}",)
    data = {
        "schema": "dpcli/generate/v1",
        **rows_data(plan),
        "written": list(outcome.written),
        "taken": outcome.taken,
        **({} if outcome.private is None else {"private_tokens": outcome.private, "cut": outcome.cut}),
        "texts": plan.texts,
        "folder": outcome.folder,
        "run": outcome.run,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "exit_code": 0,
    }
    return Document(headline, data, "pass", notes=details, details=details, total=repr(account.upper))


def _texts(count: int) -> str:
    return f"{count:,} text{'' if count == 1 else 's'}"


def prompt_plan_document(plan: PromptPlan) -> Document:
    """Return the document of a dry run of `dpcli prompt`."""
    prompt, entry = plan.prompt, plan.entry
    public = 3 if prompt.model else 1  # calls without demonstrations: the model is also asked before and after the teachers
    bounded = "" if plan.answers is None else f", at most {plan.answers:,} of them answered"
    details = (
        f"{prompt.teachers:,} teachers with up to {prompt.demonstrations:,} demonstrations each, from {prompt.data}",
        f"at most {plan.queries:,} queries by {entry.name} ({entry.type}){bounded}, from {prompt.queries}",
        f"up to {plan.queries * (prompt.teachers + public):,} calls of {prompt.model or prompt.labeller}, then up to "
        f"{prompt.candidates * (plan.answers or plan.queries):,} to choose the student's prompt, which costs no privacy",
        f"writes labels, prompt and statement to {shown(plan.folder)}",
    )
    data = {
        "teachers": prompt.teachers,
        "queries": plan.queries,
        "answers": plan.answers,
    }
    return dry_run(plan, "dpcli/prompt-plan/v1", data, details)


def prompt_document(outcome: PromptOutcome) -> Document:
    """Return the document of `dpcli prompt`."""
    plan, account, chosen = outcome.plan, outcome.plan.account, outcome.student
    measured = ""
    if outcome.accuracy is not None:
        with_, without = outcome.accuracy
        measured = f"; accuracy {with_:.4f} on texts declared public (not checked), {without:.4f} without demonstrations"
    headline = (
        f"{guarantee(account)}: {outcome.answered:,} of {outcome.texts:,} public texts were labelled, "
        f"{outcome.queries:,} of {plan.queries:,} queries are used{measured}"
    )
    agreement = "" if chosen.agreement is None else f", which agrees with {percent(chosen.agreement)} of the other labels"
    details = (
        f"the prompt has {len(chosen.demonstrations):,} demonstrations{agreement}",
        *window_note(plan),
        f"labels, prompt and statement are in {shown(outcome.folder)}",
        *((f"{outcome.waiting:,} texts were not labelled, as no query or answer is left",) if outcome.waiting else ()),
    )
    data = {
        "schema": "dpcli/prompt/v1",
        **rows_data(plan),
        "asked": outcome.queries,
        "queries": plan.queries,
        "texts": outcome.texts,
        "answered": outcome.answered,
        "waiting": outcome.waiting,
        "prompt": outcome.prompt,
        "agreement": chosen.agreement,
        "accuracy": None if outcome.accuracy is None else outcome.accuracy[0],
        "accuracy_without_demonstrations": None if outcome.accuracy is None else outcome.accuracy[1],
        "folder": outcome.folder,
        "run": outcome.run,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "exit_code": 0,
    }
    return Document(headline, data, "pass", notes=details, details=details, total=repr(account.upper))
