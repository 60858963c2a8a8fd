"""The items of a disclosure statement and of a registry entry: the questions that a reader of a private release should get answered.

None of the questions is ours. Each is asked by a paper, a guideline or a registry, named in `asked_by` by its letter and the place in the
document. An item also has the keys of the file that can state its answer, and the function of item_answers.py that reads them (DERIVED)
from the *facts*, a pipeline file with its certified epsilon and delta. A *form*, the statement or the registry entry, is a list of items in
chapters. statement.py asks the items of a form, and documents/disclosure.py prints them.

The documents are named in ASKED_BY and REGISTRY_ASKED_BY. Places in A: 1 setting, 2 definition (a data accesses, b output, c unit, d
adjacency), 3 accounting (a type, b assumptions, c formal statement), 4 transparency; in B: sections by name; in D: tiers 1 the deployment,
2 its parameters, 3 its details.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpcli.disclosure import item_answers as answers
from dpcli.disclosure.disclosed_facts import Facts
from dpcli.disclosure.item_answers import QUERY_MODELS, explanation_of, text_of

NOT_STATED = "NOT STATED"
AnswerFunction = Callable[[Facts], str | None]  # returns the answer as one line of text; None if the file does not state it


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a disclosure, which is one line of it.

    id: stable identifier for machine-readable output.
    question: the question that it answers, in words for readers.
    asked_by: documents that ask the question, each by its letter (see the docstring of this module) and the place in it.
    keys: keys of the file that can state the answer. If there are none, the answer follows from keys that every file has, and an item
        without an answer is left out.
    answer: function that returns the answer of a file. It never guesses.
    """

    id: str
    question: str
    asked_by: str
    keys: tuple[str, ...]
    answer: AnswerFunction


@dataclass(frozen=True, slots=True)
class Chapter:
    """Items with a common title. A form (STATEMENT, REGISTRY) is a tuple of chapters."""

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


# Id of an item that is more than a text of [disclosure] -> the keys that can state it, and the function of its answer.
DERIVED: Mapping[str, tuple[tuple[str, ...], AnswerFunction]] = {
    "privacy-model": (("disclosure.privacy_model",), answers.privacy_model),
    "query-model": (("disclosure.query_model",), explanation_of("query_model", QUERY_MODELS)),
    "definition": ((), answers.definition),
    "guarantee": ((), answers.guarantee),
    "delta": ((), answers.delta),
    "unit": (("privacy.unit",), answers.unit),
    "contributions": (("privacy.unit with privacy.max_contributions",), answers.contributions),
    "adjacency": ((), answers.adjacency),
    "mechanisms": ((), answers.mechanisms),
    "sensitivity": ((), answers.sensitivity),
    "clipping": (("disclosure.clipping",), answers.clipping),
    "counted": ((), answers.counted_uses),
    "tuning": (("disclosure.tuning", "train.covers.tuning"), answers.tuning),
    "releases": (("privacy.releases",), answers.releases),
    "composition": ((), answers.composition),
    "budget": (("budget.epsilon", "budget.rho"), answers.budget),
    "accountant": ((), answers.accountant),
    "proof": ((), answers.proof),
    "assumptions": ((), answers.assumptions),
    "without-amplification": ((), answers.without_amplification),
    "sampler": (("disclosure.sampler",), answers.sampler),
    "checks": ((), answers.checks),
    "source-file": ((), answers.source_file),
    "dataset-size": (("privacy.dataset_size",), answers.dataset_size),
}


def _chapter(title: str, *lines: tuple[str, str, str]) -> Chapter:
    """Return a chapter with an item for each line (id, question, asked_by).

    The answer to an item that is not in DERIVED is the text of the key of [disclosure] that has the item's id, with "_" for "-".
    """
    items = []
    for item_id, question, asked_by in lines:
        key = item_id.replace("-", "_")
        keys, answer = DERIVED.get(item_id) or ((f"disclosure.{key}",), text_of(key))
        items.append(Item(item_id, question, asked_by, keys, answer))
    return Chapter(title, tuple(items))


