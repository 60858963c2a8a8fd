"""What [train] may state of task = "classification"."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.fields import COUNT, RATE, Constraint, Key, Reader
from dpcli.train.plan.settings import HELD_OUT, TASK, Train
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
MLP = Reader('model = "mlp"', lambda train: train.model == "mlp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Train):
    """A label for each record of numbers, such as a row or an image."""

    build: ClassVar[str] = "dpcli.train.tasks.classification:build"
    use: ClassVar[str] = "dpcli.train.trained.classifier:classifier"
    measures: ClassVar[tuple[str, Literal["higher", "lower"]] | None] = ("accuracy", "higher")
    own_code: ClassVar[bool] = False
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"data": "people.csv", "label": "income", "classes": 2, "model": "mlp", "hidden": 32, "shift": 0.5},
        {"data": "digits", "public": "held-out", "held_out": 0.1},
    )

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
