"""The registry form: what a public registry of deployments asks for, as a list.

Sources: [C] Dwork, Kohli & Mulligan 2019, Differential Privacy in Practice: Expose your Epsilons!, Journal of Privacy and Confidentiality
9(2). [D] Nanayakkara, Ghazi & Vadhan 2025, arXiv:2509.13509, by tier: 1 the deployment, 2 its parameters, 3 its details.
"""

from __future__ import annotations

from dpcli.disclosure import answers, federated
from dpcli.disclosure.answers import QUERIES, text_of, worded
from dpcli.disclosure.item import Chapter, Item

DEPLOYMENT = Chapter(
    "tier 1: the deployment",
    (
        Item("controller", "Who (data curator)", "C; D 1", ("disclosure.controller",), text_of("controller")),
        Item("contact", "Contact", "D 1", ("disclosure.contact",), text_of("contact")),
        Item("purpose", "Intended use", "C; D 1", ("disclosure.purpose",), text_of("purpose")),
        Item("product", "Data product", "C; D 1", ("disclosure.product",), text_of("product")),
        Item("data", "Data", "D 1", ("disclosure.data",), text_of("data")),
        Item("published", "Date of publication", "D 1", ("disclosure.published",), text_of("published")),
    ),
)
PARAMETERS = Chapter(
    "tier 2: parameters",
    (
        Item("definition", "Flavour of privacy", "D 2", (), answers.definition),
        Item("guarantee", "Privacy loss", "C; D 2", (), answers.guarantee),
        Item("delta", "Delta", "C; D 2", (), answers.delta),
        Item("unit", "Unit of privacy", "C; D 2", ("privacy.unit",), answers.unit),
        Item(
            "contributions",
            "Contributions per unit",
            "D 3",
            ("privacy.unit with privacy.max_contributions",),
            answers.contributions,
        ),
        Item("adjacency", "Neighbouring datasets", "D 3", (), answers.adjacency),
        Item("privacy-model", "Deployment model", "C; D 2", ("disclosure.privacy_model",), federated.privacy_model),
        Item("query-model", "Release or service", "D 2", ("disclosure.query_model",), worded("query_model", QUERIES)),
    ),
)
DETAILS = Chapter(
    "tier 3: details",
    (
        Item("mechanisms", "Mechanisms", "C; D 3", (), answers.mechanisms),
        Item("dataset-size", "Data domain: number of records", "D 3", ("privacy.dataset_size",), answers.dataset_size),
        Item("invariants", "Unprotected quantities", "D 3", ("disclosure.invariants",), text_of("invariants")),
        Item("composition", "Composition", "C; D 3", (), answers.composition),
        Item("budget", "Budget", "C; D 3", ("budget.epsilon", "budget.rho"), answers.budget),
        Item("accountant", "Accountant", "D 3", (), answers.accountant),
        Item("releases", "Released", "D 3", ("privacy.releases",), answers.releases),
        Item("implementation", "Implementation", "C; D 3", ("disclosure.implementation",), text_of("implementation")),
        Item("code", "Code", "D 3", ("disclosure.code",), text_of("code")),
        Item("access", "Access to raw data", "D 3", ("disclosure.access",), text_of("access")),
        Item("security", "Security", "D 3", ("disclosure.security",), text_of("security")),
        Item("justification", "Why these parameters", "C; D 3", ("disclosure.justification",), text_of("justification")),
    ),
)

FORM = (DEPLOYMENT, PARAMETERS, DETAILS)
ASKED_BY = (
    "C: Dwork, Kohli & Mulligan 2019, Differential Privacy in Practice: Expose your Epsilons!",
    "D: Nanayakkara, Ghazi & Vadhan 2025, arXiv:2509.13509, by tier of the registry",
)
