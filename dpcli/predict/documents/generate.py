"""Private texts as a document: the plan, with its cost, and the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.rounding import up
from dpcli.document.document import Document
from dpcli.sessions.documents.dry_run import dry_run, rows_data, shown, window_note

if TYPE_CHECKING:
    from dpcli.predict.decode.generate_plan import GenerationPlan
    from dpcli.predict.decode.generation import GenerationOutcome

MANY = 1_000


def planned(plan: GenerationPlan) -> Document:
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


def outcome(done: GenerationOutcome) -> Document:
    """Return what was written."""
    plan, account = done.plan, done.plan.account
    written = f"{_texts(len(done.written))} written, {done.taken:,} of {plan.texts:,} in all"
    headline = f"epsilon <= {up(account.upper)} at delta = {account.delta!r}: {written}"
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
