"""The terms that a ledger was opened for: fixed for good, but for the cap, which only an entry of its own can change.

In declared mode a set of runs is fixed before the first one, and composed by any sound accountant. Nothing about the runs depends on an
output. Which of them are made, and in which order, may be chosen freely: whoever sees some of the outputs could have computed that view
from all of them (post-processing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger.blocks.block_kinds import kind_named
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.chain import canonical
from dpcli.ledger.filters.filter import Cost, Filter, filter_named, opened_filter
from dpcli.ledger.plugin import FILTERS

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class LedgerTerms:
    """The opening of one dataset's ledger.

    dataset: its name. unit, adjacency: what every run must be stated in. epsilon, delta: the cap.
    ceiling: the largest cap that may be set whatever outputs show, and so what is guaranteed from the first day; epsilon where None.
    mode: "adaptive" (the filter alone decides) or "declared" (a fixed set of runs, composed beforehand by any sound accountant).
    filter, parameters: the filter and what was chosen for it. dataset_size: where declared public.
    declared: in declared mode the runs, as tables and how often; certified: the epsilon of them all and the accountant.
    schema, version: of the definitions that guard the entries, their hash and which of dpcli's they are (1 where absent).
    blocks: what the dataset is cut into, as tables (dpcli.ledger.blocks.family); None where it is one.
    two_person: whether a second person has to approve what changes the cap or gives something back; True or None.
    fingerprint: of the data, as whoever opened the ledger computes it; the same data under a second name is refused.
    """

    unit: str
    adjacency: str
    epsilon: float
    delta: float
    mode: str = "adaptive"
    filter: str = ""
    parameters: Mapping[str, Any] | None = None
    dataset_size: int | None = None
    declared: Sequence[Mapping[str, Any]] = ()
    certified: Mapping[str, Any] | None = None
    fingerprint: str | None = None
    schema: str = ""
    team: str | None = None
    version: int | None = None
    blocks: Mapping[str, Any] | None = None
    two_person: bool | None = None
    ceiling: float | None = None

    def content(self) -> dict[str, Any]:
        """Return the terms as the opening entry has them."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) not in (None, (), "")}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> LedgerTerms:
        """Return the terms in an opening entry. Raise LedgerError where there are none."""
        try:
            return cls(**content)
        except TypeError as error:
            raise LedgerError(f"not an opening entry that this version reads: {error}") from None

    def refuse_nonsense(self, caps: Mapping[str, Any]) -> None:
        """Raise LedgerError for terms that nothing could be added up under: somebody wrote them by hand."""
        try:
            sound = self._numbers() and self._cut() and (self._planned(caps) if self.mode == "declared" else self._filtered(caps))
        except Exception as error:  # whatever a forged value does
            raise LedgerError(f"not the terms of a ledger: {error!r}") from None
        if not sound:
            raise LedgerError("not the terms of a ledger: their numbers contradict each other")

    def _numbers(self) -> bool:
        from dpcli.mechanisms.neighbours import Adjacency

        words = type(self.unit) is str and self.two_person in (True, None) and Adjacency(self.adjacency).value == self.adjacency
        wide = self.ceiling is None or (self.mode == "adaptive" and self.epsilon <= self.ceiling < float("inf"))
        return words and wide and 0.0 < self.epsilon < float("inf") and 0.0 <= self.delta < 1.0 and (self.dataset_size or 1) >= 1

    def _filtered(self, caps: Mapping[str, Any]) -> bool:
        rule = self.the_filter
        within = all(low <= rule.parameters()[name] <= high for name, (low, high) in rule.ranges.items())
        return self.mode == "adaptive" and set(caps) == set(rule.currency) and within

    def _cut(self) -> bool:
        family = self.family
        if family is None:
            return True
        within = type(family.max_blocks) is int and family.max_blocks >= 1 and self.mode == "adaptive" and self.dataset_size is None
        return within and family.unproved(self.the_filter, self.adjacency, self.delta) is None

    def _planned(self, caps: Mapping[str, Any]) -> bool:
        certified = self.certified or {}
        planned = {f"run {i}": item["runs"] for i, item in enumerate(self.declared, 1)}
        named = all(type(entry) is dict for item in self.declared for entry in item["pipeline"]["mechanism"])
        return (
            type(certified["accountant"]) is str
            and certified["epsilon"] <= self.epsilon
            and bool(planned)
            and caps == planned
            and named
        )

    @property
    def the_filter(self) -> Filter:
        """The filter with its parameters."""
        return filter_named(self.filter, self.parameters or {})

    @property
    def family(self) -> BlockFamily | None:
        """The blocks that the dataset is cut into, None where it is one."""
        return None if self.blocks is None else BlockFamily(**self.blocks)

    def caps(self, epsilon: float) -> dict[str, str]:
        """Return the caps that keep one unit within `epsilon` at the ledger's delta, of the dataset or of each block; in adaptive mode."""
        caps, family = dict(self.the_filter.caps(epsilon, self.delta)), self.family
        return caps if family is None else family.per_block(caps, self.the_filter)

    def price(self, pipeline: Pipeline, delta: float) -> Cost:
        """Return what one run is charged, described at `delta`. Raise CannotCertify or NotRepresentable where it has no cost."""
        if self.mode == "declared":
            return declared_cost(self.declared, pipeline)
        return self.the_filter.cost(pipeline, delta)

    def other_filter(self, pipeline: Pipeline, delta: float) -> str:
        """Return "; the filter of this ledger is zcdp, and one with --filter rdp takes this run"; "" where none does."""
        others = (name for name in FILTERS if self.mode != "declared" and name != self.filter)
        name = next((name for name in others if self._takes(name, pipeline, delta)), None)  # the first: to ask is to price the run
        return f"; the filter of this ledger is {self.filter}, and one with --filter {name} takes this run" if name else ""

    def _takes(self, name: str, pipeline: Pipeline, delta: float) -> bool:
        try:
            opened_filter(name, self.epsilon, self.delta, {}).cost(pipeline, delta)
        except (CannotCertify, InputError, NotRepresentable):
            return False
        return True

    def refuse_other(self, pipeline: Pipeline) -> None:
        """Raise InputError (DP103) where a run is stated for another unit, adjacency or dataset_size than the ledger."""
        privacy, place = pipeline.privacy, pipeline.path or "<pipeline>"
        for name, value in (("unit", privacy.unit), ("adjacency", privacy.adjacency.value)):
            expected = getattr(self, name)
            if value != expected:
                stated = "nothing" if value is None else f'"{value}"'
                raise InputError(
                    f'{place}: privacy.{name}: expected "{expected}", which the ledger adds up, found {stated} (DP103: costs under '
                    "different units or neighbouring relations do not add up)"
                )
        if self.dataset_size is not None and privacy.dataset_size not in (None, self.dataset_size):
            raise InputError(
                f"{place}: privacy.dataset_size: expected {self.dataset_size}, which the ledger was opened for, found "
                f"{privacy.dataset_size}"
            )


