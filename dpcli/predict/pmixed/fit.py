"""Fine-tuning one model for each shard, without noise: what comes of it is private, and is read by draws of tokens alone.

All tokens that the models may ever answer with are paid for here, before there is anything to draw from.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcli.analysis.calibrate import calibrate
from dpcli.analysis.rho import OVER
from dpcli.errors import CannotCertify, Denied, InputError
from dpcli.ledger.blocks.rows import kept_rows
from dpcli.predict.models.content import require_same_content
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.shared import private_texts, public_side, sharded
from dpcli.predict.pmixed.tuning import cut, taught, tuning
from dpcli.predict.queries.open import FILE, open_queries
from dpcli.sessions.charged import UNCHARGED, charge_run, require_going_on, require_same_books
from dpcli.sessions.folder import exclusive, replaced
from dpcli.sessions.reason import reason
from dpcli.sessions.whereabouts import home
from dpcli.sessions.window import as_begun

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.queries.budget import QueryBudget

FITTED, BEGUN = "fitted.json", "begun.json"
Report = Callable[[int, int], None]  # models fine-tuned, of how many


@dataclass(frozen=True, slots=True)
class Fit:
    """What a folder holds, or is about to.

    run: its name, in a ledger too. fingerprint: of the file. data: SHA-256 of the texts in their shards. charged: whether a ledger paid for
    it. public: the public model, by content. models: SHA-256 of each model's file; empty until the end. counted: whether the count of its
    tokens was made, before any model: a
    copy of the folder has no count of its own. home: the folder that it was charged in; up to the count nothing else tells a copy of it.
    window: the blocks that it was charged on, where its dataset is cut into blocks. rows: of these, where dpcli has chosen them.
    """

    run: str
    fingerprint: str
    data: str
    charged: bool
    public: str
    models: tuple[str, ...] = ()
    counted: bool = False
    home: str = ""
    window: tuple[str, ...] = ()
    rows: dict[str, Any] | None = None

    @property
    def identity(self) -> str:
        """By which its tokens are counted."""
        return f"{self.run}-{self.fingerprint}"


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """folder: where the models are. resumed: how many of them were there already."""

    plan: PmixedPlan
    fit: Fit
    folder: str
    resumed: int


def fit(plan: PmixedPlan, ledger: Ledger | None = None, resume: bool = False, report: Report = lambda done, of: None) -> FitOutcome:
    """Fine-tune the models of a plan, and begin to count their tokens.

    Args:
        ledger: charged with all tokens before the first model.
        resume: go on with a fit that did not end.

    Raises:
        InputError: the folder holds a fit, or none to resume; data or models cannot be had. Denied: the file's own budget, or the ledger,
            says no. LedgerError: the ledger or the count of tokens cannot be written.
    """
    if ledger is not None and plan.account is None:
        raise InputError(
            '--ledger: expected none with pmixed.mode = "paper", found one: what is no guarantee has no cost to charge'
        )
    _require_budget(plan)
    with exclusive(plan.folder, 0o700):  # the size of a model tells how much its shard holds
        side = public_side(plan.settings, plan.path)
        side.said()
        shards = sharded(plan, private_texts(plan))
        digest = hashlib.sha256(json.dumps(shards).encode("utf-8", "surrogatepass")).hexdigest()
        files = [model_file(plan.folder, shard) for shard in range(len(shards))]
        with tuning(plan, side) as apart:
            records = cut(apart, shards)  # whatever may be wrong with them is found before anything is charged
            begun = _begun(plan, ledger, resume, digest, side.content)
            made = sum(os.path.exists(file) for file in files)
            left = [(shard, own) for shard, own in enumerate(records) if not os.path.exists(files[shard])]
            report(made, len(shards))
            for done, (shard, learnt) in enumerate(taught(apart, left), made + 1):
                replaced(files[shard], learnt, 0o600)
                report(done, len(shards))
        ended = Fit(**{**asdict(begun), "models": tuple(map(_digest, files))})
        replaced(os.path.join(plan.folder, FITTED), json.dumps(asdict(ended)).encode(), 0o600)
        if ledger is not None:
            ledger.commit(begun.run)
        os.unlink(os.path.join(plan.folder, BEGUN))
    return FitOutcome(plan, ended, plan.folder, made)


def fitted(plan: PmixedPlan) -> Fit:
    """The fit that a plan's folder holds. Raises InputError where it holds none, or that of another file."""
    found = _read(os.path.join(plan.folder, FITTED))
    if found is None:
        raise InputError(
            f"{plan.folder}: expected fitted models, found none: {_where(plan)}dpcli pmixed fit {plan.path} charges for new ones"
        )
    if found.fingerprint != as_begun(plan, found.window, found.rows).fingerprint():
        raise InputError(
            f"{plan.path}: expected the file that the models in {plan.folder} were fitted with, found another: what their privacy "
            "depends on has changed since; a new fit needs a folder of its own"
        )
    return found


def as_fitted(plan: PmixedPlan) -> PmixedPlan:
    """The plan on the rows that its models were fitted with, where its folder has some; as it is where it has none."""
    found = _read(os.path.join(plan.folder, FITTED))
    return plan if found is None else as_begun(plan, found.window, found.rows)


