"""Answers to the items of a disclosure statement: quoted from the file, or derived from its mechanisms and its account."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from dpcli import __version__
from dpcli.analysis.account import Account
from dpcli.analysis.budget_verdict import RhoVerdict, epsilon_of_rho, warning_level
from dpcli.disclosure.disclosed_facts import Facts, amplified
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.words import has_words, is_silent
from dpcli.file.pipeline.datasets import UNCHECKED, window_words
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import named, schemes, together
from dpcli.file.pipeline.resolve import BillLine
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Batched
from dpcli.plots.drawing import bound, few, few_up, parameter

MOST_LISTED = 8  # largest number of mechanisms that one line names
LONGEST_VALUE = 60  # largest number of characters of a key's value in one line

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
MODELS = {
    "central": "central: a curator has the raw data and is trusted to add the noise",
    "local": "local: noise is added before data leave the individual; no curator is trusted",
    "shuffle": "shuffle: individuals add some noise, and a trusted shuffler hides the sender of each message",
    "distributed": "distributed: several parties, some of them trusted, add the noise",
    "secure-computation": "secure-computation: the noise is added under encryption or in protected hardware, which is trusted",
}
QUERIES = {
    "one-release": "one-release: all questions are fixed before the data are read",
    "interactive": "interactive: analysts choose their questions, and may use earlier answers to choose",
}


def text_of(key: str) -> Callable[[Facts], str | None]:
    """Return a function that answers with the text of one key of [disclosure], on one line."""

    def answer(facts: Facts) -> str | None:
        value = getattr(facts.disclosure, key)
        return None if value is None else " ".join(str(value).split())

    return answer


def explanation_of(key: str, words: Mapping[str, str]) -> Callable[[Facts], str | None]:
    """Return a function that answers with the explanation in `words` of the value of one key of [disclosure]."""

    def answer(facts: Facts) -> str | None:
        value = getattr(facts.disclosure, key)
        return None if value is None else words[value]

    return answer


def definition(facts: Facts) -> str:
    plain = (
        "pure differential privacy (delta = 0)"
        if facts.account.delta == 0.0
        else "approximate differential privacy (epsilon, delta)"
    )
    capped = _rho(facts) is not None
    return f"zero-concentrated differential privacy (zCDP), which the budget uses, and {plain}" if capped else plain


def guarantee(facts: Facts) -> str:
    """Return epsilon with all its conditions, and rho if the budget caps it; a sentence if nothing can be certified."""
    rho = _rho(facts)
    if rho is None or rho.spent.reason:
        return stated_epsilon(facts.account)
    epsilon = implied(rho.spent.value, facts.account)
    return f"{stated_epsilon(facts.account)}; rho <= {bound(rho.spent.value)} in zCDP{epsilon and f', which implies {epsilon}'}"


def _rho(facts: Facts) -> RhoVerdict | None:
    return None if facts.account.budget is None else facts.account.budget.rho


def implied(rho: float, account: Account) -> str:
    """Return the epsilon that rho-zCDP implies at the account's delta, in words; "" if delta is 0."""
    return f"epsilon <= {bound(epsilon_of_rho(rho, account.delta))} at delta = {account.delta!r}" if account.delta else ""


def at_most(account: Account) -> str:
    """Return epsilon and delta in words, without the setting."""
    if account.winner is None:
        return f"no finite guarantee can be certified at delta = {account.delta!r}"
    return f"epsilon <= {bound(account.upper)} at delta = {account.delta!r}"


def stated_epsilon(account: Account) -> str:
    """Return epsilon and delta in words, with unit, adjacency, sampling and accountant."""
    return f"{at_most(account)} ({setting(account)})"


def setting(account: Account) -> str:
    """Return the unit, adjacency and sampling in words and, if one applies, the accountant."""
    privacy = account.pipeline.privacy
    name = f"; accountant: {account.winner.accountant.name}" if account.winner else ""
    return f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, sampling: {schemes(account.pipeline)}{name}"


