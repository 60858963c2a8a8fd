"""What a reader of private records says of one that is wrong: the same wherever it stands, whatever it is, however many there are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.predict.models.texts import TextSource, owned_texts
from dpcli.predict.pate.records import inputs_of, labels_of, read_records
from dpcli.predict.pate.vote_files import table_of
from dpcli.predict.prompt.prompt_teachers import labelled
from dpcli.predict.vote_counts import counted, vote_counts

PROMPT: Any = SimpleNamespace(text="text", label="label", labels=("no", "yes"))


def of_prompt(place: Path) -> object:
    return labelled(place.name, PROMPT, str(place.parent / "file.toml"), "data", "user")


def of_texts(place: Path) -> object:
    """As pmixed and generate read them."""
    units = None if place.suffix == ".txt" else "user"
    return owned_texts(TextSource(place.name, str(place.parent / "file.toml"), "pmixed.data", "text", units))


def of_pate(place: Path) -> object:
    found = read_records(place.name, (), "label", True, str(place.parent / "file.toml"))
    inputs = inputs_of(found, 0.0, "pate.data")
    return labels_of(found, 2, "pate.data", len(inputs))


def of_counts(place: Path) -> object:
    return vote_counts(table_of(str(place)), 5, 3, "pate.votes")


def of_labels(place: Path) -> object:
    return counted(table_of(str(place)), 3, 3, "pate.votes")


def word(chance: random.Random) -> str:
    """No number, whatever is drawn."""
    return f"x{chance.randbytes(4).hex()}"


def texts(chance: random.Random) -> list[Any]:
    return [word(chance), "no", f"u{chance.randrange(99)}"]


def numbers(chance: random.Random) -> list[Any]:
    return [chance.random(), chance.random(), chance.randrange(2)]


def counts(chance: random.Random) -> list[Any]:
    first = chance.randrange(6)
    return [first, 5 - first, 0]


def csv(names: tuple[str, ...] | None) -> Callable[[list[list[Any]]], bytes]:
    head = [] if names is None else [",".join(names)]
    return lambda rows: "\n".join([*head, *(",".join(map(str, row)) for row in rows), ""]).encode("utf-8", "surrogateescape")


def jsonl(rows: list[list[Any]]) -> bytes:
    """A row of one value stands there as it is."""
    lines = [row[0] if len(row) == 1 else json.dumps(dict(zip(("text", "label", "user"), row, strict=False))) for row in rows]
    return "\n".join([*map(str, lines), ""]).encode("utf-8", "surrogateescape")


def plain(rows: list[list[Any]]) -> bytes:
    return "\n".join(str(row[0]) for row in rows).encode("utf-8", "surrogateescape")


TEXTS, RECORDS = csv(("text", "label", "user")), csv(("a", "b", "label"))
ODD = "\udcff"  # a byte that is no UTF-8
# Reader, ending, how a row is made and the file written, and a row that is wrong.
WRONG: dict[str, tuple[Any, str, Any, Any, Callable[[random.Random], list[Any]]]] = {
    **{
        f"{name} {what}{ending}": (reader, ending, texts, write, wrong)
        for name, reader in (("prompt", of_prompt), ("texts", of_texts))
        for ending, write, what, wrong in (
            (".csv", TEXTS, "a short row", lambda chance: [word(chance)]),
            (".csv", TEXTS, "a long row", lambda chance: [*texts(chance), chance.random()]),
            (".csv", TEXTS, "an open quote", lambda chance: ['"' + word(chance), "no", "u1"]),
            (".csv", TEXTS, "another encoding", lambda chance: [word(chance) + ODD, "no", "u1"]),
            (".jsonl", jsonl, "no json", lambda chance: ["{" + word(chance)]),
            (".jsonl", jsonl, "a list", lambda chance: [f"[{chance.random()}]"]),
            (".jsonl", jsonl, "no text", lambda chance: [json.dumps({"label": "no", "user": word(chance)})]),
            (".jsonl", jsonl, "an owner of another type", lambda chance: ["some text", "no", chance.randrange(10**6)]),
            (".jsonl", jsonl, "another encoding", lambda chance: [word(chance) + ODD, "no", "u1"]),
        )
        if not (ending == ".jsonl" and "encoding" in what)
    },
    "prompt another label.csv": (of_prompt, ".csv", texts, TEXTS, lambda chance: ["a", word(chance), "u1"]),
    "prompt no owner.csv": (of_prompt, ".csv", texts, TEXTS, lambda chance: [word(chance), "no", ""]),
    "texts another encoding.txt": (of_texts, ".txt", texts, plain, lambda chance: [word(chance) + ODD]),
    "pate a short row.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [chance.random()]),
    "pate a word.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [word(chance), 0.5, 1]),
    "pate infinity.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: ["inf", chance.random(), 1]),
    "pate another label.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [0.5, 0.5, chance.randrange(2, 10**6)]),
    "pate half a label.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [0.5, 0.5, chance.random() / 2 + 0.1]),
    "counts another sum.csv": (of_counts, ".csv", counts, csv(None), lambda chance: [chance.randrange(6, 99), 0, 0]),
    "counts below zero.csv": (of_counts, ".csv", counts, csv(None), lambda chance: [-chance.randrange(1, 99), 5, 0]),
    "counts half a vote.csv": (of_counts, ".csv", counts, csv(None), lambda chance: [4.0 + chance.random() / 2 + 0.1, 1, 0]),
    "counts a short row.csv": (of_counts, ".csv", counts, csv(None), lambda chance: [chance.randrange(6)]),
    "counts a word.csv": (of_counts, ".csv", counts, csv(None), lambda chance: [word(chance), 5, 0]),
    "labels another.csv": (of_labels, ".csv", lambda chance: [0, 1, 2], csv(None), lambda chance: [chance.randrange(3, 99), 1, 1]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_said_of_a_record_tells_neither_where_it_stands_nor_what_it_is(name: str, tmp_path: Path) -> None:
    reader, ending, row, write, wrong = WRONG[name]
    seed = random.SystemRandom().randrange(2**32)
    chance, said = random.Random(seed), []
    for _ in range(4):
        rows = [row(chance) for _ in range(chance.randrange(5, 40))]
        rows.insert(chance.randrange(1, len(rows)), wrong(chance))
        (tmp_path / f"private{ending}").write_bytes(write(rows))
        with pytest.raises(InputError) as refused:
            reader(tmp_path / f"private{ending}")
        said.append(str(refused.value))
    assert len({*said}) == 1, (seed, said)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_the_same_of_arrays(ending: str, tmp_path: Path) -> None:
    said = []
    for place, count, value in ((1, 9, np.nan), (7, 30, np.nan)):
        table = np.zeros((count, 3))
        table[:, 0] = 5.0
        table[place, 1] = value
        path = tmp_path / f"private{ending}"
        if ending == ".npy":
            np.save(path, table)
        else:
            np.savez(path, inputs=table, labels=np.zeros(count, dtype=int))
        with pytest.raises(InputError) as refused:
            (of_counts if ending == ".npy" else of_pate)(path)
        said.append(str(refused.value))
    assert said[0] == said[1]