def learnt(plan: PmixedPlan, fit: Fit, shard: int) -> bytes:
    """What the model of a shard has learnt. Raises InputError where the file is not what was fitted."""
    path = model_file(plan.folder, shard)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"{path}: expected a fitted model, found none: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != fit.models[shard]:
        raise InputError(f"{path}: expected the model that was fitted, found another one")
    return content


def queries_of(plan: PmixedPlan, fit: Fit, new: bool = False, moved: bool = False) -> QueryBudget:
    """The count of its tokens. Raises as `open_queries` does."""
    place = plan.settings.queries or os.path.join(plan.folder, FILE)
    return open_queries(place, fit.identity, plan.tokens, new=new, moved=moved, things="tokens")


def model_file(folder: str, shard: int) -> str:
    return os.path.join(folder, f"shard-{shard:04d}.model")


def _require_budget(plan: PmixedPlan) -> None:
    """Raise Denied where the file's own budget does not pay for all tokens, with the radius at which it would."""
    try:
        plan.require_budget()
    except Denied as denied:
        budget = None if plan.account is None else plan.account.budget
        assert budget is not None
        cap = budget.epsilon
        if cap is None or (budget.rho is not None and budget.rho.verdict in OVER):
            raise
        try:
            found = calibrate(plan.pipeline, cap.cap, cap.delta, "radius", ((plan.entry.name, "radius"),))
        except CannotCertify:
            raise Denied(f"{denied}; no radius passes: the rest of the file costs more") from None
        raise Denied(
            f"{denied}; radius = {found.value:.10g} would pass (dpcli pmixed account {plan.path} --solve radius)"
        ) from None


def _where(plan: PmixedPlan) -> str:
    """That a folder is looked for from here, where it is."""
    stated = plan.stated_folder(plan.settings.output)
    return (
        ""
        if os.path.isabs(stated)
        else f"{stated} is relative to the current folder, where there may be none; go to where it was fitted, or "
    )


def _begun(plan: PmixedPlan, ledger: Ledger | None, resume: bool, digest: str, public: str) -> Fit:
    """The fit that is to be made, charged, or gone on with."""
    folder = plan.folder
    state = os.path.join(folder, BEGUN)
    before = _read(state)
    if os.path.exists(os.path.join(folder, FITTED)) and before is None:
        raise InputError(
            f"{folder}: expected a new folder, found fitted models: fitting again is a further release, which costs epsilon anew; state "
            "another pmixed.output, or remove the folder"
        )
    if not resume:
        if before is not None:
            raise InputError(f"{folder}: expected a new folder, found a fit that did not end: --resume goes on with it")
        window = plan.pipeline.privacy.window or ()
        made = Fit(uuid.uuid4().hex, plan.fingerprint(), digest, ledger is not None, public, home=home(folder), window=window)
        made = replace(made, rows=None if plan.rows is None else plan.rows.content())
        replaced(state, json.dumps(asdict(made)).encode(), 0o600)
        try:
            _charge(plan, ledger, made)
        except UNCHARGED:
            os.unlink(state)
            raise
        return _counted(plan, made)
    if before is None:
        raise InputError(f"--resume: expected a fit that did not end in {folder}, found none")
    if (before.fingerprint, before.data) != (plan.fingerprint(), digest):
        raise InputError(
            "--resume: expected the file and the texts that the fit began with, found others: start anew in another folder"
        )
    require_same_content(before.public, public)
    require_same_books("--resume", before.charged, ledger, "fit")
    if not before.counted and before.home != home(folder):  # copied before it had a count, by which copies are told: another fit
        before = replace(before, run=uuid.uuid4().hex, home=home(folder))
        replaced(state, json.dumps(asdict(before)).encode(), 0o600)
    _charge(plan, ledger, before)
    if not before.counted:
        return _counted(plan, before)
    queries_of(plan, before).close()  # which says where it is gone, or where this is a copy
    return before


def _counted(plan: PmixedPlan, fit: Fit) -> Fit:
    """The fit, once the count of its tokens is there: from then on it is never made anew."""
    queries_of(plan, fit, new=True).close()
    found = replace(fit, counted=True)
    replaced(os.path.join(plan.folder, BEGUN), json.dumps(asdict(found)).encode(), 0o600)
    return found


def _charge(plan: PmixedPlan, ledger: Ledger | None, fit: Fit) -> None:
    """All tokens at once. A fit that goes on is not charged again: nothing was drawn from it yet.

    One that has ended in the ledger, and not in its folder, is a copy.
    """
    if ledger is not None:
        if fit.counted and not os.path.exists(os.path.join(plan.folder, FITTED)):
            require_going_on("--resume", fit.run, ledger, "fit")
        charge_run(ledger, fit.run, plan.pipeline, reason("pmixed fit", plan.path, plan.pipeline))


def _read(path: str) -> Fit | None:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        kept_rows(content.get("rows"), content.get("window", ()))
        return Fit(**{**content, "models": tuple(content["models"]), "window": tuple(content.get("window", ()))})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(f"{path}: expected what dpcli pmixed fit wrote, found something else") from None


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
