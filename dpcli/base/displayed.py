"""The `repr` of a result, and its page in a notebook."""

from __future__ import annotations

from dpcli.base.lazy import load

LONGEST_LINE = 160  # characters of a result's `repr`


class Displayed:
    """A result with a short `repr`, made of its `_line`, and a page in a notebook. Passwords of ledgers are in neither."""

    __slots__ = ()

    def _line(self) -> str:
        """Return the words that tell the result from others of its class; names from files are quoted, so that no terminal acts on them."""
        raise NotImplementedError

    def __repr__(self) -> str:
        line = self._line()
        return f"{type(self).__name__}({line if len(line) <= LONGEST_LINE else f'{line[:LONGEST_LINE]}...'})"

    def _repr_html_(self) -> str:
        """Return the HTML of the document that the command prints, or of the line where no command has one."""
        from dpcli.base.registry import DISPLAYED

        html: str = load(DISPLAYED["fragment"])(load(DISPLAYED.get(type(self).__name__, DISPLAYED[""]))(self))
        return html
