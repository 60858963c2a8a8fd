"""Whether what the files cost would still fit into a dataset's ledger, all together; asks once, and spends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Protocol

from dpcli.base.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.gate.horizon import runs_of
from dpcli.gate.verdicts import Condition, Verdict

KEY = ("privacy",)


class LedgerQuote(Protocol):
    """What a ledger answers. share: of its cap that this pipeline's runs would take; left: the share that is left before any.

    delta: of the cap.
    """

    @property
    def fits(self) -> bool: ...

    @property
    def message(self) -> str: ...

    @property
    def share(self) -> float: ...

    @property
    def left(self) -> float: ...

    @property
    def delta(self) -> float | None: ...


class Quoter(Protocol):
    """The ledger's side: one call for all pipelines and how often each is run, from outside any spend."""

    def __call__(
        self, url: str, dataset: str | None, pipelines: Sequence[tuple[Pipeline, int]]
    ) -> Sequence[LedgerQuote | Exception]: ...


def ledger_conditions(asked: Sequence[tuple[Pipeline, int]], url: str, dataset: str | None) -> tuple[Condition, ...]:
    """All runs of all pipelines, each so often, against what is left; a condition for each."""
    if not asked:
        return ()
    quotes: Quoter = load("dpcli.ledger.quote:quotes")
    try:
        answers = quotes(url, dataset, asked)
    except (LedgerError, InputError) as error:
        return (_refused(error),) * len(asked)
    return tuple(_refused(answer) if isinstance(answer, Exception) else _answered(answer) for answer in answers)


def _answered(answer: LedgerQuote) -> Condition:
    verdict: Verdict = "pass" if answer.fits else "fail"
    return Condition("ledger", verdict, answer.message, ("mechanism",), shares=(answer.share, answer.left), delta=answer.delta)


def _refused(error: Exception) -> Condition:
    if isinstance(error, LedgerError):
        return Condition("ledger", "error", str(error), ())
    if isinstance(error, CannotCertify | NotRepresentable):
        return Condition("ledger", "unknown", str(error), KEY)
    from dpcli.file.pipeline.datasets import without_flag

    return Condition("ledger", "invalid", without_flag(str(error)), KEY)


@dataclass(frozen=True, slots=True)
class LedgerSaid:
    """What a ledger said about all files, by path; contents: the files as they were read for that."""

    conditions: Mapping[str, Condition] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """The bytes that the ledger was asked about; of the file where it was not."""
        return self.contents[path] if path in self.contents else read_bytes(path)


def room(paths: Sequence[str], url: str | None, dataset: str | None, horizon: Horizon | None) -> LedgerSaid:
    """Ask a ledger about all files at once; without one, and of files that cannot be read, nothing is said here.

    horizon: of flags or policy; of it and a file's own, the one with more runs counts.
    """
    if url is None:
        return LedgerSaid()
    contents: dict[str, bytes] = {}
    pipelines: list[tuple[str, Pipeline]] = []
    for path in paths:
        with suppress(InvalidFile, InputError):
            contents[path] = contents[path] if path in contents else read_bytes(path)
            pipelines.append((path, parse(contents[path], path)))
    asked = [(pipeline, runs_of(pipeline, horizon)) for _, pipeline in pipelines]
    answers = ledger_conditions(asked, url, dataset)
    return LedgerSaid({path: answer for (path, _), answer in zip(pipelines, answers, strict=True)}, contents)
