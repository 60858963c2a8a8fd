"""Columns with declared ranges and categories: encoded record by record, refused without showing a value, stored in the run's folder."""

from __future__ import annotations

import csv
import datetime as dt
import io
import itertools
import json
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dpcli as package
from dpcli.base.errors import InputError
from dpcli.file.toml.findings import InvalidFile
from dpcli.train.plan.settings import read_train
from dpcli.train.plan.settings_classification import Classification
from dpcli.train.tasks.array_files import arrays
from dpcli.train.tasks.classification import loss_of
from dpcli.train.tasks.encoding import encode_columns, input_names, label_codes
from tests.cases import require_each
from tests.command import dpcli

FILE = """format = 1
name = "people"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 40
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 2.0
steps = 2
sampling = { scheme = "poisson", rate = 0.5 }
[train]
task = "classification"
data = "people.csv"
public = "people.csv"
label = "income"
labels = ["low", "high"]
class_weights = [1.0, 3.0]
learning_rate = 1.0
missing_words = ["?"]
clipping = { norm = 1.0 }
[train.columns]
state = { domain = ["CA", "NY"], indicator = true }
age = { min = 20, max = 60, missing = 30 }
hours = { min = 0, max = 10, indicator = true }
"""
NAMES = ["age", "hours", "hours: missing", "state=CA", "state=NY", "state: other", "state: missing"]
# age, hours, state: raw, and what the file says that they are
ROWS: list[tuple[tuple[str, str, str], list[float]]] = [
    (("20", "10", "CA"), [-1, 1, 0, 1, 0, 0, 0]),
    (("40", "", "NY"), [0, 0, 1, 0, 1, 0, 0]),
    (("90", "-3", "TX"), [1, -1, 0, 0, 0, 1, 0]),
    (("?", "inf", "?"), [-0.5, 1, 0, 0, 0, 0, 1]),
    ((" NaN ", "2.5", ""), [-0.5, -0.5, 0, 0, 0, 0, 1]),
]


def train(text: str = FILE, **changed: str) -> Classification:
    """The table of a file, with lines of it replaced: KEY = value."""
    for key, value in changed.items():
        lines = [line for line in text.splitlines() if line.startswith(f"{key} =")]
        text = text.replace(lines[0], f"{key} = {value}" if value else "")
    found = read_train(text.encode(), "people.toml")
    assert isinstance(found, Classification)
    return found


def written(folder: Path, rows: list[Mapping[str, Any]], name: str = "people.csv") -> None:
    with open(folder / name, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def in_parquet(columns: Mapping[str, list[Any]], folder: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), folder / "people.parquet")


def people(income: str = "high") -> list[Mapping[str, Any]]:
    """With a column of names, which no column of the file is, and the columns in another order than the file's."""
    return [{"name": "Alice", "income": income, "state": state, "hours": hours, "age": age} for (age, hours, state), _ in ROWS]


pytestmark = pytest.mark.usefixtures("folder")  # each test has a current folder of its own


def test_each_value_is_what_the_file_declares(folder: Path) -> None:
    written(folder, people())
    found = arrays(train(), "people.toml")
    np.testing.assert_array_equal(found.private.inputs, np.array([inputs for _, inputs in ROWS], np.float32))
    assert found.private.labels.tolist() == [1] * len(ROWS) and found.classes == 2
    assert input_names(train()) == NAMES


def test_a_parquet_file_of_numbers_is_read_like_text(folder: Path) -> None:
    columns = {"age": [20, 40, 90, None], "hours": [10.0, None, -3.0, float("inf")], "state": ["CA", "NY", "TX", None]}
    in_parquet({**columns, "income": ["low"] * 4}, folder)
    found = arrays(train(data='"people.parquet"', public='"people.parquet"'), "people.toml")
    np.testing.assert_array_equal(found.private.inputs, np.array([inputs for _, inputs in ROWS[:4]], np.float32))


def test_a_number_may_be_a_category(folder: Path) -> None:
    """A column of whole numbers with one missing comes out of a parquet file as 1.0."""
    chosen = train(FILE.replace('["CA", "NY"]', '["1", "2"]'))
    table = {"age": [30.0] * 4, "hours": [1] * 4, "state": [1.0, np.int64(2), "1", float("nan")]}
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    assert encode_columns(table, chosen, "here")[:, 3:].tolist() == expected


class Absent:
    """As a data frame has it."""

    def __str__(self) -> str:
        return "<NA>"


def outcome(values: list[Any], chosen: Classification) -> list[Any]:
    """What becomes of the first of these values, as a number and as a category."""
    found: list[Any] = []
    for table in ({"age": values, "state": ["CA"] * len(values)}, {"age": [30] * len(values), "state": values}):
        try:
            found.append(encode_columns({**table, "hours": [1] * len(values)}, chosen, "here")[0].tolist())
        except InputError as problem:
            found.append(str(problem))
    return found


