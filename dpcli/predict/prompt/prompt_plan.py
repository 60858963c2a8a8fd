"""The [prompt] table and its plan: teachers that are prompts with private demonstrations, and the public queries that they vote on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, Key, Note, Reader
from dpcli.base.premise import Premises
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.limits import read_bytes
from dpcli.predict.aggregators import Aggregator, aggregator_class, require_one_session
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.prediction_plan import ALONE, SHOWING, PredictionPlan, same_source, table_of, up_to
from dpcli.predict.shards import PREMISES, require_units
from dpcli.sessions.priced import PricedSession, priced
from dpcli.train.plan.sources import FUNCTION

AT_MOST = up_to(100_000, "100000")
OF_MODELS = Reader("model", lambda prompt: prompt.model is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """PromptPATE: teachers are prompts with disjoint private demonstrations; of their noisy votes on public texts a public prompt is made.

    Source: Duan, Dziedzic, Papernot, Boenisch 2023, arXiv:2305.15594, Section 5.
    """

    premises: ClassVar[Premises] = PREMISES

    # Tables that between them state every key.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "data": "reviews.csv",
            "queries": "public.txt",
            "labels": ["1", "2"],
            "model": "gpt2",
            "tokenizer": "gpt2",
            "text": "review",
            "label": "stars",
            "units": "author",
            "verbalizers": [" bad", " good"],
            "template": "{text} It was",
            "instruction": "Films.",
            "separator": ". ",
            "teachers": 50,
            "demonstrations": 2,
            "longest": 200,
            "candidates": 20,
            "student_demonstrations": 2,
            "public": "test.csv",
            "mechanism": "votes",
            "count": "queries.db",
            "output": "runs/reviews",
        },
        {"data": "own:data", "queries": "own:queries", "labels": ["no", "yes"], "labeller": "own:labeller", "teachers": 10},
    )

    data: Annotated[
        str,
        Key("private labelled texts: a .csv, .jsonl or .parquet file, or module:function (texts, labels, then units)", reads=True),
    ]
    queries: Annotated[str, Key("public texts without labels that the teachers vote on: a file, or module:function", reads=True)]
    labels: Annotated[tuple[str, ...], Key("every label, declared; at least two")]
    teachers: Annotated[int, Key("prompts with disjoint private demonstrations, by unit of privacy; each has one vote", AT_MOST)]
    model: Annotated[str | None, Key("language model: a path, a name, or module:function; its next word is a prompt's answer")] = (
        None
    )
    labeller: Annotated[
        str | None,
        Key("in place of model: module:function that takes a prompt and returns a label, or a score for each label", FUNCTION),
    ] = None
    tokenizer: Annotated[
        str | None, Key("of model: bytes, a path, a name or module:function; the model's own where absent", reader=OF_MODELS)
    ] = None
    text: Annotated[str, Key("column of the text in a .csv, .jsonl or .parquet file")] = "text"
    label: Annotated[str, Key("column of the label in such a file")] = "label"
    units: Annotated[
        str | None, Key("column that tells whose a record is; where absent, each is a unit of its own", claim=True)
    ] = None
    verbalizers: Annotated[
        tuple[str, ...] | None,
        Key("a word for each label, which stands after the template; its first token is the answer; the labels where absent"),
    ] = None
    template: Annotated[Note, Key("how a prompt shows a text, with {text} in it once; the label's word follows", SHOWING)] = ALONE
    instruction: Annotated[Note | None, Key("public text at the beginning of every prompt")] = None
    separator: Annotated[
        Note | None, Key("between two demonstrations, and before the text that is asked about; a line end where absent")
    ] = None
    demonstrations: Annotated[int, Key("records of its shard that a teacher shows at most", AT_MOST)] = 1
    longest: Annotated[int, Key("characters of a private text that a teacher shows at most; the rest is cut off", COUNT)] = 400
    candidates: Annotated[int, Key("student prompts that are compared by the noisy labels alone", AT_MOST)] = 32
    student_demonstrations: Annotated[int, Key("public texts with noisy labels in each of them", AT_MOST)] = 1
    public: Annotated[str | None, Key("public labelled texts that measure the prompt and decide nothing, as data", reads=True)] = (
        None
    )
    mechanism: Annotated[str | None, Key("name of the entry that is performed, where the file has several of votes")] = None
    count: Annotated[
        str | None,
        Key(
            "where answers are counted without a ledger: a path, or postgresql://...#name; queries.db in output where absent",
            claim=True,
        ),
    ] = None
    output: Annotated[str | None, Key("folder of the session; runs/NAME where absent")] = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the word for each label in a prompt."""
        return self.verbalizers or self.labels

    def problems(self) -> Iterator[Problem]:
        if len({label.strip() for label in self.labels}) < max(2, len(self.labels)):
            yield ("labels",), "at least two labels, all different", ", ".join(self.labels) or "none"
        elif self.verbalizers is not None and len(self.verbalizers) != len(self.labels):
            yield ("verbalizers",), f"one word for each of {len(self.labels)} labels", f"{len(self.verbalizers)}"
        for name in ("queries", "public"):
            if same_source(self.data, getattr(self, name)):
                yield (name,), "texts declared public, of which none is private", "the source of the private ones"
        if (self.model is None) == (self.labeller is None):
            yield ("model",), "model or labeller", "both" if self.model else "neither"


@dataclass(frozen=True, slots=True)
class PromptPlan(PredictionPlan, PricedSession):
    """The plan of `dpcli prompt`.

    Attributes:
        free: What is asked, and what is done with the answers.
    """

    section: ClassVar[str] = "prompt"
    free: ClassVar[tuple[str, ...]] = ("queries", "candidates", "student_demonstrations", "public", "count", "output")
    prompt: Prompt

    @property
    def queries(self) -> int:
        """Return how many queries may be put to the teachers."""
        return aggregator_class(self.entry).most_queries(self.entry)

    @property
    def answers(self) -> int | None:
        """Return how many queries may be answered; None if all of them are."""
        kind = aggregator_class(self.entry)
        return kind.most_answers(self.entry) if kind.abstains else None

    @property
    def aggregator(self) -> Aggregator:
        return aggregator_class(self.entry).of(self.entry.spec)


def plan_of(path: str) -> PromptPlan:
    """Return the plan of a file with [prompt].

    Raises:
        InputError: If it cannot be read or asks for what cannot be done.
        CannotCertify: If nobody can say what it costs.
    """
    data = read_bytes(path)
    prompt = table_of(data, path, Prompt, "prompt")
    session = priced(path, data, AGGREGATORS, "prompt", prompt.mechanism)
    require_units(session.pipeline, prompt.units, path, "prompt")
    require_one_session(session.entry, path)
    return PromptPlan(path, session.pipeline, session.account, session.entry, prompt)
