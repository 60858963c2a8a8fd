"""Checks that the entry of a round costs at least as much as the rounds that [federated] describes.

In a *round* of federated training some clients send an update, and a noisy sum of the updates is used. An *entry* is a [[mechanism]] table
of the file: it says what is charged. [federated] says what is done. The file is refused, with each problem at its key, if less is charged
than done: less noise, fewer participations of a client, or a sampling that amplifies more. A *problem* is (key, what is expected there,
what the file states). The reader of files calls `check_rounds`, and again `check_solved_rounds` when it has computed a parameter that the
file left open. *Correlated* noise spans a *run* of several rounds, and is one mechanism.

With noise = "server", the adversary sees only the releases and does not know which clients were drawn, so that sampling may amplify.
Otherwise (`table.observed`) the server itself is an adversary. It draws the clients, so that sampling does not amplify, and the updates are
protected but not the participation. `table.enforced_keys` are the stated limits on participations that the server enforces in addition to
its random draws.

The independent Gaussian noises of k honest clients (`table.honest`), each with standard deviation z C, add up to Gaussian noise with
standard deviation z C sqrt(k). A client that drops out adds no noise, and a client that colludes with the server reveals its noise. Neither
is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import inf, nextafter, sqrt
from typing import Any

from dpcli.base.rounding import down
from dpcli.federated.federated_settings import Federated
from dpcli.federated.participations import participation_limit, scheme_of
from dpcli.file.pipeline.canonical import read_document
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.file.pipeline.parts import part_names
from dpcli.file.toml.findings import Findings, Path, Problem
from dpcli.file.toml.shown import first_names, quoted
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Batched, OncePerEpoch, Scheme, Unsampled
from dpcli.train.plan.stages import is_trainable

TABLE = "federated"
# What the server knows about participation, for each kind of noise by clients.
OBSERVED = {
    "secure-aggregation": "the server knows whose updates are in a sum",
    "local": "the server sees who sent which message",
}
# The privacy models that [disclosure] may state for each kind of noise.
PRIVACY_MODELS = {"server": ("central", "secure-computation"), "secure-aggregation": ("distributed",), "local": ("local",)}


def check_rounds(table: Federated, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each key by which an otherwise valid file costs less than its rounds, or contradicts its privacy model.

    DP005 is the rule about keys that contradict each other.
    """
    values = read_document(tables, Findings())
    for key, expected, stated in round_problems(table, values["privacy"], values.get("mechanism", ())):
        findings.add("DP005", key, expected, stated)
    privacy_model = values["disclosure"].privacy_model if "disclosure" in values else None
    if privacy_model not in (None, *PRIVACY_MODELS[table.noise]):
        models = " or ".join(f'"{word}"' for word in PRIVACY_MODELS[table.noise])
        findings.add(
            "DP005", ("disclosure", "privacy_model"), f'{models} with federated.noise = "{table.noise}"', f'"{privacy_model}"'
        )


def check_solved_rounds(table: Federated, pipeline: Pipeline) -> Iterator[Problem]:
    """Yield the `round_problems` of a file after its noise has been computed."""
    yield from round_problems(table, pipeline.privacy, pipeline.mechanisms)


def round_problems(table: Federated, privacy: Privacy, entries: Sequence[Entry]) -> Iterator[Problem]:
    """Yield (key, expected, stated) for each key by which the entries cost less than the described rounds."""
    yield from _privacy_problems(table, privacy)
    candidates = candidate_entries(table, entries)
    if len(candidates) != 1:
        names = first_names((entry.name for entry in entries if _performs(entry)), "the file has none")
        stated = "several" if candidates else "none"
        if table.mechanism is not None:
            stated = quoted(table.mechanism)
        yield (TABLE, "mechanism"), f"the name of the entry with Gaussian noise that a round performs ({names})", stated
        return
    (entry,) = candidates
    place = ("mechanism", entries.index(entry))
    yield from _entry_problems(entry, entries, place)
    yield from _participation_problems(table, entry, privacy)
    yield from _noise_problems(table, entry, place)
    if isinstance(entry.spec, CorrelatedSpec):
        yield from _correlated_problems(table, entry, entry.spec, privacy, place)
    elif isinstance(entry.sampling, Unsampled | None):
        yield from _unsampled_problems(table, entry, privacy, place)
    else:
        yield from _sampled_problems(table, entry, entry.sampling, privacy, place)


