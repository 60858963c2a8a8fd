"""The [pate] table and its plan: the numbers of queries and answers of a voting session, and their cost.

Teachers are models, each trained on its own shard of private data. They vote on public *queries*, and the noisy vote gives an *answer*,
with some mechanisms only if it is clear enough. The [[mechanism]] entry states the noise on the votes and the number of queries. Numbers
that depended on votes would reveal them, so the plan is fixed before any vote is read. If the budget does not pay for all answers of the
file, the plan has as many as it pays for (`_affordable_answers`). Only the keys in FREE_KEYS may change once a label is released. A
*session* is everything that one charge pays for (pate_session.py). A `Key` has the help text of a key and the `Constraint` on its value;
`needs` is the setting without which the key is refused, `claim` marks a statement that dpcli does not enforce, and `names_data` a key that
names data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from dpcli.base.errors import Denied, InputError
from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Constraint, Key, NeededSetting
from dpcli.base.premise import Premises
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.aggregators import Aggregator, aggregator_class, require_one_session
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.prediction_plan import PredictionPlan, same_source, table_of, up_to, with_entry
from dpcli.predict.shards import SHARD_PREMISES, refuse_replaced_units
from dpcli.sessions.priced import PricedSession, fingerprint, one_entry, priced_file

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.file.toml.findings import Diagnostic

FUNCTION = r"[^:\s]+:[^:\s]+"  # module:function, the name of a function of the user
BUILT_IN, HELD_OUT = "digits", "held-out"  # sources: a data set of scikit-learn, and a share of the data declared public
BUILT_IN_LABELS = 10  # number of labels of that data set
ARRAY_FILES, VOTE_FILES = (".npz", ".csv", ".parquet"), (".npy", ".csv", ".parquet")
WITH_COLUMNS = frozenset({".csv", ".parquet"})  # endings of files with named columns
LEARNERS = ("logistic", "mlp", "svm")
WITHIN_BUDGET = ("pass", "warn")  # verdicts of a budget that is not exceeded


def ending(source: str) -> str:
    """Return the extension of a source's name, such as ".csv"; for "pkg.task:load" it is ".task:load", which no file type has."""
    return os.path.splitext(source)[1]


def _function(text: str) -> bool:
    return re.fullmatch(FUNCTION, text) is not None


def _source(*words: str) -> Constraint:
    """Return the constraint of a key whose value is one of these words, a file of arrays, or module:function."""
    files = rf"^{FUNCTION}$|\.(npz|csv|parquet)$"
    return Constraint(
        f"{', '.join(words)}, a .npz, .csv or .parquet file, or module:function",
        lambda text: text in words or _function(text) or ending(text) in ARRAY_FILES,
        (("pattern", f"^({'|'.join(words)})$|{files}"),),
    )


DATA_SOURCE, PUBLIC_SOURCE = _source(BUILT_IN), _source(HELD_OUT, BUILT_IN)
VOTES = Constraint(
    "a .npy, .csv or .parquet file", lambda text: ending(text) in VOTE_FILES, (("pattern", r"\.(npy|csv|parquet)$"),)
)
LEARNER = Constraint(
    "logistic, mlp, svm, or module:function",
    lambda text: text in LEARNERS or _function(text),
    (("pattern", f"^({'|'.join(LEARNERS)})$|^{FUNCTION}$"),),
)
# The limits of the first two were chosen by hand, and affect memory and time alone.
TEACHERS = up_to(10**6, "10^6")
CLASSES = Constraint("a whole number from 2 to 10^5", lambda x: 2 <= x <= 10**5, (("minimum", 2), ("maximum", 10**5)))
ORDER = Constraint("a number > 1", lambda x: x > 1, (("exclusiveMinimum", 1),))

