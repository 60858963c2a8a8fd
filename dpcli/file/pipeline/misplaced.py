"""Advice about an unknown key of a pipeline file: the key that was meant, the table to which it belongs, or why no such key exists.

An unknown key always refuses the file, and the advice only helps to correct it. So the limits here affect messages, and what `dpcli lint
--fix` may repair. The reader calls `advice` (through canonical.py) with the key and the keys of its table. The advice is sought in this
order: a stated reason (such as NO_NORM), a nearly equal key of the same table, the same key in another table, the word of another tool
(SYNONYMS), and less similar keys last. An `Advice` has the key of the same table that was probably meant, if any, and the words for the
end of the message; the reader does not report as well that the meant key is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from dpcli.base.registry import SECTIONS
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.gate_keys import Gate, Horizon, Waiver
from dpcli.file.pipeline.model import Budget, Disclosure, Entry, Privacy
from dpcli.file.pipeline.section import MECHANISM_TYPES, SAMPLING_SCHEMES, SectionTable, TablePlace, places_in
from dpcli.file.toml.findings import Advice
from dpcli.file.toml.suggest import SYNONYMS, closest, closest_short

ANY_TYPE = "a mechanism"  # the title under which `keys_by_table` has the keys of all mechanism types
# Common options of text generation, and the reasons why the decoding mechanisms have none of them.
DECODING_OPTIONS = frozenset({"top_k", "top_p", "greedy", "do_sample", "num_beams", "nucleus"})
NONE_IN_PMIXED = (
    "a token is drawn from the whole average of the projected models; a cut-off or a maximum would read the models once more, or would be "
    "a different release from the accounted one; temperature is applied before projection"
)
NONE_IN_PRIVATE_DECODING = (
    "a token is drawn from the whole vocabulary, by its clipped and averaged logits; a cut-off or a maximum would be a different release "
    "from the accounted one; temperature is a key of the private-decoding entry"
)
NORMS = "c clip clip_norm clipping clipping_norm clipping_threshold l2_clip l2_norm_clip max_grad_norm max_norm norm"
NAMES_OF_NORM = frozenset(NORMS.split())
NO_NORM = (
    "epsilon does not depend on the clipping norm, because noise_multiplier is noise / norm; for dpcli train, state the norm as [train] "
    "clipping = { norm = ... }"
)
# Keys of some mechanism types, each with its name in most other types. The latter is advised if the table has it.
USUAL_NAMES = {"queries": "steps", "l1_sensitivity": "sensitivity"}
NEARLY_EQUAL = 0.9  # smallest similarity, as difflib measures it, of a key of the same table that is preferred to all other tables
MOST_TYPES = 3  # largest number of mechanism types that the advice names


def advice(key: str, known: Iterable[str], top: frozenset[str]) -> Advice:
    """Return advice about an unknown key; with the words "" if there is none.

    Args:
        known: The keys that are allowed in its place.
        top: The keys at the top of a file.
    """
    keys = list(known)
    reason = _why_absent(key.replace("-", "_"), set(keys))
    if reason:
        return Advice(meant=None, words=reason)
    meant = USUAL_NAMES[key] if USUAL_NAMES.get(key) in keys else closest(key, keys, cutoff=NEARLY_EQUAL)
    places = "" if meant else _places(key, top)
    if places:
        return Advice(meant=None, words=f"it belongs in {places}")
    meant = meant or closest(key, keys)  # `closest` knows synonyms, too, but only those that are keys of this table
    for synonym in SYNONYMS.get(key, ()):
        if synonym not in keys:
            return Advice(meant=None, words=f"did you mean '{synonym}' in {_places(synonym, top)}")
    meant = meant or closest_short(key, keys)
    if meant:
        return Advice(meant, words=f"did you mean '{meant}'")
    key_elsewhere = closest(key, [name for names in keys_by_table(top).values() for name in names])
    return Advice(meant=None, words=f"did you mean '{key_elsewhere}' in {_places(key_elsewhere, top)}" if key_elsewhere else "")


def _why_absent(key: str, keys: set[str]) -> str:
    """Return the reason why a table with these keys has no key that other programs have; "" for other keys.

    The table is recognised by some of its keys, since the caller knows nothing else of it.
    """
    if key in DECODING_OPTIONS and {"temperature", "projection"} <= keys:  # the section [pmixed]
        return NONE_IN_PMIXED
    if key in DECODING_OPTIONS and {"method", "tokens"} <= keys:  # the section [generate]
        return NONE_IN_PRIVATE_DECODING
    if key.lower() in NAMES_OF_NORM - keys and "noise_multiplier" in keys:
        return NO_NORM
    return ""


def _places(key: str, top: frozenset[str]) -> str:
    """Return the tables and mechanism types that have a key, such as "[budget] or a mechanism of type zcdp"; "" if none has it.

    Sections are searched last, since that imports the classes of all sections.
    """
    types = [name for name in MECHANISM_TYPES.registry if key in MECHANISM_TYPES.class_members(name)]
    places = [title for title, keys in keys_by_table(top).items() if key in keys and title != ANY_TYPE]
    if not places and not types:
        places = [place.title for name in SECTIONS for place in _section(name) if key in place.members]
    if types:
        more = ", ..." if len(types) > MOST_TYPES else ""
        places.append(f"a mechanism of type {', '.join(types[:MOST_TYPES])}{more}")
    return " or ".join(places)


@functools.cache  # cached, because a file may have hundreds of unknown keys
def _section(name: str) -> tuple[TablePlace, ...]:
    """Return the table of a section, and its inner tables."""
    return tuple(places_in(SectionTable(name), name, f"[{name}]"))


@functools.cache
def keys_by_table(top: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """Return the keys of every table of the format, by the table's title."""
    tables = {
        "[privacy]": members_of(Privacy),
        "[budget]": members_of(Budget),
        "[gate]": members_of(Gate),
        "[[gate.waiver]]": members_of(Waiver).keys() - {"epsilon"},  # an unknown `epsilon` rather belongs in [budget]
        "horizon = { ... }": members_of(Horizon).keys() - {"epsilon"},
        "[disclosure]": members_of(Disclosure),
        "sampling = { ... }": SAMPLING_SCHEMES.all_members(),
        "[[mechanism]]": members_of(Entry),
        ANY_TYPE: MECHANISM_TYPES.all_members(),
        "the top of the file": top,
    }
    return {title: frozenset(keys) for title, keys in tables.items()}
