"""One rule in words."""

from __future__ import annotations

from textwrap import indent, wrap
from typing import TYPE_CHECKING

from dpcli.lint.catalogue import PARAGRAPHS, SECTION_RULES, words

if TYPE_CHECKING:
    from dpcli.lint.outside import Elsewhere
    from dpcli.lint.rule import RuleInfo

WIDTH = 100
UNREAD = (
    "dpcli reads no such key, so the file is also refused for that (DP002); the rule says what is wrong with what the key asks for."
)


def explain(code: str) -> str:
    """What a rule finds, why it matters, how to mend it, where it is shown, and a bad and a good file.

    For a failure that no file can show: what catches it, in place of the files. Returns plain text of at most 100 columns, without
    a newline at its end. Raises InputError for an unknown code.
    """
    info = words(code)
    paragraphs = [_paragraph(title, getattr(info, name)) for name, title in PARAGRAPHS.items() if hasattr(info, name)]
    if info.code in SECTION_RULES:
        paragraphs.append(_paragraph("note", UNREAD))
    examples = [_example(name, getattr(info, name)) for name in ("bad", "good") if hasattr(info, name)]
    return "\n\n".join([_heading(info), *paragraphs, *examples])


def _heading(info: RuleInfo | Elsewhere) -> str:
    waiver = "may be waived" if getattr(info, "waivable", False) else "cannot be waived"
    return f"{info.code}: {info.title} " + (
        f"({info.severity}, {waiver})" if hasattr(info, "severity") else "(not decided by a file)"
    )


def _paragraph(title: str, text: str) -> str:
    return "\n".join(wrap(f"{title}: {text}", WIDTH, break_long_words=False, break_on_hyphens=False))


def _example(name: str, text: str) -> str:
    return f"{name}:\n\n{indent(text.strip(), '    ')}"
