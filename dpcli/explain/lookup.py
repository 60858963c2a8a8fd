"""The texts of `dpcli explain NAME`, for rules, accountants, types, keys, formulas, terms, headings and topics.

`explain` gets what the user typed and returns the text to print. A *name* is something that dpcli has a text about, such as the accountant
`rdp`, the key `batch_size` or the term `adjacency`; several tables may have one name, and all of their texts are printed. What was typed
need not equal a name: `_names_meant` tries it as it is and as a symbol of papers (SYMBOLS), and then by its *stem*, which is in lower case
and without hyphens, articles and plural, so that "Sampling-rate" and "sampling rates" are one. Texts come from the classes and manual pages
themselves (lists.py, topics.py, key_places.py); the tables here only say where. If nothing fits, the error names similar names.
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


# The function that returns the text of a name, for texts whose numbers are computed when they are printed.
COMPUTED = {
    **dict.fromkeys(("gaussian", "sigma", "classical-gaussian"), "dpcli.explain.gaussian_noise:gaussian_sigma"),
    **dict.fromkeys(("plrv", "privacy_loss"), "dpcli.explain.gaussian_noise:gaussian_loss"),
    "exit-codes": "dpcli.explain.lists:exit_codes",
}
PICTURES = dict.fromkeys(("plrv", "privacy_loss"), "dpcli.explain.gaussian_noise:chart")
# Smallest similarity at which an error suggests a name, above difflib's default of 0.6 for fewer wrong ones; it affects only the message.
LEAST_SIMILARITY = 0.75
LETTERS = str.maketrans({"ε": "epsilon", "ϵ": "epsilon", "δ": "delta", "μ": "mu", "ρ": "rho", "é": "e"})
# Words that follow a name in a phrase, as in "Bernstein's inequality".
FILLERS = r"('s)?\s+(theorems?|mechanisms?|bounds?|inequalit(y|ies)|techniques?|immunity)$"
KNOWN = (
    "known: rules (DP101), accountants (rdp), mechanism types (gaussian), keys (steps), commands (report), and terms, as dpcli explain "
    "glossary lists them"
)
# Values of selectors: of keys such as `type` and `scheme`, whose value decides which other keys the table has.
SELECTOR_VALUES = (*MECHANISMS, *SAMPLING, *chain.from_iterable(WORDS.values()))
# Registered names by the list of lists.py that describes them, with the kind of thing that they are.
LISTED = {
    **LISTS,
    "formats": ("a format of results (-f)", FORMATS),
    "plots": ("a picture of dpcli plot", PLOTS),
    "chart-formats": ("a format of pictures (-o)", CHART_FORMATS),
}


def explain(typed: str) -> str:
    """Return the explanation of what the user typed, from every table that has it. Raises InputError, with similar names, if none has."""
    text = typed.strip().removeprefix("dpcli ").strip()
    if text.upper().startswith("DP") and text[2:].isdigit():
        from dpcli.lint.catalogue import explain as explain_rule

        return explain_rule(text.upper())
    if names := _names_meant(text):
        return "\n\n".join(chain.from_iterable(map(_texts, names)))
    parts = _known_parts(text)
    if parts and " " in parts[0]:  # a part of several words is specific enough to be explained; a single word is only suggested
        return f"no explanation of '{text}'; explanation of its part '{parts[0]}':\n\n{explain(parts[0])}"
    suggested = parts or _similar_names(text)
    hint = f"did you mean {' or '.join(suggested[:3])}" if suggested else KNOWN
    raise InputError(f"no explanation of '{text}'; {hint}")


def _known_parts(phrase: str) -> list[str]:
    """Return the parts of a phrase that mean a name, the longest first: "privacy budget", "privacy" and "budget" of "my privacy budget"."""
    words = re.findall(r"[^\s(),:;]+", phrase)
    result = []
    for length in range(len(words) - 1, 0, -1):
        for start in range(len(words) - length + 1):
            part = " ".join(words[start : start + length])
            if len(part) > 2 and _names_meant(part):  # shorter words are mostly no names, such as "of"
                result.append(part)
    return result


def _similar_names(typed: str) -> list[str]:
    """Return the names that begin with an unknown text and a hyphen, then names with a similar spelling."""
    wanted = typed.strip("[]").lower()
    choices = {choice.lower(): choice for choice in (*known_names(), *table_paths())}
    longer = [choice for choice in choices if choice.startswith(f"{wanted}-")]
    close = difflib.get_close_matches(wanted, choices, n=3, cutoff=LEAST_SIMILARITY)
    return [choices[choice] for choice in dict.fromkeys((*longer, *close))]


def known_names() -> list[str]:
    """Return all names that can be explained, except codes of rules and keys and tables of files."""
    listed = chain.from_iterable(table for _, table in LISTED.values())
    return list(dict.fromkeys((*ACCOUNTANTS, *SELECTOR_VALUES, *TERMS, *DEFINITIONS, *COMPUTED, *TOPICS, *listed)))


def picture(typed: str) -> Chart | None:
    """Return the picture that belongs to a name; None if it has none."""
    for name in _names_meant(typed.strip()):
        if name in PICTURES:
            result: Chart = load(PICTURES[name])()
            return result
    return None


def _names_meant(typed: str) -> tuple[str, ...]:
    """Return the names that a text means, such as "[privacy]" -> ("privacy",), "epsilon_upper" -> ("epsilon",); () if it means none.

    The text is tried as it is, then in lower case, then by its stem, without what headings of tables and phrases add to a name.
    """
    bare = typed.strip("[]")
    for text in (typed, bare, bare.lower()):
        candidates = dict.fromkeys((SYMBOLS.get(text, text), text))
        names = tuple(name for name in candidates if any(_texts(name)))
        if names:
            return names
    heading, *_ = re.split(r"[:(\[,]", bare)  # "noise (sigma)" -> "noise "
    # "fpr 1 %" -> "fpr ", "epsilon_upper" -> "epsilon", "runs together" -> "together"
    without_numbers = re.sub(r"[\d.]+ *%?|_(upper|lower)\b|^\S+s (?=together$)", "", heading)
    without_fillers = re.sub(FILLERS, "", heading, flags=re.IGNORECASE)
    for text in (bare, heading, without_numbers, without_fillers):
        names = _names_by_stem().get(_stem(text), ())
        if names:
            return names
    return ()


@cache
def _names_by_stem() -> dict[str, tuple[str, ...]]:
    """Return the names that each stem means. It is the stem of a name, of a symbol, of an accountant's title, or of a key or table."""
    # Symbols of one letter are left out: a stem would mix up b, a scale, and B, a batch size.
    spellings = [(symbol, name) for symbol, name in SYMBOLS.items() if len(symbol) > 1]
    spellings += ((name, name) for name in known_names())
    spellings += ((load(target).title, name) for name, target in ACCOUNTANTS.items())
    spellings += ((path, path) for path in table_paths())
    for place in every_table():
        spellings += ((key, key) for key in place.members)
    names_of_stem: dict[str, dict[str, None]] = {}
    for spelling, name in spellings:
        names_of_stem.setdefault(_stem(spelling), {})[name] = None
    return {stem: tuple(names) for stem, names in names_of_stem.items() if stem}


