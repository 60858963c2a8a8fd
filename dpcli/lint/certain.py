"""Whether a word can only be a slip of the pen for another one."""

from __future__ import annotations

from collections.abc import Iterable

SHORTEST = 5  # letters: shorter words are near to too many others
SEPARATORS = str.maketrans("", "", "-_ ")


def is_slip(word: str, meant: str) -> bool:
    """Whether two words differ in case and separators alone, or besides in one letter: too many, missing, another, or two exchanged.

    A digit is never a slip: l1 is not l2.
    """
    first, second = (text.casefold().translate(SEPARATORS) for text in (word, meant))
    if first == second:
        return True
    if min(len(first), len(second)) < SHORTEST - 1 or max(len(first), len(second)) < SHORTEST:
        return False
    begin = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    one, other = first[begin:], second[begin:]
    if one[:1].isdigit() or other[:1].isdigit():
        return False
    exchanged = one[:2] == other[:2][::-1] and len(one) > 1 and one[2:] == other[2:] and not one[1].isdigit()
    return one[1:] == other or one == other[1:] or one[1:] == other[1:] or exchanged


def certain(word: str, among: Iterable[str]) -> str | None:
    """The one word that this can only be a slip for; None where there is none, or several.

    A word that differs in case and separators alone comes before those that differ in a letter.
    """
    near = [one for one in dict.fromkeys(among) if is_slip(word, one)]
    same = [one for one in near if one.casefold().translate(SEPARATORS) == word.casefold().translate(SEPARATORS)]
    found = same or near
    return found[0] if len(found) == 1 else None
