"""The check that the entry of a round charges at least what [federated] says is done.

Against those who see the releases alone (noise = "server") the draws of clients are secret, and count as their scheme does. Against the
server, which draws them, they are not: nothing is amplified, and who takes part is not hidden, only what is sent.

Independent Gaussians of k honest clients, each of standard deviation z C, add up to one of z C sqrt(k). Noise that drops out with a
client, and noise that somebody who works with the server knows, hides nothing: it is not counted. More noise is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, nextafter, sqrt
from typing import Any

from dpcli.base.lazy import load
from dpcli.base.registry import SAMPLING
from dpcli.base.rounding import down
from dpcli.federated.federated_settings import KEPT, Federated
from dpcli.file.pipeline.canonical import read_document
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.file.pipeline.parts import named
from dpcli.file.toml.findings import Findings, Path, Problem
from dpcli.file.toml.shown import first_names, quoted
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, Batched, Cyclic, OncePerEpoch, Scheme, Unsampled
from dpcli.train.plan.stages import performed


def noise_problems(table: Federated, entry: Entry, place: Path) -> Iterator[Problem]:
    """Yield a problem where the entry charges for more noise than there is, or for noise over another norm than a client's."""
    charged: float | None = entry.spec.noise_multiplier  # type: ignore[attr-defined]
    if charged is None:
        yield (
            (*place, "noise_multiplier"),
            "noise_multiplier, noise over the norm to which a client's update is clipped",
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
    if stated is not None and Fraction(charged) ** 2 > Fraction(stated) ** 2 * table.honest:
        yield (*place, "noise_multiplier"), f"at most {_least(table, stated)}", repr(charged)


def _least(table: Federated, stated: float) -> str:
    if table.honest == 1:
        return f"federated.noise_multiplier = {stated!r}"
    return f"{down(stated * sqrt(table.honest))} = {stated!r} sqrt({table.honest}), the noise of min_clients - dishonest clients"


def share_of_one(table: Federated, charged: float) -> float:
    """Return the noise_multiplier of one client with which `honest` clients together have `charged`, rounded up."""
    share = charged / sqrt(table.honest)
    while Fraction(share) ** 2 * table.honest < Fraction(charged) ** 2:
        share = nextafter(share, inf)
    return share


@dataclass(frozen=True, slots=True)
class Participation:
    """The rounds in which one client takes part. most: their number. apart: rounds from one of these to the next, at least."""

    most: int
    apart: int


def scheme_of(table: Federated) -> type[Scheme]:
    """Return the class of the sampling that the server does."""
    scheme: type[Scheme] = load(SAMPLING[table.sampling])
    return scheme


def participation(table: Federated, rounds: int, rate: Fraction | None, first: bool) -> Participation:
    """Return how often one client takes part in `rounds` consecutive rounds: in all of them where nothing prevents it.

    Args:
        rate: the share of the clients in one round, None where unknown. A pass takes floor(1 / rate) rounds at least.
        first: whether these rounds begin with a pass; others may have one more of its kind at their ends.
    """
    apart, most, scheme = table.min_separation or 1, table.max_participations or rounds, scheme_of(table)
    if rate is not None and issubclass(scheme, OncePerEpoch) and not issubclass(scheme, BallsInBins):
        length = max(int(1 / rate), 1)
        most = min(most, ceil(Fraction(rounds, length)) if first else 1 + ceil(Fraction(rounds - 1, length)))
        # Elsewhere than in one fixed order a client may be last in one pass and first in the next.
        apart = max(apart, length) if issubclass(scheme, Cyclic) else apart
    return Participation(min(most, rounds, ceil(Fraction(rounds, apart))), min(apart, rounds))


HERE = "federated"
UNITS = ("client", "user")
OBSERVED = {
    "secure-aggregation": "the server knows whose updates are in a sum",
    "local": "the server sees who sent which message",
}
MODELS = {"server": ("central", "secure-computation"), "secure-aggregation": ("distributed",), "local": ("local",)}


def judge_rounds(table: Federated, tables: Mapping[str, Any], findings: Findings) -> None:
    """Add a finding for each key by which less would be charged than is done; `tables` are those of a file valid otherwise."""
    values = read_document(tables, Findings())
    for path, expected, value in disagreements(table, values["privacy"], values.get("mechanism", ())):
        findings.add("DP005", path, expected, value)
    stated = values["disclosure"].privacy_model if "disclosure" in values else None
    if stated not in (None, *MODELS[table.noise]):
        words = " or ".join(f'"{word}"' for word in MODELS[table.noise])
        findings.add("DP005", ("disclosure", "privacy_model"), f'{words} with federated.noise = "{table.noise}"', f'"{stated}"')


def judge_solved(table: Federated, pipeline: Pipeline) -> Iterator[Problem]:
    """Repeat `disagreements` when what was to be solved for is a number."""
    yield from disagreements(table, pipeline.privacy, pipeline.mechanisms)


def disagreements(table: Federated, privacy: Privacy, entries: Sequence[Entry]) -> Iterator[Problem]:
    """Yield (key, expected, found) where less is charged than is done, by the table, [privacy] and the entries."""
    yield from _privacy(table, privacy)
    fitting = fitting_entries(table, entries)
    if len(fitting) != 1:
        known = first_names((entry.name for entry in entries if performed(entry.spec)), "the file has none")
        stated = quoted(table.mechanism) if table.mechanism is not None else "several" if fitting else "none"
        yield (HERE, "mechanism"), f"the name of the entry with Gaussian noise that a round performs ({known})", stated
        return
    entry, place = fitting[0], ("mechanism", entries.index(fitting[0]))
    yield from _alone(entry, entries, place)
    yield from _taking_part(table, entry, privacy)
    yield from noise_problems(table, entry, place)
    if isinstance(entry.spec, CorrelatedSpec):
        yield from _correlated(table, entry, entry.spec, privacy, place)
    else:
        yield from _independent(table, entry, privacy, place)


def fitting_entries(table: Federated, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that a round may be meant to perform."""
    return [entry for entry in entries if performed(entry.spec) and table.mechanism in (None, entry.name)]


def rate_of(table: Federated, entry: Entry, privacy: Privacy) -> Fraction | None:
    """Return the share of the clients in one round, as the table or else the entry states it."""
    charged = entry.sampling.exact_rate(privacy.dataset_size) if entry.sampling is not None else None
    return table.rate(privacy.dataset_size) or charged


def steps_of(entry: Entry, privacy: Privacy) -> int:
    scheme = entry.sampling
    return entry.runs(privacy.dataset_size).steps_at(
        scheme.lower_rate(privacy.dataset_size) if isinstance(scheme, Batched) else None
    )


def _privacy(table: Federated, privacy: Privacy) -> Iterator[Problem]:
    if privacy.unit not in UNITS:
        unit = "none" if privacy.unit is None else f'"{privacy.unit}"'
        yield (
            ("privacy", "unit"),
            'unit = "client", or "user" with the most clients of one, as a client\'s update is what is clipped',
            unit,
        )
    if privacy.unit == "client" and privacy.max_contributions not in (None, 1):
        yield (
            ("privacy", "max_contributions"),
            'max_contributions = 1 with unit = "client", one update in a round',
            str(privacy.max_contributions),
        )
    if None not in (table.population, privacy.dataset_size) and table.population != privacy.dataset_size:
        yield (
            (HERE, "population"),
            f"privacy.dataset_size = {privacy.dataset_size}, where a record is a client",
            str(table.population),
        )
    if privacy.adjacency is not Adjacency.ADD_REMOVE:
        return
    if table.observed:
        yield (
            ("privacy", "adjacency"),
            f'"zero-out" or "replace-one" with noise = "{table.noise}": {OBSERVED[table.noise]}, so that taking part is not hidden',
            '"add-remove"',
        )
    elif scheme_of(table).displaces:
        yield (
            ("privacy", "adjacency"),
            f'"replace-one" with sampling = "{table.sampling}": the absence of a client draws in another one',
            '"add-remove"',
        )


def _alone(entry: Entry, entries: Sequence[Entry], place: Path) -> Iterator[Problem]:
    if entry.partition is not None:
        yield (*place, "partition"), "no partition: a round sums over all clients that take part", "one"
    owner = next((one.name for one in entries if entry.name in named(one.spec)), None)
    if owner is not None:
        yield (
            (*place, "name"),
            "an entry that no other one names: a round performs it alone",
            f"{quoted(entry.name)}, which {quoted(owner)} names",
        )


def _taking_part(table: Federated, entry: Entry, privacy: Privacy) -> Iterator[Problem]:
    """Yield a problem where the sampling contradicts how often a client is said to take part, or nothing says how often."""
    iterations = entry.spec.iterations if isinstance(entry.spec, CorrelatedSpec) else 1
    rounds = table.rounds or steps_of(entry, privacy) * iterations
    always = f'with sampling = "{table.sampling}": every client takes part in each of {rounds} rounds'
    if scheme_of(table) is Unsampled and rounds > 1:
        if (table.max_participations or rounds) < rounds:
            yield (HERE, "max_participations"), f"{rounds} or more {always}", str(table.max_participations)
        if (table.min_separation or 1) > 1:
            yield (HERE, "min_separation"), f"1 or none {always}", str(table.min_separation)
    if (
        issubclass(scheme_of(table), OncePerEpoch)
        and table.population is privacy.dataset_size is None
        and all(getattr(table, key) is None for key in KEPT)
    ):
        yield (
            (HERE, "population"),
            f'the number of clients with sampling = "{table.sampling}", or max_participations: nothing else says how often one takes part',
            "none",
        )


def _independent(table: Federated, entry: Entry, privacy: Privacy, place: Path) -> Iterator[Problem]:
    """Fresh noise in each round: charged by the server's scheme, or as often as a client takes part."""
    scheme, steps = entry.sampling, steps_of(entry, privacy)
    if isinstance(scheme, Unsampled | None):
        yield from _counted(table, entry, privacy, steps, place)
        return
    if table.observed and scheme.amplified:
        yield (
            (*place, "sampling", "scheme"),
            f'no amplification (cyclic, shuffle or no sampling) with noise = "{table.noise}": {OBSERVED[table.noise]}',
            f'"{scheme.scheme}"',
        )
    elif scheme.scheme != table.sampling:
        yield (
            (HERE, "sampling"),
            f'"{scheme.scheme}", by which "{entry.name}" is charged (or no sampling there)',
            f'"{table.sampling}"',
        )
    if scheme.amplified:
        for key in KEPT:
            if getattr(table, key) is not None:
                yield (
                    (HERE, key),
                    f'no such key with "{scheme.scheme}": draws would depend on earlier ones, and amplification is proven for none that do',
                    str(getattr(table, key)),
                )
    if table.rounds not in (None, steps):
        yield (HERE, "rounds"), f'{steps}, the steps of "{entry.name}"', str(table.rounds)
    yield from _rate(table, entry, privacy)


def _rate(table: Federated, entry: Entry, privacy: Privacy) -> Iterator[Problem]:
    stated, charged = table.rate(privacy.dataset_size), entry.sampling.exact_rate(privacy.dataset_size) if entry.sampling else None
    if None not in (stated, charged) and stated != charged:
        key = "client_rate" if table.client_rate is not None else "clients_per_round"
        value = f"{float(stated or 0):.7g}"
        yield (HERE, key), f'a share of {float(charged or 0):.7g} of the clients in a round, as "{entry.name}" charges', value


def _counted(table: Federated, entry: Entry, privacy: Privacy, steps: int, place: Path) -> Iterator[Problem]:
    """Check an entry without sampling, charged in full for each step: a client pays for the rounds in which it takes part."""
    rounds = table.rounds or steps
    if table.rounds is None and any(getattr(table, key) is not None for key in KEPT):
        yield (HERE, "rounds"), f'the number of rounds, as "{entry.name}" counts those of one client', "none"
        return
    least = participation(table, rounds, rate_of(table, entry, privacy), first=True).most
    if not least <= steps <= rounds:
        many = (
            f"{rounds} steps, one for each round"
            if least == rounds
            else f"{least} steps or more, up to {rounds}: one client takes part so often"
        )
        yield (*place, "steps"), many, str(steps)


def _correlated(table: Federated, entry: Entry, spec: CorrelatedSpec, privacy: Privacy, place: Path) -> Iterator[Problem]:
    """Noise of one run of `iterations` rounds: what counts is where in it a client may take part."""
    steps = steps_of(entry, privacy)
    rounds = steps * spec.iterations
    if table.rounds not in (None, rounds):
        yield (HERE, "rounds"), f'{rounds}, the iterations of all runs of "{entry.name}"', str(table.rounds)
    kept = participation(table, spec.iterations, table.rate(privacy.dataset_size), first=steps == 1)
    yield from _participations(spec, kept, place)


def _participations(spec: CorrelatedSpec, kept: Participation, place: Path) -> Iterator[Problem]:
    whose = "a client may take part so often in a run, by what [federated] says"
    if spec.max_participations < kept.most:
        yield (*place, "max_participations"), f"{kept.most} or more: {whose}", str(spec.max_participations)
    if kept.most > 1 and spec.min_separation > kept.apart:
        whose = "a client may take part again so soon, by what [federated] says"
        yield (*place, "min_separation"), f"{kept.apart} or less: {whose}", str(spec.min_separation)
