"""What DuckDB says in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpcli.release.expressions.writing import DatePartName, ScalarType

TYPES: Mapping[ScalarType, str] = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "decimal": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
}
WHOLE_DIGITS = "-?[0-9]*([.]0*)?"


class DuckDBSql:
    """The SQL of DuckDB 1.4 and later."""

    once, again = "MATERIALIZED", "NOT MATERIALIZED"

    def text(self, value: str) -> str:
        return f"'{value.replace(chr(39), chr(39) * 2)}'"

    def cast(self, sql: str, to: ScalarType) -> str:
        return f"TRY_CAST({sql} AS {TYPES[to]})"

    def wide(self, sql: str) -> str:
        return f"CAST({sql} AS HUGEINT)"

    def checked(self, operator: str, left: str, right: str) -> str:
        divisor = self.wide(right) if operator in "+-*" else f"NULLIF({self.wide(right)}, 0)"
        return f"TRY_CAST({self.wide(left)} {operator} {divisor} AS BIGINT)"

    def date_part(self, part: DatePartName, sql: str) -> str:
        return f"date_part('{part}', {sql})"

    def list_of(self, numbers: Sequence[str]) -> str:
        return f"[{', '.join(numbers)}]"

    def element(self, numbers: str, place: str) -> str:
        return f"list_extract({numbers}, {place} + 1)"

    def layer(self, columns: str, source: str) -> str:
        return f"SELECT {columns} FROM {source}"

    def total(self, sql: str) -> str:
        return f"sum({sql})"

    def digest(self, sql: str) -> str:
        return f"CAST('0x' || left(sha256({sql}), 12) AS BIGINT)"

    def trimmed(self, sql: str) -> str:
        return f"trim({sql}, ' ')"

    def matches(self, sql: str, pattern: str) -> str:
        return f"regexp_full_match({sql}, {self.text(pattern)})"

    def whole_of_text(self, sql: str) -> str:
        return self.cast(sql, "integer")

    def number_of_text(self, sql: str) -> str:
        return self.cast(sql, "decimal")

    def date_of_text(self, sql: str) -> str:
        return self.cast(sql, "date")

    def week(self, sql: str) -> str:
        return f"CAST(date_trunc('week', {sql}) AS DATE)"

    def whole_of_whole(self, sql: str) -> str:
        return self.cast(sql, "integer")

    def whole_of_exact(self, sql: str) -> str:
        digits = self.matches(self.cast(sql, "text"), WHOLE_DIGITS)  # its floor may be none of its own type
        return f"CASE WHEN {digits} THEN {self.cast(sql, 'integer')} END"

    def number_of_exact(self, sql: str) -> str:
        return self.cast(self.cast(sql, "text"), "decimal")  # by its digits: rounded once
