"""Rules about sampling: schemes without amplification, batches of fixed size, rounded steps, and rates of 0.

Many published epsilons of training assume Poisson samples, while many loaders shuffle. A file may say so in a key, which is an error if it
contradicts the accounted scheme, or only in a text, which is a warning. A rule is a `RuleInfo` (rule_info.py): a code that never changes,
texts for `dpcli explain CODE`, a bad and a good example file, and a function that yields the findings in a pipeline; run.py applies it.
Examples are built from HEAD and TRAIN, which together are a file with one run of DP-SGD; `edited` replaces a part of a text. An *entry* is
a [[mechanism]] table, and a *section* a table such as [train] that describes a run for one command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.resolve import MAX_COUNT
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries, steps_in
from dpcli.lint.sections import RELEASING, findings_where, findings_where_on, mentions, names_one_of
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import FixedSize, OncePerEpoch, Poisson, Unsampled

SAMPLER_KEYS = frozenset({"sampler", "sampling", "batching"})  # keys of sections that say how batches are drawn
# The sections of commands that publish results, but [federated], because the reader compares its sampling with its entry (DP005).
SECTIONS_OF_SAMPLERS = tuple(name for name in RELEASING if name != "federated")
SHUFFLING_WORDS = ("shuffle", "shuffled", "random", "randomsampler", "cyclic", "sequential", "in_order")
# Patterns in descriptions of data loaders. A phrase that is negated, or is about a replaced loader, does not count.
SHUFFLING_PHRASES = (
    r"\bshuffle ?= ?true|\bpoisson_sampling ?= ?false|\brandomsampler\b|\bshuffled (?:mini-?)?batch(?:es)?\b"
    r"|\bshuffled? (?:afresh )?(?:in |at |before |after )?(?:each|every|per) (?:epoch|pass)\b"
)
# The end of the text before a phrase: at most 40 characters of the same clause after the negation.
NEGATED = r"(?:\b(?:not|no|never|without|instead of|rather than|replac\w+)\b|n't)[^.;]{0,40}$"
REPLACED = r"\breplac\w+|\bturned into\b|\bmake_private\b|\bdpdataloader\b"
FIXED_SIZE_WORDS = ("fixed_size", "fixed", "without_replacement")


def _unamplified_batches(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        if isinstance(entry.sampling, OncePerEpoch) and not entry.sampling.amplified:
            yield RuleFinding(
                (*path, "sampling", "scheme"),
                f'scheme = "{entry.sampling.scheme}" gives no amplification: each pass counts as one run on all of the data; '
                'use scheme = "poisson" for amplification by the sampling rate',
            )
    if _counted_as_poisson(pipeline):
        yield from _shuffled_batches(pipeline)


def _shuffled_batches(pipeline: Pipeline) -> Iterator[RuleFinding]:
    """Yield an error for each setting, and a warning for each text, that contradicts Poisson sampling."""
    message = "a mechanism of this file is counted as Poisson sampling, but shuffled or ordered batches are no Poisson samples"
    for finding in (
        *findings_where_on(pipeline, frozenset({"shuffle"}), message),
        *findings_where(pipeline, SAMPLER_KEYS, names_one_of(*SHUFFLING_WORDS), message, *SECTIONS_OF_SAMPLERS),
        *findings_where(pipeline, frozenset({"poisson_sampling"}), lambda value: value is False, message),
    ):
        yield replace(finding, severity="error")
    for path, text in _texts_on_loaders(pipeline):
        phrase = re.search(SHUFFLING_PHRASES, text, re.IGNORECASE)
        if phrase and not mentions(NEGATED, text[: phrase.start()]) and not mentions(REPLACED, text):
            yield RuleFinding(path, f'"{phrase[0]}": {message}')


def _texts_on_loaders(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Yield the texts of the file that may describe how batches are drawn, with their places."""
    for path, entry in entries(pipeline):
        if isinstance(entry.sampling, Poisson) and entry.description is not None:
            yield (*path, "description"), entry.description
    for key in ("sampler", "implementation"):
        text = getattr(pipeline.disclosure, key)
        if text is not None:
            yield ("disclosure", key), text


def _counted_as_poisson(pipeline: Pipeline) -> bool:
    return any(isinstance(entry.sampling, Poisson) for entry in pipeline.mechanisms)


def _fixed_size_batches(pipeline: Pipeline) -> Iterator[RuleFinding]:
    adjacency = pipeline.privacy.adjacency
    for path, entry in entries(pipeline):
        if isinstance(entry.sampling, FixedSize) and adjacency is not Adjacency.REPLACE_ONE:
            yield RuleFinding(
                (*path, "sampling", "scheme"),
                f'expected adjacency = "replace-one" with scheme = "fixed-size", found "{adjacency.value}"',
            )
    if _counted_as_poisson(pipeline):
        message = "a mechanism of this file is counted as Poisson sampling, but batches of a fixed size are no Poisson samples"
        yield from findings_where(pipeline, SAMPLER_KEYS, names_one_of(*FIXED_SIZE_WORDS), message, *SECTIONS_OF_SAMPLERS)


