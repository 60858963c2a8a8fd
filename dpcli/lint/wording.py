"""Rules about names and texts that contradict the keys or admit a fault. All are warnings, because words prove nothing.

A rule is a `RuleInfo` (rule_info.py) with a function that searches texts by patterns such as HISTOGRAM or SECRET_SIZE, and reports, for
example, an L2 norm where noise is for L1, or a histogram with sensitivity 1 under replace-one. The patterns are written for silence: a text
that may mean something else should get no warning, because people switch off a rule that accuses right files. Before changing a pattern,
add the sentence that fooled it to the tests. An *entry* is a [[mechanism]] table. Examples are built from HEAD and TRAIN, which together
are a file with one run of DP-SGD; `edited` replaces a part of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries
from dpcli.lint.sections import entry_mentions, mentions, normalized
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.spec import Spec

LONGEST_QUOTE = 80  # largest number of characters of a text in a message; arbitrary

# Patterns. They match upper and lower case. Beside each long one: a text that matches, and a text that does not.
# Matches "L2 norm 1", "euclidean bound"; does not match "not an L2 norm", "L2 regularisation".
L2 = r"(?<!\bnot an )(?<!\bnot the )(?:\bL_?2|\u2113_?2|L\u2082|\u2113\u2082|\beuclidean)[ -](?:sensitivity|norm|bound|clipp)"
L1 = r"\bL_?1\b|\u2113_?1|L\u2081|\u2113\u2081"
# Texts about released norms. These are single numbers, whose L1 and L2 sensitivities are equal.
# Matches "mean L2 norm of the gradients"; does not match "mean L2 norm bound".
OF_NORMS = r"\bnorms\b|\b(?:mean|average|median|quantile|largest|maximum) (?:L_?2|euclidean) norm\b(?![ -](?:clip|bound))"
# Matches "noisy embeddings"; does not match "a single number".
VECTOR = r"\bvectors?\b|\bcoordinates?\b|\bembeddings?\b|\bgradients?\b|\bbins?\b|\bhistograms?\b|\bL_?2\b|\beuclidean\b"
ROOTED = r"\broots?\b|\bsqrt\b"  # the records may be roots themselves
# Matches "histogram of ages"; does not match "not a histogram".
HISTOGRAM = r"(?<!\bno )(?<!\bnot a )(?<!\bnot the )(?:\bhistograms?\b|\bcontingency tables?\b)"
# Texts about one number of a histogram, which moves by 1, or about bins that count half, which together move by 1.
# Matches "largest bin"; does not match "histogram of ages".
OF_ONE_BIN = (
    # one number of a histogram: "total of the histogram", "one of the bins"
    r"\b(?:total|largest|smallest|one bin|(?:one|sum|mean|median|mode) of)\b[^.;]*\b(?:histogram|bins?)\b|"
    r"\bhistogram's (?:total|sum|mean|largest)\b|"  # "histogram's total"
    r"\bnumber of (?:\w+[ -])?bins\b|"  # "number of empty bins"
    r"\b(?:by|with) (?:one |a )?half(?=$|[.,;:)])|\bhalved\b|\bby 0\.5\b"  # "weighted by one half", "halved", "multiplied by 0.5"
)
# Matches "runs", "tuning runs", "grid search trials on our private data"; does not match "run".
RUNS = (
    r"(?:tuning |(?:random[ -]|grid[ -])?search |hyper-?parameter |training |other |more |further |earlier )?"
    r"(?:runs|trials|experiments)(?: on (?:the |our )?private data)?"
)
CLAUSE_ENDS = r"(?=\s*(?:$|[.,;:)]))"
# Matches "50 runs, not counted"; does not match "50 runs, counted in steps", "50 runs, not counted twice".
UNCOUNTED = (
    # the number, the runs, and a link: "several tuning runs that were "
    rf"\b(?:\d[\d,_]*|several|many) {RUNS}(?:[,:]| -)?(?: that| which)?(?: are| were| have)? "
    # what was not done: "not been charged", "(unaccounted for"
    r"\(?(?:not (?:been )?(?:counted|accounted for|charged)|uncounted|unaccounted(?: for)?)"
    # where it was not done, and the end of the clause: " in the privacy budget."
    rf"(?: (?:to|in|against) (?:the |this )?(?:public |privacy )?(?:budget|epsilon))?{CLAUSE_ENDS}|"
    # or the other order: "none of the 50 trials were counted."
    rf"\bnone of (?:the |these )?(?:\d[\d,_]* )?{RUNS} (?:is|are|was|were) (?:counted|accounted for|charged){CLAUSE_ENDS}"
)
# Runs that cost nothing, on public data or on a dataset with a name, and runs that are counted elsewhere.
# Matches "on synthetic data", "on CIFAR-10", "charged to the ledger"; does not match "not counted in epsilon", "public budget".
FREE = (
    r"\bpublic\b(?! budget)|\b(?:synthetic|simulated|dummy|toy|mock|no (?:private )?data|costs? (?:is|are) in)\b|\bon (?-i:[A-Z])|"
    r"(?<!not )\b(?:counted|charged|accounted for) (?:in|by|to|as|on)\b"
)
# Texts that call the size of the data confidential, and not the records or their content.
PEOPLE = (
    r"records|examples|rows|patients|users|people|persons|individuals|customers|clients|members|participants|subjects|households"
)
# Matches "the number of patients is confidential"; does not match "the records are confidential", "the size is confidential information".
SECRET_SIZE = (
    # a size: "the size of the cohort", "sample size"
    r"\b(?:(?:the|exact|true|data[ -]?set|cohort|sample) size(?: of (?:the |this |our )?(?:data ?set|data|cohort|sample))?|"
    # or a number of people: "number of all patients in the cohort"
    rf"(?:number|count) of (?:all |our |the )?(?:{PEOPLE})(?: in (?:the|this) (?:data ?set|data|cohort|sample|file))?)"
    # that is confidential: " must stay secret", " is kept confidential"
    r"(?::|(?: that| which)?(?: is| are| stays| remains| must (?:stay|remain)))?(?: kept)? \(?(?:confidential|secret|not public)"
    # and the clause ends, or a new one begins. Or the other order: "secret data set size"
    r"(?=$|[.,;:)\]]| (?:and|but|because|as|to)\b)|\b(?:confidential|secret) (?:data[ -]?set )?size(?=$|[.,;:)\]])"
)
# Matches "rounded to hundreds", "about 500 patients"; does not match "512 patients".
BOUNDED = (
    r"\b(?:rounded|bound|estimate|noisy|padded|(?:larger|smaller|higher|lower) than)\b|"
    r"\b(?:about|around|roughly|approximately|at most|up to|fewer than|less than) \d"
)
# At least five digits, or at least four with a separator of thousands. Four digits without one may be a year.
# Matches "1,234", "12345"; does not match "2024".
LARGE_NUMBER = r"\b\d{1,3}(?:[,_ ]\d{3})+\b|\b\d{5,}\b"


def _mistaken_norms(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        sensitivity = getattr(entry.spec, "sensitivity", None)
        has_laplace_noise = getattr(entry.spec, "scale", None) is not None  # a key of the types with Laplace noise, such as laplace
        if not has_laplace_noise or sensitivity is None or entry_mentions(f"{L1}|{OF_NORMS}", entry):
            continue
        needed = f'"{entry.type}" noise needs the L1 sensitivity, which may be larger'
        square = _square_of(sensitivity)
        if entry_mentions(L2, entry):
            yield RuleFinding((*path, "sensitivity"), f"the description mentions an L2 norm, but {needed}")
        elif square is not None and entry_mentions(VECTOR, entry) and not entry_mentions(ROOTED, entry):
            message = f"{sensitivity:g} is the root of {square} and looks like an L2 norm, but {needed}"
            yield RuleFinding((*path, "sensitivity"), message)


def _square_of(value: float) -> int | None:
    """Return the whole number from 2 to 10 whose irrational root the value states, to within 1e-3; None if there is none.

    The result is also None for a value with fewer than three decimals, which may be any sensitivity. A tolerance of 1e-3 accepts a root
    that was rounded to three decimals, in either direction.
    """
    _, _, decimals = f"{value:.12g}".partition(".")
    if len(decimals) < 3:
        return None
    numbers_without_whole_root = (2, 3, 5, 6, 7, 8, 10)
    return next((number for number in numbers_without_whole_root if abs(value - sqrt(number)) < 1e-3), None)


def _one_bin_sensitivities(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.adjacency is not Adjacency.REPLACE_ONE:
        return
    for path, entry in entries(pipeline):
        key = _key_of_one(entry.spec)
        if key is not None and entry_mentions(HISTOGRAM, entry) and not entry_mentions(OF_ONE_BIN, entry):
            required = "2 (L1)" if getattr(entry.spec, "scale", None) is not None else "1.41422 (L2)"
            message = (
                f"a replaced record leaves one bin of a histogram and enters another: expected a sensitivity of {required}, found 1"
            )
            yield RuleFinding((*path, key), message)


def _key_of_one(spec: Spec) -> str | None:
    """Return the key that states a sensitivity of 1; None if there is none, or if dimension = 1 says that a single number is released."""
    if getattr(spec, "dimension", None) == 1:
        return None
    return next((key for key in ("sensitivity", "l2_sensitivity") if getattr(spec, key, None) == 1), None)


def _uncounted_runs(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, text in _texts_on_tuning(pipeline):
        if mentions(UNCOUNTED, text) and not mentions(FREE, text):
            message = (
                f'"{_quotation(text)}": every run on the private data is a release, but the printed epsilon does not include these: '
                "count them, or search on public data"
            )
            yield RuleFinding(path, message)


def _texts_on_tuning(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Yield the texts of disclosure.tuning and of `tuning` in covers tables, with their paths."""
    if pipeline.disclosure.tuning is not None:
        yield ("disclosure", "tuning"), pipeline.disclosure.tuning
    for section, table in pipeline.sections:
        for key, notes in table.items():
            if normalized(key) == "covers" and isinstance(notes, Mapping) and isinstance(notes.get("tuning"), str):
                yield (section, key, "tuning"), notes["tuning"]


