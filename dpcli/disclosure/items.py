"""The items of a disclosure statement and of a registry entry. An item has a question, a source, keys of the file, and an answer.

Sources: [A] Ponomareva et al. 2023, How to DP-fy ML, arXiv:2303.00654, section 5.3.3 (1 setting, 2 definition: a data accesses, b output,
c unit, d adjacency; 3 accounting: a type, b assumptions, c formal statement; 4 transparency). [B] Near, Darais, Lefkovitz & Howarth 2025,
NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees, by the name of its section. [C] Dwork, Kohli & Mulligan 2019,
Differential Privacy in Practice: Expose your Epsilons!, Journal of Privacy and Confidentiality 9(2). [D] Nanayakkara, Ghazi & Vadhan 2025,
arXiv:2509.13509, by tier: 1 the deployment, 2 its parameters, 3 its details.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpcli.disclosure import item_answers as answers
from dpcli.disclosure.disclosed_facts import Facts
from dpcli.disclosure.item_answers import QUERIES, explanation_of, text_of

NOT_STATED = "NOT STATED"


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a disclosure, which is one line of it.

    Attributes:
        id: Stable identifier for machine-readable output.
        question: The question that it answers, in words for readers.
        asked_by: The document that asks the question, and the place in it.
        keys: Keys of the file, each of which can state the answer. Empty if no key states it: the answer follows from keys that every file
            has, or the item is left out if there is no answer.
        answer: Function that returns the answer as one line of text; None if the file does not state the answer. It never guesses.
    """

    id: str
    question: str
    asked_by: str
    keys: tuple[str, ...]
    answer: Callable[[Facts], str | None]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The items of a form that have a common title."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An item with the answer of a file; the text is None if the file does not state it."""

    item: Item
    text: str | None

    @property
    def stated(self) -> bool:
        return self.text is not None

    @property
    def line(self) -> str:
        """The answer as it is shown; if the file does not state it, NOT STATED with the keys that could state it."""
        return self.text if self.text is not None else f"{NOT_STATED} ({' or '.join(self.item.keys)})"


def _item_of_key(key: str, question: str, asked_by: str, answer: Callable[[Facts], str | None] | None = None) -> Item:
    """Return the item that one key of [disclosure] states. If `answer` is None, the answer is the text of the key."""
    return Item(key.replace("_", "-"), question, asked_by, (f"disclosure.{key}",), answer or text_of(key))


