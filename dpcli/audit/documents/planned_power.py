"""The output of `dpcli audit --dry-run`: the power of an audit before it runs, and the faults that it cannot see."""

from __future__ import annotations

from dpcli.audit.audit_run import REPLAYS, TRIALS, AuditRequest
from dpcli.audit.bounds import Counts
from dpcli.audit.claim import Claim
from dpcli.audit.noise_statistics import detectable_factor
from dpcli.audit.one_run import planned_guessing_power
from dpcli.audit.scores import CHOOSING_SHARE
from dpcli.audit.two_runs import threshold_power
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import REPLAYED
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table

# Faults other than too little noise in all tensors, and what an audit sees of them.
SEEN_BY_REPLAY = {
    "a tensor without noise": "yes",
    "the noise of an earlier step again": "yes",
    "records drawn too often": "where the file declares Poisson samples: the result states how small an excess",
    "no clipping": "yes, for the records that are replayed",
    "passes over shuffled data, declared as Poisson samples": (
        "where the file declares Poisson samples: by the sizes of the batches, if there are enough of them"
    ),
}
SEEN_BY_GRADIENT_CANARIES = {
    "a tensor without noise": "hardly: canaries spread over all tensors",
    "the noise of an earlier step again": "no",
    "records drawn too often": "as little as noise that is smaller by the same factor",
    "no clipping": "no: canaries are added to the clipped sums",
    "passes over shuffled data, declared as Poisson samples": "no",
}
SEEN_BY_RECORD_CANARIES = dict.fromkeys(SEEN_BY_REPLAY, "as far as the model remembers the canaries")
SEEN_BY_TWO_RUNS = dict.fromkeys(SEEN_BY_REPLAY, "as far as the score of the one record shows it")

TENSOR_SIZES = (1, 10, 1_000, 100_000)  # numbers in a tensor, for which the power of a replay is stated
# Largest number of tests of a replay that share its significance. More tests, or more tensors, would lower its power only a little.
MOST_TESTS = 400


def planned_document(request: AuditRequest) -> Document:
    """Return the power of an audit as a document, without running the audit.

    Raises InputError if there is no claim, or a setting on which the power depends is missing.
    """
    settings = request.settings
    kind = settings.kind or ("one-run" if settings.function is None else "two-run")
    if kind == "replay":
        return _document(kind, (_replay_power(request),), SEEN_BY_REPLAY)
    claim = request.claim(request.varied(None))
    if kind == "two-run":
        return _document(kind, _two_run_power(request, claim), SEEN_BY_TWO_RUNS)
    power = _one_run_power(request, claim)
    if settings.canary == "gradient":
        return _document("gradients", power, SEEN_BY_GRADIENT_CANARIES)
    return _document(kind, power, SEEN_BY_RECORD_CANARIES)


def _document(kind: str, power: tuple[str, ...], seen: dict[str, str]) -> Document:
    """Return the document of a planned audit.

    Args:
        kind: Kind of the audit; "gradients" for one run with gradient canaries.
        power: Sentences about the smallest loss of noise that the audit would detect.
        seen: What the audit sees of other faults, by fault.
    """
    rows = (("too little noise", power[0]), *seen.items())
    return Document(
        headline=f"nothing was run: {power[0]}",
        data={"schema": "dpcli/audit-plan/v1", "kind": kind, "power": list(power), "seen": seen},
        verdict="pass",
        tables=(Table("what the audit would find", ("fault", "found"), rows, frozenset[int]()),),
        notes=power[1:],
    )


def _two_run_power(request: AuditRequest, claim: Claim) -> tuple[str, ...]:
    """Return the power of the membership test on the trials that remain after the choice of a threshold."""
    settings = request.settings
    trials = settings.trials or TRIALS
    if settings.threshold is None and settings.choose == "split":
        trials -= round(CHOOSING_SHARE * trials)
    return threshold_power(Counts(trials, trials, 0, 0), claim, settings.confidence)


def _one_run_power(request: AuditRequest, claim: Claim) -> tuple[str, ...]:
    """Return the power of an audit of one run. Raises InputError if the number of canaries is missing."""
    settings = request.settings
    if settings.canaries is None:
        raise InputError("--dry-run: expected a number of canaries (--canaries, or audit.canaries) or --kind replay, found neither")
    if settings.canary == "record" or request.path is None:
        return planned_guessing_power(settings.canaries, claim, settings)
    return planned_guessing_power(settings.canaries, claim, settings, load(REPLAYED)(request.path).sampled)


def _replay_power(request: AuditRequest) -> str:
    """Return the power of the test of the noise's size, for tensors of several sizes.

    A user's function counts as one step, because the number of its steps is not known before it runs.
    """
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
