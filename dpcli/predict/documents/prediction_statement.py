"""What a session of private prediction leaves for those who will use its answers: the disclosure of its file, with what was really done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.base.rounding import up
from dpcli.sessions.documents.dry_run import rows_words

if TYPE_CHECKING:
    from dpcli.sessions.priced import PricedSession


def statement(priced: PricedSession, said: Mapping[str, str]) -> str:
    """Markdown: what was done, then the disclosure statement of the file.

    Args:
        said: `done`, the first paragraph, and answers of [disclosure] that are given where the file has none.
    """
    from dpcli.disclosure.documents import disclosure as disclosure_report
    from dpcli.disclosure.facts import gather
    from dpcli.disclosure.statement import disclosure
    from dpcli.document.formats import markdown as format_markdown

    found = priced.account
    done = f"{said['done']} epsilon <= {up(found.upper)} at delta = {found.delta!r}.\n\n"
    known: dict[str, Any] = {
        "implementation": f"dpcli {__version__}",
        "privacy_model": "central",
        **{name: text for name, text in said.items() if name != "done"},
    }
    own = priced.pipeline.disclosure
    answers = replace(own, **{name: value for name, value in known.items() if getattr(own, name) is None})
    facts = gather(replace(priced.pipeline, path=priced.path, disclosure=answers), None, ())
    facts = replace(facts, rows=rows_words(priced))
    return done + format_markdown.render(disclosure_report.document(disclosure(facts)))
