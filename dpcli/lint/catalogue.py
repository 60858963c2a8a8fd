"""The rules by code; each is imported only when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.registry import load

if TYPE_CHECKING:
    from dpcli.lint.rule import RuleInfo

RULES: dict[str, str] = {
    "DP001": "dpcli.lint.reading:SYNTAX",
    "DP002": "dpcli.lint.reading:UNKNOWN_KEY",
    "DP003": "dpcli.lint.reading:WRONG_TYPE",
    "DP004": "dpcli.lint.reading:OUT_OF_RANGE",
    "DP005": "dpcli.lint.reading:INCONSISTENT",
    "DP101": "dpcli.lint.sampling:NOT_AMPLIFIED",
    "DP102": "dpcli.lint.sampling:FIXED_SIZE",
    "DP103": "dpcli.lint.neighbours:MIXED_ADJACENCY",
    "DP104": "dpcli.lint.neighbours:RECORD_OR_UNIT",
    "DP105": "dpcli.lint.delta:LARGE_DELTA",
    "DP110": "dpcli.lint.composition:TUNING",
    "DP112": "dpcli.lint.composition:ADAPTIVE",
    "DP117": "dpcli.lint.sampling:ROUNDED_STEPS",
    "DP119": "dpcli.lint.composition:PARTITION",
    "DP201": "dpcli.lint.statement:FLOATING_POINT",
    "DP301": "dpcli.lint.statement:NOT_STATED",
    "DP304": "dpcli.lint.statement:LARGE_EPSILON",
    "DP305": "dpcli.lint.sampling:NEVER_SAMPLED",
    "DP306": "dpcli.lint.delta:UNKNOWN_SIZE",
}


def codes() -> tuple[str, ...]:
    """Every code, ascending."""
    return tuple(RULES)


def rule(code: str) -> RuleInfo:
    """The rule of one code, upper or lower case. Raises InputError for a code that no rule has."""
    try:
        found: RuleInfo = load(RULES[code.upper()])
    except KeyError:
        raise InputError(f"expected the code of a rule, found {code!r}{_hint(code)}") from None
    return found


def _hint(code: str) -> str:
    """The nearest code, as a question."""
    from difflib import get_close_matches

    near = get_close_matches(code.upper(), RULES, n=1)
    return f"; did you mean {near[0]}?" if near else f"; the first is {codes()[0]}, the last {codes()[-1]}"