def _rounded_steps(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        if entry.epochs is None:
            continue
        rate = _epoch_share(entry, pipeline.privacy.dataset_size)
        steps = steps_in(entry.epochs, rate)
        is_possible = rate != 0 and steps <= MAX_COUNT  # no command accepts more steps
        if is_possible and steps.denominator != 1:
            unit = "passes" if rate is None else "steps"
            message = f"{entry.epochs:.12g} epochs = {float(steps):,.12g} {unit}; using {ceil(steps):,}"
            yield RuleFinding((*path, "epochs"), message)


def _unstated_steps(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        # `uncounted`: the file states neither steps nor epochs. A type that `takes_turns` runs its steps inside one run.
        if entry.uncounted and not entry.spec.takes_turns and not isinstance(entry.sampling, Unsampled | None):
            message = (
                "neither steps nor epochs is stated, so that one step is counted: state the number of steps (steps = 1 for one run)"
            )
            yield RuleFinding((*path, "sampling"), message)


def _epoch_share(entry: Entry, dataset_size: int | None) -> Fraction | None:
    """Return the sampling rate, the expected share of an epoch in one step; None if a step is a whole pass, or if the rate is unknown."""
    if entry.sampling is None or isinstance(entry.sampling, OncePerEpoch):
        return None
    return entry.sampling.exact_rate(dataset_size)


def _zero_rates(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        scheme = entry.sampling
        if isinstance(scheme, Poisson) and scheme.exact_rate(pipeline.privacy.dataset_size) == 0:
            yield RuleFinding(
                (*path, "sampling", "rate"), "a rate of 0 never samples a record: the mechanism costs nothing and learns nothing"
            )


NOT_AMPLIFIED = RuleInfo(
    code="DP101",
    title="batches that are not Poisson samples",
    what="A mechanism takes its batches by shuffle or cyclic order. dpcli then claims no amplification "
    "by sampling: each pass counts as one run on all of the data. This is a warning, because it is sound only if an absent record leaves "
    "its place in the order empty. It is an error to count such batches as Poisson samples: a section has "
    'shuffle, poisson_sampling = false or sampler = "shuffle" ("random", "cyclic", "sequential"), and the file a Poisson mechanism. '
    "It is a warning if only texts say so: the description of a Poisson mechanism, disclosure.sampler or disclosure.implementation "
    "mentions shuffling, and does not mention that Poisson sampling replaces it.",
    why="Noise that suffices for Poisson samples is too small for shuffled batches: the same run may leak several times "
    "the epsilon of a Poisson formula. Training programs often shuffle and report the Poisson number.",
    fix='Draw each batch with an independent coin per record, and state scheme = "poisson". Or assign each record to a random batch, '
    'anew in every pass, and state scheme = "balls-in-bins". Or accept the larger epsilon.',
    source="Chua et al. 2024, arXiv:2403.17673 and arXiv:2411.04205",
    bad=HEAD + edited(TRAIN, "poisson", "shuffle"),
    good=HEAD + TRAIN,
    check=_unamplified_batches,
)

FIXED_SIZE = RuleInfo(
    code="DP102",
    severity="error",
    title="samples of fixed size under an adjacency that changes the size",
    what='A mechanism samples with scheme = "fixed-size" while the adjacency is add-remove or zero-out; or a section has sampler = '
    '"fixed-size" (or "without-replacement") with a mechanism that is counted as Poisson sampling.',
    why="In a sample of fixed size, another record takes the place of an absent one. Poisson formulas do not "
    "cover this. In a published example the true epsilon is above 10, and the Poisson formula gives about 1.",
    fix='State adjacency = "replace-one", or sample with scheme = "poisson".',
    source="Lebeda et al. 2024, arXiv:2405.20769",
    bad=HEAD + edited(TRAIN, "poisson", "fixed-size"),
    good=edited(HEAD, "add-remove", "replace-one") + edited(TRAIN, "poisson", "fixed-size"),
    check=_fixed_size_batches,
)

ROUNDED_STEPS = RuleInfo(
    code="DP117",
    title="steps rounded up from epochs",
    what="epochs divided by the sampling rate is not a whole number of steps; dpcli counts the next whole number.",
    why="A program that rounds differently runs a different number of steps from the counted one.",
    fix="State steps, with the number of steps that the program will run.",
    source="Opacus issue 813, https://github.com/pytorch/opacus/issues/813",
    bad=HEAD + edited(TRAIN, "steps = 1000", "epochs = 2.5"),
    good=HEAD + edited(TRAIN, "steps = 1000", "steps = 586"),
    check=_rounded_steps,
)

ONE_STEP = RuleInfo(
    code="DP122",
    title="a sampled mechanism that is counted once",
    what="A mechanism has a sampling table and states neither steps nor epochs. dpcli then counts one step.",
    why="A mechanism with sampling seldom runs only once. For a training run without a number of steps, dpcli prints the epsilon of a "
    "single step, which may be a hundredth of the true epsilon.",
    fix="State steps, or epochs with a batch size or rate. State steps = 1 if the mechanism runs once.",
    source="Abadi et al. 2016, arXiv:1607.00133: the cost of a training run is that of all its steps",
    bad=HEAD + edited(TRAIN, "steps = 1000\n", ""),
    good=HEAD + edited(TRAIN, "steps = 1000", "steps = 1"),
    check=_unstated_steps,
)

NEVER_SAMPLED = RuleInfo(
    code="DP305",
    title="a sampling rate of 0",
    what='A mechanism samples with scheme = "poisson" at rate 0.',
    why="No record ever takes part, so that epsilon is 0. This is true, but seldom intended: a whole-number division of batch size by "
    "dataset size gives 0 too.",
    fix="State the rate or the batch_size that the program uses, or remove the mechanism.",
    source="Balle, Barthe & Gaboardi 2018, Privacy Amplification by Subsampling, arXiv:1807.01647",
    bad=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.0"),
    good=HEAD + edited(TRAIN, "batch_size = 256", "rate = 0.004"),
    check=_zero_rates,
)
