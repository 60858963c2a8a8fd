"""Rules about what names, descriptions and [disclosure] say in words, where the keys say something else. Words prove nothing: they warn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import sqrt

from dpcli.lint.rule import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries
from dpcli.lint.settings import says, spelled
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.spec import Spec
from dpcli.pipeline.model import Entry, Pipeline
from dpcli.toml.findings import Path

L2 = r"(?:\bL_?2|\u2113_?2|L\u2082|\u2113\u2082|\beuclidean)[ -](?:sensitivity|norm|bound|clipp)"
L1 = r"\bL_?1\b|\u2113_?1|L\u2081|\u2113\u2081"
HISTOGRAM = r"\bhistograms?\b|\bcontingency tables?\b"
UNCOUNTED = r"\bnot (?:been )?(?:counted|accounted|charged)\b|\b(?:uncounted|unaccounted)\b"
FREE = r"\b(?:public|synthetic|simulated|none)\b|(?<!not )\b(?:counted|charged|accounted for) (?:in|by|to|as|on)\b"  # or counted elsewhere
# The size is called confidential, and not the records or what one of them holds.
SECRET = r"(?<!\bnot )(?<!\bno )(?:confidential|secret|not public)"
SECRET_SIZE = (
    rf"\b(?:size|number|count)\b(?:(?!\b(?:per|each|every)\b)[^.;]){{0,40}}\b{SECRET}(?=$|[.,;:)\]]| and\b| but\b)|"
    r"\b(?:confidential|secret) (?:data ?set )?(?:size|number|count)\b"
)
LARGE_NUMBER = r"\b\d{1,3}(?:[,_ ]\d{3})+\b|\b\d{5,}\b"  # no year


def _other_norm(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        moved = getattr(entry.spec, "sensitivity", None)
        if getattr(entry.spec, "scale", None) is None or moved is None:
            continue
        if _worded(L2, entry) and not _worded(L1, entry):
            message = f'its description speaks of an L2 norm, and "{entry.type}" noise needs the L1 sensitivity, which is larger'
            yield RuleFinding((*path, "sensitivity"), message)
        elif (whole := _root_of(moved)) is not None:
            message = f'{moved:g} is the root of {whole}, as an L2 norm is, and "{entry.type}" noise needs the L1 sensitivity'
            yield RuleFinding((*path, "sensitivity"), f"{message}, which may be {whole}")


def _root_of(value: float) -> int | None:
    """The whole number, 10 at most and no square, of which this is the root to three decimals or more."""
    decimals = len(f"{value:.12g}".partition(".")[2])
    return next((whole for whole in (2, 3, 5, 6, 7, 8, 10) if decimals >= 3 and abs(value - sqrt(whole)) < 1e-3), None)


def _one_bin(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.adjacency is not Adjacency.REPLACE_ONE:
        return
    for path, entry in entries(pipeline):
        key, needed = _sensitivity(entry.spec)
        if key and _worded(HISTOGRAM, entry):
            message = (
                f"a replaced record leaves one bin of a histogram and enters another: expected a sensitivity of {needed}, found 1"
            )
            yield RuleFinding((*path, key), message)


def _sensitivity(spec: Spec) -> tuple[str, str]:
    """The key that says 1 of a vector, and what it would have to be for two bins; empty where there is none."""
    needed = "2 (L1)" if getattr(spec, "scale", None) is not None else "1.41422 (L2)"
    single = getattr(spec, "dimension", None) == 1
    keys = [key for key in ("sensitivity", "l2_sensitivity") if not single and getattr(spec, key, None) == 1]
    return (keys[0], needed) if keys else ("", "")


def _worded(pattern: str, entry: Entry) -> bool:
    return says(pattern, re.sub("[-_]", " ", entry.name), entry.description)


def _uncounted(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, text in _on_tuning(pipeline):
        if says(UNCOUNTED, text) and not says(FREE, text):
            message = (
                f'"{_cut(text)}": every run on the private data is a release, and the printed epsilon leaves these out: count them, '
                "or search on public data"
            )
            yield RuleFinding(path, message)


def _on_tuning(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """What the file says of the search for settings."""
    if pipeline.disclosure.tuning is not None:
        yield ("disclosure", "tuning"), pipeline.disclosure.tuning
    for section, table in pipeline.sections:
        for key, notes in table.items():
            if spelled(key) == "covers" and isinstance(notes, Mapping):
                yield from (
                    ((section, key, note), text) for note, text in notes.items() if note == "tuning" and isinstance(text, str)
                )


def _secret_size(pipeline: Pipeline) -> Iterator[RuleFinding]:
    text, size = pipeline.disclosure.data, pipeline.privacy.dataset_size
    if text is not None and says(SECRET_SIZE, text) and (size is not None or says(LARGE_NUMBER, text)):
        stated = "this text says a number" if size is None else f"dataset_size = {size:,} is declared public"
        yield RuleFinding(("disclosure", "data"), f'"{_cut(text)}": {stated}, and every reader of the file or its report sees it')


def _cut(text: str) -> str:
    from dpcli.toml.shown import escaped

    line = escaped(" ".join(text.split()))
    return line if len(line) <= 80 else line[:77] + "..."


TWO_BINS = """
[[mechanism]]
name = "two-bins"
type = "laplace"
scale = 20.0
sensitivity = 2.0
description = "two bins, L1 sensitivity 2"
"""

HISTOGRAM_OF_AGES = """
[[mechanism]]
name = "ages"
type = "discrete-laplace"
scale = 20.0
sensitivity = 2
description = "histogram of ages in years"
"""

SEARCHED = """
[disclosure]
tuning = "50 runs, counted in steps"
"""

PATIENTS = """
[disclosure]
data = "patients of one clinic, about 60,000, a number that the clinic publishes"
"""

OTHER_NORM = RuleInfo(
    code="DP124",
    severity="warning",
    waivable=True,
    title="Laplace noise for an L2 sensitivity",
    what="A laplace or discrete-laplace mechanism states a sensitivity, and its name or description speaks of an L2 (Euclidean) "
    "sensitivity, norm or bound and not of L1; or the sensitivity is the root of 2, 3, 5, 6, 7, 8 or 10 to three decimals. A warning, as "
    "both norms of one number are the same.",
    why="Laplace noise hides a move of the L1 norm. In d coordinates that is up to sqrt(d) times the L2 norm, and the true epsilon as many "
    "times the printed one.",
    fix="State the L1 sensitivity, the sum of the moves of all coordinates; or use gaussian noise, which needs the L2 sensitivity.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, definition 3.1 and theorem 3.6",
    bad=HEAD + edited(edited(TWO_BINS, "L1 sensitivity 2", "L2 sensitivity"), "2.0", "1.41422"),
    good=HEAD + TWO_BINS,
    check=_other_norm,
)

ONE_BIN = RuleInfo(
    code="DP125",
    severity="warning",
    waivable=True,
    title="a histogram under replace-one with sensitivity 1",
    what="Under replace-one, a mechanism whose name or description says histogram or contingency table states a sensitivity of 1, and not "
    "dimension = 1. A warning, as the words do not prove that it is one.",
    why="A record that is replaced leaves one bin and enters another: two counts move by 1. That is 2 in L1, for Laplace noise, and "
    "1.41422 in L2, for Gaussian noise; with 1 the printed epsilon is half of the true one, or 0.7 of it.",
    fix="State sensitivity = 2 for Laplace noise, 1.41422 for Gaussian noise (l2_sensitivity of discrete-gaussian); or adjacency = "
    '"add-remove" if that is what is promised.',
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 3.3; NIST SP 800-226 (2025), on units of "
    "privacy",
    bad=edited(HEAD, "add-remove", "replace-one") + edited(HISTOGRAM_OF_AGES, "= 2\n", "= 1\n"),
    good=edited(HEAD, "add-remove", "replace-one") + HISTOGRAM_OF_AGES,
    check=_one_bin,
)

UNCOUNTED_RUNS = RuleInfo(
    code="DP126",
    severity="warning",
    waivable=True,
    title="runs that the file says are not counted",
    what="disclosure.tuning, or the note on tuning in a covers table, says that runs are not counted (not accounted, not charged), and "
    "does not speak of public or synthetic data. A warning, as whoever says so is honest.",
    why="The best of 50 runs depends on what all of them saw. A signed epsilon that counts one of them is below the true one.",
    fix='Count every run in the file, or make the search a mechanism (type = "repeat-and-select"; dpcli explain DP110); or search on '
    "public data and say so.",
    source="Papernot & Steinke 2022, arXiv:2110.03620",
    bad=HEAD + TRAIN + edited(SEARCHED, "counted in steps", "not counted"),
    good=HEAD + TRAIN + SEARCHED,
    check=_uncounted,
)

SECRET_SIZES = RuleInfo(
    code="DP310",
    severity="warning",
    waivable=True,
    title="a size that is called confidential and stated",
    what="disclosure.data says that the size or number of the data is confidential, secret or not public, while the file states "
    "dataset_size or the text itself a large number.",
    why="dataset_size is declared public: it stands in the file, its report and the check of delta. Under add-remove the number of records "
    "is private, and to publish it exactly tells whether one record is there.",
    fix="State a public number, such as a rounded upper bound (with rate in place of batch_size), or release a noisy count as a mechanism; "
    "or drop the word.",
    source="NIST SP 800-226 (2025), on units of privacy; Ponomareva et al. 2023, arXiv:2303.00654, section 5.3.3",
    bad=HEAD + TRAIN + edited(PATIENTS, "that the clinic publishes", "that is confidential"),
    good=HEAD + TRAIN + PATIENTS,
    check=_secret_size,
)
