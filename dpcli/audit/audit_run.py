"""The audit that a pipeline file and flags describe: an attack on a program that tries to refute the program's privacy claim.

`dpcli audit` makes an `AuditRequest` and calls `audit`. An audit of *one run* guesses which *canaries*, records or gradients inserted by
fair coins, were in the run (one_run.py). An audit of *two runs* tells many runs with one record from runs without it by their scores
(trials.py, two_runs.py). A *replay* repeats steps with and without one record, and compares sums and noise with the file (replay.py).

The claim is an (epsilon, delta) pair of the file or of flags (claim.py). It must be about the change that the audit makes (`varied`): an
audit of added records says nothing about a claim for replaced ones. *Evidence* is the outcome of an attack (evidence.py).
"""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dpcli.analysis.calibrate_file import solved_pipeline
from dpcli.audit.audit_result import Audit, AuditKind
from dpcli.audit.audit_settings import AuditSettings, read_settings, with_flags
from dpcli.audit.claim import Claim, file_claim, stated_claim
from dpcli.audit.evidence import Evidence, read_evidence
from dpcli.audit.noise_draws import Step
from dpcli.audit.noise_statistics import noise_power
from dpcli.audit.one_run import guessed_audit, one_run_audit
from dpcli.audit.own_code import call_user_code, user_function
from dpcli.audit.replay import Declared, Pair, checks, declaration, steps_of
from dpcli.audit.scores import Guessed
from dpcli.audit.trials import ENTROPY_BITS, Progress, neighbouring_pair, run_trials, trial_plan
from dpcli.audit.two_runs import counted_audit, two_run_audit
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import REPLAYED
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.limits import read_bytes
from dpcli.lint.run import judge
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import np

# Default numbers of runs on each dataset, and of pairs of replayed runs. More give more power, and take more time.
TRIALS, REPLAYS = 1000, 5
MOST_PROCESSES = 8  # default limit on the processes for trials; affects speed alone
REPLAY_KEY = 2  # first part of the spawn keys of replays; trials.py uses 0 and 1, so that no two generators are the same

Steps = tuple[Step, ...]  # the sums before noise, and the noise, of each step of a run
SEPARATE_RELEASES = (
    "sums and noise were compared up to the first step of each run in which the record took part; later steps use different releases, "
    "whose effects look like a leak, and were not compared"
)


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """An audit that the command line and the file describe.

    Attributes:
        settings: Settings of the audit. Flags have replaced the keys of [audit].
        pipeline: The pipeline; None without a file.
        epsilon, delta: A claim that replaces the claim of the file.
        correct: Number of right guesses, which replaces scores; None if none is stated.
        jobs: Number of processes for trials.
        progress: Function that is called with the number of finished runs and the number of all runs.
        diagnostics: Findings of the lint rules about the file.
        path: Path of the file; None without a file.
    """

    settings: AuditSettings
    pipeline: Pipeline | None
    epsilon: float | None
    delta: float | None
    correct: int | None
    jobs: int
    progress: Progress
    diagnostics: tuple[Diagnostic, ...] = ()
    path: str | None = None

    @property
    def kind(self) -> AuditKind:
        """The kind of the audit. If the settings have none, a function is audited by many runs, and scores count as those of one."""
        return self.settings.kind or ("one-run" if self.settings.function is None else "two-run")

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the user's modules: that of the file, if it has a path, and the current folder."""
        path = self.pipeline.path if self.pipeline is not None else None
        if not path or path == "-":
            return (os.getcwd(),)
        return os.path.dirname(os.path.abspath(path)), os.getcwd()

    def claim(self, varied: Adjacency) -> Claim:
        """Return the claim about datasets that differ in the way the audit varies them.

        Raises:
            InputError: There is no claim, or it has no delta.
            CannotCertify: The claim cannot be certified, or does not apply to what the audit varies.
        """
        if self.epsilon is None:
            if self.pipeline is None:
                raise InputError("expected a claim: a pipeline file, or --epsilon with --delta, found neither")
            return file_claim(self.pipeline, self.delta, varied)
        delta = self.delta
        if delta is None and self.pipeline is not None:
            delta = self.pipeline.privacy.delta
        if delta is None:
            raise InputError("--epsilon: expected --delta with it, found no delta")
        return stated_claim(self.epsilon, delta, varied)

    def varied(self, evidence: Evidence | None) -> Adjacency:
        """Return how the two datasets of the audit differ.

        The setting decides, or else the statement of the file of scores, or else, if the audit runs a function, the adjacency of the
        pipeline. Without any of these it is add-remove, because a canary or the record is in a run or left out.

        Raises InputError if the setting contradicts the file of scores.
        """
        in_file = _stated_adjacency(evidence) if evidence is not None and evidence.neighbours is not None else None
        stated = self.settings.neighbours
        if in_file is not None and stated is not None and stated is not in_file:
            raise InputError(f"audit.neighbours: expected {in_file.value}, as in the scores' file, found {stated.value}")
        if stated is not None:
            return stated
        if in_file is not None:
            return in_file
        if self.pipeline is not None and self.settings.function:
            return self.pipeline.privacy.adjacency
        return Adjacency.ADD_REMOVE