def _noise_problems(table: Federated, entry: Entry, place: Path) -> Iterator[Problem]:
    """Yield a problem if the entry assumes more noise than a sum has, or if it does not state its noise relative to the clipping norm."""
    charged: float | None = entry.spec.noise_multiplier  # type: ignore[attr-defined]
    if charged is None:
        yield (
            (*place, "noise_multiplier"),
            "noise_multiplier, the standard deviation of the noise over the norm to which an update is clipped",
            "sigma with a sensitivity",
        )
        return
    if table.observed and isinstance(entry.spec, CorrelatedSpec):
        yield (
            (*place, "type"),
            f'gaussian with noise = "{table.noise}": clients draw their noise independently in each round',
            f'"{entry.type}"',
        )
    stated = table.noise_multiplier
    # charged > stated sqrt(honest), squared, so that the comparison is exact.
    if stated is not None and Fraction(charged) ** 2 > Fraction(stated) ** 2 * table.honest:
        yield (*place, "noise_multiplier"), f"at most {_noise_words(table, stated)}", repr(charged)


def _noise_words(table: Federated, stated: float) -> str:
    """Return in words the largest noise multiplier that an entry may state, given that of one client."""
    if table.honest == 1:
        return f"federated.noise_multiplier = {stated!r}"
    return f"{down(stated * sqrt(table.honest))} = {stated!r} sqrt({table.honest}), the noise of min_clients - dishonest clients"


def client_noise_multiplier(table: Federated, charged: float) -> float:
    """Return the noise multiplier of one client, rounded up so that the sum over `table.honest` clients has at least `charged`."""
    share = charged / sqrt(table.honest)
    while Fraction(share) ** 2 * table.honest < Fraction(charged) ** 2:
        share = nextafter(share, inf)
    return share