# The forms: a statement of disclosure, and the entry of a registry of deployments. The lists after them name the documents.
STATEMENT = (
    _chapter(
        "setting",
        ("privacy-model", "Who is trusted with the raw data?", "A 1; B threat models"),
        ("query-model", "Are the questions fixed, or do analysts put their own?", "B query models"),
        ("controller", "Who answers for the data?", "B threat models"),
        ("data", "Whose data are they?", "B unit of privacy"),
        ("purpose", "What is the release for?", "B data collection exposure"),
    ),
    _chapter(
        "guarantee",
        ("definition", "Which definition of privacy?", "A 3c; B variants"),
        ("guarantee", "How strong is it?", "A 3c; B privacy parameter"),
        ("delta", "How does delta compare with the number of records?", "A 3c; B variants"),
        ("unit", "What is one individual?", "A 2c; B unit of privacy"),
        ("contributions", "How much may one individual contribute?", "A 2c; B unit of privacy"),
        ("adjacency", "Which two datasets are compared?", "A 2d; B variants"),
        ("mechanisms", "Which mechanisms, with which noise?", "A 3b; B basic mechanisms"),
        ("sensitivity", "What is the noise measured against?", "B basic mechanisms"),
        ("clipping", "How is the bound on contributions enforced?", "A 2c; B summation queries"),
    ),
    _chapter(
        "what the number covers",
        ("counted", "Which uses of the data are counted?", "A 2a"),
        ("data-accesses", "Which uses of the data are not counted?", "A 2a"),
        ("tuning", "Does it cover the choice of hyperparameters?", "A 2a; B machine learning"),
        ("releases", "What leaves the private side?", "A 2b"),
        ("composition", "How do several releases add up?", "A 3b; B properties"),
        ("budget", "Which cap holds?", "B privacy parameter"),
        ("other-releases", "What else is published from these data?", "B mixing with other releases"),
        ("invariants", "What is released exactly, or taken as public?", "B mixing with other releases"),
    ),
    _chapter(
        "accounting",
        ("accountant", "Which accountant, by which theorem?", "A 3a"),
        ("proof", "Which certificate proves it?", "A 3c; B algorithms and correctness"),
        ("assumptions", "Which sampling was assumed?", "A 3b"),
        ("without-amplification", "What if batches are not drawn at random?", "A 3b"),
        ("sampler", "Does the program sample as assumed?", "A 3b"),
        ("checks", "Which known failures does the file show?", "B algorithms and correctness"),
        ("source-file", "Which file was accounted?", "A 4"),
    ),
    _chapter(
        "implementation",
        ("implementation", "Which library adds the noise?", "A 4; B mechanism implementation"),
        ("randomness", "Where do random numbers come from?", "B mechanism implementation"),
        ("floating-point", "How does the noise survive finite precision?", "B floating-point arithmetic"),
        ("side-channels", "What else could an observer see?", "B timing channels, backend issues"),
        ("code", "Where can the code be read?", "A 4"),
        ("verification", "Who tested, audited or reviewed it?", "A 4; B mechanism implementation"),
    ),
    _chapter(
        "care of the data, and use",
        ("access", "Who can reach the raw data?", "B access control"),
        ("security", "How are raw data protected, stored and in use?", "B data security"),
        ("collection", "How were the data collected?", "B data collection exposure"),
        ("retention", "How long are the data kept?", "B data collection exposure"),
        ("utility", "How accurate is the release?", "B utility and accuracy"),
        ("bias", "What does the noise do to small groups?", "B bias"),
    ),
)
ASKED_BY = (
    "A: Ponomareva et al. 2023, How to DP-fy ML, arXiv:2303.00654, section 5.3.3, by item",
    "B: NIST SP 800-226 (2025), Guidelines for Evaluating Differential Privacy Guarantees, by section",
)

REGISTRY = (
    _chapter(
        "tier 1: the deployment",
        ("controller", "Who (data curator)", "C; D 1"),
        ("contact", "Contact", "D 1"),
        ("purpose", "Intended use", "C; D 1"),
        ("product", "Data product", "C; D 1"),
        ("data", "Data", "D 1"),
        ("published", "Date of publication", "D 1"),
    ),
    _chapter(
        "tier 2: parameters",
        ("definition", "Flavour of privacy", "D 2"),
        ("guarantee", "Privacy loss", "C; D 2"),
        ("delta", "Delta", "C; D 2"),
        ("unit", "Unit of privacy", "C; D 2"),
        ("contributions", "Contributions per unit", "D 3"),
        ("adjacency", "Neighbouring datasets", "D 3"),
        ("privacy-model", "Deployment model", "C; D 2"),
        ("query-model", "Release or service", "D 2"),
    ),
    _chapter(
        "tier 3: details",
        ("mechanisms", "Mechanisms", "C; D 3"),
        ("dataset-size", "Data domain: number of records", "D 3"),
        ("invariants", "Unprotected quantities", "D 3"),
        ("composition", "Composition", "C; D 3"),
        ("budget", "Budget", "C; D 3"),
        ("accountant", "Accountant", "D 3"),
        ("proof", "Proof", "D 3"),
        ("releases", "Released", "D 3"),
        ("implementation", "Implementation", "C; D 3"),
        ("code", "Code", "D 3"),
        ("access", "Access to raw data", "D 3"),
        ("security", "Security", "D 3"),
        ("justification", "Why these parameters", "C; D 3"),
    ),
)
REGISTRY_ASKED_BY = (
    "C: Dwork, Kohli & Mulligan 2019, Differential Privacy in Practice: Expose your Epsilons!",  # J. of Privacy and Confidentiality 9(2)
    "D: Nanayakkara, Ghazi & Vadhan 2025, arXiv:2509.13509, by tier of the registry",
)
