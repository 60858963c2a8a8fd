"""Tables of the file and their keys: `dpcli explain train.clipping`, and `dpcli explain adaptive` for the keys that one word selects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.explain.wrapped import filled, hanging
from dpcli.file.keys.annotations import describe_keys
from dpcli.file.pipeline.key_places import every_table, places_of
from dpcli.file.pipeline.section import TablePlace


@cache
def table_paths() -> tuple[str, ...]:
    """The dotted key of every table of a file."""
    return tuple(dict.fromkeys(place.path for place in every_table() if place.path))


def of_table(path: str) -> str:
    """The tables with this dotted key: their own keys in full, those that a word selects by name; "" where there are none."""
    places = [place for place in every_table() if place.path == path]
    plain = [_whole(place) for place in places if not place.word]
    return "\n\n".join([*plain, *_choices([place for place in places if place.word])])


def of_word(word: str) -> str:
    """What a word that selects the keys of a table means, those keys, and the premises of a mechanism or a sampling scheme."""
    return "\n\n".join([*(_whole(place) for place in every_table() if place.word == word), *_premises(word)])


def _premises(word: str) -> Iterator[str]:
    if target := {**MECHANISMS, **SAMPLING}.get(word):
        yield "\n".join(["premises:", *(hanging(str(premise)) for premise in load(target).premises)])


def of_key(name: str) -> str:
    """A key by its name alone, wherever it stands, or with the dotted key of its table; "" where no table has it."""
    path, _, key = name.rpartition(".")
    lines = places_of(key, path or None)
    return "\n".join([f"{name}: a key of the file", "", *map(hanging, lines)]) if lines else ""


def _whole(place: TablePlace) -> str:
    keys = ["keys:", *describe_keys(place.members)] if place.members else ["no keys of its own"]
    return "\n".join([place.title, "", filled(place.doc), "", *keys])


def _choices(places: list[TablePlace]) -> Iterator[str]:
    if places:
        yield "\n".join(["further keys:", *(hanging(f"{place.choice}: {', '.join(place.members) or 'none'}") for place in places)])
        yield filled(
            "A key that another of these words selects is refused, even where it states its default. dpcli explain WORD has more."
        )
