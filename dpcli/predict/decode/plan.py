"""What `dpcli generate` will do, and what a text costs, settled before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpcli.errors import InputError
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.pipeline.read import section
from dpcli.predict.decode.clipped import LogitClipping
from dpcli.predict.decode.settings import Generate
from dpcli.predict.shards import require_units
from dpcli.registry import DECODING
from dpcli.sessions.priced import PricedSession, priced
from dpcli.toml.limits import read_bytes

# Keys that may change while a session goes on.
PLACES = ("count", "output")


@dataclass(frozen=True, slots=True)
class GenerationPlan(PricedSession):
    """generate: the table. clipping: what a token is drawn by."""

    generate: Generate
    clipping: LogitClipping

    @property
    def texts(self) -> int:
        """How many may be written."""
        return self.generate.batches * self.generate.texts

    @property
    def contributions(self) -> int:
        """Texts of one unit that are used at most."""
        return self.pipeline.privacy.max_contributions or 1

    @property
    def folder(self) -> str:
        return self.folder_at(self.generate.output)

    def batch(self, number: int) -> int:
        """Which batch the text of this number, from 1, is written from: each in turn."""
        return (number - 1) % self.generate.batches

    def epsilon(self, texts: int) -> float:
        """What so many texts would cost, with the rest of the file; an upper bound at the file's delta."""
        from dpcli.analysis.account import headline

        steps = -(-texts // self.generate.batches) * self.generate.tokens
        pipeline = self.pipeline
        entries = tuple(replace(one, steps=steps) if one == self.entry else one for one in pipeline.mechanisms)
        return headline(replace(pipeline, mechanisms=entries, budget=None), delta=self.account.delta).upper

    @property
    def rho(self) -> float:
        """What one token costs, in zCDP; an upper bound."""
        privacy = self.pipeline.privacy
        return self.entry.spec.resolve(Neighbours(privacy.adjacency, self.contributions)).zcdp()

    def fingerprint(self) -> str:
        return self.fingerprint_with("generate", self.generate, PLACES)


def plan_of(path: str) -> GenerationPlan:
    """The plan of a file with [generate].

    Raises InputError where it cannot be read or asks for what cannot be done, CannotCertify where nobody can say what it costs.
    """
    data = read_bytes(path)
    generate = section(data, path, "generate")
    if not isinstance(generate, Generate):
        raise InputError(f"{path}: expected a [generate] table, found none; dpcli schema lists its keys")
    found = priced(path, data, DECODING, "generate", generate.mechanism)
    require_units(found.pipeline, generate.units, path, "generate")
    steps = generate.texts * generate.tokens
    if found.entry.steps != steps:
        raise InputError(
            f'{path}: mechanism["{found.entry.name}"].steps: expected {steps:,}, the tokens of all texts of one batch '
            f"({generate.texts:,} texts of at most {generate.tokens:,}), found {found.entry.steps:,}"
        )
    try:
        clipping = LogitClipping.of(found.entry.spec)
    except InputError as problem:
        raise InputError(f'{path}: mechanism["{found.entry.name}"].{problem}') from None
    return GenerationPlan(path, found.pipeline, found.account, found.entry, generate, clipping)
