"""The common part of the plans of pate, pmixed, prompt and generate.

A *plan* is a pipeline file that a command is about to perform, priced before any private data are read (sessions/priced.py). Each of these
commands has a table in the file, such as [pate], and a subclass of `PredictionPlan` in the module of that table. A *session* is everything
that one charge of a plan pays for. The *fingerprint* of a plan covers everything that must not change while its session continues; only the
keys named in `free` may.

A `Constraint` limits the value of a key, and a `Note` is a text that may be blank and may have several lines (base/fields.py). This module
has those that several tables share.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from dpcli.base.fields import Constraint, Note
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.toml.findings import Findings
from dpcli.sessions.priced import FilePlan

Table = TypeVar("Table")
TEXT_ALONE = Note("{text}")  # template that shows a text without any words around it
# The pattern is the same rule for JSON Schema: {text} occurs, and does not occur twice.
TEMPLATE = Constraint(
    "a text that contains {text} once",
    lambda template: template.count("{text}") == 1,
    (("pattern", r"^(?![\s\S]*\{text\}[\s\S]*\{text\})[\s\S]*\{text\}"),),
)


def up_to(most: int, most_text: str) -> Constraint:
    """Return the constraint of a whole number from 1 to `most`. Messages show the limit as `most_text`: up_to(10**6, "10^6")."""
    return Constraint(f"a whole number from 1 to {most_text}", lambda x: 1 <= x <= most, (("minimum", 1), ("maximum", most)))


def same_source(private: str | None, public: str | None) -> bool:
    """Return whether two keys name one file or function: "a.csv" and "./a.csv" do. A source declared public must not be the private one.

    Only names are compared. A link to the private file is therefore not detected.
    """
    if private is None or public is None:
        return False
    are_files = ":" not in private and ":" not in public
    return private == public or (are_files and os.path.normpath(private) == os.path.normpath(public))


@dataclass(frozen=True, slots=True)
class PredictionPlan(FilePlan):
    """The plan of one command.

    Attributes:
        section: Name of the table in the file, such as "pate", and of the subclass's field that holds the table.
        free: Keys of the table that may change after a session has begun, because its cost does not depend on them.
    """

    section: ClassVar[str]
    free: ClassVar[Collection[str]]

    @property
    def table(self) -> Any:
        """Return the command's table of the file, such as a `Pate`."""
        return getattr(self, self.section)

    @property
    def folder(self) -> str:
        """Return the absolute path of the session's folder: the key `output`, or by default runs/NAME."""
        return self.folder_at(self.table.output)

    @property
    def private_file(self) -> str | None:
        """Return the source of the private data, as the table names it."""
        source: str | None = self.table.data
        return source

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything in the file that must not change while a session continues."""
        return self.fingerprint_with(self.section, self.table, self.free)


def with_entry(pipeline: Pipeline, entry: Entry) -> Pipeline:
    """Return the pipeline with this entry instead of the entry of the same name."""
    mechanisms = [entry if mechanism.name == entry.name else mechanism for mechanism in pipeline.mechanisms]
    return replace(pipeline, mechanisms=tuple(mechanisms))


def table_of(data: bytes, path: str, table_class: type[Table], name: str) -> Table:
    """Return the table [name] of a file. Raises InvalidFile if there is no such table, or the file is invalid elsewhere."""
    table = section(data, path, name)
    if not isinstance(table, table_class):  # there is no such table; DP005 is the rule about keys that do not fit together
        text, tables = toml_document(data, path)
        findings = Findings()
        findings.add("DP005", (name,), expected=f"a [{name}] table (dpcli schema lists its keys)", actual="none")
        refuse(findings, tables, text, path)  # raises InvalidFile
    assert isinstance(table, table_class)
    return table
