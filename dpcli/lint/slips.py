"""Rules about valid settings that are probably mistakes: epochs written as steps, a percentage as a rate, noise / batch size as noise.

A rule is a `RuleInfo` (rule_info.py): a code that never changes, texts for `dpcli explain CODE`, a bad and a good example file, and a
function that yields the findings in a pipeline; run.py applies it. Examples are built from HEAD and TRAIN, which together are a file with
one run of DP-SGD; `edited` replaces a part of a text. An *entry* is a [[mechanism]] table, and a *section* a table such as [train] that
describes a run for one command. The files are valid, and dpcli prices them as they stand; the rules warn where another key, or another unit
of the number, is more plausible. Their thresholds touch warnings only, and are meant to spare ordinary files: each has its reason next to
it, and a false alarm here teaches people to ignore the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, sqrt

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.resolve import MAX_COUNT
from dpcli.lint.composition import LIST_INDEX
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries, steps_in
from dpcli.lint.sections import entry_mentions
from dpcli.mechanisms.sampling.schemes import Batched

# If epochs were written as steps, the steps are few and read a small share of the data. An intentionally short run has larger batches or
# more steps. The limits are the largest usual number of epochs, and a tenth of a pass.
LIKE_EPOCHS, SHARE_OF_A_PASS = 30, Fraction(1, 10)
# Words in names and descriptions for runs that are intentionally short.
SHORT_RUN = r"\bfine[ -]?tun|\blora\b|\brounds?\b|\bfed(?:erat|avg)|\bwaves?\b|\bwarm(?:ing)?[ -]?up\b|\bpilot\b"
# Rates above a tenth are rare in runs of more than a hundred steps, and are what percentages from 0.1 % on look like.
LARGE_RATE, MANY_STEPS = Fraction(1, 10), 100
MANY_EPOCHS = 1_000  # a larger number of epochs is probably a number of steps
LITTLE_NOISE = 0.2  # noise multiplier at which one release has epsilon 35 at delta 1e-6
# At this distance of two normal distributions, in standard deviations, epsilon is 10 at delta 1e-6.
SEPARATED = 2.0


def _short_runs(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if any(section in ("train", "federated") for section, _ in pipeline.sections):
        return  # dpcli train runs the number of steps that is charged, and a round is no pass over the data
    if pipeline.privacy.releases == "outputs":
        return  # the mechanisms are queries, and no training
    findings = []
    for path, entry in entries(pipeline):
        rate = _rate(entry, pipeline) if _trains(entry) else None
        if rate is None:
            continue
        passes = rate * _steps(entry, rate)
        if entry.epochs is not None or passes >= 1:
            return  # the file also states epochs or a whole pass, so that a short run is probably meant
        # A name such as train[2] comes from a list of values, which describes a schedule.
        is_described = LIST_INDEX.search(entry.name) or entry_mentions(SHORT_RUN, entry)
        if 1 < entry.steps <= LIKE_EPOCHS and 0 < passes < SHARE_OF_A_PASS and not is_described:
            message = (
                f"{entry.steps} steps at a rate of {float(rate):.4g} are {float(passes):.2g} of one pass over the data: state "
                f"epochs = {entry.steps} if passes are meant"
            )
            findings.append(RuleFinding((*path, "steps"), message))
    yield from findings


def _percentages(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        rate = _rate(entry, pipeline)
        if rate is None or getattr(entry.sampling, "batch_size", None) is not None:
            continue  # a number of records is not a percentage
        steps = _steps(entry, rate)
        if LARGE_RATE < rate < 1 and steps > MANY_STEPS and _reveals_presence(entry, rate, steps):
            message = (
                f"{steps:,} steps at a rate of {float(rate):g} use each record about {float(rate * steps):,.0f} times, which this "
                f"noise does not hide: a rate is a share of the records ({float(rate):g} % is {float(rate / 100):g})"
            )
            yield RuleFinding((*path, "sampling", "rate"), message)


def _too_little_noise(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        noise, rate = _noise(entry), _rate(entry, pipeline)
        uses = 1 if rate is None else rate * _steps(entry, rate)  # expected number of steps that read a record
        # The probability that a record is read at all is at most `uses`. If delta covers it, no noise is needed.
        is_rarely_read = uses <= (pipeline.privacy.delta or 0.0)
        if noise is None or noise >= LITTLE_NOISE or is_rarely_read:
            continue
        if getattr(entry.spec, "noise_multiplier", None) is None:
            yield RuleFinding((*path, "sigma"), f"noise of {noise:g} times the sensitivity hides no record")
            continue
        batch_size = _batch_size(entry, rate, pipeline.privacy.dataset_size)
        on_sum = f" ({noise!r} * {batch_size:,} = {noise * batch_size:.4g})" if batch_size > 1 else ""
        message = (
            f"noise of {noise!r} times one record's contribution hides no record: state the noise on the sum of a batch, not on "
            f"its mean{on_sum}"
        )
        yield RuleFinding((*path, "noise_multiplier"), message)


def _too_many_epochs(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        rate = _rate(entry, pipeline)
        if entry.epochs is None or entry.epochs <= MANY_EPOCHS or not rate or rate == 1:
            continue
        steps = _steps(entry, rate)
        if _reveals_presence(entry, rate, steps):
            message = (
                f"{entry.epochs:,.12g} epochs are {steps:,} steps, which this noise does not hide: state steps = "
                f"{entry.epochs:.0f} if steps are meant"
            )
            yield RuleFinding((*path, "epochs"), message)


def _rate(entry: Entry, pipeline: Pipeline) -> Fraction | None:
    """Return the share of the records in one step; None if a step reads all records, or if the share is unknown."""
    return entry.sampling.exact_rate(pipeline.privacy.dataset_size) if isinstance(entry.sampling, Batched) else None


def _batch_size(entry: Entry, rate: Fraction | None, dataset_size: int | None) -> int:
    """Return the stated or expected number of records in one step; 1 if it is unknown."""
    stated: int | None = getattr(entry.sampling, "batch_size", None)
    if stated:
        return stated
    return 1 if rate is None or dataset_size is None else round(rate * dataset_size)


def _trains(entry: Entry) -> bool:
    """Return whether the noise of an entry is stated as in training: as Gaussian noise relative to the contribution of a record."""
    # A type with Gaussian noise has no finite epsilon at delta = 0, which `needs_delta` says.
    return entry.spec.needs_delta and getattr(entry.spec, "noise_multiplier", None) is not None


def _steps(entry: Entry, rate: Fraction) -> int:
    """Return the number of runs of an entry. A number from epochs is cut to MAX_COUNT, the largest number that commands accept."""
    return entry.steps if entry.epochs is None else min(MAX_COUNT, ceil(steps_in(entry.epochs, rate)))


def _noise(entry: Entry) -> float | None:
    """Return the standard deviation of Gaussian noise over the sensitivity or the contribution of a record; None for other noise."""
    spec = entry.spec
    if not spec.needs_delta:  # no Gaussian noise, which has no finite epsilon at delta = 0
        return None
    multiplier: float | None = getattr(spec, "noise_multiplier", None)
    if multiplier is not None:
        return multiplier
    sigma: float | None = getattr(spec, "sigma", None)
    sensitivity: float | None = getattr(spec, "sensitivity", None) or getattr(spec, "l2_sensitivity", None)
    return None if sigma is None or sensitivity is None else sigma / sensitivity


def _reveals_presence(entry: Entry, rate: Fraction, steps: int) -> bool:
    """Return whether the sum of all steps alone separates the presence and the absence of a record by more than SEPARATED.

    In units of the noise, a record moves the mean of each step by rate / noise and that of the sum by sqrt(steps) times as much. The run
    leaks at least as much as this sum. The result is False for noise that is not Gaussian, and for MAX_COUNT steps or more.
    """
    noise = _noise(entry)
    return noise is not None and steps < MAX_COUNT and float(rate) * sqrt(steps) / noise > SEPARATED


FEWER_THAN_ONE_PASS = RuleInfo(
    code="DP123",
    title="fewer steps than one pass over the data",
    what="A sampled mechanism with a noise_multiplier of Gaussian noise states 2 to 30 steps that together read less than a tenth of "
    "one pass over the data (steps times rate below 0.1), in a file that states no epochs and no longer run. There is no warning about "
    "lists of values, which describe a schedule; about names and descriptions with fine-tuning, a warm-up, a pilot, rounds or waves; "
    'with releases = "outputs"; with [train], as dpcli train runs the charged number of steps; or with [federated].',
    why="If 15 epochs are written as steps = 15, 15 batches are counted. A program that runs 15 epochs then leaks far more than the "
    "printed epsilon.",
    fix="State epochs if passes are meant. If the run is that short, say so in its description: a pilot, a warm-up, fine-tuning.",
    source="Abadi et al. 2016, arXiv:1607.00133, section 3.1: an epoch is 1/rate steps",
    bad=HEAD + edited(TRAIN, "steps = 1000", "steps = 15"),
    good=HEAD + edited(edited(TRAIN, "steps = 1000", "epochs = 15"), "256", "240"),
    check=_short_runs,
)

PERCENTAGE = RuleInfo(
    code="DP307",
    title="a sampling rate that may be a percentage",
    what="A mechanism with Gaussian noise states a rate above 0.1 and below 1, runs more than 100 steps, and rate * sqrt(steps) / noise is "
    "above 2, which means an epsilon above 10 at delta = 1e-6. There is no warning about small data sets, about large batches with enough "
    "noise, and about batch_size.",
    why="If 0.4 is written for 0.4 %, the rate is a hundred times too large. The printed epsilon is then far above that of the "
    "program. If the program uses the same number, it really leaks that much.",
    fix="State the rate as a share between 0 and 1, or batch_size with dataset_size. If the rate is right, add more noise.",
    source="Abadi et al. 2016, arXiv:1607.00133, section 3.1: the sampling ratio is the lot size over the number of records",
    bad=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.4"),
    good=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    check=_percentages,
)

LITTLE = RuleInfo(
    code="DP308",
    title="noise too small to hide a record",
    what="Gaussian noise has a noise_multiplier below 0.2, or a sigma below 0.2 times its sensitivity. For a record that is read, one "
    "release with such noise has an epsilon above 35 at delta = 1e-6.",
    why="noise_multiplier is the noise on the sum of a batch over the clipping norm. The noise on the mean gradient is smaller by the "
    "batch size, a factor of hundreds. If a program adds this smaller noise to the sum, it has no privacy. An audit found this in a "
    "published result.",
    fix="State the standard deviation of the noise on the sum, over the clipping norm. If it really is this small, there is no useful "
    "guarantee.",
    source="Tramer et al. 2022, Debugging Differential Privacy, arXiv:2202.12219",
    bad=HEAD + edited(TRAIN, "1.1", "0.0043"),
    good=HEAD + TRAIN,
    check=_too_little_noise,
)

EPOCHS = RuleInfo(
    code="DP309",
    title="epochs that may be steps",
    what="A sampled mechanism with Gaussian noise states more than 1,000 epochs, and rate * sqrt(steps) / noise is above 2, so that "
    "epsilon is above 10 at delta = 1e-6. There is no warning about long runs with enough noise.",
    why="If 15,000 steps are written as epochs, millions of steps are counted, and the epsilon is too large to protect anybody.",
    fix="State steps if steps are meant.",
    source="Abadi et al. 2016, arXiv:1607.00133, section 3.1: an epoch is 1/rate steps",
    bad=HEAD + edited(edited(TRAIN, "steps = 1000", "epochs = 15000"), "256", "240"),
    good=HEAD + edited(TRAIN, "steps = 1000", "steps = 15000"),
    check=_too_many_epochs,
)
