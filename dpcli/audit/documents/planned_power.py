"""The document of `dpcli audit --dry-run`: the power of an audit before it runs, and the faults that it cannot see.

The *power* is the smallest fault that the audit would detect with probability 90 % (power.py). It depends on the settings, the claim and
the numbers of canaries, runs or steps, and on no data. There are three kinds of audit (audit_run.py). *One run* guesses which canaries,
records or gradients inserted by coins, were in a run. *Two runs* tells many runs with a record from runs without it. A *replay* repeats
steps with and without a record, and tests sums, noise and batches (replay.py); one run with gradient canaries tests the noise and the
batches of that run as well.
"""

from __future__ import annotations

from dpcli.audit.audit_run import REPLAYS, TRIALS, AuditRequest
from dpcli.audit.bounds import Counts
from dpcli.audit.claim import Claim
from dpcli.audit.gradient_scores import split_significance
from dpcli.audit.noise_statistics import detectable_factor
from dpcli.audit.one_run import planned_guessing_power
from dpcli.audit.replay import Declared, draw_count_power, size_spread_power
from dpcli.audit.scores import CHOOSING_SHARE
from dpcli.audit.two_runs import threshold_power
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import REPLAYED
from dpcli.base.rounding import up
from dpcli.document.document import Document, Table

DRAWN_TOO_OFTEN, SHUFFLED = "records drawn too often", "passes over shuffled data, declared as Poisson samples"
# Faults other than too little noise in all tensors, and what an audit sees of them.
SEEN_BY_REPLAY = {
    "a tensor without noise": "yes",
    "the noise of an earlier step again": "yes",
    DRAWN_TOO_OFTEN: "where the file declares Poisson samples: the result states how small an excess",
    "no clipping": "yes, for the records that are replayed",
    SHUFFLED: "where the file declares Poisson samples: by the sizes of the batches, if there are enough of them",
}
SEEN_BY_RECORD_CANARIES = dict.fromkeys(SEEN_BY_REPLAY, "as far as the model remembers the canaries")
SEEN_BY_TWO_RUNS = dict.fromkeys(SEEN_BY_REPLAY, "as far as the score of the one record shows it")

TENSOR_SIZES = (1, 10, 1_000, 100_000)  # examples: numbers in a tensor (a parameter), for which the power of a replay is stated
# Number of statistical checks that share the significance: nine of the noise (noise_statistics.py) and two of Poisson samples (replay.py).
STATISTICAL_CHECKS = 11
# Assumed number of tests that share it, because most checks test each tensor. A larger number would lower the power only a little.
MOST_TESTS = 400


def planned_document(request: AuditRequest) -> Document:
    """Return the power of an audit as a document, without running the audit.

    Raises InputError if there is no claim, or a setting on which the power depends is missing.
    """
    settings, kind = request.settings, request.kind
    if kind == "replay":
        return _replay_document(request)
    claim = request.claim(request.varied(None))
    if kind == "two-run":
        return _document(kind, _two_run_power(request, claim), SEEN_BY_TWO_RUNS)
    if settings.canaries is None:
        raise InputError("--dry-run: expected a number of canaries (--canaries, or audit.canaries) or --kind replay, found neither")
    if settings.canary == "record" or request.path is None:
        return _document(kind, planned_guessing_power(settings.canaries, claim, settings), SEEN_BY_RECORD_CANARIES)
    return _gradients_document(request, claim, settings.canaries)


def _document(kind: str, power: tuple[str, ...], seen: dict[str, str]) -> Document:
    """Return the document of a planned audit.

    Args:
        kind: Kind of the audit; "gradients" for one run with gradient canaries.
        power: Sentences about the smallest loss of noise that the audit would detect. The headline repeats the first.
        seen: What the audit sees of other faults, by fault.
    """
    rows = (("too little noise", power[0]), *seen.items())
    return Document(
        headline=f"nothing was run: {power[0]}",
        data={"schema": "dpcli/audit-plan/v1", "kind": kind, "power": list(power), "seen": seen},
        verdict="pass",
        tables=(Table("what the audit would find", ("fault", "found"), rows),),
        notes=power[1:],
    )


def _two_run_power(request: AuditRequest, claim: Claim) -> tuple[str, ...]:
    """Return the power of the membership test on the trials that remain after the choice of a threshold."""
    settings = request.settings
    trials = settings.trials or TRIALS
    if settings.threshold is None and settings.choose == "split":
        trials -= round(CHOOSING_SHARE * trials)  # the scores that choose the threshold do not test it
    # The power depends only on the numbers of runs, and not on the positives.
    runs = Counts(members=trials, others=trials, true_positives=0, false_positives=0)
    return threshold_power(runs, claim, settings.confidence)


def _gradients_document(request: AuditRequest, claim: Claim, canaries: int) -> Document:
    """Return the power of an audit of one run by gradient canaries, and by the checks of the run's noise and batches."""
    assert request.path is not None
    # `observed`: number of steps whose noise is tested. `sampled`: steps that sample the canaries, for simulations; may be empty.
    training, settings = load(REPLAYED)(request.path), request.settings  # `replays` of train/replay/program.py
    significance = split_significance(settings.confidence)
    detected = _detected_noise(training.observed, significance)
    noise_power = f"a run whose noise is tested in {_steps(training.observed)} {detected}"
    power = (noise_power, *planned_guessing_power(canaries, claim, settings, training.sampled))
    seen = {**SEEN_BY_REPLAY, "no clipping": "yes, for one random record of each step"}
    return _document("gradients", power, {**seen, **_seen_in_batches(training.declared, training.observed, significance)})


def _replay_document(request: AuditRequest) -> Document:
    """Return the power of the tests of the noise's size and of the batches in a replay.

    A user's function counts as one step, because the number of its steps is not known before it runs.
    """
    settings = request.settings
    replays, significance = settings.trials or REPLAYS, 1.0 - settings.confidence
    training = None if settings.function is not None or request.path is None else load(REPLAYED)(request.path)
    steps = 1 if training is None else training.steps
    power = f"{replays:,} replays of {_steps(steps)} {_detected_noise(replays * steps, significance)}"
    in_batches = {} if training is None else _seen_in_batches(training.declared, replays * steps, significance)
    return _document("replay", (power,), {**SEEN_BY_REPLAY, **in_batches})


def _steps(count: int) -> str:
    """Return a number of steps in words."""
    return f"{count:,} step{'s' if count > 1 else ''}"


def _seen_in_batches(declared: Declared, steps: int, significance: float) -> dict[str, str]:
    """Return what tests of the batches see of faults of Poisson sampling; empty for other sampling schemes."""
    rate, level = declared.rate or 0.0, significance / STATISTICAL_CHECKS
    # At rate 1 every record is in every batch, and a single batch has no spread of sizes.
    if not 0.0 < rate < 1.0 or not declared.records or steps < 2:
        return {}
    return {
        DRAWN_TOO_OFTEN: f"with probability 90 %: {draw_count_power(steps * declared.records, rate, level)}",
        SHUFFLED: f"by the sizes of {steps:,} batches; with probability 90 %: {size_spread_power(steps, level)}",
    }


def _detected_noise(steps: int, significance: float) -> str:
    """Return the noise that a test would detect in a number of steps, for tensors of several sizes."""
    factors = [
        f"{up(detectable_factor(steps * numbers, significance / MOST_TESTS), 2)} for {numbers:,} number{'s' if numbers > 1 else ''}"
        for numbers in TENSOR_SIZES
    ]
    return f"would detect, with probability 90 %, noise of a tensor that is divided by {', '.join(factors)} in the tensor"
