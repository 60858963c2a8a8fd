"""Private texts: each is charged whole before its first token is drawn, and kept as soon as it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.predict.decode.contexts import batches, frame_of, require_same_answers
from dpcli.predict.decode.plan import GenerationPlan
from dpcli.predict.decode.turns import PrivateTurns
from dpcli.predict.decode.write import Writer
from dpcli.predict.decode.writing import Report, Writing
from dpcli.predict.lines import refuse_others, whole_lines
from dpcli.predict.models.content import content_of
from dpcli.predict.models.load import language_model
from dpcli.predict.queries.counted import counted, require_count_of
from dpcli.predict.session import RESTORED, session_of
from dpcli.sessions.charged import charge, commit, noted, reason
from dpcli.sessions.folder import exclusive, replaced
from dpcli.sessions.priced import fingerprint

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.random.streams import Stream
    from dpcli.sessions.charged import Session

TEXTS, STATEMENT = "texts.jsonl", "statement.md"


@dataclass(frozen=True, slots=True)
class Generated:
    """What a session came to.

    written: texts of this call. taken: texts that are charged up to now, of plan.texts. private: private tokens that are charged up to
    now, where they are counted. cut: texts of this call that end for want of them.
    """

    plan: GenerationPlan
    folder: str
    run: str
    charged: bool
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
    report: Report = lambda done, all_: None,
    stream: Stream | None = None,
) -> Generated:
    """Write texts of private contexts.

    Args:
        ledger: charged in full before the first token.
        resume, moved: --resume and --moved.
        texts: how many; all that are left where None.
        stream: what tokens are drawn by; the system's where None.

    Raises:
        InputError: what the file asks for cannot be done. Denied: the file's budget or the ledger says no, or no text is left.
        LedgerError: ledger or count cannot be relied on.
    """
    from dpcli.predict.documents.prediction_statement import statement

    plan.require_budget()
    generate, path = plan.generate, plan.path
    model, vocabulary = language_model(generate.model, generate.tokenizer, path, "generate")
    frame = frame_of(generate, model, vocabulary)
    place = f"{path}: generate.model"
    require_same_answers(model, frame, place)
    with exclusive(plan.folder):
        private = batches(generate, path, plan.pipeline.privacy, frame, vocabulary, model.vocabulary, plan.rows)
        inputs = {"private texts": fingerprint({"contexts": private}), "model": content_of(model)}
        session = session_of(plan, plan.folder, resume, ledger, inputs)
        kept = os.path.join(plan.folder, TEXTS)
        refuse_others(kept, session.counted)
        differences = generate.method == "difference"
        writer = Writer(model, plan.clipping, frame.prompt, differences, generate.tokens, vocabulary.end, place)
        session = charge(session, plan.pipeline, ledger, reason("generate", path, plan.pipeline))
        with counted(session, ledger, plan.texts, generate.count, moved, things="texts") as budget:
            require_count_of(kept, len(whole_lines(kept)), budget)  # the next one begins a line
            turns = _turns(plan, session, ledger, moved)
            session = noted(session)
            left = max(1, plan.texts - budget.taken())
            writing = Writing(plan, writer, vocabulary, private, turns, budget, kept, stream)
            found = writing.texts(left if texts is None else texts, texts is not None, report)
            spent = sum(one.budget.taken() for one in turns) if turns else None
            cut = sum(one.cut for one, _ in found)
            outcome = Generated(
                plan, plan.folder, session.run, session.charged, tuple(text for _, text in found), budget.taken(), spent, cut
            )
        replaced(os.path.join(plan.folder, STATEMENT), statement(plan, said(outcome)).encode())
        commit(session, ledger)
    return outcome


def _turns(plan: GenerationPlan, session: Session, ledger: Ledger | None, moved: bool) -> list[PrivateTurns]:
    """Of each batch; none where every token is private, as then texts are all that needs to be counted."""
    if plan.test is None:
        return []
    place, steps = plan.generate.count, plan.entry.steps
    counts = [
        counted(session, ledger, steps, place, moved, f"private-{batch}", things="private tokens")
        for batch in range(plan.generate.batches)
    ]
    return [PrivateTurns(plan.test, count) for count in counts]


def said(outcome: Generated) -> dict[str, str]:
    """What the session did, as answers of the disclosure statement; `done` is its first paragraph."""
    plan, spec = outcome.plan, outcome.plan.entry.spec
    what = {
        "difference": "the difference of each private context's logits and the public context's",
        "logits": "each private context's logits below their largest",
    }
    return {
        "done": (
            f"{outcome.taken:,} of at most {plan.texts:,} texts of at most {plan.generate.tokens:,} tokens were written from "
            f"{plan.generate.batches:,} batches of private contexts{_drawn(outcome)}. All that may be written is charged for, written or "
            f"not.{'' if outcome.charged else f' {RESTORED}'}"
        ),
        "randomness": "tokens are drawn by the operating system's random numbers; no seed exists and nothing is saved",
        "floating_point": (
            "contributions and their sums are whole numbers; a token is drawn exactly in proportion to weights in double precision, whose "
            "rounding a smaller clip pays for"
        ),
        "clipping": (
            f"{what[plan.generate.method]}, to {spec.clip:g} for each token of the vocabulary; their sum is divided by "  # type: ignore[attr-defined]
            f"{plan.clipping.size:,}, whatever their number; of each unit at most {plan.contributions:,} texts were used"
        ),
        "query_model": "one-release",
    }


def _drawn(outcome: Generated) -> str:
    """Which tokens are private, where not all are."""
    test, spec = outcome.plan.test, outcome.plan.entry.spec
    if test is None:
        return ""
    return (
        f", with at most {outcome.plan.entry.steps:,} private tokens for each batch. A token is drawn from the public context where the "
        f"distance of private and public distributions, with exponential noise of mean {spec.scale:g}, stays below "  # type: ignore[attr-defined]
        f"{spec.threshold:g} with as much noise, which is drawn anew after each private token"  # type: ignore[attr-defined]
    )
