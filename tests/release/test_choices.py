"""What is chosen leaves alone: with the choice held fast, nothing of an answer depends on the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dpcli.release.aggregate import Total
from dpcli.release.noise import selection
from tests.release.files import COLUMNS, document, priced, queries

CHOOSING = {"exponential", "permute-and-flip"}


def chosen(table: Mapping[str, Any]) -> list[Any]:
    """The question of a table with its setting, where all that it releases is a choice."""
    return [one for one in priced(document(table)) if {release.type for release in one.releases} <= CHOOSING]


CHOICES = [(name, table) for name, table in queries() if chosen(table)]


def held(scores: Sequence[int], *_: Any) -> int:
    return len(scores) // 2


def first(scores: Sequence[int], k: int, *_: Any) -> list[int]:
    return list(range(k))


@pytest.mark.parametrize(("name", "table"), CHOICES, ids=[name for name, _ in CHOICES])
def test_an_answer_tells_what_was_chosen_and_nothing_else(
    name: str, table: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for choose, instead in (("exponential", held), ("permute_and_flip", held), ("top_k", first)):
        monkeypatch.setattr(selection, choose, instead)
    (one,) = chosen(table)
    keys: list[Any] = COLUMNS[table["column"]].get("domain") or list(range(20, 60))
    answers = [
        one.query.answer(one.setting, {(key,): Total(count, count, ()) for count, key in enumerate(keys, start)})
        for start in (1, 1000)
    ]
    assert repr(answers[0]) == repr(answers[1])


def test_every_measure_that_chooses_is_asked() -> None:
    assert {name.rpartition("-")[0] for name, _ in CHOICES} >= {"mode", "quantile", "top-k"}
