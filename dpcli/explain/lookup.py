"""What `dpcli explain NAME` prints, and the names that it knows: the glossary's, and the topics."""

from __future__ import annotations

from dpcli.explain import glossary
from dpcli.explain.topics import TOPICS


def explain(name: str) -> str:
    """The text for one word or topic. Raises InputError, with the nearest words, where there is none."""
    key = name.strip().lower()
    if key not in TOPICS:
        return glossary.explain(name)
    from dpcli.explain.plain import plain
    from dpcli.explain.topics import topic

    return plain(key, topic(key))


def words() -> list[str]:
    """Everything that can be explained, the rules aside."""
    return list(dict.fromkeys((*glossary.words(), *TOPICS)))
