"""Rules about composition: tuning, adaptivity, shared samples, partitions, and repeated questions.

A rule is a `RuleInfo` (rule_info.py): a code that never changes, texts for `dpcli explain CODE`, a bad and a good example file, and a
function that yields the findings in a pipeline; run.py applies it. Examples are built from HEAD and TRAIN, which together are a file with
one run of DP-SGD; `edited` replaces a part of a text. An *entry* is a [[mechanism]] table, `entry.spec` has the keys of its type
(dpcli/mechanisms/spec.py), and a *section* is a table such as [train] that describes a run for one command. Most of these rules find what a
file leaves open and composition depends on: whether two entries read one *sample* (the records of a step, drawn at random), whether
searches were counted, whether the disjoint *parts* of a partition were named before the data were seen. The TOML texts between the rules
extend the examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from dpcli.file.pipeline.model import OWN, Entry, Pipeline
from dpcli.file.pipeline.parts import entry_that_shows_blanks, part_names, sampling_differences
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries, steps_in
from dpcli.lint.sections import findings_where_on, has_cover_note
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Batched

# Normalised keys of sections that switch on a search for hyperparameters.
SEARCHES = frozenset(
    {"sweep", "grid", "grid_search", "param_grid", "random_search", "hyperparameter_search", "optuna", "search", "tune", "tuning"}
)
# Names of partitions whose parts are computed from the data.
DATA_DERIVED = re.compile("quantile|quartile|decile|percentile|median|cluster|k-?means", re.IGNORECASE)
LIST_INDEX = re.compile(r"\[[0-9]+\]$")  # the index at the end of the name of an entry that comes from a list of values

# Mechanisms of example files, in addition to TRAIN: a release of gradient norms, and a search that runs TRAIN.
NORMS = edited(edited(TRAIN, "train", "norms"), "1.1", "30.0")

SEARCH = """
[[mechanism]]
name = "search"
type = "repeat-and-select"
mechanism = "train"
trials = { distribution = "geometric", mean = 3 }
"""


def _uncounted_searches(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if has_cover_note(pipeline, "tuning"):
        return
    searches = [(path, entry) for path, entry in entries(pipeline) if entry.spec.selects]  # searches that dpcli prices
    for path, entry in searches:
        if entry.description is None:
            message = (
                "no description states the score that selects the best run: a score on public data, or one whose cost the entry of "
                "the trial includes, with an order that is fixed beforehand"
            )
            yield RuleFinding((*path, "mechanism"), message, "warning")
    if not searches:
        message = "every run of the search is a release: count all runs in the file and say so in train.covers.tuning"
        yield from findings_where_on(pipeline, SEARCHES, message)


def _adaptive_parameters(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if not pipeline.privacy.adaptive:
        return
    message = (
        "if later parameters depend on earlier outputs, only a privacy filter is a valid accountant: zCDP, or epsilon at delta 0"
    )
    if pipeline.budget is None:  # an adaptive file guarantees its cap, and nothing without one
        message += "; a filter needs a cap that is fixed beforehand, and [budget] states none"
        yield RuleFinding(("privacy", "adaptive"), message, "error")
    else:
        yield RuleFinding(("privacy", "adaptive"), message)


def _shared_samples(pipeline: Pipeline) -> Iterator[RuleFinding]:
    # The names of entries that other entries run, such as the trial of a search. Their samples are not ambiguous.
    run_by_others = {name for entry in pipeline.mechanisms for name in part_names(entry.spec)}
    entries_by_draw: dict[tuple[object, ...], list[tuple[Path, Entry]]] = {}
    for path, entry in entries(pipeline):
        scheme = entry.sampling
        is_unambiguous = entry.name in run_by_others or entry.sample == OWN
        # Without amplification, or at rate 1, it does not matter whether two mechanisms share a sample.
        if is_unambiguous or not isinstance(scheme, Batched) or not scheme.amplified:  # `Batched` schemes have a rate
            continue
        rate = scheme.exact_rate(pipeline.privacy.dataset_size)
        if rate is None or not 0 < rate < 1:
            continue
        steps = entry.steps if entry.epochs is None else ceil(steps_in(entry.epochs, rate))
        draw = (type(scheme), float(rate), steps, entry.partition)  # equal for entries that may read one sample
        entries_by_draw.setdefault(draw, []).append((path, entry))
    for same_sampling in entries_by_draw.values():
        yield from _ambiguous_samples(_first_of_each_list(same_sampling))


def _first_of_each_list(same_sampling: Sequence[tuple[Path, Entry]]) -> list[tuple[Path, Entry]]:
    """Return the entries, of those from one list of values only the first. The others are further stages of one mechanism."""
    first: dict[tuple[str, bool], tuple[Path, Entry]] = {}
    for path, entry in same_sampling:
        # A list in the table "train" makes the entries train[1], train[2] and so on. The table "train" without a list is another key.
        table, index_count = LIST_INDEX.subn("", entry.name)
        is_from_list = index_count > 0
        first.setdefault((table, is_from_list), (path, entry))
    return list(first.values())


def _ambiguous_samples(same_sampling: Sequence[tuple[Path, Entry]]) -> Iterator[RuleFinding]:
    """Yield a warning for each entry without `sample`, except for the entry with which the others are compared.

    This is the first entry that states a sample or, if none does, the first entry. The entries have equal sampling.
    """
    stated = [entry for _, entry in same_sampling if entry.sample is not None]
    first = stated[0] if stated else same_sampling[0][1]
    for path, entry in same_sampling:
        if entry.sample is not None or entry is first:
            continue
        keys = [key for key, *_ in sampling_differences(first, entry)]
        also = f" (and {' and '.join(keys)} in the same form)" if keys else ""
        message = (
            f'counted as a separate sample from that of "{first.name}", which has the same rate and number of steps: state the same '
            f'sample = "NAME" on both{also} if they read the same batch, or sample = "own" on one if they do not'
        )
        yield RuleFinding((*path, "sampling"), message)


def _partition_message(entry: Entry, contributions: int) -> str:
    """Return a message about the number of times that an entry with a partition is counted."""
    if contributions == 1:
        counted = "counted once for all parts"
    elif entry.spec.contribution_form:  # the noise is stated relative to the bound on the contribution of one record
        counted = f"counted once for all parts, with all {contributions} records of a unit in one part as the worst case"
    else:
        counted = f"counted {contributions} times, since the {contributions} records of a unit may lie in as many parts"
    return f"{counted}: the parts must be disjoint, and the part of a record must not depend on other records"


def _partitions(pipeline: Pipeline) -> Iterator[RuleFinding]:
    contributions = pipeline.privacy.max_contributions or 1
    for path, entry in entries(pipeline):
        if entry.partition is None:
            continue
        key = (*path, "partition")
        if pipeline.privacy.adjacency is Adjacency.REPLACE_ONE:
            message = "parallel composition needs add-remove or zero-out: a replaced record may move to another part"
            yield RuleFinding(key, message, "error")
        elif pipeline.privacy.adjacency is Adjacency.ZERO_OUT and entry_that_shows_blanks([entry]):
            message = "under zero-out parallel composition needs noise_multiplier: a blanked record may leave its part"
            yield RuleFinding(key, message, "error")
        elif isinstance(entry.partition, str) or DATA_DERIVED.search(entry.partition.of):  # a text names no parts
            yield RuleFinding(key, _partition_message(entry, contributions))
        elif contributions > 1:
            message = "a unit's records may lie in several parts: partition = { of, part } needs max_contributions = 1"
            yield RuleFinding(key, message, "error")


TUNING = RuleInfo(
    code="DP110",
    severity="error",
    title="hyperparameter search that is not accounted for",
    what="A section has a sweep, grid, search, hyperparameter_search, optuna, tune or tuning key switched on; "
    "train.covers.tuning does not say that the file counts its runs, and the file has no repeat-and-select mechanism. This is an "
    "error, because the printed epsilon covers fewer runs than were made. Or, as a warning, a repeat-and-select mechanism has no "
    "description that states the score that selects the best run.",
    why="The choice of the best run depends on the results of all runs. If only the chosen run is counted, epsilon is understated, in "
    "the worst case by a factor that grows with the number of runs. A score on private data whose cost is not counted can reveal a "
    "private bit: among a hundred runs of epsilon 0.01, it can select one whose output equals the bit.",
    fix='Make the search a mechanism: type = "repeat-and-select" runs one mechanism a random number of times and releases'
    " the best result, at two to three times the cost of one run. Or count every run in the file and set train.covers.tuning"
    " to a note that says where. Or search on public data.",
    source="Papernot & Steinke 2022, arXiv:2110.03620",
    bad=HEAD + TRAIN + SEARCH,
    good=HEAD + TRAIN + SEARCH + 'description = "kept by accuracy on public images"\n',
    check=_uncounted_searches,
)

ADAPTIVE = RuleInfo(
    code="DP112",
    waivable=False,
    title="parameters chosen from earlier outputs",
    what="privacy.adaptive is true. dpcli then uses only a privacy filter: zCDP or, at delta = 0, the sum of epsilons. The epsilon "
    "may be larger than without adaptivity. The guarantee is the cap in [budget], which must be fixed before the first output. dpcli "
    "prints this cap as the epsilon, with a warning. Without a cap there is no guarantee, which is an error.",
    why="Most composition theorems assume that all parameters are fixed in advance. If an earlier output decides about a "
    "later noise scale or the number of steps, their bounds may fail.",
    fix="Fix all parameters before the first release and set adaptive = false; or keep adaptive = true and state a cap in [budget]; or "
    "charge each run to a ledger when it is chosen (dpcli budget).",
    source="Rogers et al. 2016, arXiv:1605.08294; arXiv:2602.06756",
    bad=HEAD + "adaptive = true\n" + TRAIN,
    good=HEAD + "adaptive = false\n" + TRAIN,
    check=_adaptive_parameters,
)

SAME_SAMPLE = RuleInfo(
    code="DP120",
    title="two mechanisms that may read one sample",
    what="Two mechanisms have the same sampling scheme, rate and number of steps, and the file does not say whether they share "
    "a sample: at least one of them has no key `sample`. An entry draws its own sample, unless it names a sample or a composed entry names "
    "it. Entries from one list of values are stages of one mechanism, and there is no warning about two of them.",
    why="If two releases are made from one batch, a record is in both or in neither. They must be composed inside the sample, before "
    "amplification by sampling. If they are counted as two samples, a run that releases gradients and a norm from each batch prints an "
    "epsilon that may be half of the true one.",
    fix='If both read the same batch, state the same sample = "NAME" on both, with the same sampling and steps. If each draws its own '
    'batch, state sample = "own" on one of them, or on both.',
    source="Zhu, Dong & Wang 2022, arXiv:2106.08567, theorems 10 and 11, which hold for the composition on one sample",
    bad=HEAD + TRAIN + NORMS,
    good=HEAD + TRAIN + 'sample = "batch"\n' + NORMS + 'sample = "batch"\n',
    check=_shared_samples,
)

PARTITION = RuleInfo(
    code="DP119",
    title="parallel composition",
    what="A mechanism is counted once for all parts of a partition. It is a warning if the parts are not named, or are drawn by quantiles "
    "or clusters; parts that are named with { of, part } pass. The max_contributions records of a unit may lie in as many parts. A "
    "mechanism with a stated sensitivity or guarantee is then counted max_contributions times. A mechanism with noise_multiplier is "
    "counted once, with all records of a unit in one part. It is an error to use a partition under replace-one, or under zero-out without "
    "noise_multiplier, or in the form { of, part } if a unit may contribute several records.",
    why="One cost for all parts is valid only if each record is in one part and its part depends on this record alone. "
    "If parts overlap or depend on the data (quantiles, clusters), one record can change several results. A replaced or blanked record can "
    "leave one part and enter another, so that two parts change. A unit with several records can have a record in every part.",
    fix="Split by an attribute of the record itself, check that the parts are disjoint when the data are read, and use add-remove, or "
    "zero-out with noise_multiplier. Name the parts with { of, part }. Or drop the key and count the run on every part in steps.",
    source="McSherry 2009, Privacy Integrated Queries, SIGMOD, theorem 4",
    bad=HEAD + edited(TRAIN, "steps = 1000", 'steps = 1000\npartition = "region"'),
    good=HEAD + TRAIN,
    check=_partitions,
)


# The end of a name that marks a repetition, such as "-retry" or " (2)".
AGAIN = re.compile(r"[-_ .]+\(?(?:again|retry|retried|repeat|repeated|rerun|copy|bis|[2-9])\)?$", re.IGNORECASE)


def _repeated_questions(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.releases != "outputs":
        return
    # Types that never use private data (`free`) answer nothing.
    questions = [(path, entry, _question(entry)) for path, entry in entries(pipeline) if not entry.spec.free]
    questions_with_names = {(question, entry.name) for _, entry, question in questions}
    name_of_described: dict[tuple[Entry, str], str] = {}  # the first name for each question with a description
    for path, entry, question in questions:
        first = AGAIN.sub("", entry.name)  # the name under which the question was asked first
        repeats_name = first != entry.name and (question, first) in questions_with_names
        if not repeats_name:  # then the description may show that the question was asked before
            first = entry.name
            if entry.description:
                first = name_of_described.setdefault((question, entry.description), entry.name)
        if first != entry.name:
            message = f'the same as mechanism["{first}"] with fresh noise, which averages out: publish the first answer again'
            yield RuleFinding((*path, "name"), message)


def _question(entry: Entry) -> Entry:
    """Return an entry without its name and description, so that entries that ask the same question are equal."""
    return replace(entry, name="", description=None)


COUNTS = """
[[mechanism]]
name = "sign-ups"
type = "discrete-laplace"
scale = 20.0
sensitivity = 1
"""

OUTPUTS = HEAD.replace("final-model", "outputs")

ASKED_AGAIN = RuleInfo(
    code="DP213",
    title="the same question answered again with fresh noise",
    what='Under releases = "outputs", two mechanisms agree in every key but their names, and have the same description, or '
    'names that differ by a trailing "again", "retry", "copy" or number. It is a warning, because dpcli charges both answers.',
    why="The average of k answers to one question has less noise, by a factor of the square root of k, and every answer costs budget. "
    "This happens if a job fails after its noise was drawn and is started again.",
    fix="Keep the first answer and publish it again (a ledger ensures this by an idempotency key). Or state in the descriptions how the "
    "questions differ.",
    source="Dinur & Nissim 2003, Revealing Information while Preserving Privacy, PODS; Dwork & Roth 2014, section 8",
    bad=OUTPUTS + COUNTS + COUNTS.replace("sign-ups", "sign-ups-retry"),
    good=OUTPUTS + COUNTS + COUNTS.replace("sign-ups", "log-ins"),
    check=_repeated_questions,
)