OTHERS = ["40", 40.0, "", None, "1_0", True, "?"]
ODD: list[Any] = [
    *(np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.datetime64("NaT"), Absent(), b"1", b"\xff", True, np.True_),
    *(
        Decimal("1.00"),
        Decimal("sNaN"),
        dt.date(2020, 1, 1),
        dt.datetime(2020, 1, 1),
        10**400,
        -1e308,
        "-nan",
        "Nan",
        "1_0",
        "\x00",
        [1],
    ),
]


@pytest.mark.parametrize("words", ['["?"]', "[]"])
def test_what_a_value_becomes_does_not_depend_on_the_other_records(words: str) -> None:
    """Of whatever type they are: one odd record must not decide how the column is read."""
    chosen = train(missing_words=words)
    for value in [*ODD, *OTHERS]:
        alone = outcome([value], chosen)
        for other in OTHERS:
            together = outcome([value, other], chosen)
            assert all("row 2" in str(there) or there == here for here, there in zip(alone, together, strict=True)), (value, other)


SAME: list[list[Any]] = [
    ["1", "1.0", " 1.", 1, 1.0, np.float32(1), Decimal("1.00"), b"1"],
    ["2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00:00.000", dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)],
    ["", None, "nan", float("nan"), np.datetime64("NaT"), Absent(), "<NA>"],
    ["01"],
    ["1.5", 1.5],
    ["1.50"],
    ["2020-01-01 00:00:01", dt.datetime(2020, 1, 1, 0, 0, 1)],
]


def test_a_category_is_the_same_however_the_rest_of_its_column_had_to_be_written() -> None:
    """A writer puts 1.0 for 1 in all records where one is missing, and a time of day after each day where one has any."""
    domain = [str(alike[0]) for alike in SAME if alike[0]]
    chosen = train(FILE.replace('["CA", "NY"]', json.dumps(domain)))
    column = [value for alike in SAME for value in alike]
    table = {"age": [30] * len(column), "hours": [1] * len(column), "state": column}
    found = encode_columns(table, chosen, "here")[:, 3:].argmax(1).tolist()
    places = {text: place for place, text in enumerate([*domain, "other", ""])}
    assert found == [places[alike[0]] for alike in SAME for _ in alike]
    labels = train(labels='["1.0", "2020-01-01"]').labels
    assert labels is not None and label_codes(SAME[0] + SAME[1], labels, "y", "here").tolist() == [0] * 8 + [1] * 5


NUMBER = st.one_of(
    st.floats(), st.integers(-(10**400), 10**400), st.sampled_from(["", "?", "nan", "1e400", "-7", " 3 "]), st.none()
)
STATE = st.one_of(st.text(max_size=3), st.sampled_from(["CA", " NY", "?", None, 3.0]))


@given(st.lists(st.tuples(NUMBER, NUMBER, STATE), min_size=1, max_size=5))
def test_a_record_is_encoded_by_itself_and_within_bounds(rows: list[tuple[Any, Any, Any]]) -> None:
    """Whatever the others are: else one record would move the inputs of all."""
    chosen = train()

    def of(rows: list[tuple[Any, Any, Any]]) -> Any:
        return encode_columns(dict(zip(("age", "hours", "state"), zip(*rows, strict=True), strict=True)), chosen, "here")

    together = of(rows)
    assert np.isfinite(together).all() and np.abs(together).max() <= 1.0
    np.testing.assert_array_equal(together, np.concatenate([of([row]) for row in rows]))


def test_the_order_of_columns_means_nothing(folder: Path) -> None:
    lines = FILE.splitlines()
    other = "\n".join([*lines[:-3], *reversed(lines[-3:])])
    written(folder, people())
    written(folder, [dict(reversed(row.items())) for row in people()], "turned.csv")
    assert train(other) == train()
    turned = arrays(train(other, data='"turned.csv"'), "people.toml").private.inputs
    np.testing.assert_array_equal(turned, arrays(train(), "people.toml").private.inputs)


def test_columns_that_are_read_by_their_places_are_the_same_in_public_records(folder: Path) -> None:
    plain = FILE[: FILE.index("[train.columns]")].replace('missing_words = ["?"]', "")
    rows: list[Mapping[str, Any]] = [{"age": 1, "hours": 2, "income": "low"}, {"age": 3, "hours": 4, "income": "high"}]
    written(folder, rows)
    written(folder, [dict(reversed(row.items())) for row in rows], "turned.csv")
    written(folder, [{"income": row["income"], "age": row["age"], "hours": row["hours"]} for row in rows], "moved.csv")
    assert arrays(train(plain, public='"moved.csv"'), "people.toml").private.inputs.tolist() == [[1, 2], [3, 4]]
    words = "people.toml: train.public: expected the columns of the private records in the same order"
    with pytest.raises(InputError, match=words):
        arrays(train(plain, public='"turned.csv"'), "people.toml")


