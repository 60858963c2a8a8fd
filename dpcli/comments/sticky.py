"""One comment on a pull request, that stays and is kept up to date."""

from __future__ import annotations

import re
from typing import Literal

from dpcli.base.errors import InputError
from dpcli.comments.forge import Forge

Done = Literal["written", "updated", "unchanged", "not written: nothing rises"]
_NAME = re.compile(r"[A-Za-z0-9](-?[A-Za-z0-9])*")  # "--" might end the marker's comment


def marker(name: str | None) -> str:
    """The line by which the comment is found again; several comments on one pull request differ by a name.

    Raises InputError for a name of more than letters, digits and single hyphens between them.
    """
    if name is not None and not (len(name) <= 64 and _NAME.fullmatch(name)):
        raise InputError(f"--name: expected at most 64 letters, digits and single hyphens between them, found {name!r}")
    return f"<!-- dpcli:gate{'' if name is None else f' {name}'} -->"


def keep(forge: Forge, mark: str, text: str, told: bool) -> Done:
    """Give the comment that has the marker this text, or write a new one where something is to be told.

    A comment is taken for ours only where the token's owner wrote it. Of several, which two jobs at once may have written, the oldest
    stays. Raises InputError as the forge does.
    """
    marked = [comment for comment in forge.comments() if comment.body.partition("\n")[0].strip() == mark]
    author = forge.author() if marked else None
    own = list({comment.number: comment for comment in marked if comment.author == author}.values())  # one may be on two pages
    if not own:
        if not told:
            return "not written: nothing rises"
        forge.create(text)
        return "written"
    first, *others = own
    same = first.body.split() == text.split()  # a server may keep other line breaks
    if not same:
        forge.replace(first, text)
    for other in others:
        forge.remove(other)
    return "unchanged" if same else "updated"
