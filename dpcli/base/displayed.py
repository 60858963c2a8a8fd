"""Results as Python and a notebook show them."""

from __future__ import annotations

from dpcli.base.lazy import load

LONGEST_LINE = 160  # characters of a result's `repr`


class Displayed:
    """A result with a short `repr`, for which it says `_line`, and a page in a notebook. Ledgers' passwords are in neither."""

    __slots__ = ()

    def _line(self) -> str:
        """Return what tells the result from others of its class; names from files are quoted as Python does, so that no terminal acts
        on them."""
        raise NotImplementedError

    def __repr__(self) -> str:
        line = self._line()
        return f"{type(self).__name__}({line if len(line) <= LONGEST_LINE else f'{line[:LONGEST_LINE]}...'})"

    def _repr_html_(self) -> str:
        """The document that the command prints as HTML, or the line where no command has one."""
        from dpcli.base.registry import DISPLAYED

        html: str = load(DISPLAYED["fragment"])(load(DISPLAYED.get(type(self).__name__, DISPLAYED[""]))(self))
        return html
