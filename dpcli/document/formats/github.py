"""github: workflow commands, which GitHub Actions shows as annotations on the lines of a pull request.

GitHub reads the commands in the log of a job. A *finding* is an error or warning about a place in a file. Its texts come from files, and
must not be able to end their line and begin another command (`_data`), nor end their property (`_property`). This rests on `visible`, which
writes each line break as a printable escape, such as \\n.
"""

from __future__ import annotations

from dpcli.document.document import Document, Finding, visible
from dpcli.document.fingerprint import repository_path

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = True
REQUIRED_FIELDS = frozenset({"findings", "checks"})  # of a document that can be shown
COMPLETE_FIELDS = ("findings", "headline")  # shown in full

LEVELS = {"fail": "error", "unknown": "error", "warn": "warning"}  # level of the headline, by verdict; others follow the exit code


def render(document: Document) -> str:
    """Return one line `::level file=...,line=...::message` for each finding, and a last line with the headline."""
    level = LEVELS.get(document.verdict, "error" if document.exit_code else "notice")
    return "".join(map(_command, document.findings)) + f"::{level} title=dpcli::{_data(document.headline)}\n"


def _command(finding: Finding) -> str:
    place = f"file={_property(repository_path(finding.path))}"
    if finding.line:
        place += f",line={finding.line},col={max(finding.column, 1)}"
    level = "notice" if finding.level == "note" else finding.level
    return f"::{level} {place},title={_property(_titled(finding))}::{_data(finding.message)}\n"


def _titled(finding: Finding) -> str:
    """Return the title with the code of the rule, which dpcli explain accepts."""
    return f"{finding.rule}: {finding.title}" if finding.title and finding.title != finding.rule else finding.rule


def _data(text: str) -> str:
    """Return a text escaped for a command: on one line, and with % escaped, with which GitHub's own escapes begin."""
    # `visible` must come first and leave no line break: it would end the command, and the text after it could begin another one.
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    """Return a text escaped for the value of file= or title=, which ends at a comma or a colon."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
