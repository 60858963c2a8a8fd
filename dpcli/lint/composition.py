"""Rules about composition: tuning, adaptivity, shared samples, partitions, and repeated questions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from dpcli.file.pipeline.model import OWN, Entry, Pipeline
from dpcli.file.pipeline.parts import marked_by_a_blank
from dpcli.file.pipeline.parts import named as parts_named
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries
from dpcli.lint.sections import findings_where_on, has_cover_note
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Batched

SEARCHES = frozenset(
    {"sweep", "grid", "grid_search", "param_grid", "random_search", "hyperparameter_search", "optuna", "search", "tune", "tuning"}
)
DATA_DERIVED = re.compile("quantile|quartile|decile|percentile|median|cluster|k-?means", re.IGNORECASE)
PLACE = re.compile(r"\[[0-9]+\]$")  # the index at the end of an entry's name, if the entry is made by a list of values

NORMS = edited(edited(TRAIN, "train", "norms"), "1.1", "30.0")

SEARCH = """
[[mechanism]]
name = "search"
type = "repeat-and-select"
mechanism = "train"
trials = { distribution = "geometric", mean = 3 }
"""


def _tuning(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if has_cover_note(pipeline, "tuning"):
        return
    searches = [(path, entry) for path, entry in entries(pipeline) if entry.spec.selects]
    for path, entry in searches:
        if entry.description is None:
            message = (
                "no description says by which score the best run is kept: one on public data, or one that the trial's entry prices, in an "
                "order that is fixed beforehand"
            )
            yield RuleFinding((*path, "mechanism"), message, "warning")
    if not searches:
        message = "every run of the search is a release: count them all in the file and say so in train.covers.tuning"
        yield from findings_where_on(pipeline, SEARCHES, message)


def _adaptive(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.adaptive:
        message = (
            "where later parameters depend on earlier outputs, only one privacy filter may add up: zCDP, or epsilon at delta = 0"
        )
        if pipeline.budget is None:
            yield RuleFinding(
                ("privacy", "adaptive"), f"{message}; and it bounds a cap fixed beforehand, which [budget] does not state", "error"
            )
        else:
            yield RuleFinding(("privacy", "adaptive"), message)


def _same_sample(pipeline: Pipeline) -> Iterator[RuleFinding]:
    named = {name for entry in pipeline.mechanisms for name in parts_named(entry.spec)}
    alike: dict[tuple[object, ...], list[tuple[Path, Entry]]] = {}
    for path, entry in entries(pipeline):
        scheme = entry.sampling
        rate = scheme.exact_rate(pipeline.privacy.dataset_size) if isinstance(scheme, Batched) else None
        if entry.name in named or rate is None or not 0 < rate < 1 or not getattr(scheme, "amplified", True) or entry.sample == OWN:
            continue
        steps = entry.steps if entry.epochs is None else ceil(Fraction(repr(entry.epochs)) / rate)
        alike.setdefault((type(scheme), float(rate), steps, entry.partition), []).append((path, entry))
    for members in alike.values():
        yield from _unsaid(_one_of_each_list(members))


def _one_of_each_list(alike: Sequence[tuple[Path, Entry]]) -> list[tuple[Path, Entry]]:
    """Return the entries with only the first of each list of values. The others are further stages of the same mechanism."""
    first: dict[tuple[str, bool], tuple[Path, Entry]] = {}
    for path, entry in alike:
        table, places = PLACE.subn("", entry.name)
        first.setdefault((table, bool(places)), (path, entry))
    return list(first.values())


def _unsaid(alike: Sequence[tuple[Path, Entry]]) -> Iterator[RuleFinding]:
    """Yield a warning for each entry that has the sampling of an earlier one and does not say whether they share a sample."""
    unsaid = [(path, entry) for path, entry in alike if entry.sample is None]
    first = unsaid[0][1] if len(unsaid) == len(alike) else next(entry for _, entry in alike if entry.sample is not None)
    for path, entry in unsaid:
        if entry is not first:
            from dpcli.file.pipeline.parts import differing

            keys = [key for key, *_ in differing(first, entry)]
            also = f" (and {' and '.join(keys)} in the same words)" if keys else ""
            message = (
                f'priced as a sample separate from "{first.name}", which has the same rate and as many steps: state the same '
                f'sample = "NAME" on both{also} if they read one batch, sample = "own" on one if they do not'
            )
            yield RuleFinding((*path, "sampling"), message)


def _charged(entry: Entry, contributions: int) -> str:
    """Return a message about how often `resolve` counts an entry with a partition."""
    if contributions == 1:
        counted = "counted once for all parts"
    elif entry.spec.contribution_form:
        counted = f"counted once for all parts, at {contributions} records of a unit in one part, which is the worst case"
    else:
        counted = f"counted {contributions} times for all parts, since the {contributions} records of a unit may lie in as many"
    return f"{counted}: they must be disjoint, and each record's part must not depend on other records"


def _partition(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        if entry.partition is None:
            continue
        key = (*path, "partition")
        if pipeline.privacy.adjacency is Adjacency.REPLACE_ONE:
            message = "parallel composition needs add-remove or zero-out: a record that is replaced may move to another part"
            yield RuleFinding(key, message, "error")
        elif pipeline.privacy.adjacency is Adjacency.ZERO_OUT and marked_by_a_blank([entry]):
            message = "under zero-out parallel composition needs noise_multiplier: a record that is blanked may leave its part"
            yield RuleFinding(key, message, "error")
        elif isinstance(entry.partition, str) or DATA_DERIVED.search(entry.partition.of):
            yield RuleFinding(key, _charged(entry, pipeline.privacy.max_contributions or 1))
        elif (pipeline.privacy.max_contributions or 1) > 1:
            message = "a unit's records may lie in several parts: partition = { of, part } needs max_contributions = 1"
            yield RuleFinding(key, message, "error")


TUNING = RuleInfo(
    code="DP110",
    severity="error",
    title="hyperparameter search that is not accounted for",
    what="A section has a sweep, grid, search, hyperparameter_search, optuna, tune or tuning key switched on; "
    "train.covers.tuning does not say that the file counts its runs, and no repeat-and-select mechanism stands in the"
    " file. An error: the printed epsilon covers fewer runs than were made. Or, as a warning, a repeat-and-select mechanism has no "
    "description that says by which score the best run is kept.",
    why="The choice of the best run depends on every run's data. Counting the chosen run alone understates epsilon, in "
    "the worst case by a factor that grows with the number of runs. A score that looks at private data and was not priced with the run can "
    "tell a private bit: of a hundred runs of epsilon 0.01, the one is kept that equals it.",
    fix='Make the search a mechanism: type = "repeat-and-select" runs one mechanism a random number of times and releases'
    " the best, at two to three times the cost of one run. Or count every run in the file and set train.covers.tuning"
    " to a note that says where; or search on public data.",
    source="Papernot & Steinke 2022, arXiv:2110.03620",
    bad=HEAD + TRAIN + SEARCH,
    good=HEAD + TRAIN + SEARCH + 'description = "kept by accuracy on public images"\n',
    check=_tuning,
)

ADAPTIVE = RuleInfo(
    code="DP112",
    waivable=False,
    title="parameters chosen from earlier outputs",
    what="privacy.adaptive is true. dpcli then adds up with one privacy filter, zCDP (at delta = 0 the sum of epsilons), and leaves "
    "the others out; epsilon may be larger than without adaptivity. What holds is the cap in [budget], fixed before the first output: "
    "it is the epsilon that dpcli prints, with a warning; without one there is none, which is an error.",
    why="Most composition theorems fix every mechanism's parameters in advance. Where an earlier output decides a "
    "later noise scale or the number of steps, their bound need not hold.",
    fix="Fix all parameters before the first release and set adaptive = false; or keep true with a cap in [budget]; or charge each run to "
    "a ledger as it is chosen (dpcli budget).",
    source="Rogers et al. 2016, arXiv:1605.08294; arXiv:2602.06756",
    bad=HEAD + "adaptive = true\n" + TRAIN,
    good=HEAD + "adaptive = false\n" + TRAIN,
    check=_adaptive,
)

SAME_SAMPLE = RuleInfo(
    code="DP120",
    title="two mechanisms that may read one sample",
    what="Two mechanisms are sampled in the same way, at the same rate and for as many steps, and the file does not say whether they share "
    "a sample: one has no sample, the other none either or that of further entries. The entries of one list of values are stages of one "
    "mechanism, and are not asked about among themselves. Every entry draws a sample of its own, unless it "
    "states one by name or a composed entry names it.",
    why="Where two releases are made from one batch, a record is in both or in neither: the two add up inside the sample, before "
    "its amplification. Priced as two samples, a run that releases gradients and a norm from each batch prints an epsilon that "
    "can be half of what it leaks.",
    fix='Where they read one batch: state the same sample = "NAME" on both, with the same sampling and steps. Where each draws its own: '
    'state sample = "own" on one of them, or on both.',
    source="Zhu, Dong & Wang 2022, arXiv:2106.08567, theorems 10 and 11, which hold for the composition on one sample",
    bad=HEAD + TRAIN + NORMS,
    good=HEAD + TRAIN + 'sample = "batch"\n' + NORMS + 'sample = "batch"\n',
    check=_same_sample,
)

PARTITION = RuleInfo(
    code="DP119",
    title="parallel composition",
    what="A mechanism is counted once for all parts of a partition whose parts are not named, or are drawn by quantiles "
    "or clusters (a warning; parts that are named with { of, part } pass). The max_contributions records of a unit may lie in "
    "as many parts: a mechanism with a stated sensitivity or guarantee then counts max_contributions times, one with noise_multiplier "
    "once for all of a unit's records in one part. Under replace-one any partition is an error, under zero-out one without "
    "noise_multiplier, and so is { of, part } where a unit may contribute several records.",
    why="One cost for all parts holds only where each record is in one part and its part depends on itself alone. "
    "Parts that overlap, or that are drawn by looking at the data (quantiles, clusters), let one record change "
    "several results. A record that is replaced or blanked can leave one part and enter another, which changes two; a unit with several "
    "records can have one in every part.",
    fix="Split by an attribute of the record itself, check disjointness where the data is read, and use add-remove, or "
    "zero-out with noise_multiplier; name the parts with { of, part }; or drop the key and state every part's run as steps.",
    source="McSherry 2009, Privacy Integrated Queries, SIGMOD, theorem 4",
    bad=HEAD + edited(TRAIN, "steps = 1000", 'steps = 1000\npartition = "region"'),
    good=HEAD + TRAIN,
    check=_partition,
)


AGAIN = re.compile(r"[-_ .]+\(?(?:again|retry|retried|repeat|repeated|rerun|copy|bis|[2-9])\)?$", re.IGNORECASE)


def _asked_again(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.releases != "outputs":
        return
    questions = [(path, entry, _question(entry)) for path, entry in entries(pipeline) if not entry.spec.free]
    named = {(question, entry.name) for _, entry, question in questions}
    described: dict[tuple[Entry, str], str] = {}
    for path, entry, question in questions:
        first = AGAIN.sub("", entry.name)
        if first == entry.name or (question, first) not in named:
            first = described.setdefault((question, entry.description), entry.name) if entry.description else entry.name
        if first != entry.name:
            message = f'the same as mechanism["{first}"] with fresh noise, which averages out: publish the first answer again'
            yield RuleFinding((*path, "name"), message)


def _question(entry: Entry) -> Entry:
    """Return the question without its name."""
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
    'names that differ by a trailing "again", "retry", "copy" or number. A warning, as dpcli charges both; not to charge the '
    "second would be the error.",
    why="Answers to one question average out: after k of them the noise is smaller by the square root of k, and every "
    "answer is paid for. Jobs that failed after the noise was drawn, and were started again, are how this happens.",
    fix="Keep the first answer and publish it again (an idempotency key in the ledger does that); or say in the "
    "descriptions how the questions differ.",
    source="Dinur & Nissim 2003, Revealing Information while Preserving Privacy, PODS; Dwork & Roth 2014, section 8",
    bad=OUTPUTS + COUNTS + COUNTS.replace("sign-ups", "sign-ups-retry"),
    good=OUTPUTS + COUNTS + COUNTS.replace("sign-ups", "log-ins"),
    check=_asked_again,
)
