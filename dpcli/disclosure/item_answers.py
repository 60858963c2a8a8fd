"""Answers to the items of a disclosure statement: quoted from the file, or derived from its mechanisms and its account.

An *item* is a question that papers or registries ask about a private release (items.py). A function that has the name of an item returns
the answer to it on one line, or None if the file does not state it. The other functions return parts of answers. Upper bounds are rounded
up. The *account* of a file is its certified epsilon and delta (dpcli/analysis), and its `winner` the row of the accountant whose bound is
stated; None if no accountant applies. An *entry* is a [[mechanism]] table, and a *charge* (`BillLine`) a mechanism with the number of its
runs. A guarantee is *amplified* if its cost is smaller because records are drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from dpcli import __version__
from dpcli.analysis.account import Account
from dpcli.analysis.budget_verdict import RhoVerdict, epsilon_of_rho, warning_level
from dpcli.base.rounding import counted, up
from dpcli.disclosure.disclosed_facts import Facts, amplified
from dpcli.disclosure.mechanism_words import listing, noise_reference, parameters, reads_private_data, short_value
from dpcli.document.short_numbers import short_number, short_number_up
from dpcli.file.keys.words import has_words, is_silent
from dpcli.file.pipeline.datasets import UNCHECKED, window_words
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import part_names, sample_readers, scheme_names
from dpcli.file.pipeline.resolve import BillLine
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Batched

ADJACENCIES = {
    Adjacency.ADD_REMOVE: "add-remove: the data with and without one {unit}",
    Adjacency.REPLACE_ONE: "replace-one: the data with one {unit} and with another in its place; the number of {unit}s is public",
    Adjacency.ZERO_OUT: "zero-out: the data with one {unit} and with this {unit} blanked; the number of {unit}s is public",
}
RELEASES = {
    "final-model": "final-model: the model at the end of training, and no earlier checkpoint",
    "all-checkpoints": "all-checkpoints: every intermediate model as well as the last",
    "outputs": "outputs: the noisy answers themselves",
}
PRIVACY_MODELS = {
    "central": "central: a curator has the raw data and is trusted to add the noise",
    "local": "local: noise is added before data leave the individual; no curator is trusted",
    "shuffle": "shuffle: individuals add some noise, and a trusted shuffler hides the sender of each message",
    "distributed": "distributed: several parties, some of them trusted, add the noise",
    "secure-computation": "secure-computation: the noise is added under encryption or in protected hardware, which is trusted",
}
QUERY_MODELS = {
    "one-release": "one-release: all questions are fixed before the data are read",
    "interactive": "interactive: analysts choose their questions, and may use earlier answers to choose",
}
# Who adds the noise of federated training, and whom its guarantee protects against, by the key `noise` of [federated].
NOISE_SOURCES = {
    "server": "the trusted server sees each client's update, and adds the noise once per round",
    "secure-aggregation": "each client adds a share of the noise, and the server sees only sums with the noise of {min_clients} clients "
    "or more, at most {dishonest} of whom collude with it; the rounding and the modulus of the aggregation are not accounted for",
    "local": "each client adds the noise itself, and the server sees every message and its sender",
}
ADVERSARIES = {
    "server": "The guarantee protects against those who see the releases, but not against the server",
    "secure-aggregation": "The guarantee protects against the server too, and so has no amplification by sampling",
    "local": "The guarantee protects against everybody, including the server, and so has no amplification by sampling",
}


def text_of(key: str) -> Callable[[Facts], str | None]:
    """Return a function that answers with the text of one key of [disclosure], on one line."""

    def answer(facts: Facts) -> str | None:
        value = getattr(facts.disclosure, key)
        return None if value is None else " ".join(str(value).split())

    return answer


def explanation_of(key: str, explanations: Mapping[str, str]) -> Callable[[Facts], str | None]:
    """Return a function that answers with the explanation of the value of one key of [disclosure]."""

    def answer(facts: Facts) -> str | None:
        value = getattr(facts.disclosure, key)
        return None if value is None else explanations[value]

    return answer


def definition(facts: Facts) -> str:
    if facts.account.delta == 0.0:
        variant = "pure differential privacy (delta = 0)"
    else:
        variant = "approximate differential privacy (epsilon, delta)"
    if _rho_verdict(facts) is not None:
        return f"zero-concentrated differential privacy (zCDP), which the budget uses, and {variant}"
    return variant


def guarantee(facts: Facts) -> str:
    """Return epsilon with all its conditions, and rho if the budget caps it; a sentence if nothing can be certified."""
    rho = _rho_verdict(facts)
    if rho is None or rho.spent.reason:
        return stated_epsilon(facts.account)
    implied = _implied_epsilon(rho.spent.value, facts.account)
    implication = f", which implies {implied}" if implied else ""
    return f"{stated_epsilon(facts.account)}; rho <= {up(rho.spent.value)} in zCDP{implication}"


def _rho_verdict(facts: Facts) -> RhoVerdict | None:
    """Return the verdict on the cap on rho; None if the budget has no such cap."""
    return None if facts.account.budget is None else facts.account.budget.rho


def _implied_epsilon(rho: float, account: Account) -> str:
    """Return the epsilon that rho-zCDP implies at the account's delta, in words; "" if delta is 0."""
    if not account.delta:
        return ""
    return f"epsilon <= {up(epsilon_of_rho(rho, account.delta))} at delta = {account.delta!r}"


