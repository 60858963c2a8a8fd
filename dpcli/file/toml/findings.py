"""What reading has found wrong so far, by key; positions are looked up only once there is something to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from dpcli.base.values import dataclass
from dpcli.file.toml.shown import without_passwords

Path = tuple[str | int, ...]
Problem = tuple[Path, str, str]  # key, expected, found
Advice = Callable[[str, Iterable[str]], tuple[str | None, str]]  # unknown key, known ones -> the one meant, words

MAX_FINDINGS = 100


class TooMany(Exception):
    """More findings than anyone reads; those collected so far are reported."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem: the rule it breaks, the key it is about, and the message in its parts. among: the words that may stand there."""

    rule: str
    key: Path
    expected: str
    found: str
    hint: str = ""
    among: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"expected {self.expected}, found {without_passwords(self.found)}" + (f"; {self.hint}" if self.hint else "")


@dataclass(slots=True)
class Findings:
    """A list that refuses to grow past `MAX_FINDINGS`: then it raises TooMany.

    advice: what to do about an unknown key, where the file is of another format than the pipeline's.
    """

    items: list[Fault] = field(default_factory=list)
    more: bool = False
    advice: Advice | None = None

    def __len__(self) -> int:
        return len(self.items)

    def add(self, rule: str, key: Path, expected: str, found: str, hint: str = "", among: Iterable[str] = ()) -> None:
        if len(self.items) >= MAX_FINDINGS:
            self.more = True
            raise TooMany
        self.items.append(Fault(rule, key, expected, found, hint, tuple(among)))
