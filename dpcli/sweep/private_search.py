"""A private hyperparameter search: it makes all its trials or none, and keeps only the best."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.sessions.charged import reason
from dpcli.sessions.folder import exclusive, replace_file
from dpcli.sweep.sweep_plan import Better, PrivateSelection, SweepPlan, rank
from dpcli.sweep.sweep_runs import Books, Pool, job_of
from dpcli.sweep.sweep_trials import draw_settings
from dpcli.sweep.worker import RUN, JobAnswer, saved_answers
from dpcli.train.run.outcome import METRICS

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger

SEARCH, TRIALS, BEST = "search.json", "trials", "best"
SCHEMA = "dpcli/sweep-search/v1"
OWNER_ONLY = 0o600  # the number of trials is secret


def search(plan: SweepPlan, processes: int, ledger: Ledger | None) -> PrivateSelection:
    """Return the best trial of a private search. The other trials and their number are removed.

    An interrupted search continues with the trials that were drawn at its start, and a completed search is not repeated: fresh trials
    would be a further release.

    Args:
        ledger: Charged for the whole search before its first trial.

    Raises:
        Denied: The ledger refuses the search.
        InputError: The folder is of another search, or another process works in it.
    """
    assert plan.trials is not None
    state_file = os.path.join(plan.folder, SEARCH)
    books = Books(ledger, f"{reason('sweep', plan.path, plan.pipeline)}: the whole search")
    with exclusive(plan.folder):
        state = _resumed_or_begun(plan, state_file, books)
        if "draws" in state and "chosen" not in state:
            failures = _make_trials(plan, processes, state_file, state)
            if failures:
                return PrivateSelection(plan, "", None, None, plan.folder, failures)
        if "draws" in state:
            _release_best(plan, state_file, state)
            books.commit(state["charge"])
    return _selection(plan, state["chosen"])


def _resumed_or_begun(plan: SweepPlan, state_file: str, books: Books) -> dict[str, Any]:
    """Return the saved state of the search. For a new search, draw its trials, charge it and save the state."""
    fingerprint = hashlib.sha256(repr((plan.trials, plan.better, [v.fingerprint for v in plan.variants])).encode()).hexdigest()
    if os.path.lexists(state_file):
        state = _read_state(state_file)
        if (state.get("schema"), state.get("fingerprint")) != (SCHEMA, fingerprint):
            raise InputError(
                f"{plan.folder}: the file has changed since this search began: begin another search, with its own cost, "
                "in a new folder (sweep.output)"
            )
        books.require_same(state["charge"], plan.folder)
        return state
    if os.path.lexists(os.path.join(plan.folder, BEST)):
        raise InputError(f"{plan.folder}: expected a new folder, found the model of an earlier search in it")
    assert plan.trials is not None
    charge = books.charge(plan.variants[0].plan.pipeline)
    state = {
        "schema": SCHEMA,
        "fingerprint": fingerprint,
        "charge": charge,
        "draws": draw_settings(plan.trials, len(plan.variants)),
    }
    _save_state(state_file, state)
    return state


def _read_state(state_file: str) -> dict[str, Any]:
    """Return the saved state; empty if it is damaged, so that it is refused like the state of another search."""
    with open(state_file, encoding="utf-8") as file, contextlib.suppress(ValueError):
        state = json.load(file)
        if type(state) is dict:
            return state
    return {}


def _save_state(state_file: str, state: Mapping[str, Any]) -> None:
    replace_file(state_file, json.dumps(state).encode(), OWNER_ONLY)


def _make_trials(plan: SweepPlan, processes: int, state_file: str, state: dict[str, Any]) -> tuple[str, ...]:
    """Make the missing trials and save which is best. Return the failures; if there are any, no best is chosen."""
    variants = [plan.variants[index] for index in state["draws"]]
    jobs = [job_of(plan, variant, os.path.join(plan.folder, TRIALS, f"{number}")) for number, variant in enumerate(variants, 1)]
    answers = saved_answers(jobs)
    with Pool(processes) as pool:
        answers |= {job.folder: answer for job, answer in pool.answers([job for job in jobs if job.folder not in answers])}
    failures = tuple(dict.fromkeys(answer.failure for answer in answers.values() if answer.failure is not None))
    if not failures and len({answer.headline[0] for answer in answers.values()}) > 1:
        failures = ("expected trials with one and the same metric first, found several",)
    if failures:
        return failures
    state["chosen"] = _best(plan.better, state["draws"], [answers[job.folder] for job in jobs])
    _save_state(state_file, state)
    return ()


def _best(better: Better, draws: list[int], answers: list[JobAnswer]) -> dict[str, Any] | None:
    """Return the first of the best trials, which is a random one of them, as all trials have the same distribution."""
    if not answers:
        return None
    best = max(range(len(answers)), key=lambda trial: rank(better, answers[trial].headline[1]))
    name, value = answers[best].headline
    return {"metric": name, "value": value, "variant": draws[best], "trial": best + 1}


def _release_best(plan: SweepPlan, state_file: str, state: dict[str, Any]) -> None:
    """Keep the model and statement of the best trial and remove all other trials. It can be interrupted and repeated."""
    best, chosen = os.path.join(plan.folder, BEST), state["chosen"]
    if chosen is not None and not os.path.lexists(best):
        trial = os.path.join(plan.folder, TRIALS, f"{chosen['trial']}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(trial, RUN, METRICS))  # of models before the last, which are not released
        os.rename(trial, best)
    shutil.rmtree(os.path.join(plan.folder, TRIALS), ignore_errors=True)
    state.pop("draws")
    if chosen is not None:
        chosen.pop("trial")
    _save_state(state_file, state)


def _selection(plan: SweepPlan, chosen: Mapping[str, Any] | None) -> PrivateSelection:
    if chosen is None:
        return PrivateSelection(plan, "", None, None, plan.folder)
    return PrivateSelection(
        plan, chosen["metric"], chosen["value"], plan.variants[chosen["variant"]], os.path.join(plan.folder, BEST)
    )
