"""What an ensemble is fitted and asked with, settled before any data are read: its shards, its tokens, and what they cost."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dpcli.errors import CannotCertify, Denied, InputError
from dpcli.keys.kinds import KeyPlace
from dpcli.mechanisms.prediction.ensemble import EnsembleMixtureSpec
from dpcli.pipeline.canonical import tables_of
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.pipeline.read import examine, refuse, targets, toml_document
from dpcli.pipeline.section import SectionTable
from dpcli.predict.pmixed.paper_radius import Published
from dpcli.predict.pmixed.settings import Pmixed
from dpcli.predict.shards import refuse_replaced_units
from dpcli.rounding import up
from dpcli.toml.findings import Findings
from dpcli.toml.limits import read_bytes
from dpcli.toml.render import InvalidFile

if TYPE_CHECKING:
    from dpcli.analysis.account import Account

# What may change after a fit: it is public, and what is paid for does not depend on it.
FREE = frozenset({"temperature", "max_tokens", "test", "queries", "output", "device"})


@dataclass(frozen=True, slots=True)
class PmixedPlan:
    """One ensemble.

    entry: the mechanism that a token performs. account: what all tokens cost; None under the published protocol, which certifies nothing.
    published: what that is run with, and claims; None in a sound file.
    """

    path: str
    pipeline: Pipeline
    settings: Pmixed
    entry: Entry
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
    def stated_folder(self) -> str:
        """As the file says, or by its name: where it is not absolute, from the current folder."""
        return self.settings.output or os.path.join("runs", self.pipeline.name or os.path.splitext(os.path.basename(self.path))[0])

    @property
    def folder(self) -> str:
        return os.path.join(os.getcwd(), self.stated_folder)

    def fingerprint(self) -> str:
        """SHA-256 of everything that must stay as it was when the models were fitted."""
        kept = {key: value for key, value in asdict(self.settings).items() if key not in FREE}
        content = {"pipeline": tables_of(self.pipeline), "pmixed": kept}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def require_budget(self) -> None:
        """Raise Denied where the file's own budget does not pay for all tokens."""
        budget = None if self.account is None else self.account.budget
        if budget is not None and budget.verdict in ("fail", "unknown"):
            raise Denied(
                f"{self.path}: budget: expected at most epsilon {budget.epsilon:g} at delta = {budget.delta!r}, found {up(budget.spent)}"
            )


def plan_of(path: str) -> PmixedPlan:
    """The plan of a file.

    Raises:
        InputError: the file cannot be read, or asks for what cannot be honoured. CannotCertify: nobody can say what it costs.
    """
    data = read_bytes(path)
    settings, pipeline = _read(data, path)
    entry = _entry(pipeline, settings, path)
    _require_units(pipeline, settings, entry, path)
    if settings.mode == "paper":
        return PmixedPlan(path, pipeline, settings, entry, None, _published(pipeline, settings, entry, path))
    from dpcli.analysis.account import account

    found = account(pipeline)
    if found.winner is None:
        raise CannotCertify(f"{path}: no finite epsilon can be certified for this file")
    return PmixedPlan(path, pipeline, settings, entry, found, None)


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


def _entry(pipeline: Pipeline, settings: Pmixed, path: str) -> Entry:
    """The entry of type pmixed that is run. Raises InputError where that is unclear, or it cannot be run as it is stated."""
    known = {entry.name: entry for entry in pipeline.mechanisms if isinstance(entry.spec, EnsembleMixtureSpec)}
    name = settings.mechanism or next(iter(known), "")
    if name not in known or (settings.mechanism is None and len(known) != 1):
        raise InputError(
            f"{path}: pmixed.mechanism: expected the name of the entry of type pmixed that is run, found "
            f"{settings.mechanism or 'none'} of {', '.join(known) or 'none'}"
        )
    entry = known[name]
    if entry.partition is not None:
        raise InputError(f'{path}: mechanism["{name}"]: expected no partition, found one: the shards are of all of the data')
    return entry


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
    if budget is None or not delta:
        raise InputError(f'{path}: budget: expected epsilon and delta > 0 with pmixed.mode = "paper", found none')
    return Published(settings.order, spec.model_rate, entry.steps, budget.epsilon, delta)
