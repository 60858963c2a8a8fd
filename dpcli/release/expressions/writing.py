"""How a checked expression becomes SQL: what each engine says in its own way, and what has to be computed once and used twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

ScalarType = Literal["text", "integer", "decimal", "boolean", "date"]
DatePartName = Literal["year", "quarter", "month", "week", "day", "doy", "dow", "isodow"]


class Dialect(Protocol):
    """What an expression needs to know of one engine's SQL. Arguments are SQL that may be written more than once, unless said otherwise."""

    def text(self, value: str) -> str:
        """A literal, compared by its bytes."""
        ...

    def cast(self, sql: str, to: ScalarType) -> str:
        """A conversion that no value can make fail. The argument is written once."""
        ...

    def checked(self, operator: str, left: str, right: str) -> str:
        """Integer arithmetic; null where the result is no 64-bit integer. operator: + - * // or %, the last two toward zero."""
        ...

    def wide(self, sql: str) -> str:
        """A 64-bit integer as one of 128 bits, or of 38 digits."""
        ...

    def date_part(self, part: DatePartName, sql: str) -> str:
        """A 64-bit integer. The argument is written once."""
        ...

    def list_of(self, numbers: Sequence[str]) -> str:
        """A list of doubles."""
        ...

    def element(self, numbers: str, place: str) -> str:
        """Of a list, counted from 0; null past its end. Arguments are written once."""
        ...

    def layer(self, columns: str, source: str) -> str:
        """SELECT of columns from a subquery, not merged with it where the engine would then compute things twice."""
        ...


class Columns(Protocol):
    """The columns of a table, as terms of their declared types."""

    def term(self, name: str, layers: Layers) -> Term: ...


@dataclass(frozen=True, slots=True)
class Term:
    """SQL over the columns that are there from layer `depth` on."""

    sql: str
    depth: int = 0


@dataclass(slots=True)
class Layers:
    """Nested SELECTs: each gives names to expressions over the names of those inside, so that no SQL text grows by repetition."""

    dialect: Dialect
    columns: Columns
    names: list[dict[str, str]] = field(default_factory=list)  # by layer: from SQL to its name

    def bind(self, term: Term) -> Term:
        """A name for what the term says, which may be written more than once."""
        while len(self.names) <= term.depth:
            self.names.append({})
        there = self.names[term.depth]
        name = there.setdefault(term.sql, f"t{sum(map(len, self.names))}")
        return Term(name, term.depth + 1)

    def over(self, base: str) -> str:
        """The FROM item that has every bound name."""
        found = base
        for number, layer in enumerate(self.names):
            columns = "".join(f", {sql} AS {name}" for sql, name in layer.items())
            found = f"({self.dialect.layer(f'*{columns}', found)}) AS l{number}"
        return found


def joined(template: str, *terms: Term) -> Term:
    """A term from others: their SQL in the places {0}, {1}, ... of the template."""
    return Term(template.format(*(term.sql for term in terms)), max((term.depth for term in terms), default=0))
