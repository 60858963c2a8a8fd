"""The sections that other commands read, [train] and its siblings, as far as rules look into them.

Keys and words count as the same whatever their case and whether they are joined by hyphens, underscores or spaces.
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
    """Every key of these sections (default: those that release something), inner tables included: path, spelled name, value."""
    for section, table in pipeline.sections:
        if section in (sections or RELEASING):
            yield from _inside((section,), table)


def _inside(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[Path, str, Any]]:
    for key, value in table.items():
        name = spelled(key)
        if name in PROSE:
            continue
        yield (*path, key), name, value
        if isinstance(value, Mapping):
            yield from _inside((*path, key), value)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, Mapping):
                yield from _inside((*path, key, index), item)


def spelled(word: str) -> str:
    """Return one spelling for words that differ in case and joints only."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def on(value: Any) -> bool:
    """Return whether a setting is switched on: 0, false, "off" and empty values are not."""
    return bool(value) and not (isinstance(value, str) and spelled(value) in OFF)


def words(value: Any) -> Iterator[str]:
    """Yield the words that a value consists of, spelled alike: one for text, several for a list, none for numbers and tables."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield spelled(item)


def says(pattern: str, *texts: str | None) -> bool:
    """Return whether one of the texts has the words, in any case."""
    return any(text is not None and re.search(pattern, text, re.IGNORECASE) is not None for text in texts)


def worded(pattern: str, entry: Entry) -> bool:
    """Return whether a mechanism's name, its joints read as spaces, or its description has the words."""
    return says(pattern, re.sub("[-_]", " ", entry.name), entry.description)


def covered(pipeline: Pipeline, *notes: str) -> bool:
    """Return whether a section's `covers` table has one of these notes."""
    tables = [value for _, table in pipeline.sections for key, value in table.items() if spelled(key) == "covers"]
    return any(
        spelled(key) in notes and on(value) for table in tables if isinstance(table, Mapping) for key, value in table.items()
    )


def switched_on(pipeline: Pipeline, keys: frozenset[str], message: str, *sections: str) -> Iterator[RuleFinding]:
    """A finding for each of `keys` that is switched on."""
    return chosen(pipeline, keys, on, message, *sections)


def chosen(
    pipeline: Pipeline, keys: frozenset[str], wrong: Callable[[Any], bool], message: str, *sections: str
) -> Iterator[RuleFinding]:
    """A finding for each of `keys` whose value is wrong."""
    for path, name, value in settings(pipeline, *sections):
        if name in keys and wrong(value):
            yield RuleFinding(path, message)


def one_of(*wanted: str) -> Callable[[Any], bool]:
    """Return a check that a value is, or lists, one of these words."""
    known = frozenset(wanted)
    return lambda value: not known.isdisjoint(words(value))


TRAINED = {"task": '"classification"', "data": '"digits"', "clipping": "{ norm = 1.0 }", "learning_rate": "0.5"}
OF_TEXT = {"task": '"causal-lm"', "data": '"mails.txt"', "model": '"gpt2"'}


def section(keys: Mapping[str, str]) -> str:
    """A [train] for an example: these keys, beside those that it cannot do without; values as TOML."""
    return "\n[train]\n" + "".join(f"{key} = {value}\n" for key, value in {**TRAINED, **keys}.items())