MISSING = "declare missing or indicator in train.columns"
REFUSED: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "a word": ({"age": "Alice"}, {}, ":4: column 'age': expected a number, found a text: list texts of missing values in "),
    "missing": (
        {"age": ""},
        {"age": "{ min = 0, max = 9 }"},
        f":4: column 'age': expected a number, found a missing value: {MISSING}",
    ),
    "other": (
        {"state": "Alice"},
        {"state": '{ domain = ["CA", "NY", "TX"], other = "refuse" }'},
        ":4: column 'state': expected one of the declared values, found another value: add it to domain, or declare other = \"code\"",
    ),
    "label": ({"income": "Alice"}, {}, ":4: column 'income': expected one of the declared labels, found another label, or none"),
    "no label": ({"income": ""}, {}, ":4: column 'income': expected one of the declared labels, found another label, or none"),
}


def test_what_has_no_declared_meaning_is_refused_at_its_line_without_its_value(folder: Path) -> None:
    def check(one: tuple[str, str]) -> None:
        ending, case = one
        changed, declared, words = REFUSED[case]
        rows = people()[:3]
        rows[1] = {**rows[1], "name": "two\nlines"}  # which the third record begins below
        rows[2] = {**rows[2], **changed}
        written(folder, rows)
        if ending == "parquet":
            in_parquet({name: [row[name] for row in rows] for name in rows[0]}, folder)
        source = f'"people.{ending}"'
        with pytest.raises(InputError) as problem:
            arrays(train(**declared, data=source, public=source), "people.toml")
        assert "Alice" not in str(problem.value)
        place = words.replace(":4:", ":5:" if ending == "csv" else ": row 3:")
        assert f"people.{ending}{place}" in str(problem.value)

    require_each(itertools.product(["csv", "parquet"], REFUSED), check)


def test_a_first_record_in_place_of_the_names_is_not_quoted(folder: Path) -> None:
    def check(case: tuple[str, str]) -> None:
        record, labels = case
        text = FILE[: FILE.index("[train.columns]")].replace('missing_words = ["?"]', "").replace('label = "income"', "")
        (folder / "people.csv").write_text(f"{record}\n3,4,x\nx,6,7\n")
        with pytest.raises(
            InputError, match=r"people\.csv.*: expected (numbers|one of) .* column|column 3: expected one of"
        ) as problem:
            arrays(train(text.replace('labels = ["low", "high"]', labels)), "people.toml")
        assert "Alice" not in str(problem.value)

    require_each(itertools.product(["1,2,Alice", "Alice,2,0"], ['labels = ["low", "high"]', "classes = 2"]), check)


def test_a_declared_column_must_be_there(folder: Path) -> None:
    written(folder, [{name: row[name] for name in ("age", "state", "income")} for row in people()])
    with pytest.raises(InputError, match=r"people\.csv: expected a column 'hours', which train\.columns declares, found none"):
        arrays(train(), "people.toml")


DISAGREEING = {
    "train.columns.age: expected min and max of a number, or the domain of a category, found neither": {"age": "{}"},
    "train.columns.age: expected min and max of a number, or the domain of a category, found only one of min and max": {
        "age": "{ min = 1 }"
    },
    "train.columns.age.max: expected a number above min = 3, found 3": {"age": "{ min = 3, max = 3 }"},
    "train.columns.age.missing: expected a number from min to max, found 4": {"age": "{ min = 1, max = 3, missing = 4 }"},
    "train.columns.age.other: expected this key only with domain": {"age": '{ min = 1, max = 3, other = "refuse" }'},
    "train.columns.age.max: expected this key only with min and max": {"age": '{ domain = ["a"], max = 3 }'},
    "train.columns.age.domain: expected values that are all different, found the same value twice": {
        "age": '{ domain = ["a", " a"] }'
    },
    "train.columns.state.domain: expected values that are all different": {"state": '{ domain = ["1", "1.0"] }'},
    "train.columns.age.domain: expected from 1 to 10,000 values, found 0": {"age": "{ domain = [] }"},
    "train.columns.income: expected a column that is neither label nor units, found one of the two": {
        "age": "{ min = 1, max = 2 }\nincome = { min = 1, max = 2 }"
    },
    "train.labels: expected at least two labels, all different, found the same label twice": {"labels": '["low", "low "]'},
    "train.labels: expected at least two labels, all different, found 1": {"labels": '["low"]', "class_weights": "[1]"},
    "train.classes: expected 2, the number of labels, or no such key, found 3": {"labels": '["a", "b"]\nclasses = 3'},
    "train.class_weights: expected one weight for each of 2 labels, found 3": {"class_weights": "[1, 2, 3]"},
    "train.class_weights[2]: expected a number > 0, found 0": {"class_weights": "[1, 0]"},
    "train.label: expected the column of the label, which columns requires, found nothing": {"label": ""},
    "train.shift: expected no such key with columns": {"labels": '["low", "high"]\nshift = 0.5'},
    "train.public: expected a .csv or .parquet file, because columns are read by name, found b.npz": {"public": '"b.npz"'},
    "train.data: expected a .csv or .parquet file, because columns are read by name, found a:b": {"data": '"a:b"'},
    "train.columns: expected this key only with data in a file with columns": {"data": '"a.npz"', "public": '"b.npz"'},
}


