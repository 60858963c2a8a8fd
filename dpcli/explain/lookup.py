"""What a word means: `dpcli explain NAME` for rules, accountants, mechanism types, sampling schemes, terms and topics."""

from __future__ import annotations

import difflib
import textwrap

from dpcli.errors import InputError
from dpcli.explain.glossary import SYMBOLS, TERMS
from dpcli.explain.topics import TOPICS
from dpcli.registry import ACCOUNTANTS, MECHANISMS, SAMPLING, STYLES, TASKS, load

WIDTH = 100
SELECTING = (*MECHANISMS, *SAMPLING, *TASKS, *STYLES)  # words that select the keys of a table


def explain(name: str) -> str:
    """The text for one word, from every table that has it. Raises InputError, with the nearest words, where there is none."""
    key = name.strip()
    key = SYMBOLS.get(key) or SYMBOLS.get(key.lower()) or key
    if key.upper().startswith("DP") and key[2:].isdigit():
        from dpcli.lint.explain import explain as explain_rule

        return explain_rule(key.upper())
    low = key.lower()
    spellings = dict.fromkeys((key, low, low.replace(" ", "_"), low.replace("-", "_"), low.replace("_", "-").replace(" ", "-")))
    tables = ((ACCOUNTANTS, _accountant), (SELECTING, _selected), (TERMS, _term), (TOPICS, _topic))
    found = [next((text(word) for word in spellings if word in table), None) for table, text in tables]
    if any(found):
        return "\n\n".join(text for text in found if text)
    from dpcli.pipeline.key_places import places_of

    lines = next((lines for word in spellings if (lines := places_of(word))), [])
    if lines:
        return "\n".join([f"{low}: a key of the file", "", *map(_hanging, lines)])
    close = difflib.get_close_matches(low, words(), 3)
    hint = f"did you mean {' or '.join(close)}" if close else f"known: {', '.join(words())}, and rules such as DP101"
    raise InputError(f"nothing to explain under '{key}'; {hint}")


def words() -> list[str]:
    """Everything that can be explained, the rules aside."""
    return list(dict.fromkeys(word for table in (ACCOUNTANTS, SELECTING, TERMS, TOPICS) for word in table))


def _filled(text: str) -> str:
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), WIDTH) for paragraph in text.strip().split("\n\n"))


def _hanging(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _term(name: str) -> str:
    return f"{name}\n\n{_filled(TERMS[name])}"


def _topic(name: str) -> str:
    from dpcli.explain.plain import plain
    from dpcli.explain.topics import topic

    return plain(name, topic(name))


def _accountant(name: str) -> str:
    found = load(ACCOUNTANTS[name])
    module = __import__(ACCOUNTANTS[name].partition(":")[0], fromlist=["__doc__"])
    facts = [f"source: {found.source}", f"sound upper bound: {'yes' if found.sound else 'NO: never passes a gate'}"]
    facts.append(f"valid where later parameters depend on earlier outputs: {'yes' if found.adaptive else 'no'}")
    return "\n".join([f"{name}: {found.title}", "", _filled(module.__doc__ or ""), "", *facts])


def _selected(name: str) -> str:
    """A word that selects the keys of a table: those of its own."""
    from dpcli.keys.described import describe_keys
    from dpcli.pipeline.key_places import tables

    texts = []
    for place in tables():
        if place.word == name:
            keys = ["keys:", *describe_keys(place.members)] if place.members else ["no keys of its own"]
            texts.append("\n".join([place.title, "", _filled(place.doc), "", *keys]))
    return "\n\n".join(texts)
