"""The [prompt] table and its plan: teachers are prompts with private demonstrations, and vote on public queries.

A *demonstration* is a private labelled text that a prompt shows to a language model. A *teacher* is a prompt with demonstrations of some
owners. Each owner's texts go to one teacher, so one change moves one vote on each *query*, a public text to label. The noisy votes label
the queries, and only these labels leave the private side; the *student*, a prompt for later use, is made of them. The [[mechanism]] entry
states the noise. Keys on which the votes depend may not change within a *session*, which is everything that one charge pays for. A `Key`
has the help text of a key and the constraint on its value; `needs` is the setting without which the key is refused, `claim` marks a
statement that dpcli does not enforce, and `names_data` a key that names data. A `Note` is a text that may be blank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, Key, NeededSetting, Note
from dpcli.base.premise import Premises
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.limits import read_bytes
from dpcli.predict.aggregators import Aggregator, aggregator_class, require_one_session
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.prediction_plan import TEMPLATE, TEXT_ALONE, PredictionPlan, same_source, table_of, up_to
from dpcli.predict.shards import SHARD_PREMISES, require_units
from dpcli.sessions.priced import PricedSession, priced
from dpcli.train.plan.sources import FUNCTION

FEASIBLE_COUNT = up_to(100_000, "100000")  # a whole number from 1 to 100,000; more is refused, to bound time and memory
OF_MODELS = NeededSetting("model", lambda prompt: prompt.model is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The [prompt] table (PromptPATE): prompts with disjoint private demonstrations vote on public texts, which make a public prompt.

    Source: Duan, Dziedzic, Papernot, Boenisch 2023, arXiv:2305.15594, Section 5.
    """

    premises: ClassVar[Premises] = SHARD_PREMISES

    # Example tables, which together contain every key.
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
        Key(
            "private labelled texts: a .csv, .jsonl or .parquet file, or module:function (texts, labels, then units)",
            names_data=True,
        ),
    ]
    queries: Annotated[str, Key("public texts to label, on which the teachers vote: a file, or module:function", names_data=True)]
    labels: Annotated[tuple[str, ...], Key("all labels, declared; at least two")]
    teachers: Annotated[
        int, Key("number of prompts with demonstrations from disjoint sets of units; each has one vote", FEASIBLE_COUNT)
    ]
    model: Annotated[str | None, Key("language model, whose next token answers a prompt: a path, a name, or module:function")] = (
        None
    )
    labeller: Annotated[
        str | None,
        Key("module:function instead of model, which takes a prompt and returns a label, or a score for each label", FUNCTION),
    ] = None
    tokenizer: Annotated[
        str | None,
        Key("tokenizer of model: bytes, a path, a name or module:function; by default, the model's own", needs=OF_MODELS),
    ] = None
    text: Annotated[str, Key("column of the text in a .csv, .jsonl or .parquet file")] = "text"
    label: Annotated[str, Key("column of the label in such a file")] = "label"
    units: Annotated[
        str | None, Key("column that names the owner of each record; by default, each record is a unit", claim=True)
    ] = None
    verbalizers: Annotated[
        tuple[str, ...] | None,
        Key("a word for each label, which follows the template, and whose first token is the answer; by default, the labels"),
    ] = None
    template: Annotated[
        Note, Key("form of a text in a prompt, in which {text} occurs once; the label's word follows", TEMPLATE)
    ] = TEXT_ALONE
    instruction: Annotated[Note | None, Key("public text at the beginning of every prompt")] = None
    separator: Annotated[
        Note | None, Key("text between two demonstrations, and before the text to label; by default, a line end")
    ] = None
    demonstrations: Annotated[int, Key("largest number of demonstrations of a teacher", FEASIBLE_COUNT)] = 1
    longest: Annotated[int, Key("largest number of characters of a private text in a prompt; the rest is cut off", COUNT)] = 400
    candidates: Annotated[
        int, Key("number of prompts for the student that are compared, by the noisy labels alone", FEASIBLE_COUNT)
    ] = 32
    student_demonstrations: Annotated[
        int, Key("number of public texts with noisy labels in each of these prompts", FEASIBLE_COUNT)
    ] = 1
    public: Annotated[
        str | None, Key("public labelled texts on which the chosen prompt is tested: a source as for data", names_data=True)
    ] = None
    mechanism: Annotated[str | None, Key("name of the entry that answers, if the file has several entries for votes")] = None
    count: Annotated[
        str | None,
        Key(
            "place of the count without a ledger: a path, or postgresql://...#name; by default, queries.db in output",
            claim=True,
        ),
    ] = None
    output: Annotated[str | None, Key("folder of the session; by default, runs/NAME")] = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the word for each label in a prompt."""
        return self.verbalizers or self.labels

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the table, each as (path of the key, text after "expected", text after "found")."""
        if len({label.strip() for label in self.labels}) < max(2, len(self.labels)):
            yield ("labels",), "at least two labels, all different", ", ".join(self.labels) or "none"
        elif self.verbalizers is not None and len(self.verbalizers) != len(self.labels):
            yield ("verbalizers",), f"one word for each of {len(self.labels)} labels", f"{len(self.verbalizers)}"
        for name in ("queries", "public"):
            if same_source(self.data, getattr(self, name)):
                yield (name,), "texts declared public", "the source of the private texts"
        if (self.model is None) == (self.labeller is None):
            yield ("model",), "model or labeller", "both" if self.model else "neither"


@dataclass(frozen=True, slots=True)
class PromptPlan(PredictionPlan, PricedSession):
    """The plan of `dpcli prompt`. The `entry` is the mechanism of the noisy votes, and the `account` is the cost of the file.

    Attributes:
        free: Keys for the queries and for the use of the answers, which may change after a session has begun.
    """

    section: ClassVar[str] = "prompt"  # name of the table in the file
    free: ClassVar[tuple[str, ...]] = ("queries", "candidates", "student_demonstrations", "public", "count", "output")
    prompt: Prompt

    @property
    def queries(self) -> int:
        """Return the largest number of queries that the entry pays for."""
        return aggregator_class(self.entry).most_queries(self.entry)

    @property
    def answers(self) -> int | None:
        """Return the largest number of answered queries; None if every query is answered."""
        kind = aggregator_class(self.entry)
        return kind.most_answers(self.entry) if kind.abstains else None

    @property
    def aggregator(self) -> Aggregator:
        return aggregator_class(self.entry).of(self.entry.spec)


def plan_of(path: str) -> PromptPlan:
    """Return the plan of a file with [prompt].

    Raises:
        InputError: If the file cannot be read or asks for something impossible.
        CannotCertify: If no bound on its cost is known.
    """
    data = read_bytes(path)
    prompt = table_of(data, path, Prompt, "prompt")
    # `session` has the pipeline, its entry that answers queries, and the cost of the file.
    session = priced(path, data, AGGREGATORS, "prompt", prompt.mechanism)
    require_units(session.pipeline, prompt.units, path, "prompt")
    require_one_session(session.entry, path)
    return PromptPlan(path, session.pipeline, account=session.account, entry=session.entry, prompt=prompt)
