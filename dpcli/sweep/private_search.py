"""A private hyperparameter search. It releases the best trial if all trials succeed, and nothing otherwise.

A *trial* is a training run with a setting that is drawn at random (sweep_trials.py). The number of trials is random and secret, like all
trials but the best; the theorem of repeat-and-select prices the search as a whole (mechanisms/choice/repeat_and_select.py). So a trial that
fails must not be replaced or skipped, and an interrupted search continues with the trials that were drawn at its start.

`dpcli sweep` calls `search` with the plan of a file with tuning = "repeat-and-select". A *variant* there is a setting at one epsilon, with
its own pipeline file (sweep_plan.py). A *charge* is the entry for the search in a ledger, the record of what was spent on a dataset.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.sessions.charged import reason
from dpcli.sessions.folder import exclusive, replace_file
from dpcli.sweep.sweep_plan import Better, PrivateSelection, SweepPlan, rank
from dpcli.sweep.sweep_runs import Pool, SweepCharges, job_of
from dpcli.sweep.sweep_trials import draw_settings
from dpcli.sweep.worker import RUN_FOLDER, JobAnswer, saved_answers
from dpcli.train.run.outcome import METRICS

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger

SEARCH, TRIALS, BEST = "search.json", "trials", "best"  # names in the folder of the search
SCHEMA = "dpcli/sweep-search/v1"
OWNER_ONLY = 0o600  # the number of trials is secret


@dataclass(slots=True)
class SearchState:
    """The state of a search, which the file search.json keeps for a call that continues the search.

    Attributes:
        fingerprint: SHA-256 of what the search depends on.
        charge: Key of the charge in the ledger; None without a ledger.
        draws: Number of the setting of each trial, such as [2, 0, 1]; None once the best trial is released, as their number is secret.
        ended: Whether all trials have ended.
        chosen: Best trial by the keys metric, value, variant and, until it is released, trial. None until all trials have ended, and if no
            trial was drawn.
    """

    path: str
    fingerprint: str
    charge: str | None
    draws: list[int] | None
    ended: bool = False
    chosen: dict[str, Any] | None = None

    def save(self) -> None:
        """Write the state to its file in one step."""
        content: dict[str, Any] = {"schema": SCHEMA, "fingerprint": self.fingerprint, "charge": self.charge}
        if self.draws is not None:
            content["draws"] = self.draws
        if self.ended:
            content["chosen"] = self.chosen
        replace_file(self.path, json.dumps(content).encode(), OWNER_ONLY)


def search(plan: SweepPlan, processes: int, ledger: Ledger | None) -> PrivateSelection:
    """Return the best trial of a private search. The other trials and their number are removed.

    An interrupted search continues with the trials that were drawn at its start. A completed search is not repeated, because fresh trials
    would be a further release. The ledger is charged for the whole search before the first trial.

    Raises:
        Denied: The ledger refuses the search.
        InputError: The folder belongs to another search, or another process works in it.
    """
    assert plan.trials is not None
    charges = SweepCharges(ledger, f"{reason('sweep', plan.path, plan.pipeline)}: the whole search")
    with exclusive(plan.folder):
        state = _resume_or_begin(plan, charges)
        if not state.ended:
            failures = _make_trials(plan, processes, state)
            if failures:
                return PrivateSelection(plan, metric=None, value=None, variant=None, folder=plan.folder, failures=failures)
        if state.draws is not None:  # the best trial is not yet released, or its release was interrupted
            _release_best(plan, state)
            charges.commit(state.charge)
    return _selection(plan, state.chosen)


def _resume_or_begin(plan: SweepPlan, charges: SweepCharges) -> SearchState:
    """Return the saved state of the search. Charge a new search, draw its trials and save its state."""
    # The `repr` of `trials` has the names of its class and fields. If one is renamed, searches that are saved now cannot be resumed.
    content = (plan.trials, plan.better, [variant.fingerprint for variant in plan.variants])
    fingerprint = hashlib.sha256(repr(content).encode()).hexdigest()
    state_file = os.path.join(plan.folder, SEARCH)
    if os.path.lexists(state_file):
        state = _read_state(state_file)
        if state is None or state.fingerprint != fingerprint:
            raise InputError(
                f"{plan.folder}: the file has changed since this search began: a changed file needs another search, with a "
                "separate cost, in a new folder (sweep.output)"
            )
        charges.require_same(state.charge, plan.folder)
        return state
    if os.path.lexists(os.path.join(plan.folder, BEST)):
        raise InputError(f"{plan.folder}: expected a new folder, found the model of an earlier search in it")
    assert plan.trials is not None
    charge = charges.charge(plan.pipeline)
    state = SearchState(state_file, fingerprint, charge, draw_settings(plan.trials, len(plan.variants)))
    state.save()
    return state


def _read_state(state_file: str) -> SearchState | None:
    """Return the saved state; None if the file is damaged, so that it is refused like the state of another search."""
    with open(state_file, encoding="utf-8") as file, contextlib.suppress(ValueError):
        content = json.load(file)
        if type(content) is dict and content.get("schema") == SCHEMA and {"fingerprint", "charge"} <= content.keys():
            is_ended, chosen = "chosen" in content, content.get("chosen")
            return SearchState(state_file, content["fingerprint"], content["charge"], content.get("draws"), is_ended, chosen)
    return None


def _make_trials(plan: SweepPlan, processes: int, state: SearchState) -> tuple[str, ...]:
    """Make the missing trials, choose the best and save the choice. If a trial fails, choose none and return the failures."""
    assert state.draws is not None
    variants = [plan.variants[index] for index in state.draws]
    jobs = [job_of(plan, variant, os.path.join(plan.folder, TRIALS, f"{number}")) for number, variant in enumerate(variants, 1)]
    answers = saved_answers(jobs)
    missing_jobs = [job for job in jobs if job.folder not in answers]
    with Pool(processes) as pool:
        for job, answer in pool.answers(missing_jobs):
            answers[job.folder] = answer
    failures = tuple(dict.fromkeys(answer.failure for answer in answers.values() if answer.failure is not None))
    if failures:
        return failures
    if len({answer.headline.name for answer in answers.values()}) > 1:
        return ("expected trials with the same first metric, found several",)
    state.chosen, state.ended = _best_trial(plan.better, state.draws, [answers[job.folder] for job in jobs]), True
    state.save()
    return ()


def _best_trial(better: Better, draws: list[int], answers: list[JobAnswer]) -> dict[str, Any] | None:
    """Return the best trial. Among equal trials, it is the first, which is a random choice because all have the same distribution."""
    if not answers:
        return None
    best = max(range(len(answers)), key=lambda trial: rank(better, answers[trial].headline.value))
    name, value = answers[best].headline
    return {"metric": name, "value": value, "variant": draws[best], "trial": best + 1}


def _release_best(plan: SweepPlan, state: SearchState) -> None:
    """Keep the model and statement of the best trial, and remove all other trials. After an interruption, a second call completes this."""
    best, chosen = os.path.join(plan.folder, BEST), state.chosen
    if chosen is not None and not os.path.lexists(best):
        trial = os.path.join(plan.folder, TRIALS, f"{chosen['trial']}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(trial, RUN_FOLDER, METRICS))  # has metrics of intermediate models, which are not released
        os.rename(trial, best)
    shutil.rmtree(os.path.join(plan.folder, TRIALS), ignore_errors=True)
    state.draws = None
    if chosen is not None:
        chosen.pop("trial")
    state.save()


def _selection(plan: SweepPlan, chosen: Mapping[str, Any] | None) -> PrivateSelection:
    """Return the result of a search, given the saved choice; None means that no trial was drawn."""
    if chosen is None:
        return PrivateSelection(plan, metric=None, value=None, variant=None, folder=plan.folder)
    return PrivateSelection(
        plan, chosen["metric"], chosen["value"], plan.variants[chosen["variant"]], os.path.join(plan.folder, BEST)
    )
