"""Rules about stated guarantees: their unit, their adjacency, their size, and the way in which they were derived.

A rule is a `RuleInfo` (rule_info.py): a code that never changes, texts for `dpcli explain CODE`, a bad and a good example file, and a
function that yields the findings in a pipeline; run.py applies it. Examples are built from HEAD and TRAIN, which together are a file with
one run of DP-SGD; `edited` replaces a part of a text. An *entry* is a [[mechanism]] table, and a *section* a table such as [train] that
describes a run for one command. A guarantee is *stated* if the file states an epsilon or rho in place of the noise (mechanism types such as
approx-dp). The functions judge keys, and names and descriptions where no key says it. `entry.spec` has the keys of the mechanism's type
(dpcli/mechanisms/spec.py), and a key that the type does not have is read by `getattr` with a default. The TOML texts between the rules are
further parts of examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil, exp

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries
from dpcli.lint.sections import findings_where, is_on, names_one_of, normalized, settings, train_section
from dpcli.mechanisms.neighbours import Adjacency

ANALYTIC_WORDS = ("analytic", "exact", "balle")  # words for a calibration that is valid for every epsilon (Balle & Wang 2018)
SANITISED_WORDS = ("saniti", "smooth")  # words for an epsilon that was released by smooth sensitivity
# A pattern for the place before a word: none of these negations ends there. "un" and "in" are for "unsanitised" and "inexact".
NOT_NEGATED = "".join(f"(?<!{negation})" for negation in ("not_", "not_the_", "no_", "without_", "never_", "un", "in"))
APPROXIMATION_WORDS = ("gdp", "gaussian_dp", "clt", "gdp_clt", "central_limit_theorem")  # accountants without an upper bound
ACCOUNTANT_KEYS = frozenset({"accountant", "accounting", "analysis"})
ACCOUNTED_SECTIONS = ("train", "pate", "pmixed", "prompt", "generate", "audit")  # sections that may name an accountant


def _classical_calibrations(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        epsilon, _ = entry.spec.stated_pair or (0.0, 0.0)  # (epsilon, delta), if the type states them
        if epsilon > 1 and _from_classical_noise(_words(entry)):
            advice = f'found {epsilon:g}: state type = "gaussian" with its noise'
            yield RuleFinding((*path, "epsilon"), f"the classical formula has no proof above epsilon = 1, {advice}")


def _from_classical_noise(text: str) -> bool:
    """Return whether a normalised text mentions Gaussian noise and no analytic or exact calibration."""
    return "gaussian" in text and not _affirms(text, ANALYTIC_WORDS)


def _affirms(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a normalised text has one of these words without a negation directly before it, as in "not_exact"."""
    return re.search(f"{NOT_NEGATED}(?:{'|'.join(words)})", text) is not None


