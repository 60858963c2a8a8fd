"""The keys of [train] with task = "classification", of its columns, and of the augmentation of images."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, POSITIVE, RATE, Constraint, Key, Reader
from dpcli.file.keys.annotations import idle
from dpcli.file.toml.findings import Problem
from dpcli.train.plan.settings import BUILT_IN, HELD_OUT, TASK, Train
from dpcli.train.plan.sources import CALLED, FUNCTION, public_rule, source_rule

MOST_VALUES = 10_000  # of a category: each is an input of the model
# What is written after a whole number or a day because another value of the column is missing, or has a fraction or a time of day.
COLUMN_FORM = re.compile(r"(-?[0-9]+)\.0*|([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00:00(\.0*)?", re.ASCII)
NUMBERS = Reader("min and max", lambda feature: feature.domain is None)
CATEGORIES = Reader("domain", lambda feature: feature.domain is not None)


def plain(text: str) -> str:
    """Return a value without surrounding space, .0 after a whole number and midnight after a day.

    Without them, the encoding of a record does not depend on the form that other records gave to its column.
    """
    text = text.strip()
    match = COLUMN_FORM.fullmatch(text)
    return (match[1] or match[2]) if match else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A column that the model reads: a number of a declared range, or a category of a declared domain.

    Numbers are scaled from [min, max] to [-1, 1]; a category becomes one input for each value of its domain, 1 for its own and 0 for the
    others. Each record is encoded by itself, from declared values only.
    """

    min: Annotated[float | None, Key("least value that counts: what is below it counts as it", reader=NUMBERS)] = None
    max: Annotated[float | None, Key("largest value that counts: what is above it counts as it", reader=NUMBERS)] = None
    missing: Annotated[
        float | None,
        Key("what a missing number counts as; where absent, a missing number needs indicator or is refused", reader=NUMBERS),
    ] = None
    domain: Annotated[tuple[str, ...] | None, Key("every value of a category, in place of min and max")] = None
    other: Annotated[
        Literal["code", "refuse"],
        Key(
            "a category that is not in domain, or is missing without indicator, gets an input of its own, or stops the run",
            reader=CATEGORIES,
        ),
    ] = "code"
    indicator: Annotated[bool, Key("a further input, 1 where the value is missing and 0 elsewhere")] = False

    @property
    def middle(self) -> float:
        """Return the middle of the declared range, which becomes 0."""
        assert self.min is not None and self.max is not None
        return self.min / 2 + self.max / 2

    @property
    def half(self) -> float:
        """Return half of the declared range's width, which becomes 1; 0 where min and max are too near."""
        assert self.min is not None and self.max is not None
        return self.max / 2 - self.min / 2

    @property
    def fill(self) -> float | None:
        """Return the number in place of a missing one: as declared, or the middle with an indicator; None if it is refused."""
        return self.middle if self.missing is None and self.indicator else self.missing

    def inputs(self, name: str) -> Iterator[str]:
        """Yield the names of the inputs that the column of this name becomes."""
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
                yield ("domain",), "values that are all different", "the same twice"
            if not 1 <= len(self.domain) <= MOST_VALUES:
                yield ("domain",), f"from 1 to {MOST_VALUES:,} values", f"{len(self.domain):,}"
        elif self.min is None or self.max is None:
            yield (
                (),
                "min and max of a number, or the domain of a category",
                "one of the two" if self.min != self.max else "neither",
            )
        elif not self.half > 0:
            yield ("max",), f"a number above min = {self.min:g}", f"{self.max:g}"
        elif self.missing is not None and not self.min <= self.missing <= self.max:
            yield ("missing",), "a number from min to max", f"{self.missing:g}"


AUGMENTED = Reader("augmentations", lambda train: train.augmentations is not None)
PIXELS = Constraint("a whole number from 1 to 1,000", lambda x: 1 <= x <= 1_000, (("minimum", 1), ("maximum", 1_000)))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The random difference of a view from its image, drawn for each view by itself."""

    flip: Annotated[bool, Key("left and right are exchanged, by the toss of a fair coin")] = False
    crop: Annotated[
        int | None,
        Key("cut out of the image with so many more pixels on each side, which repeat its edge, at a place that is drawn", PIXELS),
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
    """A task on images, with augmentation multiplicity (De et al. 2022, arXiv:2204.13650, Section 3.3): the loss is the mean over views."""

    augmentations: Annotated[
        int | None,
        Key(
            "views of each image, in each step: the mean of their gradients is one record's, and is clipped as one",
            COUNT,
            varies=True,
        ),
    ] = None
    augment: Annotated[View | None, Key("how each view differs from its image", reader=AUGMENTED, varies=True)] = None

    @property
    def seen_as(self) -> str | None:
        if self.augmentations is None:
            return None
        return f"the mean over {self.augmentations} views of it ({self.augment}), drawn for it alone"

    def problems(self) -> Iterator[Problem]:
        yield from Train.problems(self)
        if self.augmentations is None:
            return
        if not str(self.augment or ""):
            yield ("augment",), "flip or crop, as augmentations needs views that differ", "neither"
        if self.engine != "dpcli":
            yield (
                ("engine",),
                'no other than "dpcli" with augmentations, which clips a record and not its views',
                f'"{self.engine}"',
            )


WITH_COLUMNS = frozenset({".csv", ".jsonl", ".parquet"})


def has_columns(train: Train) -> bool:
    """Return whether some of the data are in a file with columns."""
    return any(os.path.splitext(source)[1] in WITH_COLUMNS for source in (train.data, train.public or ""))


ARRAYS = (".npz", ".csv", ".parquet")
DIGITS = "digits"  # the bundled images
SOURCE = source_rule(ARRAYS, DIGITS)
PUBLIC = public_rule(ARRAYS, DIGITS)
MODEL = Constraint(
    "logistic, mlp, cnn, or module:function",
    lambda text: text in BUILT_IN or FUNCTION.holds(text),
    (("pattern", f"^({'|'.join(BUILT_IN)})$|^{CALLED}$"),),
)
COLUMNS = Reader("data in a file with columns", has_columns)
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
        """Return how many labels there are, as declared; None if nothing says so."""
        return self.classes if self.labels is None else len(self.labels)

    @property
    def features(self) -> tuple[tuple[str, Feature], ...]:
        """Return the columns sorted by name: the order of keys in a file has no meaning."""
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
        count = 10 if self.data == DIGITS and self.classes is None else self.label_count
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
            for key, expected, value in (*idle(feature), *feature.problems()):
                yield ("columns", name, *key), expected, value