def _stated_adjacency(evidence: Evidence) -> Adjacency:
    """Return the adjacency that the file of scores states. Raises InputError if there is no such adjacency."""
    try:
        return Adjacency(evidence.neighbours)
    except ValueError:
        words = ", ".join(adjacency.value for adjacency in Adjacency)
        raise InputError(f"{evidence.path}: neighbours: expected one of {words}, found {evidence.neighbours!r}") from None


def audit_request(
    path: str | None,
    flags: Mapping[str, Any],
    epsilon: float | None,
    delta: float | None,
    correct: int | None,
    jobs: int | None,
    progress: Progress,
) -> AuditRequest:
    """Return the audit that flags and the file's [audit] describe. A flag overrides the key of the same name.

    Args:
        path: Path of the file; None without a file.
        flags: Values of the flags that have keys of [audit].
        epsilon, delta, correct, progress: As in `AuditRequest`.
        jobs: Number of processes for trials; None for one for each core, at most MOST_PROCESSES.

    Raises InputError if the file cannot be read or is invalid, or a value is out of range.
    """
    processes = jobs or min(os.cpu_count() or 1, MOST_PROCESSES)
    if path is None:
        settings = with_flags(AuditSettings(), flags)
        return AuditRequest(settings, None, epsilon, delta, correct, processes, progress)  # no pipeline
    data = read_bytes(path)
    pipeline = solved_pipeline(data, path)  # with the noise that meets the budget, where the file says "calibrate"
    settings = with_flags(read_settings(data, path), flags)
    diagnostics = judge(pipeline, data, {"--delta": delta})  # lint rules, about the file and about the flag
    return AuditRequest(settings, pipeline, epsilon, delta, correct, processes, progress, diagnostics, path)


def audit(request: AuditRequest) -> Audit:
    """Perform an audit and return its outcome.

    Raises:
        InputError: The claim, the program or the evidence is missing or invalid.
        CannotCertify: The claim cannot be certified, or does not apply to what the audit varies.
    """
    return AUDITS[request.kind](request)


def _given_evidence(request: AuditRequest) -> Evidence:
    """Return the evidence from the stated counts or from the file of scores. Raises InputError if there is none."""
    settings = request.settings
    if request.correct is not None:
        if settings.canaries is None or settings.guesses is None:
            raise InputError("--correct: expected --canaries and --guesses with it, found at most one of them")
        return Evidence("the stated counts", guessed=Guessed(settings.canaries, settings.guesses, request.correct))
    if settings.scores is None:
        raise InputError(
            "nothing to audit: use --kind replay (the training of FILE), --scores FILE (or audit.scores), counts, or --function "
            "with --data"
        )
    return read_evidence(settings.scores)


def _one_run(request: AuditRequest) -> Audit:
    """Audit the scores or guesses of one run."""
    evidence = _given_evidence(request)
    claim = request.claim(request.varied(evidence))
    if evidence.scores is not None:
        return one_run_audit(evidence.scores, claim, request.settings, evidence.path, evidence.observed)
    if evidence.guessed is None:
        raise InputError(
            f"{evidence.path}: expected scores or guesses about canaries, found counts of two runs; use --kind two-run"
        )
    return guessed_audit((evidence.guessed,), claim, request.settings, evidence.path)


