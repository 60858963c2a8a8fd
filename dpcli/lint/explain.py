"""One rule in words."""

from __future__ import annotations

from textwrap import indent, wrap
from typing import TYPE_CHECKING

from dpcli.lint.catalogue import rule

if TYPE_CHECKING:
    from dpcli.lint.rule import RuleInfo

WIDTH = 100
PARAGRAPHS = ("what", "why", "fix", "source")


def explain(code: str) -> str:
    """What a rule finds, why it matters, how to mend it, where it is shown, and a bad and a good file.

    Returns plain text of at most 100 columns, without a newline at its end. Raises InputError for an unknown code.
    """
    info = rule(code)
    paragraphs = [_paragraph(name, getattr(info, name)) for name in PARAGRAPHS]
    return "\n\n".join([_heading(info), *paragraphs, _example("bad", info.bad), _example("good", info.good)])


def _heading(info: RuleInfo) -> str:
    waiver = "may be waived" if info.waivable else "cannot be waived"
    return f"{info.code}: {info.title} ({info.severity}, {waiver})"


def _paragraph(name: str, text: str) -> str:
    return "\n".join(wrap(f"{name}: {text}", WIDTH, break_long_words=False, break_on_hyphens=False))


def _example(name: str, text: str) -> str:
    return f"{name}:\n\n{indent(text.strip(), '    ')}"
