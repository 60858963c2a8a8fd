"""The keys of [train] that every task reads.

[train] is the table of a pipeline file that says what is trained; the mechanisms of the file say how privately. The key `task` selects the
subclass of `Train` that reads the table (TASKS in train/plugin.py), and the fields of that class are its keys. The tasks are in
settings_classification.py, settings_language.py and settings_custom.py. None of them imports torch, so that the linter and the gate can
read a file where torch is not installed.

A `Key` annotates a field with its meaning and a `Constraint` on its value (base/fields.py). `varies` marks a key in which the runs of a
sweep may differ, `claim` a statement that dpcli does not enforce, and `names_data` the data that are read. `needs` is a setting without
which the key has no effect. A `Premise` is an assumption of the guarantee, with who ensures it and a test that breaks it on purpose.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, NON_NEGATIVE, OPEN_UNIT, POSITIVE, Constraint, Key, NeededSetting, Selection
from dpcli.base.lazy import load
from dpcli.base.premise import Premise, Premises
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.toml.findings import Findings, Problem
from dpcli.train.plan.clipping import Clipping
from dpcli.train.plugin import STYLES, TASKS

# With a momentum of 1 or more, no step is ever forgotten, and the weights diverge.
MOMENTUM = Constraint("a number in [0, 1)", lambda x: 0 <= x < 1, (("minimum", 0), ("exclusiveMaximum", 1)))
DEVICES = r"cpu|cuda(:(0|[1-9][0-9]?))?"
DEVICE = Constraint("cpu, cuda, or cuda:N", lambda x: re.fullmatch(DEVICES, x) is not None, (("pattern", f"^({DEVICES})$"),))

# Default number of examples in memory at once. At a batch_size of up to 280, 99 % of Poisson samples fit; one that does not fit takes a
# second pass, and up to twice the time. The first default was 256, and fingerprints of saved runs were computed with it (`every_key`).
PHYSICAL_BATCH_SIZE, FIRST_PHYSICAL_BATCH_SIZE = 320, 256

TASK = Key(
    "kind of training; with custom, model, data, loss and metric are your own functions; with loop, your program calls dpcli.private"
)
BOUNDED = "bounded-logistic"  # softmax regression on features of bounded length
BUILT_IN = ("logistic", BOUNDED, "mlp", "cnn")  # models for arrays
# Settings without which a key of the table has no effect.
SGD = NeededSetting('optimizer = "sgd"', lambda train: train.optimizer == "sgd")
BIAS_CORRECTED = NeededSetting('optimizer = "adam-bc"', lambda train: train.optimizer == "adam-bc")
HELD_OUT = NeededSetting('public = "held-out"', lambda train: train.public == "held-out")


@dataclass(frozen=True, slots=True)
class Covers:
    """Choices besides the training itself that the accounting covers."""

    tuning: Annotated[
        str | None, Key("how hyperparameters were chosen: on public data, or by a search that the file also accounts for")
    ] = None


# Each task has a subclass, which adds keys and sets the class variables. The manual prints the docstring.
@dataclass(frozen=True, slots=True, kw_only=True)
class Train(ABC):
    """A training run: the model, the data and the optimizer. The mechanisms of the file declare its privacy."""

    premises: ClassVar[Premises] = (
        Premise(
            "A record's gradient depends on that record, on the model and on public data alone.",
            "train, before the charge and at every batch; for violations that neither check reveals, the author of the model",
            "tests/train/isolation/test_mixing.py::test_a_model_that_mixes_is_refused_before_any_charge",
        ),
        Premise(
            "The last digits of a noisy sum do not show what the noise was added to.",
            "train and dpcli.private, which draw and add noise in double precision, and round each noisy sum to multiples of about 2^-32 "
            "standard deviations",
            "tests/train/sampling/test_noise.py::test_the_last_digits_of_a_noisy_sum_tell_nothing",
        ),
        Premise(
            "A record that causes an error changes no other record's gradient.",
            "train",
            "tests/train/isolation/test_isolation_records.py::test_an_error_of_one_record_moves_no_other",
        ),
        Premise(
            "A row number refers to the same record in every process that loads the data.",
            "train",
            "tests/train/run/test_ranks.py::test_a_row_number_is_one_record_whatever_order_each_process_loads",
        ),
        Premise(
            "An error that stops a run before its first sum does not depend on a record; from its first sum on, the run is charged.",
            "train and dpcli.private",
            "tests/train/loop/test_fronts.py::test_what_may_depend_on_a_record_is_charged_first",
        ),
        Premise(
            "The model is made without the private records.",
            "train, which refuses a model that calls the function of the data; elsewhere the author of the model",
            "tests/train/tasks/test_apart.py::test_a_model_that_is_made_of_the_records_is_refused",
        ),
        Premise(
            "All values that the program reads besides parameters, buffers and records come from public data.",
            "the author of the model; train refuses the private records themselves, and names the other values in the statement",
            "tests/train/test_constants.py::test_a_captured_tensor_is_named",
        ),
        Premise(
            "Records that are declared public differ from the private records.",
            "train, by name and content; elsewhere the author of the file",
            "tests/train/tasks/test_apart.py::test_files_of_the_same_records",
        ),
        Premise(
            "Messages and statements after the charge show no value and no row of the records.",
            "train",
            "tests/train/run/test_after_the_charge.py::test_an_error_of_a_step_shows_no_record",
        ),
        Premise(
            "With last-iterate, no model but the last one is seen. The state for --resume, which holds one, is not released.",
            "train, which measures and shows no other model, and removes the state at the end; for copies of the state, the operator",
            "tests/train/run/test_last_iterate.py::test_only_the_last_model_leaves",
        ),
        Premise(
            "A resumed run has the code, the data and the file with which it was started.",
            "train",
            "tests/train/run/test_run.py::test_a_run_does_not_go_on_with_other_code",
        ),
    )

    selection: ClassVar[Selection] = Selection("task", TASKS)
    # Function that returns the learning problem of the table, as module:name. Only training imports it.
    build: ClassVar[str]
    # Function that returns the trained model of a run, as module:name.
    use: ClassVar[str]
    # Metric that the task measures on public data, and whether higher or lower is better; None if the user's function measures.
    measures: ClassVar[tuple[str, Literal["higher", "lower"]] | None] = None
    # Whether the model and the loss are the user's own code. dpcli can only test such code on records.
    own_code: ClassVar[bool] = True
    # Endings of the data files that the task reads as tables.
    tables: ClassVar[frozenset[str]] = frozenset()
    # Whether the task may train only a part of a language model. The run then also writes the part as an adapter.
    adapts: ClassVar[bool] = False
    # Keys that are newer than some saved runs. The fingerprint omits them if the file does not set them.
    later: ClassVar[frozenset[str]] = frozenset({"moment_floor"})
    # Example tables that together contain every key. Those of this class contain the keys of all tasks, those of a subclass its own keys.
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
    data: Annotated[str, Key("private data: a file, or module:function", names_data=True)]
    clipping: Annotated[Clipping, Key("bound on one example's gradient", varies=True)]
    learning_rate: Annotated[float, Key("learning rate of the optimizer", POSITIVE, varies=True)]
    model: Annotated[str, Key("model to train", varies=True)]
    mechanism: Annotated[
        str | tuple[str, ...] | None,
        Key(
            "entry that the steps perform, if the file has several; a list is a schedule of entries, performed one after the other"
        ),
    ] = None
    schedule: Annotated[
        Literal["constant", "linear", "cosine"],
        Key("schedule of the learning rate; linear and cosine fall to zero over the run", varies=True),
    ] = "constant"
    average: Annotated[
        float | None,
        Key(
            "decay of a moving average of the weights; the average is measured and saved; by default the last weights are",
            OPEN_UNIT,
            varies=True,
        ),
    ] = None
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw", "adam-bc"],
        Key(
            "optimizer of the noisy gradient; adam-bc is adamw with the variance of the noise subtracted from the second moment",
            varies=True,
        ),
    ] = "sgd"
    momentum: Annotated[float, Key("momentum of sgd", MOMENTUM, needs=SGD, varies=True)] = 0.0
    weight_decay: Annotated[
        float,
        Key(
            "weight decay; sgd and adam add it to the gradient, adamw and adam-bc apply it to the weights",
            NON_NEGATIVE,
            varies=True,
        ),
    ] = 0.0
    moment_floor: Annotated[
        float | None,
        Key(
            "lower bound on the second moment of adam-bc, in units of the variance of the noise; by default 0.1",
            POSITIVE,
            needs=BIAS_CORRECTED,
            varies=True,
        ),
    ] = None
    units: Annotated[
        str | None,
        Key("column or array with the owner of each record; needed if a unit of privacy owns several records", claim=True),
    ] = None
    records_per_unit: Annotated[
        int | None,
        Key("largest number of records of a unit; units are then sampled, and the gradient of their mean loss is clipped", COUNT),
    ] = None
    public: Annotated[
        str | None,
        Key(
            "data declared public, on which metrics are measured: a file, or held-out (a part of data that is declared public)",
            names_data=True,
        ),
    ] = None
    physical_batch_size: Annotated[
        int, Key("number of examples in memory at once, with all their views; it has no effect on the result", COUNT, varies=True)
    ] = PHYSICAL_BATCH_SIZE
    checkpoint_every: Annotated[int, Key("number of steps between saved states, for --resume", COUNT, varies=True)] = 200
    output: Annotated[str | None, Key("folder of the model, the metrics and the statement; by default runs/NAME")] = None
    engine: Annotated[Literal["dpcli", "opacus"], Key("library that computes the clipped sums", varies=True)] = "dpcli"
    device: Annotated[str, Key("device of the computation: cpu, cuda, or cuda:N", DEVICE)] = "cpu"
    covers: Annotated[Covers, Key("choices besides the training that the accounting covers", claim=True)] = Covers()

    @property
    def loss_over_views(self) -> str | None:
        """Return in words how a record's loss is computed from views of the record; None without augmentation."""
        return None

    def problems(self) -> Iterator[Problem]:
        """Yield each inconsistency of the keys as (path, expected, found)."""
        if self.records_per_unit is not None and self.units is None:
            yield ("units",), "the column of each record's owner, which records_per_unit needs", "nothing"
        yield from self.own_problems()

    def own_problems(self) -> Iterable[Problem]:
        """Return the inconsistencies among the keys of the task."""
        return ()


