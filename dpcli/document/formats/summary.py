"""summary: Markdown for the summary page of a CI job. It is appended to a file, such as the file that GITHUB_STEP_SUMMARY names."""

from __future__ import annotations

from dpcli.document.document import Document
from dpcli.document.formats.markdown import escape, table

# Properties of the format, which facts.py explains.
JUDGES = True
APPENDED = True
ENDINGS = ()
NEEDS = frozenset({"checks"})
SHOWS = ("headline", "failures", "tables", "notes")

WORDS = {"fail": "FAIL", "unknown": "UNKNOWN"}  # word before the headline, by verdict
FAILURE_WORDS = (*WORDS.values(), "INVALID", "ERROR")  # no word is added to a headline that contains one of these


def render(document: Document) -> str:
    """Return the headline with a word for the verdict, the failed checks, the tables and the notes, in Markdown.

    A failed check is left out if it is waived, or if the headline, the tables or the notes contain its message.
    """
    word = WORDS.get(document.verdict, "FAIL" if document.exit_code else "")
    headline = document.headline
    if word and not any(each in headline for each in FAILURE_WORDS):
        headline = f"{word}: {headline}"
    blocks = [
        *map(table, document.tables),
        *(f"> {escape(note)}" for note in document.notes),
    ]
    shown = "\n".join([escape(headline), *blocks])
    failed = [check for check in document.checks if not check.passed and not check.waived]
    unmentioned = [
        f"- {escape(f'{check.name}: {check.message}')}"
        for check in failed
        if not check.message or escape(check.message) not in shown
    ]
    return "\n\n".join([f"## {escape(headline)}", *(["\n".join(unmentioned)] if unmentioned else []), *blocks]) + "\n\n"
