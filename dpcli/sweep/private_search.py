"""A private search: all trials or none, and of these the best alone is kept."""

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
from dpcli.sessions.folder import exclusive, replaced
from dpcli.sweep.sweep_plan import Better, PrivateSelection, SweepPlan, worth
from dpcli.sweep.sweep_runs import Books, Pool, job_of
from dpcli.sweep.sweep_trials import candidates
from dpcli.sweep.worker import RUN, JobAnswer, kept
from dpcli.train.run.outcome import METRICS

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger

SEARCH, TRIALS, BEST = "search.json", "trials", "best"
SCHEMA = "dpcli/sweep-search/v1"
OWNER = 0o600  # how many trials there are is secret


def search(plan: SweepPlan, processes: int, ledger: Ledger | None) -> PrivateSelection:
    """Return the best trial of a private search; the others, and how many there were, are removed.

    An interrupted search goes on with the trials that were drawn at its start, and one that has ended is not made again: either would be
    another search, and a further release.

    Args:
        ledger: charged for the whole search before its first trial.

    Raises:
        Denied: the ledger says no. InputError: the folder is that of another search, or another process works in it.
    """
    assert plan.trials is not None
    place = os.path.join(plan.folder, SEARCH)
    books = Books(ledger, f"{reason('sweep', plan.path, plan.pipeline)}: the whole search")
    with exclusive(plan.folder):
        state = _state(plan, place, books)
        if "draws" in state and "chosen" not in state:
            failures = _chosen(plan, processes, place, state)
            if failures:
                return PrivateSelection(plan, "", None, None, plan.folder, failures)
        if "draws" in state:
            _released(plan, place, state)
            books.ended(state["charge"])
    return _selected(plan, state["chosen"])


def _state(plan: SweepPlan, place: str, books: Books) -> dict[str, Any]:
    """Return how far the search is; it is drawn and paid for where it begins."""
    fingerprint = hashlib.sha256(repr((plan.trials, plan.better, [v.fingerprint for v in plan.variants])).encode()).hexdigest()
    if os.path.lexists(place):
        state = _read(place)
        if (state.get("schema"), state.get("fingerprint")) != (SCHEMA, fingerprint):
            raise InputError(
                f"{plan.folder}: the file has changed since this search began: begin another search, with its own cost, "
                "in a new folder (sweep.output)"
            )
        books.require(state["charge"], plan.folder)
        return state
    if os.path.lexists(os.path.join(plan.folder, BEST)):
        raise InputError(f"{plan.folder}: expected a new folder, found the model of an earlier search in it")
    assert plan.trials is not None
    charge = books.charge(plan.variants[0].plan.pipeline)
    state = {"schema": SCHEMA, "fingerprint": fingerprint, "charge": charge, "draws": candidates(plan.trials, len(plan.variants))}
    _keep(place, state)
    return state


def _read(place: str) -> dict[str, Any]:
    """Return what was kept; nothing where that is damaged, which is then refused like another search's."""
    with open(place, encoding="utf-8") as file, contextlib.suppress(ValueError):
        state = json.load(file)
        if type(state) is dict:
            return state
    return {}


def _keep(place: str, state: Mapping[str, Any]) -> None:
    replaced(place, json.dumps(state).encode(), OWNER)


def _chosen(plan: SweepPlan, processes: int, place: str, state: dict[str, Any]) -> tuple[str, ...]:
    """Make the missing trials and note which one is best; return why some have failed, and then there is no best."""
    variants = [plan.variants[index] for index in state["draws"]]
    jobs = [job_of(plan, variant, os.path.join(plan.folder, TRIALS, f"{number}")) for number, variant in enumerate(variants, 1)]
    answers = {job.folder: answer for job in jobs if (answer := kept(job)) is not None}
    with Pool(processes) as pool:
        answers |= {job.folder: answer for job, answer in pool.answers([job for job in jobs if job.folder not in answers])}
    failures = tuple(dict.fromkeys(answer.failure for answer in answers.values() if answer.failure is not None))
    if not failures and len({next(iter(answer.metrics)) for answer in answers.values()}) > 1:
        failures = ("expected trials with one and the same metric first, found several",)
    if failures:
        return failures
    state["chosen"] = _best(plan.better, state["draws"], [answers[job.folder] for job in jobs])
    _keep(place, state)
    return ()


def _best(better: Better, draws: list[int], answers: list[JobAnswer]) -> dict[str, Any] | None:
    """Return the first of the best; the trials are equal in law, so this is one of the best at random."""
    headlines = [next(iter(answer.metrics.items())) for answer in answers]
    ranked = max(range(len(headlines)), key=lambda i: worth(better, headlines[i][1]), default=None)
    if ranked is None:
        return None
    name, value = headlines[ranked]
    return {"metric": name, "value": value, "variant": draws[ranked], "trial": ranked + 1}


def _released(plan: SweepPlan, place: str, state: dict[str, Any]) -> None:
    """Keep the best trial's model and statement, and nothing that tells of the others; may be interrupted and done again."""
    best, chosen = os.path.join(plan.folder, BEST), state["chosen"]
    if chosen is not None and not os.path.lexists(best):
        trial = os.path.join(plan.folder, TRIALS, f"{chosen['trial']}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(trial, RUN, METRICS))  # of the models on the way, which are not released
        os.rename(trial, best)
    shutil.rmtree(os.path.join(plan.folder, TRIALS), ignore_errors=True)
    state.pop("draws")
    if chosen is not None:
        chosen.pop("trial")
    _keep(place, state)


def _selected(plan: SweepPlan, chosen: Mapping[str, Any] | None) -> PrivateSelection:
    if chosen is None:
        return PrivateSelection(plan, "", None, None, plan.folder)
    return PrivateSelection(
        plan, chosen["metric"], chosen["value"], plan.variants[chosen["variant"]], os.path.join(plan.folder, BEST)
    )
