"""lower <= brute force <= upper, for one statement in one situation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.accounting import Account, account
from dpcli.errors import InputError
from dpcli.mechanisms.base import Adjacency
from dpcli.pipeline.model import Pipeline
from dpcli.pipeline.read import parse
from tests.brute.references import REFERENCES, Reference, Situation
from tests.brute.schemes import SCHEMES, Array, datasets, hockey_stick, whole

EPSILONS = (0.1, 0.5, 1.3)
ROUNDING = 1e-9  # of sums of many floating-point numbers, relative; and, as delta, what tails beyond all cells weigh


@dataclass(frozen=True, slots=True)
class Bracket:
    """delta at `epsilon`: what is claimed, and what is true of the worst of the releases that were tried."""

    epsilon: float
    lower: float | None
    exact: float
    upper: float

    def holds(self, loss: float) -> bool:
        """loss: the share of delta that cells may hide."""
        below = self.lower is None or self.lower * (1.0 - loss) <= self.exact + ROUNDING
        return below and self.exact <= self.upper * (1.0 + ROUNDING) + ROUNDING * 1e-3


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. refused: why the file makes no sense, in dpcli's words."""

    reference: Reference
    scheme: str
    situation: Situation
    brackets: tuple[Bracket, ...] = ()
    refused: str | None = None

    @property
    def label(self) -> str:
        s, r = self.situation, self.reference
        keys = ", ".join(f"{key} {value}" for key, value in r.keys.items() if key not in ("trials", "mechanisms"))
        owners = f"{s.contributions} record{'s' * (s.contributions > 1)}, group {s.group}"
        return f"{r.type} ({keys}), {s.adjacency}, {self.scheme} ({s.draws.label}), {owners}"

    def faults(self) -> list[Bracket]:
        return [bracket for bracket in self.brackets if not bracket.holds(self.reference.loss)]


def rows(name: str) -> Iterator[Row]:
    """Every adjacency, scheme and size of change for the references of one mechanism type."""
    for reference in REFERENCES:
        if reference.type == name:
            for adjacency in Adjacency:
                for scheme, draws in SCHEMES.items():
                    for draw in draws:
                        for contributions, group in ((1, 1), (2, 1), (1, 2)):
                            yield row(reference, scheme, Situation(adjacency.value, draw, contributions, group))


def row(reference: Reference, scheme: str, situation: Situation) -> Row:
    """Account, and enumerate."""
    records = situation.contributions * situation.group
    one, other = datasets(situation.adjacency, records, situation.draws)
    try:
        pipeline = parse(_file(reference, scheme, situation, max(len(one), len(other))).encode(), "it.toml")
        accounts = {epsilon: account(pipeline, epsilon=epsilon, group_size=situation.group) for epsilon in EPSILONS}
    except InputError as error:
        return Row(reference, scheme, situation, refused=str(error))
    pairs = [(whole(situation.draws, r, one), whole(situation.draws, r, other)) for r in reference.releases(situation)]
    found = [_of_delta(accounts[epsilon], epsilon, pairs) for epsilon in EPSILONS]
    at = next((b.exact for b in found if 1e-9 < b.exact < 0.5), None)
    if at is not None:
        found += _of_epsilon(pipeline, at, situation.group, pairs)
    return Row(reference, scheme, situation, tuple(found))


def _exact(pairs: list[tuple[Array, Array]], epsilon: float) -> float:
    return max(hockey_stick(p, q, epsilon) for p, q in pairs)


def _of_delta(found: Account, epsilon: float, pairs: list[tuple[Array, Array]]) -> Bracket:
    return Bracket(epsilon, found.lower, _exact(pairs, epsilon), min(found.upper, 1.0))


def _of_epsilon(pipeline: Pipeline, delta: float, group: int, pairs: list[tuple[Array, Array]]) -> list[Bracket]:
    """The interval of epsilon at delta: delta is an upper bound at its upper end, and a lower bound at its lower one."""
    found = account(pipeline, delta=delta, group_size=group)
    ends = [] if math.isinf(found.upper) else [Bracket(found.upper, None, _exact(pairs, found.upper), delta)]
    return ends if not found.lower else [*ends, Bracket(found.lower, delta, _exact(pairs, found.lower), 1.0)]


def _file(reference: Reference, scheme: str, situation: Situation, size: int) -> str:
    several = situation.contributions > 1
    privacy = {
        "unit": "user" if several else "example",
        "adjacency": situation.adjacency,
        "delta": 1e-5,
        "dataset_size": size,
        **({"max_contributions": situation.contributions} if several else {}),
    }
    sampled = situation.draws.keys
    entry: dict[str, object] = {
        "name": "it",
        "type": reference.type,
        **reference.keys,
        **({"stated_for": "record"} if several and reference.stated else {}),
        "steps": situation.draws.steps * situation.draws.passes,
        **({"sampling": {"scheme": scheme, **sampled}} if sampled is not None else {}),
    }
    members = [{"name": name, **keys} for name, keys in reference.members.items()]
    tables = ["[privacy]\n" + _keys(privacy), *("[[mechanism]]\n" + _keys(keys) for keys in (*members, entry))]
    return "format = 1\n" + "\n".join(tables)


def _keys(table: dict[str, object]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