def at_most(account: Account) -> str:
    """Return epsilon and delta in words, without the setting."""
    if account.winner is None:
        return f"no finite guarantee can be certified at delta = {account.delta!r}"
    return f"epsilon <= {up(account.upper)} at delta = {account.delta!r}"


def stated_epsilon(account: Account) -> str:
    """Return epsilon and delta in words, with unit, adjacency, sampling and accountant."""
    return f"{at_most(account)} ({conditions(account)})"


def conditions(account: Account) -> str:
    """Return the unit, adjacency and sampling in words and, if one applies, the accountant."""
    privacy = account.pipeline.privacy
    name = f"; accountant: {account.winner.accountant.name}" if account.winner else ""
    return f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, sampling: {scheme_names(account.pipeline)}{name}"


def delta(facts: Facts) -> str:
    value, size = facts.account.delta, facts.privacy.dataset_size
    if not value:
        return f"{value!r}"
    if size is None:
        return f"{value!r}; the number of records n is NOT STATED (privacy.dataset_size), so delta cannot be compared with 1/n"
    expected_records = float(Fraction(repr(value)) * size)
    return f"{value!r}; delta times the {size:,} records is {short_number_up(expected_records)}, and should be well below 1"


def unit(facts: Facts) -> str | None:
    return facts.privacy.unit


def contributions(facts: Facts) -> str | None:
    privacy = facts.privacy
    if privacy.unit is None:
        return None
    if privacy.max_contributions is None:
        return f"one record is one {privacy.unit}"
    return f"at most {counted(privacy.max_contributions, 'record')} per {privacy.unit}"


def adjacency(facts: Facts) -> str:
    return ADJACENCIES[facts.privacy.adjacency].format(unit=facts.unit)


def dataset_size(facts: Facts) -> str | None:
    size = facts.privacy.dataset_size
    return None if size is None else f"{size:,} records, declared public"


def releases(facts: Facts) -> str | None:
    return None if facts.privacy.releases is None else RELEASES[facts.privacy.releases]


def counted_uses(facts: Facts) -> str:
    uses = f"only the mechanisms of the file: {listing(charged_mechanisms(facts))}"
    return f"{uses}; they read {window(facts)}" if window(facts) else uses


def window(facts: Facts) -> str:
    """Return the blocks of data that were read, and whether dpcli checked their rows; "" if the file states no window."""
    words = window_words(facts.privacy)
    return f"the window {words} ({facts.rows or UNCHECKED})" if words else ""  # UNCHECKED: dpcli did not check the rows


