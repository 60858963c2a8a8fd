"""Files of votes and of private records: what is none is refused by name, in every format, without a word of what stands in it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.predict.models.texts import TextSource, owned_texts
from dpcli.predict.pate import vote_files
from dpcli.predict.pate.pate_plan import Pate
from dpcli.predict.pate.record_columns import inputs_of, labels_of, read_records
from dpcli.predict.pate.vote_files import read_table, votes_of
from dpcli.predict.prompt.demonstrations import labelled_texts
from dpcli.predict.vote_counts import counts_of_labels, vote_counts
from tests.cases import fresh_random, of_each
from tests.command import dpcli
from tests.predict.samples import CLASSES, TEACHERS, counts, saved, written

FORMATS = ["npy", "csv", pytest.param("parquet", marks=pytest.mark.needs("pyarrow"))]
Table = Any


def stored(table: Table, path: Path) -> None:
    match path.suffix:
        case ".npy":
            np.save(path, table)
        case ".csv":
            np.savetxt(path, np.asarray(table), delimiter=",", fmt="%s")
        case ".parquet":
            import pyarrow
            import pyarrow.parquet

            columns = {f"c{k}": column for k, column in enumerate(np.asarray(table).T)}
            pyarrow.parquet.write_table(pyarrow.table(columns), path)


def read(table: Table, path: Path, rows: str = "counts") -> Any:
    stored(table, path)
    return votes_of(Pate(teachers=TEACHERS, classes=CLASSES, votes=path.name, vote_rows=rows), str(path.parent / "a.toml"))  # type: ignore[arg-type]


def changed(value: float, row: int = 17, column: int = 3) -> Table:
    answer = counts().astype(float)
    answer[row, column] = value
    return answer


def labels(queries: int = 60) -> Table:
    """Return what each teacher says, (queries, teachers)."""
    return np.stack([np.repeat(np.arange(CLASSES), row) for row in counts(queries)])


WRONG: dict[str, tuple[Callable[[], Table], str]] = {
    "nan": (lambda: changed(np.nan), "expected finite counts, found NaN or inf in some row"),
    "infinite": (lambda: changed(np.inf), "expected finite counts, found NaN or inf in some row"),
    "negative": (lambda: changed(-1.0), "expected counts >= 0, found a negative count in some row"),
    "fraction": (lambda: changed(0.5), "expected whole counts, found a fraction in some row"),
    "another sum": (lambda: changed(77.0), "expected counts that add up to 250 teachers, found another sum in some row"),
    "one teacher less": (
        lambda: counts() - (np.arange(CLASSES) == 0) * (np.arange(60) == 0)[:, None],
        "found another sum in some row",
    ),
    "labels of all teachers": (labels, 'found labels: if each row has the label from each teacher, set vote_rows = "labels"'),
    "one column of labels": (
        lambda: np.arange(60.0)[:, None] % CLASSES,
        'found one column: if each row has the label from each teacher, set vote_rows = "labels"',
    ),
    "one class": (lambda: np.full((60, 1), TEACHERS), "expected 10 columns, one for each label, found one"),
    "a column too many": (lambda: np.hstack([np.zeros((60, 1)), counts()]), "expected 10 columns, one for each label, found 11"),
}


@pytest.mark.parametrize("ending", FORMATS)
@of_each("name", WRONG)
def test_what_are_no_counts_is_refused_by_name(name: str, ending: str, tmp_path: Path) -> None:
    make, message = WRONG[name]
    with pytest.raises(InputError) as refused:
        read(make(), tmp_path / f"votes.{ending}")
    assert message in str(refused.value)
    shown = str(refused.value).replace(str(tmp_path), "")
    assert not any(secret in shown for secret in ("0.5", "77", "1e+300", "-1", "nan"))


@pytest.mark.parametrize("ending", FORMATS)
@of_each("kind", [np.int64, np.float64, np.float32, np.uint8])
def test_counts_are_what_stands_there(ending: str, kind: Any, tmp_path: Path) -> None:
    assert np.array_equal(read(counts().astype(kind), tmp_path / f"votes.{ending}").counts, counts())


@pytest.mark.parametrize("ending", FORMATS)
def test_labels_that_are_said_to_be_some_are_counted(ending: str, tmp_path: Path) -> None:
    assert np.array_equal(read(labels(), tmp_path / f"votes.{ending}", "labels").counts, counts())


LABELLED = {
    "counts": (counts, "expected 250 columns, one for the label from each teacher, found 10"),
    "beyond the last": (lambda: labels() + 1, "expected labels from 0 to 9, found another label in some row"),
    "negative": (lambda: labels() - 1, "expected labels from 0 to 9, found another label in some row"),
    "fractions": (lambda: labels() / 2.0, "expected whole numbers as labels, found another value in some row"),
    "nan": (
        lambda: np.where(np.arange(TEACHERS) == 7, np.nan, labels()),
        "expected whole numbers as labels, found another value in some row",
    ),
}


@of_each("name", LABELLED)
def test_what_are_no_labels_is_refused_by_name(name: str) -> None:
    make, message = LABELLED[name]
    with pytest.raises(InputError, match=message):
        counts_of_labels(make(), TEACHERS, CLASSES, "votes.npy")


ODD: dict[str, bytes | Callable[[Path], None]] = {
    "empty.npy": b"",
    "empty.csv": b"",
    "empty.parquet": b"",
    "no-rows.csv": b"a,b,c\n",
    "text.csv": b"a,b\nsecret,words\n",
    "ragged.csv": b"1,2\n3,4,5\n",
    "another-encoding.csv": "1,2\n\xe9,4\n".encode("latin-1"),
    "not-one.npy": b"\x93NUMPY\x01\x00v\x00 nothing",
    "not-one.parquet": b"PAR1 secret",
    "folder.npy": lambda path: path.mkdir(),
    "pipe.npy": lambda path: os.mkfifo(path),
    "device.csv": lambda path: path.symlink_to("/dev/zero"),
    "missing.npy": lambda path: None,
    "objects.npy": lambda path: np.save(path, np.array([[1, "secret"]], dtype=object), allow_pickle=True),
    "texts.npy": lambda path: np.save(path, np.array([["1", "secret"]])),
    "a-line.npy": lambda path: np.save(path, np.arange(60)),
    "a-cube.npy": lambda path: np.save(path, np.ones((2, 3, 4))),
    "nothing.npy": lambda path: np.save(path, np.ones((0, CLASSES))),
    "too-large.npy": lambda path: claimed(path, (10**7, CLASSES + 1)),
    "more-than-it-holds.npy": lambda path: claimed(path, (10**12, CLASSES), False),
    "gigabytes.csv": lambda path: sparse(path, 2**31),
}


def claimed(path: Path, shape: tuple[int, ...], kept: bool = True) -> None:
    """A file whose header says that it has this shape, and whose holes are as long."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|i1", "fortran_order": False, "shape": shape})
        if kept:
            file.truncate(file.tell() + int(np.prod(shape)))


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


