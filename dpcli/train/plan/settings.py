"""The [train] table: the keys that every task reads, read as strictly as the rest of the file. Nothing here needs torch."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, NON_NEGATIVE, OPEN_UNIT, POSITIVE, Constraint, Key, Reader, Selection
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.toml.findings import Findings, Problem
from dpcli.train.plan.clipping import Clipping
from dpcli.train.plugin import STYLES, TASKS

# From 1 on, no step is ever forgotten, and the weights diverge.
MOMENTUM = Constraint("a number in [0, 1)", lambda x: 0 <= x < 1, (("minimum", 0), ("exclusiveMaximum", 1)))
DEVICES = r"cpu|cuda(:(0|[1-9][0-9]?))?"
DEVICE = Constraint("cpu, cuda, or cuda:N", lambda x: re.fullmatch(DEVICES, x) is not None, (("pattern", f"^({DEVICES})$"),))

TASK = Key(
    "what is learnt; custom: model, data, loss and metric are all functions of your own; loop: Python code that calls dpcli.private"
)
BUILT_IN = ("logistic", "mlp", "cnn")  # models for arrays
SGD = Reader('optimizer = "sgd"', lambda train: train.optimizer == "sgd")
BIAS_CORRECTED = Reader('optimizer = "adam-bc"', lambda train: train.optimizer == "adam-bc")
HELD_OUT = Reader('public = "held-out"', lambda train: train.public == "held-out")


@dataclass(frozen=True, slots=True)
class Covers:
    """Coverage of the accounting besides the training itself."""

    tuning: Annotated[str | None, Key("how hyperparameters were chosen: on public data, or where the file counts the search")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(ABC):
    """The training: what is trained, on which data, and how; the privacy of it is the pipeline's."""

    premises: ClassVar[Premises] = (
        Premise(
            "A record's gradient depends on that record, on the model and on public data alone.",
            "train, before the charge and at every batch; what shows in neither, the author of the model",
            "tests/train/test_mixing.py::test_a_model_that_mixes_is_refused_before_any_charge",
        ),
        Premise(
            "A record that makes an error moves no other record's gradient.",
            "train",
            "tests/train/test_isolation_records.py::test_an_error_of_one_record_moves_no_other",
        ),
        Premise(
            "A row number is one record, in every process that loads the data.",
            "train",
            "tests/train/test_ranks.py::test_a_row_number_is_one_record_whatever_order_each_process_loads",
        ),
        Premise(
            "What stops a run before its first sum does not depend on a record; from there on it is charged.",
            "train and dpcli.private",
            "tests/train/loop/test_fronts.py::test_what_may_depend_on_a_record_is_charged_first",
        ),
        Premise(
            "The model is made without the private records.",
            "train, which refuses a model that calls the data's function; elsewhere the author of the model",
            "tests/train/tasks/test_apart.py::test_a_model_that_is_made_of_the_records_is_refused",
        ),
        Premise(
            "What the program reads beside parameters, buffers and records comes from public data.",
            "the author of the model; train names it in the statement",
            "tests/train/test_constants.py::test_a_captured_tensor_is_named",
        ),
        Premise(
            "Records that are declared public are others than the private ones.",
            "train, by name and content; elsewhere the author of the file",
            "tests/train/tasks/test_apart.py::test_files_of_the_same_records",
        ),
        Premise(
            "Messages and statements after the charge show no value and no row of the records.",
            "train",
            "tests/train/test_after_the_charge.py::test_an_error_of_a_step_shows_no_record",
        ),
        Premise(
            "A run that goes on is the one that was begun: its code, its data, its file.",
            "train",
            "tests/train/test_run.py::test_a_run_does_not_go_on_with_other_code",
        ),
    )

    selection: ClassVar[Selection] = Selection("task", TASKS)
    # Function that makes a learning problem of the table, as module:name; only training imports it.
    build: ClassVar[str]
    # Function that loads the trained model from a run's folder, as module:name.
    use: ClassVar[str]
    # Metric that it measures on public data, and whether higher or lower is better; None if the user's function measures.
    measures: ClassVar[tuple[str, Literal["higher", "lower"]] | None] = None
    # Whether model and loss are the user's own code, which can only be checked by trial.
    own_code: ClassVar[bool] = True
    # Endings of the files of data that are read as tables.
    tables: ClassVar[frozenset[str]] = frozenset()
    # Whether a part of a language model may be trained, which is then left as an adapter too.
    adapts: ClassVar[bool] = False
    # Keys that are newer than some saved runs: if they are not stated, they are left out of the fingerprint.
    later: ClassVar[frozenset[str]] = frozenset({"moment_floor"})
    # Example tables that together state every key: here the keys of all tasks, in each subclass its own.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "learning_rate": 0.5,
            "mechanism": "train",
            "schedule": "linear",
            "average": 0.9,
            "optimizer": "sgd",
            "momentum": 0.9,
            "weight_decay": 0.001,
            "units": "owner",
            "records_per_unit": 4,
            "physical_batch_size": 64,
            "checkpoint_every": 50,
            "output": "runs/digits",
            "engine": "dpcli",
            "device": "cuda:0",
            "covers": {"tuning": "on public data"},
        },
        {"optimizer": "adam-bc", "momentum": 0.0, "moment_floor": 0.2},
    )

    task: Annotated[str, TASK]
    data: Annotated[str, Key("private data: a file, or module:function", reads=True)]
    clipping: Annotated[Clipping, Key("how one example's gradient is bounded", varies=True)]
    learning_rate: Annotated[float, Key("step size of the optimizer", POSITIVE, varies=True)]
    model: Annotated[str, Key("what is trained", varies=True)]
    mechanism: Annotated[
        str | tuple[str, ...] | None,
        Key("the entry that a step performs, where the file has several; a list is a schedule: one after the other"),
    ] = None
    schedule: Annotated[
        Literal["constant", "linear", "cosine"], Key("how the learning rate falls to zero over the run, if it does", varies=True)
    ] = "constant"
    average: Annotated[
        float | None,
        Key(
            "decay of a moving average of the weights, which is what is measured and left; absent: the last weights",
            OPEN_UNIT,
            varies=True,
        ),
    ] = None
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw", "adam-bc"],
        Key(
            "how the noisy gradient is used: post-processing; adam-bc: as adamw, with the noise's variance taken off the second moment",
            varies=True,
        ),
    ] = "sgd"
    momentum: Annotated[float, Key("of sgd", MOMENTUM, reader=SGD, varies=True)] = 0.0
    weight_decay: Annotated[
        float, Key("of every optimizer: in the gradient of sgd and adam, beside it in adamw and adam-bc", NON_NEGATIVE, varies=True)
    ] = 0.0
    moment_floor: Annotated[
        float | None,
        Key(
            "least second moment of adam-bc, in variances of the noise; 0.1 where absent",
            POSITIVE,
            reader=BIAS_CORRECTED,
            varies=True,
        ),
    ] = None
    units: Annotated[
        str | None,
        Key("column or array that tells whose a record is; needed where a unit of privacy owns several records", claim=True),
    ] = None
    records_per_unit: Annotated[
        int | None,
        Key("units are sampled, and the mean loss over at most so many records of a unit is clipped as one", COUNT),
    ] = None
    public: Annotated[
        str | None,
        Key("data declared public, on which metrics are measured: a file, or held-out (a split declared public)", reads=True),
    ] = None
    physical_batch_size: Annotated[
        int, Key("examples, with all their views, in memory at once; no effect on the result", COUNT, varies=True)
    ] = 256
    checkpoint_every: Annotated[int, Key("steps between two states that --resume can go on from", COUNT, varies=True)] = 200
    output: Annotated[str | None, Key("folder of the model, the metrics and the statement; runs/NAME where absent")] = None
    engine: Annotated[Literal["dpcli", "opacus"], Key("what computes the clipped sums", varies=True)] = "dpcli"
    device: Annotated[str, Key("cpu, cuda, or cuda:N", DEVICE)] = "cpu"
    covers: Annotated[Covers, Key("what else the accounting covers", claim=True)] = Covers()

    @property
    def seen_as(self) -> str | None:
        """Return in words what a record's gradient is taken of; None if that is the record itself."""
        return None

    def problems(self) -> Iterator[Problem]:
        """Yield what is inconsistent, as (path, expected, found)."""
        if self.records_per_unit is not None and self.units is None:
            yield ("units",), "the column of each record's owner, as records_per_unit needs", "nothing"
        yield from self.own_problems()

    def own_problems(self) -> Iterable[Problem]:
        """Return what is inconsistent among the keys of the task."""
        return ()


