"""Failures that no pipeline file can reveal, and what catches them; DP401 to DP409 are about ledgers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A row of the catalogue without a rule about files.

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


RACE = Elsewhere(
    code="DP401",
    title="two spenders at once",
    what="Two runs read the same balance, both find room, and both spend.",
    why="Together they exceed the cap that each of them respected.",
    fix="Check and spend in one transaction that excludes other writers; never read first and write later.",
    caught="the ledger: a spend takes the write lock before it reads, and a second writer waits.",
    source="Berenson et al. 1995, A Critique of ANSI SQL Isolation Levels, SIGMOD",
)

NOT_DURABLE = Elsewhere(
    code="DP402",
    title="released before the spend is durable",
    what="An output leaves while its entry is still in a buffer; then the power fails.",
    why="The output is known and the ledger has forgotten it: the same budget is spent a second time.",
    fix="Write, flush to the disk, and only then compute or publish: reserve, then start, then run, then commit.",
    caught="the ledger: it answers only after the disk has confirmed.",
    source="Pillai et al. 2014, All File Systems Are Not Created Equal, OSDI",
)

REFUND = Elsewhere(
    code="DP403",
    title="a refund after the noise was drawn",
    what="A run that failed gives its budget back although some of its outputs, or its failure itself, were seen.",
    why="What was seen stays seen; the refunded budget buys a second view of the same data.",
    fix="Void a reservation only where no noise was drawn and nothing left; otherwise commit it in full.",
    caught="the ledger: a void needs a reason and is possible before the run has started only; what expires is charged.",
    source="Rogers et al. 2016, Privacy Odometers and Filters, arXiv:1605.08294",
)

CHARGED_TWICE = Elsewhere(
    code="DP404",
    title="a retry charged twice, or answered twice",
    what="A client repeats a request because the first answer was lost on the way.",
    why="Charged again, it wastes budget. Answered again with fresh noise at one charge, it leaks.",
    fix="Give each release an idempotency key of its own and repeat the request with the same key.",
    caught="the ledger: a key is charged once, and the same key with other contents is refused.",
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, section 3.5",
)

RESTORED = Elsewhere(
    code="DP405",
    title="a restored backup",
    what="The ledger's file is replaced by an older copy of itself.",
    why="The old copy is consistent in itself: its hash chain holds, and everything spent since is free again.",
    fix="Keep the head of the chain outside (dpcli budget anchor), and compare it before every spend (--anchor).",
    caught="the ledger, by its anchor: no chain can notice its own missing end.",
    source="Parno et al. 2011, Memoir: Practical State Continuity for Protected Modules, IEEE S&P",
)

RENAMED = Elsewhere(
    code="DP406",
    title="a renamed dataset",
    what="The same records are spent from under two names, or a copy with a few more records under a new one.",
    why="Each name has a budget; the individuals have one loss, the sum of both.",
    fix="One ledger entry per set of individuals; add the budgets of datasets that overlap.",
    caught="the ledger, where datasets are opened with a fingerprint of their data (dpcli lint --ledger warns where not), and people.",
    source="McSherry 2009, Privacy Integrated Queries, SIGMOD; Dwork & Roth 2014, section 3.5",
)

DRIFT = Elsewhere(
    code="DP407",
    title="drift of floating-point totals",
    what="A running total of epsilons is added up in floating point, entry by entry.",
    why="Rounding to nearest may go down each time; after many small spends the total is below the truth.",
    fix="Store what was run, not a running total; add exactly or round every sum up.",
    caught="the ledger: costs are decimal text, rounded up, and sums are exact.",
    source="Higham 2002, Accuracy and Stability of Numerical Algorithms, chapter 4",
)

REPRICED = Elsewhere(
    code="DP408",
    title="a library upgrade changes old entries",
    what="Entries hold epsilons that an older version computed, or are priced anew by a version that computes otherwise.",
    why="A correction that raises a price makes the past dearer than it was recorded; recorded prices hide that.",
    fix="Store mechanisms and recompute the balance, saying by which version; treat a changed total as a finding.",
    caught="the ledger: it keeps the mechanisms and the version of each entry, and dpcli budget verify computes every cost again.",
    source="Ponomareva et al. 2023, arXiv:2303.00654; observed in published accountants whose corrections changed epsilon",
)

NETWORK = Elsewhere(
    code="DP409",
    title="a ledger on a network file system",
    what="The ledger's file lies on a share whose locks do not exclude other machines.",
    why="Two machines hold the same lock, and both spend (DP401); or one reads a cached, older page.",
    fix="Put the file on a local disk of one machine, or use the PostgreSQL backend.",
    caught="the ledger, where the operating system tells what kind of file system it is; dpcli doctor --ledger shows it.",
    source="SQLite documentation, How To Corrupt An SQLite Database File, https://www.sqlite.org/howtocorrupt.html, section 2.1",
)
