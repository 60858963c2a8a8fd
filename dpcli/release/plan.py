"""What `dpcli release` will do, settled before any data are touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.errors import CannotCertify, Denied, InputError
from dpcli.keys.plain import plain
from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.model import Pipeline
from dpcli.pipeline.read import parse, section
from dpcli.release.columns import domain_of
from dpcli.release.entries import Asked, asked
from dpcli.release.settings import Source
from dpcli.rounding import up
from dpcli.sessions.charged import fingerprint
from dpcli.toml.limits import read_bytes

if TYPE_CHECKING:
    from dpcli.analysis.account import Account


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """pipeline: the whole file, its queries as mechanisms. account: what it costs. folder: where its answers are, or will be."""

    path: str
    pipeline: Pipeline
    source: Source
    asked: tuple[Asked, ...]
    account: Account

    @property
    def folder(self) -> str:
        named = self.pipeline.name or os.path.splitext(os.path.basename(self.path))[0]
        return os.path.abspath(self.source.output or os.path.join("runs", named))

    def fingerprint(self) -> str:
        """Of everything that the answers depend on but the data: another fingerprint is another release."""
        keys = {
            name: domain_of(column, name, here(self.path)) for name, column in self.source.columns.items() if column.domain_file
        }
        questions: list[Any] = [plain(one.query) for one in self.asked]
        source = {name: value for name, value in plain(self.source).items() if name != "output"}
        return fingerprint({"pipeline": tables_of(self.pipeline), "source": source, "query": questions, "keys": plain(keys)})

    def require_budget(self) -> None:
        """The file's own cap: what cannot be certified is over it. Raises Denied."""
        budget = self.account.budget
        if budget is not None and budget.verdict in ("fail", "unknown"):
            raise Denied(
                f"{self.path}: budget: expected at most epsilon {budget.epsilon:g} at delta = {budget.delta!r}, found {up(budget.spent)}; "
                "no data were touched"
            )


def here(path: str) -> str:
    """The folder that paths in a file start from."""
    return os.path.dirname(os.path.abspath(path)) if path != "-" else os.getcwd()


def plan_of(path: str) -> ReleasePlan:
    """The plan of a file with [source] and [[query]].

    Raises InputError where it cannot be read or asks for what cannot be done, CannotCertify where nobody can say what it costs.
    """
    from dpcli.analysis.account import account

    data = read_bytes(path)
    source, queries = section(data, path, "source"), section(data, path, "query")
    if source is None or not queries:
        raise InputError(f"{path}: expected [source] and at least one [[query]], found none; dpcli init release writes one")
    pipeline = parse(data, path)
    performed = asked(source, queries, pipeline.privacy, pipeline.budget, here(path))
    others = len(pipeline.mechanisms) - sum(len(one.releases) for one in performed)
    if others:
        raise InputError(
            f"{path}: mechanism: expected queries alone, found {others} mechanisms that dpcli release does not perform: they belong in a file "
            "of their own"
        )
    found = account(pipeline)
    if found.winner is None:
        raise CannotCertify(f"{path}: no finite epsilon can be certified for what dpcli release would release")
    return ReleasePlan(path, pipeline, source, performed, found)
