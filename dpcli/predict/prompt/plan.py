"""What `dpcli prompt` will do, settled before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.errors import InputError
from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.read import section
from dpcli.predict.prompt.settings import Prompt
from dpcli.predict.shards import require_units
from dpcli.predict.voting.aggregators import Aggregator, aggregator_class, require_one_session
from dpcli.registry import AGGREGATORS
from dpcli.sessions.charged import fingerprint
from dpcli.sessions.priced import PricedSession, folder_of, in_full, priced
from dpcli.toml.limits import read_bytes

# Keys that may change while a session goes on: what is asked, and what is done with the answers.
PUBLIC = ("queries", "candidates", "student_demonstrations", "public", "count", "output")


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """priced: the file's account, and the entry that is performed."""

    priced: PricedSession
    prompt: Prompt

    @property
    def asked(self) -> int:
        """Queries that may be put to the teachers."""
        return aggregator_class(self.priced.entry).most_queries(self.priced.entry)

    @property
    def answered(self) -> int | None:
        """How many of them may be answered; None where all of them are."""
        kind = aggregator_class(self.priced.entry)
        return kind.most_answers(self.priced.entry) if kind.abstains else None

    @property
    def aggregator(self) -> Aggregator:
        return aggregator_class(self.priced.entry).of(self.priced.entry.spec)

    @property
    def folder(self) -> str:
        return folder_of(self.prompt.output, self.priced)

    def fingerprint(self) -> str:
        stated = {name: value for name, value in in_full(self.prompt).items() if name not in PUBLIC}
        return fingerprint({"pipeline": tables_of(self.priced.pipeline), "prompt": stated})


def plan_of(path: str) -> PromptPlan:
    """The plan of a file with [prompt].

    Raises InputError where it cannot be read or asks for what cannot be done, CannotCertify where nobody can say what it costs.
    """
    data = read_bytes(path)
    prompt = section(data, path, "prompt")
    if not isinstance(prompt, Prompt):
        raise InputError(f"{path}: expected a [prompt] table, found none; dpcli schema lists its keys")
    found = priced(path, data, AGGREGATORS, "prompt", prompt.mechanism)
    require_units(found.pipeline, prompt.units, path, "prompt")
    require_one_session(found.entry, path)
    return PromptPlan(found, prompt)