@of_each("name", [name for name in ODD if not name.endswith("parquet")])
def test_what_is_no_table_is_refused(name: str, tmp_path: Path) -> None:
    require_refused(name, tmp_path)


@pytest.mark.needs("pyarrow")
@of_each("name", [name for name in ODD if name.endswith("parquet")])
def test_what_is_no_table_of_parquet_is_refused(name: str, tmp_path: Path) -> None:
    require_refused(name, tmp_path)


def require_refused(name: str, tmp_path: Path) -> None:
    made = ODD[name]
    (tmp_path / name).write_bytes(made) if isinstance(made, bytes) else made(tmp_path / name)
    path = written(tmp_path, keys=f'votes = "{name}"')
    result = dpcli("pate", "account", str(path), folder=tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "expected" in result.err and "secret" not in result.err and "internal" not in result.err


def test_raw_labels_are_not_priced_as_counts(tmp_path: Path) -> None:
    """Taken for counts, they would look as if all teachers agreed."""
    saved(tmp_path, labels())
    path = written(tmp_path)
    refused = dpcli("pate", "account", str(path), folder=tmp_path)
    assert refused.code == 2 and 'vote_rows = "labels"' in refused.err
    stated = written(tmp_path, keys='votes = "votes.npy"\nvote_rows = "labels"')
    with_labels = dpcli("pate", "account", str(stated), "-f", "json", folder=tmp_path)
    saved(tmp_path)
    with_counts = dpcli("pate", "account", str(written(tmp_path)), "-f", "json", folder=tmp_path)
    assert with_labels.out.partition('"unsanitised')[2] == with_counts.out.partition('"unsanitised')[2] != ""


def test_labels_that_would_be_too_many_counts_are_refused() -> None:
    with pytest.raises(InputError, match="expected at most 100,000,000 counts, queries times labels, found 100,100,000"):
        counts_of_labels(np.zeros((1001, 1)), 1, 100_000, "votes")


def test_a_square_of_labels_is_refused_too() -> None:
    """With as many teachers as labels, what tells them apart is the sum of a row."""
    rows = np.random.default_rng(0).integers(0, 10, (50, 10))
    with pytest.raises(InputError, match="found labels"):
        vote_counts(rows, 10, 10, "votes.npy")


@pytest.mark.needs("pyarrow")
@of_each("kind", ["bool_", "string", "decimal128", "null"])
def test_columns_that_only_can_be_turned_into_numbers_are_none(kind: str, tmp_path: Path) -> None:
    import pyarrow as pa

    made = {
        "bool_": pa.array([True, False]),
        "string": pa.array(["250", "0"]),
        "decimal128": pa.array([250, 0]).cast(pa.decimal128(20, 0)),
        "null": pa.array([None, None]),
    }[kind]
    path = tmp_path / "votes.parquet"
    pa.parquet.write_table(pa.table({"a": made, "b": pa.array([0, 250])}), path)
    with pytest.raises(InputError, match="expected columns of numbers, found"):
        read_table(str(path))


@pytest.mark.needs("pyarrow")
def test_a_small_file_of_many_rows_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "votes.parquet"
    stored(np.zeros((1000, 3), dtype=int), path)
    import pyarrow.parquet

    monkeypatch.setattr(vote_files, "MOST_VALUES", 2999)
    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "read", lambda file: pytest.fail("it is read"))
    with pytest.raises(InputError, match="expected at most 2,999 numbers, found 3,000"):
        read_table(str(path))