def _secret_sizes(pipeline: Pipeline) -> Iterator[RuleFinding]:
    text, size = pipeline.disclosure.data, pipeline.privacy.dataset_size
    if text is None or mentions(BOUNDED, text) or not mentions(SECRET_SIZE, text):
        return
    if size is not None:
        stated = f"dataset_size = {size:,} is declared public"
    elif mentions(LARGE_NUMBER, text):
        stated = "this text states a number"
    else:
        return
    message = f'"{_quotation(text)}": {stated}, and every reader of the file or of its report sees the size'
    yield RuleFinding(("disclosure", "data"), message)


def _quotation(text: str) -> str:
    """Return a text on one line, escaped and then cut to LONGEST_QUOTE characters."""
    from dpcli.file.toml.shown import escaped

    line = escaped(" ".join(text.split()))
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 3] + "..."


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
data = "patients of one clinic; the number of patients is published"
"""

OTHER_NORM = RuleInfo(
    code="DP124",
    title="Laplace noise for an L2 sensitivity",
    what="A laplace or discrete-laplace mechanism states a sensitivity, and its name or description mentions an L2 (Euclidean) "
    "sensitivity, norm, bound or clipping. Or the sensitivity has at least three decimals and is within 0.001 of the root of 2, 3, 5, 6, "
    "7, 8 or 10, and the words mention a vector (coordinates, embeddings, gradients) or a histogram (bins), and no root. There is no "
    "warning if the words mention L1 or released norms. It is a warning, because both norms of a single number are equal.",
    why="Laplace noise must be scaled to the L1 norm of a change. In d coordinates it is up to sqrt(d) times the L2 norm, and the true "
    "epsilon is larger than the printed one by the same factor.",
    fix="State the L1 sensitivity, the sum of the changes of all coordinates. Or use gaussian noise, which needs the L2 sensitivity.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, definition 3.1 and theorem 3.6",
    bad=HEAD + edited(edited(TWO_BINS, "L1 sensitivity 2", "L2 sensitivity"), "2.0", "1.41422"),
    good=HEAD + TWO_BINS,
    check=_mistaken_norms,
)

ONE_BIN = RuleInfo(
    code="DP125",
    title="a histogram under replace-one with sensitivity 1",
    what="Under replace-one, a mechanism whose name or description says histogram or contingency table states a sensitivity of 1, without "
    "dimension = 1. There is no warning about one number of a histogram (its total, its largest bin, one of its bins), or about bins that "
    "count half. It is a warning, because the words do not prove that the release is a histogram.",
    why="A replaced record leaves one bin and enters another, so that two counts move by 1. The sensitivity is 2 in L1, for Laplace "
    "noise, and 1.41422 in L2, for Gaussian noise. With 1 the printed epsilon is half of the true one, or 0.7 times it.",
    fix="State sensitivity = 2 for Laplace noise, or 1.41422 for Gaussian noise (l2_sensitivity of discrete-gaussian). Or state "
    'adjacency = "add-remove" if this guarantee is meant.',
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 3.3; NIST SP 800-226 (2025), on units of "
    "privacy",
    bad=edited(HEAD, "add-remove", "replace-one") + edited(HISTOGRAM_OF_AGES, "= 2\n", "= 1\n"),
    good=edited(HEAD, "add-remove", "replace-one") + HISTOGRAM_OF_AGES,
    check=_one_bin_sensitivities,
)

UNCOUNTED_RUNS = RuleInfo(
    code="DP126",
    title="runs that are not counted according to the file",
    what="disclosure.tuning, or the note on tuning in a covers table, says that a number of runs are not counted (not accounted "
    'for, not charged), as in "50 runs, not counted". There is no warning if the text mentions public, synthetic or simulated data, names '
    'a dataset ("on CIFAR-10"), or says where the runs are counted ("charged to the ledger"). It is only a warning, because the file '
    "discloses the runs.",
    why="The best of 50 runs depends on the data of all of them. A signed epsilon that includes only one run is too small.",
    fix='Count every run in the file, or make the search a mechanism (type = "repeat-and-select"; dpcli explain DP110). Or search on '
    "public data and say so.",
    source="Papernot & Steinke 2022, arXiv:2110.03620",
    bad=HEAD + TRAIN + edited(SEARCHED, "counted in steps", "not counted"),
    good=HEAD + TRAIN + SEARCHED,
    check=_uncounted_runs,
)

SECRET_SIZES = RuleInfo(
    code="DP310",
    title="a size that is called confidential and is stated",
    what="disclosure.data says that the size of the data, or the number of records, patients or users, is confidential, secret or not "
    "public. Nevertheless the file states dataset_size, or the text itself contains a large number. There is no warning about texts with "
    "a rounded number or a bound.",
    why="dataset_size is declared public: the file, its report and the check of delta show it. Under add-remove the number of records "
    "is private, and the exact number reveals whether a record is in the data.",
    fix="State a public number, such as a rounded upper bound (with rate instead of batch_size). Or release a noisy count as a mechanism. "
    "Or remove the word confidential.",
    source="NIST SP 800-226 (2025), on units of privacy; Ponomareva et al. 2023, arXiv:2303.00654, section 5.3.3",
    bad=HEAD + TRAIN + edited(PATIENTS, "is published", "is confidential"),
    good=HEAD + TRAIN + PATIENTS,
    check=_secret_sizes,
)
