"""Random entries of every registered mechanism type, sampling scheme and adjacency.

The exam (subjects.py) and the tests draw such files to find inputs that nobody thought of. The keys of a type, each with its *kind* (such
as a number or a list) and its *rule* (such as "above 0"), are read from its annotations, so that a new type is drawn as soon as it is
registered. Numbers are log-uniform. Most are moderate, and some are extreme. Keys that contradict each other are drawn again, up to TRIES
times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from dpcli.base.fields import Constraint
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS, SAMPLING
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import Flag, Kind, Listed, Number, WholeNumber
from dpcli.file.keys.tables import KeyTable, Members
from dpcli.file.keys.words import OneOf

TRIES = 60  # number of attempts to draw a value that satisfies its rule, or keys that agree with each other; more take longer
# Least and largest exponents of ten of the numbers in one file, which gets one of the pairs. The last spans nearly all positive floats.
SCALES = ((-1.0, 1.0), (-3.0, 3.0), (-3.0, 3.0), (-12.0, 12.0), (-300.0, 300.0))
COUNTS = (0.0, 2.0, 5.0, 9.0, 18.0)  # largest exponent of ten of the whole numbers in one file, which gets one of them
LARGEST_EXPONENT = 18  # largest exponent of ten of any whole number: keys accept no count above 10^18, which is below 2^63

Document = dict[str, Any]


@dataclass
class Drawing:
    """A source of random keys, whose numbers have a random scale.

    Attributes of the source:
        scale: Least and largest exponent of ten of its numbers, one of SCALES.
        count: Largest exponent of ten of its whole numbers, one of COUNTS.
    """

    random: Random

    def __post_init__(self) -> None:
        self.scale = self.random.choice(SCALES)
        self.count = self.random.choice(COUNTS)

    def keys(self, kind: str, adjacency: str, names: list[str]) -> Document | None:
        """Return keys of the mechanism type; None if no attempt gives keys that agree with each other.

        `names` are the entries that a key may name.
        """
        cls = load(MECHANISMS[kind])
        for _ in range(TRIES):
            keys = self.table(members_of(cls), {"adjacency": adjacency}, names)
            if keys is not None and not any(spec_of(cls, keys).problems()):
                return keys
        return None

    def sampling(self, privacy: Document, scheme: str | None = None) -> Document:
        """Return a sampling table. A dataset size is added to `privacy` if the table needs it."""
        scheme = scheme or self.random.choice(list(SAMPLING))
        members = {name: member for name, member in members_of(load(SAMPLING[scheme])).items() if name != "scheme"}
        keys = self.table(members, {}, []) or {}
        if "batch_size" in keys:
            keys["batch_size"] = min(keys["batch_size"], privacy.setdefault("dataset_size", 60_000))
            keys.pop("rate", None)
        elif "rate" in members:
            keys["rate"] = self.number(members["rate"].rule)
        if "max_batch_size" in keys:
            privacy.setdefault("dataset_size", 60_000)
        return {"scheme": scheme, **keys}

    def table(self, members: Members, fixed: Mapping[str, Any], names: list[str]) -> Document | None:
        """Return values for the required keys and for about half of the others; None if a key must name an entry and there is none.

        `fixed` has values that are not drawn. All lists of numbers in one table have one length, as some keys require.
        """
        length = self.random.choice([1, 2, 3, 8])
        result: Document = {}
        for name, member in members.items():
            if not member.required and self.odds(0.5):
                continue
            value = fixed[name] if name in fixed else self.value(member.kind, member.rule, names, length)
            if value is None:
                return None
            result[name] = value
        return result

    def value(self, kind: Kind, rule: Constraint | None, names: list[str], length: int) -> Any:
        """Return a random value of a kind that satisfies the rule. A key that names an entry gets one of `names`."""
        match kind:
            case Number():
                return self.number(rule)
            case WholeNumber():
                return self.count_of(rule, LARGEST_EXPONENT)
            case Flag():
                return self.odds(0.5)
            case OneOf():
                return self.random.choice(list(kind.values))
            case KeyTable():
                return self.table(kind.members, {}, names)
            case Listed(Number()):
                numbers = sorted(self.number(rule) for _ in range(length))
                # A rule that excludes 2 is taken for one about probabilities, which must add up to 1.
                are_shares = rule is not None and not rule.holds(2.0)
                return [x / sum(numbers) for x in numbers] if are_shares else numbers
            case Listed(WholeNumber()):
                return [self.count_of(rule, LARGEST_EXPONENT) for _ in range(length)]
            case Listed():
                return self.random.sample(names, min(length, len(names))) or None
            case _:
                return self.random.choice(names) if names else None

    def number(self, rule: Constraint | None) -> float:
        """Return a random number of 1, 3 or 9 digits that satisfies the rule; 0.5 if no attempt does."""
        for _ in range(TRIES):
            value = float(f"{10.0 ** self.random.uniform(*self.scale):.{self.random.choice([1, 3, 9])}g}")
            if rule is None or rule.holds(value):
                return value
        return 0.5

    def count_of(self, rule: Constraint | None, most: float) -> int:
        """Return a random whole number up to 10^most that satisfies the rule; 2 if no attempt does."""
        for _ in range(TRIES):
            value = int(10.0 ** self.random.uniform(0.0, min(self.count, most)))
            if rule is None or rule.holds(value):
                return value
        return 2

    def odds(self, share: float) -> bool:
        return self.random.random() < share


def spec_of(cls: type, keys: Document) -> Any:
    """Return the instance of the class that the file reader builds from these plain values.

    The keys of an inner table become an instance of its class, a word becomes the value for which it stands, and a list a tuple.
    """
    members = members_of(cls)

    def value(kind: Kind, plain: Any) -> Any:
        match kind:
            case KeyTable():
                return spec_of(kind.cls, plain)
            case OneOf():
                return kind.values[plain]
            case Listed():
                return tuple(plain)
            case _:
                return plain

    return cls(**{name: value(members[name].kind, plain) for name, plain in keys.items()})
