"""What an ensemble is fitted and asked with, settled before any data are read: its shards, its tokens, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcli.base.errors import InputError
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.read import examine, refuse, targets, toml_document
from dpcli.file.pipeline.section import SectionTable
from dpcli.file.toml.findings import Findings, InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.mechanisms.prediction.ensemble import EnsembleMixtureSpec
from dpcli.predict.pmixed.paper_radius import Published
from dpcli.predict.pmixed.settings import Pmixed
from dpcli.predict.shards import refuse_replaced_units
from dpcli.sessions.plan import FilePlan
from dpcli.sessions.priced import one_entry, priced_file, require_budget

if TYPE_CHECKING:
    from dpcli.analysis.account import Account

# What may change after a fit: it is public, and what is paid for does not depend on it.
FREE = frozenset({"temperature", "max_tokens", "test", "queries", "output", "device"})


@dataclass(frozen=True, slots=True)
class PmixedPlan(FilePlan):
    """One ensemble.

    entry: the mechanism that a token performs. account: what all tokens cost; None under the published protocol, which certifies nothing.
    published: what that is run with, and claims; None in a sound file.
    """

    accounts: ClassVar[tuple[str, ...]] = ("account",)
    entry: Entry
    settings: Pmixed
    account: Account | None
    published: Published | None

    @property
    def spec(self) -> EnsembleMixtureSpec:
        assert isinstance(self.entry.spec, EnsembleMixtureSpec)
        return self.entry.spec

    @property
    def tokens(self) -> int:
        """How many may be drawn in all."""
        return self.entry.steps

    @property
    def folder(self) -> str:
        return self.folder_at(self.settings.output)

    @property
    def private_file(self) -> str | None:
        return self.settings.data

    @property
    def bounded(self) -> tuple[str, str] | None:
        """Where a unit is a shard that comes or goes; elsewhere whatever one adds is in one shard."""
        units = self.settings.units
        return None if units is None or self.spec.change != "remove-shard" else ("pmixed.units", units)

    def fingerprint(self) -> str:
        """SHA-256 of everything that must stay as it was when the models were fitted."""
        return self.fingerprint_with("pmixed", self.settings, FREE)

    def require_budget(self) -> None:
        """Raise Denied where the file's own budget does not pay for all tokens."""
        if self.account is not None:
            require_budget(self.account.budget, self.path)


def plan_of(path: str) -> PmixedPlan:
    """The plan of a file.

    Raises:
        InputError: the file cannot be read, or asks for what cannot be honoured. CannotCertify: nobody can say what it costs.
    """
    data = read_bytes(path)
    settings, pipeline = _read(data, path)
    entry = one_entry(path, pipeline, ("pmixed",), "pmixed", settings.mechanism)
    _require_units(pipeline, settings, entry, path)
    if settings.mode == "paper":
        return PmixedPlan(path, pipeline, entry, settings, None, _published(pipeline, settings, entry, path))
    return PmixedPlan(path, pipeline, entry, settings, priced_file(path, pipeline).account, None)


def _read(data: bytes, path: str) -> tuple[Pmixed, Pipeline]:
    """The table, and the pipeline; the file is judged as every command judges it, but for what it says against the published protocol."""
    from dpcli.analysis.calibrate_file import solved

    text, tables = toml_document(data, path)
    findings = Findings()
    if type(tables.get("pmixed")) is not dict:
        findings.add("DP005", ("pmixed",), "a [pmixed] table, which says which models are fine-tuned on which data", "none")
        refuse(findings, tables, text, path)
    pipeline, wrong = examine(data, path)
    stated = tables["pmixed"].get("mode") == "paper"
    if not stated or pipeline is None or [found.key for found in wrong] != ["pmixed.mode"] or wrong[0].rule != "DP005":
        if wrong:
            raise InvalidFile(wrong)
        pipeline = solved(data, path)
    elif targets(data, path):
        raise InputError(f'{path}: expected numbers with pmixed.mode = "paper", found "calibrate"')
    table = SectionTable("pmixed").read(tables["pmixed"], KeyPlace(("pmixed",), findings))
    assert isinstance(table, Pmixed)
    return table, pipeline


def _require_units(pipeline: Pipeline, settings: Pmixed, entry: Entry, path: str) -> None:
    """What one change touches must be one shard."""
    spec, privacy = entry.spec, pipeline.privacy
    assert isinstance(spec, EnsembleMixtureSpec)
    whole = spec.change == "remove-shard"
    if settings.units is None and (whole or (privacy.max_contributions or 1) > 1):
        why = 'change = "remove-shard"' if whole else f"max_contributions = {privacy.max_contributions}"
        raise InputError(f"{path}: pmixed.units: expected what tells whose a text is, as {why} needs, found none")
    if settings.units is not None and not whole:
        refuse_replaced_units("pmixed.units", privacy.adjacency, path)


def _published(pipeline: Pipeline, settings: Pmixed, entry: Entry, path: str) -> Published:
    """What the published protocol is run with: it starts from a claimed epsilon."""
    budget, spec = pipeline.budget, entry.spec
    assert isinstance(spec, EnsembleMixtureSpec)
    delta = None if budget is None else budget.delta if budget.delta is not None else pipeline.privacy.delta
    if budget is None or budget.epsilon is None or not delta:
        raise InputError(f'{path}: budget: expected epsilon and delta > 0 with pmixed.mode = "paper", found none')
    return Published(settings.order, spec.model_rate, entry.steps, budget.epsilon, delta)
