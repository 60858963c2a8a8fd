"""The catalogue of lint rules by code, their selection by flags, and the explanation of a rule as text.

The module of a rule is imported when the rule is first used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Diagnostic

if TYPE_CHECKING:
    from dpcli.lint.outside import Elsewhere
    from dpcli.lint.rule_info import RuleInfo


READER_RULES: dict[str, str] = {
    "DP001": "dpcli.lint.rule_info:SYNTAX",
    "DP002": "dpcli.lint.rule_info:UNKNOWN_KEY",
    "DP003": "dpcli.lint.rule_info:WRONG_TYPE",
    "DP004": "dpcli.lint.rule_info:OUT_OF_RANGE",
    "DP005": "dpcli.lint.rule_info:INCONSISTENT",
}

FILE_RULES: dict[str, str] = {
    "DP101": "dpcli.lint.sampling:NOT_AMPLIFIED",
    "DP102": "dpcli.lint.sampling:FIXED_SIZE",
    "DP103": "dpcli.lint.guarantees:MIXED_ADJACENCY",
    "DP104": "dpcli.lint.guarantees:RECORD_OR_UNIT",
    "DP105": "dpcli.lint.delta:LARGE_DELTA",
    "DP106": "dpcli.lint.guarantees:CLASSICAL",
    "DP109": "dpcli.lint.delta:UNREACHABLE_DELTA",
    "DP111": "dpcli.lint.guarantees:DATA_DEPENDENT",
    "DP110": "dpcli.lint.composition:TUNING",
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

# Fields of a rule, with their titles in an explanation.
PARAGRAPHS = {"what": "what", "why": "why", "fix": "fix", "caught": "caught by", "source": "source"}
LINK, PAPER = r"https://[^\s,;]+", r"arXiv:(\d{4}\.\d{4,5})"

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
WIDTH = 100  # width of an explanation in characters
UNREAD_KEY = "dpcli does not know the key, so that it also refuses the file for this (DP002). The rule explains the fault itself."


def codes() -> tuple[str, ...]:
    """Return the codes of all rules about files, ascending."""
    return tuple(RULES)


def checked_codes(has_sections: bool) -> tuple[str, ...]:
    """Return the codes of the rules to check in a valid file. has_sections: whether the file has sections such as [train]."""
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
    """Return whether a gate may waive a rule. Rules about ledgers cannot be waived."""
    return code in RULES and rule(code).waivable


def summary_of(code: str) -> str:
    """Return a rule's explanation without its example files. Raises InputError for an unknown code."""
    info = entry_of(code)
    return "\n\n".join(f"{title}: {getattr(info, name)}" for name, title in PARAGRAPHS.items() if hasattr(info, name))


def link_to_source(code: str) -> str:
    """Return a link to the source of the failure; "" if the source has no link. Raises InputError for an unknown code."""
    import re

    source = entry_of(code).source
    if link := re.search(LINK, source):
        return link.group()
    paper = re.search(PAPER, source)
    return f"https://arxiv.org/abs/{paper.group(1)}" if paper else ""


def _loaded(code: str, known: Mapping[str, str]) -> Any:
    """Return the object of a code. Raises InputError for an unknown code."""
    try:
        return load(known[code.upper()])
    except KeyError:
        raise InputError(f"expected the code of a rule, found {code!r}{_hint(code, list(known))}") from None


