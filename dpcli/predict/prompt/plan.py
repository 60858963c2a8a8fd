"""What `dpcli prompt` will do, settled before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.errors import InputError
from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.read import section
from dpcli.predict.charged import fingerprint
from dpcli.predict.priced import PricedSession, folder_of, in_full, priced, require_units
from dpcli.predict.prompt.settings import Prompt
from dpcli.predict.voting.rules import VotingRule
from dpcli.registry import VOTING, load
from dpcli.toml.limits import read_bytes

# Keys that may change while a session goes on: what is asked, and what is done with the answers.
PUBLIC = ("queries", "candidates", "student_demonstrations", "public", "count", "output")


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """priced: the file's account, and the entry that is performed."""

    priced: PricedSession
    prompt: Prompt
    rule: VotingRule

    @property
    def asked(self) -> int:
        """Queries that may be put to the teachers."""
        return self.rule.asked(self.priced.entry.steps)

    @property
    def answered(self) -> int | None:
        return self.rule.answered(self.priced.entry.steps)

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
    found = priced(path, data, VOTING, "prompt", prompt.mechanism)
    require_units(found.pipeline, prompt.units, path, "prompt")
    rule: type[VotingRule] = load(VOTING[found.entry.type])
    return PromptPlan(found, prompt, rule.of(found.entry.spec))