def charged_mechanisms(facts: Facts) -> list[str]:
    """Return the mechanisms that cost privacy, each with its number of runs."""
    return [f"{charge.name} ({counted(charge.count, 'run')})" for charge in _costly_charges(facts)]


def _costly_charges(facts: Facts) -> list[BillLine]:
    """Return the charges of mechanisms that read private data, and are not mere post-processing."""
    return [charge for charge in facts.account.charges if any(map(reads_private_data, charge.entries))]


def mechanisms(facts: Facts) -> str:
    return listing([f"{entry.name}: {entry.type}{parameters(entry)}" for entry in facts.pipeline.mechanisms], "; ")


def sensitivity(facts: Facts) -> str:
    return _grouped((noise_reference(entry), entry.name) for entry in facts.pipeline.mechanisms)


def _grouped(pairs: Iterable[tuple[str, str]]) -> str:
    """Return each description once, followed by the names to which it applies."""
    groups: dict[str, list[str]] = {}
    for words, name in pairs:
        groups.setdefault(words, []).append(name)
    return listing([f"{words} ({listing(names)})" for words, names in groups.items()], "; ")


def composition(facts: Facts) -> str:
    count = sum(charge.count for charge in _costly_charges(facts))
    added = "1 release" if count == 1 else f"{count:,} releases, composed"
    if facts.privacy.adaptive:
        chosen = "chosen from earlier outputs, so that only privacy filters compose them (privacy.adaptive = true)"
    else:
        chosen = "fixed in advance (privacy.adaptive = false)"
    return f"{added}; parameters {chosen}"


def budget(facts: Facts) -> str | None:
    verdict = facts.account.budget
    if verdict is None:
        return None
    verdict_words = {
        "pass": "within it",
        "warn": f"within it, above its {warning_level(facts.account.pipeline)}",
        "fail": "OVER BUDGET",
        "unknown": "not certified",
    }
    caps = []
    if verdict.epsilon is not None:
        cap = verdict.epsilon
        caps.append(f"epsilon {cap.cap!r} at delta = {cap.delta!r}; spent: {up(cap.spent)}")
    if verdict.rho is not None:
        implied = _implied_epsilon(verdict.rho.cap, facts.account)
        implication = f" (rho = {verdict.rho.cap!r} implies {implied})" if implied else ""
        caps.append(f"{verdict.rho.words()} in zCDP{implication}")
    return ", ".join([*caps, verdict_words[verdict.verdict]])


def accountant(facts: Facts) -> str:
    winner = facts.account.winner
    if winner is None:
        return f"none applies (dpcli {__version__})"
    return f"{winner.accountant.name}: {winner.accountant.title}; {winner.accountant.source} (dpcli {__version__})"


def proof(facts: Facts) -> str | None:
    return None if facts.proof is None else facts.proof.words


def assumptions(facts: Facts) -> str:
    pairs = []
    for entry in facts.pipeline.mechanisms:
        samples_itself = entry.sampling is not None or not part_names(entry.spec)  # otherwise its parts draw the samples
        if reads_private_data(entry) and samples_itself:
            pairs.append((_sampling_words(entry, facts), entry.name))
    return _grouped(pairs)


def _sampling_words(entry: Entry, facts: Facts) -> str:
    """Return the sampling scheme of an entry, with its batch size and its rate, rounded up, if they are known."""
    scheme = entry.sampling
    if scheme is None:
        words = "none, every run reads all records"
    else:
        words = scheme.scheme
        if isinstance(scheme, Batched) and scheme.batch_size:
            words += f", batches of {short_number(scheme.batch_size)}"
        rate: Fraction | None = scheme.exact_rate(facts.privacy.dataset_size)
        if rate is not None:
            words += f", rate {short_number_up(float(rate))}"
    if len(sample_readers(entry, facts.pipeline.mechanisms)) > 1:
        words += f", one sample {short_value(entry.sample)} for all of them"
    return words


