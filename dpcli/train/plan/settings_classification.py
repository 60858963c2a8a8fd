"""The keys of [train] with task = "classification", including its tables for columns and for the augmentation of images.

A `Feature` is a column that the file declares with its range or its domain ([train.columns.NAME]); tasks/encoding.py turns the column into
inputs of the model. A `View` says how an image is changed at random ([train.augment]); tasks/augmentation.py makes the views. Whatever the
encoding needs, such as a range or the number of labels, is declared in the file and never computed from the private records.

The fields of a class are keys. A `Key` annotates a field with its meaning and a `Constraint` on its value (base/fields.py). `varies` marks
a key in which the runs of a sweep may differ, and `needs` is a `NeededSetting`, without which the key has no effect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, POSITIVE, RATE, Constraint, Key, NeededSetting
from dpcli.file.keys.annotations import keys_without_effect
from dpcli.file.toml.findings import Problem
from dpcli.train.plan.settings import BUILT_IN, HELD_OUT, TASK, Train
from dpcli.train.plan.sources import CALLED, FUNCTION, public_rule, source_rule

MOST_VALUES = 10_000  # largest number of values of a category; each is an input of the model, which takes memory. Arbitrary.
# A whole number with a decimal part of zeros ("3.0"), or a day at midnight ("2024-05-01 00:00:00"). A file writes the number 3 as 3.0 if
# another value of the column is missing or has a fraction, and a day with 00:00:00 if another value has a time of day.
COLUMN_FORM = re.compile(r"(-?[0-9]+)\.0*|([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00:00(\.0*)?", re.ASCII)
NUMBERS = NeededSetting("min and max", lambda feature: feature.domain is None)
CATEGORIES = NeededSetting("domain", lambda feature: feature.domain is not None)


def plain(text: str) -> str:
    """Return the text of a value without surrounding space, without ".0" after a whole number, and without midnight after a day.

    " 3.0" becomes "3", and "2024-05-01 00:00:00" becomes "2024-05-01".
    The encoding of a record then does not depend on the form that other records gave to its column.
    """
    text = text.strip()
    match = COLUMN_FORM.fullmatch(text)
    return (match[1] or match[2]) if match else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A column that the model reads. It contains numbers of a declared range, or categories of a declared domain.

    Numbers are scaled from [min, max] to [-1, 1]. A category becomes one input for each value of its domain. The input of the record's
    value is 1, and the others are 0. Each record is encoded separately, from declared values only.
    """

    min: Annotated[float | None, Key("smallest value; smaller values are raised to it", needs=NUMBERS)] = None
    max: Annotated[float | None, Key("largest value; larger values are lowered to it", needs=NUMBERS)] = None
    missing: Annotated[
        float | None,
        Key("number that replaces a missing one; by default a missing number needs indicator, or is refused", needs=NUMBERS),
    ] = None
    domain: Annotated[tuple[str, ...] | None, Key("all values of a category; replaces min and max")] = None
    other: Annotated[
        Literal["code", "refuse"],
        Key(
            "treatment of a category that is not in domain, or is missing without indicator: code gives it a separate input, refuse stops "
            "the run",
            needs=CATEGORIES,
        ),
    ] = "code"
    indicator: Annotated[
        bool, Key("whether the column has a further input, which is 1 if the value is missing and 0 otherwise")
    ] = False

    @property
    def middle(self) -> float:
        """Return the middle of the declared range, which is scaled to 0. (min + max) / 2 could overflow."""
        assert self.min is not None and self.max is not None
        return self.min / 2 + self.max / 2

    @property
    def half_width(self) -> float:
        """Return half of the width of the declared range, which is scaled to 1. It is 0 if min and max are too close."""
        assert self.min is not None and self.max is not None
        return self.max / 2 - self.min / 2

    @property
    def fill(self) -> float | None:
        """Return the number that replaces a missing one; None if a missing number is refused.

        It is the declared number, or the middle of the range if the column has an indicator.
        """
        return self.middle if self.missing is None and self.indicator else self.missing

    def inputs(self, name: str) -> Iterator[str]:
        """Yield the names of the model's inputs that encode the column `name`."""
        if self.domain is None:
            yield name
        else:
            yield from (f"{name}={value}" for value in self.domain)
            if self.other == "code":
                yield f"{name}: other"
        if self.indicator:
            yield f"{name}: missing"

    def problems(self) -> Iterator[Problem]:
        if self.domain is not None:
            if len({plain(value) for value in self.domain}) < len(self.domain):
                yield ("domain",), "values that are all different", "the same value twice"
            if not 1 <= len(self.domain) <= MOST_VALUES:
                yield ("domain",), f"from 1 to {MOST_VALUES:,} values", f"{len(self.domain):,}"
        elif self.min is None or self.max is None:
            has_neither = self.min is None and self.max is None
            actual = "neither" if has_neither else "only one of min and max"
            yield (), "min and max of a number, or the domain of a category", actual
        elif not self.half_width > 0:
            yield ("max",), f"a number above min = {self.min:g}", f"{self.max:g}"
        elif self.missing is not None and not self.min <= self.missing <= self.max:
            yield ("missing",), "a number from min to max", f"{self.missing:g}"


