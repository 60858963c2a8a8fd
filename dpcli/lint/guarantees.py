"""Rules about stated guarantees: whom and what they cover, under which adjacency, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, exp

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.toml.findings import Path
from dpcli.lint.rule_info import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries
from dpcli.lint.sections import findings_where, is_on, names_one_of, normalized, settings, train_section
from dpcli.mechanisms.neighbours import Adjacency

ANALYTIC_WORDS = ("analytic", "exact", "balle")
APPROXIMATION_WORDS = ("gdp", "gaussian_dp", "clt", "gdp_clt", "central_limit_theorem")
ACCOUNTANT_KEYS = frozenset({"accountant", "accounting", "analysis"})
SANITISE_KEYS = frozenset({"sanitise"})


def _classical(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        stated = entry.spec.stated_pair
        if stated is not None and stated[0] > 1 and _from_classical_noise(_words(entry)):
            advice = f'found {stated[0]:g}: state type = "gaussian" with its noise'
            yield RuleFinding((*path, "epsilon"), f"the classical formula proves nothing above epsilon = 1, {advice}")


def _from_classical_noise(text: str) -> bool:
    """Return whether words say that a guarantee is from Gaussian noise, and not that its calibration is exact."""
    return "gaussian" in text and not any(word in text for word in ANALYTIC_WORDS)


def _vector(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        moved = entry.spec.taken_for_vector
        if moved is not None:
            message = (
                f"priced as a vector of integers that moves by {moved} in L2: say dimension = 1 where it is one integer, which "
                "costs less, or l2_sensitivity, a real number, where it is a vector"
            )
            yield RuleFinding((*path, "sensitivity"), message)


def _words(entry: Entry) -> str:
    """Return the normalised name and description of an entry."""
    return normalized(f"{entry.name} {entry.description or ''}")


def _approximation(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "a limit theorem bounds nothing after finitely many steps: choose an accountant that is an upper bound, or leave it out"
    )
    yield from findings_where(
        pipeline,
        ACCOUNTANT_KEYS,
        names_one_of(*APPROXIMATION_WORDS),
        message,
        "train",
        "pate",
        "pmixed",
        "prompt",
        "generate",
        "audit",
    )


def _data_dependent(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "an epsilon that depends on the votes is private itself: sanitise it by smooth sensitivity, or use the independent one"
    )
    if not any(name in SANITISE_KEYS and is_on(value) for _, name, value in settings(pipeline, "pate")):
        yield from findings_where(pipeline, ACCOUNTANT_KEYS, names_one_of("data_dependent"), message, "pate")
    for path, entry in entries(pipeline):
        text = _words(entry)
        if (
            hasattr(entry.spec, "stated_for")
            and "data_dependent" in text
            and not any(word in text for word in ("saniti", "smooth"))
        ):
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
    "saying that the calibration is analytic or exact. (Noise that is stated as noise, dpcli prices exactly.)",
    why="The formula noise = sqrt(2 ln(1.25/delta)) sensitivity / epsilon is proven for epsilon below 1 only; far above, "
    "its noise is too small. Below, it is larger than needed.",
    fix='State type = "gaussian" with noise_multiplier, or sigma and sensitivity: its epsilon is then computed.',
    source="Balle & Wang 2018, arXiv:1805.06530; Dwork & Roth 2014, theorem A.1",
    bad=HEAD + GAUSSIAN_STATED,
    good=HEAD + edited(GAUSSIAN_STATED, "epsilon = 3.0", "epsilon = 0.9"),
    check=_classical,
)

APPROXIMATION = RuleInfo(
    code="DP107",
    severity="error",
    waivable=False,
    title="an approximation used as a bound",
    what="The accountant (or accounting, analysis) of a section is gdp or another central-limit approximation. dpcli's own "
    "gdp accountant is shown as an approximation and never passes a gate.",
    why="The central limit theorem speaks of infinitely many steps; after any number of them it may lie on either side: "
    "it has given epsilon 1.618 where 1.828 is true.",
    fix="Leave the key out, and the least of the upper bounds is taken.",
    source="Bu et al. 2020, arXiv:1911.11607; Gopi, Lee & Wutschitz 2021, arXiv:2106.02848",
    bad=HEAD + TRAIN + train_section({"accountant": '"gdp"'}),
    good=HEAD + TRAIN + train_section({}),
    check=_approximation,
)

DATA_DEPENDENT = RuleInfo(
    code="DP111",
    severity="error",
    waivable=False,
    title="a data-dependent epsilon published as it is",
    what="A stated guarantee's name or description says data-dependent and not sanitised; or [pate] has accounting = "
    '"data-dependent" and no sanitise.',
    why="How large the data-dependent epsilon is tells how far the teachers agree, which is private; published, it is a "
    "release that no one has paid for. It is also no number that a ledger may add up.",
    fix="State the data-independent epsilon, or sanitise the number with parameters that were fixed beforehand.",
    source="Papernot et al. 2018, Scalable Private Learning with PATE, arXiv:1802.08908, section 2.4 and appendix B",
    bad=HEAD + edited(VOTES, "of 250 teachers", "of 250 teachers, data-dependent"),
    good=HEAD + VOTES,
    check=_data_dependent,
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
    "integer. It is priced as a vector of integers with that L2 sensitivity.",
    why="The loss of one integer that moves by 2 is known exactly; a histogram that moves by (1, 1, 1, 1) has the same norm and may "
    "cost more. Priced as one integer, it would print an epsilon below what is true: 24.0 for 26.7 with sigma 0.5.",
    fix="One integer: add dimension = 1. A vector: state l2_sensitivity, the root of the sum of squares, rounded up; it need not be "
    "whole, so a record that leaves one bin and enters another moves a histogram by 1.41422.",
    source="Canonne, Kamath & Steinke 2020, arXiv:2004.00010, theorem 4",
    bad=HEAD + COUNTS,
    good=HEAD + edited(COUNTS, "sensitivity = 2", "l2_sensitivity = 1.41422"),
    check=_vector,
)


def _mixed_adjacency(pipeline: Pipeline) -> Iterator[RuleFinding]:
    adjacency = pipeline.privacy.adjacency
    for path, entry in entries(pipeline):
        if entry.spec.shows_presence and adjacency is Adjacency.ADD_REMOVE:
            message = (
                "it hides a record's category and not its presence: expected adjacency = replace-one or zero-out, found add-remove"
            )
            yield RuleFinding((*path, "type"), message)
        stated, key = getattr(entry.spec, "adjacency", None), (*path, "adjacency")
        if stated is None:
            continue
        from dpcli.mechanisms.stated.stated_spec import (
            conversion,
        )  # A spec that states an adjacency has already imported this module.

        try:
            changes = conversion(stated, adjacency)
        except InputError as refusal:
            yield RuleFinding(key, str(refusal))
            continue
        if changes > 1:
            yield RuleFinding(
                key, f"stated under {stated.value}, counted as {changes} such changes for one {adjacency.value}", "warning"
            )


def _record_or_unit(pipeline: Pipeline) -> Iterator[RuleFinding]:
    records = pipeline.privacy.max_contributions or 1
    for path, entry in entries(pipeline):
        if records > 1 and getattr(entry.spec, "stated_for", "unit") is None:
            yield RuleFinding(
                (*path, "stated_for"),
                f'expected stated_for = "record" or "unit" where a unit contributes at most {records} records',
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
    what="A stated guarantee holds under another adjacency than the file's. Stated under add-remove or zero-out in a "
    "file with replace-one, it is converted as two changes (a warning); any other difference has no conversion "
    "(an error). So is randomized-response under add-remove: a record that is absent gives no answer.",
    why="The same mechanism has about half the epsilon under add-remove that it has under replace-one, so that a sum "
    "over both means nothing; two published accountants disagree about one mechanism for this reason.",
    fix="State the guarantee under the file's adjacency, from its proof; or change the file's.",
    source="Kifer & Machanavajjhala 2011, No Free Lunch in Data Privacy, SIGMOD; Vadhan 2017, The Complexity of "
    "Differential Privacy, lemma 2.2",
    bad=HEAD + edited(SURVEY, "add-remove", "replace-one"),
    good=HEAD + SURVEY,
    check=_mixed_adjacency,
)

RECORD_OR_UNIT = RuleInfo(
    code="DP104",
    severity="error",
    title="a record's guarantee taken for a user's",
    what="A unit of privacy may contribute several records (max_contributions), and a mechanism with a stated epsilon does "
    "not say whether that epsilon covers one record or the whole unit.",
    why="An epsilon per record grows with the number of records to an epsilon per user: with five of them, fivefold. "
    "Libraries state it per record unless they say otherwise.",
    fix='Set stated_for = "record", and dpcli applies the group theorem; or stated_for = "unit" where the proof is for the unit.',
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, theorem 2.2; Ponomareva et al. "
    "2023, arXiv:2303.00654",
    bad=OF_USERS + SURVEY,
    good=OF_USERS + SURVEY + 'stated_for = "record"\n',
    check=_record_or_unit,
)


# The bound on the true-positive rate is e^epsilon times the false-positive rate. At epsilon = 5 it already exceeds 1 for a false-positive
# rate of 1 %, and at epsilon = 10 for one of 0.005 %.
LARGE = 10.0
NO_PROTECTION = 100.0  # At this epsilon, a false-positive rate of 1 in 10^43 permits a hit rate of 100 %.


def _floating_point(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.releases != "outputs":
        return
    for path, entry in entries(pipeline):
        if entry.spec.discrete_twin is not None:
            is_count = float(getattr(entry.spec, "sensitivity", None) or 1.0).is_integer()
            discrete = f', or "{entry.spec.discrete_twin}" where the query is a whole number' if is_count else ""
            yield RuleFinding(
                (*path, "type"),
                f'floating-point "{entry.type}" noise, once published, reveals more than its formula says: '
                f"use an OpenDP sampler{discrete} (nothing to do if no noisy number is published)",
            )


def _not_stated(pipeline: Pipeline) -> Iterator[RuleFinding]:
    privacy = pipeline.privacy
    if privacy.unit is None:
        yield RuleFinding(("privacy", "unit"), "missing: what one individual is, such as example or user")
    if privacy.releases is None:
        message = "missing: what leaves the private side: final-model, all-checkpoints or outputs"
        yield RuleFinding(("privacy", "releases"), message)


def _large_epsilon(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, epsilon in _stated_epsilons(pipeline):
        if epsilon > LARGE:
            yield RuleFinding(path, protection(epsilon, f"{epsilon:g}"))


def protection(epsilon: float, shown: str, delta: float = 0.0) -> str:
    """Return a message that an epsilon above LARGE gives almost no protection, or none."""
    hits = ceil(1e4 * (100.0 - (99.0 - 100.0 * delta) * exp(-epsilon))) / 1e4
    return (
        f"epsilon = {shown} gives {'no' if epsilon > NO_PROTECTION else 'almost no'} protection against membership inference (at a 1 % "
        f"false-positive rate it permits a {min(hits, 100.0):g} % hit rate)"
    )


def _stated_epsilons(pipeline: Pipeline) -> Iterator[tuple[Path, float]]:
    """Yield every epsilon that the file states, with its path."""
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
    what='A file with releases = "outputs" has a laplace or gaussian mechanism: its noisy values themselves are published. A '
    "warning, as the file does not say which sampler draws the noise: with floating-point noise it is an error.",
    why="The low-order bits of value + noise depend on the value where both are floating-point numbers, and single "
    "outputs can rule a dataset out: the guarantee holds for real numbers and not for what the machine publishes.",
    fix="Use discrete-laplace or discrete-gaussian on integers (or fixed point), or publish through an OpenDP sampler.",
    source="Mironov 2012, On Significance of the Least Significant Bits for Differential Privacy; Jin et al. 2022, "
    "arXiv:2112.05307",
    bad=edited(HEAD, "final-model", "outputs") + edited(NOISY_COUNT, "discrete-laplace", "laplace"),
    good=edited(HEAD, "final-model", "outputs") + NOISY_COUNT,
    check=_floating_point,
)

NOT_STATED = RuleInfo(
    code="DP301",
    title="unit of privacy or scope of release not stated",
    what="privacy.unit or privacy.releases is missing.",
    why="An epsilon per example says little about a user with a thousand examples, and one for the final model nothing "
    "about the checkpoints that were published too. Without both, nobody can say what the number covers.",
    fix='State unit (and max_contributions, unless unit = "example") and releases.',
    source="Ponomareva et al. 2023, How to DP-fy ML, section 5.3.3, arXiv:2303.00654",
    bad=edited(HEAD, 'releases = "final-model"\n', "") + TRAIN,
    good=HEAD + TRAIN,
    check=_not_stated,
)

LARGE_EPSILON = RuleInfo(
    code="DP304",
    title="an epsilon above 10",
    what="The budget, the gate's cap on all planned runs, or a mechanism's stated guarantee has an epsilon above 10; or, in account and "
    "gate, which compute it, the epsilon of the whole file, where the file states none above 10.",
    why="Whoever attacks with a false-positive rate p finds at most a share min(1, e^epsilon p + delta) of the members. At "
    "epsilon = 10 that is 1 for every p above 0.005 %: against all but the most cautious attacks the guarantee says nothing.",
    fix="Aim at an epsilon of at most 10, better about 1; or say next to the number that only an audit supports it.",
    source="Kairouz et al. 2015, arXiv:1311.0776; Ponomareva et al. 2023, arXiv:2303.00654",
    bad=HEAD + edited(STATED, "2.0", "12.0"),
    good=HEAD + STATED,
    check=_large_epsilon,
)