def test_keys_that_do_not_agree_are_refused_in_the_file() -> None:
    def check(words: str) -> None:
        with pytest.raises(InvalidFile) as problem:
            train(**DISAGREEING[words])
        assert words in str(problem.value)

    require_each(DISAGREEING, check)


def test_a_declared_weight_is_a_factor_of_the_records_own_loss() -> None:
    model, weights = torch.nn.Linear(3, 2), torch.tensor([1.0, 3.0])
    inputs, labels = torch.rand(6, 3), torch.tensor([0, 1, 1, 0, 1, 0])
    found = loss_of(train())(model, (inputs, labels))
    torch.testing.assert_close(found, loss_of(train(class_weights=""))(model, (inputs, labels)) * weights[labels])


@pytest.mark.long
def test_a_runs_folder_answers_about_raw_columns(folder: Path) -> None:
    written(folder, people() * 8)
    written(folder, people() * 9, "others.csv")
    (folder / "people.toml").write_text(FILE.replace('public = "people.csv"', 'public = "others.csv"'))
    assert dpcli("train", "people.toml", folder=folder).code == 0
    (folder / "people.toml").unlink()
    assert json.loads((folder / "runs/people/model.json").read_text())["model"]["input_names"] == NAMES
    asked = [{"age": age, "extra": "x", "state": state, "hours": hours} for (age, hours, state), _ in ROWS]
    written(folder, asked, "asked.csv")
    rows = list(csv.DictReader(io.StringIO(dpcli("predict", "runs/people", "asked.csv", "-f", "csv", folder=folder).out)))
    model = package.load_model("runs/people")
    expected = torch.softmax(model.module(torch.tensor([inputs for _, inputs in ROWS])), 1).detach().numpy()
    np.testing.assert_allclose([[float(row["p_0"]), float(row["p_1"])] for row in rows], expected, atol=1e-6)  # float32
    assert [row["label"] for row in rows] == [["low", "high"][code] for code in expected.argmax(1)]
    table = {name: [row[name] for row in asked] for name in asked[0]}
    np.testing.assert_allclose(model.probabilities(table), expected, atol=1e-6)  # type: ignore[attr-defined]
    measured = json.loads(dpcli("evaluate", "runs/people", "people.csv", "-f", "json", folder=folder).out)["metrics"]
    assert measured["accuracy"] == pytest.approx(np.mean(expected.argmax(1) == 1))
    with pytest.raises(InputError, match="inputs: row 2: column 'age': expected a number"):
        model.probabilities({**table, "age": [1, "Alice", 3, 4, 5]})  # type: ignore[attr-defined]
    made = np.array([inputs for _, inputs in ROWS], np.float32)
    np.testing.assert_allclose(model.probabilities(made), expected, atol=1e-6)  # type: ignore[attr-defined]
    np.savez(folder / "raw.npz", inputs=made + 1, labels=np.ones(len(ROWS), int))  # such as ages
    for command in ("predict", "evaluate"):
        assert (
            "raw.npz: inputs beyond [-1, 1], which train.columns cannot produce"
            in dpcli(command, "runs/people", "raw.npz", folder=folder).err
        )
        assert "dpcli: gone.csv: no such file" in dpcli(command, "runs/people", "gone.csv", folder=folder).err


def test_the_shipped_table_is_within_its_declared_size() -> None:
    """And what a sweep of it is measured by is declared."""
    path = Path(__file__).parents[3] / "examples" / "breast-cancer.toml"
    found = read_train(path.read_bytes(), str(path))
    assert isinstance(found, Classification)
    data = arrays(found, str(path))
    assert len(data.private.labels) == tomllib.loads(path.read_text())["privacy"]["dataset_size"]
    assert data.public is not None and data.private.inputs.shape[1] == len(found.columns or {})
