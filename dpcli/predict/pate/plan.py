"""What a session of votes will do, settled before any vote is seen: how many queries, how many answers, and what they cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import Denied, InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.predict.pate.settings import BUILT_IN, HELD_OUT, Pate, read_pate
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.shards import refuse_replaced_units
from dpcli.predict.voting.aggregators import Aggregator, aggregator_class, require_one_session
from dpcli.sessions.plan import fingerprint
from dpcli.sessions.priced import PricedSession, one_entry, priced_file

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.file.toml.findings import Diagnostic


@dataclass(frozen=True, slots=True)
class VotingPlan(PricedSession):
    """One session, as it is accounted and as it is held.

    pipeline: with as many answers as the budget allows. entry: the one that answers, in it. queries, answers: at most so many of each.
    stated: the answers that the file asks for. account: of the pipeline, whatever the votes are; as_filed: of the file as it stands.
    """

    accounts: ClassVar[tuple[str, ...]] = ("account", "as_filed")
    pate: Pate
    queries: int
    answers: int
    stated: int
    as_filed: Account
    diagnostics: tuple[Diagnostic, ...]

    @property
    def aggregator(self) -> Aggregator:
        return aggregator_class(self.entry).of(self.entry.spec)

    @property
    def folder(self) -> str:
        """Where everything is left."""
        return self.folder_at(self.pate.output)

    def with_limits(self, queries: int, answers: int) -> Pipeline:
        """The pipeline with so many queries and answers."""
        return _with(self.pipeline, aggregator_class(self.entry).limited(self.entry, answers, queries))

    def fingerprint(self) -> str:
        """SHA-256 of everything that a session which goes on must not have changed."""
        return self.fingerprint_with("pate", self.pate, UNBOUND)

    def teaching(self) -> str:
        """SHA-256 of what decides which votes there are."""
        return fingerprint({key: value for key, value in asdict(self.pate).items() if key in TEACHING})


UNBOUND = frozenset(
    {"output", "test", "accounting", "sanitise"}
)  # keys that may change after the first label: no label depends on them
TEACHING = frozenset(
    {
        *("teachers", "classes", "data", "units", "shards", "salt", "label", "shift", "model", "hidden"),
        *("queries", "held_out", "pool"),
    }
)


def plan_of(path: str) -> VotingPlan:
    """The plan of a file, its noise solved for where it says "calibrate".

    Raises:
        InputError: the file cannot be read, or asks for what cannot be honoured. Denied: its budget allows not one answer.
        CannotCertify: nobody can say what it costs.
    """
    from dpcli.analysis.account import account
    from dpcli.analysis.calibrate_file import solved
    from dpcli.lint.run import judge

    data = read_bytes(path)
    pate = read_pate(data, path)
    pipeline = solved(data, path)
    diagnostics = judge(pipeline, data)
    _refuse_unsanitised(diagnostics, path)
    _require_units(pipeline, pate, path)
    entry = _entry(pipeline, pate, path)
    stated = aggregator_class(entry).most_answers(entry)
    found = priced_file(path, pipeline).account
    as_filed, answers = found, _affordable(pipeline, entry, found)
    if answers < stated:
        entry = aggregator_class(entry).limited(entry, answers)
        pipeline = _with(pipeline, entry)
        found = account(pipeline)
    queries = aggregator_class(entry).most_queries(entry)
    return VotingPlan(path, pipeline, found, entry, pate, queries, answers, stated, as_filed, diagnostics)


def _require_units(pipeline: Pipeline, pate: Pate, path: str) -> None:
    """A unit moves one vote where all of its records are one teacher's: whoever owns several must be known."""
    if pate.data is None:  # whose votes a file holds is the word of whoever made it
        return
    owned = pipeline.privacy.max_contributions or 1
    if owned > 1 and pate.units is None:
        raise InputError(
            f"{path}: pate.units: expected what tells whose a record is, as max_contributions = {owned} needs, found none: records of one "
            "unit with several teachers would move several votes"
        )
    if pate.queries == HELD_OUT and pate.data != BUILT_IN and pipeline.privacy.adjacency is Adjacency.ADD_REMOVE:
        raise InputError(
            f"{path}: pate.queries: expected a file of its own under add-remove, found {HELD_OUT}: which records are set aside goes by "
            "their place, and all later ones move up when a record goes"
        )
    for key in ("units", "shards"):
        if getattr(pate, key) is not None:
            refuse_replaced_units(f"pate.{key}", pipeline.privacy.adjacency, path)


def _refuse_unsanitised(diagnostics: tuple[Diagnostic, ...], path: str) -> None:
    """What the rule about epsilons that depend on the votes finds in [pate] is no warning here."""
    for found in diagnostics:
        if found.rule == "DP111" and found.key.startswith("pate."):
            raise InputError(f"{path}: {found.key}: {found.message}")


def _entry(pipeline: Pipeline, pate: Pate, path: str) -> Entry:
    """The entry that answers. Raises InputError where it is unclear which, or what it asks for is not done."""
    entry = one_entry(path, pipeline, AGGREGATORS, "pate", pate.mechanism)
    require_one_session(entry, path)
    if pate.check == "student" and not aggregator_class(entry).abstains:
        raise InputError(f"{path}: pate.check: expected student with a threshold alone, as of confident-gnmax, found {entry.type}")
    return entry


def _with(pipeline: Pipeline, entry: Entry) -> Pipeline:
    entries = tuple(entry if one.name == entry.name else one for one in pipeline.mechanisms)
    return replace(pipeline, mechanisms=entries)


def _affordable(pipeline: Pipeline, entry: Entry, found: Account) -> int:
    """The most answers, up to those that the file asks for, with which the whole file is within its budget.

    They are fixed before a vote is seen, so that stopping there tells nothing. Raises Denied where there is not one.
    """
    from dpcli.analysis.account import account

    most, budget = aggregator_class(entry).most_answers(entry), found.budget
    if budget is None or budget.verdict in ("pass", "warn"):
        return most
    fits, fails = 0, most
    while fails - fits > 1:
        middle = (fits + fails) // 2
        verdict = account(_with(pipeline, aggregator_class(entry).limited(entry, middle))).budget
        assert verdict is not None
        fits, fails = (middle, fails) if verdict.verdict in ("pass", "warn") else (fits, middle)
    if not fits:
        raise Denied(
            f"{pipeline.path}: budget: {budget.wanted()} for what the file asks for, and more for a single answer: fewer queries or "
            "more noise would fit"
        )
    return fits
