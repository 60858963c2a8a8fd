"""What a file was before, at a git revision or elsewhere, and whether its number still means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dpcli.analysis.account import Account, headline
from dpcli.analysis.difference import statement_of
from dpcli.base.errors import DpcliError, InputError
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Gate, Waiver
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.shown import first_names
from dpcli.gate.findings import first_of
from dpcli.gate.restatement import Standing, standings_of
from dpcli.gate.terms import horizon_data, terms_of
from dpcli.git.history import Past, pasts

Capped = Callable[[str, Pipeline], Pipeline]


@dataclass(frozen=True, slots=True)
class Base:
    """One file at the base: epsilon at delta, what it was a statement about, and the conditions it set itself.

    terms: as `terms_of` has them. standings: as `standings_of` has them. horizon: runs and cap. waivers: as `waiver_data` writes them.
    account, data: where the file itself is at hand, not only its figures. renamed: what it was called in the repository, where that was
    another name.
    """

    epsilon: float
    delta: float | None
    statement: Mapping[str, Any]
    terms: Mapping[str, Any]
    standings: Mapping[str, Standing]
    horizon: tuple[int, float] | None = None
    waivers: tuple[Mapping[str, Any], ...] = ()
    account: Account | None = None
    data: bytes | None = None
    renamed: str = ""

    @property
    def max_increase(self) -> float | None:
        """The limit that it set to its own rise."""
        found: float | None = self.terms.get("gate.max_increase")
        return found


@dataclass(frozen=True, slots=True)
class Unpriced:
    """An earlier version that cannot be read as a pipeline, which the change mends: `reason` says why it cannot."""

    reason: str


def waiver_data(waiver: Waiver) -> dict[str, Any]:
    """A waiver as JSON holds it: two are the same where all of this is."""
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}


def form(pipeline: Pipeline, capped: Pipeline) -> dict[str, Any]:
    """What a later gate needs of this one, as `dpcli.gate.baseline.bases_from` reads it. capped: the pipeline with the caps that held."""
    gate: Gate = pipeline.gate
    return {
        "statement": statement_of(capped),
        "terms": terms_of(pipeline),
        "mechanisms": standings_of(pipeline),
        "horizon": horizon_data(gate.horizon),
        "waivers": [waiver_data(waiver) for waiver in gate.waiver],
    }


def bases_at(ref: str, paths: Sequence[str], cap: Capped) -> dict[str, Base | Unpriced | None]:
    """Each file as it stands at the git revision `ref`; None where nothing there became it. Raises InputError for a bad `ref`."""
    if ref.startswith("-") or "-" in paths:
        raise InputError(f"--base-ref: expected a git revision and files, found {ref!r} and {first_names(paths)}")
    return {path: None if found is None else _at_ref(ref, path, found, cap) for path, found in pasts(ref, paths).items()}


def _at_ref(ref: str, path: str, found: Past, cap: Capped) -> Base | Unpriced:
    from dpcli.file.pipeline.other_files import LFS_POINTER
    from dpcli.file.pipeline.read import parse

    name = found.renamed or path
    try:
        if found.data.startswith(LFS_POINTER):
            raise InputError("it is a Git LFS pointer: keep pipelines out of Git LFS")
        own = parse(found.data, f"{ref}:{name}")
        pipeline = cap(path, own)
        result = headline(pipeline, delta=pipeline.budget.delta if pipeline.budget else None)
    except InvalidFile as error:
        return Unpriced(first_of(error.diagnostics))
    except DpcliError as error:
        raise InputError(f"{name} at {ref} cannot be compared with: {error}") from None
    stated = form(own, pipeline)
    return Base(
        result.upper,
        result.delta,
        stated["statement"],
        stated["terms"],
        stated["mechanisms"],
        stated["horizon"],
        tuple(stated["waivers"]),
        result,
        found.data,
        found.renamed,
    )
