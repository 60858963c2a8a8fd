"""The keys of [train] with the language tasks: task = "causal-lm" predicts the next token, task = "soft-prompt" classifies texts.

tasks/causal_lm.py and tasks/soft_prompt.py build the learning problems, and tasks/lm_texts.py reads the texts that the keys describe. A
*soft prompt* consists of trained vectors in front of each text, and an *adapter* of low-rank matrices that are added to the weights
(`Lora`). A *verbalizer* is the word whose first token stands for a label.

The fields of a class are keys. A `Key` annotates a field with its meaning and a `Constraint` on its value, which states the allowed values
in words, as a function and in JSON Schema (base/fields.py). `varies` marks a key in which the runs of a sweep may differ, and `needs` is a
`NeededSetting`, without which the key has no effect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, POSITIVE, RATE, Constraint, Key, NeededSetting
from dpcli.file.toml.findings import Problem
from dpcli.train.plan.settings import BUILT_IN, HELD_OUT, TASK, Train
from dpcli.train.plan.settings_classification import COLUMNS
from dpcli.train.plan.sources import public_rule, source_rule

MODEL = Constraint(
    "a path or name of a language model, or module:function", lambda x: x not in BUILT_IN, (("not", {"enum": list(BUILT_IN)}),)
)
TEMPLATE = Constraint(
    "text with {text} in it once", lambda x: x.count("{text}") == 1, (("pattern", r"^(?!.*\{text\}.*\{text\}).*\{text\}"),)
)

ROWS = (".jsonl", ".csv", ".parquet")  # endings of files with a row for each text
TEXTS = (".txt", *ROWS)
PUBLIC_DOC = "data declared public, on which metrics are measured: as data, or held-out (a part of data that is declared public)"


def reads_record(train: CausalLm) -> bool:
    """Return whether the key `record` has an effect. A table or a function gives whole records, which can only be cut into windows."""
    return train.record == "window" or os.path.splitext(train.data)[1] == ".txt"


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank matrices that are trained in place of the weights of a language model (Hu et al. 2021, arXiv:2106.09685)."""

    rank: Annotated[int, Key("rank of each pair of matrices", COUNT)]
    alpha: Annotated[float, Key("scale of the matrices; their product is multiplied by alpha / rank", POSITIVE)] = 16.0
    targets: Annotated[
        tuple[str, ...] | None,
        Key("names of the layers that get a pair of matrices; by default PEFT's choice for the architecture"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(Train):
    """A task of a language model on texts."""

    # `Train` in settings.py explains the class variables.
    own_code: ClassVar[bool] = False
    tables: ClassVar[frozenset[str]] = frozenset(ROWS)
    adapts: ClassVar[bool] = True  # a run may train a part of the model alone, and then also writes it as an adapter

    model: Annotated[str, Key("language model that is trained or adapted", MODEL, varies=True)]
    tokenizer: Annotated[
        str | None, Key("tokenizer of the model: bytes, a path or a name; it must be public; by default the model's tokenizer")
    ] = None
    context: Annotated[int, Key("largest number of tokens of a record; a longer text is cut off, or cut into windows", COUNT)] = 128
    text: Annotated[str, Key("column of the text in a .csv, .jsonl or .parquet file", needs=COLUMNS)] = "text"
    soft_prompt: Annotated[
        int | None,
        Key("number of trained vectors before each text; they are trained in place of the model's weights", COUNT, varies=True),
    ] = None
    held_out: Annotated[float, Key("share of the data that held-out declares public", RATE, needs=HELD_OUT)] = 0.2

    @property
    def label_column(self) -> str | None:
        """Return the column of the label in a file with columns; None if texts have no labels."""
        return None

    @property
    def cut_by(self) -> str | None:
        """Return the value of `record`, which cuts plain text into records; None if records need labels, which plain text lacks."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalLm(Language):
    """Prediction of the next token of each text. All weights, low-rank adapters, or a soft prompt are trained."""

    build: ClassVar[str] = "dpcli.train.tasks.causal_lm:build"
    use: ClassVar[str] = "dpcli.train.trained.language:language"
    measures: ClassVar[tuple[str, Literal["higher", "lower"]] | None] = ("perplexity", "lower")
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"data": "mails.txt", "model": "gpt2", "record": "paragraph", "context": 64, "lora": {"rank": 4}, "token_loss": "sum"},
        {"data": "mails.csv", "model": "own:model", "tokenizer": "bytes", "text": "body", "soft_prompt": 8},
        {"data": "mails.jsonl", "model": "gpt2", "public": "held-out", "held_out": 0.1},
    )

    task: Annotated[str, TASK] = "causal-lm"
    data: Annotated[str, Key("private data: texts in a file, or from your function", source_rule(TEXTS))]
    public: Annotated[str | None, Key(PUBLIC_DOC, public_rule(TEXTS))] = None
    record: Annotated[
        Literal["line", "paragraph", "window"],
        Key(
            "definition of one record of text: a line or row, a paragraph between blank lines, or a window of context tokens",
            needs=NeededSetting("data in a .txt file", reads_record),
        ),
    ] = "line"
    token_loss: Annotated[
        Literal["mean", "sum"], Key("whether a record's loss is the mean or the sum over its tokens", varies=True)
    ] = "mean"
    lora: Annotated[
        Lora | None, Key("low-rank adapters of PEFT, which are trained in place of the model's weights", varies=True)
    ] = None

    @property
    def cut_by(self) -> str | None:
        return self.record

    def own_problems(self) -> Iterator[Problem]:
        if self.lora is not None and self.soft_prompt is not None:
            yield ("soft_prompt",), "only one of lora and soft_prompt", "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftPrompt(Language):
    """Classification of texts by a frozen language model with a trained prompt (Duan et al. 2023, arXiv:2305.15594)."""

    build: ClassVar[str] = "dpcli.train.tasks.soft_prompt:build"
    use: ClassVar[str] = "dpcli.train.trained.language:text_classifier"
    measures: ClassVar[tuple[str, Literal["higher", "lower"]] | None] = ("accuracy", "higher")
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "data": "reviews.csv",
            "model": "gpt2",
            "tokenizer": "gpt2",
            "text": "review",
            "label": "stars",
            "labels": ["1", "2"],
            "verbalizers": ["bad", "good"],
            "template": "{text} It was",
            "context": 64,
            "soft_prompt": 8,
            "public": "held-out",
            "held_out": 0.1,
        },
    )

    task: Annotated[str, TASK] = "soft-prompt"
    data: Annotated[str, Key("private data: texts with labels in a file, or from your function", source_rule(ROWS))]
    public: Annotated[str | None, Key(PUBLIC_DOC, public_rule(ROWS))] = None
    soft_prompt: Annotated[int, Key("number of vectors before each text; only these vectors are trained", COUNT, varies=True)]
    label: Annotated[str | None, Key("column of the label; by default the column named label", needs=COLUMNS)] = None
    labels: Annotated[tuple[str, ...], Key("all labels that the data may have; at least two")]
    verbalizers: Annotated[
        tuple[str, ...] | None,
        Key("word for each label, whose first token represents the label; by default the labels themselves", varies=True),
    ] = None
    template: Annotated[str, Key("text that the model reads; it contains {text} once", TEMPLATE, varies=True)] = "{text}"

    @property
    def label_column(self) -> str | None:
        return self.label or "label"

    def own_problems(self) -> Iterator[Problem]:
        if len(set(self.labels)) < 2:
            yield ("labels",), "at least two labels", f"{len(set(self.labels))}"
        elif self.verbalizers is not None and len(self.verbalizers) != len(self.labels):
            yield ("verbalizers",), f"one word for each of {len(self.labels)} labels", f"{len(self.verbalizers)}"
