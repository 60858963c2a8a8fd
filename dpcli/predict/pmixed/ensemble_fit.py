"""The fit of an ensemble by `dpcli pmixed fit`: one model for each shard of the private texts, fine-tuned without noise.

The models are private: only tokens that are drawn from them are released (model_ensemble.py). All tokens that may ever be drawn are charged
before any model is fitted, to the *ledger* (the record of what was spent on a dataset) if there is one. A *shard* is the part of the
private texts from which one model learns, and a *window* restricts the texts to some blocks of the ledger's dataset, such as days. The
folder of a fit has the *session*, which is everything that this charge pays for (run.json), the learnt parameters of each model
(shard-0000.model, ...) and, last, fitted.json with their digests. A session without fitted.json is a fit that `--resume` continues.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.analysis.budget_verdict import OVER
from dpcli.analysis.calibrate import calibrate
from dpcli.base.errors import CannotCertify, Denied, InputError
from dpcli.predict.pmixed.pmixed_plan import PmixedPlan
from dpcli.predict.pmixed.public_side import public_side
from dpcli.predict.pmixed.shard_models import cut_records, private_texts, shard_texts, teach_shards, try_fitting, tuning_processes
from dpcli.predict.prediction_session import AnswerLimit, Report, begin_session
from dpcli.sessions.charged import commit, existing_session
from dpcli.sessions.folder import exclusive, replace_file
from dpcli.sessions.priced import fingerprint
from dpcli.sessions.window import as_at_start
from dpcli.train.run.description import digest_of

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.predict.pmixed.public_side import Records
    from dpcli.predict.query_counts import AnswerCounter
    from dpcli.predict.shard_processes import ShardProcesses
    from dpcli.sessions.charged import Session

FITTED = "fitted.json"


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted models in a folder.

    Attributes:
        session: Session whose charge pays for their tokens.
        models: SHA-256 of the file of each model.
    """

    session: Session
    models: tuple[str, ...]

    @property
    def public(self) -> str:
        """Return the content of the public model."""
        return self.session.inputs["public model"]


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """The outcome of a fit. `resumed` models had been made by an earlier call."""

    plan: PmixedPlan
    fit: Fit
    resumed: int


def fit(
    plan: PmixedPlan, ledger: Ledger | None = None, resume: bool = False, report: Report = lambda done, total: None
) -> FitOutcome:
    """Fine-tune the models of a plan, and start the count of their tokens.

    Args:
        ledger: Ledger to charge for all tokens before the first model is fitted; None if there is none.
        resume: Whether to continue a fit that did not end.

    Raises:
        InputError: If the folder already has a fit, or no fit to resume, or the data or the public model cannot be loaded.
        Denied: If the file's own budget or the ledger does not allow the tokens.
        LedgerError: If the ledger or the count of tokens cannot be written.
    """
    if ledger is not None and plan.account is None:
        raise InputError('--ledger: expected no ledger with pmixed.mode = "paper", which has no guarantee and so no cost to charge')
    _require_budget(plan)
    # The folder is locked against other commands. It is private, because the size of a model reveals how much data its shard has.
    with exclusive(plan.folder, 0o700):
        side = public_side(plan.pmixed, plan.path)
        side.require_usable()
        shards = shard_texts(plan, private_texts(plan))
        # Digests of the inputs, or sample answers of the model. They must be the same if the fit is continued.
        inputs = {"private texts": fingerprint({"shards": shards}), "public model": side.content}
        fitted_file = os.path.join(plan.folder, FITTED)
        if os.path.exists(fitted_file):
            raise InputError(
                f"{plan.folder}: already has fitted models: fitting again is another release, which costs epsilon again; "
                "set another pmixed.output, or remove the folder"
            )
        with tuning_processes(plan, side) as processes:
            records = cut_records(processes, shards)  # An error in the records is raised before anything is charged.
            try_fitting(processes)
            limits, place = [token_limit(plan)], plan.pmixed.queries  # place: where tokens are counted without a ledger
            session, _ = begin_session(plan, "pmixed fit", ledger, inputs, limits, resume=resume, place=place)
            resumed = _teach_remaining(plan, processes, records, report)
        commit(session, ledger)
        digests = tuple(digest_of(model_file(plan.folder, shard)) for shard in range(len(shards)))
        replace_file(fitted_file, json.dumps({"run": session.run, "models": digests}).encode(), 0o600)
    return FitOutcome(plan, Fit(session, digests), resumed)