def without_amplification(facts: Facts) -> str:
    """Return in words the guarantee without random sampling, or why it does not differ or is not known."""
    if facts.unamplified is not None:
        order = "if the batches were in a shuffled or fixed order, in which an absent record leaves its place empty"
        return f"{order}: {stated_epsilon(facts.unamplified)}"
    if any(amplified(entry) for entry in facts.pipeline.mechanisms):
        return "without random sampling, nothing can be certified"
    return "the guarantee does not rely on random sampling"


def checks(facts: Facts) -> str:
    if not facts.diagnostics:
        return "none of those that dpcli lint detects"
    return listing([f"{diagnostic.severity} {diagnostic.rule}: {diagnostic.message}" for diagnostic in facts.diagnostics], "; ")


def source_file(facts: Facts) -> str:
    path, sha256 = facts.pipeline.path, facts.pipeline.sha256
    name = "standard input" if path is None or path == "-" else path
    return f"{name}, SHA-256 {sha256}" if sha256 else name


def tuning(facts: Facts) -> str | None:
    """Return the file's description of how hyperparameters were chosen, with the mechanisms that account for the choice."""
    covers = _section(facts.pipeline, "train").get("covers")  # what the accounting covers besides the training
    note = covers.get("tuning") if isinstance(covers, Mapping) else None
    training_words = None
    if isinstance(note, str) and has_words(note) and not is_silent(note):  # is_silent: the text itself says NOT STATED
        training_words = " ".join(note.split())
    # The mechanism with `whole_runs` is repeat-and-select: whole runs of another mechanism, of which the best is released.
    selections = [entry.name for entry in facts.pipeline.mechanisms if entry.spec.whole_runs]
    selection_words = f"accounted for by {listing(selections)}" if selections else None
    return _joined(text_of("tuning")(facts), training_words, selection_words)


def adversary_note(pipeline: Pipeline) -> tuple[str, ...]:
    """Return a sentence that names the adversary of a guarantee about clients; an empty tuple if the file has no clients."""
    federated = _section(pipeline, "federated")
    if not federated:
        return ()
    return (f"{ADVERSARIES[federated['noise']]}: {_noise_source(federated)}.",)


def _section(pipeline: Pipeline, name: str) -> Mapping[str, Any]:
    """Return a table of the file; an empty one if the file does not have it."""
    table: Mapping[str, Any] = dict(pipeline.sections).get(name, {})
    return table


def _noise_source(federated: Mapping[str, Any]) -> str:
    """Return in words who adds the noise of federated training, and what the server sees."""
    # Only the words for secure aggregation have places for these two keys, which other files may lack.
    return NOISE_SOURCES[federated["noise"]].format_map({"min_clients": 0, "dishonest": 0, **federated})


def _joined(*texts: str | None) -> str | None:
    """Return the texts, joined, without those that are None or empty; None if none is left."""
    return "; ".join(text for text in texts if text) or None


def privacy_model(facts: Facts) -> str | None:
    """Return who is trusted with the raw data, as the file states it, and as the source of federated noise implies it."""
    federated = _section(facts.pipeline, "federated")
    return _joined(explanation_of("privacy_model", PRIVACY_MODELS)(facts), _noise_source(federated) if federated else None)


def clipping(facts: Facts) -> str | None:
    norm = _section(facts.pipeline, "federated").get("clip")
    implied = None if norm is None else f"each client's update of a round is clipped to L2 norm {norm!r}"
    return _joined(text_of("clipping")(facts), implied)


def sampler(facts: Facts) -> str | None:
    federated, implied = _section(facts.pipeline, "federated"), None
    if federated:
        implied = (
            f"{federated['sampling']}, with which the server must really draw clients; no {facts.unit}'s data may influence which "
            "clients take part or drop out"
        )
    return _joined(text_of("sampler")(facts), implied)
