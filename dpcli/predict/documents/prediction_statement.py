"""The statement that a session leaves for those who use its answers: the disclosure of its file, with what was really done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli import __version__
from dpcli.base.rounding import up
from dpcli.sessions.documents.window_rows import rows_words

if TYPE_CHECKING:
    from dpcli.sessions.priced import PricedSession


def statement(priced: PricedSession, disclosed: Mapping[str, str]) -> str:
    """Return Markdown: what was done, then the disclosure statement of the file.

    disclosed: `done`, the first paragraph, and answers of [disclosure] that are given where the file has none.
    """
    account = priced.account
    answers = {name: text for name, text in disclosed.items() if name != "done"}
    return f"{disclosed['done']} epsilon <= {up(account.upper)} at delta = {account.delta!r}.\n\n{file_statement(priced, answers)}"


def file_statement(priced: PricedSession, answers: Mapping[str, str]) -> str:
    """Return the disclosure statement of a file as Markdown; answers: of [disclosure], given where the file has none."""
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.facts import gather
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    stated = priced.pipeline.disclosure
    known = {"implementation": f"dpcli {__version__}", "privacy_model": "central", **answers}
    given = replace(stated, **{name: text for name, text in known.items() if getattr(stated, name) is None})  # type: ignore[arg-type]
    facts = gather(replace(priced.pipeline, path=priced.path, disclosure=given), None, ())
    return format_markdown.render(disclosure_report.document(disclosure(replace(facts, rows=rows_words(priced)))))
