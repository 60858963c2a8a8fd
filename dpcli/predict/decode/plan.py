"""What `dpcli generate` will do, and what a text costs, settled before any private text is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import section
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.predict.decode.clipped import LogitClipping
from dpcli.predict.decode.compared import PublicTest
from dpcli.predict.decode.settings import Generate
from dpcli.predict.plugin import DECODING
from dpcli.predict.shards import require_units
from dpcli.sessions.priced import PricedSession, priced

# Keys that may change while a session goes on.
PLACES = ("count", "output")
COUNTED = 1_000  # batches, each with a count of its own


@dataclass(frozen=True, slots=True)
class GenerationPlan(PricedSession):
    """generate: the table. clipping: what a private token is drawn by. test: what tells which one is private; all are where None."""

    generate: Generate
    clipping: LogitClipping
    test: PublicTest | None

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
        """What so many texts would cost, every token of them private, with the rest of the file; an upper bound at the file's delta."""
        from dpcli.analysis.account import headline

        steps = -(-texts // self.generate.batches) * self.generate.tokens
        pipeline = self.pipeline
        entries = tuple(replace(one, steps=steps) if one == self.entry else one for one in pipeline.mechanisms)
        return headline(replace(pipeline, mechanisms=entries), delta=self.account.delta).upper

    @property
    def rho(self) -> float:
        """What one private token costs, in zCDP, with what tells that it is; an upper bound."""
        privacy = self.pipeline.privacy
        return self.entry.spec.resolve(Neighbours(privacy.adjacency, self.contributions)).zcdp()

    @property
    def private_file(self) -> str | None:
        return self.generate.data

    @property
    def bounded(self) -> tuple[str, str] | None:
        return None if self.generate.units is None else ("generate.units", self.generate.units)

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
    place = f'{path}: mechanism["{found.entry.name}"]'
    try:
        clipping, test = LogitClipping.of(found.entry.spec), PublicTest.of(found.entry.spec)
    except InputError as problem:
        raise InputError(f"{place}.{problem}") from None
    most = generate.texts * generate.tokens
    if found.entry.steps > most or (test is None and found.entry.steps < most):
        raise InputError(
            f"{place}.steps: expected {'at most ' if test else ''}{most:,}, the tokens of all texts of one batch "
            f"({generate.texts:,} texts of at most {generate.tokens:,}), found {found.entry.steps:,}"
        )
    if test is not None and generate.batches > COUNTED:
        raise InputError(
            f"{path}: generate.batches: expected at most {COUNTED:,} with a threshold, as the private tokens of each are counted, found "
            f"{generate.batches:,}"
        )
    return GenerationPlan(path, found.pipeline, found.account, found.entry, generate, clipping, test)
