"""The failures in the catalogue that no pipeline file can reveal. DP401 to DP409 are failures of ledgers.

They have codes for the same reasons as rules (rule_info.py): `dpcli explain CODE` prints them, and reports and papers can refer to them.
Each states in `caught` what detects it: a test, the ledger, the program that reads the data, or a person.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A failure in the catalogue for which there is no rule about files.

    Attributes:
        code: Code of the failure. A code is never changed and never reused.
        why, fix, source: The harm that it does, how to avoid it, and a paper or report about it.
        what: The event or the property of a program that is the failure.
        caught: The test, command, program or person that detects the failure and, for some, why a file cannot show it.
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
    what="A sum of floating-point numbers is rounded at every addition, and an integer sum may overflow. Both results depend on the "
    "order of the records.",
    why="One record can then change the computed sum by far more than the bound on its value. Noise that was scaled to "
    "this bound is too small.",
    fix="Clamp each value, turn it into an integer (or fixed point) first, add with saturation, and use discrete noise.",
    caught="the program that computes the sum, at run time. A file states a sensitivity, and not the arithmetic. For "
    "discrete-laplace and discrete-gaussian the reader accepts only whole-number sensitivities (DP003).",
    source="Casacuberta et al. 2022, arXiv:2207.10635",
)

TIMING = Elsewhere(
    code="DP203",
    title="timing of samplers",
    what="The running time of a noise sampler may depend on the noise that it draws.",
    why="Whoever measures the time of an answer learns something about its noise, and therefore about the true value.",
    fix="Do not let untrusted parties measure the time of single answers: publish in batches, at fixed hours. Or use a constant-time "
    "sampler.",
    caught="the operator of the service that answers, which no file describes.",
    source="Jin et al. 2022, Are We There Yet? Timing and Floating-Point Attacks on Differential Privacy Systems, arXiv:2112.05307",
)

REUSED_STATE = Elsewhere(
    code="DP205",
    title="random state reused after a fork or a resume",
    what="Two processes, or a run and its continuation, draw the same noise because they started from the same generator state.",
    why="The difference of two outputs with the same noise has no noise.",
    fix="Seed every process from the entropy of the operating system after it has started. Never save the state of the noise generator.",
    caught="tests that fork and resume the programs that draw noise. A file does not contain the state of a generator. "
    "DP204 is about a seed in a file, DP113 about a continued run without its run id.",
    source="Garfinkel & Leclerc 2020, Randomness Concerns When Deploying Differential Privacy, arXiv:2009.03777",
)

POISONED_SUM = Elsewhere(
    code="DP207",
    title="a non-finite gradient poisons the sum",
    what="The gradient of a record is NaN or infinite, or the precision of its norm is too low for clipping.",
    why="NaN survives clipping and noise. Every parameter becomes NaN, which shows that the record was in the data.",
    fix="Let records with a non-finite gradient contribute zero. Compute norms and sums in at least 32 bits.",
    caught="tests of the training step with such records, as gradients exist only at run time.",
    source="observed in Opacus 1.6.0; Ponomareva et al. 2023, arXiv:2303.00654",
)

PASSED_CLAMP = Elsewhere(
    code="DP212",
    title="NaN passes a clamp",
    what="In most languages min(max(x, low), high) of NaN is NaN, so that a value outside the bounds reaches the sum.",
    why="The noise is scaled to a sensitivity that is true only if every value is within its bounds.",
    fix="Replace missing and non-finite values by a declared constant first, then clamp.",
    caught="the program that reads the data, at run time. A file contains no records.",
    source="IEEE 754-2019, section 9.6; OpenDP documentation, on imputing before clamping",
)


RACE = Elsewhere(
    code="DP401",
    title="two spenders at once",
    what="Two runs read the same balance, both find enough budget, and both spend.",
    why="Together they exceed the cap, although each of them respected it.",
    fix="Check and spend in one transaction that excludes other writers. Never read first and write later.",
    caught="the ledger. A spend takes the write lock before it reads, and a second writer waits.",
    source="Berenson et al. 1995, A Critique of ANSI SQL Isolation Levels, SIGMOD",
)

NOT_DURABLE = Elsewhere(
    code="DP402",
    title="released before the spend is durable",
    what="An output is published while its entry is still in a buffer. Then the power fails.",
    why="The output is known, but the ledger does not have the entry, so that the same budget is spent a second time.",
    fix="Write the entry, flush it to the disk, and only then compute or publish: reserve, start, run, commit.",
    caught="the ledger. It answers only after the disk has confirmed the entry.",
    source="Pillai et al. 2014, All File Systems Are Not Created Equal, OSDI",
)

REFUND = Elsewhere(
    code="DP403",
    title="a refund after the noise was drawn",
    what="A failed run gives its budget back, although somebody saw some of its outputs, or the failure itself.",
    why="The seen outputs remain known. The refunded budget pays for further outputs from the same data.",
    fix="Void a reservation only if no noise was drawn and nothing was published. Otherwise commit it in full.",
    caught="the ledger. A void needs a reason and is possible only before the run has started. An expired reservation stays charged.",
    source="Rogers et al. 2016, Privacy Odometers and Filters, arXiv:1605.08294",
)

CHARGED_TWICE = Elsewhere(
    code="DP404",
    title="a retry charged twice, or answered twice",
    what="A client repeats a request because the first answer was lost.",
    why="A second charge wastes budget. A second answer with fresh noise for one charge leaks.",
    fix="Give each release its own idempotency key, and repeat the request with the same key.",
    caught="the ledger. It charges a key once, and refuses the same key with other content.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 3.5",
)

RESTORED = Elsewhere(
    code="DP405",
    title="a restored backup",
    what="An older copy replaces the file of the ledger.",
    why="The old copy is consistent, and its hash chain is valid. Everything that was spent since the copy was made is available again.",
    fix="Keep the head of the chain in another place (dpcli budget anchor), and compare it before every spend (--anchor).",
    caught="the ledger with an anchor. A chain alone cannot show that its end is missing.",
    source="Parno et al. 2011, Memoir: Practical State Continuity for Protected Modules, IEEE S&P",
)

RENAMED = Elsewhere(
    code="DP406",
    title="a renamed dataset",
    what="The budget of the same records is spent under two names; or a copy with a few more records gets a new name.",
    why="Each name has its own budget, but the loss of an individual is the sum over both names.",
    fix="Use one dataset of the ledger for each set of individuals, and add up the costs of datasets that overlap.",
    caught="the ledger, if datasets are opened with a fingerprint of their data (otherwise dpcli lint --ledger warns), and human review.",
    source="McSherry 2009, Privacy Integrated Queries, SIGMOD; Dwork & Roth 2014, section 3.5",
)

DRIFT = Elsewhere(
    code="DP407",
    title="drift of floating-point totals",
    what="A running total of epsilons is computed in floating point, entry by entry.",
    why="Rounding to nearest may round down each time. After many small spends the total is too small.",
    fix="Store the mechanisms, not a running total. Add exactly, or round every sum up.",
    caught="the ledger. Its costs are decimal texts, rounded up, and its sums are exact.",
    source="Higham 2002, Accuracy and Stability of Numerical Algorithms, chapter 4",
)

REPRICED = Elsewhere(
    code="DP408",
    title="a library upgrade changes old entries",
    what="Entries contain epsilons from an older version of a library, or a new version computes other epsilons for them.",
    why="A correction may raise the costs of past runs above the recorded costs. If only costs are recorded, nobody notices.",
    fix="Store mechanisms, recompute the balance, and state the version. Treat a changed total as a finding.",
    caught="the ledger. It stores the mechanisms and the version of each entry, and dpcli budget verify recomputes every cost.",
    source="Ponomareva et al. 2023, arXiv:2303.00654; observed in published accountants whose corrections changed epsilon",
)

NETWORK = Elsewhere(
    code="DP409",
    title="a ledger on a network file system",
    what="The file of the ledger is on a network share whose locks do not exclude other machines.",
    why="Two machines hold the same lock, and both spend (DP401). Or one machine reads an old page from its cache.",
    fix="Put the file on a local disk of one machine, or use a ledger in PostgreSQL.",
    caught="the ledger, if the operating system reports the type of the file system. dpcli doctor --ledger shows the type.",
    source="SQLite documentation, How To Corrupt An SQLite Database File, https://www.sqlite.org/howtocorrupt.html, section 2.1",
)
