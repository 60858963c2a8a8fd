"""The disclosure statement: every item that is to be reported, as a list.

Sources: [A] Ponomareva et al. 2023, How to DP-fy ML, arXiv:2303.00654, section 5.3.3 (1 setting, 2 definition: a data accesses, b output,
c unit, d adjacency; 3 accounting: a type, b assumptions, c formal statement; 4 transparency). [B] Near, Darais, Lefkovitz & Howarth 2025,
NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees, by the name of its section.
"""

from __future__ import annotations

from dpcli.disclosure import answers, federated
from dpcli.disclosure.answers import QUERIES, text_of, worded
from dpcli.disclosure.item import Chapter, Item

SETTING = Chapter(
    "setting",
    (
        Item(
            "privacy-model",
            "Who is trusted with the raw data?",
            "A 1; B threat models",
            ("disclosure.privacy_model",),
            federated.privacy_model,
        ),
        Item(
            "query-model",
            "Are the questions fixed, or do analysts put their own?",
            "B query models",
            ("disclosure.query_model",),
            worded("query_model", QUERIES),
        ),
        Item("controller", "Who answers for the data?", "B threat models", ("disclosure.controller",), text_of("controller")),
        Item("data", "Whose data are they?", "B unit of privacy", ("disclosure.data",), text_of("data")),
        Item("purpose", "What is the release for?", "B data collection exposure", ("disclosure.purpose",), text_of("purpose")),
    ),
)
DEFINITION = Chapter(
    "guarantee",
    (
        Item("definition", "Which definition of privacy?", "A 3c; B variants", (), answers.definition),
        Item("guarantee", "How strong is it?", "A 3c; B privacy parameter", (), answers.guarantee),
        Item("delta", "How does delta compare with the number of records?", "A 3c; B variants", (), answers.delta),
        Item("unit", "What is one individual?", "A 2c; B unit of privacy", ("privacy.unit",), answers.unit),
        Item(
            "contributions",
            "How much may one individual contribute?",
            "A 2c; B unit of privacy",
            ("privacy.unit with privacy.max_contributions",),
            answers.contributions,
        ),
        Item("adjacency", "Which two datasets are compared?", "A 2d; B variants", (), answers.adjacency),
        Item("mechanisms", "Which mechanisms, with which noise?", "A 3b; B basic mechanisms", (), answers.mechanisms),
        Item("sensitivity", "What is the noise measured against?", "B basic mechanisms", (), answers.sensitivity),
        Item(
            "clipping",
            "How is the bound on contributions enforced?",
            "A 2c; B summation queries",
            ("disclosure.clipping",),
            federated.clipping,
        ),
    ),
)
COVERAGE = Chapter(
    "what the number covers",
    (
        Item("counted", "Which uses of the data are counted?", "A 2a", (), answers.counted),
        Item(
            "data-accesses",
            "Which uses of the data are not counted?",
            "A 2a",
            ("disclosure.data_accesses",),
            text_of("data_accesses"),
        ),
        Item(
            "tuning",
            "Does it cover the choice of hyperparameters?",
            "A 2a; B machine learning",
            ("disclosure.tuning", "train.covers.tuning"),
            answers.tuning,
        ),
        Item("releases", "What leaves the private side?", "A 2b", ("privacy.releases",), answers.releases),
        Item("composition", "How do several releases add up?", "A 3b; B properties", (), answers.composition),
        Item("budget", "Which cap holds?", "B privacy parameter", ("budget.epsilon", "budget.rho"), answers.budget),
        Item(
            "other-releases",
            "What else is published from these data?",
            "B mixing with other releases",
            ("disclosure.other_releases",),
            text_of("other_releases"),
        ),
        Item(
            "invariants",
            "What is released exactly, or taken as public?",
            "B mixing with other releases",
            ("disclosure.invariants",),
            text_of("invariants"),
        ),
    ),
)
ACCOUNTING = Chapter(
    "accounting",
    (
        Item("accountant", "Which accountant, by which theorem?", "A 3a", (), answers.accountant),
        Item("assumptions", "Which sampling was assumed?", "A 3b", (), answers.assumptions),
        Item("without-amplification", "What if batches are not drawn at random?", "A 3b", (), answers.without_amplification),
        Item("sampler", "Does the program sample as assumed?", "A 3b", ("disclosure.sampler",), federated.sampler),
        Item("checks", "Which known failures does the file show?", "B algorithms and correctness", (), answers.checks),
        Item("source-file", "Which file was accounted?", "A 4", (), answers.source_file),
    ),
)
IMPLEMENTATION = Chapter(
    "implementation",
    (
        Item(
            "implementation",
            "Which library adds the noise?",
            "A 4; B mechanism implementation",
            ("disclosure.implementation",),
            text_of("implementation"),
        ),
        Item(
            "randomness",
            "Where do random numbers come from?",
            "B mechanism implementation",
            ("disclosure.randomness",),
            text_of("randomness"),
        ),
        Item(
            "floating-point",
            "How does the noise survive finite precision?",
            "B floating-point arithmetic",
            ("disclosure.floating_point",),
            text_of("floating_point"),
        ),
        Item(
            "side-channels",
            "What else could an observer see?",
            "B timing channels, backend issues",
            ("disclosure.side_channels",),
            text_of("side_channels"),
        ),
        Item("code", "Where can the code be read?", "A 4", ("disclosure.code",), text_of("code")),
        Item(
            "verification",
            "Who tested, audited or reviewed it?",
            "A 4; B mechanism implementation",
            ("disclosure.verification",),
            text_of("verification"),
        ),
    ),
)
CARE = Chapter(
    "care of the data, and use",
    (
        Item("access", "Who can reach the raw data?", "B access control", ("disclosure.access",), text_of("access")),
        Item(
            "security",
            "How are raw data protected, stored and in use?",
            "B data security",
            ("disclosure.security",),
            text_of("security"),
        ),
        Item(
            "collection",
            "How were the data collected?",
            "B data collection exposure",
            ("disclosure.collection",),
            text_of("collection"),
        ),
        Item(
            "retention",
            "How long are the data kept?",
            "B data collection exposure",
            ("disclosure.retention",),
            text_of("retention"),
        ),
        Item("utility", "How accurate is the release?", "B utility and accuracy", ("disclosure.utility",), text_of("utility")),
        Item("bias", "What does the noise do to small groups?", "B bias", ("disclosure.bias",), text_of("bias")),
    ),
)

STATEMENT = (SETTING, DEFINITION, COVERAGE, ACCOUNTING, IMPLEMENTATION, CARE)
ASKED_BY = (
    "A: Ponomareva et al. 2023, How to DP-fy ML, arXiv:2303.00654, section 5.3.3, by item",
    "B: NIST SP 800-226 (2025), Guidelines for Evaluating Differential Privacy Guarantees, by section",
)
