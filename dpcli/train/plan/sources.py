"""Which words may name the data of a task: words of its own, files by their endings, or the user's function."""

from __future__ import annotations

import filecmp
import os
import re

from dpcli.base.errors import InputError
from dpcli.base.fields import Constraint

NAME = r"[^\s:./\\()]+"  # one that may be imported: no path, and no call
CALLED = rf"{NAME}(\.{NAME})*:{NAME}"
FUNCTION = Constraint("module:function", lambda x: re.fullmatch(CALLED, x) is not None, (("pattern", f"^{CALLED}$"),))
HELD_OUT = "held-out"


def source_rule(endings: tuple[str, ...], *words: str) -> Constraint:
    """The rule for data that are one of `words`, a file with one of `endings` (".csv"), or module:function."""

    def holds(text: str) -> bool:
        return text in words or FUNCTION.holds(text) or os.path.splitext(text)[1] in endings

    # A name such as .csv alone has no ending.
    alternatives = [rf"^({'|'.join(words)})$"] if words else []
    pattern = "|".join([*alternatives, f"^{CALLED}$", rf"[^./][^/]*\.({'|'.join(ending[1:] for ending in endings)})$"])
    files = f"a {', '.join(endings[:-1])} or {endings[-1]} file"
    return Constraint(", ".join([*words, files, "or module:function"]), holds, (("pattern", pattern),))


def public_rule(endings: tuple[str, ...], *words: str) -> Constraint:
    """The same for what is declared public, which may be a split of the private data too."""
    return source_rule(endings, HELD_OUT, *words)


def require_apart(data: str, public: str | None, path: str) -> None:
    """Raises InputError where what is declared public is the private data: by one name, or by two files of one content."""
    if public is None:
        return
    one, other = (os.path.join(os.path.dirname(os.path.abspath(path)), source) for source in (data, public))
    if data == public or (os.path.isfile(one) and os.path.isfile(other) and filecmp.cmp(one, other, shallow=False)):
        raise one_source(path, public, data)


def one_source(path: str, public: str, data: str) -> InputError:
    """That what is measured on would be the private records."""
    return InputError(
        f"{path}: train.public: expected other records than the private ones, found that {public} is {data}, or holds the same: metrics on "
        "private records have no noise"
    )
