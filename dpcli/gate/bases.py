"""What a file was before, at a git revision or elsewhere, and whether its number still means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpcli.accounting import Account, account
from dpcli.comparable import statement_of
from dpcli.errors import DpcliError, InputError
from dpcli.gate.history import past
from dpcli.pipeline.gate_keys import Gate, Horizon, Waiver
from dpcli.pipeline.model import Pipeline

Capped = Callable[[str, Pipeline], Pipeline]


@dataclass(frozen=True, slots=True)
class Base:
    """One file at the base: epsilon at delta, what it was a statement about, and the conditions it set itself.

    horizon: runs and cap. waivers: as `waiver_data` writes them. account, data: where the file itself is at hand, not only its figures.
    renamed: what it was called in the repository, where that was another name.
    """

    epsilon: float
    delta: float | None
    statement: Mapping[str, Any]
    cap: float | None
    max_increase: float | None
    horizon: tuple[int, float] | None = None
    waivers: tuple[Mapping[str, Any], ...] = ()
    account: Account | None = None
    data: bytes | None = None
    renamed: str = ""

    def changes(self, pipeline: Pipeline, own_cap: bool, own_horizon: bool) -> list[str]:
        """What makes the two numbers incomparable, and conditions that the file has loosened for itself.

        own_cap, own_horizon: whether the file's own holds, and not one from outside.
        """
        found = [
            f"{key} {self.statement.get(key)} -> {value}"
            for key, value in statement_of(pipeline).items()
            if self.statement.get(key) != value
        ]
        cap = pipeline.budget.epsilon if pipeline.budget else None
        if own_cap and self.cap is not None and cap is not None and cap > self.cap:
            found.append(f"budget.epsilon {self.cap:g} -> {cap:g}")
        limit = pipeline.gate.max_increase
        if self.max_increase is not None and (limit is None or limit > self.max_increase):
            found.append(f"gate.max_increase {self.max_increase:g} -> {'none' if limit is None else f'{limit:g}'}")
        return found + (_loosened(self.horizon, horizon_data(pipeline.gate.horizon)) if own_horizon else [])


def _loosened(old: tuple[int, float] | None, new: tuple[int, float] | None) -> list[str]:
    """Fewer runs or a higher cap than before, or no horizon any more."""
    if old is None or (new is not None and new[0] >= old[0] and new[1] <= old[1]):
        return []
    said = "none" if new is None else f"{new[0]:,} runs within {new[1]:g}"
    return [f"gate.horizon {old[0]:,} runs within {old[1]:g} -> {said}"]


def horizon_data(horizon: Horizon | None) -> tuple[int, float] | None:
    """Runs and cap."""
    return None if horizon is None else (horizon.count, horizon.epsilon)


def waiver_data(waiver: Waiver) -> dict[str, Any]:
    """A waiver as JSON holds it: two are the same where all of this is."""
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}


def form(pipeline: Pipeline) -> dict[str, Any]:
    """What a later gate needs of this one, as `dpcli.gate.baseline.bases_from` reads it."""
    gate: Gate = pipeline.gate
    return {
        "statement": statement_of(pipeline),
        "budget_epsilon": pipeline.budget.epsilon if pipeline.budget else None,
        "max_increase": gate.max_increase,
        "horizon": horizon_data(gate.horizon),
        "waivers": [waiver_data(waiver) for waiver in gate.waiver],
    }


def bases_at(ref: str, paths: Sequence[str], cap: Capped) -> dict[str, Base | None]:
    """Each file as it stands at the git revision `ref`; None where nothing there became it. Raises InputError for a bad `ref`."""
    if ref.startswith("-") or "-" in paths:
        raise InputError(f"--base-ref: expected a git revision and files, found {ref!r} and {', '.join(paths)}")
    return {path: _at_ref(ref, path, cap) for path in paths}


def _at_ref(ref: str, path: str, cap: Capped) -> Base | None:
    from dpcli.pipeline.read import parse

    found = past(ref, path)
    if found is None:
        return None
    try:
        own = parse(found.data, f"{ref}:{found.renamed or path}")
        pipeline = cap(path, own)
        result = account(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
    except DpcliError as error:
        raise InputError(f"{found.renamed or path} at {ref} cannot be compared with: {error}") from None
    stated = form(own)
    return Base(
        result.upper,
        result.delta,
        statement_of(pipeline),
        stated["budget_epsilon"],
        stated["max_increase"],
        stated["horizon"],
        tuple(stated["waivers"]),
        result,
        found.data,
        found.renamed,
    )
