"""Texts one after the other, from each batch in turn: each is counted before its first token is drawn, and kept when it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpcli.base.errors import Denied
from dpcli.predict.decode.plan import GenerationPlan
from dpcli.predict.decode.turns import PrivateTurns
from dpcli.predict.decode.write import Writer, Written
from dpcli.predict.lines import add_line
from dpcli.predict.models.asked import spoken
from dpcli.predict.models.port import Vocabulary
from dpcli.predict.queries.budget import QueryBudget
from dpcli.random.streams import Stream, SystemStream

Report = Callable[[int, int], None]  # texts written, of how many


@dataclass(frozen=True, slots=True)
class Writing:
    """A session at work.

    private: contexts of each batch. turns: private tokens of each batch, none where all are. kept: the file of texts. stream: what tokens
    are drawn by; the system's where None.
    """

    plan: GenerationPlan
    writer: Writer
    vocabulary: Vocabulary
    private: list[list[tuple[int, ...]]]
    turns: list[PrivateTurns]
    budget: QueryBudget
    kept: str
    stream: Stream | None

    def texts(self, count: int, exactly: bool, report: Report) -> list[tuple[Written, str]]:
        """So many texts, or as many as can be paid for. Raises Denied where there are fewer, if they are wanted `exactly`, or none."""
        found: list[tuple[Written, str]] = []
        while len(found) < count:
            try:
                found += self._following()
            except Denied:
                if exactly or not found:
                    raise
                break
            report(len(found), count)
        return found

    def _following(self) -> list[tuple[Written, str]]:
        """The next text; none where its batch has no private token left. Raises Denied where no batch has, or no text is left."""
        if self.turns and all(one.spent for one in self.turns):
            raise Denied(f"{self.plan.path}: all private tokens are spent: more of them are a new fit and a new charge")
        stream = self.stream or SystemStream()
        number = self.budget.take().first
        batch = self.plan.batch(number)
        turns = self.turns[batch] if self.turns else None
        if turns is not None and not turns.opened(stream):
            return []
        written = self.writer.text(self.private[batch], stream, turns)
        text = spoken(self.vocabulary, written.tokens, f"{self.plan.path}: generate.tokenizer")
        more = {} if turns is None else {"private": written.private, "cut": written.cut}
        add_line(self.kept, {"number": number, "batch": batch, "text": text, **more})
        return [(written, text)]
