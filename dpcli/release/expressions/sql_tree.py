"""The parser of SQL expressions: from a text to a tree of sqlglot's nodes, and from a node back to a text for messages.

sql_grammar.py calls it for each expression of a file. A text is refused if it is not one expression, is long, has a comment, or is nested
so deeply that the parser's recursion fails. sql_nodes.py decides which nodes are allowed and what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.extras import require

if TYPE_CHECKING:
    from sqlglot import exp

# The first two limits are arbitrary. They touch no result, only time and memory, and whether Python's recursion suffices.
LONGEST_EXPRESSION = 10_000  # characters
DEEPEST_NESTING = 150  # nodes inside each other, including those of the computed columns that an expression names
GRAMMAR = "duckdb"  # the dialect of SQL in files: it has the operators // and ==, and no escapes in texts
LONGEST_QUOTE = 60  # largest number of characters of an expression that a message shows, so that it stays readable


def too_deep(key: str) -> InputError:
    """Return the error of an expression that is nested too deeply."""
    return InputError(
        f"{key}: expected at most {DEEPEST_NESTING} nested expressions, those of computed columns included, found more; a long list of "
        "values can be written as in (...)"
    )


def parse_expression(text: str, key: str) -> exp.Expr:
    """Return the syntax tree of one SQL expression. Raises InputError if the text is not a single expression."""
    require("sqlglot")
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    is_unicode = text.encode(errors="replace") == text.encode(errors="surrogatepass")  # False with a lone surrogate
    if not text.strip() or len(text) > LONGEST_EXPRESSION or "\0" in text or not is_unicode:
        raise InputError(
            f"{key}: expected an SQL expression of 1 to {LONGEST_EXPRESSION:,} characters of Unicode, found {quote_for_message(text)}"
        )
    try:
        dialect = Dialect.get_or_raise(GRAMMAR)
        tokens = dialect.tokenize(text)
        trees: list[Any] = dialect.parser().parse_into(exp.Condition, tokens, text)
    except RecursionError:
        raise too_deep(key) from None
    except (SqlglotError, ValueError):
        raise InputError(f"{key}: expected one SQL expression, found {quote_for_message(text)}") from None
    if any(token.comments for token in tokens):
        raise InputError(f"{key}: expected no comment, found a comment")
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):  # several expressions, with ";" between them
        raise InputError(f"{key}: expected one SQL expression, found {quote_for_message(text)}")
    return trees[0]


def quote_for_message(expression: exp.Expr | str) -> str:
    """Return a part of the user's text in quotes for a message. A long text is cut, and unprintable characters are escaped."""
    text = expression if isinstance(expression, str) else expression.sql(dialect=GRAMMAR, comments=False)
    if len(text) > LONGEST_QUOTE:
        text = f"{text[: LONGEST_QUOTE - 3]}..."
    if not text.isprintable():
        text = text.encode("unicode_escape").decode()
    return f'"{text}"'
