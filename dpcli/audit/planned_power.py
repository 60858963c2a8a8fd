"""The power of an audit before it runs: the smallest loss of noise that it would detect, and the faults that it cannot see."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.audit.audit_run import REPLAYS, TRIALS, AuditRequest
from dpcli.audit.bounds import Counts
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.noise_statistics import detectable_factor
from dpcli.audit.one_run import planned_guessing_power
from dpcli.audit.scores import CHOOSING_SHARE
from dpcli.audit.two_runs import threshold_power
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import REPLAYED
from dpcli.base.rounding import up

# Faults other than too little noise in all tensors, and what each kind of audit sees of them.
FAULTS = (
    "a tensor without noise",
    "the noise of an earlier step again",
    "records drawn too often",
    "no clipping",
    "passes over shuffled data, declared as Poisson samples",
)
BY_SCORE, BY_MEMORY = "as far as the score of the one record shows it", "as far as the model remembers the canaries"
OF_POISSON = "where the file declares Poisson samples: the result states how small an excess"
OF_SHUFFLED = "where the file declares Poisson samples: by the sizes of the batches, if there are enough of them"
SEEN = {
    "two-run": dict.fromkeys(FAULTS, BY_SCORE),
    "one-run": dict.fromkeys(FAULTS, BY_MEMORY),
    "gradients": dict(
        zip(
            FAULTS,
            (
                "hardly: canaries spread over all tensors",
                "no",
                "as little as noise that is smaller by the same factor",
                "no: canaries are added to the clipped sums",
                "no",
            ),
            strict=True,
        )
    ),
    "replay": dict(zip(FAULTS, ("yes", "yes", OF_POISSON, "yes, for the records that are replayed", OF_SHUFFLED), strict=True)),
}
TENSOR_SIZES = (1, 10, 1_000, 100_000)  # numbers in a tensor, for which the power of a replay is stated
# A replay makes at most this number of tests at its level. More tests, or more tensors, would only lower its power a little.
MOST_TESTS = 400


@dataclass(frozen=True, slots=True)
class PlannedPower:
    """The power of an audit that has not run.

    Attributes:
        kind: Kind of the audit, as a key of SEEN.
        sentences: Statements about the smallest loss of noise that the audit would detect.
    """

    kind: str
    sentences: tuple[str, ...]


def planned_power(request: AuditRequest) -> PlannedPower:
    """Return the power of an audit without running it.

    Raises InputError if there is no claim, or a setting on which the power depends is missing.
    """
    settings = request.settings
    kind = settings.kind or ("one-run" if settings.function is None else "two-run")
    if kind == "replay":
        return PlannedPower(kind, (_of_replay(request),))
    claim = request.claim(request.varied(None))
    if kind == "two-run":
        trials = settings.trials or TRIALS
        judged = trials - round(CHOOSING_SHARE * trials) if settings.threshold is None and settings.choose == "split" else trials
        return PlannedPower(kind, threshold_power(Counts(judged, judged, 0, 0), claim, settings.confidence))
    return _of_one_run(request, claim)


def _of_one_run(request: AuditRequest, claim: Claim) -> PlannedPower:
    """Return the power of an audit of one run. Raises InputError if the number of canaries is missing."""
    settings = request.settings
    if settings.canaries is None:
        raise InputError("--dry-run: expected a number of canaries (--canaries, or audit.canaries) or --kind replay, found neither")
    if settings.canary == "record":
        return PlannedPower("one-run", planned_guessing_power(settings.canaries, claim, settings))
    steps: tuple[SampledSteps, ...] = () if request.path is None else load(REPLAYED)(request.path).sampled
    return PlannedPower("gradients", planned_guessing_power(settings.canaries, claim, settings, steps))


def _of_replay(request: AuditRequest) -> str:
    """Return the power of the test of the noise's size, for tensors of several sizes. The steps of a user's function are not known."""
    settings = request.settings
    replays, level = settings.trials or REPLAYS, (1.0 - settings.confidence) / MOST_TESTS
    steps = 1 if settings.function is not None or request.path is None else load(REPLAYED)(request.path).steps
    factors = [
        f"{up(detectable_factor(replays * steps * numbers, level), 2)} for {numbers:,} number{'s' if numbers > 1 else ''}"
        for numbers in TENSOR_SIZES
    ]
    return (
        f"{replays:,} replays of {steps:,} step{'s' if steps > 1 else ''} would detect, with probability 90 %, noise of a tensor that is "
        f"divided by {', '.join(factors)} in the tensor"
    )
