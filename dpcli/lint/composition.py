"""Rules about what is added up, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpcli.lint.rule import HEAD, TRAIN, Finding, RuleInfo, edited, entries
from dpcli.lint.settings import covered, section, switched_on
from dpcli.mechanisms.base import Adjacency
from dpcli.pipeline.model import Pipeline

SEARCHES = frozenset(
    {"sweep", "grid", "grid_search", "param_grid", "random_search", "hyperparameter_search", "optuna", "search", "tune", "tuning"}
)
DATA_DERIVED = re.compile("quantile|quartile|decile|percentile|median|cluster|k-?means", re.IGNORECASE)


def _tuning(pipeline: Pipeline) -> Iterator[Finding]:
    if covered(pipeline, "tuning") or any(entry.type == "repeat-and-select" for entry in pipeline.mechanisms):
        return
    message = "every run of the search is a release: count them all in the file and say so in train.covers.tuning"
    yield from switched_on(pipeline, SEARCHES, message)


def _adaptive(pipeline: Pipeline) -> Iterator[Finding]:
    if pipeline.privacy.adaptive:
        yield Finding(
            ("privacy", "adaptive"),
            "where later parameters depend on earlier outputs, only valid filters may add up: basic, zCDP and Gaussian accountants",
        )


def _partition(pipeline: Pipeline) -> Iterator[Finding]:
    for path, entry in entries(pipeline):
        if entry.partition is None:
            continue
        key = (*path, "partition")
        if pipeline.privacy.adjacency is Adjacency.REPLACE_ONE:
            message = "parallel composition needs add-remove or zero-out: a record that is replaced may move to another part"
            yield Finding(key, message, "error")
        elif isinstance(entry.partition, str) or DATA_DERIVED.search(entry.partition.of):
            message = "counted once for all parts: they must be disjoint, and each record's part must not depend on other records"
            yield Finding(key, message)
        elif (pipeline.privacy.max_contributions or 1) > 1:
            message = (
                "a unit that may own several records may have them in several parts: partition = { of, part } needs one per unit"
            )
            yield Finding(key, message, "error")


TUNING = RuleInfo(
    code="DP110",
    severity="error",
    waivable=True,
    title="hyperparameter search that is not accounted for",
    what="A section has a sweep, grid, search, hyperparameter_search, optuna, tune or tuning key switched on; "
    "train.covers.tuning does not say that the file counts its runs, and no repeat-and-select mechanism stands in the"
    " file. An error: the printed epsilon covers fewer runs than were made.",
    why="The choice of the best run depends on every run's data. Counting the chosen run alone understates epsilon, in "
    "the worst case by a factor that grows with the number of runs.",
    fix='Make the search a mechanism: type = "repeat-and-select" runs one mechanism a random number of times and releases'
    " the best, at two to three times the cost of one run. Or count every run in the file and set train.covers.tuning"
    " to a note that says where; or search on public data.",
    source="Papernot & Steinke 2022, arXiv:2110.03620",
    bad=HEAD + TRAIN + section({"grid": "{ learning_rate = [0.1, 0.3, 1.0] }"}),
    good=HEAD + edited(TRAIN, "steps = 1000", "steps = 3000") + section({"covers": '{ tuning = "steps counts all three runs" }'}),
    check=_tuning,
)

ADAPTIVE = RuleInfo(
    code="DP112",
    severity="warning",
    waivable=False,
    title="parameters chosen from earlier outputs",
    what="privacy.adaptive is true. dpcli then adds up with the basic, zCDP and Gaussian accountants only, which are valid"
    " privacy filters, and leaves the others out; epsilon may be larger than without adaptivity. Hence a warning: to "
    "add up with the others would be the error.",
    why="Most composition theorems fix every mechanism's parameters in advance. Where an earlier output decides a "
    "later noise scale or the number of steps, their bound need not hold.",
    fix="Fix all parameters before the first release and set adaptive = false; or keep true and accept the accountants "
    "that remain.",
    source="Rogers et al. 2016, arXiv:1605.08294; arXiv:2602.06756",
    bad=HEAD + "adaptive = true\n" + TRAIN,
    good=HEAD + "adaptive = false\n" + TRAIN,
    check=_adaptive,
)

PARTITION = RuleInfo(
    code="DP119",
    severity="warning",
    waivable=True,
    title="parallel composition",
    what="A mechanism is counted once for all parts of a partition whose parts are not named, or are drawn by quantiles "
    "or clusters (a warning; parts that are named with { of, part } pass). Under replace-one any partition is an error, "
    "and so is { of, part } where a unit may own several records.",
    why="One cost for all parts holds only where each record is in one part and its part depends on itself alone. "
    "Parts that overlap, or that are drawn by looking at the data (quantiles, clusters), let one record change "
    "several results. A replaced record can leave one part and enter another, which changes two; a unit with several "
    "records can have one in every part.",
    fix="Split by an attribute of the record itself, check disjointness where the data is read, and use add-remove or "
    "zero-out; name the parts with { of, part }; or drop the key and state every part's run as steps.",
    source="McSherry 2009, Privacy Integrated Queries, SIGMOD, theorem 4",
    bad=HEAD + edited(TRAIN, "steps = 1000", 'steps = 1000\npartition = "region"'),
    good=HEAD + TRAIN,
    check=_partition,
)
