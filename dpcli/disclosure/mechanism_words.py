"""A mechanism of the file in words for a disclosure: its keys, and what its noise is measured against.

An *entry* is a [[mechanism]] table of the file, and its *spec* is the object that holds the keys of its type. item_answers.py puts these
words into answers, which stay on a readable line: long values are cut, and of long lists only the first words are named. A long number is
rounded towards less privacy.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dpcli.document.short_numbers import rounded_key
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.parts import part_names

# Both are arbitrary, and affect what is shown alone.
MOST_LISTED = 8  # largest number of mechanisms, or other words, that one line lists
LONGEST_VALUE = 60  # largest number of characters of a key's value in one line


def noise_reference(entry: Entry) -> str:
    """Return in words the sensitivity or the bound that the noise of an entry is measured against.

    A type of mechanism has only some of these keys, and the first one that it has decides.
    """
    stated = getattr(entry.spec, "sensitivity", None)
    if stated is not None:
        return f"sensitivity {_value_text(stated)} under the file's adjacency, as stated"
    norm = getattr(entry.spec, "l2_sensitivity", None)
    if norm is not None:
        return f"L2 sensitivity {_value_text(norm)} under the file's adjacency, as stated"
    if getattr(entry.spec, "noise_multiplier", None) is not None:
        return "noise_multiplier over the bound C on one record's contribution"
    if part_names(entry.spec):
        return f"stated by its parts: {listing(part_names(entry.spec))}"
    return "its privacy parameters are stated directly" if reads_private_data(entry) else "reads no private data"


def reads_private_data(entry: Entry) -> bool:
    """Return whether an entry reads private data. An entry without parameters is post-processing."""
    return bool(_keys(entry))


def _keys(entry: Entry) -> tuple[str, ...]:
    """Return the names of the keys of an entry's type, whether or not the file states them."""
    spec_type: type = type(entry.spec)
    return tuple(members_of(spec_type))


def parameters(entry: Entry) -> str:
    """Return in words the keys of a mechanism whose values differ from their defaults; "" if there are none."""
    defaults = {field.name: field.default for field in dataclasses.fields(type(entry.spec))}  # type: ignore[arg-type]
    words = []
    for name in _keys(entry):
        value = getattr(entry.spec, name)
        if value is not None and value != defaults[name]:
            words.append(f"{name} = {short_value(value, name)}")
    return f" ({', '.join(words)})" if words else ""


def short_value(value: Any, name: str = "") -> str:
    """Return the text of a value, cut to LONGEST_VALUE characters. name: key of the value; "" for an unknown key."""
    text = _value_text(value, name)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _value_text(value: Any, name: str = "") -> str:
    """Return a value in the syntax of the file. A long number is rounded to the safe side.

    name: key of the value, which determines the safe side; "" for an unknown key.
    """
    if dataclasses.is_dataclass(value):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        pairs = [f"{key} = {_value_text(item, key)}" for key, item in fields if item is not None]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_value_text(item, name) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return rounded_key(name, value)
    return f"{value:,}" if type(value) is int else str(value)


def listing(words: list[str], separator: str = ", ") -> str:
    """Return the first MOST_LISTED words, joined, and the number of other words; "none" if there are no words."""
    more = [f"and {len(words) - MOST_LISTED:,} more"] if len(words) > MOST_LISTED else []
    return separator.join([*words[:MOST_LISTED], *more]) or "none"
