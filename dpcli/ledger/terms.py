"""What a ledger was opened for: fixed for good, but for the cap, which only an entry of its own can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError, LedgerError
from dpcli.ledger.filters import Filter, filter_named

if TYPE_CHECKING:
    from dpcli.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class Terms:
    """The opening of one dataset's ledger.

    dataset: its name. unit, adjacency: what every run must be stated in. epsilon, delta: the cap.
    mode: "adaptive" (the filter alone decides) or "declared" (a fixed set of runs, composed beforehand by any sound accountant).
    filter, parameters: the filter and what was chosen for it. dataset_size: where declared public.
    declared: in declared mode the runs, as tables and how often; certified: the epsilon of them all and the accountant.
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

    def content(self) -> dict[str, Any]:
        """For the opening entry."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) not in (None, (), "")}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Terms:
        """From the opening entry. Raises LedgerError where it is not one."""
        try:
            return cls(**content)
        except TypeError as error:
            raise LedgerError(f"expected an opening entry that this version reads, found something else ({error})") from None

    def refuse_nonsense(self, caps: Mapping[str, Any]) -> None:
        """Raise LedgerError for terms that `checked` would not have let in: somebody wrote them by hand."""
        try:
            sound = checked(self) is self and self._sound(caps)
        except Exception as error:  # whatever a forged value does
            raise LedgerError(f"expected the terms of a ledger, found something else ({error!r})") from None
        if not sound:
            raise LedgerError("expected the terms of a ledger, found something else")

    def _sound(self, caps: Mapping[str, Any]) -> bool:
        if self.mode != "declared":
            return self.mode == "adaptive" and self.the_filter.epsilon(caps, self.delta) >= 0.0
        certified = self.certified or {}
        return type(certified["accountant"]) is str and certified["epsilon"] <= self.epsilon and bool(self.declared)

    @property
    def the_filter(self) -> Filter:
        """The filter with its parameters."""
        return filter_named(self.filter, self.parameters or {})

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


def checked(terms: Terms) -> Terms:
    """The terms of a new ledger, or InputError for values that no ledger may be opened for."""
    from dpcli.mechanisms.base import Adjacency

    for name, value in (("unit", terms.unit), ("fingerprint", terms.fingerprint), ("team", terms.team)):
        if value is not None and not (value.isprintable() and value.strip() and len(value) <= 200):
            raise InputError(f"--{name}: expected at most 200 printable characters, found {value[:60]!r}")
    if terms.adjacency not in {adjacency.value for adjacency in Adjacency}:
        raise InputError(f"--adjacency: expected one of {', '.join(a.value for a in Adjacency)}, found {terms.adjacency!r}")
    if not 0.0 < terms.epsilon < float("inf"):
        raise InputError(f"--epsilon: expected a number > 0, found {terms.epsilon!r}")
    if not 0.0 <= terms.delta < 1.0:
        raise InputError(f"--delta: expected a number in [0, 1), found {terms.delta!r}")
    if terms.dataset_size is not None:
        if not 1 <= terms.dataset_size <= 10**18:
            raise InputError(f"--dataset-size: expected a whole number from 1 to 10^18, found {str(terms.dataset_size)[:40]}")
        if terms.delta * terms.dataset_size >= 1.0:
            raise InputError(
                f"--delta: expected less than 1/dataset_size (DP105), found {terms.delta:g} for {terms.dataset_size} records"
            )
    return terms


def _shown(value: str | None) -> str:
    return "nothing" if value is None else f'"{value}"'
