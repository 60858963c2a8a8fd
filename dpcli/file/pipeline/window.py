"""The blocks that a run reads, in words: with every number that was charged on them, and what nobody has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Privacy

SHOWN = 8  # of a window, in a sentence
FLAG, HINT = "--window: ", ", or by this flag of a command that charges a run"  # as a ledger says them
UNCHECKED = "that records lie in the window is stated, not checked"


def window_words(privacy: Privacy) -> str:
    """`2026-01-01..2026-01-28 of "visits"`; "" where no window is stated."""
    of = "" if privacy.dataset is None else f' of "{privacy.dataset}"'
    return "" if privacy.window is None else f"{blocks_words(privacy.window)}{of}"


def without_flag(text: str, name: str = "privacy.window", instead: str = "") -> str:
    """What a ledger says of blocks, in the words of a command that has no --window; what it quotes of files stays as they have it.

    name: what it has for them. instead: of the hint at the flag.
    """
    import re

    *place, said = re.split(r"(:\d+: )", text, maxsplit=1)  # a history's are of a line in a file
    if said.startswith(FLAG):
        said = f"{name}: {said.removeprefix(FLAG)}"
    return "".join(place) + (f"{said.removesuffix(HINT)}{instead}" if said.endswith(HINT) else said)


def blocks_words(blocks: Sequence[str]) -> str:
    """The blocks in a line: all of a few, the first of many, and how many more are stated."""
    more = len(blocks) - SHOWN
    return ", ".join(blocks) if more <= 0 else f"{', '.join(blocks[:SHOWN])} and {more:,} more"


def window_data(privacy: Privacy) -> dict[str, Any]:
    """For the machine form of whatever states a guarantee; nothing where no window is stated."""
    return {} if privacy.window is None else {"window": list(privacy.window)}
