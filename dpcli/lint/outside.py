"""Failures of the catalogue that no pipeline file can show: what they are, and what catches them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One row of the catalogue without a rule about files.

    what, why, fix: plain sentences, as a rule has them.
    caught: what catches it instead (a test, a command at run time, the ledger), and why a file cannot show it.
    """

    code: str
    title: str
    what: str
    why: str
    fix: str
    caught: str
    source: str


SUM_SENSITIVITY = Elsewhere(
    code="DP202",
    title="a sum whose sensitivity is larger than its formula says",
    what="A sum of floating-point numbers is rounded at every addition, an integer sum may overflow, and both depend on the "
    "order of the records.",
    why="One record can then change the computed sum by far more than the bound on its own value, and noise scaled for "
    "that bound hides too little.",
    fix="Clamp each value, turn it into an integer (or fixed point) first, add with saturation, and use discrete noise.",
    caught="where the sum is computed, at run time: a file states a sensitivity and not the arithmetic. For "
    "discrete-laplace and discrete-gaussian the reader takes whole-number sensitivities only (DP003).",
    source="Casacuberta et al. 2022, arXiv:2207.10635",
)

TIMING = Elsewhere(
    code="DP203",
    title="timing of samplers",
    what="How long a sampler of noise takes may depend on the noise that it draws.",
    why="Whoever measures the time of an answer learns something about its noise, and so about the value below it.",
    fix="Do not let untrusted parties time single answers: publish in batches, at fixed hours; or use a constant-time sampler.",
    caught="the way answers are served, which no file describes.",
    source="Jin et al. 2022, Are We There Yet? Timing and Floating-Point Attacks on Differential Privacy Systems, arXiv:2112.05307",
)

REUSED_STATE = Elsewhere(
    code="DP205",
    title="random state reused after a fork or a resume",
    what="Two processes, or a run and its continuation, draw the same noise because they started from the same generator state.",
    why="The difference of two outputs with the same noise has no noise at all.",
    fix="Seed every process from the operating system's entropy after it has started; never save the state of the noise's generator.",
    caught="tests of the programs that draw noise, which fork and resume them: the state of a generator is in no file. "
    "A seed that a file states is DP204, a continuation without its run id DP113.",
    source="Garfinkel & Leclerc 2020, Randomness Concerns When Deploying Differential Privacy, arXiv:2009.03777",
)

POISONED_SUM = Elsewhere(
    code="DP207",
    title="a non-finite gradient poisons the sum",
    what="One record's gradient is NaN or infinite, or its norm is computed in a precision in which clipping does not hold.",
    why="NaN survives clipping and noise: every parameter becomes NaN, which shows that the record was there.",
    fix="Let records with a non-finite gradient contribute zero; compute norms and sums in at least 32 bits.",
    caught="tests of the training step with such records, as gradients exist only at run time.",
    source="observed in Opacus 1.6.0; Ponomareva et al. 2023, arXiv:2303.00654",
)

PASSED_CLAMP = Elsewhere(
    code="DP212",
    title="NaN passes a clamp",
    what="min(max(x, low), high) of NaN is NaN in most languages, so that a value outside the bounds reaches the sum.",
    why="The sensitivity that the noise covers assumes that every value is within its bounds.",
    fix="Replace missing and non-finite values by a declared constant first, then clamp.",
    caught="the program that reads the data, at run time: a file holds no records.",
    source="IEEE 754-2019, section 9.6; OpenDP documentation, on imputing before clamping",
)
