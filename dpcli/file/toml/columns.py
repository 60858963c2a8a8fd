"""What is said of a column that a table lacks: names of other columns, and never what may be a value."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from dpcli.file.toml.shown import first_names, quoted
from dpcli.file.toml.suggest import closest

SEPARATORS = str.maketrans("", "", "-_ /.\"'\t\N{ZERO WIDTH NO-BREAK SPACE}")


def instead_of(name: str, names: Sequence[str], known: Collection[str] = (), schema: bool = False) -> str:
    """What was found in place of a column: none, with the one that was meant, or with those that there are.

    A file's first line may be a record. So of a name in it that is not spelled like the one that is missing, but for case and separators,
    nothing is said unless the line is sure to hold names.

    Args:
        names: of the columns, as the table's schema or first line has them. known: names that are expected there: a line with half of them
            is no record. schema: whether the names come from where no record can stand.
    """
    others = {*known} - {name}
    near = next((one for one in names if same_word(one, name)), None)
    if near is None and (schema or 0 < len(others) <= 2 * len(others & {*names})):
        near = closest(name, names)
        if near is None:
            return f"none: there {_those(names)}"
    return "none" if near is None else f"none: did you mean {quoted(near)}?"


def meant_in(row: object, names: Iterable[str]) -> str:
    """What follows on "a row without it", where one of the names is spelled otherwise in the row; else nothing."""
    keys = [key for key in row if isinstance(key, str)] if isinstance(row, Mapping) else []
    near = (one for name in names if name not in keys for one in keys if same_word(one, name))
    return next((f": did you mean {quoted(one)}?" for one in near), "")


def same_word(one: str, other: str) -> bool:
    """Whether they are spelled alike but for case and for what separates words."""
    return _plain(one) == _plain(other) != ""


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().translate(SEPARATORS)


def _those(names: Sequence[str]) -> str:
    if not names:
        return "are no columns"
    return f"{'is' if len(names) == 1 else 'are'} {first_names(map(quoted, names))}"
