"""Base class of results that have a short `repr` and a page in a notebook."""

from __future__ import annotations

from dpcli.base.lazy import load

LONGEST_LINE = 160  # characters of a result's `repr`


class Displayed:
    """A result with a short `repr` and a page in a notebook. Neither shows the password of a ledger.

    A subclass defines `_line`, the text between the parentheses of the `repr`.
    """

    __slots__ = ()

    def _line(self) -> str:
        """Return the text that distinguishes the result from others of its class.

        Names from files must be quoted in it, so that control characters in them do not reach the terminal.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        line = self._line()
        return f"{type(self).__name__}({line if len(line) <= LONGEST_LINE else f'{line[:LONGEST_LINE]}...'})"

    def _repr_html_(self) -> str:
        """Return the HTML of the document that the command prints; of the `_line` if no command prints such a result."""
        from dpcli.base.registry import DISPLAYED

        html: str = load(DISPLAYED["fragment"])(load(DISPLAYED.get(type(self).__name__, DISPLAYED[""]))(self))
        return html
