"""Rules about epsilons that are stated rather than derived: where the statement cannot be relied on."""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.lint.rule import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries
from dpcli.lint.settings import chosen, on, one_of, section, settings, spelled

ANALYTIC = ("analytic", "exact", "balle")
APPROXIMATIONS = ("gdp", "gaussian_dp", "clt", "gdp_clt", "central_limit_theorem")
ACCOUNTANT = frozenset({"accountant", "accounting", "analysis"})
SANITISED = frozenset({"sanitise"})


def _classical(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, entry in entries(pipeline):
        stated = entry.spec.stated_pair
        if stated is not None and stated[0] > 1 and _from_classical_noise(_words(entry)):
            found = f'found {stated[0]:g}: state type = "gaussian" with its noise'
            yield RuleFinding((*path, "epsilon"), f"the classical formula proves nothing above epsilon = 1, {found}")


def _from_classical_noise(text: str) -> bool:
    return "gaussian" in text and not any(word in text for word in ANALYTIC)


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
    return spelled(f"{entry.name} {entry.description or ''}")


def _approximation(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "a limit theorem bounds nothing after finitely many steps: choose an accountant that is an upper bound, or leave it out"
    )
    yield from chosen(
        pipeline, ACCOUNTANT, one_of(*APPROXIMATIONS), message, "train", "pate", "pmixed", "prompt", "generate", "audit"
    )


def _data_dependent(pipeline: Pipeline) -> Iterator[RuleFinding]:
    message = (
        "an epsilon that depends on the votes is private itself: sanitise it by smooth sensitivity, or use the independent one"
    )
    if not any(name in SANITISED and on(value) for _, name, value in settings(pipeline, "pate")):
        yield from chosen(pipeline, ACCOUNTANT, one_of("data_dependent"), message, "pate")
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
    severity="warning",
    waivable=True,
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
    bad=HEAD + TRAIN + section({"accountant": '"gdp"'}),
    good=HEAD + TRAIN + section({}),
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
    severity="warning",
    waivable=True,
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
