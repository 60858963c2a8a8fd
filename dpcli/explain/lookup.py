"""The texts of `dpcli explain NAME`, for rules, accountants, types, keys, formulas, terms, headings and topics.

A word is looked up in every table that may have it, as it is spelled and then by its *stem* (lower case, no hyphens, no plural), so that
"Sampling-rate" and "sampling rates" are one word. Texts come from the classes and pages themselves; a table here only says where. An
unknown word is refused, with similar words if there are any.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, CHART_FORMATS, FORMATS, LISTS, MECHANISMS, PLOTS, SAMPLING, WORDS
from dpcli.document.formats.troff import ManualSection, literal_text
from dpcli.explain.lists import GENERATED, WIDTH, filled, hanging, module_words
from dpcli.explain.topics import DEFINITIONS, SYMBOLS, TERMS, TOPICS, Topic, topic
from dpcli.file.keys.annotations import describe_keys
from dpcli.file.pipeline.key_places import every_table, places_of
from dpcli.file.pipeline.section import TablePlace

if TYPE_CHECKING:
    from dpcli.document.chart import Chart


COMPUTED = {  # function that returns the text, by the word, for texts with computed numbers
    **dict.fromkeys(("gaussian", "sigma", "classical-gaussian"), "dpcli.explain.gaussian_noise:gaussian_sigma"),
    **dict.fromkeys(("plrv", "privacy_loss"), "dpcli.explain.gaussian_noise:gaussian_loss"),
    "exit-codes": "dpcli.explain.lists:exit_codes",
}
PICTURES = dict.fromkeys(("plrv", "privacy_loss"), "dpcli.explain.gaussian_noise:chart")
LEAST_SIMILARITY = 0.75  # smallest ratio of difflib at which a word is suggested
LETTERS = str.maketrans({"ε": "epsilon", "ϵ": "epsilon", "δ": "delta", "μ": "mu", "ρ": "rho", "é": "e"})
# Words that follow a name in a phrase, as in "Bernstein's inequality".
FILLERS = r"('s)?\s+(theorems?|mechanisms?|bounds?|inequalit(y|ies)|techniques?|immunity)$"
KNOWN = (
    "known: rules (DP101), accountants (rdp), mechanism types (gaussian), keys (steps), commands (report), and terms, as dpcli explain "
    "glossary lists them"
)
SELECTING = (*MECHANISMS, *SAMPLING, *chain.from_iterable(WORDS.values()))  # words that select the keys of a table
LISTED = {
    **LISTS,
    "formats": ("a format of results (-f)", FORMATS),
    "plots": ("a picture of dpcli plot", PLOTS),
    "chart-formats": ("a format of pictures (-o)", CHART_FORMATS),
}


def explain(name: str) -> str:
    """Return the explanation of one word, from every table that has it. Raises InputError, with similar words, for an unknown word."""
    key = name.strip().removeprefix("dpcli ").strip()
    if key.upper().startswith("DP") and key[2:].isdigit():
        from dpcli.lint.catalogue import explain as explain_rule

        return explain_rule(key.upper())
    if known := _known_words(key):
        return "\n\n".join(chain.from_iterable(map(_texts, known)))
    parts = _known_parts(key)
    if parts and " " in parts[0]:
        return f"no explanation of '{key}'; explanation of its part '{parts[0]}':\n\n{explain(parts[0])}"
    suggested = parts or _similar_words(key)
    hint = f"did you mean {' or '.join(suggested[:3])}" if suggested else KNOWN
    raise InputError(f"no explanation of '{key}'; {hint}")


def _known_parts(phrase: str) -> list[str]:
    """Return the known parts of a phrase, the longest first: "privacy budget", "privacy" and "budget" of "my privacy budget"."""
    words_of_phrase = re.findall(r"[^\s(),:;]+", phrase)
    result = []
    for length in range(len(words_of_phrase) - 1, 0, -1):
        for start in range(len(words_of_phrase) - length + 1):
            part = " ".join(words_of_phrase[start : start + length])
            if len(part) > 2 and _known_words(part):
                result.append(part)
    return result


def _similar_words(key: str) -> list[str]:
    """Return the words that begin with an unknown word, then words with a similar spelling."""
    wanted = key.strip("[]").lower()
    choices = {choice.lower(): choice for choice in (*words(), *table_paths())}
    longer = [choice for choice in choices if choice.startswith(f"{wanted}-")]
    close = difflib.get_close_matches(wanted, choices, 3, LEAST_SIMILARITY)
    return [choices[choice] for choice in dict.fromkeys((*longer, *close))]


def words() -> list[str]:
    """Return all words that can be explained, except rules and keys."""
    listed = chain.from_iterable(table for _, table in LISTED.values())
    return list(dict.fromkeys((*ACCOUNTANTS, *SELECTING, *TERMS, *DEFINITIONS, *COMPUTED, *TOPICS, *listed)))


def picture(name: str) -> Chart | None:
    """Return the picture for a word; None if there is none."""
    for word in _known_words(name.strip()):
        if word in PICTURES:
            result: Chart = load(PICTURES[word])()
            return result
    return None


def _known_words(key: str) -> tuple[str, ...]:
    """Return the known words for a spelling, such as "[privacy]" -> ("privacy",), "epsilon_upper" -> ("epsilon",).

    The spelling is tried as it is, then in lower case, then without what headings of tables and phrases add to a word.
    """
    bare = key.strip("[]")
    for spelling in (key, bare, bare.lower()):
        candidates = dict.fromkeys((SYMBOLS.get(spelling, spelling), spelling))
        known = tuple(word for word in candidates if any(_texts(word)))
        if known:
            return known
    heading = re.split(r"[:(\[,]", bare)[0]  # "noise (sigma)" -> "noise "
    without_numbers = re.sub(r"[\d.]+ *%?|_(upper|lower)\b|^\S+s (?=together$)", "", heading)
    without_fillers = re.sub(FILLERS, "", heading, flags=re.IGNORECASE)
    for text in (bare, heading, without_numbers, without_fillers):
        known = _spellings().get(_stem(text), ())
        if known:
            return known
    return ()


@cache
def _spellings() -> dict[str, tuple[str, ...]]:
    """Return the known words for each stem of a symbol, a word, a title or a key."""
    spellings: list[tuple[str, str]] = [(symbol, word) for symbol, word in SYMBOLS.items() if len(symbol) > 1]
    spellings += ((word, word) for word in words())
    spellings += ((load(target).title, name) for name, target in ACCOUNTANTS.items())
    spellings += ((path, path) for path in table_paths())
    for place in every_table():
        spellings += ((key, key) for key in place.members)
    words_of_stem: dict[str, dict[str, None]] = {}
    for spelling, word in spellings:
        words_of_stem.setdefault(_stem(spelling), {})[word] = None
    return {stem: tuple(known) for stem, known in words_of_stem.items() if stem}


def _stem(text: str) -> str:
    """Return the letters of a text in lower case, without articles and plural s: "The Sampling-rates" -> "samplingrate".

    Differential privacy and differentially private become "dp".
    """
    short = re.sub(r"differential(ly)?[\s_-]+priva(cy|te)", "dp", text.casefold())
    parts = re.findall(r"[^\W_]+", short.translate(LETTERS))
    return "".join(_singular(part) for part in parts if part not in ("a", "an", "the"))


def _singular(part: str) -> str:
    if part.endswith("ies") and len(part) > 4:
        return f"{part[:-3]}y"
    if part.endswith("sses"):
        return part[:-2]
    is_plural = part.endswith("s") and len(part) > 3 and not part.endswith(("ss", "us", "is"))
    return part[:-1] if is_plural else part


def _texts(word: str) -> Iterator[str]:
    """Yield the text of each table that has a word."""
    if word in ACCOUNTANTS:
        yield _accountant_text(word)
    if word in SELECTING:
        yield _word_text(word)
    for terms in (TERMS, DEFINITIONS):
        if word in terms:
            yield f"{word}\n\n{filled(terms[word])}"
    if word in COMPUTED:
        yield load(COMPUTED[word])()
    if word in TOPICS:
        yield _topic_text(word, topic(word))
    if word in table_paths():
        yield _table_text(word)
    for name, (kind, table) in LISTED.items():
        if word in table:
            yield f"{word}: {kind}\n\n{filled(dict(GENERATED[name]())[word])}"
    if text := _key_text(word):
        yield text


def _accountant_text(name: str) -> str:
    result = load(ACCOUNTANTS[name])
    lines = [
        f"{name}: {result.title}",
        "",
        filled(module_words(ACCOUNTANTS[name])),
        "",
        f"source: {result.source}",
        f"sound upper bound: {'yes' if result.sound else 'NO: never passes a gate'}",
        f"valid where later parameters depend on earlier outputs: {'yes' if result.adaptive else 'no'}",
    ]
    return "\n".join(lines)


@cache
def table_paths() -> tuple[str, ...]:
    """Return the dotted key of every table of a file."""
    return tuple(dict.fromkeys(place.path for place in every_table() if place.path))


def _table_text(path: str) -> str:
    """Return the keys of the tables with this dotted key, such as train.clipping. Keys that a word selects follow by name."""
    places = [place for place in every_table() if place.path == path]
    complete = (_place_text(place) for place in places if not place.word)
    return "\n\n".join([*complete, *_choice_texts([place for place in places if place.word])])


def _word_text(word: str) -> str:
    """Return the meaning of a word that selects the keys of a table, its keys, and the premises of a mechanism or a sampling scheme."""
    return "\n\n".join([*(_place_text(place) for place in every_table() if place.word == word), *_premises(word)])


def _premises(word: str) -> Iterator[str]:
    if target := {**MECHANISMS, **SAMPLING}.get(word):
        yield "\n".join(["premises:", *(hanging(str(premise)) for premise in load(target).premises)])


def _key_text(name: str) -> str:
    """Return every place of a key, or its place in one table for a dotted key; "" if no table has it."""
    path, _, key = name.rpartition(".")
    lines = places_of(key, path or None)
    return "\n".join([f"{name}: a key of the file", "", *map(hanging, lines)]) if lines else ""


def _place_text(place: TablePlace) -> str:
    keys = ["keys:", *describe_keys(place.members)] if place.members else ["no keys"]
    return "\n".join([place.title, "", filled(place.doc), "", *keys])


def _choice_texts(places: list[TablePlace]) -> Iterator[str]:
    if places:
        choices = (hanging(f"{place.choice}: {', '.join(place.members) or 'none'}") for place in places)
        yield "\n".join(["further keys:", *choices])
        yield filled(
            "A key is refused if another of these words selects it, even with its default value. dpcli explain WORD has more."
        )


def _topic_text(name: str, topic: Topic) -> str:
    """Return a topic as text: its title, then its sections. Literal blocks are indented by four spaces."""
    return "\n\n".join([f"{name}: {topic.title}", *chain.from_iterable(map(_section, topic.sections))])


def _section(section: ManualSection) -> Iterator[str]:
    if section.title:
        yield section.title.upper()
    for paragraph in section.paragraphs:
        body = literal_text(paragraph)
        yield _filled(paragraph) if body is None else textwrap.indent(body.rstrip("\n"), "    ")
    for term, definition in section.terms:
        yield f"  {term}\n{_filled(definition, '      ')}"


def _filled(text: str, indent: str = "") -> str:
    words = " ".join(text.split())
    return textwrap.fill(
        words, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
