"""Rules about the training step of sections such as [train], which must be the accounted mechanism.

An accountant prices clipping each record, adding up, and one draw of noise; a program may divide by a private count, repeat steps when it
resumes without a charge, or clip the batch in place of the record. The rules know such settings by the keys of dpcli and of common training
libraries, whose sections a file may have (sections.py). A rule is a `RuleInfo` (rule_info.py): a code that never changes, texts for `dpcli
explain CODE`, a bad and a good example file, and a function that yields the findings in a pipeline; run.py applies it. Examples are built
from HEAD and TRAIN, which together are a file with one run of DP-SGD, and from `train_section`, its [train] table. An *entry* is a
[[mechanism]] table, and a *section* a table such as [train] that describes a run for one command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpcli.file.pipeline.model import Pipeline
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, entries
from dpcli.lint.sections import RELEASING, findings_where, findings_where_on, is_on, names_one_of, settings, train_section, words_in
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import BallsInBins, Poisson

# Normalised keys and values of sections, as dpcli and common training libraries call them.
RESUME_KEYS = frozenset({"resume", "resume_from", "resume_from_checkpoint"})
DIVISOR_KEYS = frozenset(
    {"normalise", "normalise_by", "normaliser", "normalize", "normalize_by", "normalizer", "divide_by", "denominator"}
)
# Values of DIVISOR_KEYS for a number that depends on the private records.
PRIVATE_COUNT_WORDS = frozenset({"n", "data", "dataset", "records", "actual", "actual_batch_size", "sampled_batch_size"})
CLIP_PER_KEYS = frozenset({"clip_per", "clip_by", "clipping_granularity"})
# Values of CLIP_PER_KEYS for the clipping of the gradient of several records.
SEVERAL_RECORDS_WORDS = ("batch", "per_batch", "minibatch", "microbatch", "micro_batch", "per_microbatch", "device", "per_device")
MICROBATCH_KEYS = frozenset({"num_microbatches", "microbatches"})
NOISE_KEYS = ("noise_multiplier", "sigma")
DROP_KEYS = {"drop_last", "drop_remainder", "dataloader_drop_last", "drop_empty", "min_batch_size"}
SKIP_KEYS = frozenset({*DROP_KEYS, "skip_empty", "skip_empty_batch", "skip_empty_batches"})


def _unidentified_resumptions(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for name in RELEASING:
        if not any(setting.name in ("run_id", "ledger") and is_on(setting.value) for setting in settings(pipeline, name)):
            message = "expected the run_id or the ledger of the continued run in the same section, found neither"
            yield from findings_where_on(pipeline, RESUME_KEYS, message, name)


def _private_divisors(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.adjacency is not Adjacency.ADD_REMOVE:
        return  # under other adjacencies, neighbouring datasets have the same number of records
    for path, name, value in settings(pipeline):
        words = list(words_in(value))
        is_length = any("len(" in word for word in words)
        is_divisor = name in DIVISOR_KEYS and not PRIVATE_COUNT_WORDS.isdisjoint(words)
        if is_length or is_divisor:
            message = f"expected a declared constant such as the expected batch size, found a private count, {value!r}"
            yield RuleFinding(path, message)


def _joint_clipping(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = "a bound on a sum of several gradients does not bound the gradient of one record: clip the gradient of each record"
    yield from findings_where(pipeline, CLIP_PER_KEYS, names_one_of(*SEVERAL_RECORDS_WORDS), message)
    if any(setting.name in CLIP_PER_KEYS for setting in settings(pipeline)):
        return
    batch_sizes = [getattr(entry.sampling, "batch_size", None) for _, entry in entries(pipeline)]
    message = 'expected clip_per = "example" in the same section, or a number equal to batch_size: found neither'
    yield from findings_where(pipeline, MICROBATCH_KEYS, lambda value: is_on(value) and value not in batch_sizes, message)


def _unaccounted_noise(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = "without the stated noise, the epsilon of the file does not hold"
    yield from findings_where_on(pipeline, frozenset({"disable_dp"}), message)
    accounted_noises = {getattr(entry.spec, key, None) for _, entry in entries(pipeline) for key in NOISE_KEYS} - {None}
    if not accounted_noises:
        return
    for path, name, value in settings(pipeline, "train"):
        if name in NOISE_KEYS and _is_number(value) and value not in accounted_noises:
            yield RuleFinding(path, f"expected the noise of a mechanism of this file, found {value!r}")


def _is_number(value: Any) -> bool:
    """Return whether a TOML value is a number. In Python, True and False are integers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _skipped_batches(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if any(isinstance(entry.sampling, Poisson | BallsInBins) for _, entry in entries(pipeline)):
        message = "a batch of random size may be small or empty, and a skipped step reveals this: take every step, with its noise"
        yield from findings_where_on(pipeline, SKIP_KEYS, message)
        yield from findings_where(pipeline, frozenset({"on_empty_batch"}), names_one_of("skip", "drop", "ignore"), message)


RESUMED = RuleInfo(
    code="DP113",
    severity="error",
    title="a run continued without its identity",
    what="A section has resume (or resume_from, resume_from_checkpoint), and has neither run_id nor ledger.",
    why="A continued run repeats the steps since its checkpoint with fresh noise, and these steps must be charged again. "
    "Without the identity of the first part, the two parts cannot be added up. Counters that were restored from a file have "
    "counted such steps twice, or not at all.",
    fix="Continue the run with dpcli train --resume, which finds the charge of the first part. In other programs, state the run_id or "
    "the ledger of the run.",
    source="observed in Opacus, whose accountants are saved apart from the model; Ponomareva et al. 2023, arXiv:2303.00654",
    bad=HEAD + TRAIN + train_section({"resume": '"runs/7/last.pt"'}),
    good=HEAD + TRAIN + train_section({}),
    check=_unidentified_resumptions,
)

NORMALISED = RuleInfo(
    code="DP115",
    severity="error",
    title="division by a private count",
    what="Under add-remove, a section divides by a count of the private data: a normalise, normalise_by, normaliser, divide_by or "
    'denominator key that says "dataset", "n" or "actual-batch-size", or any value with len(...).',
    why="Under add-remove the number of records is itself private. Neighbouring datasets divide the same sum by "
    "different numbers. The sensitivity of a step is then not the clipping norm over a constant.",
    fix="Divide by a declared constant, such as the expected batch size: rate times the declared dataset_size.",
    source="Opacus issues 571 and 819, https://github.com/pytorch/opacus/issues/571",
    bad=HEAD + TRAIN + train_section({"normalise_by": '"len(data)"'}),
    good=HEAD + TRAIN + train_section({}),
    check=_private_divisors,
)

CLIPPED_TOGETHER = RuleInfo(
    code="DP116",
    severity="error",
    title="clipping of several records together",
    what="clip_per (or clip_by, clipping_granularity) is batch, microbatch or device; or num_microbatches (or "
    'microbatches) differs from batch_size, without clip_per = "example".',
    why="If the mean gradient of a micro-batch is clipped, a change of one record can move the mean from C to -C. This is "
    "2C, twice the sensitivity to which the noise was scaled. Clipping of a whole batch does not bound the contribution of a record "
    "either.",
    fix="Clip the gradient of each record, as dpcli train does. Batches that only save memory (physical_batch_size) do no harm.",
    source="TensorFlow Privacy issue 620, https://github.com/tensorflow/privacy/issues/620; Ponomareva et al. 2023, "
    "arXiv:2303.00654",
    bad=HEAD + TRAIN + train_section({"clip_per": '"microbatch"'}),
    good=HEAD + TRAIN + train_section({"physical_batch_size": "16"}),
    check=_joint_clipping,
)

OTHER_NOISE = RuleInfo(
    code="DP206",
    severity="error",
    waivable=False,
    title="different noise from the accounted noise",
    what="[train] states a noise_multiplier or sigma that no mechanism of the file has, or a section sets disable_dp. (A file cannot "
    "show the scale of the noise that is really drawn. The tests of dpcli train and dpcli audit measure it.)",
    why="The printed epsilon holds for the noise of the mechanism. A published result claimed an epsilon of 0.21, and an "
    "audit measured at least 2.79, because the noise was divided by the batch size.",
    fix="State noise_multiplier only in the mechanism, from which every command reads it.",
    source="Tramer et al. 2022, Debugging Differential Privacy, arXiv:2202.12219",
    bad=HEAD + TRAIN + train_section({"noise_multiplier": "0.7"}),
    good=HEAD + TRAIN + train_section({}),
    check=_unaccounted_noise,
)

SKIPS_EMPTY = RuleInfo(
    code="DP208",
    severity="error",
    waivable=False,
    title="small or empty batches are skipped",
    what="A mechanism draws batches of random size (poisson, balls-in-bins) and a section has drop_last (dataloader_drop_last), "
    'skip_empty_batches, drop_empty or min_batch_size switched on, or on_empty_batch = "skip".',
    why="The accountant counts one noisy release per step. If a step is skipped, or crashes, because no record was drawn, "
    "everybody sees that no record was drawn.",
    fix="Take every step. For an empty batch, release only the noise.",
    source="Opacus issues 161 and 612, https://github.com/pytorch/opacus/issues/612",
    bad=HEAD + TRAIN + train_section({"drop_last": "true"}),
    good=HEAD + TRAIN + train_section({}),
    check=_skipped_batches,
)
