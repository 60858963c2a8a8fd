"""The display of a result of the Python interface, such as `dpcli.account(...)`: its `repr`, and its page in a notebook.

For a result that a command prints, a notebook shows the *document* of that command: its output in words and tables before a format renders
it. This folder cannot import the modules that make documents, so they are looked up in the registry of plugins (registry.py). DISPLAYED
has three kinds of entries. Under the name of a result's class is the function that makes a document of its own for the result. Under "" is
the function that makes a document of the `repr` of any other result. Under "fragment" is the function that turns a document into HTML.
"""

from __future__ import annotations

from dpcli.base.lazy import load

LONGEST_LINE = 160  # number of characters after which the line in a result's `repr` is cut and gets three dots; arbitrary


class Displayed:
    """The base class of results with a short `repr` and a page in a notebook.

    The `repr` contains the `_line` of the result, which a subclass defines. Neither `repr` nor page may contain the password of a ledger.
    """

    __slots__ = ()

    def _line(self) -> str:
        """Return a line that distinguishes the result from others of its class.

        Names from files are quoted, so that control characters in them do not reach a terminal.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        line = self._line()
        if len(line) > LONGEST_LINE:
            line = f"{line[:LONGEST_LINE]}..."
        return f"{type(self).__name__}({line})"

    def _repr_html_(self) -> str:
        """Return the page of the result, as HTML. Jupyter calls this method."""
        from dpcli.base.registry import DISPLAYED

        document_of = load(DISPLAYED.get(type(self).__name__, DISPLAYED[""]))  # "": for a class without an entry
        html: str = load(DISPLAYED["fragment"])(document_of(self))
        return html