def _hint(code: str, known: list[str]) -> str:
    """Return advice after an unknown code."""
    import re
    from difflib import get_close_matches

    if re.fullmatch(r"DP\d+", code.upper()):  # a similar number means another rule
        return f"; the manual page dpcli(1) lists them, from {min(known)} to {max(known)}"
    near = get_close_matches(code.upper(), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; the first is {known[0]}, the last {max(known)}"


def explain(code: str) -> str:
    """Return the explanation of a rule with a bad and a good file, or of a failure that is detected elsewhere.

    It is plain text of at most WIDTH columns, without a newline at its end. Raises InputError for an unknown code.
    """
    info = entry_of(code)
    paragraphs = [_paragraph(title, getattr(info, name)) for name, title in PARAGRAPHS.items() if hasattr(info, name)]
    if info.code in SECTION_RULES:
        paragraphs.append(_paragraph("note", UNREAD_KEY))
    examples = [_example(name, getattr(info, name)) for name in ("bad", "good") if hasattr(info, name)]
    return "\n\n".join([_heading(info), *paragraphs, *examples])


def _heading(info: RuleInfo | Elsewhere) -> str:
    from dpcli.lint.rule_info import RuleInfo

    status = "not decided by a file"
    if isinstance(info, RuleInfo):
        status = f"{info.severity}, {'may' if info.waivable else 'cannot'} be waived"
    return f"{info.code}: {info.title} ({status})"


def _paragraph(title: str, text: str) -> str:
    return "\n".join(wrap(f"{title}: {text}", WIDTH, break_long_words=False, break_on_hyphens=False))


def _example(name: str, text: str) -> str:
    return f"{name}:\n\n{indent(text.strip(), '    ')}"


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The rules to report. If both tuples have a prefix of a code, the longer prefix decides.

    Findings of the reader are always reported, because a file that cannot be read has no others. Errors that no gate may waive are always
    reported too.

    Attributes:
        select: Prefixes of the codes to report; empty for all codes.
        ignore: Prefixes of the codes to leave out.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def includes(self, code: str) -> bool:
        """Return whether findings of this rule are reported, errors that cannot be waived aside."""
        if code in READER_RULES or not code.startswith("DP"):
            return True
        selected = _longest(code, self.select) if self.select else 0
        ignored = _longest(code, self.ignore)
        return selected is not None and (ignored is None or selected > ignored)

    def selected(self, findings: Iterable[Diagnostic]) -> tuple[list[Diagnostic], dict[str, int]]:
        """Return the findings to report, and the number of the others by rule."""
        selected: list[Diagnostic] = []
        omitted: Counter[str] = Counter()
        for diagnostic in findings:
            if self.includes(diagnostic.rule) or (diagnostic.severity == "error" and not waivable(diagnostic.rule)):
                selected.append(diagnostic)
            else:
                omitted[diagnostic.rule] += 1
        return selected, dict(sorted(omitted.items()))


def scope_of(select: Iterable[str], ignore: Iterable[str]) -> RuleScope:
    """Return the rules that flags select.

    Args:
        select, ignore: Values of --select and --ignore: codes or prefixes of codes, separated by commas.

    Raises:
        InputError: A value is no prefix of a code, or `ignore` has a rule of the reader.
    """
    chosen, ignored = (tuple(_codes(flag, given)) for flag, given in (("--select", select), ("--ignore", ignore)))
    for code in ignored:
        if code in READER_RULES:
            raise InputError(f"--ignore: expected a rule about files that can be read, found {code}: {entry_of(code).title}")
    return RuleScope(chosen, ignored)


def _codes(flag: str, given: Iterable[str]) -> Iterable[str]:
    """Yield the prefixes of codes in the values of a flag. Raises InputError for a value that is no prefix of a code."""
    for text in given:
        for part in text.split(","):
            prefix = part.strip().upper()
            if not prefix.startswith("DP") or not any(code.startswith(prefix) for code in (*RULES, *LEDGER_RULES)):
                raise InputError(f"{flag}: {_why_refused(prefix)}")
            yield prefix


def _why_refused(code: str) -> str:
    """Return why a code selects no rule: no rule has it, or no file and no ledger can break its rule."""
    try:
        title = entry_of(code).title
    except InputError as error:
        return str(error)
    return f"expected a rule that a file or a ledger can break, found {code}: {title}"


def _longest(code: str, beginnings: Iterable[str]) -> int | None:
    """Return the length of the longest of `beginnings` that is a prefix of the code; None if there is none."""
    return max((len(beginning) for beginning in beginnings if code.startswith(beginning)), default=None)
