"""The documents that `dpcli generate` and `dpcli prompt` print: the plan, with its cost, and the outcome.

A dry run prints the plan, which is public and known before any data are read. The outcome has written texts, or the number of noisy labels:
they were paid for, and may be printed. Every cost is an upper bound, rounded up. generate writes texts token by token from *batches* of
private texts. With a threshold, a noisy test lets the public context alone decide some tokens; only the others, the *private tokens*, are
charged, and each batch may use `entry.steps` of them. prompt lets *teachers*, which are prompts with private demonstrations, vote on the
labels of public *queries*. The *student* is a prompt made of the labelled texts. A *window* is the part of the dataset that a session
reads.
"""

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

ORIENTATION_TEXTS = 1_000  # number of texts whose cost a dry run prints, for orientation; `epsilon_of_1000_texts` names it


def generate_plan_document(plan: GenerationPlan) -> Document:
    """Return the document of a dry run of `dpcli generate`: the cost of all texts, of one text per batch, and of ORIENTATION_TEXTS texts.

    `plan.test` is None without a threshold: every token is then private.
    """
    generate, rho = plan.generate, plan.rho
    epsilon_of_one_per_batch, epsilon_of_1000 = plan.epsilon(generate.batches), plan.epsilon(ORIENTATION_TEXTS)
    data = {
        "texts": plan.texts,
        **({} if plan.test is None else {"private_tokens": plan.entry.steps * generate.batches}),
        "tokens": generate.tokens,
        "batches": generate.batches,
        "rho_per_token": rho,
        "epsilon_of_one_text_per_batch": epsilon_of_one_per_batch,
        "epsilon_of_1000_texts": epsilon_of_1000,
    }
    size = plan.pipeline.privacy.dataset_size
    expected = "" if size is None else f"; {size / generate.batches:,.0f} of {size:,} records are expected in a batch"
    texts = (
        f"{plan.texts:,} texts of at most {generate.tokens:,} tokens, {generate.texts:,} from each of {generate.batches:,} batches, by "
        f"{plan.entry.name}"
    )
    rho_of_token, rho_of_text = up(rho, 6), up(rho * generate.tokens, 6)
    epsilons = (
        f"epsilon <= {up(epsilon_of_one_per_batch)} for {_texts(generate.batches)}, one from each batch; <= {up(epsilon_of_1000)} for "
        f"{ORIENTATION_TEXTS:,} texts"
    )
    if plan.test is None:
        details = [texts, f"rho <= {rho_of_token} for a token, {rho_of_text} for a text", epsilons]
    else:
        details = [
            f"at most {texts}",
            f"at most {plan.entry.steps:,} private tokens in each batch; tokens drawn from the public context alone cost nothing",
            f"rho <= {rho_of_token} for a private token, {rho_of_text} for a text of private tokens only",
            f"{epsilons}, all tokens private",
        ]
    details += [
        f"the sum for each token is divided by {plan.clipping.size:,}, the declared size of a batch{expected}",
        f"writes texts and statement to {shown(plan.folder)}",
    ]
    return dry_run(plan, "dpcli/generate-plan/v1", data, details)  # with the cost and the budget's verdict


def generate_document(outcome: GenerationOutcome) -> Document:
    """Return the document of `dpcli generate`: the texts of this call, and how many texts were counted in all calls."""
    plan, account = outcome.plan, outcome.plan.account
    written = f"{_texts(len(outcome.written))} written, {outcome.taken:,} of {plan.texts:,} in all"
    headline = f"{guarantee(account)}: {written}"
    details = (*window_note(plan), f"texts and statement are in {shown(plan.folder)}")
    private_data = {}
    if outcome.private is not None:
        private_data = {"private_tokens": outcome.private, "cut": outcome.cut}
        max_private = plan.entry.steps * plan.generate.batches
        cut = f"; {_texts(outcome.cut)} cut short, as none were left" if outcome.cut else ""
        details += (f"{outcome.private:,} of at most {max_private:,} private tokens were used{cut}",)
    data = {
        "schema": "dpcli/generate/v1",
        **rows_data(plan),
        "written": list(outcome.written),
        "taken": outcome.taken,
        **private_data,
        "texts": plan.texts,
        "folder": plan.folder,
        "run": outcome.session.run,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "exit_code": 0,
    }
    # notes: sentences below the tables; details: lines of the plain text format; total: the single number for scripts
    return Document(headline, data, "pass", notes=details, details=details, total=repr(account.upper))


def _texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count:,} texts"


def prompt_plan_document(plan: PromptPlan) -> Document:
    """Return the document of a dry run of `dpcli prompt`."""
    prompt, entry = plan.prompt, plan.entry
    public_calls = 3 if prompt.model else 1  # calls without demonstrations: the model is also asked before and after the teachers
    label_calls = plan.queries * (prompt.teachers + public_calls)
    student_calls = prompt.candidates * (plan.answers or plan.queries)
    bounded = "" if plan.answers is None else f", at most {plan.answers:,} of them answered"
    details = (
        f"{prompt.teachers:,} teachers with up to {prompt.demonstrations:,} demonstrations each, from {prompt.data}",
        f"at most {plan.queries:,} queries by {entry.name} ({entry.type}){bounded}, from {prompt.queries}",
        f"up to {label_calls:,} calls of {prompt.model or prompt.labeller}, then up to {student_calls:,} to choose the student's prompt, "
        "which costs no privacy",
        f"writes labels, prompt and statement to {shown(plan.folder)}",
    )
    data = {"teachers": prompt.teachers, "queries": plan.queries, "answers": plan.answers}
    return dry_run(plan, "dpcli/prompt-plan/v1", data, details)


def prompt_document(outcome: PromptOutcome) -> Document:
    """Return the document of `dpcli prompt`: how many texts were labelled, and the student's prompt with its accuracy."""
    plan, account, student = outcome.plan, outcome.plan.account, outcome.student
    headline = (
        f"{guarantee(account)}: {outcome.answered:,} of {outcome.texts:,} public texts were labelled, "
        f"{outcome.queries:,} of {plan.queries:,} queries are used"
    )
    if outcome.accuracy is not None:
        headline += (
            f"; accuracy {outcome.accuracy:.4f} on texts declared public (not checked), "
            f"{outcome.accuracy_without_demonstrations:.4f} without demonstrations"
        )
    agreement = "" if student.agreement is None else f", which agrees with {percent(student.agreement)} of the other labels"
    details = (
        f"the prompt has {len(student.demonstrations):,} demonstrations{agreement}",
        *window_note(plan),
        f"labels, prompt and statement are in {shown(plan.folder)}",
    )
    if outcome.waiting:
        details += (f"{outcome.waiting:,} texts were not labelled, as no query or answer is left",)
    data = {
        "schema": "dpcli/prompt/v1",
        **rows_data(plan),
        "asked": outcome.queries,
        "queries": plan.queries,
        "texts": outcome.texts,
        "answered": outcome.answered,
        "waiting": outcome.waiting,
        "prompt": outcome.prompt,
        "agreement": student.agreement,
        "accuracy": outcome.accuracy,
        "accuracy_without_demonstrations": outcome.accuracy_without_demonstrations,
        "folder": plan.folder,
        "run": outcome.session.run,
        "result": {"epsilon_upper": account.upper, "delta": account.delta},
        "exit_code": 0,
    }
    return Document(headline, data, "pass", notes=details, details=details, total=repr(account.upper))
