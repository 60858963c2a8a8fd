"""The [train] table, read as strictly as the rest of the file. Nothing here needs torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from dpcli.fields import COUNT, NON_NEGATIVE, OPEN_UNIT, POSITIVE, RATE, Constraint, Key
from dpcli.pipeline.read import refuse, section, toml_document
from dpcli.toml.findings import Findings
from dpcli.toml.shown import shown
from dpcli.train.plan.unread import unread

# At 1 and beyond a step is never forgotten, and the weights run away.
MOMENTUM = Constraint("a number in [0, 1)", lambda x: 0 <= x < 1, (("minimum", 0), ("exclusiveMaximum", 1)))
DEVICE = re.compile(r"cpu|cuda(:(0|[1-9][0-9]?))?")


@dataclass(frozen=True, slots=True)
class Clipping:
    """How one example's gradient is bounded before the sum."""

    norm: Annotated[float, Key("C: the L2 bound on one example's gradient; noise_multiplier is noise over C", POSITIVE)]
    style: Annotated[
        Literal["flat", "automatic", "per-layer", "adaptive"],
        Key(
            "flat: scaled down to C; automatic: always scaled to about C; per-layer: C split over layers; adaptive: C follows a quantile"
        ),
    ] = "flat"
    gamma: Annotated[float, Key("stability constant of automatic clipping", POSITIVE)] = 0.01
    quantile: Annotated[float, Key("share of examples that adaptive clipping leaves unclipped", RATE)] = 0.5
    quantile_noise: Annotated[
        float | None, Key("noise of the count of unclipped examples, in examples; accounted for", POSITIVE)
    ] = None
    quantile_rate: Annotated[float, Key("how fast adaptive clipping follows", POSITIVE)] = 0.2


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank matrices beside the weights of a language model, which stay as they are (Hu et al. 2021, arXiv:2106.09685)."""

    rank: Annotated[int, Key("of each pair of matrices", COUNT)]
    alpha: Annotated[float, Key("their product is scaled by alpha over rank", POSITIVE)] = 16.0
    targets: Annotated[
        tuple[str, ...] | None, Key("names of the layers that get a pair; those that PEFT knows for the architecture where absent")
    ] = None


@dataclass(frozen=True, slots=True)
class Covers:
    """What the accounting covers beside the training itself."""

    tuning: Annotated[str | None, Key("how hyperparameters were chosen: on public data, or where the file counts the search")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class Train:
    """What is trained, on which data, and how; the privacy of it is the pipeline's."""

    task: Annotated[
        Literal["classification", "causal-lm", "soft-prompt", "custom"],
        Key("what is learnt; custom: model, data, loss and metric are all functions of your own"),
    ]
    data: Annotated[str, Key("private data: digits, a .npz, .csv or .parquet file, a text file, or module:function")]
    clipping: Annotated[Clipping, Key("how one example's gradient is bounded")]
    learning_rate: Annotated[float, Key("step size of the optimizer", POSITIVE)]
    model: Annotated[str, Key("logistic, mlp, cnn, a path or name of a language model, or module:function")] = "logistic"
    loss: Annotated[str | None, Key("module:function (model, batch) -> one loss per record, of a custom task")] = None
    metric: Annotated[str | None, Key("module:function (model, public batch) -> metrics by name, of a custom task")] = None
    canary: Annotated[
        str | None, Key("module:function (count, generator) -> records that nobody owns, of a custom task, for [audit] canaries")
    ] = None
    mechanism: Annotated[
        str | tuple[str, ...] | None,
        Key("the entry that a step performs, where the file has several; a list is a schedule: one after the other"),
    ] = None
    schedule: Annotated[
        Literal["constant", "linear", "cosine"], Key("how the learning rate falls to zero over the run, if it does")
    ] = "constant"
    average: Annotated[
        float | None,
        Key("decay of a moving average of the weights, which is what is measured and left; absent: the last weights", OPEN_UNIT),
    ] = None
    optimizer: Annotated[Literal["sgd", "adam"], Key("how the noisy gradient is used: post-processing")] = "sgd"
    momentum: Annotated[float, Key("of sgd", MOMENTUM)] = 0.0
    weight_decay: Annotated[float, Key("of either optimizer", NON_NEGATIVE)] = 0.0
    classes: Annotated[
        int | None, Key("how many labels there are, declared and not counted in private data; 10 for digits", COUNT)
    ] = None
    shift: Annotated[float, Key("a declared constant that is taken off every input number, so that they lie about zero")] = 0.0
    label: Annotated[str | None, Key("column of the label in a .csv or .parquet file; the last one where absent")] = None
    units: Annotated[
        str | None, Key("column or array that tells whose a record is; needed where a unit of privacy owns several records")
    ] = None
    tokenizer: Annotated[
        str | None, Key("of a language model: bytes, a path or a name; must be public; the model's own where absent")
    ] = None
    context: Annotated[int, Key("tokens of a record of text at most; longer ones are cut off, or cut into windows", COUNT)] = 128
    text: Annotated[str, Key("column of the text in a .csv, .jsonl or .parquet file")] = "text"
    record: Annotated[
        Literal["line", "paragraph", "window"],
        Key("what one record of text is: a line or row, a paragraph between blank lines, or each window of context tokens"),
    ] = "line"
    token_loss: Annotated[Literal["mean", "sum"], Key("a record's loss: over its own tokens, never over the batch's")] = "mean"
    lora: Annotated[Lora | None, Key("low-rank adapters in place of all weights of a language model, by PEFT")] = None
    soft_prompt: Annotated[
        int | None, Key("trained vectors before each text, in place of all weights of a language model", COUNT)
    ] = None
    labels: Annotated[tuple[str, ...] | None, Key("of a soft-prompt task: every label that the data may have, declared")] = None
    verbalizers: Annotated[
        tuple[str, ...] | None, Key("a word for each label, whose first token stands for it; the labels themselves where absent")
    ] = None
    template: Annotated[str, Key("what a soft-prompt task shows to the model, with {text} once in it")] = "{text}"
    records_per_unit: Annotated[
        int | None,
        Key("units are sampled, and the mean loss over at most so many records of a unit is clipped as one", COUNT),
    ] = None
    hidden: Annotated[int, Key("width of the hidden layer of mlp", COUNT)] = 64
    public: Annotated[
        str | None, Key("data declared public, on which metrics are measured: a file, or held-out (a split declared public)")
    ] = None
    held_out: Annotated[float, Key("share of the data that held-out sets aside", RATE)] = 0.2
    physical_batch_size: Annotated[int, Key("examples that are in memory at once; no effect on the result", COUNT)] = 256
    checkpoint_every: Annotated[int, Key("steps between two states that --resume can go on from", COUNT)] = 200
    output: Annotated[str | None, Key("folder of the model, the metrics and the statement; runs/NAME where absent")] = None
    engine: Annotated[Literal["dpcli", "opacus"], Key("what computes the clipped sums")] = "dpcli"
    device: Annotated[str, Key("cpu, cuda, or cuda:N")] = "cpu"
    covers: Annotated[Covers, Key("what else the accounting covers")] = Covers()

    def problems(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """What is inconsistent, as (path, expected, found)."""
        if self.clipping.style == "adaptive" and self.clipping.quantile_noise is None:
            yield (
                ("clipping", "quantile_noise"),
                'the noise of the count of unclipped examples, with style = "adaptive"',
                "nothing",
            )
        if self.records_per_unit is not None and self.units is None:
            yield ("units",), "what tells whose a record is, as records_per_unit needs", "nothing"
        if DEVICE.fullmatch(self.device) is None:
            yield ("device",), "cpu, cuda, or cuda:N", shown(self.device)
        yield from unread(self)
        if self.task == "custom":
            yield from self._custom_problems()
        if self.task in ("causal-lm", "soft-prompt"):
            yield from self._language_problems()
        if self.task == "soft-prompt":
            yield from self._label_problems()

    def _custom_problems(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        for name, target in (("model", self.model), ("data", self.data), ("public", self.public)):
            if target is not None and ":" not in target:
                yield (name,), "module:function for a custom task", shown(target)
        if self.loss is None:
            yield ("loss",), "module:function for a custom task", "none"
        if self.public is not None and self.metric is None:
            yield ("public",), "no such key without metric, which alone reads it", shown(self.public)

    def _language_problems(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        if self.model in ("logistic", "mlp", "cnn"):
            yield ("model",), "a path or name of a language model, or module:function", self.model
        if self.task == "causal-lm" and self.lora is not None and self.soft_prompt is not None:
            yield ("soft_prompt",), "lora or soft_prompt", "both"

    def _label_problems(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        if self.soft_prompt is None:
            yield ("soft_prompt",), "the number of trained vectors", "none"
        if self.labels is None or len(set(self.labels)) < 2:
            yield ("labels",), "at least two labels", "none" if self.labels is None else f"{len(set(self.labels))}"
        elif self.verbalizers is not None and len(self.verbalizers) != len(self.labels):
            yield ("verbalizers",), f"one word for each of {len(self.labels)} labels", f"{len(self.verbalizers)}"
        if self.template.count("{text}") != 1:
            yield ("template",), "{text} once", f"it {self.template.count('{text}')} times"


def read_train(data: bytes, path: str) -> Train:
    """The [train] table of a file's content, the rest of which is read as strictly.

    Raises:
        InvalidFile: with every problem found, at its place; a file without [train] is one.
    """
    found = section(data, path, "train")
    if not isinstance(found, Train):
        text, tables = toml_document(data, path)
        findings = Findings()
        findings.add("DP005", ("train",), "a [train] table, which says what is trained on which data", "none")
        refuse(findings, tables, text, path)
    assert isinstance(found, Train)
    return found