def every_key(train: Train) -> dict[str, Any]:
    """Return the values of all keys of all tasks and clipping styles. A key that the file does not set has its default or None.

    A run's fingerprint is a digest of them (`TrainingPlan.fingerprint`). It must not change when dpcli learns a new key, or saved runs
    could no longer be resumed: hence `later`. For the same reason physical_batch_size, which has no effect on the result, has its first
    default here.
    """
    clipping = _with_defaults(asdict(train.clipping), STYLES)
    values = _with_defaults({**asdict(train), "clipping": clipping}, TASKS)
    if values["physical_batch_size"] == PHYSICAL_BATCH_SIZE:
        values["physical_batch_size"] = FIRST_PHYSICAL_BATCH_SIZE
    return values


def _with_defaults(stated: Mapping[str, Any], registry: Mapping[str, str]) -> dict[str, Any]:
    """Return the stated keys, completed by the defaults of all classes in a registry. Keys in `later` without a value are omitted."""
    classes = [load(target) for target in registry.values()]
    later = frozenset().union(*(cls.later for cls in classes))
    values: dict[str, Any] = {}
    for cls in classes:
        values.update((name, member.default) for name, member in members_of(cls).items())
    values.update(stated)
    return {name: value for name, value in values.items() if value is not None or name not in later}


def read_train(data: bytes, path: str) -> Train:
    """Return the [train] table of a file's content. The rest of the file is checked as well.

    Raises:
        InvalidFile: The file has problems, or no [train] table. The error lists every problem with its place.
    """
    train = section(data, path, "train")
    if not isinstance(train, Train):  # a missing table is reported like any other problem of the file
        text, tables = toml_document(data, path)
        findings = Findings()
        expected = "a [train] table, which names the model and the data"
        actual = 'none; dpcli init train prints one, and dpcli.private needs only task = "loop" and clipping = { norm = 1.0 }'
        findings.add("DP005", ("train",), expected, actual)
        refuse(findings, tables, text, path)
    assert isinstance(train, Train)
    return train