def delta(facts: Facts) -> str:
    value, size = facts.account.delta, facts.privacy.dataset_size
    if not value:
        return f"{value!r}"
    if size is None:
        return f"{value!r}; the number of records n is NOT STATED (privacy.dataset_size), so delta cannot be compared with 1/n"
    return (
        f"{value!r}; delta times the {size:,} records is {few_up(float(Fraction(repr(value)) * size))}, and should be well below 1"
    )


def unit(facts: Facts) -> str | None:
    return facts.privacy.unit


def contributions(facts: Facts) -> str | None:
    privacy = facts.privacy
    if privacy.unit is None:
        return None
    if privacy.max_contributions is None:
        return f"one record is one {privacy.unit}"
    return f"at most {privacy.max_contributions:,} record{'s' if privacy.max_contributions > 1 else ''} per {privacy.unit}"


def adjacency(facts: Facts) -> str:
    return ADJACENCIES[facts.privacy.adjacency].format(unit=facts.unit)


def dataset_size(facts: Facts) -> str | None:
    size = facts.privacy.dataset_size
    return None if size is None else f"{size:,} records, declared public"


def releases(facts: Facts) -> str | None:
    return None if facts.privacy.releases is None else RELEASES[facts.privacy.releases]


def counted_uses(facts: Facts) -> str:
    return f"only the mechanisms of the file: {listing(charged_mechanisms(facts))}{'; they read ' if window(facts) else ''}{window(facts)}"


def window(facts: Facts) -> str:
    """Return the blocks of data that were read, and whether dpcli checked their rows; "" if the file states no window."""
    words = window_words(facts.privacy)
    return f"the window {words} ({facts.rows or UNCHECKED})" if words else ""


def charged_mechanisms(facts: Facts) -> list[str]:
    """Return the mechanisms that cost privacy, each with its number of runs."""
    return [f"{charge.name} ({runs(charge)})" for charge in facts.account.charges if any(map(reads_private_data, charge.entries))]


def mechanisms(facts: Facts) -> str:
    return listing([f"{entry.name}: {entry.type}{parameters(entry)}" for entry in facts.pipeline.mechanisms], "; ")


def sensitivity(facts: Facts) -> str:
    return _grouped((_relative_to(entry), entry.name) for entry in facts.pipeline.mechanisms)


def _grouped(pairs: Iterable[tuple[str, str]]) -> str:
    """Return each description once, followed by the names to which it applies."""
    groups: dict[str, list[str]] = {}
    for words, name in pairs:
        groups.setdefault(words, []).append(name)
    return listing([f"{words} ({listing(names)})" for words, names in groups.items()], "; ")


def _relative_to(entry: Entry) -> str:
    stated = getattr(entry.spec, "sensitivity", None)
    if stated is not None:
        return f"sensitivity {_plain(stated)} under the file's adjacency, as stated"
    norm = getattr(entry.spec, "l2_sensitivity", None)
    if norm is not None:
        return f"L2 sensitivity {_plain(norm)} under the file's adjacency, as stated"
    if getattr(entry.spec, "noise_multiplier", None) is not None:
        return "noise_multiplier over the bound C on one record's contribution"
    if named(entry.spec):
        return f"stated by its parts: {listing(named(entry.spec))}"
    return "its privacy parameters are stated directly" if reads_private_data(entry) else "reads no private data"


def reads_private_data(entry: Entry) -> bool:
    """Return whether an entry reads private data. An entry without parameters is post-processing."""
    return bool(_keys(entry))


def _keys(entry: Entry) -> tuple[str, ...]:
    kind: type = type(entry.spec)
    return tuple(members_of(kind))


def composition(facts: Facts) -> str:
    how = "chosen from earlier outputs, so that only privacy filters compose them" if facts.privacy.adaptive else "fixed in advance"
    count = sum(charge.count for charge in facts.account.charges if any(map(reads_private_data, charge.entries)))
    flag = str(facts.privacy.adaptive).lower()
    added = "1 release" if count == 1 else f"{count:,} releases, composed"
    return f"{added}; parameters {how} (privacy.adaptive = {flag})"


