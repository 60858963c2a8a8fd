"""The terms that a ledger is opened with. They never change. An entry "amend" sets a new cap on epsilon, which state.py keeps.

A *cap* is the epsilon and delta that all runs together may cost one unit. In adaptive mode a *filter* (a composition theorem for runs that
are chosen from earlier outputs) decides on each run, in its own currency, such as rho; in declared mode the runs are fixed beforehand. A
dataset may be cut into *blocks*, such as days, each with a cap of its own. In a *two-person* ledger some changes need a second person's
approval. The *definitions* are the tables, triggers and SQL functions that guard the entries in their file or database.

opening.py makes the terms from flags, and state.py reads them from the first entry. `price` gives the cost of a run, rounded up, and `caps`
the caps, rounded down. The opening entry holds these terms, and an attribute keeps its name and meaning for as long as a ledger may be
read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.ledger.blocks.block_kinds import kind_named
from dpcli.ledger.blocks.family import BlockFamily
from dpcli.ledger.filters.declared_set import declared_cost, numbered_runs
from dpcli.ledger.filters.filter import Cost, Filter, filter_for_cap, filter_named
from dpcli.ledger.grammar import LONGEST_NAME, MOST_COUNT
from dpcli.ledger.plugin import FILTERS, MOST_BLOCKS

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class LedgerTerms:
    """The terms of one dataset's ledger. The attributes have the names that the opening entry uses.

    Attributes:
        unit, adjacency: The unit of privacy and the neighbouring relation that every run must state.
        epsilon, delta: The cap on the privacy loss of all runs together.
        ceiling: The largest cap on epsilon that may be set after outputs were seen. From the opening on, the ledger guarantees this epsilon
            and not `epsilon`. If None, it is `epsilon`.
        mode: "adaptive" or "declared". In adaptive mode a privacy filter decides on each run. In declared mode the runs are fixed in
            advance (dpcli.ledger.filters.declared_set).
        filter, parameters: The name of the privacy filter, and its parameters.
        dataset_size: Number of records, if it is public.
        declared: In declared mode, the runs. Each item holds the tables of a pipeline, and how often it is run.
        certified: In declared mode, the epsilon of all runs together, and the accountant that computed it.
        schema, version: Hash of the definitions that guard the entries, and their version number in dpcli (1 if absent).
        blocks: How the dataset is cut into blocks, as fields of dpcli.ledger.blocks.family.BlockFamily; None if it is not cut.
        two_person: True if a second person has to approve changes of the cap, quotas, voided reservations and moves; else None.
        fingerprint: Fingerprint of the data, computed by the person who opens the ledger. No second dataset may have this fingerprint.
        team: In a database, the role whose members can see the dataset. It is hidden from all other logins.
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
        """Return the terms as they are written in the opening entry. A term that is None or empty is left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, (), "")}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> LedgerTerms:
        """Return the terms in an opening entry. Their values are not checked (`refuse_forged` does that).

        Raises LedgerError if a term is unknown, or a term without a default is missing.
        """
        try:
            return cls(**content)
        except TypeError as error:
            raise LedgerError(f"not an opening entry that this version reads: {error}") from None

    @property
    def the_filter(self) -> Filter:
        """The filter with its parameters, of a ledger in adaptive mode. Raises InputError if it is unknown, or in declared mode."""
        return filter_named(self.filter, self.parameters or {})

    @property
    def family(self) -> BlockFamily | None:
        """The blocks that the dataset is cut into; None if it is not cut."""
        return None if self.blocks is None else BlockFamily(**self.blocks)

    def caps(self, epsilon: float) -> dict[str, str]:
        """Return the caps, in the filter's currency, that keep the loss of one unit within `epsilon` at the ledger's delta.

        If the dataset is cut into blocks, the result is the caps of each block. Only a ledger in adaptive mode has a filter.
        """
        caps, family = dict(self.the_filter.caps(epsilon, self.delta)), self.family
        return caps if family is None else family.per_block(caps, self.the_filter)

    def price(self, pipeline: Pipeline, delta: float) -> Cost:
        """Return the cost of one run, rounded up. In declared mode `delta` has no effect.

        Args:
            delta: The delta at which the run is described, if the currency of the filter needs one.

        Raises:
            CannotCertify, NotRepresentable: The run has no finite cost in the currency of the filter.
            InputError: In declared mode, the run was not declared.
        """
        if self.mode == "declared":
            return declared_cost(self.declared, pipeline)
        return self.the_filter.cost(pipeline, delta)

    def filter_advice(self, pipeline: Pipeline, delta: float) -> str:
        """Return the end of an error message about a run without a cost: another filter under which it has one; "" if there is none."""
        if self.mode == "declared":
            return ""
        for name in FILTERS:
            if name != self.filter and self._has_price_under(name, pipeline, delta):
                return f"; the filter of this ledger is {self.filter}, and a ledger with --filter {name} accepts this run"
        return ""

    def _has_price_under(self, filter_name: str, pipeline: Pipeline, delta: float) -> bool:
        """Return whether a run has a cost under a filter, with the parameters that the filter chooses for the caps of this ledger."""
        try:
            filter_for_cap(filter_name, self.epsilon, self.delta, {}).cost(pipeline, delta)
        except (CannotCertify, InputError, NotRepresentable):
            return False
        return True

    def refuse_other_privacy(self, pipeline: Pipeline) -> None:
        """Check that a run is stated for the unit, adjacency and dataset_size of the ledger. Raises InputError if not.

        A run that states no dataset_size is accepted, and so is any dataset_size if the ledger states none.
        """
        privacy, place = pipeline.privacy, pipeline.path or "<pipeline>"
        for name, value in (("unit", privacy.unit), ("adjacency", privacy.adjacency.value)):
            expected = getattr(self, name)
            if value != expected:
                stated = "nothing" if value is None else f'"{value}"'
                raise InputError(
                    f'{place}: privacy.{name}: expected "{expected}" as in the terms of the ledger, found {stated} (DP103: costs under '
                    "different units or neighbouring relations do not add up)"
                )
        if self.dataset_size is not None and privacy.dataset_size not in (None, self.dataset_size):
            raise InputError(
                f"{place}: privacy.dataset_size: expected {self.dataset_size} as in the terms of the ledger, found "
                f"{privacy.dataset_size}"
            )

    def refuse_forged(self, caps: Mapping[str, Any]) -> None:
        """Check that the terms and these caps are consistent, as in every opening entry that dpcli writes. Raises LedgerError if not.

        In adaptive mode only the names of the caps are checked. Their sizes are checked by dpcli.ledger.verify, which may take long.
        """
        try:
            fits_mode = self._fits_declared_mode(caps) if self.mode == "declared" else self._fits_adaptive_mode(caps)
            consistent = self._has_valid_values() and self._has_proved_blocks() and fits_mode
        except Exception as error:  # a forged value can cause any error
            raise LedgerError(f"not the terms of a ledger: {error!r}") from None
        if not consistent:
            raise LedgerError("not the terms of a ledger: their numbers contradict each other")

    def _has_valid_values(self) -> bool:
        """Return whether unit, adjacency, caps and size are valid. Raises ValueError for an unknown adjacency."""
        from dpcli.mechanisms.neighbours import Adjacency

        if type(self.unit) is not str or self.two_person not in (True, None) or Adjacency(self.adjacency).value != self.adjacency:
            return False
        if self.ceiling is not None and not (self.mode == "adaptive" and self.epsilon <= self.ceiling < math.inf):
            return False
        return 0.0 < self.epsilon < math.inf and 0.0 <= self.delta < 1.0 and (self.dataset_size or 1) >= 1

    def _has_proved_blocks(self) -> bool:
        """Return whether the dataset is not cut into blocks, or a theorem covers its blocks."""
        family = self.family
        if family is None:
            return True
        if type(family.max_blocks) is not int or family.max_blocks < 1 or self.mode != "adaptive" or self.dataset_size is not None:
            return False
        return family.missing_proof(self.the_filter, self.adjacency, self.delta) is None

    def _fits_adaptive_mode(self, caps: Mapping[str, Any]) -> bool:
        """Return whether the parameters of the filter are in their ranges, and the caps are those of its currency."""
        rule = self.the_filter
        within = all(low <= rule.parameters()[name] <= high for name, (low, high) in rule.ranges.items())
        return self.mode == "adaptive" and set(caps) == set(rule.currency) and within

    def _fits_declared_mode(self, caps: Mapping[str, Any]) -> bool:
        """Return whether the certified epsilon of the declared runs is within the cap, and the caps are their numbers."""
        certified = self.certified or {}
        if type(certified["accountant"]) is not str or certified["epsilon"] > self.epsilon:
            return False
        if not all(type(entry) is dict for item in self.declared for entry in item["pipeline"]["mechanism"]):
            return False
        return bool(self.declared) and caps == {name: item["runs"] for name, item in numbered_runs(self.declared)}

    def refuse_invalid(self) -> None:
        """Check the values with which a ledger is opened. Raises InputError, which names the flag of dpcli budget init.

        The filter, its parameters and the declared runs are checked by the functions that choose them (dpcli.ledger.opening).
        """
        from dpcli.mechanisms.neighbours import Adjacency

        column = None if self.family is None else self.family.column
        for name, value in (("unit", self.unit), ("fingerprint", self.fingerprint), ("team", self.team), ("column", column)):
            if value is not None and not (value.isprintable() and value.strip() and len(value) <= LONGEST_NAME):
                raise InputError(f"--{name}: expected at most {LONGEST_NAME} printable characters, found {value[:60]!r}")
        adjacencies = [adjacency.value for adjacency in Adjacency]
        if self.adjacency not in adjacencies:
            raise InputError(f"--adjacency: expected one of {', '.join(adjacencies)}, found {self.adjacency!r}")
        if not 0.0 < self.epsilon < math.inf:
            raise InputError(f"--epsilon: expected a number > 0, found {self.epsilon!r}")
        if not 0.0 <= self.delta < 1.0:
            raise InputError(f"--delta: expected a number in [0, 1), found {self.delta!r}")
        if self.ceiling is not None and not self.epsilon <= self.ceiling < math.inf:
            raise InputError(f"--ceiling: expected at least --epsilon, {self.epsilon!r}, found {self.ceiling!r}")
        if self.family is not None:
            self._refuse_unproved_blocks(self.family)
        if self.dataset_size is not None:
            _refuse_large_delta(self.delta, self.dataset_size)

    def _refuse_unproved_blocks(self, family: BlockFamily) -> None:
        """Check that a theorem covers these blocks under the ledger's filter and adjacency. Raises InputError if none does."""
        if self.dataset_size is not None:
            raise InputError("--dataset-size: expected none with --blocks, as each window has its own size")
        kind_named(family.by, family.names, family.count)  # raises InputError for an unknown kind
        for flag, number in (("--max-blocks", family.max_blocks), ("--block-count", family.count)):
            if number is not None and not 1 <= number <= MOST_BLOCKS:
                raise InputError(f"{flag}: expected a whole number from 1 to 10^6, found {str(number)[:40]}")
        repeated = next((name for name in family.names if family.names.count(name) > 1), None)
        if repeated is not None:
            raise InputError(f"--block: {repeated[:60]!a} is named twice: each block has one budget")
        # `open_from_flags` checks the other terms before it chooses the filter. `places.init` checks again with the filter.
        reason = family.missing_proof(self.the_filter, self.adjacency, self.delta) if self.filter else None
        if reason is not None:
            raise InputError(f"--blocks: {reason}")


def _refuse_large_delta(delta: float, dataset_size: int) -> None:
    """Check that delta is small enough for the number of records (DP105). Raises InputError if not."""
    if not 1 <= dataset_size <= MOST_COUNT:
        raise InputError(f"--dataset-size: expected a whole number from 1 to 10^18, found {str(dataset_size)[:40]}")
    from dpcli.lint.delta import LARGE_DELTA_CODE, size_problem

    problem = size_problem(delta, dataset_size)
    if problem is not None and problem.severity == "error":  # `dpcli budget init` prints a mere warning
        raise InputError(f"--delta: {problem.message} ({LARGE_DELTA_CODE})")