AUGMENTED = NeededSetting("augmentations", lambda train: train.augmentations is not None)
PIXELS = Constraint("a whole number from 1 to 1,000", lambda x: 1 <= x <= 1_000, (("minimum", 1), ("maximum", 1_000)))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The random changes that make a view of an image. They are drawn for each view separately."""

    flip: Annotated[bool, Key("whether a fair coin toss mirrors the view left to right")] = False
    crop: Annotated[
        int | None,
        Key(
            "number of pixels by which the image is extended on each side; the extension repeats the edge, and the view is a random crop "
            "of the original size",
            PIXELS,
        ),
    ] = None

    def __str__(self) -> str:
        differences = []
        if self.crop is not None:
            differences.append(f"moved by up to {self.crop} pixels")
        if self.flip:
            differences.append("mirrored by a fair coin")
        return " and ".join(differences)


@dataclass(frozen=True, slots=True, kw_only=True)
class Images(Train):
    """A task whose records may be images, with augmentation multiplicity: the loss of a record is the mean over random views of it.

    Source: De et al. 2022, arXiv:2204.13650, Section 3.3.
    """

    augmentations: Annotated[
        int | None,
        Key(
            "number of views of each image in each step; the mean of their gradients is the record's gradient, which is clipped",
            COUNT,
            varies=True,
        ),
    ] = None
    augment: Annotated[View | None, Key("random changes that make a view of an image", needs=AUGMENTED, varies=True)] = None

    @property
    def loss_over_views(self) -> str | None:
        if self.augmentations is None:
            return None
        return f"the mean over {self.augmentations} random views of it ({self.augment})"

    def problems(self) -> Iterator[Problem]:
        yield from Train.problems(self)
        if self.augmentations is None:
            return
        if not str(self.augment or ""):
            yield ("augment",), "flip or crop, because augmentations needs views that differ", "neither"
        if self.engine != "dpcli":
            expected = '"dpcli" with augmentations, because other engines would clip each view separately'
            yield ("engine",), expected, f'"{self.engine}"'


# Endings of files with columns.
WITH_COLUMNS = frozenset({".csv", ".jsonl", ".parquet"})


def has_columns(train: Train) -> bool:
    """Return whether the private or the public data are in a file with columns."""
    return any(os.path.splitext(source)[1] in WITH_COLUMNS for source in (train.data, train.public or ""))


ARRAYS = (".npz", ".csv", ".parquet")
DIGITS = "digits"  # the bundled images
DIGIT_COUNT = 10  # number of labels of the bundled images
SOURCE = source_rule(ARRAYS, DIGITS)
PUBLIC = public_rule(ARRAYS, DIGITS)
MODEL = Constraint(
    "logistic, mlp, cnn, bounded-logistic, or module:function",
    lambda text: text in BUILT_IN or FUNCTION.holds(text),
    (("pattern", f"^({'|'.join(BUILT_IN)})$|^{CALLED}$"),),
)
COLUMNS = NeededSetting("data in a file with columns", has_columns)
FEATURES = NeededSetting("columns", lambda train: train.columns is not None)
MLP = NeededSetting('model = "mlp"', lambda train: train.model == "mlp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Images):
    """Classification of records of numbers, such as rows of a table or images."""

    # `Train` in settings.py explains the class variables.
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
    model: Annotated[str, Key("logistic, mlp, cnn, bounded-logistic for last-iterate, or module:function", MODEL, varies=True)] = (
        "logistic"
    )
    public: Annotated[
        str | None,
        Key(
            "data declared public, on which metrics are measured: as data, or held-out (a part of data that is declared public)",
            PUBLIC,
        ),
    ] = None
    classes: Annotated[
        int | None, Key("number of labels; it is declared and never counted in private data; 10 by default for digits", COUNT)
    ] = None
    shift: Annotated[float, Key("constant that is subtracted from every input, so that inputs are near zero", varies=True)] = 0.0
    label: Annotated[
        str | None, Key("column of the label in a .csv or .parquet file; by default the last column", needs=COLUMNS)
    ] = None
    hidden: Annotated[int, Key("width of the hidden layer of mlp", COUNT, needs=MLP, varies=True)] = 64
    held_out: Annotated[float, Key("share of the data that held-out declares public", RATE, needs=HELD_OUT)] = 0.2
    labels: Annotated[
        tuple[str, ...] | None,
        Key(
            "all labels of a .csv or .parquet file, as written in the file; by default labels are whole numbers from 0",
            needs=COLUMNS,
        ),
    ] = None
    class_weights: Annotated[
        tuple[float, ...] | None,
        Key("weight of the loss for each label; it is declared and never computed from private data", POSITIVE, varies=True),
    ] = None
    columns: Annotated[
        Mapping[str, Feature] | None,
        Key(
            "columns that the model reads, by name, each with its range or domain; by default all columns but label and units",
            needs=COLUMNS,
        ),
    ] = None
    missing_words: Annotated[
        tuple[str, ...] | None, Key('further texts that mark a missing value; an empty text and "nan" always do', needs=FEATURES)
    ] = None

    @property
    def label_count(self) -> int | None:
        """Return the declared number of labels; None if it is not declared."""
        return self.classes if self.labels is None else len(self.labels)

    @property
    def features(self) -> tuple[tuple[str, Feature], ...]:
        """Return the columns sorted by name. The order of keys in a file has no meaning."""
        return tuple(sorted((self.columns or {}).items()))

    def own_problems(self) -> Iterator[Problem]:
        if self.labels is not None:
            yield from self._label_problems(self.labels)
        count = DIGIT_COUNT if self.data == DIGITS and self.classes is None else self.label_count
        if self.class_weights is not None and count is not None and len(self.class_weights) != count:
            yield ("class_weights",), f"one weight for each of {count} labels", f"{len(self.class_weights)}"
        if self.columns is not None:
            yield from self._column_problems(self.columns)

    def _label_problems(self, labels: tuple[str, ...]) -> Iterator[Problem]:
        """Yield a problem of the declared labels, or else of their number."""
        count = len(labels)
        if count < 2:
            yield ("labels",), "at least two labels, all different", f"{count}"
        elif len({plain(label) for label in labels}) < count:
            yield ("labels",), "at least two labels, all different", "the same label twice"
        elif self.classes not in (None, count):
            yield ("classes",), f"{count}, the number of labels, or no such key", f"{self.classes}"

    def _column_problems(self, declared: Mapping[str, Feature]) -> Iterator[Problem]:
        """Yield the problems of the declared columns."""
        if not declared:
            yield ("columns",), "at least one column", "none"
        if self.label is None:
            yield ("label",), "the column of the label, which columns requires", "nothing"
        if self.shift:
            yield ("shift",), "no such key with columns, which are scaled to their declared range", f"{self.shift:g}"
        sources: dict[str, str] = {"data": self.data}
        if self.public is not None and self.public != "held-out":
            sources["public"] = self.public
        for key, source in sources.items():
            if os.path.splitext(source)[1] not in WITH_COLUMNS:
                yield (key,), "a .csv or .parquet file, because columns are read by name", source
        for name, feature in declared.items():
            if name in (self.label, self.units):
                yield ("columns", name), "a column that is neither label nor units", "one of the two"
            for place, expected, actual in (*keys_without_effect(feature), *feature.problems()):
                yield ("columns", name, *place), expected, actual
