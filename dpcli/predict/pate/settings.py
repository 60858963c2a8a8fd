"""The [pate] table, read as strictly as the rest of the file. Nothing here needs torch, scikit-learn or numpy.

What noise the votes get, and how many queries are put, stands in the [[mechanism]] entry, and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Constraint, Key, Reader
from dpcli.base.premise import Premises
from dpcli.file.pipeline.read import refuse, section, toml_document
from dpcli.file.toml.findings import Findings, Problem
from dpcli.predict.shards import PREMISES
from dpcli.predict.source import same_source

CALLED = r"[^:\s]+:[^:\s]+"
BUILT_IN, HELD_OUT = "digits", "held-out"
ARRAY_FILES, VOTE_FILES = (".npz", ".csv", ".parquet"), (".npy", ".csv", ".parquet")
COLUMNS = frozenset({".csv", ".parquet"})
LEARNERS = ("logistic", "mlp", "svm")


def ending(source: str) -> str:
    return os.path.splitext(source)[1]


def _function(text: str) -> bool:
    return re.fullmatch(CALLED, text) is not None


def _source(*words: str) -> Constraint:
    files = rf"^{CALLED}$|\.(npz|csv|parquet)$"
    return Constraint(
        f"{', '.join(words)}, a .npz, .csv or .parquet file, or module:function",
        lambda text: text in words or _function(text) or ending(text) in ARRAY_FILES,
        (("pattern", f"^({'|'.join(words)})$|{files}"),),
    )


PRIVATE, PUBLIC = _source(BUILT_IN), _source(HELD_OUT, BUILT_IN)
VOTES = Constraint(
    "a .npy, .csv or .parquet file", lambda text: ending(text) in VOTE_FILES, (("pattern", r"\.(npy|csv|parquet)$"),)
)
LEARNER = Constraint(
    "logistic, mlp, svm, or module:function",
    lambda text: text in LEARNERS or _function(text),
    (("pattern", f"^({'|'.join(LEARNERS)})$|^{CALLED}$"),),
)
TEACHERS = Constraint("a whole number from 1 to 10^6", lambda x: 1 <= x <= 10**6, (("minimum", 1), ("maximum", 10**6)))
CLASSES = Constraint("a whole number from 2 to 10^5", lambda x: 2 <= x <= 10**5, (("minimum", 2), ("maximum", 10**5)))
ORDER = Constraint("a number > 1", lambda x: x > 1, (("exclusiveMinimum", 1),))

FROM_FILE = Reader("votes", lambda pate: pate.votes is not None)
FROM_DATA = Reader("data", lambda pate: pate.data is not None)
SET_ASIDE = Reader('queries = "held-out"', lambda pate: pate.queries == HELD_OUT)
BY_STUDENT = Reader('check = "student"', lambda pate: pate.check == "student")
IN_COLUMNS = Reader(
    "data in a file with columns",
    lambda pate: any(ending(source or "") in COLUMNS for source in (pate.data, pate.queries, pate.test)),
)
WIDE = Reader("an mlp", lambda pate: "mlp" in (pate.model, pate.student))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitise:
    """How the epsilon that depends on the votes is released: with noise in proportion to its smooth sensitivity, all fixed beforehand."""

    mechanism: Annotated[
        str, Key("the entry of type rdp that pays for the release: at each order it states at least what noise costs there")
    ]
    order: Annotated[float, Key("of the Renyi divergence that is released", ORDER)]
    beta: Annotated[float, Key("smoothness of the sensitivity, below 1 / (2 order)", POSITIVE)]
    sigma: Annotated[float, Key("noise, over the smooth sensitivity", POSITIVE)]
    failure: Annotated[float, Key("probability that noise takes what is released below the cost of these votes", OPEN_UNIT)] = 0.01

    def problems(self) -> Iterator[Problem]:
        if 2.0 * self.order * self.beta >= 1.0:
            yield ("beta",), f"a number below 1 / (2 order) = {0.5 / self.order:.6g}", f"{self.beta:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pate:
    """Teachers on disjoint shards of private data, whose noisy votes label public data; and the student that learns from these labels."""

    premises: ClassVar[Premises] = PREMISES

    teachers: Annotated[int, Key("how many teachers vote, each trained without noise on a shard of its own", TEACHERS)]
    classes: Annotated[
        int | None, Key("how many labels there are, declared and not counted in private data; 10 for digits", CLASSES)
    ] = None
    mechanism: Annotated[str | None, Key("the entry that answers, where the file has several of votes")] = None
    votes: Annotated[
        str | None,
        Key("file of the votes, a row for each query, in place of data: .npy, .csv or .parquet; private", VOTES, reads=True),
    ] = None
    vote_rows: Annotated[
        Literal["counts", "labels"],
        Key("what a row of that file is: the votes for each label, or the label that each teacher gave", reader=FROM_FILE),
    ] = "counts"
    data: Annotated[
        str | None,
        Key("private data of the teachers: digits, a .npz, .csv or .parquet file, or module:function", PRIVATE, reads=True),
    ] = None
    units: Annotated[
        str | None,
        Key(
            "column or array that tells whose a record is: all of a unit's are in one shard; each record its own where absent",
            claim=True,
            reader=FROM_DATA,
        ),
    ] = None
    shards: Annotated[
        str | None,
        Key(
            "column or array with the shard of each record, from 0, in place of a hash of its unit; a unit in two is refused",
            reader=FROM_DATA,
        ),
    ] = None
    salt: Annotated[
        str, Key("public word by which units are spread over shards; another one spreads them anew", reader=FROM_DATA)
    ] = ""
    label: Annotated[
        str | None, Key("column of the label in a .csv or .parquet file; the last one where absent", reader=IN_COLUMNS)
    ] = None
    shift: Annotated[float, Key("a declared constant that is taken off every input number")] = 0.0
    model: Annotated[
        str,
        Key(
            "of a teacher: logistic, mlp, svm, or module:function, given inputs and labels, whose result has predict(inputs)",
            LEARNER,
            reader=FROM_DATA,
        ),
    ] = "logistic"
    hidden: Annotated[int, Key("width of the hidden layer of an mlp", COUNT, reader=WIDE)] = 64
    queries: Annotated[
        str | None,
        Key(
            "inputs declared public, which are asked about in their order: held-out (a share of data declared public), or as data",
            PUBLIC,
            reads=True,
        ),
    ] = None
    held_out: Annotated[float, Key("share of the data that held-out sets aside", OPEN_UNIT, reader=SET_ASIDE)] = 0.2
    pool: Annotated[
        int | None,
        Key("how many of the records set aside are queries, the others test; half of them where absent", COUNT, reader=SET_ASIDE),
    ] = None
    test: Annotated[
        str | None,
        Key(
            "records declared public on which the student is measured: as queries; held-out: what is left of it", PUBLIC, reads=True
        ),
    ] = None
    check: Annotated[
        Literal["votes", "student"],
        Key(
            "what a threshold is compared with: the largest count, or the largest difference of a count and the student's prediction"
        ),
    ] = "votes"
    confidence: Annotated[
        float,
        Key(
            "probability from which the student's own prediction labels a query that has no answer, free",
            OPEN_UNIT,
            reader=BY_STUDENT,
        ),
    ] = 0.9
    student: Annotated[str, Key("logistic, mlp, svm, or module:function, as model", LEARNER)] = "logistic"
    pseudo_labels: Annotated[bool, Key("teach the student its own predictions on queries without an answer too: free")] = True
    accounting: Annotated[
        Literal["data-independent", "data-dependent"],
        Key("which epsilon is published; data-dependent only as sanitise releases it"),
    ] = "data-independent"
    sanitise: Annotated[Sanitise | None, Key("release the epsilon that depends on the votes, with noise")] = None
    output: Annotated[str | None, Key("folder of votes, transcript, student and statement; runs/NAME where absent")] = None

    def problems(self) -> Iterator[Problem]:
        """What the keys do not agree on."""
        if (self.votes is None) == (self.data is None):
            yield (
                ("votes",),
                "either votes, a file of them, or data, on which teachers are trained",
                "both" if self.votes else "neither",
            )
        if self.classes is None and self.data != BUILT_IN:
            yield ("classes",), "the number of labels, declared", "none"
        if self.data == BUILT_IN and self.classes not in (None, 10):
            yield ("classes",), "10 labels of digits", str(self.classes)
        if self.queries == HELD_OUT and self.data is None:
            yield ("queries",), "a file of inputs with votes", HELD_OUT
        if self.queries == HELD_OUT and (self.units or self.shards):
            yield ("queries",), "a file of its own with units or shards", f"{HELD_OUT}, which would split a unit's records"
        if self.test == HELD_OUT and self.queries != HELD_OUT:
            yield ("test",), f'{HELD_OUT} with queries = "{HELD_OUT}" alone', HELD_OUT
        if self.data is not None and self.queries is None:
            yield ("queries",), "inputs declared public, which the teachers are asked about", "none"
        for name in ("queries", "test"):
            if same_source(self.data, getattr(self, name)):
                yield (name,), "public data that no teacher has seen", "what teachers are trained on"
        if self.test is not None and self.test != HELD_OUT and self.test == self.queries:
            yield ("test",), "records that are no queries", "the same source"
        for path, expected, found in self.sanitise.problems() if self.sanitise else ():
            yield ("sanitise", *path), expected, found

    @property
    def labels(self) -> int:
        """How many there are."""
        return self.classes or 10


def read_pate(data: bytes, path: str) -> Pate:
    """The [pate] table of a file's content, the rest of which is read as strictly.

    Raises:
        InvalidFile: with every problem found, at its place; a file without [pate] is one.
    """
    found = section(data, path, "pate")
    if not isinstance(found, Pate):
        text, tables = toml_document(data, path)
        findings = Findings()
        findings.add("DP005", ("pate",), "a [pate] table, which says where votes come from", "none")
        refuse(findings, tables, text, path)
    assert isinstance(found, Pate)
    return found
