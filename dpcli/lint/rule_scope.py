"""The selection of lint rules by the flags --select and --ignore, which take codes (DP304) or their beginnings (DP3).

The flags decide what is reported, and not what is true: errors that no gate may waive are reported in any case (`RuleScope`). A *waiver* is
an exception from one rule that a file states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.catalogue import LEDGER_RULES, READER_RULES, RULES, entry_of, waivable


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The rules to report, by prefixes of their codes.

    If both tuples have a prefix of a code, the longer prefix decides; of two equal prefixes, that of `ignore`. Two kinds of findings are
    always reported: those of READER_RULES, because a file that cannot be read has no others, and errors that no gate may waive, including
    all errors of ledgers.

    Attributes:
        select: Prefixes of the codes to report; empty for all codes.
        ignore: Prefixes of the codes to leave out.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def includes(self, code: str) -> bool:
        """Return whether the flags select this rule. Errors that cannot be waived are reported even if the result is False."""
        if code in READER_RULES or not code.startswith("DP"):  # the flags take only codes that begin with DP
            return True
        selected = _longest(code, self.select) if self.select else 0  # without --select, the empty prefix selects every code
        ignored = _longest(code, self.ignore)
        return selected is not None and (ignored is None or selected > ignored)

    def selected(self, findings: Iterable[Diagnostic]) -> tuple[list[Diagnostic], dict[str, int]]:
        """Return the findings to report in their order, and the number of the others by code, ascending."""
        selected: list[Diagnostic] = []
        omitted: Counter[str] = Counter()
        for diagnostic in findings:
            if self.includes(diagnostic.rule) or (diagnostic.severity == "error" and not waivable(diagnostic.rule)):
                selected.append(diagnostic)
            else:
                omitted[diagnostic.rule] += 1
        return selected, dict(sorted(omitted.items()))


def scope_of(select: Iterable[str], ignore: Iterable[str]) -> RuleScope:
    """Return the rules that the values of --select and --ignore select: codes or prefixes of codes, separated by commas.

    Raises InputError if a part is not a prefix of the code of a rule about files or ledgers, or `ignore` has a full code of READER_RULES.
    """
    selected, ignored = tuple(_codes("--select", select)), tuple(_codes("--ignore", ignore))
    for code in ignored:
        if code in READER_RULES:
            raise InputError(f"--ignore: expected a rule about files that can be read, found {code}: {entry_of(code).title}")
    return RuleScope(selected, ignored)


def _codes(flag: str, values: Iterable[str]) -> Iterator[str]:
    """Yield the prefixes of codes in the values of a flag, in upper case. Raises InputError for a part that is not a prefix of a code."""
    for text in values:
        for part in text.split(","):
            prefix = part.strip().upper()
            if not prefix.startswith("DP") or not any(code.startswith(prefix) for code in (*RULES, *LEDGER_RULES)):
                raise InputError(f"{flag}: {_why_refused(prefix)}")
            yield prefix


def _why_refused(code: str) -> str:
    """Return why a code selects no rule: the catalogue does not have it, or no file and no ledger can reveal its failure."""
    try:
        title = entry_of(code).title
    except InputError as error:
        return str(error)
    return f"expected a rule that a file or a ledger can break, found {code}: {title}"


def _longest(code: str, beginnings: Iterable[str]) -> int | None:
    """Return the length of the longest of `beginnings` that is a prefix of the code; None if there is none."""
    return max((len(beginning) for beginning in beginnings if code.startswith(beginning)), default=None)
