"""summary: markdown for a job's summary page, such as the file that GITHUB_STEP_SUMMARY names; appended to what is there."""

from __future__ import annotations

from dpcli.document.document import Document
from dpcli.document.formats.markdown import escape, table

JUDGES = True
APPENDED = True
ENDINGS = ()
NEEDS = frozenset({"checks"})
SHOWS = ("headline", "failures", "tables", "notes")

WORDS = {"fail": "FAIL", "unknown": "UNKNOWN"}
SAID = (*WORDS.values(), "INVALID", "ERROR")  # words of a headline that says itself that it is no pass


def render(document: Document) -> str:
    """The headline with the verdict's word, what failed and is not said elsewhere, tables, notes; what is folded opens on a click."""
    word = WORDS.get(document.verdict, "FAIL" if document.exit_code else "")
    headline = document.headline if not word or any(each in document.headline for each in SAID) else f"{word}: {document.headline}"
    blocks = [
        *map(table, document.tables),
        *(f"> {escape(note)}" for note in document.notes),
    ]
    shown = "\n".join([escape(headline), *blocks])
    failed = [check for check in document.checks if not check.passed and not check.waived]
    unsaid = [
        f"- {escape(f'{check.name}: {check.message}')}"
        for check in failed
        if not check.message or escape(check.message) not in shown
    ]
    return "\n\n".join([f"## {escape(headline)}", *(["\n".join(unsaid)] if unsaid else []), *blocks]) + "\n\n"
