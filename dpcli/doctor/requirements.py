"""The requirements of dpcli by the metadata of its installation: which versions of which packages, and for which extra."""

from __future__ import annotations

import importlib.metadata
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass

OF_DEVELOPERS = frozenset({"bench", "test", "test-core"})  # extras that no command needs
COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^;()]*)\)?\s*(?:;\s*extra\s*==\s*['\"]([\w.-]+)['\"]\s*)?")
_CONDITION = re.compile(r"\s*([<>=!]=|[<>])\s*(\d[\w.+-]*)\s*")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package and the versions of it that will do. conditions: such as ">=1.6,<1.7"; extra: empty where dpcli itself needs it."""

    name: str
    conditions: str
    extra: str = ""

    def __str__(self) -> str:
        return self.name + self.conditions

    def met(self, version: str) -> bool:
        """Whether a version meets every condition: one that is not understood is not met; a pre-release counts as what it precedes."""
        conditions = [_CONDITION.fullmatch(one) for one in self.conditions.split(",")] if self.conditions else []
        return all(one is not None and COMPARISONS[one[1]](_numbers(version), _numbers(one[2])) for one in conditions)


def declared() -> Iterator[Requirement]:
    """Yield what a command may need, in the order of the metadata: a package of several extras once for each.

    Raises:
        importlib.metadata.PackageNotFoundError: dpcli is run without an installation.
    """
    for text in importlib.metadata.requires("dpcli") or ():
        match = _REQUIREMENT.fullmatch(text)
        if match and match[1] != "dpcli" and match[3] not in OF_DEVELOPERS:
            yield Requirement(match[1], match[2].strip(), match[3] or "")


def python_needed() -> Requirement:
    """The versions of Python that will do; raises as `declared` does."""
    return Requirement("python", importlib.metadata.metadata("dpcli")["Requires-Python"])


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 26) of "1.26.0rc1": the leading numbers, without the zeros at their end."""
    leading = _NUMBERS.match(version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
