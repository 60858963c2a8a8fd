"""The session of `dpcli generate`, which writes private texts.

A *session* is everything that one charge pays for (prediction_session.py), and nothing may be drawn twice for one charge. So each text is
counted durably before its first token is drawn, and saved as soon as it is complete: a crash loses a text and never repeats it. Private
texts, each in a template called its *context*, are divided into *batches*. Each text is drawn from the clipped and averaged predictions of
one batch, and the batches take turns. If private tokens are counted, a token from the public model costs nothing (private_tokens.py). The
*ledger*, if there is one, is the record of what was spent on a dataset.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dpcli.base.errors import Denied
from dpcli.predict.decode.generate_plan import GenerationPlan
from dpcli.predict.decode.private_tokens import PrivateSupply
from dpcli.predict.decode.text_writer import Writer, context_batches, frame_of, require_usable
from dpcli.predict.models.model_answers import Vocabulary, content_of, text_of_tokens
from dpcli.predict.models.model_loading import language_model
from dpcli.predict.prediction_session import (
    RESTORED,
    STATEMENT,
    AnswerLimit,
    Report,
    add_line,
    begin_session,
    require_count_of,
    whole_lines,
)
from dpcli.random.streams import Stream, SystemStream
from dpcli.sessions.charged import commit
from dpcli.sessions.folder import exclusive, replace_file
from dpcli.sessions.priced import fingerprint

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.query_counts import AnswerCounter
    from dpcli.sessions.charged import Session

TEXTS = "texts.jsonl"


@dataclass(frozen=True, slots=True)
class GenerationOutcome:
    """The outcome of a session of private texts.

    Attributes:
        written: Texts of this call.
        taken: Number of texts that have been counted in all calls, out of plan.texts.
        private: Number of private tokens that have been counted in all calls; None if tokens are not counted.
        cut: Number of texts of this call that were cut short because no private tokens were left.
    """

    plan: GenerationPlan
    session: Session
    written: tuple[str, ...]
    taken: int
    private: int | None = None
    cut: int = 0


def write_texts(
    plan: GenerationPlan,
    ledger: Ledger | None = None,
    resume: bool = False,
    moved: bool = False,
    texts: int | None = None,
    report: Report = lambda done, total: None,
    stream: Stream | None = None,
) -> GenerationOutcome:
    """Write texts from private contexts.

    Args:
        ledger: Ledger to charge in full before the first token is drawn; None if there is none.
        resume: Whether to continue the session in the plan's folder.
        moved: Whether --moved was given, which confirms that no copy of the folder is left at its earlier path.
        texts: Number of texts to write; all that are left if None.
        stream: Source of randomness for the tokens; the operating system if None.

    Raises:
        InputError: If the file asks for something impossible.
        Denied: If the file's budget or the ledger does not allow the session, or no text is left.
        LedgerError: If the ledger or a count cannot be relied on.
    """
    from dpcli.predict.documents.statements import statement

    plan.require_budget()
    generate, path = plan.generate, plan.path
    model, vocabulary = language_model(generate.model, generate.tokenizer, path, "generate")
    frame = frame_of(generate, model, vocabulary)
    require_usable(generate, model, vocabulary, frame, path)
    with exclusive(plan.folder):  # locked, so that one command at a time uses it
        contexts = context_batches(generate, path, plan.pipeline.privacy, frame, vocabulary, model.vocabulary, plan.rows)
        # Digests of the inputs, or sample answers of the model. They must be the same when the session is continued.
        inputs = {"private texts": fingerprint({"contexts": contexts}), "model": content_of(model)}
        session, counter, supplies = _begin_session(plan, ledger, resume, moved, inputs)
        writer = Writer(
            model,
            plan.clipping,
            prompt=frame.prompt,
            clips_differences=generate.method == "difference",
            tokens=generate.tokens,
            end=vocabulary.end,
            place=f"{path}: generate.model",
        )
        written = WritingSession(plan, writer, vocabulary, contexts, supplies, counter, stream).write(texts, report)
        outcome = GenerationOutcome(
            plan=plan,
            session=session,
            written=tuple(saved.text for saved in written),
            taken=counter.taken(),
            private=sum(supply.counter.taken() for supply in supplies) if supplies else None,
            cut=sum(saved.cut for saved in written),
        )
        replace_file(
            os.path.join(plan.folder, STATEMENT), statement(plan, _summary(outcome), _disclosure_answers(outcome)).encode()
        )
        commit(session, ledger)  # records the end of the run in the ledger, if there is one
    return outcome


def _begin_session(
    plan: GenerationPlan, ledger: Ledger | None, resume: bool, moved: bool, inputs: Mapping[str, str]
) -> tuple[Session, AnswerCounter, list[PrivateSupply]]:
    """Charge the session, or continue it.

    Returns:
        The session, the count of its texts, and the private tokens of each batch; [] if all tokens are private and none are counted.

    Raises:
        InputError: If an input has changed since the session began, or the file of texts exists before it.
        Denied: If the ledger does not allow the session.
        LedgerError: If the ledger or a count cannot be relied on.
    """
    limits = [AnswerLimit(plan.texts, "texts")]
    if plan.test is not None:
        batches = range(plan.generate.batches)
        limits += [AnswerLimit(plan.entry.steps, "private tokens", name=f"private-{batch}") for batch in batches]
    path = os.path.join(plan.folder, TEXTS)
    session, (counter, *private_tokens) = begin_session(
        plan, "generate", ledger, inputs, limits, resume=resume, moved=moved, place=plan.generate.count, released=path
    )
    require_count_of(path, len(whole_lines(path)), counter)  # whole_lines also removes an incomplete last line.
    return session, counter, [] if plan.test is None else [PrivateSupply(plan.test, tokens) for tokens in private_tokens]


class SavedText(NamedTuple):
    """A text that was saved, and whether it was cut short because no private tokens were left."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class WritingSession:
    """The writing of a session's texts. The batches take turns.

    Attributes:
        supplies: Private tokens of each batch that are paid for; [] if all tokens are private and none are counted.
        counter: Durable count of the texts.
        stream: Source of randomness for the tokens; the operating system if None.
    """

    plan: GenerationPlan
    writer: Writer
    vocabulary: Vocabulary
    contexts: list[list[tuple[int, ...]]]
    supplies: list[PrivateSupply]
    counter: AnswerCounter
    stream: Stream | None

    def write(self, texts: int | None, report: Report) -> list[SavedText]:
        """Write a number of texts; if it is None, write as many as are left.

        Raises Denied if fewer are left, or none.
        """
        # At least one text is attempted, so that Denied is raised if none is left.
        count = max(1, self.plan.texts - self.counter.taken()) if texts is None else texts
        written: list[SavedText] = []
        while len(written) < count:
            try:
                saved = self._write_next()
            except Denied:
                if texts is not None or not written:
                    raise
                break
            if saved is not None:
                written.append(saved)
            report(len(written), count)
        return written

    def _write_next(self) -> SavedText | None:
        """Write the next text; return None if its batch has no private tokens left. The text is counted in both cases.

        Raises Denied if no batch has private tokens left, or no text is left.
        """
        if self.supplies and all(supply.spent for supply in self.supplies):
            raise Denied(f"{self.plan.path}: all private tokens are spent; more need a new session and a new charge")
        stream = self.stream or SystemStream()
        number = self.counter.take()
        batch = self.plan.batch(number)  # batches take turns, so the number of a text decides its batch
        supply = self.supplies[batch] if self.supplies else None
        # The bar is the noisy threshold of the test for private tokens. `open_bar` counts a private token, unless a bar is open already.
        if supply is not None and not supply.open_bar(stream):
            return None
        written = self.writer.text(self.contexts[batch], stream, supply)
        text = text_of_tokens(self.vocabulary, written.tokens, f"{self.plan.path}: generate.tokenizer")
        line = {"number": number, "batch": batch, "text": text}
        if supply is not None:
            line |= {"private": written.private, "cut": written.cut}
        add_line(os.path.join(self.plan.folder, TEXTS), line)
        return SavedText(text, written.cut)