def _teach_remaining(plan: PmixedPlan, processes: ShardProcesses, records: list[Records], report: Report) -> int:
    """Fine-tune the models that have no file yet, and write their files. Return the number of models that already had one."""
    files = [model_file(plan.folder, shard) for shard in range(len(records))]
    remaining = [(shard, shard_records) for shard, shard_records in enumerate(records) if not os.path.exists(files[shard])]
    resumed = len(files) - len(remaining)
    report(resumed, len(files))
    for count, (shard, learnt) in enumerate(teach_shards(processes, remaining), resumed + 1):
        replace_file(files[shard], learnt, 0o600)
        report(count, len(files))
    return resumed


def read_fit(plan: PmixedPlan) -> Fit:
    """Return the fitted models in a plan's folder. Raises InputError if there are none, or they are from another file."""
    existing = _read(plan.folder)
    if existing is None:
        raise InputError(f"{plan.folder}: no fitted models: {_folder_hint(plan)}run dpcli pmixed fit {plan.path}")
    plan_at_start = as_at_start(plan, existing.session.window, existing.session.rows)  # the plan with the window of the fit
    if existing.session.fingerprint != plan_at_start.fingerprint():
        raise InputError(
            f"{plan.path}: expected the file with which the models in {plan.folder} were fitted: keys on which their privacy depends "
            "have changed; a new fit needs another folder"
        )
    return existing


def as_fitted(plan: PmixedPlan) -> PmixedPlan:
    """Return the plan with the window (sessions/window.py) on which its models were fitted; the plan itself if none were fitted."""
    existing = _read(plan.folder)
    return plan if existing is None else as_at_start(plan, existing.session.window, existing.session.rows)


def read_model(plan: PmixedPlan, fit: Fit, shard: int) -> bytes:
    """Return the learnt parameters of a shard's model. Raises InputError if its file is missing, or was changed after the fit."""
    path = model_file(plan.folder, shard)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"{path}: expected a fitted model: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != fit.models[shard]:
        raise InputError(f"{path}: was changed after the fit (its SHA-256 differs)")
    return content


def token_limit(plan: PmixedPlan) -> AnswerLimit:
    """Return the limit on the tokens that the models of a plan may draw."""
    return AnswerLimit(plan.tokens, "tokens")


def token_counter(plan: PmixedPlan, session: Session, ledger: Ledger | None, moved: bool = False) -> AnswerCounter:
    """Return the count of tokens that the fit started. Raises LedgerError if it cannot be relied on."""
    return token_limit(plan).open(session, ledger, plan.pmixed.queries, moved)


def model_file(folder: str, shard: int) -> str:
    """Return the path of the file of a shard's model, such as shard-0003.model in the folder."""
    return os.path.join(folder, f"shard-{shard:04d}.model")


def _require_budget(plan: PmixedPlan) -> None:
    """Raise Denied if the file's own budget does not allow all tokens. The message states the largest radius that it allows."""
    try:
        plan.require_budget()
    except Denied as denied:
        assert plan.account is not None and plan.account.budget is not None
        budget = plan.account.budget
        exceeds_rho = budget.rho is not None and budget.rho.verdict in OVER  # "fail" or "unknown"
        if budget.epsilon is None or exceeds_rho:  # A radius is solved for only if epsilon alone is exceeded.
            raise
        cap = budget.epsilon
        try:
            largest = calibrate(plan.pipeline, cap.cap, cap.delta, "radius", targets=((plan.entry.name, "radius"),))
        except CannotCertify:
            raise Denied(f"{denied}; no radius passes, as the rest of the file alone exceeds the budget") from None
        hint = f"radius = {largest.value:.10g} would pass (dpcli pmixed account {plan.path} --solve radius)"
        raise Denied(f"{denied}; {hint}") from None


def _folder_hint(plan: PmixedPlan) -> str:
    """Return a hint if the folder is relative to the current one; "" if it is absolute."""
    stated = plan.stated_folder(plan.pmixed.output)
    if os.path.isabs(stated):
        return ""
    return f"{stated} is relative to the current folder; change to the folder where it was fitted, or "


def _read(folder: str) -> Fit | None:
    """Return the models in a folder with their session; None if there are none."""
    path = os.path.join(folder, FITTED)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        run, models = content["run"], tuple(map(str, content["models"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError(f"{path}: expected a file that dpcli pmixed fit wrote; it is damaged") from None
    session = existing_session(folder)
    if session is None or session.run != run or "public model" not in session.inputs:
        raise InputError(f"{path}: the session of these models ({run[:12]}) is not in their folder")
    return Fit(session, models)
