"""SQL expressions in a file: the `where` of a query, and the expressions of computed columns.

`Expressions` turns the text of an expression into a *scalar* (scalars.py), a typed expression whose SQL has the same value in every engine.
sql_tree.py parses the text, and sql_nodes.py has the whitelist of what it may contain. release_plan.py calls it to check a file before
anything is charged, and engines/row_terms.py to write the statement of an engine.

An expression may name declared columns only. The name of a *computed* column, which [source.columns] defines by an expression, stands for
the scalar of that expression; a column that is computed from itself is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import did_you_mean
from dpcli.release.data_source import Column
from dpcli.release.expressions.scalars import Scalar, column, to_decimal
from dpcli.release.expressions.sql_nodes import NodeTranslator
from dpcli.release.expressions.sql_tree import parse_expression


@dataclass(frozen=True, slots=True)
class Expressions:
    """The columns that expressions may name.

    within: names of the computed columns whose expressions are being translated, the outermost first. They detect a column that is computed
        from itself.
    computed: scalars of the computed columns that have been translated. Each is translated once, however many others use it.
    depth: number of nodes around the expression, if a computed column is defined by it.
    """

    columns: Mapping[str, Column]
    within: tuple[str, ...] = ()
    computed: dict[str, Scalar] = field(default_factory=dict)
    depth: int = 0

    def scalar(self, text: str, key: str) -> Scalar:
        """Return the scalar that an SQL expression describes.

        Raises InputError if the text is not SQL, uses something that is not allowed, or combines incompatible types.
        """
        return NodeTranslator(self.column, key, self.depth).scalar(parse_expression(text, key))

    def condition(self, text: str, key: str) -> Scalar:
        """Return the scalar of a condition, which is true, false or unknown. Raises InputError if the text is not an allowed condition."""
        scalar = self.scalar(text, key)
        if scalar.type != "boolean":
            raise InputError(f"{key}: expected a condition, found an expression of type {scalar.type}")
        return scalar

    def column(self, name: str, key: str, depth: int = 0) -> Scalar:
        """Return the column with the exact name. For a computed column, return the scalar of its expression.

        depth: number of nodes around the name of the column.

        Raises InputError if there is no such column, it is computed from itself, or its expression has another type.
        """
        declared = self.columns.get(name)
        if declared is None:
            hint = did_you_mean(name, self.columns) or "a text stands in single quotes"
            raise InputError(f'{key}: expected a column of [source.columns], found "{name}" ({hint})')
        if declared.expression is None:
            return column(name, declared.type)
        if name in self.computed:
            return self.computed[name]
        if name in self.within:
            raise InputError(f'{key}: expected columns that are computed from others, found "{name}" computed from itself')
        expression_key = f"source.columns.{name}.expression"
        scalar = Expressions(self.columns, (*self.within, name), self.computed, depth).scalar(declared.expression, expression_key)
        if declared.type == "decimal" and scalar.type == "integer":
            scalar = to_decimal(scalar)
        if scalar.type != declared.type:
            raise InputError(f"{expression_key}: expected type {declared.type}, as declared, found {scalar.type}")
        self.computed[name] = Scalar(scalar.type, lambda layers: layers.compute(name, scalar))
        return self.computed[name]
