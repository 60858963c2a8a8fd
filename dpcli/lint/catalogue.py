"""The rules by code; each is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load

if TYPE_CHECKING:
    from dpcli.lint.outside import Elsewhere
    from dpcli.lint.rule import RuleInfo

READER_RULES: dict[str, str] = {
    "DP001": "dpcli.lint.reading:SYNTAX",
    "DP002": "dpcli.lint.reading:UNKNOWN_KEY",
    "DP003": "dpcli.lint.reading:WRONG_TYPE",
    "DP004": "dpcli.lint.reading:OUT_OF_RANGE",
    "DP005": "dpcli.lint.reading:INCONSISTENT",
}

FILE_RULES: dict[str, str] = {
    "DP101": "dpcli.lint.sampling:NOT_AMPLIFIED",
    "DP102": "dpcli.lint.sampling:FIXED_SIZE",
    "DP103": "dpcli.lint.neighbours:MIXED_ADJACENCY",
    "DP104": "dpcli.lint.neighbours:RECORD_OR_UNIT",
    "DP105": "dpcli.lint.delta:LARGE_DELTA",
    "DP106": "dpcli.lint.claims:CLASSICAL",
    "DP109": "dpcli.lint.delta:UNREACHABLE_DELTA",
    "DP111": "dpcli.lint.claims:DATA_DEPENDENT",
    "DP110": "dpcli.lint.composition:TUNING",
    "DP112": "dpcli.lint.composition:ADAPTIVE",
    "DP117": "dpcli.lint.sampling:ROUNDED_STEPS",
    "DP119": "dpcli.lint.composition:PARTITION",
    "DP120": "dpcli.lint.composition:SAME_SAMPLE",
    "DP121": "dpcli.lint.claims:VECTOR",
    "DP122": "dpcli.lint.sampling:ONE_STEP",
    "DP123": "dpcli.lint.slips:FEWER_THAN_ONE_PASS",
    "DP124": "dpcli.lint.wording:OTHER_NORM",
    "DP125": "dpcli.lint.wording:ONE_BIN",
    "DP126": "dpcli.lint.wording:UNCOUNTED_RUNS",
    "DP201": "dpcli.lint.statement:FLOATING_POINT",
    "DP210": "dpcli.lint.names:PRIVATE_NAMES",
    "DP213": "dpcli.lint.repeated:ASKED_AGAIN",
    "DP301": "dpcli.lint.statement:NOT_STATED",
    "DP304": "dpcli.lint.statement:LARGE_EPSILON",
    "DP305": "dpcli.lint.sampling:NEVER_SAMPLED",
    "DP306": "dpcli.lint.delta:UNKNOWN_SIZE",
    "DP307": "dpcli.lint.slips:PERCENTAGE",
    "DP308": "dpcli.lint.slips:LITTLE",
    "DP309": "dpcli.lint.slips:EPOCHS",
    "DP310": "dpcli.lint.wording:SECRET_SIZES",
}

# Nothing to find where a file has no [train], [pate], [pmixed] or [audit]; `lint` then does not load them.
SECTION_RULES: dict[str, str] = {
    "DP107": "dpcli.lint.claims:APPROXIMATION",
    "DP113": "dpcli.lint.training:RESUMED",
    "DP115": "dpcli.lint.training:NORMALISED",
    "DP116": "dpcli.lint.training:CLIPPED_TOGETHER",
    "DP204": "dpcli.lint.choices:SEEDED",
    "DP206": "dpcli.lint.training:OTHER_NOISE",
    "DP208": "dpcli.lint.training:SKIPS_EMPTY",
    "DP209": "dpcli.lint.choices:CHOSEN_ON_PRIVATE_DATA",
    "DP211": "dpcli.lint.choices:SHOWN_IN_LOGS",
}

PARAGRAPHS = {"what": "what", "why": "why", "fix": "fix", "caught": "caught by", "source": "source"}  # of a rule, and their titles
LINK, PAPER = r"https://[^\s,;]+", r"arXiv:(\d{4}\.\d{4,5})"

RULES: dict[str, str] = dict(sorted({**READER_RULES, **FILE_RULES, **SECTION_RULES}.items()))

# What no pipeline file can show; `explain` says why, and what catches it.
ELSEWHERE: dict[str, str] = {
    "DP202": "dpcli.lint.outside:SUM_SENSITIVITY",
    "DP203": "dpcli.lint.outside:TIMING",
    "DP205": "dpcli.lint.outside:REUSED_STATE",
    "DP207": "dpcli.lint.outside:POISONED_SUM",
    "DP212": "dpcli.lint.outside:PASSED_CLAMP",
}

LEDGER_RULES: dict[str, str] = {
    "DP401": "dpcli.lint.ledger_rules:RACE",
    "DP402": "dpcli.lint.ledger_rules:NOT_DURABLE",
    "DP403": "dpcli.lint.ledger_rules:REFUND",
    "DP404": "dpcli.lint.ledger_rules:CHARGED_TWICE",
    "DP405": "dpcli.lint.ledger_rules:RESTORED",
    "DP406": "dpcli.lint.ledger_rules:RENAMED",
    "DP407": "dpcli.lint.ledger_rules:DRIFT",
    "DP408": "dpcli.lint.ledger_rules:REPRICED",
    "DP409": "dpcli.lint.ledger_rules:NETWORK",
}


def codes() -> tuple[str, ...]:
    """Every code that a file can be found to break, ascending."""
    return tuple(RULES)


def checked(sections: bool) -> tuple[str, ...]:
    """The codes whose checks can find something in a file that was read; sections: whether it has [train] or a sibling of it."""
    return tuple(code for code in RULES if code in FILE_RULES or (sections and code in SECTION_RULES))


def rule(code: str) -> RuleInfo:
    """The rule of one code, upper or lower case. Raises InputError for a code that no rule about files has."""
    found: RuleInfo = _loaded(code, RULES)
    return found


def words(code: str) -> RuleInfo | Elsewhere:
    """What there is to say about a code: a rule about files, or what catches the failure elsewhere. Raises as `rule` does."""
    found: RuleInfo | Elsewhere = _loaded(code, {**RULES, **ELSEWHERE, **LEDGER_RULES})
    return found


def waivable(code: str) -> bool:
    """Whether a gate may waive what a rule says of a file; of a ledger it may nothing."""
    return code in RULES and rule(code).waivable


def in_short(code: str) -> str:
    """What, why, fix and source, a paragraph each, without the example files. Raises InputError for an unknown code."""
    info = words(code)
    return "\n\n".join(f"{title}: {getattr(info, name)}" for name, title in PARAGRAPHS.items() if hasattr(info, name))


def address(code: str) -> str:
    """Where the failure is shown, as a link; empty where the source is on paper. Raises InputError for an unknown code."""
    import re

    source = words(code).source
    link, paper = re.search(LINK, source), re.search(PAPER, source)
    return link.group() if link else f"https://arxiv.org/abs/{paper.group(1)}" if paper else ""


def _loaded(code: str, known: Mapping[str, str]) -> Any:
    try:
        return load(known[code.upper()])
    except KeyError:
        raise InputError(f"expected the code of a rule, found {code!r}{_hint(code, list(known))}") from None


def _hint(code: str, known: list[str]) -> str:
    """The nearest code, as a question."""
    import re
    from difflib import get_close_matches

    if re.fullmatch(r"DP\d+", code.upper()):  # a number that is near is not what was meant
        return f"; the manual page dpcli(1) lists them, from {min(known)} to {max(known)}"
    near = get_close_matches(code.upper(), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; the first is {known[0]}, the last {max(known)}"
