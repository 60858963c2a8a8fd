"""Rules about what the file promises to a reader."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, exp

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Path
from dpcli.lint.rule import HEAD, TRAIN, RuleFinding, RuleInfo, edited, entries

# At 5 the bound e^epsilon * 1 % on the true-positive rate already exceeds 1; at 10 it does so from a rate of 0.005 % on.
LARGE = 10.0
NOTHING = 100.0  # false positives of 1 in 10^43 do for a hit rate of 100 %


def _floating_point(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.releases != "outputs":
        return
    for path, entry in entries(pipeline):
        if entry.spec.discrete_twin is not None:
            whole = float(getattr(entry.spec, "sensitivity", None) or 1.0).is_integer()
            discrete = f', or "{entry.spec.discrete_twin}" where the query is a whole number' if whole else ""
            yield RuleFinding(
                (*path, "type"),
                f'floating-point "{entry.type}" noise, once published, reveals more than its formula says: '
                f"use an OpenDP sampler{discrete} (nothing to do if no noisy number is published)",
            )


def _not_stated(pipeline: Pipeline) -> Iterator[RuleFinding]:
    privacy = pipeline.privacy
    if privacy.unit is None:
        yield RuleFinding(("privacy", "unit"), "expected what one individual is, such as example or user, found nothing")
    if privacy.releases is None:
        message = "expected what leaves the private side: final-model, all-checkpoints or outputs, found nothing"
        yield RuleFinding(("privacy", "releases"), message)


def _large_epsilon(pipeline: Pipeline) -> Iterator[RuleFinding]:
    for path, epsilon in _stated_epsilons(pipeline):
        if epsilon > LARGE:
            yield RuleFinding(path, protection(epsilon, f"{epsilon:g}"))


def protection(epsilon: float, shown: str, delta: float = 0.0) -> str:
    """What an epsilon above LARGE protects from: almost nothing, or nothing."""
    hits = ceil(1e4 * (100.0 - (99.0 - 100.0 * delta) * exp(-epsilon))) / 1e4
    return (
        f"epsilon = {shown} gives {'no' if epsilon > NOTHING else 'almost no'} protection against membership inference (at a 1 % "
        f"false-positive rate it permits a {min(hits, 100.0):g} % hit rate)"
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
    severity="warning",
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
    severity="warning",
    waivable=True,
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
    severity="warning",
    waivable=True,
    title="an epsilon above 10",
    what="The budget, the gate's cap on all planned runs, or a mechanism's stated guarantee has an epsilon above 10; or, in account and "
    "gate, which compute it, the epsilon of the whole file, where the file states none above 10.",
    why="Whoever attacks with a false-positive rate p finds at most a share min(1, e^epsilon p + delta) of the "
    "members. At epsilon = 10 that is 1 for every p above 0.005 %: against all but the most cautious attacks the "
    "guarantee says nothing.",
    fix="Aim at an epsilon of at most 10, better about 1; or say next to the number that only an audit supports it.",
    source="Kairouz et al. 2015, arXiv:1311.0776; Ponomareva et al. 2023, arXiv:2303.00654",
    bad=HEAD + edited(STATED, "2.0", "12.0"),
    good=HEAD + STATED,
    check=_large_epsilon,
)
