"""From the text of an expression to what it means, or a refusal that names what is not allowed: never anything of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.file.toml.suggest import did_you_mean
from dpcli.release.expressions.grammar import MEANINGS
from dpcli.release.expressions.nodes import AsDecimal, ColumnValue, Scalar
from dpcli.release.expressions.writing import ScalarType

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST, DEEPEST = 10_000, 150  # characters; expressions within each other
GRAMMAR = "duckdb"  # of sqlglot: the operators // and ==, and no backslash in a text
ALLOWED = (
    "columns, literals, comparison, and, or, not, between, in, is null, + - * / // %, lower, upper, substr, and year, quarter, month, "
    "week, day, dayofyear, dayofweek, isodow or extract of a date"
)


class DeclaredColumn(Protocol):
    """A column of the table, or one that is computed from others."""

    @property
    def type(self) -> ScalarType: ...

    @property
    def expression(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Expressions:
    """The columns that expressions may name. within: computed columns that are being read, outermost first."""

    columns: Mapping[str, DeclaredColumn]
    within: tuple[str, ...] = ()

    def scalar(self, text: str, key: str) -> Scalar:
        """The meaning of an expression.

        Args:
            text: SQL, as the user wrote it.
            key: where, for messages.

        Raises:
            InputError: it is not SQL, or uses what is not allowed, or types that do not go together.
        """
        return Checked(self, key).scalar(parsed(text, key))

    def condition(self, text: str, key: str) -> Scalar:
        """An expression that is true, false or unknown."""
        found = self.scalar(text, key)
        if found.type != "boolean":
            raise InputError(f"{key}: expected a condition, found an expression of type {found.type}")
        return found

    def column(self, name: str, key: str) -> Scalar:
        """A column by its exact name, or what it is computed from."""
        declared = self.columns.get(name)
        if declared is None:
            hint = did_you_mean(name, self.columns)
            raise InputError(f'{key}: expected a column of [source.columns], found "{name}"{hint and f" ({hint})"}')
        if declared.expression is None:
            return ColumnValue(name, declared.type)
        if name in self.within:
            raise InputError(f'{key}: expected columns that are computed from others, found "{name}" computed from itself')
        own = f"source.columns.{name}.expression"
        found = Expressions(self.columns, (*self.within, name)).scalar(declared.expression, own)
        if (declared.type, found.type) == ("decimal", "integer"):
            return AsDecimal(found)
        if found.type != declared.type:
            raise InputError(f"{own}: expected type {declared.type}, as declared, found {found.type}")
        return found


@dataclass(frozen=True, slots=True)
class Checked:
    """One expression on its way: every node of the parser's tree that is not known here is refused."""

    expressions: Expressions
    key: str
    depth: int = 0

    def scalar(self, node: exp.Expr) -> Scalar:
        if self.depth > DEEPEST:
            raise InputError(
                f"{self.key}: expected at most {DEEPEST} expressions within each other, found more; in (...) takes a list"
            )
        if node.comments:
            raise InputError(f"{self.key}: expected no comment, found one")
        meaning = MEANINGS.get(type(node).__name__)
        if meaning is None:
            raise self.refusal(node)
        others = [name for name, value in node.args.items() if value and name not in meaning.arguments]
        if others:
            raise self.refusal(node)
        return meaning.read(Checked(self.expressions, self.key, self.depth + 1), node)

    def column(self, name: str) -> Scalar:
        return self.expressions.column(name, self.key)

    def refusal(self, node: exp.Expr, expected: str = f"only {ALLOWED}") -> InputError:
        return InputError(f"{self.key}: expected {expected}, found {shown(node)}")

    def of_type(self, node: exp.Expr, *types: ScalarType) -> Scalar:
        """An operand of one of these types."""
        found = self.scalar(node)
        if found.type not in types:
            raise InputError(
                f"{self.key}: expected {' or '.join(types)} in {shown(node.parent or node)}, found {shown(node)} of type {found.type}"
            )
        return found


def parsed(text: str, key: str) -> exp.Expr:
    """The tree of one expression. Raises InputError where it is none."""
    require("sqlglot")
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    if not text.strip() or len(text) > LONGEST or "\0" in text or not _encodable(text):
        raise InputError(f"{key}: expected an SQL expression of 1 to {LONGEST:,} characters of Unicode, found another text")
    try:
        dialect = Dialect.get_or_raise(GRAMMAR)
        tokens = dialect.tokenize(text)
        found: list[Any] = dialect.parser().parse_into(exp.Condition, tokens, text)
    except (SqlglotError, RecursionError, ValueError):
        raise InputError(f"{key}: expected one SQL expression, found {shown(text)}") from None
    if any(token.comments for token in tokens):
        raise InputError(f"{key}: expected no comment, found one")
    if len(found) != 1 or not isinstance(found[0], exp.Expr):
        raise InputError(f"{key}: expected one SQL expression, found {shown(text)}")
    return found[0]


def shown(what: exp.Expr | str) -> str:
    """A part of what the user wrote, for a message."""
    text = what if isinstance(what, str) else what.sql(dialect=GRAMMAR, comments=False)
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return f'"{short.encode("unicode_escape").decode() if not short.isprintable() else short}"'


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
