"""The [generate] table: texts that a language model writes from private ones, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import COUNT, Constraint, Key, Note
from dpcli.base.premise import Premise, Premises
from dpcli.file.toml.findings import Problem
from dpcli.predict.shards import SESSIONS
from dpcli.predict.templates import ALONE, SHOWING

AT_MOST = Constraint("a whole number from 1 to 10^6", lambda x: 1 <= x <= 10**6, (("minimum", 1), ("maximum", 10**6)))


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
        """What the keys do not agree on: nothing."""
        yield from ()
