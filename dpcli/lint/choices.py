"""Rules about leaks outside of the noisy output: choices, statistics, logs, names and ranges that depend on private data, and known seeds.

An accountant prices what a mechanism releases. A vocabulary from the data or an early stop on a private score is released as well, and no
number counts it. The rules know such settings by the keys of dpcli and of common training libraries (sections.py). A *cover note* in a
section's table `covers` says that the accounting does count such a choice, and silences the rule. A rule is a `RuleInfo` (rule_info.py): a
code that never changes, texts for `dpcli explain CODE`, a bad and a good example file, and a function that yields the findings in a
pipeline; run.py applies it. Examples are built from HEAD and TRAIN, which together are a file with one run of DP-SGD, and from
`train_section`, its [train] table. An *entry* is a [[mechanism]] table, and a *section* a table such as [train] that describes a run for
one command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpcli.file.pipeline.model import Pipeline
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, entries
from dpcli.lint.sections import (
    OF_TEXT,
    findings_where,
    findings_where_on,
    has_cover_note,
    is_on,
    names_one_of,
    normalized,
    settings,
    train_section,
    words_in,
)

# Normalised keys of sections, as dpcli and common training libraries call these settings.
LAYER_KEYS = frozenset({"norm", "norm_layer", "layers", "modules"})
CLIPPING_KEYS = frozenset({"clip", "clipping", "clip_norm", "clipping_norm", "max_grad_norm"})
RATE_KEYS = frozenset({"learning_rate", "lr"})
STOPPING_KEYS = frozenset(
    {"early_stopping", "early_stopping_patience", "load_best_model_at_end", "restore_best_weights", "save_best_only"}
)
CALLBACK_KEYS = frozenset({"callbacks"})
SCHEDULE_KEYS = CALLBACK_KEYS | frozenset({"lr_scheduler_type", "schedule", "scheduler", "lr_schedule", "lr_scheduler"})
METRIC_KEYS = frozenset({"log_loss", "log_train_loss", "log_accuracy", "log_metrics", "log_gradient_norms"})
LOG_KEYS = frozenset({"debug", "log_examples", "log_samples", "log_batches", "log_inputs", "log_predictions", "log_gradients"})
SECURE_KEYS = frozenset({"secure_mode", "secure_rng"})
NOISE_SEED_KEYS = {"seed", "noise_seed", "insecure_seed", "rng_seed", "random_seed", "random_state", "manual_seed"}
SEED_KEYS = frozenset({*NOISE_SEED_KEYS, "data_seed", "sampling_seed"})


def _private_choices(pipeline: Pipeline) -> Iterator[RuleFinding]:
    yield from _batch_norm_layers(pipeline)
    yield from _stopping_rules(pipeline)
    if not has_cover_note(pipeline, "validation"):
        message = (
            "a score on private data is a release: count it as a mechanism and say so in covers.validation, or use public data"
        )
        yield from findings_where(pipeline, frozenset({"validation"}), names_one_of("private", "train", "training"), message)
    if not has_cover_note(pipeline, "clipping", "clipping_norm"):
        message = "a clipping norm that depends on gradients is private: fix it, or count its noisy quantile and say so in covers.clipping"
        yield from findings_where_on(pipeline, frozenset({"adaptive_clipping"}), message)
        yield from findings_where(pipeline, CLIPPING_KEYS, names_one_of("adaptive", "median", "quantile", "percentile"), message)
    if not has_cover_note(pipeline, "learning_rate", "tuning"):
        message = "a learning rate that depends on the loss is private: fix the rate or its schedule"
        yield from findings_where_on(pipeline, frozenset({"auto_lr_find"}), message)
        yield from findings_where(pipeline, RATE_KEYS, names_one_of("auto", "find", "finder", "search"), message)
        yield from findings_where(pipeline, SCHEDULE_KEYS, _follows_loss, message)
    if not has_cover_note(pipeline, "metrics", "loss"):
        message = "a statistic of private records is a release: leave it out, or add noise and count it as a mechanism"
        yield from findings_where_on(pipeline, METRIC_KEYS, message)


def _stopping_rules(pipeline: Pipeline) -> Iterator[RuleFinding]:
    uses_public_data = any(setting.name == "validation" and "public" in words_in(setting.value) for setting in settings(pipeline))
    if uses_public_data or has_cover_note(pipeline, "validation", "early_stopping"):
        return
    message = (
        "private data decide when to stop: use public data, or count the decisions as mechanisms and say so in covers.validation"
    )
    yield from findings_where_on(pipeline, STOPPING_KEYS, message)
    yield from findings_where(pipeline, CALLBACK_KEYS, names_one_of("early_stopping", "earlystopping"), message)


def _batch_norm_layers(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = "batch statistics mix the records of a batch, and their running means are stored without noise: use GroupNorm"
    for path, name, value in settings(pipeline):
        is_layer = name in LAYER_KEYS and any(map(_means_batch_norm, words_in(value)))
        is_switch = name.replace("_", "") in ("batchnorm", "syncbatchnorm") and is_on(value)
        if is_layer or is_switch:
            yield RuleFinding(path, message)


def _means_batch_norm(word: str) -> bool:
    return word == "batch" or "batchnorm" in word.replace("_", "")


def _follows_loss(value: Any) -> bool:
    return any("plateau" in word for word in words_in(value))


def _logged_records(pipeline: Pipeline) -> Iterator[RuleFinding]:
    yield from findings_where_on(
        pipeline,
        LOG_KEYS,
        "a log outlives the run and is read by others: log no record, and nothing that was computed from one record",
    )


def _seeds(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = "a seed makes noise and samples reproducible, so that they are not secret: leave the seed out"
    yield from findings_where(pipeline, SEED_KEYS, _is_seed, message)
    message = "noise needs a cryptographic generator: the output of other generators can be predicted from earlier output"
    yield from findings_where(pipeline, SECURE_KEYS, lambda value: not is_on(value), message)


def _is_seed(value: Any) -> bool:
    """Return whether the value of a seed key sets a seed. Unlike for `is_on`, 0 does."""
    return value is not False and normalized(str(value)) not in ("", "none")


SEEDED = RuleInfo(
    code="DP204",
    severity="error",
    title="seeded noise",
    what="A section other than [audit] states seed, noise_seed, sampling_seed, data_seed, random_seed, manual_seed or "
    "insecure_seed; or secure_mode = false or secure_rng = false.",
    why="Whoever knows or guesses the seed can draw the same noise and subtract it. Seeds are small numbers, and often are in "
    "repositories. The guarantee also depends on secret batches.",
    fix="Leave the seed out. Noise and samples then come from the entropy of the operating system.",
    source="Garfinkel & Leclerc 2020, Randomness Concerns When Deploying Differential Privacy, arXiv:2009.03777; NIST SP "
    "800-226 (2025)",
    bad=HEAD + TRAIN + train_section({"seed": "42"}),
    good=HEAD + TRAIN + train_section({}),
    check=_seeds,
)

CHOSEN_ON_PRIVATE_DATA = RuleInfo(
    code="DP209",
    severity="error",
    title="choices and statistics from private data without noise",
    what="A section names batch normalisation (norm, layers, modules, batch_norm). Or a section switches on early_stopping "
    '(early_stopping_patience, load_best_model_at_end, save_best_only) without validation = "public", validation = '
    '"private", adaptive_clipping or a clipping norm that is adaptive or a quantile, auto_lr_find or a learning_rate '
    "that is found automatically, a schedule by plateau, or log_loss, log_accuracy, log_metrics or "
    "log_gradient_norms; and no covers table has a note that the cost is counted.",
    why="A number that depends on private records is a release if it is published, or if it decides about published output. Only the "
    "gradients have noise. The stopping step, the clipping norm and the running means have none.",
    fix="Decide on public data, fix the value beforehand, or release it with noise as a mechanism of the file and set covers "
    "(validation, early_stopping, clipping, learning_rate, metrics). Use GroupNorm or LayerNorm instead of BatchNorm.",
    source="Papernot & Steinke 2022, arXiv:2110.03620; Ponomareva et al. 2023, arXiv:2303.00654, section 5",
    bad=HEAD + TRAIN + train_section({"early_stopping": "{ patience = 3 }"}),
    good=HEAD + TRAIN + train_section({"public": '"held-out"'}),
    check=_private_choices,
)

SHOWN_IN_LOGS = RuleInfo(
    code="DP211",
    title="logs that show records",
    what="A section switches on debug, log_examples, log_samples, log_batches, log_inputs, log_predictions or "
    "log_gradients. (A file cannot show the content of error messages.)",
    why="No guarantee covers a log. A record in a log is disclosed, and so are its prediction and its gradient.",
    fix="Log only step numbers, declared batch sizes, and results on public data.",
    source="NIST SP 800-226 (2025), on data handling around a private mechanism",
    bad=HEAD + TRAIN + train_section({"log_examples": "true"}),
    good=HEAD + TRAIN + train_section({}),
    check=_logged_records,
)


# Normalised keys whose values decide which names, edges or ranges the output shows.
DOMAINS = {"vocabulary", "vocab", "tokenizer", "tokeniser", "classes", "categories", "labels", "domain"}
NAMES = DOMAINS | {"bins", "bin_edges", "scaler", "feature_range"}
# Values of these keys that say that they were derived from the data.
FITTED = ("data", "from_data", "private", "private_data", "train", "fit", "fitted", "trained", "learned", "learnt", "infer", "auto")


def _private_names(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "derived from private records, so that it reveals them: declare it, take it from public data, or count a noisy selection"
    )
    for path, name, value in settings(pipeline):
        if name in NAMES and names_one_of(*FITTED)(value) and not has_cover_note(pipeline, name):
            yield RuleFinding(path, message)
    if not has_cover_note(pipeline, "tokenizer", "vocabulary"):
        yield from findings_where_on(pipeline, frozenset({"train_tokenizer", "build_vocabulary", "build_vocab"}), message)
    if pipeline.privacy.releases != "outputs":
        return
    message = (
        "list the parts in the file (partition = { of = ..., part = ... }): which parts appear in the output "
        "must not depend on the data"
    )
    for path, entry in entries(pipeline):
        if isinstance(entry.partition, str):
            yield RuleFinding((*path, "partition"), message, "warning")


PRIVATE_NAMES = RuleInfo(
    code="DP210",
    severity="error",
    title="private keys, edges or ranges in the output",
    what="A section takes its vocabulary, tokenizer, classes, categories, labels, bins, bin_edges, domain, scaler or "
    'feature_range from the data ("from-data", "fit", "private", "auto", ...), or switches on train_tokenizer or build_vocab, '
    'without a note in covers; or, as a warning, a file with releases = "outputs" has a partition without naming its parts.',
    why="A rare word in a vocabulary, a key of a histogram or the largest value of a range may come from one person. Noise on "
    "the counts does not hide that the key exists.",
    fix="Declare the domain, take it from public data, or release it through a noisy threshold that is a mechanism of "
    "the file, and set covers.vocabulary (or the name of the key) to a note that names the mechanism.",
    source="Korolova et al. 2009, Releasing Search Queries and Clicks Privately, WWW; Desfontaines et al. 2022, arXiv:2006.03684",
    bad=HEAD + TRAIN + train_section({**OF_TEXT, "tokenizer": '"from-data"'}),
    good=HEAD + TRAIN + train_section({**OF_TEXT, "tokenizer": '"gpt2"'}),
    check=_private_names,
)
