"""The [generate] table and its plan: what `dpcli generate` writes and what a text costs, settled before any private text is read."""

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
from dpcli.predict.prediction_plan import ALONE, SHOWING, PredictionPlan, table_of, up_to, with_entry
from dpcli.predict.shards import SESSIONS, require_units
from dpcli.sessions.priced import PricedSession, priced

AT_MOST = up_to(10**6, "10^6")
COUNTED = 1_000  # batches, each with a count of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Private text: each token is drawn from what a language model says behind a public context, moved by what it says behind private ones.

    How far one private context may move it, and the temperature, stand in the private-decoding entry; everything here is fixed before the
    data are seen. Which batch of private contexts a text is written from depends on no one but the units in it.
    """

    premises: ClassVar[Premises] = (
        *SESSIONS,
        Premise(
            "One change of a unit changes one batch of private contexts, whoever else is in the data.",
            "generate",
            "tests/predict/test_generate.py::test_a_change_of_one_unit_meets_one_batch_in_so_many_contexts_as_it_may_contribute",
        ),
        Premise(
            "A model answers from what it is asked, and remembers nothing of it.",
            "generate, which asks twice; what hides from that, the author of the model",
            "tests/predict/test_generate.py::test_a_model_that_remembers_what_it_was_asked_writes_no_token",
        ),
    )

    # Tables that between them state every key.
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
        str, Key("private texts: a .txt, .csv, .jsonl or .parquet file, or module:function (with units: texts, units)", reads=True)
    ]
    model: Annotated[str, Key("public language model: a path, a name, or module:function")]
    prompt: Annotated[Note, Key("public context that every text begins behind")]
    texts: Annotated[
        int, Key("texts that are written from each batch; with a threshold, as many of them as private tokens last for", AT_MOST)
    ]
    tokens: Annotated[
        int, Key("most tokens of a text: all are charged for, written or not, unless the entry has a threshold", AT_MOST)
    ]
    tokenizer: Annotated[str | None, Key("bytes, a path, a name or module:function; the model's own where absent")] = None
    text: Annotated[str, Key("column of the text in a .csv, .jsonl or .parquet file")] = "text"
    record: Annotated[Literal["line", "paragraph"], Key("what one text of a .txt file is")] = "line"
    units: Annotated[str | None, Key("column that tells whose a text is; where absent, each is a unit of its own", claim=True)] = (
        None
    )
    template: Annotated[Note, Key("private context, with {text} in it once", SHOWING)] = ALONE
    method: Annotated[
        Literal["difference", "logits"],
        Key(
            "what is clipped: the difference of a private context's logits and the public one's, or its own logits below their largest; "
            "then the public context counts for nothing"
        ),
    ] = "difference"
    batches: Annotated[int, Key("disjoint batches of units, by a hash of each", AT_MOST)] = 1
    longest: Annotated[int, Key("tokens of a private text that are shown at most; the rest is cut off", COUNT)] = 64
    mechanism: Annotated[str | None, Key("name of the private-decoding entry, where the file has several")] = None
    count: Annotated[
        str | None,
        Key(
            "where texts are counted without a ledger: a path, or postgresql://...#name; queries.db in output where absent",
            claim=True,
        ),
    ] = None
    output: Annotated[str | None, Key("folder of the session; runs/NAME where absent")] = None

    def problems(self) -> Iterator[Problem]:
        yield from ()


@dataclass(frozen=True, slots=True)
class GenerationPlan(PredictionPlan, PricedSession):
    """The plan of `dpcli generate`.

    Attributes:
        clipping: Clipping of logits for a private token.
        test: Which tokens are private; all are if None.
    """

    section: ClassVar[str] = "generate"
    free: ClassVar[tuple[str, ...]] = ("count", "output")
    generate: Generate
    clipping: LogitClipping
    test: PublicTest | None

    @property
    def texts(self) -> int:
        """Return how many texts may be written."""
        return self.generate.batches * self.generate.texts

    @property
    def contributions(self) -> int:
        """Return how many texts of one unit are used at most."""
        return self.pipeline.privacy.max_contributions or 1

    def batch(self, number: int) -> int:
        """Return the batch that the text of this number, from 1, is written from: each in turn."""
        return (number - 1) % self.generate.batches

    def epsilon(self, texts: int) -> float:
        """Return an upper bound on what so many texts cost, every token private, with the rest of the file, at the file's delta."""
        from dpcli.analysis.account import headline

        steps = -(-texts // self.generate.batches) * self.generate.tokens
        return headline(with_entry(self.pipeline, replace(self.entry, steps=steps)), delta=self.account.delta).upper

    @property
    def rho(self) -> float:
        """Return an upper bound on the zCDP cost of one private token, with the test that finds it."""
        privacy = self.pipeline.privacy
        return self.entry.spec.resolve(Neighbours(privacy.adjacency, self.contributions)).zcdp()

    @property
    def bounded(self) -> tuple[str, str] | None:
        return None if self.generate.units is None else ("generate.units", self.generate.units)


def plan_of(path: str) -> GenerationPlan:
    """Return the plan of a file with [generate].

    Raises:
        InputError: If it cannot be read or asks for what cannot be done.
        CannotCertify: If nobody can say what it costs.
    """
    data = read_bytes(path)
    generate = table_of(data, path, Generate, "generate")
    session = priced(path, data, DECODING, "generate", generate.mechanism)
    require_units(session.pipeline, generate.units, path, "generate")
    place = f'{path}: mechanism["{session.entry.name}"]'
    try:
        clipping, test = LogitClipping.of(session.entry.spec), PublicTest.of(session.entry.spec)
    except InputError as problem:
        raise InputError(f"{place}.{problem}") from None
    most = generate.texts * generate.tokens
    if session.entry.steps > most or (test is None and session.entry.steps < most):
        raise InputError(
            f"{place}.steps: expected {'at most ' if test else ''}{most:,}, the tokens of all texts of one batch "
            f"({generate.texts:,} texts of at most {generate.tokens:,}), found {session.entry.steps:,}"
        )
    if test is not None and generate.batches > COUNTED:
        raise InputError(
            f"{path}: generate.batches: expected at most {COUNTED:,} with a threshold, as the private tokens of each are counted, found "
            f"{generate.batches:,}"
        )
    return GenerationPlan(path, session.pipeline, session.account, session.entry, generate, clipping, test)
