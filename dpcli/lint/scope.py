"""Which rules are asked: the codes that --select and --ignore name, whole or by how they begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.catalogue import LEDGER_RULES, READER_RULES, RULES, waivable, words


@dataclass(frozen=True, slots=True)
class RuleScope:
    """Beginnings of codes: what is selected (everything, where nothing is) and not ignored is told. The longer beginning decides.

    What the reader says of a file is always told: nothing else holds of a file that cannot be read. So is an error that no gate may waive.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def tells(self, code: str) -> bool:
        """Whether a finding of this rule is told."""
        if code in READER_RULES or not code.startswith("DP"):
            return True
        chosen = _longest(code, self.select) if self.select else 0
        return chosen is not None and chosen > (-1 if (ignored := _longest(code, self.ignore)) is None else ignored)

    def told(self, found: Iterable[Diagnostic]) -> tuple[list[Diagnostic], dict[str, int]]:
        """The findings that are told, and of which rules how many are not."""
        told: list[Diagnostic] = []
        left: Counter[str] = Counter()
        for one in found:
            if self.tells(one.rule) or (one.severity == "error" and not waivable(one.rule)):
                told.append(one)
            else:
                left[one.rule] += 1
        return told, dict(sorted(left.items()))


def scope_of(select: Iterable[str], ignore: Iterable[str]) -> RuleScope:
    """The rules that flags name, by codes or their beginnings with commas between them.

    Raises InputError for one that begins no code, and for a rule of the reader in `ignore`.
    """
    chosen, ignored = (tuple(_codes(flag, given)) for flag, given in (("--select", select), ("--ignore", ignore)))
    for code in ignored:
        if code in READER_RULES:
            raise InputError(f"--ignore: expected a rule about files that can be read, found {code}: {words(code).title}")
    return RuleScope(chosen, ignored)


def _codes(flag: str, given: Iterable[str]) -> Iterable[str]:
    for code in (part.strip().upper() for text in given for part in text.split(",")):
        if not code.startswith("DP") or not any(known.startswith(code) for known in (*RULES, *LEDGER_RULES)):
            try:
                words(code)
            except InputError as error:
                raise InputError(f"{flag}: {error}") from None
            raise InputError(f"{flag}: expected a rule that a file or a ledger can break, found {code}: {words(code).title}")
        yield code


def _longest(code: str, beginnings: Iterable[str]) -> int | None:
    """The length of the longest beginning of a code; None where none begins it."""
    return max((len(one) for one in beginnings if code.startswith(one)), default=None)
