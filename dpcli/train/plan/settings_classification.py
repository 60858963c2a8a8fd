"""What [train] may state of task = "classification"."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, POSITIVE, RATE, Constraint, Key, Reader
from dpcli.file.keys.annotations import idle
from dpcli.file.toml.findings import Problem
from dpcli.train.plan.features import Feature, plain
from dpcli.train.plan.settings import HELD_OUT, TASK, Train
from dpcli.train.plan.settings_images import Images
from dpcli.train.plan.sources import CALLED, FUNCTION, public_rule, source_rule

WITH_COLUMNS = frozenset({".csv", ".jsonl", ".parquet"})


def columns(train: Train) -> bool:
    """Whether some of the data are in a file with columns."""
    return any(os.path.splitext(source)[1] in WITH_COLUMNS for source in (train.data, train.public or ""))


MODELS = ("logistic", "mlp", "cnn")
ARRAYS = (".npz", ".csv", ".parquet")
BUILT_IN = "digits"
SOURCE = source_rule(ARRAYS, BUILT_IN)
PUBLIC = public_rule(ARRAYS, BUILT_IN)
MODEL = Constraint(
    "logistic, mlp, cnn, or module:function",
    lambda text: text in MODELS or FUNCTION.holds(text),
    (("pattern", f"^({'|'.join(MODELS)})$|^{CALLED}$"),),
)
COLUMNS = Reader("data in a file with columns", columns)
FEATURES = Reader("columns", lambda train: train.columns is not None)
MLP = Reader('model = "mlp"', lambda train: train.model == "mlp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Images):
    """A label for each record of numbers, such as a row or an image."""

    build: ClassVar[str] = "dpcli.train.tasks.classification:build"
    use: ClassVar[str] = "dpcli.train.trained.classifier:classifier"
    measures: ClassVar[tuple[str, Literal["higher", "lower"]] | None] = ("accuracy", "higher")
    own_code: ClassVar[bool] = False
    tables: ClassVar[frozenset[str]] = frozenset({".csv", ".parquet"})
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"data": "people.csv", "label": "income", "classes": 2, "model": "mlp", "hidden": 32, "shift": 0.5},
        {
            "data": "digits",
            "public": "held-out",
            "held_out": 0.1,
            "augmentations": 4,
            "augment": {"flip": True, "crop": 1},
        },
        {
            "data": "people.csv",
            "label": "income",
            "labels": ["low", "high"],
            "class_weights": [1.0, 3.0],
            "missing_words": ["?", "NA"],
            "columns": {
                "age": {"min": 17.0, "max": 90.0, "missing": 40.0},
                "hours": {"min": 0.0, "max": 100.0, "indicator": True},
                "state": {"domain": ["CA", "NY"], "other": "refuse"},
            },
        },
    )
    later: ClassVar[frozenset[str]] = frozenset({"columns", "missing_words", "class_weights", "augmentations", "augment"})

    task: Annotated[str, TASK] = "classification"
    data: Annotated[str, Key("private data: digits, a .npz, .csv or .parquet file, or module:function", SOURCE)]
    model: Annotated[str, Key("logistic, mlp, cnn, or module:function", MODEL, varies=True)] = "logistic"
    public: Annotated[
        str | None,
        Key("data declared public, on which metrics are measured: as data, or held-out (a split declared public)", PUBLIC),
    ] = None
    classes: Annotated[
        int | None, Key("how many labels there are, declared and not counted in private data; 10 for digits", COUNT)
    ] = None
    shift: Annotated[
        float, Key("a declared constant that is taken off every input number, so that they lie about zero", varies=True)
    ] = 0.0
    label: Annotated[
        str | None, Key("column of the label in a .csv or .parquet file; the last one where absent", reader=COLUMNS)
    ] = None
    hidden: Annotated[int, Key("width of the hidden layer of mlp", COUNT, reader=MLP, varies=True)] = 64
    held_out: Annotated[float, Key("share of the data that held-out sets aside", RATE, reader=HELD_OUT)] = 0.2
    labels: Annotated[
        tuple[str, ...] | None,
        Key(
            "every label of a .csv or .parquet file, declared, as it stands there; whole numbers from 0 where absent",
            reader=COLUMNS,
        ),
    ] = None
    class_weights: Annotated[
        tuple[float, ...] | None,
        Key("a factor of the loss for each label, declared and not counted in private data", POSITIVE, varies=True),
    ] = None
    columns: Annotated[
        Mapping[str, Feature] | None,
        Key(
            "the columns that the model reads, by name, each with what it may hold; all but label and units where absent",
            reader=COLUMNS,
        ),
    ] = None
    missing_words: Annotated[
        tuple[str, ...] | None, Key('what a missing value is written as, beside an empty one and "nan"', reader=FEATURES)
    ] = None

    @property
    def label_count(self) -> int | None:
        """How many labels there are, as declared; None where nothing says so."""
        return self.classes if self.labels is None else len(self.labels)

    @property
    def features(self) -> tuple[tuple[str, Feature], ...]:
        """The columns by name, in the order of their names: the order of keys in a file means nothing."""
        return tuple(sorted((self.columns or {}).items()))

    def own_problems(self) -> Iterator[Problem]:
        if self.labels is not None and len({plain(label) for label in self.labels}) < max(2, len(self.labels)):
            yield (
                ("labels",),
                "at least two labels, all different",
                "the same twice" if len(self.labels) > 1 else f"{len(self.labels)}",
            )
        elif self.labels is not None and self.classes not in (None, len(self.labels)):
            yield ("classes",), f"{len(self.labels)}, as many as labels, or no such key", f"{self.classes}"
        count = 10 if self.data == BUILT_IN and self.classes is None else self.label_count
        if self.class_weights is not None and count is not None and len(self.class_weights) != count:
            yield ("class_weights",), f"one for each of {count} labels", f"{len(self.class_weights)}"
        if self.columns is not None:
            yield from self._column_problems(self.columns)

    def _column_problems(self, stated: Mapping[str, Feature]) -> Iterator[Problem]:
        if not stated:
            yield ("columns",), "at least one column", "none"
        if self.label is None:
            yield ("label",), "the column of the label, as columns choose among them", "nothing"
        if self.shift:
            yield ("shift",), "no such key with columns, which are scaled by what they declare", f"{self.shift:g}"
        public = {} if self.public in (None, "held-out") else {"public": self.public}
        for named, source in {"data": self.data, **public}.items():
            if os.path.splitext(source or "")[1] not in WITH_COLUMNS:
                yield (named,), "a .csv or .parquet file, as columns are read by their names", f"{source}"
        for name, feature in stated.items():
            if name in (self.label, self.units):
                yield ("columns", name), "a column that is neither the label nor whose a record is", "one of the two"
            for key, expected, found in (*idle(feature), *feature.problems()):
                yield ("columns", name, *key), expected, found