STATEMENT = (
    Chapter(
        "setting",
        (
            _item_of_key("privacy_model", "Who is trusted with the raw data?", "A 1; B threat models", answers.privacy_model),
            _item_of_key(
                "query_model",
                "Are the questions fixed, or do analysts put their own?",
                "B query models",
                explanation_of("query_model", QUERIES),
            ),
            _item_of_key("controller", "Who answers for the data?", "B threat models"),
            _item_of_key("data", "Whose data are they?", "B unit of privacy"),
            _item_of_key("purpose", "What is the release for?", "B data collection exposure"),
        ),
    ),
    Chapter(
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
            _item_of_key("clipping", "How is the bound on contributions enforced?", "A 2c; B summation queries", answers.clipping),
        ),
    ),
    Chapter(
        "what the number covers",
        (
            Item("counted", "Which uses of the data are counted?", "A 2a", (), answers.counted_uses),
            _item_of_key("data_accesses", "Which uses of the data are not counted?", "A 2a"),
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
            _item_of_key("other_releases", "What else is published from these data?", "B mixing with other releases"),
            _item_of_key("invariants", "What is released exactly, or taken as public?", "B mixing with other releases"),
        ),
    ),
    Chapter(
        "accounting",
        (
            Item("accountant", "Which accountant, by which theorem?", "A 3a", (), answers.accountant),
            Item("proof", "Which certificate proves it?", "A 3c; B algorithms and correctness", (), answers.proof),
            Item("assumptions", "Which sampling was assumed?", "A 3b", (), answers.assumptions),
            Item("without-amplification", "What if batches are not drawn at random?", "A 3b", (), answers.without_amplification),
            _item_of_key("sampler", "Does the program sample as assumed?", "A 3b", answers.sampler),
            Item("checks", "Which known failures does the file show?", "B algorithms and correctness", (), answers.checks),
            Item("source-file", "Which file was accounted?", "A 4", (), answers.source_file),
        ),
    ),
    Chapter(
        "implementation",
        (
            _item_of_key("implementation", "Which library adds the noise?", "A 4; B mechanism implementation"),
            _item_of_key("randomness", "Where do random numbers come from?", "B mechanism implementation"),
            _item_of_key("floating_point", "How does the noise survive finite precision?", "B floating-point arithmetic"),
            _item_of_key("side_channels", "What else could an observer see?", "B timing channels, backend issues"),
            _item_of_key("code", "Where can the code be read?", "A 4"),
            _item_of_key("verification", "Who tested, audited or reviewed it?", "A 4; B mechanism implementation"),
        ),
    ),
    Chapter(
        "care of the data, and use",
        (
            _item_of_key("access", "Who can reach the raw data?", "B access control"),
            _item_of_key("security", "How are raw data protected, stored and in use?", "B data security"),
            _item_of_key("collection", "How were the data collected?", "B data collection exposure"),
            _item_of_key("retention", "How long are the data kept?", "B data collection exposure"),
            _item_of_key("utility", "How accurate is the release?", "B utility and accuracy"),
            _item_of_key("bias", "What does the noise do to small groups?", "B bias"),
        ),
    ),
)
ASKED_BY = (
    "A: Ponomareva et al. 2023, How to DP-fy ML, arXiv:2303.00654, section 5.3.3, by item",
    "B: NIST SP 800-226 (2025), Guidelines for Evaluating Differential Privacy Guarantees, by section",
)

REGISTRY = (
    Chapter(
        "tier 1: the deployment",
        (
            _item_of_key("controller", "Who (data curator)", "C; D 1"),
            _item_of_key("contact", "Contact", "D 1"),
            _item_of_key("purpose", "Intended use", "C; D 1"),
            _item_of_key("product", "Data product", "C; D 1"),
            _item_of_key("data", "Data", "D 1"),
            _item_of_key("published", "Date of publication", "D 1"),
        ),
    ),
    Chapter(
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
            _item_of_key("privacy_model", "Deployment model", "C; D 2", answers.privacy_model),
            _item_of_key("query_model", "Release or service", "D 2", explanation_of("query_model", QUERIES)),
        ),
    ),
    Chapter(
        "tier 3: details",
        (
            Item("mechanisms", "Mechanisms", "C; D 3", (), answers.mechanisms),
            Item("dataset-size", "Data domain: number of records", "D 3", ("privacy.dataset_size",), answers.dataset_size),
            _item_of_key("invariants", "Unprotected quantities", "D 3"),
            Item("composition", "Composition", "C; D 3", (), answers.composition),
            Item("budget", "Budget", "C; D 3", ("budget.epsilon", "budget.rho"), answers.budget),
            Item("accountant", "Accountant", "D 3", (), answers.accountant),
            Item("proof", "Proof", "D 3", (), answers.proof),
            Item("releases", "Released", "D 3", ("privacy.releases",), answers.releases),
            _item_of_key("implementation", "Implementation", "C; D 3"),
            _item_of_key("code", "Code", "D 3"),
            _item_of_key("access", "Access to raw data", "D 3"),
            _item_of_key("security", "Security", "D 3"),
            _item_of_key("justification", "Why these parameters", "C; D 3"),
        ),
    ),
)
REGISTRY_ASKED_BY = (
    "C: Dwork, Kohli & Mulligan 2019, Differential Privacy in Practice: Expose your Epsilons!",
    "D: Nanayakkara, Ghazi & Vadhan 2025, arXiv:2509.13509, by tier of the registry",
)
