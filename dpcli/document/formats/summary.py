"""summary: Markdown for the summary page of a CI job. It is appended to a file, such as the file that GITHUB_STEP_SUMMARY names.

It is appended, because every step of a job may add to the page. The *headline* is the sentence that answers the user's question, and the
*verdict* the outcome in a word. The page does not show the exit code. If the command failed and the headline does not say so, a word for
the verdict is put before the headline.
"""

from __future__ import annotations

from dpcli.document.document import Document
from dpcli.document.formats.markdown import escape, table

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = True
IS_APPENDED = True
REQUIRED_FIELDS = frozenset({"checks"})  # of a document that can be shown
COMPLETE_FIELDS = ("headline", "failures", "tables", "notes")  # shown in full

WORDS = {"fail": "FAIL", "unknown": "UNKNOWN"}  # word before the headline, by verdict
FAILURE_WORDS = (*WORDS.values(), "INVALID", "ERROR")  # no word is added to a headline that contains one of these


def render(document: Document) -> str:
    """Return the headline with a word for the verdict, the failed checks, the tables and the notes, in Markdown.

    A failed check is left out if it is waived, or if the headline, the tables or the notes contain its message.
    """
    word = WORDS.get(document.verdict, "FAIL" if document.exit_code else "")
    headline = document.headline
    if word and not any(failure_word in headline for failure_word in FAILURE_WORDS):
        headline = f"{word}: {headline}"
    tables_and_notes = [*map(table, document.tables), *(f"> {escape(note)}" for note in document.notes)]
    shown = "\n".join([escape(headline), *tables_and_notes])
    failures = []
    for check in document.checks:
        is_mentioned = bool(check.message) and escape(check.message) in shown
        if not (check.passed or check.waived or is_mentioned):
            failures.append(f"- {escape(f'{check.name}: {check.message}')}")
    blocks = [f"## {escape(headline)}"]
    if failures:
        blocks.append("\n".join(failures))
    return "\n\n".join([*blocks, *tables_and_notes]) + "\n\n"
