"""What a ledger was opened for: fixed for good, but for the cap, which only an entry of its own can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.file.toml.looks import looks
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.blocks.kinds import kind_named
from dpcli.ledger.filters.filter import Cost, Filter, filter_named

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
        """For the opening entry."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) not in (None, (), "")}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> LedgerTerms:
        """From the opening entry. Raises LedgerError where it is not one."""
        try:
            return cls(**content)
        except TypeError as error:
            raise LedgerError(f"expected an opening entry that this version reads, found something else ({error})") from None

    def refuse_nonsense(self, caps: Mapping[str, Any]) -> None:
        """Raise LedgerError for terms that nothing could be added up under: somebody wrote them by hand."""
        try:
            sound = self._numbers() and self._cut() and (self._planned(caps) if self.mode == "declared" else self._filtered(caps))
        except Exception as error:  # whatever a forged value does
            raise LedgerError(f"expected the terms of a ledger, found something else ({error!r})") from None
        if not sound:
            raise LedgerError("expected the terms of a ledger, found something else")

    def _numbers(self) -> bool:
        from dpcli.mechanisms.neighbours import Adjacency

        words = type(self.unit) is str and self.two_person in (True, None) and Adjacency(self.adjacency).value == self.adjacency
        wide = self.ceiling is None or (self.mode == "adaptive" and self.epsilon <= self.ceiling < float("inf"))
        return words and wide and 0.0 < self.epsilon < float("inf") and 0.0 <= self.delta < 1.0 and (self.dataset_size or 1) >= 1

    def _filtered(self, caps: Mapping[str, Any]) -> bool:
        found = self.the_filter
        within = all(low <= found.parameters()[name] <= high for name, (low, high) in found.ranges.items())
        return self.mode == "adaptive" and set(caps) == set(found.currency) and within

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
        """What the dataset is cut into, None where it is one."""
        return None if self.blocks is None else BlockFamily(**self.blocks)

    def caps(self, epsilon: float) -> dict[str, str]:
        """In adaptive mode, what keeps one unit within `epsilon` at the ledger's delta: caps of the dataset, or of each of its blocks."""
        whole, family = dict(self.the_filter.caps(epsilon, self.delta)), self.family
        return whole if family is None else family.per_block(whole, self.the_filter)

    def price(self, pipeline: Pipeline, delta: float) -> Cost:
        """What one run is charged, described at `delta`. Raises CannotCertify or NotRepresentable where it has no cost."""
        if self.mode == "declared":
            from dpcli.ledger.declared import declared_cost

            return declared_cost(self.declared, pipeline)
        return self.the_filter.cost(pipeline, delta)

    def refuse_other(self, pipeline: Pipeline) -> None:
        """Raises InputError (DP103) where a run is stated for another unit or adjacency than the ledger."""
        privacy = pipeline.privacy
        stated = {"unit": privacy.unit, "adjacency": privacy.adjacency.value}
        for name, found in stated.items():
            expected = getattr(self, name)
            if found != expected:
                raise InputError(
                    f'{pipeline.path or "<pipeline>"}: privacy.{name}: expected "{expected}", which the ledger adds up, found '
                    f"{_shown(found)} (DP103: costs under different units or neighbouring relations do not add up)"
                )
        if self.dataset_size is not None and privacy.dataset_size not in (None, self.dataset_size):
            raise InputError(
                f"{pipeline.path or '<pipeline>'}: privacy.dataset_size: expected {self.dataset_size}, which the ledger was opened for, "
                f"found {privacy.dataset_size}"
            )


def checked(terms: LedgerTerms) -> LedgerTerms:
    """The terms of a new ledger, or InputError for values that no ledger may be opened for."""
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
    """Raise InputError for blocks over which nothing is proved, or whose names people do not tell apart."""
    if terms.dataset_size is not None:
        raise InputError("--dataset-size: expected none with --blocks, as each window has a size of its own")
    kind_named(family.by, family.names, family.count)
    if not 1 <= family.max_blocks <= 10**6:
        raise InputError(f"--max-blocks: expected a whole number from 1 to 10^6, found {str(family.max_blocks)[:40]}")
    if not 1 <= (1 if family.count is None else family.count) <= 10**6:
        raise InputError(f"--block-count: expected a whole number from 1 to 10^6, found {str(family.count)[:40]}")
    if len({looks(name) for name in family.names}) != len(family.names):
        raise InputError("--block: expected names that people tell apart, found two that look alike: a block has one budget")
    if terms.filter:
        wrong = family.unproved(terms.the_filter, terms.adjacency, terms.delta)
        if wrong is not None:
            raise InputError(f"--blocks: {wrong}")


def _shown(value: str | None) -> str:
    return "nothing" if value is None else f'"{value}"'