def _ambiguous_dimensions(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        # The stated sensitivity, if no key says whether it is that of one integer or of a vector.
        norm = entry.spec.taken_for_vector
        if norm is not None:
            message = (
                f"counted as a vector of integers with L2 sensitivity {norm}: state dimension = 1 if it is one integer, which "
                "costs less, or l2_sensitivity, a real number, if it is a vector"
            )
            yield RuleFinding((*path, "sensitivity"), message)


def _words(entry: Entry) -> str:
    return normalized(f"{entry.name} {entry.description or ''}")


def _approximate_accountants(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "a limit theorem gives no bound after finitely many steps: choose an accountant with an upper bound, or leave the key out"
    )
    yield from findings_where(pipeline, ACCOUNTANT_KEYS, names_one_of(*APPROXIMATION_WORDS), message, *ACCOUNTED_SECTIONS)


def _data_dependent_epsilons(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "an epsilon that depends on the votes is private itself: sanitise it by smooth sensitivity, or use the data-independent one"
    )
    if not any(setting.name == "sanitise" and is_on(setting.value) for setting in settings(pipeline, "pate")):
        yield from findings_where(pipeline, ACCOUNTANT_KEYS, names_one_of("data_dependent"), message, "pate")
    for path, entry in entries(pipeline):
        text = _words(entry)
        is_stated = hasattr(entry.spec, "stated_for")  # a guarantee that the file states, and no mechanism that dpcli prices
        if is_stated and "data_dependent" in text and not _affirms(text, SANITISED_WORDS):
            yield RuleFinding(path, message)


GAUSSIAN_STATED = """
[[mechanism]]
name = "mean-income"
type = "approx-dp"
epsilon = 3.0
delta = 1e-7
description = "Gaussian noise by the classical formula"
"""

VOTES = """
[[mechanism]]
name = "answers"
type = "zcdp"
rho = 0.25
description = "400 answers by votes of 250 teachers"
"""

CLASSICAL = RuleInfo(
    code="DP106",
    title="classical Gaussian calibration outside its proof",
    what="An approx-dp mechanism states an epsilon above 1, and its name or description says that it is Gaussian, without "
    "saying that the calibration is analytic or exact. (If a file states the noise itself, dpcli computes its epsilon exactly.)",
    why="The formula noise = sqrt(2 ln(1.25/delta)) sensitivity / epsilon is proven only for epsilon below 1. Far above 1, "
    "its noise is too small. Below 1, it is larger than needed.",
    fix='State type = "gaussian" with noise_multiplier, or with sigma and sensitivity. dpcli then computes the epsilon.',
    source="Balle & Wang 2018, arXiv:1805.06530; Dwork & Roth 2014, theorem A.1",
    bad=HEAD + GAUSSIAN_STATED,
    good=HEAD + edited(GAUSSIAN_STATED, "epsilon = 3.0", "epsilon = 0.9"),
    check=_classical_calibrations,
)

APPROXIMATION = RuleInfo(
    code="DP107",
    severity="error",
    waivable=False,
    title="an approximation used as a bound",
    what="The accountant (or accounting, analysis) of a section is gdp or another central-limit approximation. dpcli's own "
    "gdp accountant is shown as an approximation and never passes a gate.",
    why="The central limit theorem is about infinitely many steps. After finitely many, its epsilon may be too large or too small: "
    "in one case it was 1.618, and the true epsilon 1.828.",
    fix="Leave the key out. dpcli then uses the smallest of the upper bounds.",
    source="Bu et al. 2020, arXiv:1911.11607; Gopi, Lee & Wutschitz 2021, arXiv:2106.02848",
    bad=HEAD + TRAIN + train_section({"accountant": '"gdp"'}),
    good=HEAD + TRAIN + train_section({}),
    check=_approximate_accountants,
)

DATA_DEPENDENT = RuleInfo(
    code="DP111",
    severity="error",
    waivable=False,
    title="a data-dependent epsilon published as it is",
    what="The name or description of a stated guarantee says data-dependent and not sanitised; or [pate] has accounting = "
    '"data-dependent" and no sanitise.',
    why="The data-dependent epsilon shows how far the teachers agree, which is private. Its publication is a "
    "release that is not counted. A ledger may not add up such numbers either.",
    fix="State the data-independent epsilon, or sanitise the number with parameters that were fixed beforehand.",
    source="Papernot et al. 2018, Scalable Private Learning with PATE, arXiv:1802.08908, section 2.4 and appendix B",
    bad=HEAD + edited(VOTES, "of 250 teachers", "of 250 teachers, data-dependent"),
    good=HEAD + VOTES,
    check=_data_dependent_epsilons,
)

COUNTS = """
[[mechanism]]
name = "histogram"
type = "discrete-gaussian"
sigma = 12.0
sensitivity = 2
"""

VECTOR = RuleInfo(
    code="DP121",
    title="one integer or a vector of integers",
    what="A discrete-gaussian mechanism states a sensitivity above 1 and does not say, by dimension = 1, that it releases one "
    "integer. It is counted as a vector of integers with this L2 sensitivity.",
    why="The loss of one integer that moves by 2 is known exactly. A histogram that moves by (1, 1, 1, 1) has the same norm and may "
    "cost more. If it were counted as one integer, the printed epsilon would be too small: 24.0 instead of 26.7 with sigma 0.5.",
    fix="For one integer, add dimension = 1. For a vector, state l2_sensitivity, the root of the sum of squares, rounded up. It need not "
    "be a whole number: a record that leaves one bin and enters another moves a histogram by 1.41422.",
    source="Canonne, Kamath & Steinke 2020, arXiv:2004.00010, theorem 4",
    bad=HEAD + COUNTS,
    good=HEAD + edited(COUNTS, "sensitivity = 2", "l2_sensitivity = 1.41422"),
    check=_ambiguous_dimensions,
)


def _mixed_adjacencies(pipeline: Pipeline) -> Iterator[RuleFinding]:
    adjacency = pipeline.privacy.adjacency
    for path, entry in entries(pipeline):
        # `shows_presence` marks types whose output shows whether a record takes part, such as randomized-response.
        if entry.spec.shows_presence and adjacency is Adjacency.ADD_REMOVE:
            message = (
                "it hides what a record reports, not its presence: expected adjacency = replace-one or zero-out, found add-remove"
            )
            yield RuleFinding((*path, "type"), message)
        stated: Adjacency | None = getattr(entry.spec, "adjacency", None)
        if stated is not None:
            yield from _conversion_findings((*path, "adjacency"), stated, adjacency)


def _conversion_findings(key: Path, stated: Adjacency, adjacency: Adjacency) -> Iterator[RuleFinding]:
    """Yield an error if a guarantee cannot be converted to the file's adjacency, and a warning if it counts as several changes there."""
    # This import costs nothing: a spec that states an adjacency has imported the module already.
    from dpcli.mechanisms.stated.stated_spec import conversion

    try:
        changes = conversion(stated, adjacency)
    except InputError as refusal:
        yield RuleFinding(key, str(refusal))
        return
    if changes > 1:
        message = f"stated under {stated.value}, counted as {changes} such changes for one {adjacency.value}"
        yield RuleFinding(key, message, "warning")


def _unstated_coverage(pipeline: Pipeline) -> Iterator[RuleFinding]:
    records = pipeline.privacy.max_contributions or 1
    for path, entry in entries(pipeline):
        # The value is None if the type has the key and the file does not state it.
        if records > 1 and getattr(entry.spec, "stated_for", "unit") is None:
            yield RuleFinding(
                (*path, "stated_for"),
                f'expected stated_for = "record" or "unit", as a unit contributes at most {records} records',
            )


SURVEY = """
[[mechanism]]
name = "survey"
type = "pure-dp"
epsilon = 0.5
adjacency = "add-remove"
"""

OF_USERS = edited(HEAD, 'unit = "example"', 'unit = "user"\nmax_contributions = 5')

MIXED_ADJACENCY = RuleInfo(
    code="DP103",
    severity="error",
    waivable=False,
    title="adjacencies mixed",
    what="A stated guarantee holds under another adjacency than that of the file. A guarantee under add-remove or zero-out in a "
    "file with replace-one is converted, as two changes (a warning). Any other difference has no conversion "
    "(an error). randomized-response and shuffled-reports under add-remove are errors too, because an absent record gives no answer.",
    why="Under add-remove a mechanism has about half the epsilon that it has under replace-one. A sum over both relations "
    "has no meaning. Two published accountants disagree about one mechanism for this reason.",
    fix="State the guarantee under the adjacency of the file, from its proof; or change the adjacency of the file.",
    source="Kifer & Machanavajjhala 2011, No Free Lunch in Data Privacy, SIGMOD; Vadhan 2017, The Complexity of "
    "Differential Privacy, lemma 2.2",
    bad=HEAD + edited(SURVEY, "add-remove", "replace-one"),
    good=HEAD + SURVEY,
    check=_mixed_adjacencies,
)

RECORD_OR_UNIT = RuleInfo(
    code="DP104",
    severity="error",
    title="a guarantee per record taken for one per user",
    what="A unit of privacy may contribute several records (max_contributions), and a mechanism with a stated epsilon does "
    "not say whether that epsilon covers one record or the whole unit.",
    why="The epsilon of a user is that of a record times the number of the user's records: five times as large for five records. "
    "Libraries state epsilon per record unless they say otherwise.",
    fix='Set stated_for = "record", and dpcli applies the group theorem; or stated_for = "unit" if the proof is for the unit.',
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, theorem 2.2; Ponomareva et al. "
    "2023, arXiv:2303.00654",
    bad=OF_USERS + SURVEY,
    good=OF_USERS + SURVEY + 'stated_for = "record"\n',
    check=_unstated_coverage,
)


# Epsilon above which DP304 warns. The true-positive rate of an attack is at most e^epsilon times its false-positive rate. At epsilon = 5
# this bound already exceeds 1 for a false-positive rate of 1 %, and at epsilon = 10 for one of 0.005 %.
LARGE = 10.0
NO_PROTECTION = 100.0  # at this epsilon the bound exceeds 1 even for a false-positive rate of 1 in 10^43


def _floating_point_noise(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.releases != "outputs":
        return
    for path, entry in entries(pipeline):
        if entry.spec.discrete_twin is None:  # only types that draw floating-point noise have a twin on whole numbers
            continue
        may_be_count = float(getattr(entry.spec, "sensitivity", None) or 1.0).is_integer()
        discrete = f', or "{entry.spec.discrete_twin}" if the query is a whole number' if may_be_count else ""
        message = (
            f'published floating-point "{entry.type}" noise reveals more than its formula says: '
            f"use an OpenDP sampler{discrete} (nothing to do if no noisy number is published)"
        )
        yield RuleFinding((*path, "type"), message)


def _missing_keys(pipeline: Pipeline) -> Iterator[RuleFinding]:
    privacy = pipeline.privacy
    if privacy.unit is None:
        yield RuleFinding(("privacy", "unit"), "missing: the unit of privacy, such as example or user")
    if privacy.releases is None:
        message = "missing: the outputs that leave the private side: final-model, all-checkpoints or outputs"
        yield RuleFinding(("privacy", "releases"), message)


def _large_epsilons(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, epsilon in _stated_epsilons(pipeline):
        if epsilon > LARGE:
            yield RuleFinding(path, protection(epsilon, f"{epsilon:g}"))


def protection(epsilon: float, shown: str, delta: float = 0.0) -> str:
    """Return a message that an epsilon gives almost no protection or, above NO_PROTECTION, none.

    The message has the largest true-positive rate at a false-positive rate of 1 %: 1 - (1 - 0.01 - delta) e^-epsilon, rounded up to
    0.0001 %.

    Source: Kairouz et al. 2015, arXiv:1311.0776. Of its two bounds, this is the smaller one if epsilon is above about 5.
    """
    hit_rate = 100.0 - (99.0 - 100.0 * delta) * exp(-epsilon)  # in percent
    rounded_up = min(ceil(1e4 * hit_rate) / 1e4, 100.0)
    degree = "no" if epsilon > NO_PROTECTION else "almost no"
    return (
        f"epsilon = {shown} gives {degree} protection against membership inference (at a 1 % "
        f"false-positive rate it permits a {rounded_up:g} % hit rate)"
    )


def _stated_epsilons(pipeline: Pipeline) -> Iterator[tuple[Path, float]]:
    if pipeline.budget is not None and pipeline.budget.epsilon is not None:
        yield ("budget", "epsilon"), pipeline.budget.epsilon
    if pipeline.gate.horizon is not None:
        yield ("gate", "horizon", "epsilon"), pipeline.gate.horizon.epsilon
    for path, entry in entries(pipeline):
        epsilon: float | None = getattr(entry.spec, "epsilon", None)
        if epsilon is not None:
            yield (*path, "epsilon"), epsilon


NOISY_COUNT = """
[[mechanism]]
name = "count"
type = "discrete-laplace"
scale = 20.0
sensitivity = 1
"""

STATED = """
[[mechanism]]
name = "survey"
type = "pure-dp"
epsilon = 2.0
"""

FLOATING_POINT = RuleInfo(
    code="DP201",
    waivable=False,
    title="floating-point noise in a release",
    what='A file with releases = "outputs", whose noisy values are published, has a laplace or gaussian mechanism. It is a '
    "warning, because the file does not state the sampler. With floating-point noise the guarantee does not hold.",
    why="If value and noise are floating-point numbers, the low-order bits of their sum depend on the value. A single "
    "output can then exclude a dataset. The guarantee holds for real numbers, and not for the published floating-point numbers.",
    fix="Use discrete-laplace or discrete-gaussian on integers (or fixed point), or publish through an OpenDP sampler.",
    source="Mironov 2012, On Significance of the Least Significant Bits for Differential Privacy; Jin et al. 2022, "
    "arXiv:2112.05307",
    bad=edited(HEAD, "final-model", "outputs") + edited(NOISY_COUNT, "discrete-laplace", "laplace"),
    good=edited(HEAD, "final-model", "outputs") + NOISY_COUNT,
    check=_floating_point_noise,
)

NOT_STATED = RuleInfo(
    code="DP301",
    title="unit of privacy or scope of release not stated",
    what="privacy.unit or privacy.releases is missing.",
    why="An epsilon per example says little about a user with a thousand examples. An epsilon for the final model says nothing "
    "about published checkpoints. Without both keys nobody knows what the number covers.",
    fix='State unit (and max_contributions, unless unit = "example") and releases.',
    source="Ponomareva et al. 2023, How to DP-fy ML, section 5.3.3, arXiv:2303.00654",
    bad=edited(HEAD, 'releases = "final-model"\n', "") + TRAIN,
    good=HEAD + TRAIN,
    check=_missing_keys,
)

LARGE_EPSILON = RuleInfo(
    code="DP304",
    title="an epsilon above 10",
    what="The budget, the gate's cap on all planned runs, or the stated guarantee of a mechanism has an epsilon above 10. account and "
    "gate also report a computed epsilon of the whole file above 10, if the file states none above 10.",
    why="An attack with a false-positive rate p finds at most a share min(1, e^epsilon p + delta) of the members. At "
    "epsilon = 10 this bound is 1 for every p above 0.005 %. It then limits only extremely cautious attacks.",
    fix="Use an epsilon of at most 10, better about 1; or say next to the number that only an audit supports it.",
    source="Kairouz et al. 2015, arXiv:1311.0776; Ponomareva et al. 2023, arXiv:2303.00654",
    bad=HEAD + edited(STATED, "2.0", "12.0"),
    good=HEAD + STATED,
    check=_large_epsilons,
)
