"""Searches in [train] and its siblings for rules: by key, by value, by words of a description.

Case, hyphens, underscores and spaces of keys and words make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import RuleFinding

RELEASING = ("train", "pate", "pmixed", "prompt", "generate", "federated")  # [audit] publishes nothing of its own
PROSE = frozenset({"description", "note", "notes", "comment", "covers"})
OFF = frozenset({"", "no", "none", "off", "never", "false", "disabled"})


def settings(pipeline: Pipeline, *sections: str) -> Iterator[tuple[Path, str, Any]]:
    """Yield path, normalized name and value of every key of these sections (default: RELEASING), inner tables included."""
    for section, table in pipeline.sections:
        if section in (sections or RELEASING):
            yield from _keys_inside((section,), table)


def _keys_inside(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[Path, str, Any]]:
    for key, value in table.items():
        name = normalized(key)
        if name in PROSE:
            continue
        yield (*path, key), name, value
        if isinstance(value, Mapping):
            yield from _keys_inside((*path, key), value)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, Mapping):
                yield from _keys_inside((*path, key, index), item)


def normalized(word: str) -> str:
    """Return the word in lower case, joined by underscores."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def is_on(value: Any) -> bool:
    """Return whether a setting is switched on: 0, false, "off" and empty values are not."""
    return bool(value) and not (isinstance(value, str) and normalized(value) in OFF)


def words_in(value: Any) -> Iterator[str]:
    """Yield the normalized words of a value: one for text, several for a list, none for numbers and tables."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield normalized(item)


def mentions(pattern: str, *texts: str | None) -> bool:
    """Return whether a text matches the pattern, in any case."""
    return any(text is not None and re.search(pattern, text, re.IGNORECASE) is not None for text in texts)


def entry_mentions(pattern: str, entry: Entry) -> bool:
    """Return whether a mechanism's name, hyphens read as spaces, or its description matches the pattern."""
    return mentions(pattern, re.sub("[-_]", " ", entry.name), entry.description)


def has_cover_note(pipeline: Pipeline, *notes: str) -> bool:
    """Return whether a section's `covers` table has one of these notes."""
    tables = [value for _, table in pipeline.sections for key, value in table.items() if normalized(key) == "covers"]
    return any(
        normalized(key) in notes and is_on(value) for table in tables if isinstance(table, Mapping) for key, value in table.items()
    )


def findings_where_on(pipeline: Pipeline, keys: frozenset[str], message: str, *sections: str) -> Iterator[RuleFinding]:
    """Yield a finding for each of `keys` that is switched on."""
    return findings_where(pipeline, keys, is_on, message, *sections)


def findings_where(
    pipeline: Pipeline, keys: frozenset[str], wrong: Callable[[Any], bool], message: str, *sections: str
) -> Iterator[RuleFinding]:
    """Yield a finding for each of `keys` whose value is wrong."""
    for path, name, value in settings(pipeline, *sections):
        if name in keys and wrong(value):
            yield RuleFinding(path, message)


def names_one_of(*wanted: str) -> Callable[[Any], bool]:
    """Return a test whether a value is, or lists, one of these words."""
    known = frozenset(wanted)
    return lambda value: not known.isdisjoint(words_in(value))


TRAINED = {"task": '"classification"', "data": '"digits"', "clipping": "{ norm = 1.0 }", "learning_rate": "0.5"}
OF_TEXT = {"task": '"causal-lm"', "data": '"mails.txt"', "model": '"gpt2"'}


def train_section(keys: Mapping[str, str]) -> str:
    """Return the text of a [train] table with these keys and the required ones, for an example; values as TOML."""
    return "\n[train]\n" + "".join(f"{key} = {value}\n" for key, value in {**TRAINED, **keys}.items())