def _two_run(request: AuditRequest) -> Audit:
    """Audit a function by trials, or the scores or counts of many runs."""
    settings = request.settings
    if settings.function is not None:
        return _trials_audit(request, settings.function)
    evidence = _given_evidence(request)
    claim = request.claim(request.varied(evidence))
    if evidence.scores is not None:
        return two_run_audit(evidence.scores, claim, settings, evidence.path)
    if evidence.counts is None:
        raise InputError(
            f"{evidence.path}: expected scores of runs, or counts of a test, found guesses about canaries; use --kind one-run"
        )
    return counted_audit(evidence.counts, claim, settings, evidence.path)


def _pair_source(settings: AuditSettings) -> str:
    """Return the name of the function that makes the two datasets. Raises InputError if the settings have none."""
    if settings.data is None:
        raise InputError("--function needs --data MODULE:FUNCTION, which makes the two datasets")
    return settings.data


def _trials_audit(request: AuditRequest, function: str) -> Audit:
    """Run a function on both datasets many times, and audit the scores."""
    settings = request.settings
    data, trials = _pair_source(settings), settings.trials or TRIALS
    # The claim is computed before the trials run, so that an invalid claim is reported without delay.
    claim = request.claim(request.varied(None))
    plan = trial_plan(function, data, trials, settings.seed, request.folders, settings.scores)
    scores = run_trials(plan, request.jobs, settings.scores, request.progress)
    return two_run_audit(scores, claim, settings, function)


class Replayable(NamedTuple):
    """A program that can be replayed.

    Attributes:
        declared: Claims of the program about each step.
        replay: Function from the number of a replay and a generator to the steps with the record, and the steps without it.
        unseen: Assumptions about parts of the program that are not compared.
    """

    declared: Declared
    replay: Callable[[int, np.random.Generator], tuple[Steps, Steps]]
    unseen: tuple[str, ...]


def _replay(request: AuditRequest) -> Audit:
    """Replay a program on pairs of datasets, and check the steps."""
    settings = request.settings
    count = settings.trials or REPLAYS
    entropy = secrets.randbits(ENTROPY_BITS) if settings.seed is None else settings.seed
    if settings.function is None:
        program = _replayable_training(request)
    else:
        program = _replayable_function(request, settings.function, entropy)
    pairs = []
    for index in range(count):
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(REPLAY_KEY, index)))
        # In the training of a file, each step without the record starts from the weights that the run with the record released. A user's
        # function continues with its own releases.
        pairs.append(Pair(*program.replay(index, rng), restarted=settings.function is None))
        request.progress(index + 1, count)
    results = checks(pairs, program.declared)
    return Audit(
        kind="replay",
        subject=settings.function or f"the training of {request.path}",
        confidence=settings.confidence,
        checks=results,
        power=(noise_power(results),),
        assumptions=(
            "the program really uses the sums and the noise that it reports",
            "only the tested pairs of datasets are covered; choose data that is the worst case for the program",
            *program.unseen,
        ),
        counts={"replays": count, "steps": len(pairs[0].with_record)},
    )


def _replayable_function(request: AuditRequest, function: str, entropy: int) -> Replayable:
    """Return the user's function as a program that is replayed on pairs of datasets. Another function of the user makes the pairs."""
    data, program = _pair_source(request.settings), user_function(function, request.folders)

    def replay(index: int, rng: np.random.Generator) -> tuple[Steps, Steps]:
        def steps(dataset: Any) -> Steps:
            same_randomness = copy.deepcopy(rng)  # both datasets get a generator in the same state
            return steps_of(function, call_user_code(function, program, dataset, same_randomness))

        pair = neighbouring_pair(data, request.folders, entropy, index)
        return steps(pair.with_record), steps(pair.without)

    declared = declaration(request.settings, request.pipeline, request.varied(None))
    return Replayable(declared, replay, (SEPARATE_RELEASES,))


def _replayable_training(request: AuditRequest) -> Replayable:
    """Return the training that the file describes (train/replay/program.py). Raises InputError if the file has no [train]."""
    if request.path is None or request.pipeline is None or "train" not in dict(request.pipeline.sections):
        raise InputError("expected a program to replay: --function MODULE:FUNCTION, or a file with [train], found neither")
    training = load(REPLAYED)(request.path)  # REPLAYED names `replays` of train/replay/program.py, which needs torch
    declared = replace(training.declared, significance=1.0 - request.settings.confidence)
    return Replayable(declared, training.replay, training.unseen)


AUDITS: dict[AuditKind, Callable[[AuditRequest], Audit]] = {"one-run": _one_run, "two-run": _two_run, "replay": _replay}