def _stem(text: str) -> str:
    """Return the letters of a text in lower case, without articles and plural s: "The Sampling-rates" -> "samplingrate".

    Differential privacy and differentially private become "dp".
    """
    short = re.sub(r"differential(ly)?[\s_-]+priva(cy|te)", "dp", text.casefold())
    parts = re.findall(r"[^\W_]+", short.translate(LETTERS))
    return "".join(_singular(part) for part in parts if part not in ("a", "an", "the"))


def _singular(part: str) -> str:
    """Return a word without the ending of its plural: "theories" -> "theory", "losses" -> "loss". Short words, "loss" and "bus" stay."""
    if part.endswith("ies") and len(part) > 4:
        return f"{part[:-3]}y"
    if part.endswith("sses"):
        return part[:-2]
    is_plural = part.endswith("s") and len(part) > 3 and not part.endswith(("ss", "us", "is"))
    return part[:-1] if is_plural else part


def _texts(name: str) -> Iterator[str]:
    """Yield the text of each table that has a name."""
    if name in ACCOUNTANTS:
        yield _accountant_text(name)
    if name in SELECTOR_VALUES:
        yield _selected_text(name)
    for terms in (TERMS, DEFINITIONS):
        if name in terms:
            yield f"{name}\n\n{filled(terms[name])}"
    if name in COMPUTED:
        yield load(COMPUTED[name])()
    if name in TOPICS:
        yield _topic_text(name, topic(name))
    if name in table_paths():
        yield _table_text(name)
    for list_name, (kind, table) in LISTED.items():
        if name in table:
            yield f"{name}: {kind}\n\n{filled(dict(GENERATED[list_name]())[name])}"
    if text := _key_text(name):
        yield text


def _accountant_text(name: str) -> str:
    accountant = load(ACCOUNTANTS[name])
    lines = [
        f"{name}: {accountant.title}",
        "",
        filled(module_words(ACCOUNTANTS[name])),
        "",
        f"source: {accountant.source}",
        f"sound upper bound: {'yes' if accountant.sound else 'NO: never passes a gate'}",
        f"valid where later parameters depend on earlier outputs: {'yes' if accountant.adaptive else 'no'}",
    ]
    return "\n".join(lines)


@cache
def table_paths() -> tuple[str, ...]:
    """Return the dotted key of every table of a file."""
    return tuple(dict.fromkeys(place.path for place in every_table() if place.path))


def _table_text(path: str) -> str:
    """Return the keys of the tables with this dotted key, such as train.clipping. The keys that a selector's value adds follow by name."""
    places = [place for place in every_table() if place.path == path]
    complete = (_place_text(place) for place in places if not place.selector_value)
    return "\n\n".join([*complete, *_choice_texts([place for place in places if place.selector_value])])


def _selected_text(value: str) -> str:
    """Return the meaning of a selector's value, the keys that it adds, and the premises of a mechanism or a sampling scheme."""
    return "\n\n".join([*(_place_text(place) for place in every_table() if place.selector_value == value), *_premises(value)])


def _premises(value: str) -> Iterator[str]:
    """Yield the sentences on which the guarantee of a mechanism type or a sampling scheme rests; nothing for another value."""
    if target := {**MECHANISMS, **SAMPLING}.get(value):
        yield "\n".join(["premises:", *(hanging(str(premise)) for premise in load(target).premises)])


def _key_text(name: str) -> str:
    """Return each meaning of a key in the tables that have it, or only in one table for a dotted key; "" if no table has it."""
    path, _, key = name.rpartition(".")
    lines = places_of(key, path or None)
    return "\n".join([f"{name}: a key of the file", "", *map(hanging, lines)]) if lines else ""


def _place_text(place: TablePlace) -> str:
    """Return the title, the description and the keys of a table."""
    keys = ["keys:", *describe_keys(place.members)] if place.members else ["no keys"]
    return "\n".join([place.title, "", filled(place.doc), "", *keys])


def _choice_texts(places: list[TablePlace]) -> Iterator[str]:
    """Yield the names of the keys that each value of a selector adds, such as `task = "custom": model, loss`, and a note on them."""
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
    """Return a paragraph filled to WIDTH. Unlike `filled`, it breaks no word, so that commands and links stay whole."""
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