# Conditions under which keys are read. A key is refused in a file in which its condition does not hold.
FROM_FILE = NeededSetting("votes", lambda pate: pate.votes is not None)
FROM_DATA = NeededSetting("data", lambda pate: pate.data is not None)
SET_ASIDE = NeededSetting('queries = "held-out"', lambda pate: pate.queries == HELD_OUT)
BY_STUDENT = NeededSetting('check = "student"', lambda pate: pate.check == "student")
IN_COLUMNS = NeededSetting(
    "data in a file with columns",
    lambda pate: any(ending(source or "") in WITH_COLUMNS for source in (pate.data, pate.queries, pate.test)),
)
WITH_MLP = NeededSetting("an mlp", lambda pate: "mlp" in (pate.model, pate.student))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitise:
    """The release of the epsilon given the votes, with noise in proportion to its smooth sensitivity. All keys are fixed beforehand."""

    mechanism: Annotated[
        str, Key("name of the entry of type rdp that pays for the release, with at least the cost of the release at each order")
    ]
    order: Annotated[float, Key("order of the Renyi divergence that is released", ORDER)]
    beta: Annotated[float, Key("smoothness of the sensitivity, below 1 / (2 order)", POSITIVE)]
    sigma: Annotated[float, Key("standard deviation of the noise, over the smooth sensitivity", POSITIVE)]
    failure: Annotated[float, Key("probability that the released number is below the cost of these votes", OPEN_UNIT)] = 0.01

    def problems(self) -> Iterator[Problem]:
        """Yield the order and beta at which the release has no finite cost, in the form of `Pate.problems`."""
        if 2.0 * self.order * self.beta >= 1.0:
            yield ("beta",), f"a number below 1 / (2 order) = {0.5 / self.order:.6g}", f"{self.beta:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pate:
    """The [pate] table: teachers on disjoint shards of private data label public data by noisy votes, and a student learns the labels."""

    premises: ClassVar[Premises] = SHARD_PREMISES

    teachers: Annotated[int, Key("number of teachers, each trained without noise on a separate shard", TEACHERS)]
    classes: Annotated[int | None, Key("number of labels, declared and not counted in private data; 10 for digits", CLASSES)] = None
    mechanism: Annotated[str | None, Key("name of the entry that answers, if the file has several entries for votes")] = None
    votes: Annotated[
        str | None,
        Key("private file of votes with a row for each query, instead of data: .npy, .csv or .parquet", VOTES, names_data=True),
    ] = None
    vote_rows: Annotated[
        Literal["counts", "labels"],
        Key("content of a row of votes: the number of votes for each label, or the label from each teacher", needs=FROM_FILE),
    ] = "counts"
    data: Annotated[
        str | None,
        Key(
            "private data of the teachers: digits, a .npz, .csv or .parquet file, or module:function", DATA_SOURCE, names_data=True
        ),
    ] = None
    units: Annotated[
        str | None,
        Key(
            "column or array that names the owner of each record, whose records share a shard; by default, each record is a unit",
            claim=True,
            needs=FROM_DATA,
        ),
    ] = None
    shards: Annotated[
        str | None,
        Key(
            "column or array with the shard of each record, from 0, instead of a hash of its unit; a unit must be in one shard",
            needs=FROM_DATA,
        ),
    ] = None
    salt: Annotated[
        str, Key("public word in the hash that assigns units to shards; another word assigns them anew", needs=FROM_DATA)
    ] = ""
    label: Annotated[
        str | None, Key("column of the label in a .csv or .parquet file; by default, the last column", needs=IN_COLUMNS)
    ] = None
    shift: Annotated[float, Key("a declared constant that is subtracted from every input number")] = 0.0
    model: Annotated[
        str,
        Key(
            "model of a teacher: logistic, mlp, svm, or module:function (inputs, labels) that returns a model with predict(inputs)",
            LEARNER,
            needs=FROM_DATA,
        ),
    ] = "logistic"
    hidden: Annotated[int, Key("width of the hidden layer of an mlp", COUNT, needs=WITH_MLP)] = 64
    queries: Annotated[
        str | None,
        Key(
            "public inputs to label, in their order: held-out (a share of data declared public), or a source as for data",
            PUBLIC_SOURCE,
            names_data=True,
        ),
    ] = None
    held_out: Annotated[float, Key("share of data that held-out declares public", OPEN_UNIT, needs=SET_ASIDE)] = 0.2
    pool: Annotated[
        int | None,
        Key("number of held-out records that are queries, the others being test records; by default, half", COUNT, needs=SET_ASIDE),
    ] = None
    test: Annotated[
        str | None,
        Key(
            "public records that test the student: a source as for queries, or held-out (those that are not queries)",
            PUBLIC_SOURCE,
            names_data=True,
        ),
    ] = None
    check: Annotated[
        Literal["votes", "student"],
        Key(
            "number compared with a threshold: the largest count, or the largest difference between a count and the student's prediction"
        ),
    ] = "votes"
    confidence: Annotated[
        float,
        Key(
            "probability from which the student's prediction labels an unanswered query, at no cost",
            OPEN_UNIT,
            needs=BY_STUDENT,
        ),
    ] = 0.9
    student: Annotated[str, Key("model of the student: logistic, mlp, svm, or module:function, as for model", LEARNER)] = "logistic"
    pseudo_labels: Annotated[bool, Key("also train the student on its predictions for unanswered queries, at no cost")] = True
    accounting: Annotated[
        Literal["data-independent", "data-dependent"],
        Key("epsilon that is published; data-dependent needs sanitise"),
    ] = "data-independent"
    sanitise: Annotated[Sanitise | None, Key("release the epsilon given the votes, with noise")] = None
    output: Annotated[str | None, Key("folder of votes, transcript, student and statement; by default, runs/NAME")] = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the table, each as (path of the key, text after "expected", text after "found")."""
        if (self.votes is None) == (self.data is None):
            expected = "either votes (a file of votes) or data (the training data of the teachers)"
            yield ("votes",), expected, "both" if self.votes else "neither"
        if self.classes is None and self.data != BUILT_IN:
            yield ("classes",), "the declared number of labels", "none"
        if self.data == BUILT_IN and self.classes not in (None, BUILT_IN_LABELS):
            yield ("classes",), "10 labels of digits", str(self.classes)
        if self.queries == HELD_OUT and self.data is None:
            yield ("queries",), "a file of inputs, as votes are given", HELD_OUT
        if self.queries == HELD_OUT and (self.units or self.shards):
            yield ("queries",), "a separate file, as units or shards are set", f"{HELD_OUT}, which would split a unit's records"
        if self.test == HELD_OUT and self.queries != HELD_OUT:
            yield ("test",), f'{HELD_OUT} only with queries = "{HELD_OUT}"', HELD_OUT
        if self.data is not None and self.queries is None:
            yield ("queries",), "public inputs for the teachers to label", "none"
        for name in ("queries", "test"):
            if same_source(self.data, getattr(self, name)):
                yield (name,), "public data on which no teacher is trained", "the training data of the teachers"
        if self.test is not None and self.test != HELD_OUT and self.test == self.queries:
            yield ("test",), "records that are not queries", "the source of the queries"
        for path, expected, actual in self.sanitise.problems() if self.sanitise else ():
            yield ("sanitise", *path), expected, actual

    @property
    def labels(self) -> int:
        """Return the number of labels, which may be left out for the built-in data set alone."""
        return self.classes or BUILT_IN_LABELS


# Keys that may change after the first label is released, because no label depends on them.
FREE_KEYS = ("output", "test", "accounting", "sanitise")
# Keys on which the teachers depend, and keys on which their votes depend. Votes made with other values of them are refused or made anew.
TEACHER_KEYS = ("teachers", "classes", "data", "units", "shards", "salt", "label", "shift", "model", "hidden")
VOTE_KEYS = frozenset({*TEACHER_KEYS, "queries", "held_out", "pool"})


@dataclass(frozen=True, slots=True)
class VotingPlan(PredictionPlan, PricedSession):
    """The plan of one voting session.

    Attributes:
        entry: The [[mechanism]] entry that answers, limited to the number of answers that the budget allows.
        pipeline: Pipeline of the file with that entry.
        account: Account of that pipeline, which holds for any votes.
        queries, answers: Largest numbers of queries and of answers.
        stated_answers: Number of answers that the file states.
        as_filed: Account of the file as written, with that number of answers.
        diagnostics: Findings of the lint rules about the file.
    """

    section: ClassVar[str] = "pate"  # name of the table in the file
    free: ClassVar[tuple[str, ...]] = FREE_KEYS  # keys that may change after the session has begun
    accounts: ClassVar[tuple[str, ...]] = ("account", "as_filed")  # names of the fields that hold an account of the file
    pate: Pate
    queries: int
    answers: int
    stated_answers: int
    as_filed: Account
    diagnostics: tuple[Diagnostic, ...]

    @property
    def aggregator(self) -> Aggregator:
        return aggregator_class(self.entry).of(self.entry.spec)

    @property
    def private_file(self) -> None:
        """Return None: records are read as arrays, to which no window of rows applies."""
        return None

    def with_limits(self, queries: int, answers: int) -> Pipeline:
        """Return the pipeline with these numbers of queries and answers."""
        return with_entry(self.pipeline, aggregator_class(self.entry).limit(self.entry, answers, queries))

    def votes_fingerprint(self) -> str:
        """Return the SHA-256 of the keys on which the votes depend."""
        return fingerprint({key: value for key, value in asdict(self.pate).items() if key in VOTE_KEYS})


def plan_of(path: str) -> VotingPlan:
    """Return the plan of a file. Values of "calibrate" are solved for.

    Raises:
        InputError: If the file cannot be read, or asks for something impossible.
        Denied: If the budget does not allow a single answer.
        CannotCertify: If no accountant can certify the cost.
    """
    from dpcli.analysis.account import account
    from dpcli.analysis.calibrate_file import solved_pipeline
    from dpcli.lint.run import judge

    data = read_bytes(path)
    pate = table_of(data, path, Pate, "pate")
    pipeline = solved_pipeline(data, path)
    diagnostics = judge(pipeline, data)
    # The lint rule DP111 finds accounting = "data-dependent" without sanitise, whose epsilon would reveal how far the teachers agree.
    for diagnostic in diagnostics:
        if diagnostic.rule == "DP111" and diagnostic.key.startswith("pate."):
            raise InputError(f"{path}: {diagnostic.key}: {diagnostic.message}")
    _require_units(pipeline, pate, path)
    entry = one_entry(path, pipeline, AGGREGATORS, "pate", pate.mechanism)
    require_one_session(entry, path)
    aggregator = aggregator_class(entry)  # its `limit` returns the entry with fewer answers or queries
    if pate.check == "student" and not aggregator.abstains:  # without a threshold, nothing is compared with a prediction
        raise InputError(f"{path}: pate.check: expected student only with a threshold (confident-gnmax), found {entry.type}")
    stated = aggregator.most_answers(entry)
    priced = as_filed = priced_file(path, pipeline).account
    answers = _affordable_answers(pipeline, entry, as_filed)
    if answers < stated:
        entry = aggregator.limit(entry, answers)
        pipeline = with_entry(pipeline, entry)
        priced = account(pipeline)
    return VotingPlan(
        path,
        pipeline,
        account=priced,
        entry=entry,
        pate=pate,
        queries=aggregator.most_queries(entry),
        answers=answers,
        stated_answers=stated,
        as_filed=as_filed,
        diagnostics=diagnostics,
    )


def _require_units(pipeline: Pipeline, pate: Pate, path: str) -> None:
    """Raise InputError if several teachers may have records of one unit, so that it would move several votes."""
    if pate.data is None:  # For a file of votes, the owner of the data is responsible.
        return
    contributions = pipeline.privacy.max_contributions or 1
    if contributions > 1 and pate.units is None:
        raise InputError(
            f"{path}: pate.units: set it to the column that names each record's owner, as max_contributions = {contributions}: a unit "
            "with records in several shards would change several votes"
        )
    if pate.queries == HELD_OUT and pate.data != BUILT_IN and pipeline.privacy.adjacency is Adjacency.ADD_REMOVE:
        raise InputError(
            f"{path}: pate.queries: expected a separate file under add-remove, found {HELD_OUT}: records are set aside by position, and "
            "removing a record changes the positions of all later ones"
        )
    for key in ("units", "shards"):
        if getattr(pate, key) is not None:
            refuse_replaced_units(f"pate.{key}", pipeline.privacy.adjacency, path)


def _affordable_answers(pipeline: Pipeline, entry: Entry, as_filed: Account) -> int:
    """Return the largest number of answers, at most the file's, with which the whole file is within its budget.

    The number is fixed before any vote is read. Stopping at it therefore reveals nothing.

    Raises Denied if not even one answer is within the budget.
    """
    from dpcli.analysis.account import account

    aggregator, budget = aggregator_class(entry), as_filed.budget
    if budget is None or budget.verdict in WITHIN_BUDGET:
        return aggregator.most_answers(entry)
    # The cost grows with the number of answers. `within` answers, if any, are within the budget, and `over` answers exceed it.
    within, over = 0, aggregator.most_answers(entry)
    while over - within > 1:
        middle = (within + over) // 2
        limited_budget = account(with_entry(pipeline, aggregator.limit(entry, middle))).budget
        assert limited_budget is not None
        if limited_budget.verdict in WITHIN_BUDGET:
            within = middle
        else:
            over = middle
    if not within:
        raise Denied(
            f"{pipeline.path}: budget: {budget.wanted()} for all answers, and a single answer exceeds the budget too: ask fewer queries "
            "or add noise"
        )
    return within
