"""The [generate] table and its plan: the texts that `dpcli generate` writes and their cost, fixed before any private text is read.

Private texts are dealt out to *batches* by a hash of their owner, and each written text comes from one batch, so a change of one unit
changes one batch. A token that is drawn from the logits of private texts is a *private token* (private_tokens.py). All tokens are private
and charged, except with a threshold: a noisy test then lets the public model write where it agrees, and the charge is for a number of
private tokens. A `Key` has the help text of a key and the constraint on its value; `names_data` marks a key that names data, and `claim` a
statement that dpcli does not enforce. A `Note` is a text that may be blank. A `Premise` is a condition of the guarantee, with who ensures
it and the test that violates it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, Key, Note
from dpcli.base.premise import Premise, Premises
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.predict.decode.private_tokens import LogitClipping, PublicTest
from dpcli.predict.plugin import DECODING
from dpcli.predict.prediction_plan import TEMPLATE, TEXT_ALONE, PredictionPlan, table_of, up_to, with_entry
from dpcli.predict.shards import SESSION_PREMISES, require_units
from dpcli.sessions.priced import PricedSession, priced

# Larger values are refused, to bound time and memory. Both limits are arbitrary.
AMOUNT = up_to(10**6, "10^6")
MOST_COUNTS = 1_000  # largest number of batches with a threshold; each batch has its own durable count of private tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """The [generate] table: private texts, written token by token by a language model.

    The model gives logits for the next token after a public context and after private contexts. The private logits, or their differences
    from the public ones, are clipped and averaged (see `method`). The token is drawn from the result. The private-decoding entry states the
    clip and the temperature.

    All keys are fixed before the data are read. The batch to which a unit's contexts belong depends on that unit alone.
    """

    premises: ClassVar[Premises] = (
        *SESSION_PREMISES,
        Premise(
            "A change of one unit changes one batch of private contexts, whatever other units are in the data.",
            "generate",
            "tests/predict/test_generate.py::test_a_change_of_one_unit_meets_one_batch_in_so_many_contexts_as_it_may_contribute",
        ),
        Premise(
            "A model answers from the context alone, and remembers no earlier context.",
            "generate, which asks twice; the author of a model that hides its memory from this check",
            "tests/predict/test_generate.py::test_a_model_that_remembers_what_it_was_asked_writes_no_token",
        ),
    )

    # Example tables, which together contain every key.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "data": "notes.csv",
            "model": "gpt2",
            "tokenizer": "gpt2",
            "text": "note",
            "units": "patient",
            "template": "A note: {text}\nAnother note:",
            "prompt": "A note:",
            "method": "difference",
            "batches": 4,
            "texts": 10,
            "tokens": 50,
            "longest": 100,
            "mechanism": "tokens",
            "count": "queries.db",
            "output": "runs/notes",
        },
        {"data": "notes.txt", "model": "gpt2", "prompt": "A note:", "record": "paragraph", "tokens": 50, "texts": 1},
    )

    data: Annotated[
        str,
        Key("private texts: a .txt, .csv, .jsonl or .parquet file, or module:function (with units: texts, units)", names_data=True),
    ]
    model: Annotated[str, Key("public language model: a path, a name, or module:function")]
    prompt: Annotated[Note, Key("public context after which every text begins")]
    texts: Annotated[
        int,
        Key(
            "number of texts written from each batch; with a threshold, writing ends earlier if no private tokens are left", AMOUNT
        ),
    ]
    tokens: Annotated[
        int, Key("largest number of tokens of a text; all are charged, written or not, unless the entry has a threshold", AMOUNT)
    ]
    tokenizer: Annotated[str | None, Key("bytes, a path, a name or module:function; by default, the model's own")] = None
    text: Annotated[str, Key("column of the text in a .csv, .jsonl or .parquet file")] = "text"
    record: Annotated[Literal["line", "paragraph"], Key("unit of text in a .txt file")] = "line"
    units: Annotated[
        str | None, Key("column that names the owner of each text; by default, each text is a separate unit", claim=True)
    ] = None
    template: Annotated[Note, Key("private context, in which {text} occurs once", TEMPLATE)] = TEXT_ALONE
    method: Annotated[
        Literal["difference", "logits"],
        Key(
            "values that are clipped: the difference between the private and the public logits, or the private logits relative to their "
            "largest (the public context is then ignored)"
        ),
    ] = "difference"
    batches: Annotated[int, Key("number of disjoint batches; a hash of each unit assigns it to one", AMOUNT)] = 1
    longest: Annotated[int, Key("largest number of tokens of a private text that the model reads; the rest is cut off", COUNT)] = 64
    mechanism: Annotated[str | None, Key("name of the private-decoding entry, if the file has several")] = None
    count: Annotated[
        str | None,
        Key(
            "place of the count of texts without a ledger: a path, or postgresql://...#name; by default, queries.db in output",
            claim=True,
        ),
    ] = None
    output: Annotated[str | None, Key("folder of the session; by default, runs/NAME")] = None

    def problems(self) -> Iterator[Problem]:
        """Yield no problem: no two keys contradict each other. The reader of files calls this for every table."""
        yield from ()


@dataclass(frozen=True, slots=True)
class GenerationPlan(PredictionPlan, PricedSession):
    """The plan of `dpcli generate`. The `entry` is the private-decoding mechanism, and the `account` is the cost of the file.

    Attributes:
        clipping: Clipping of logits for a private token.
        test: Test that decides whether a token is private; None if all tokens are private.
    """

    section: ClassVar[str] = "generate"  # name of the table in the file
    free: ClassVar[tuple[str, ...]] = ("count", "output")  # keys that may change after a session has begun
    generate: Generate
    clipping: LogitClipping
    test: PublicTest | None

    @property
    def texts(self) -> int:
        """Return the largest number of texts of the session."""
        return self.generate.batches * self.generate.texts

    @property
    def contributions(self) -> int:
        """Return the largest number of texts of one unit that are used."""
        return self.pipeline.privacy.max_contributions or 1

    def batch(self, number: int) -> int:
        """Return the batch from which a text is written. The batches take turns. Texts are numbered from 1."""
        return (number - 1) % self.generate.batches

    def epsilon(self, texts: int) -> float:
        """Return an upper bound on epsilon for this number of texts, all tokens private, and the rest of the file, at the file's delta."""
        from dpcli.analysis.account import headline

        texts_per_batch = -(-texts // self.generate.batches)  # texts of the batch that writes most; a unit is in one batch
        entry = replace(self.entry, steps=texts_per_batch * self.generate.tokens)
        return headline(with_entry(self.pipeline, entry), delta=self.account.delta).upper

    @property
    def rho(self) -> float:
        """Return an upper bound on the zCDP cost of one private token, with the test that precedes it."""
        privacy = self.pipeline.privacy
        neighbours = Neighbours(privacy.adjacency, self.contributions)
        return self.entry.spec.resolve(neighbours).zcdp()  # rho of the mechanism of one token, for a change of one unit

    @property
    def bounded(self) -> tuple[str, str] | None:
        """Return the key and the column of owners, which dpcli compares with the unit that the file states; None without owners."""
        return None if self.generate.units is None else ("generate.units", self.generate.units)


def plan_of(path: str) -> GenerationPlan:
    """Return the plan of a file with [generate].

    Raises:
        InputError: If the file cannot be read or asks for something impossible.
        CannotCertify: If no bound on its cost is known.
    """
    data = read_bytes(path)
    generate = table_of(data, path, Generate, "generate")
    # `session` has the pipeline, its private-decoding entry, and the cost of the file.
    session = priced(path, data, DECODING, "generate", generate.mechanism)
    require_units(session.pipeline, generate.units, path, "generate")
    place = f'{path}: mechanism["{session.entry.name}"]'
    try:
        clipping, test = LogitClipping.of(session.entry.spec), PublicTest.of(session.entry.spec)
    except InputError as problem:
        raise InputError(f"{place}.{problem}") from None
    steps, most = session.entry.steps, generate.texts * generate.tokens
    if steps > most or (test is None and steps < most):
        expected = f"{most:,}" if test is None else f"at most {most:,}"
        raise InputError(
            f"{place}.steps: expected {expected}, the tokens of all texts of one batch ({generate.texts:,} texts of at most "
            f"{generate.tokens:,}), found {steps:,}"
        )
    if test is not None and generate.batches > MOST_COUNTS:
        raise InputError(
            f"{path}: generate.batches: expected at most {MOST_COUNTS:,} with a threshold, as the private tokens of each are counted, "
            f"found {generate.batches:,}"
        )
    return GenerationPlan(
        path, session.pipeline, account=session.account, entry=session.entry, generate=generate, clipping=clipping, test=test
    )
