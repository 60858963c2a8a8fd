"""SQL that converts a column from the type in which it is stored to the type that [source.columns] declares.

A column may be text in a csv, a decimal in a database and a double in parquet, and must have the same values in every engine.
source_table.py calls this file for each column that an engine reads, and sql_nodes.py for casts of texts. A value that has no conversion
becomes null and counts as missing. It never fails, because an error would reveal that there is such a value.

A *family* is a group of stored types that are converted alike. A conversion is a function that returns the converted *term*, a piece of
SQL, given the stored column as a term and the *layers*, nested SELECTs that give names to terms (scalars.py). `layers.bind` returns the
name of a term, and the `depth` of a term is the layer in which its names exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from dpcli.release.engines.dialects import LARGEST, SMALLEST, ScalarType
from dpcli.release.expressions.scalars import LARGEST_WHOLE, LOWER, UPPER, Layers, Scalar, Term, decimal, fill_template, literal

# Families of types: "whole" are integers of any width, "real" are binary floating point numbers, and "exact" are decimal fractions.
Family = Literal["text", "whole", "real", "exact", "boolean", "date", "timestamp", "other"]

# Regular expressions for texts that are converted to an integer, a double and a date. Integers of 64 bits have at most 19 digits.
WHOLE = "[+-]?[0-9]{1,19}"
NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?"
DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
MOST_DIGITS = 300  # characters; longer texts are not converted to doubles; arbitrary, because no double needs that many
TRUE, FALSE = ("true", "t", "1"), ("false", "f", "0")
FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"  # the years that four digits can state
Convert = Callable[[Term, Layers], Term]


def convert_column(raw: Term, declared: ScalarType, family: Family, layers: Layers) -> Term | None:
    """Return a column converted to its declared type; None if its stored type cannot be converted."""
    convert = CONVERSIONS.get((declared, family))
    return None if convert is None else layers.bind(convert(raw, layers))


def converted_text(value: Scalar, to: ScalarType) -> Scalar:
    """Return a text as a value of another type, by the rules for a column that is stored as text."""
    convert = CONVERSIONS[to, "text"]
    return Scalar(to, lambda layers: layers.bind(convert(layers.bind(value.write(layers)), layers)))


# The conversions: `_whole_of_text` converts the family "text" to integers. A CASE tests a value before it is converted. So all engines
# agree on the values that have a conversion, and PostgreSQL, whose casts fail for the others, meets none of those.


def _cast(to: ScalarType) -> Convert:
    """Return the conversion by a cast, for families whose values PostgreSQL can all cast."""
    return lambda raw, layers: Term(layers.dialect.cast(raw.sql, to), raw.depth)


def _whole_of_text(raw: Term, layers: Layers) -> Term:
    text, dialect = _trimmed(raw, layers), layers.dialect
    return Term(f"CASE WHEN {dialect.matches(text.sql, WHOLE)} THEN {dialect.whole_of_text(text.sql)} END", text.depth)


def _number_of_text(raw: Term, layers: Layers) -> Term:
    text, dialect = _trimmed(raw, layers), layers.dialect
    fits = f"length({text.sql}) <= {MOST_DIGITS} AND {dialect.matches(text.sql, NUMBER)}"
    return _finite_double(Term(f"CASE WHEN {fits} THEN {dialect.number_of_text(text.sql)} END", text.depth), layers)


def _truth_of_text(raw: Term, layers: Layers) -> Term:
    dialect = layers.dialect
    # `translate` changes only these letters to lower case, since engines disagree about the case of letters other than these.
    letters = (Term(dialect.text(alphabet)) for alphabet in (UPPER, LOWER))
    text = layers.bind(fill_template("translate({0}, {1}, {2})", _trimmed(raw, layers), *letters))
    true_words, false_words = (", ".join(map(dialect.text, words)) for words in (TRUE, FALSE))
    true, false = (dialect.cast(dialect.text(word), "boolean") for word in ("true", "false"))
    when_true, when_false = f"{text.sql} IN ({true_words}) THEN {true}", f"{text.sql} IN ({false_words}) THEN {false}"
    return Term(f"CASE WHEN {when_true} WHEN {when_false} END", text.depth)


def _date_of_text(raw: Term, layers: Layers) -> Term:
    text, dialect = _trimmed(raw, layers), layers.dialect
    day = layers.bind(fill_template("substring({0}, 1, 10)", text))
    ends = ", ".join(map(dialect.text, ("", "T", " ")))  # what may follow the date: nothing, or the time of day
    fits = f"{dialect.matches(day.sql, DAY)} AND substring({text.sql}, 11, 1) IN ({ends})"
    return _with_four_digit_year(Term(f"CASE WHEN {fits} THEN {dialect.date_of_text(day.sql)} END", day.depth), layers)


def _whole_of_real(raw: Term, layers: Layers) -> Term:
    number = layers.bind(Term(layers.dialect.cast(raw.sql, "decimal"), raw.depth))
    limit, integer = decimal(LARGEST_WHOLE).write(layers).sql, layers.dialect.cast(number.sql, "integer")
    is_whole = f"abs({number.sql}) < {limit} AND floor({number.sql}) = {number.sql}"
    return Term(f"CASE WHEN {is_whole} THEN {integer} END", number.depth)


def _number(raw: Term, layers: Layers) -> Term:
    return _finite_double(_cast("decimal")(raw, layers), layers)


def _number_of_exact(raw: Term, layers: Layers) -> Term:
    return _finite_double(Term(layers.dialect.number_of_exact(raw.sql), raw.depth), layers)


def _trimmed(raw: Term, layers: Layers) -> Term:
    """Return a text without leading and trailing spaces, bound to a name."""
    return layers.bind(Term(layers.dialect.trimmed(raw.sql), raw.depth))


def _finite_double(number: Term, layers: Layers) -> Term:
    """Return a number as a finite double: null if its absolute value exceeds LARGEST or it is NaN, and 0 if it is below SMALLEST.

    Engines disagree beyond these ends (dialects.py).
    """
    bounds = (decimal(bound).write(layers) for bound in (LARGEST, SMALLEST, 0.0))
    template = "CASE WHEN abs({0}) <= {1} THEN CASE WHEN abs({0}) < {2} THEN {3} ELSE {0} END END"
    return fill_template(template, layers.bind(number), *bounds)


def _with_four_digit_year(day: Term, layers: Layers) -> Term:
    """Return a date if it is in the years 1 to 9999; null otherwise."""
    ends = (literal(end, "date").write(layers) for end in (FIRST_DAY, LAST_DAY))
    return fill_template("CASE WHEN {0} BETWEEN {1} AND {2} THEN {0} END", layers.bind(day), *ends)


# The conversions by the declared type and the family of the stored type. Other pairs are refused.
CONVERSIONS: Mapping[tuple[ScalarType, Family], Convert] = {
    ("text", "text"): _cast("text"),
    ("text", "whole"): _cast("text"),
    ("integer", "text"): _whole_of_text,
    ("integer", "whole"): _cast("integer"),
    ("integer", "real"): _whole_of_real,
    ("integer", "exact"): lambda raw, layers: Term(layers.dialect.whole_of_exact(raw.sql), raw.depth),
    ("decimal", "text"): _number_of_text,
    ("decimal", "whole"): _number,
    ("decimal", "real"): _number,
    ("decimal", "exact"): _number_of_exact,
    ("boolean", "text"): _truth_of_text,
    ("boolean", "boolean"): lambda raw, layers: raw,
    ("date", "text"): _date_of_text,
    ("date", "date"): _with_four_digit_year,
    ("date", "timestamp"): lambda raw, layers: _with_four_digit_year(_cast("date")(raw, layers), layers),
}