def in_full(train: Train) -> dict[str, Any]:
    """Return every key of every task and style, for a run's fingerprint; keys that it does not state have their default or None."""
    clipping = _with_defaults(asdict(train.clipping), STYLES)
    return _with_defaults({**asdict(train), "clipping": clipping}, TASKS)


def _with_defaults(stated: Mapping[str, Any], registry: Mapping[str, str]) -> dict[str, Any]:
    classes = [load(target) for target in registry.values()]
    later = frozenset().union(*(cls.later for cls in classes))
    values = {name: member.default for cls in classes for name, member in members_of(cls).items()} | dict(stated)
    return {name: value for name, value in values.items() if value is not None or name not in later}


def read_train(data: bytes, path: str) -> Train:
    """Return the [train] table of a file's content, the rest of which is read as strictly.

    Raises:
        InvalidFile: With every problem found, at its place; a file without [train] is one.
    """
    train = section(data, path, "train")
    if not isinstance(train, Train):
        text, tables = toml_document(data, path)
        findings = Findings()
        what = "a [train] table, which says what is trained on which data"
        instead = 'none; dpcli init train prints one, and for dpcli.private it is task = "loop" and clipping = { norm = 1.0 }'
        findings.add("DP005", ("train",), what, instead)
        refuse(findings, tables, text, path)
    assert isinstance(train, Train)
    return train