def candidate_entries(table: Federated, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that a round may perform. A valid file has exactly one such entry."""
    return [entry for entry in entries if _performs(entry) and table.mechanism in (None, entry.name)]


def _performs(entry: Entry) -> bool:
    """Return whether a round can perform the entry. Clients see each model, but a `final_only` price covers only the last."""
    return is_trainable(entry.spec) and not entry.spec.final_only


def rate_of(table: Federated, entry: Entry, privacy: Privacy) -> Fraction | None:
    """Return the share of the clients in one round. The table states it, or else the entry; None if neither does."""
    return table.rate(privacy.dataset_size) or _charged_rate(entry, privacy)


def _charged_rate(entry: Entry, privacy: Privacy) -> Fraction | None:
    """Return the sampling rate of the entry; None if it states none."""
    return None if entry.sampling is None else entry.sampling.exact_rate(privacy.dataset_size)


def steps_of(entry: Entry, privacy: Privacy) -> int:
    """Return the number of steps of the entry. If it states epochs and two rates, the smaller rate gives more steps and is used."""
    size, scheme = privacy.dataset_size, entry.sampling
    return entry.runs(size).steps_at(scheme.lower_rate(size) if isinstance(scheme, Batched) else None)


def _privacy_problems(table: Federated, privacy: Privacy) -> Iterator[Problem]:
    """Yield the problems of [privacy]: its unit, its numbers, and an adjacency that the rounds do not protect."""
    if privacy.unit not in ("client", "user"):
        unit = "none" if privacy.unit is None else f'"{privacy.unit}"'
        yield (
            ("privacy", "unit"),
            'unit = "client", or "user" with the largest number of clients per user, as the update of a client is clipped',
            unit,
        )
    if privacy.unit == "client" and privacy.max_contributions not in (None, 1):
        yield (
            ("privacy", "max_contributions"),
            'max_contributions = 1 with unit = "client", as a client sends one update in a round',
            str(privacy.max_contributions),
        )
    states_both = table.population is not None and privacy.dataset_size is not None
    if states_both and table.population != privacy.dataset_size:
        yield (
            (TABLE, "population"),
            f"privacy.dataset_size = {privacy.dataset_size}, as each record is a client",
            str(table.population),
        )
    if privacy.adjacency is not Adjacency.ADD_REMOVE:
        return
    if table.observed:
        yield (
            ("privacy", "adjacency"),
            f'"zero-out" or "replace-one" with noise = "{table.noise}": {OBSERVED[table.noise]}, so participation is not hidden',
            '"add-remove"',
        )
    elif scheme_of(table).displaces:  # the absence of a client changes which other clients are drawn
        yield (
            ("privacy", "adjacency"),
            f'"replace-one" with sampling = "{table.sampling}": if a client is absent, another client is drawn',
            '"add-remove"',
        )


def _entry_problems(entry: Entry, entries: Sequence[Entry], place: Path) -> Iterator[Problem]:
    """Yield a problem if the entry may be charged for less than a round on all clients: for one part of them, or within another entry."""
    if entry.partition is not None:
        yield (*place, "partition"), "no partition: a round sums over all clients that take part", "one"
    owner = next((other.name for other in entries if entry.name in part_names(other.spec)), None)
    if owner is not None:
        yield (
            (*place, "name"),
            "an entry that no other entry names, as a round performs only this entry",
            f"{quoted(entry.name)}, which {quoted(owner)} names",
        )


def _participation_problems(table: Federated, entry: Entry, privacy: Privacy) -> Iterator[Problem]:
    """Yield a problem if the table's limits on participations contradict its sampling, or if nothing limits the participations."""
    iterations = entry.spec.iterations if isinstance(entry.spec, CorrelatedSpec) else 1
    rounds = table.rounds or steps_of(entry, privacy) * iterations
    why = f'with sampling = "{table.sampling}": every client takes part in each of {rounds} rounds'
    if scheme_of(table) is Unsampled and rounds > 1:
        if (table.max_participations or rounds) < rounds:
            yield (TABLE, "max_participations"), f"{rounds} or more {why}", str(table.max_participations)
        if (table.min_separation or 1) > 1:
            yield (TABLE, "min_separation"), f"1 or none {why}", str(table.min_separation)
    size_unknown = table.population is None and privacy.dataset_size is None
    if issubclass(scheme_of(table), OncePerEpoch) and size_unknown and not table.enforced_keys:
        yield (
            (TABLE, "population"),
            f'the number of clients with sampling = "{table.sampling}", or max_participations, to limit how often a client takes part',
            "none",
        )


def _sampled_problems(table: Federated, entry: Entry, scheme: Scheme, privacy: Privacy, place: Path) -> Iterator[Problem]:
    """Yield the problems of an entry with independent noise whose cost depends on a sampling scheme."""
    if table.observed and scheme.amplified:
        yield (
            (*place, "sampling", "scheme"),
            f'no amplification (cyclic, shuffle or no sampling) with noise = "{table.noise}": {OBSERVED[table.noise]}',
            f'"{scheme.scheme}"',
        )
    elif scheme.scheme != table.sampling:
        yield (
            (TABLE, "sampling"),
            f'"{scheme.scheme}", the scheme of "{entry.name}" (or no sampling in that entry)',
            f'"{table.sampling}"',
        )
    if scheme.amplified:
        for key in table.enforced_keys:
            yield (
                (TABLE, key),
                f'no such key with "{scheme.scheme}": draws would depend on earlier draws, for which no amplification is proved',
                str(getattr(table, key)),
            )
    steps = steps_of(entry, privacy)
    if table.rounds not in (None, steps):
        yield (TABLE, "rounds"), f'{steps}, the steps of "{entry.name}"', str(table.rounds)
    stated, charged = table.rate(privacy.dataset_size), _charged_rate(entry, privacy)
    if stated is not None and charged is not None and stated != charged:
        key = "client_rate" if table.client_rate is not None else "clients_per_round"
        share = f"{float(charged):.7g}"  # shown alone; the fractions are compared
        yield (TABLE, key), f'a share of {share} of the clients in a round, as "{entry.name}" states', f"{float(stated):.7g}"


def _unsampled_problems(table: Federated, entry: Entry, privacy: Privacy, place: Path) -> Iterator[Problem]:
    """Yield the problems of an entry with independent noise and without sampling. Its steps are the participations of one client."""
    steps = steps_of(entry, privacy)
    rounds = table.rounds or steps
    if table.rounds is None and table.enforced_keys:
        yield (TABLE, "rounds"), f'the number of all rounds, as the steps of "{entry.name}" are the rounds of one client', "none"
        return
    least = participation_limit(table, rounds, rate_of(table, entry, privacy), begins_pass=True).max_participations
    if not least <= steps <= rounds:
        expected = f"{least} steps or more, up to {rounds}, as a client takes part in {least} rounds"
        if least == rounds:
            expected = f"{rounds} steps, one for each round"
        yield (*place, "steps"), expected, str(steps)


def _correlated_problems(table: Federated, entry: Entry, spec: CorrelatedSpec, privacy: Privacy, place: Path) -> Iterator[Problem]:
    """Yield the problems of an entry with correlated noise.

    The cost of the entry depends on how often, and how many rounds apart, a client takes part in a run of `spec.iterations` rounds.
    """
    if not isinstance(entry.sampling, Unsampled | None):
        yield (
            (*place, "sampling"),
            "no sampling, as a server does not draw from groups of clients that take turns",
            f'"{entry.sampling.scheme}"',
        )
    steps = steps_of(entry, privacy)
    rounds = steps * spec.iterations
    if table.rounds not in (None, rounds):
        yield (TABLE, "rounds"), f'{rounds}, the iterations of all runs of "{entry.name}"', str(table.rounds)
    # If there are several runs, a later one may begin in the middle of a pass over the clients.
    allowed = participation_limit(table, spec.iterations, table.rate(privacy.dataset_size), begins_pass=steps == 1)
    if spec.max_participations < allowed.max_participations:
        yield (
            (*place, "max_participations"),
            f"{allowed.max_participations} or more, as [federated] allows a client to take part so often in a run",
            str(spec.max_participations),
        )
    if allowed.max_participations > 1 and spec.min_separation > allowed.min_separation:
        yield (
            (*place, "min_separation"),
            f"{allowed.min_separation} or less, as [federated] allows a client to take part again after so many rounds",
            str(spec.min_separation),
        )