@of_each("first", ["1,,2", "1,x,2", ",,", "", "a,1,b", " "])
@of_each("place", [0, 1])
def test_a_line_that_is_no_row_moves_no_other_to_another_query(first: str, place: int, tmp_path: Path) -> None:
    rows = ["4,0,0", "1,2,1"]
    rows.insert(place, first)
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match="expected rows of numbers separated by commas"):
        read_table(str(path))


@of_each("names", ["", "a,b,c\n"])
@of_each("end", ["", "\n"])
def test_the_names_of_columns_are_no_row(names: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(f"{names}4,0,0\n1,2,1{end}")
    assert read_table(str(path)).tolist() == [[4, 0, 0], [1, 2, 1]]


def test_a_first_line_that_may_be_the_default_names_of_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    for first in ("0,1,2", " 0, 1, 2"):
        path.write_text(f"{first}\n1,2,0\n")
        with pytest.raises(InputError, match=r"found the numbers from 0 to 2, which may be either"):
            read_table(str(path))
    path.write_text("a,b,c\n0,1,2\n1,2,0\n")
    assert read_table(str(path)).tolist() == [[0, 1, 2], [1, 2, 0]]


PROMPT: Any = SimpleNamespace(text="text", label="label", labels=("no", "yes"))


def of_prompt(place: Path) -> object:
    return labelled_texts(place.name, PROMPT, str(place.parent / "file.toml"), "data", "user")


def of_texts(place: Path) -> object:
    """Read texts as pmixed and generate do."""
    units = None if place.suffix == ".txt" else "user"
    return owned_texts(TextSource(place.name, str(place.parent / "file.toml"), "pmixed.data", "text", units))


def of_pate(place: Path) -> object:
    answer = read_records(place.name, str(place.parent / "file.toml"), "label", with_labels=True)
    inputs = inputs_of(answer, 0.0, "pate.data")
    return labels_of(answer, 2, "pate.data", len(inputs))


def of_counts(place: Path) -> object:
    return vote_counts(read_table(str(place)), 5, 3, "pate.votes")


def of_labels(place: Path) -> object:
    return counts_of_labels(read_table(str(place)), 3, 3, "pate.votes")


def word(chance: random.Random) -> str:
    """No number, whatever is drawn."""
    return f"x{chance.randbytes(4).hex()}"


def texts(chance: random.Random) -> list[Any]:
    return [word(chance), "no", f"u{chance.randrange(99)}"]


def numbers(chance: random.Random) -> list[Any]:
    return [chance.random(), chance.random(), chance.randrange(2)]


def count_row(chance: random.Random) -> list[Any]:
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
NO_UTF8 = "\udcff"  # a byte that is no UTF-8
# Reader, ending, how a row is made and the file written, and a row that is wrong.
ODD_ROWS: dict[str, tuple[Any, str, Any, Any, Callable[[random.Random], list[Any]]]] = {
    **{
        f"{name} {what}{ending}": (reader, ending, texts, write, wrong)
        for name, reader in (("prompt", of_prompt), ("texts", of_texts))
        for ending, write, what, wrong in (
            (".csv", TEXTS, "a short row", lambda chance: [word(chance)]),
            (".csv", TEXTS, "a long row", lambda chance: [*texts(chance), chance.random()]),
            (".csv", TEXTS, "an open quote", lambda chance: ['"' + word(chance), "no", "u1"]),
            (".csv", TEXTS, "another encoding", lambda chance: [word(chance) + NO_UTF8, "no", "u1"]),
            (".jsonl", jsonl, "no json", lambda chance: ["{" + word(chance)]),
            (".jsonl", jsonl, "a list", lambda chance: [f"[{chance.random()}]"]),
            (".jsonl", jsonl, "no text", lambda chance: [json.dumps({"label": "no", "user": word(chance)})]),
            (".jsonl", jsonl, "an owner of another type", lambda chance: ["some text", "no", chance.randrange(10**6)]),
            (".jsonl", jsonl, "another encoding", lambda chance: [word(chance) + NO_UTF8, "no", "u1"]),
        )
        if not (ending == ".jsonl" and "encoding" in what)
    },
    "prompt another label.csv": (of_prompt, ".csv", texts, TEXTS, lambda chance: ["a", word(chance), "u1"]),
    "prompt no owner.csv": (of_prompt, ".csv", texts, TEXTS, lambda chance: [word(chance), "no", ""]),
    "texts another encoding.txt": (of_texts, ".txt", texts, plain, lambda chance: [word(chance) + NO_UTF8]),
    "pate a short row.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [chance.random()]),
    "pate a word.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [word(chance), 0.5, 1]),
    "pate infinity.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: ["inf", chance.random(), 1]),
    "pate another label.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [0.5, 0.5, chance.randrange(2, 10**6)]),
    "pate half a label.csv": (of_pate, ".csv", numbers, RECORDS, lambda chance: [0.5, 0.5, chance.random() / 2 + 0.1]),
    "counts another sum.csv": (of_counts, ".csv", count_row, csv(None), lambda chance: [chance.randrange(6, 99), 0, 0]),
    "counts below zero.csv": (of_counts, ".csv", count_row, csv(None), lambda chance: [-chance.randrange(1, 99), 5, 0]),
    "counts half a vote.csv": (of_counts, ".csv", count_row, csv(None), lambda chance: [4.0 + chance.random() / 2 + 0.1, 1, 0]),
    "counts a short row.csv": (of_counts, ".csv", count_row, csv(None), lambda chance: [chance.randrange(6)]),
    "counts a word.csv": (of_counts, ".csv", count_row, csv(None), lambda chance: [word(chance), 5, 0]),
    "labels another.csv": (of_labels, ".csv", lambda chance: [0, 1, 2], csv(None), lambda chance: [chance.randrange(3, 99), 1, 1]),
}


@pytest.mark.parametrize("name", ODD_ROWS)
def test_what_is_said_of_a_record_tells_neither_where_it_stands_nor_what_it_is(name: str, tmp_path: Path) -> None:
    reader, ending, row, write, wrong = ODD_ROWS[name]
    seed = fresh_random().randrange(2**32)
    chance, refusals = random.Random(seed), []
    for _ in range(4):
        rows = [row(chance) for _ in range(chance.randrange(5, 40))]
        rows.insert(chance.randrange(1, len(rows)), wrong(chance))
        (tmp_path / f"private{ending}").write_bytes(write(rows))
        with pytest.raises(InputError) as refused:
            reader(tmp_path / f"private{ending}")
        refusals.append(str(refused.value))
    assert len({*refusals}) == 1, (seed, refusals)
