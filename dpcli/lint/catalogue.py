"""The catalogue of known failures by code: lint rules about files, and failures that no file can reveal.

`rule` and `entry_of` return an entry, and `explain` its explanation as text. Each table maps a code to "module:object"; the module of an
entry is imported when the entry is first used, so that a file loads only the rules that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load

if TYPE_CHECKING:
    from dpcli.lint.outside import Elsewhere
    from dpcli.lint.rule_info import RuleInfo

# Rules that the reader of files checks. A file that breaks one is not a valid pipeline.
READER_RULES: dict[str, str] = {
    "DP001": "dpcli.lint.rule_info:SYNTAX",
    "DP002": "dpcli.lint.rule_info:UNKNOWN_KEY",
    "DP003": "dpcli.lint.rule_info:WRONG_TYPE",
    "DP004": "dpcli.lint.rule_info:OUT_OF_RANGE",
    "DP005": "dpcli.lint.rule_info:INCONSISTENT",
}

# Rules about valid files.
FILE_RULES: dict[str, str] = {
    "DP101": "dpcli.lint.sampling:NOT_AMPLIFIED",
    "DP102": "dpcli.lint.sampling:FIXED_SIZE",
    "DP103": "dpcli.lint.guarantees:MIXED_ADJACENCY",
    "DP104": "dpcli.lint.guarantees:RECORD_OR_UNIT",
    "DP105": "dpcli.lint.delta:LARGE_DELTA",
    "DP106": "dpcli.lint.guarantees:CLASSICAL",
    "DP109": "dpcli.lint.delta:UNREACHABLE_DELTA",
    "DP110": "dpcli.lint.composition:TUNING",
    "DP111": "dpcli.lint.guarantees:DATA_DEPENDENT",
    "DP112": "dpcli.lint.composition:ADAPTIVE",
    "DP117": "dpcli.lint.sampling:ROUNDED_STEPS",
    "DP119": "dpcli.lint.composition:PARTITION",
    "DP120": "dpcli.lint.composition:SAME_SAMPLE",
    "DP121": "dpcli.lint.guarantees:VECTOR",
    "DP122": "dpcli.lint.sampling:ONE_STEP",
    "DP123": "dpcli.lint.slips:FEWER_THAN_ONE_PASS",
    "DP124": "dpcli.lint.wording:OTHER_NORM",
    "DP125": "dpcli.lint.wording:ONE_BIN",
    "DP126": "dpcli.lint.wording:UNCOUNTED_RUNS",
    "DP201": "dpcli.lint.guarantees:FLOATING_POINT",
    "DP210": "dpcli.lint.choices:PRIVATE_NAMES",
    "DP213": "dpcli.lint.composition:ASKED_AGAIN",
    "DP301": "dpcli.lint.guarantees:NOT_STATED",
    "DP304": "dpcli.lint.guarantees:LARGE_EPSILON",
    "DP305": "dpcli.lint.sampling:NEVER_SAMPLED",
    "DP306": "dpcli.lint.delta:UNKNOWN_SIZE",
    "DP307": "dpcli.lint.slips:PERCENTAGE",
    "DP308": "dpcli.lint.slips:LITTLE",
    "DP309": "dpcli.lint.slips:EPOCHS",
    "DP310": "dpcli.lint.wording:SECRET_SIZES",
}

# Rules only about [train] and similar sections. They are not loaded for files without sections.
SECTION_RULES: dict[str, str] = {
    "DP107": "dpcli.lint.guarantees:APPROXIMATION",
    "DP113": "dpcli.lint.training_step:RESUMED",
    "DP115": "dpcli.lint.training_step:NORMALISED",
    "DP116": "dpcli.lint.training_step:CLIPPED_TOGETHER",
    "DP204": "dpcli.lint.choices:SEEDED",
    "DP206": "dpcli.lint.training_step:OTHER_NOISE",
    "DP208": "dpcli.lint.training_step:SKIPS_EMPTY",
    "DP209": "dpcli.lint.choices:CHOSEN_ON_PRIVATE_DATA",
    "DP211": "dpcli.lint.choices:SHOWN_IN_LOGS",
}

# All rules about files, by ascending code.
RULES: dict[str, str] = dict(sorted({**READER_RULES, **FILE_RULES, **SECTION_RULES}.items()))

# Failures that no pipeline file can reveal. Their explanations say what detects them.
ELSEWHERE: dict[str, str] = {
    "DP202": "dpcli.lint.outside:SUM_SENSITIVITY",
    "DP203": "dpcli.lint.outside:TIMING",
    "DP205": "dpcli.lint.outside:REUSED_STATE",
    "DP207": "dpcli.lint.outside:POISONED_SUM",
    "DP212": "dpcli.lint.outside:PASSED_CLAMP",
}

# Failures of ledgers.
LEDGER_RULES: dict[str, str] = {
    "DP401": "dpcli.lint.outside:RACE",
    "DP402": "dpcli.lint.outside:NOT_DURABLE",
    "DP403": "dpcli.lint.outside:REFUND",
    "DP404": "dpcli.lint.outside:CHARGED_TWICE",
    "DP405": "dpcli.lint.outside:RESTORED",
    "DP406": "dpcli.lint.outside:RENAMED",
    "DP407": "dpcli.lint.outside:DRIFT",
    "DP408": "dpcli.lint.outside:REPRICED",
    "DP409": "dpcli.lint.outside:NETWORK",
}

# Fields of a rule or a failure that become paragraphs of its explanation, with the titles of these paragraphs.
PARAGRAPHS = {"what": "what", "why": "why", "fix": "fix", "caught": "caught by", "source": "source"}
WIDTH = 100  # characters in a line of a paragraph; arbitrary
LINK, PAPER = r"https://[^\s,;]+", r"arXiv:(\d{4}\.\d{4,5})"  # a link, and the number of a paper, in the text of a source
# Note in the explanation of a rule about sections: the reader also reports the key in the example file.
UNREAD_KEY = "dpcli does not know the key, so that it also refuses the file for this (DP002). The rule explains the fault itself."


def codes() -> tuple[str, ...]:
    """Return the codes of all rules about files, ascending."""
    return tuple(RULES)


def checked_codes(has_sections: bool) -> tuple[str, ...]:
    """Return the codes of the rules to check in a valid file, with or without sections such as [train]."""
    return tuple(code for code in RULES if code in FILE_RULES or (has_sections and code in SECTION_RULES))


def rule(code: str) -> RuleInfo:
    """Return the rule about files with this code, in upper or lower case. Raises InputError if there is none."""
    info: RuleInfo = _loaded(code, RULES)
    return info


def entry_of(code: str) -> RuleInfo | Elsewhere:
    """Return the rule about files, or the failure that is detected elsewhere. Raises InputError for an unknown code."""
    info: RuleInfo | Elsewhere = _loaded(code, {**RULES, **ELSEWHERE, **LEDGER_RULES})
    return info


def waivable(code: str) -> bool:
    """Return whether a gate may waive a rule. The result is False for every code, in upper case, that is not in RULES."""
    return code in RULES and rule(code).waivable


def summary_of(code: str) -> str:
    """Return the paragraphs of an explanation, not wrapped, without notes and example files. Raises InputError for an unknown code."""
    info = entry_of(code)
    return "\n\n".join(f"{title}: {getattr(info, name)}" for name, title in PARAGRAPHS.items() if hasattr(info, name))


def link_to_source(code: str) -> str:
    """Return the first link in the source of the failure, else a link to its first arXiv number, else "".

    Raises InputError for an unknown code.
    """
    import re

    source = entry_of(code).source
    if link := re.search(LINK, source):
        return link.group()
    paper = re.search(PAPER, source)
    return f"https://arxiv.org/abs/{paper.group(1)}" if paper else ""


def _loaded(code: str, known: Mapping[str, str]) -> Any:
    """Return the entry with this code, in upper or lower case. Raises InputError, with a hint, if `known` does not have it."""
    try:
        return load(known[code.upper()])
    except KeyError:
        raise InputError(f"expected the code of a rule, found {code!r}{_hint(code, list(known))}") from None


def _hint(code: str, known: list[str]) -> str:
    """Return the end of the message about an unknown code: the range of the codes, or the most similar code."""
    import re
    from difflib import get_close_matches

    first, last = min(known), max(known)
    if re.fullmatch(r"DP\d+", code.upper()):  # a similar number means another rule
        return f"; the manual page dpcli(1) lists them, from {first} to {last}"
    near = get_close_matches(code.upper(), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; the first is {first}, the last {last}"


def explain(code: str) -> str:
    """Return the explanation of a rule with a bad and a good file, or of a failure that is detected elsewhere.

    Paragraphs are wrapped to WIDTH columns, except for longer words. Example files are indented by four spaces and not wrapped. The text
    has no newline at its end. Raises InputError for an unknown code.
    """
    info = entry_of(code)
    paragraphs = [_paragraph(title, getattr(info, name)) for name, title in PARAGRAPHS.items() if hasattr(info, name)]
    if info.code in SECTION_RULES:
        paragraphs.append(_paragraph("note", UNREAD_KEY))
    examples = [_example(name, getattr(info, name)) for name in ("bad", "good") if hasattr(info, name)]
    return "\n\n".join([_heading(info), *paragraphs, *examples])


def _heading(info: RuleInfo | Elsewhere) -> str:
    """Return the first line of an explanation: code, title, severity, and whether the rule may be waived."""
    from dpcli.lint.rule_info import RuleInfo

    status = "not decided by a file"
    if isinstance(info, RuleInfo):
        status = f"{info.severity}, {'may' if info.waivable else 'cannot'} be waived"
    return f"{info.code}: {info.title} ({status})"


def _paragraph(title: str, text: str) -> str:
    return "\n".join(wrap(f"{title}: {text}", WIDTH, break_long_words=False, break_on_hyphens=False))


def _example(name: str, text: str) -> str:
    return f"{name}:\n\n{indent(text.strip(), '    ')}"