def _disclosure_answers(outcome: GenerationOutcome) -> dict[str, str]:
    """Return the answers to items of the disclosure statement that the session knows."""
    plan, spec = outcome.plan, outcome.plan.entry.spec
    clipped_values = {
        "difference": "the differences between each private context's logits and the public context's",
        "logits": "each private context's logits relative to their largest",
    }
    return {
        "randomness": "tokens are drawn with the operating system's random numbers; there is no seed, and no random number is saved",
        "floating_point": (
            "contributions and their sums are whole numbers; a token is drawn exactly in proportion to weights in double precision, and a "
            "smaller clip compensates for the rounding of the weights"
        ),
        "clipping": (
            f"{clipped_values[plan.generate.method]}, clipped to {spec.clip:g} for each token; their sum is divided by "  # type: ignore[attr-defined]
            f"{plan.clipping.size:,}, however many contexts there are; at most {plan.contributions:,} texts of each unit were used"
        ),
        "query_model": "one-release",
    }


def _summary(outcome: GenerationOutcome) -> str:
    """Return the sentences of the statement about the texts written and their cost."""
    from dpcli.predict.documents.statements import guarantee

    plan = outcome.plan
    restored = "" if outcome.session.charged else f" {RESTORED}"  # a warning if no ledger counts the answers
    return (
        f"{outcome.taken:,} of at most {plan.texts:,} texts of at most {plan.generate.tokens:,} tokens were written from "
        f"{plan.generate.batches:,} batches of private contexts{_private_share(outcome)}. All texts that may be written are charged, "
        f"written or not: {guarantee(plan.account)}.{restored}"
    )


def _private_share(outcome: GenerationOutcome) -> str:
    """Return the part of a sentence that describes which tokens are private; "" if all tokens are."""
    test, spec = outcome.plan.test, outcome.plan.entry.spec
    if test is None:
        return ""
    return (
        f", with at most {outcome.plan.entry.steps:,} private tokens for each batch. A token is drawn from the public context if the "
        "distance between the private and public distributions is below a threshold. The distance and the threshold of "
        f"{spec.threshold:g} each get exponential noise of mean {spec.scale:g}. "  # type: ignore[attr-defined]
        "The noise of the threshold is drawn anew after each private token"
    )
