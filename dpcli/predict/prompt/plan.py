"""What `dpcli prompt` will do, settled before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import section
from dpcli.file.toml.limits import read_bytes
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.prompt.settings import Prompt
from dpcli.predict.shards import require_units
from dpcli.predict.voting.aggregators import Aggregator, aggregator_class, require_one_session
from dpcli.sessions.priced import PricedSession, priced

# Keys that may change while a session goes on: what is asked, and what is done with the answers.
PUBLIC = ("queries", "candidates", "student_demonstrations", "public", "count", "output")


@dataclass(frozen=True, slots=True)
class PromptPlan(PricedSession):
    """prompt: the table."""

    prompt: Prompt

    @property
    def asked(self) -> int:
        """Queries that may be put to the teachers."""
        return aggregator_class(self.entry).most_queries(self.entry)

    @property
    def answered(self) -> int | None:
        """How many of them may be answered; None where all of them are."""
        kind = aggregator_class(self.entry)
        return kind.most_answers(self.entry) if kind.abstains else None

    @property
    def aggregator(self) -> Aggregator:
        return aggregator_class(self.entry).of(self.entry.spec)

    @property
    def folder(self) -> str:
        return self.folder_at(self.prompt.output)

    @property
    def private_file(self) -> str | None:
        """What has a colon is a function."""
        return None if ":" in self.prompt.data else self.prompt.data

    def fingerprint(self) -> str:
        return self.fingerprint_with("prompt", self.prompt, PUBLIC)


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
    return PromptPlan(path, found.pipeline, found.account, found.entry, prompt)