def budget(facts: Facts) -> str | None:
    verdict = facts.account.budget
    if verdict is None:
        return None
    near = warning_level(facts.account.pipeline)
    words = {"pass": "within it", "warn": f"within it, above its {near}", "fail": "OVER BUDGET", "unknown": "not certified"}
    rho = "" if verdict.rho is None else f"{verdict.rho.words()} in zCDP{_implied_by_cap(verdict.rho, facts.account)}"
    cap = verdict.epsilon
    if cap is None:
        return f"{rho}, {words[verdict.verdict]}"
    rho = rho and f", {rho}"
    return f"epsilon {cap.cap!r} at delta = {cap.delta!r}; spent: {bound(cap.spent)}{rho}, {words[verdict.verdict]}"


def _implied_by_cap(rho: RhoVerdict, account: Account) -> str:
    return f" (rho = {rho.cap!r} implies {at})" if (at := implied(rho.cap, account)) else ""


def accountant(facts: Facts) -> str:
    winner = facts.account.winner
    if winner is None:
        return f"none applies (dpcli {__version__})"
    return f"{winner.accountant.name}: {winner.accountant.title}; {winner.accountant.source} (dpcli {__version__})"


def proof(facts: Facts) -> str | None:
    return None if facts.proof is None else facts.proof.words


def assumptions(facts: Facts) -> str:
    entries = [
        mechanism
        for mechanism in facts.pipeline.mechanisms
        if reads_private_data(mechanism) and (mechanism.sampling is not None or not named(mechanism.spec))
    ]
    return _grouped((describe_sampling(entry, facts) + _shared(entry, facts), entry.name) for entry in entries)


def _shared(entry: Entry, facts: Facts) -> str:
    several = len(together(entry, facts.pipeline.mechanisms)) > 1
    return f", one sample {_short(entry.sample)} for all of them" if several else ""


def without_amplification(facts: Facts) -> str:
    """Return the guarantee without random sampling, in words."""
    if facts.unamplified is None and _relies_on_sampling(facts):
        return "without random sampling, nothing can be certified"
    if facts.unamplified is None:
        return "the guarantee does not rely on random sampling"
    order = "if the batches were in a shuffled or fixed order, in which an absent record leaves its place empty"
    return f"{order}: {stated_epsilon(facts.unamplified)}"


def _relies_on_sampling(facts: Facts) -> bool:
    return any(amplified(entry) for entry in facts.pipeline.mechanisms)


def checks(facts: Facts) -> str:
    if not facts.diagnostics:
        return "none of those that dpcli lint detects"
    return listing([f"{diagnostic.severity} {diagnostic.rule}: {diagnostic.message}" for diagnostic in facts.diagnostics], "; ")


def source_file(facts: Facts) -> str:
    path, sha256 = facts.pipeline.path, facts.pipeline.sha256
    name = "standard input" if path in (None, "-") else path
    return f"{name}, SHA-256 {sha256}" if sha256 else f"{name}"


def tuning(facts: Facts) -> str | None:
    """Return the file's description of how hyperparameters were chosen, with the mechanisms that account for the choice."""
    train = dict(facts.pipeline.sections).get("train", {})
    covers = train.get("covers")
    note = covers.get("tuning") if isinstance(covers, Mapping) else None
    selections = [entry.name for entry in facts.pipeline.mechanisms if entry.spec.whole_runs]
    return _together(
        text_of("tuning")(facts),
        " ".join(note.split()) if isinstance(note, str) and has_words(note) and not is_silent(note) else None,
        f"accounted for by {listing(selections)}" if selections else None,
    )


def runs(charge: BillLine) -> str:
    return "1 run" if charge.count == 1 else f"{charge.count:,} runs"


