"""What `dpcli release` will do, settled before any data are touched."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from dpcli.base.errors import InputError
from dpcli.file.keys.tables import plain
from dpcli.file.pipeline.document import tables_of
from dpcli.file.pipeline.read import parse, section
from dpcli.file.toml.limits import read_bytes
from dpcli.release.columns import domain_of
from dpcli.release.entries import AskedQuery, asked
from dpcli.release.expressed import reads_expressions, require_expressions
from dpcli.release.settings import Source
from dpcli.sessions.plan import fingerprint
from dpcli.sessions.priced import PricedFile, priced_file

if TYPE_CHECKING:
    from dpcli.ledger.blocks.rows import RowWindow
    from dpcli.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class ReleasePlan(PricedFile):
    """pipeline: the whole file, its queries as mechanisms. window: the rows that may be read, all where None."""

    source: Source
    asked: tuple[AskedQuery, ...]
    window: RowWindow | None = None

    def reading(self, ledger: Ledger | None) -> Self:
        """The same over the rows of its window alone, as the ledger's blocks are cut.

        Raises InputError where it states a window and dpcli cannot tell which rows are in it: they would all be read. And where what is
        bounded is not what the file claims to protect, as far as names tell.
        """
        from dpcli.release.window import WITHOUT_LEDGER, row_window
        from dpcli.sessions.whose import require_bounded

        privacy, whose = self.pipeline.privacy, self.source.unit
        if ledger is None:
            if privacy.window is not None:
                raise InputError(f"{self.path}: privacy.window: {WITHOUT_LEDGER}")
            require_bounded(privacy.unit, whose, None, self.path)
            return self
        blocks, family = ledger.stated_window(self.pipeline), ledger.state().open_terms().family
        require_bounded(privacy.unit, whose, family, self.path)
        return self if family is None else replace(self, window=row_window(family, blocks, self.source, self.path))

    @property
    def folder(self) -> str:
        """Where its answers are, or will be."""
        return self.folder_at(self.source.output)

    @property
    def data(self) -> str:
        """Where the files of the data are, or of a pattern its folder: absolute, without links; "" of a database."""
        path = self.source.path
        if path is None:
            return ""
        fixed, *magic = re.split(r"[*?[]", os.path.join(here(self.path), path), maxsplit=1)
        return os.path.realpath(os.path.dirname(fixed) if magic else fixed)

    def fingerprint(self) -> str:
        """Of everything that the answers depend on but the data: another fingerprint is another release."""
        keys = {
            name: domain_of(column, name, here(self.path)) for name, column in self.source.columns.items() if column.domain_file
        }
        questions: list[Any] = [plain(one.query) for one in self.asked]
        source = {name: value for name, value in plain(self.source).items() if name != "output"}
        rows = {} if self.window is None else {"window": {"blocks": list(self.window.blocks), **self.window.family}}
        return fingerprint(
            {"pipeline": tables_of(self.pipeline), "source": source, "query": questions, "keys": plain(keys), **rows}
        )


def here(path: str) -> str:
    """The folder that paths in a file start from."""
    return os.path.dirname(os.path.abspath(path)) if path != "-" else os.getcwd()


def plan_of(path: str) -> ReleasePlan:
    """The plan of a file with [source] and [[query]].

    Raises InputError where it cannot be read or asks for what cannot be done, CannotCertify where nobody can say what it costs.
    """
    data = read_bytes(path)
    source, queries = section(data, path, "source"), section(data, path, "query")
    if source is None or not queries:
        raise InputError(f"{path}: expected [source] and at least one [[query]], found none; dpcli init release writes one")
    pipeline = parse(data, path)
    performed = asked(source, queries, pipeline.privacy, pipeline.budget, here(path))
    others = len(pipeline.mechanisms) - sum(len(one.releases) for one in performed)
    if others:
        raise InputError(
            f"{path}: mechanism: expected queries alone, found {others} mechanisms that dpcli release does not perform: they belong in "
            "another file"
        )
    if reads_expressions():
        require_expressions(source, performed, path)
    return ReleasePlan(path, pipeline, priced_file(path, pipeline).account, source, performed)