def checked(terms: LedgerTerms) -> LedgerTerms:
    """Return the terms of a new ledger. Raise InputError for values that no ledger may be opened for."""
    from dpcli.mechanisms.neighbours import Adjacency

    column = None if terms.family is None else terms.family.column
    for name, value in (("unit", terms.unit), ("fingerprint", terms.fingerprint), ("team", terms.team), ("column", column)):
        if value is not None and not (value.isprintable() and value.strip() and len(value) <= 200):
            raise InputError(f"--{name}: expected at most 200 printable characters, found {value[:60]!r}")
    if terms.adjacency not in {adjacency.value for adjacency in Adjacency}:
        raise InputError(f"--adjacency: expected one of {', '.join(a.value for a in Adjacency)}, found {terms.adjacency!r}")
    if not 0.0 < terms.epsilon < float("inf"):
        raise InputError(f"--epsilon: expected a number > 0, found {terms.epsilon!r}")
    if not 0.0 <= terms.delta < 1.0:
        raise InputError(f"--delta: expected a number in [0, 1), found {terms.delta!r}")
    if terms.ceiling is not None and not terms.epsilon <= terms.ceiling < float("inf"):
        raise InputError(f"--ceiling: expected at least --epsilon, {terms.epsilon!r}, found {terms.ceiling!r}")
    if terms.family is not None:
        _refuse_blocks(terms, terms.family)
    if terms.dataset_size is not None:
        if not 1 <= terms.dataset_size <= 10**18:
            raise InputError(f"--dataset-size: expected a whole number from 1 to 10^18, found {str(terms.dataset_size)[:40]}")
        from dpcli.lint.delta import CODE, size_problem

        problem = size_problem(terms.delta, terms.dataset_size)
        if problem is not None and problem[1] == "error":
            raise InputError(f"--delta: {problem[0]} ({CODE})")
    return terms


def _refuse_blocks(terms: LedgerTerms, family: BlockFamily) -> None:
    """Raise InputError for blocks over which nothing is proved."""
    if terms.dataset_size is not None:
        raise InputError("--dataset-size: expected none with --blocks, as each window has a size of its own")
    kind_named(family.by, family.names, family.count)
    if not 1 <= family.max_blocks <= 10**6:
        raise InputError(f"--max-blocks: expected a whole number from 1 to 10^6, found {str(family.max_blocks)[:40]}")
    if not 1 <= (1 if family.count is None else family.count) <= 10**6:
        raise InputError(f"--block-count: expected a whole number from 1 to 10^6, found {str(family.count)[:40]}")
    twice = next((name for name in family.names if family.names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--block: {twice[:60]!a} is named twice: a block has one budget")
    if terms.filter:
        wrong = family.unproved(terms.the_filter, terms.adjacency, terms.delta)
        if wrong is not None:
            raise InputError(f"--blocks: {wrong}")


Declared = Sequence[Mapping[str, Any]]  # the runs, as tables and how often


def composed(runs: Sequence[tuple[Pipeline, int]], delta: float) -> tuple[float, str]:
    """Return (epsilon, accountant) of runs whose parameters were all fixed in advance, by the tightest sound accountant."""
    from dpcli.analysis.inquiry import tightest
    from dpcli.ledger.filters.filter import steps_of

    steps = [(m, n * count) for pipeline, count in runs for m, n in steps_of(pipeline)]
    row = tightest(tuple(steps), delta)
    if row is None:
        raise CannotCertify(f"no finite epsilon can be certified for the declared runs at delta = {delta!r}")
    return row.upper, row.accountant.name


def declared_caps(declared: Declared) -> dict[str, str]:
    """Return how often each declared run may be made."""
    return {name: str(item["runs"]) for name, item in declared_runs(declared)}


def declared_runs(declared: Declared) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the declared runs by the names of their amounts, in order: an entry's names are sorted, "run 10" before "run 2"."""
    return [(f"run {i}", item) for i, item in enumerate(declared, 1)]


def declared_cost(declared: Declared, pipeline: Pipeline) -> Cost:
    """Return the cost of one of the declared runs. Raise InputError for any other."""
    text = canonical(tables_of(pipeline))
    name = next((name for name, item in declared_runs(declared) if canonical(item["pipeline"]) == text), None)
    if name is None:
        raise InputError(
            f"{pipeline.path or '<pipeline>'}: is not one of the {len(declared)} runs that were declared at the opening; what was not "
            "fixed in advance needs a ledger in adaptive mode"
        )
    return Cost({name: "1"}, f"{name} of the declared set")
