"""Searches for keys, values and words in sections such as [train], and in descriptions, for the rules of the other files.

A *section* is a table that describes a run for one command (dpcli/file/pipeline/section.py). It may have keys of other libraries, which
dpcli does not know: a rule recognises them by their *normalized* names, in lower case with underscores for hyphens and spaces. A note in a
table `covers` says that the accounting covers a choice, which silences some rules (`has_cover_note`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import RuleFinding

# Sections of commands that publish results, unlike [audit].
RELEASING = ("train", "pate", "pmixed", "prompt", "generate", "federated")
PROSE = frozenset({"description", "note", "notes", "comment", "covers"})  # keys with free text, which are not searched
OFF = frozenset({"", "no", "none", "off", "never", "false", "disabled"})  # texts that switch a setting off


class SectionKey(NamedTuple):
    """A key of a section or of an inner table, with its normalized name."""

    path: Path
    name: str
    value: Any


def settings(pipeline: Pipeline, *sections: str) -> Iterator[SectionKey]:
    """Yield every key of these sections, or of those in RELEASING if none is named. Keys of PROSE are left out."""
    for section, table in pipeline.sections:
        if section in (sections or RELEASING):
            yield from _keys_inside((section,), table)


def _keys_inside(path: Path, table: Mapping[str, Any]) -> Iterator[SectionKey]:
    for key, value in table.items():
        name = normalized(key)
        if name in PROSE:
            continue
        yield SectionKey((*path, key), name, value)
        if isinstance(value, Mapping):
            yield from _keys_inside((*path, key), value)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, Mapping):
                yield from _keys_inside((*path, key, index), item)


def normalized(word: str) -> str:
    """Return a text in lower case, with underscores for its hyphens and inner spaces: `" Early-Stopping" -> "early_stopping"`."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def is_on(value: Any) -> bool:
    """Return whether a setting is switched on. 0, false, the texts in OFF and empty values switch it off."""
    return bool(value) and not (isinstance(value, str) and normalized(value) in OFF)


def words_in(value: Any) -> Iterator[str]:
    """Yield a value that is a text, or the texts in a list, normalized. Nested lists, tables and numbers yield nothing."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield normalized(item)


def mentions(pattern: str, *texts: str | None) -> bool:
    """Return whether the pattern occurs in one of the texts, in upper or lower case."""
    return any(text is not None and re.search(pattern, text, re.IGNORECASE) is not None for text in texts)


def entry_mentions(pattern: str, entry: Entry) -> bool:
    """Return whether the pattern occurs in the description of a mechanism, or in its name with spaces for hyphens and underscores."""
    return mentions(pattern, re.sub("[-_]", " ", entry.name), entry.description)


def has_cover_note(pipeline: Pipeline, *notes: str) -> bool:
    """Return whether the `covers` table of any section has one of these notes, switched on."""
    for _, section in pipeline.sections:
        for key, table in section.items():
            is_covers = normalized(key) == "covers" and isinstance(table, Mapping)
            if is_covers and any(normalized(note) in notes and is_on(value) for note, value in table.items()):
                return True
    return False


def findings_where_on(pipeline: Pipeline, keys: frozenset[str], message: str, *sections: str) -> Iterator[RuleFinding]:
    """Yield a finding with the message for each of `keys` that is switched on in the sections; in those of RELEASING if none is named."""
    return findings_where(pipeline, keys, is_on, message, *sections)


def findings_where(
    pipeline: Pipeline, keys: frozenset[str], is_wrong: Callable[[Any], bool], message: str, *sections: str
) -> Iterator[RuleFinding]:
    """Yield a finding for each of `keys` in the sections whose value is wrong.

    Args:
        keys: Normalized names of keys.
        sections: The names of the sections; those in RELEASING if none is named.
    """
    for path, name, value in settings(pipeline, *sections):
        if name in keys and is_wrong(value):
            yield RuleFinding(path, message)


def names_one_of(*wanted: str) -> Callable[[Any], bool]:
    """Return a function that returns whether a value is one of these normalized words, or a list that contains one."""
    known = frozenset(wanted)
    return lambda value: not known.isdisjoint(words_in(value))


# Keys of [train] in the example files of rules. OF_TEXT replaces and adds those of a language model.
TRAINED = {"task": '"classification"', "data": '"digits"', "clipping": "{ norm = 1.0 }", "learning_rate": "0.5"}
OF_TEXT = {"task": '"causal-lm"', "data": '"mails.txt"', "model": '"gpt2"'}


def train_section(keys: Mapping[str, str]) -> str:
    """Return the text of a [train] table for an example file, with the required keys and `keys`. Values are TOML texts."""
    return "\n[train]\n" + "".join(f"{key} = {value}\n" for key, value in {**TRAINED, **keys}.items())