def describe_sampling(entry: Entry, facts: Facts) -> str:
    if entry.sampling is None:
        return "none, every run reads all records"
    rate: Fraction | None = entry.sampling.exact_rate(facts.privacy.dataset_size)
    size = (
        f", batches of {few(entry.sampling.batch_size)}"
        if isinstance(entry.sampling, Batched) and entry.sampling.batch_size
        else ""
    )
    return f"{entry.sampling.scheme}{size}" + (f", rate {few_up(float(rate))}" if rate is not None else "")


def parameters(entry: Entry) -> str:
    """Return the keys of a mechanism whose values differ from their defaults, with these values."""
    values = {name: getattr(entry.spec, name) for name in _keys(entry)}
    words = [
        f"{name} = {_short(value, name)}" for name, value in values.items() if value is not None and value != _default(entry, name)
    ]
    return f" ({', '.join(words)})" if words else ""


def _default(entry: Entry, name: str) -> Any:
    (field,) = (field for field in dataclasses.fields(type(entry.spec)) if field.name == name)  # type: ignore[arg-type]
    return field.default


def _short(value: Any, name: str = "") -> str:
    text = _plain(value, name)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _plain(value: Any, name: str = "") -> str:
    """Return the value of a key in the syntax of the file. Long numbers are rounded to the safe side."""
    if dataclasses.is_dataclass(value):
        stated = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return "{ " + ", ".join(f"{key} = {_plain(item, key)}" for key, item in stated if item is not None) + " }"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_plain(item, name) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return parameter(name, value)
    return f"{value:,}" if type(value) is int else str(value)


def listing(words: list[str], between: str = ", ") -> str:
    """Return the first MOST_LISTED words, joined, and the number of other words; "none" if there are no words."""
    more = [f"and {len(words) - MOST_LISTED:,} more"] if len(words) > MOST_LISTED else []
    return between.join([*words[:MOST_LISTED], *more]) or "none"


NOISE = {
    "server": "the trusted server sees each client's update, and adds the noise once per round",
    "secure-aggregation": "each client adds a share of the noise, and the server sees only sums with the noise of {min_clients} clients "
    "or more, at most {dishonest} of whom collude with it; the rounding and the modulus of the aggregation are not accounted for",
    "local": "each client adds the noise itself, and the server sees every message and its sender",
}


AGAINST = {
    "server": "The guarantee protects against those who see the releases, but not against the server",
    "secure-aggregation": "The guarantee protects against the server too, and so has no amplification by sampling",
    "local": "The guarantee protects against everybody, including the server, and so has no amplification by sampling",
}


def adversary_note(pipeline: Pipeline) -> tuple[str, ...]:
    """Return a sentence that names the adversary of a guarantee about clients; an empty tuple if the file has no clients."""
    table = _federated(pipeline)
    return (f"{AGAINST[table['noise']]}: {_noise(table)}.",) if table else ()


def _federated(pipeline: Pipeline) -> Mapping[str, Any]:
    table: Mapping[str, Any] = dict(pipeline.sections).get("federated", {})
    return table


def _noise(table: Mapping[str, Any]) -> str:
    return NOISE[table["noise"]].format_map({"min_clients": 0, "dishonest": 0, **table})


def _together(*texts: str | None) -> str | None:
    return "; ".join(text for text in texts if text) or None


def privacy_model(facts: Facts) -> str | None:
    """Return the party trusted with raw data, as the file states it, and as the place of the noise implies it."""
    table = _federated(facts.pipeline)
    return _together(explanation_of("privacy_model", MODELS)(facts), _noise(table) if table else None)


def clipping(facts: Facts) -> str | None:
    clip = _federated(facts.pipeline).get("clip")
    bound_words = None if clip is None else f"each client's update of a round is clipped to L2 norm {clip!r}"
    return _together(text_of("clipping")(facts), bound_words)


def sampler(facts: Facts) -> str | None:
    table = _federated(facts.pipeline)
    words = "{}, with which the server must really draw clients; no {}'s data may influence which clients take part or drop out"
    return _together(text_of("sampler")(facts), words.format(table["sampling"], facts.unit) if table else None)
