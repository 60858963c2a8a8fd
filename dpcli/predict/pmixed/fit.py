"""Fine-tuning one model for each shard, without noise: what comes of it is private, and is read by draws of tokens alone.

All tokens that the models may ever answer with are paid for here, before there is anything to draw from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.analysis.calibrate import calibrate
from dpcli.analysis.rho import OVER
from dpcli.base.errors import CannotCertify, Denied, InputError
from dpcli.predict.pmixed.plan import PmixedPlan
from dpcli.predict.pmixed.shared import private_texts, public_side, sharded
from dpcli.predict.pmixed.tuning import cut, rehearsed, taught, tuning
from dpcli.predict.queries.counted import counted
from dpcli.predict.session import session_of
from dpcli.sessions.charged import charge, commit, noted, reason, session_there
from dpcli.sessions.folder import exclusive, replaced
from dpcli.sessions.priced import fingerprint
from dpcli.sessions.window import as_begun

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.queries.budget import QueryBudget
    from dpcli.sessions.charged import Session

FITTED = "fitted.json"
Report = Callable[[int, int], None]  # models fine-tuned, of how many


@dataclass(frozen=True, slots=True)
class Fit:
    """What a folder holds. models: SHA-256 of each model's file."""

    session: Session
    models: tuple[str, ...]

    @property
    def run(self) -> str:
        """Its name, in a ledger too."""
        return self.session.run

    @property
    def charged(self) -> bool:
        """Whether a ledger paid for it."""
        return self.session.charged

    @property
    def public(self) -> str:
        """The public model, by content."""
        return self.session.inputs["public model"]


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
        inputs = {"private texts": fingerprint({"shards": shards}), "public model": side.content}
        if os.path.exists(os.path.join(plan.folder, FITTED)):
            raise InputError(
                f"{plan.folder}: expected a new folder, found fitted models: fitting again is a further release, which costs epsilon anew; "
                "state another pmixed.output, or remove the folder"
            )
        files = [model_file(plan.folder, shard) for shard in range(len(shards))]
        with tuning(plan, side) as apart:
            records = cut(apart, shards)  # whatever may be wrong with them is found before anything is charged
            rehearsed(apart)
            session = session_of(plan, plan.folder, resume, ledger, inputs)
            session = charge(session, plan.pipeline, ledger, reason("pmixed fit", plan.path, plan.pipeline))
            queries_of(plan, session, ledger).close()  # which says where it is gone, or where this is a copy
            session = noted(session)  # before any model: from then on the count is never made anew
            made = sum(os.path.exists(file) for file in files)
            left = [(shard, own) for shard, own in enumerate(records) if not os.path.exists(files[shard])]
            report(made, len(shards))
            for done, (shard, learnt) in enumerate(taught(apart, left), made + 1):
                replaced(files[shard], learnt, 0o600)
                report(done, len(shards))
        commit(session, ledger)
        ended = Fit(session, tuple(map(_digest, files)))
        replaced(os.path.join(plan.folder, FITTED), json.dumps({"run": session.run, "models": ended.models}).encode(), 0o600)
    return FitOutcome(plan, ended, plan.folder, made)


def fitted(plan: PmixedPlan) -> Fit:
    """The fit that a plan's folder holds. Raises InputError where it holds none, or that of another file."""
    found = _read(plan.folder)
    if found is None:
        raise InputError(
            f"{plan.folder}: expected fitted models, found none: {_where(plan)}dpcli pmixed fit {plan.path} charges for new ones"
        )
    if found.session.fingerprint != as_begun(plan, found.session.window, found.session.rows).fingerprint():
        raise InputError(
            f"{plan.path}: expected the file that the models in {plan.folder} were fitted with, found another: what their privacy "
            "depends on has changed since; a new fit needs a folder of its own"
        )
    return found


def as_fitted(plan: PmixedPlan) -> PmixedPlan:
    """The plan on the rows that its models were fitted with, where its folder has some; as it is where it has none."""
    found = _read(plan.folder)
    return plan if found is None else as_begun(plan, found.session.window, found.session.rows)


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


def queries_of(plan: PmixedPlan, session: Session, ledger: Ledger | None, moved: bool = False) -> QueryBudget:
    """The count of its tokens, made where the fit begins. Raises LedgerError where it cannot be relied on."""
    return counted(session, ledger, plan.tokens, plan.settings.queries, moved, things="tokens")


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


def _read(folder: str) -> Fit | None:
    """The models, and the session that they are of; None where there are none yet."""
    path = os.path.join(folder, FITTED)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        run, models = content["run"], tuple(map(str, content["models"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(f"{path}: expected what dpcli pmixed fit wrote, found something else") from None
    session = session_there(folder)
    if session is None or session.run != run or "public model" not in session.inputs:
        raise InputError(f"{path}: expected the session of these models beside them, found none, or another one's")
    return Fit(session, models)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
