"""The Markdown of a comment from a document. Text from files can neither mention people nor make links in it.

commands/comment.py gives `comment_text` a document, and forge.py writes the result. A *marker* is an invisible first line, by which a later
job finds the comment again. All text that may come from a file, a branch or a policy is put into code spans, in which GitHub and GitLab
interpret no mention, link, reference, emoji, formula or HTML. Characters that would end the span or a table cell, and invisible ones, are
escaped. No line begins with text from a file, branch or policy.
"""

from __future__ import annotations

import re

from dpcli.base.values import dataclass
from dpcli.document.document import Document, Finding, Table, visible
from dpcli.document.fingerprint import repository_path

LIMIT = 65_536  # GitHub's limit on the characters of a comment; it is applied to bytes, which are at least as many
LONGEST_CELL = 1_000  # largest number of characters of a code span, so that one long text leaves room for others; chosen by hand
# The text of a numeric cell, which is safe without a code span: a number, "-" or nothing.
NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?(e[+-]?\d+)?|inf)|-|")
LEVELS = ("error", "warning", "note")  # levels of findings, the most important first


@dataclass(frozen=True, slots=True)
class CommentSection:
    """A title with rows. If not all rows fit, the first ones are shown.

    head: header rows of a table; () for other rows.
    folded: whether the section is folded until a reader opens it.
    """

    title: str
    rows: tuple[str, ...]
    head: tuple[str, ...] = ()
    folded: bool = False

    def text(self, count: int) -> str:
        """Return the first rows, and the number of rows left out."""
        rows = "\n".join((*self.head, *self.rows[:count])) if count else ""
        omitted = len(self.rows) - count
        remainder = f"and {omitted:,} more" if omitted else ""
        body = "\n\n".join(part for part in (rows, remainder) if part)
        if self.folded:
            return f"<details><summary>{self.title}</summary>\n\n{body}\n\n</details>"
        return f"### {self.title}\n\n{body}"


def comment_text(document: Document, marker: str, limit: int = LIMIT) -> str:
    """Return the Markdown of a document: its headline, first table, findings and, folded, its other tables.

    Headline, titles and columns are not escaped, so they must not contain text from files. If the comment would be longer than `limit`
    bytes of UTF-8, the last rows are left out and counted; rows must come in the order of their importance.
    """
    top = f"{marker}\n\n**{document.headline}**"
    return fit_sections(top, _sections(document), limit)


def fit_sections(top: str, sections: list[CommentSection], limit: int) -> str:
    """Return the text of sections within a limit in bytes.

    If it is too long as a whole, each section may use half of the remaining room, and the last section all of it.
    """
    full = [top, *(section.text(len(section.rows)) for section in sections)]
    if sum(map(_size, full)) <= limit:
        return "\n\n".join(full) + "\n"
    parts, room = [top], limit - _size(top)
    for place, section in enumerate(sections, 1):
        later_sections = sections[place:]
        free = room - sum(_size(later.text(0)) for later in later_sections)  # each later section needs room for its title
        text = _shorten(section, free // 2 if later_sections else free)
        parts.append(text)
        room -= _size(text)
    return "\n\n".join(parts) + "\n"


def _shorten(section: CommentSection, room: int) -> str:
    """Return the section's text with the largest number of rows that fits into the room, in bytes; without rows if none fits."""
    low, high = 0, len(section.rows)  # a binary search
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(section.text(middle)) <= room else (low, middle - 1)
    return section.text(low)


def _size(text: str) -> int:
    """Return the size in bytes of a text and the two line breaks after it."""
    return len(text.encode()) + 2


def code(text: str) -> str:
    """Return the text as a code span on one line, cut if it is too long; "" for blank text."""
    escaped_text = visible(text).replace("`", "\\x60").replace("|", "\\x7c")
    if len(escaped_text) > LONGEST_CELL:
        escaped_text = f"{escaped_text[: LONGEST_CELL - 1]}…"
    return f"`{escaped_text}`" if escaped_text.strip() else ""


def _sections(document: Document) -> list[CommentSection]:
    """Return the sections that have rows, in the order of their importance."""
    tables = [_table_section(table, is_folded=place > 0) for place, table in enumerate(document.tables)]
    findings = sorted(document.findings, key=lambda finding: LEVELS.index(finding.level))
    finding_section = CommentSection("findings", tuple(map(_finding_row, findings)))
    notes = CommentSection("notes", tuple(f"- {code(note)}" for note in document.notes))
    return [section for section in (*tables[:1], finding_section, *tables[1:], notes) if section.rows]


def _table_section(table: Table, is_folded: bool) -> CommentSection:
    """Return a table as a section. The second row of the head aligns the columns: numbers to the right."""
    rules = ["---:" if column in table.numeric else "---" for column in range(len(table.columns))]
    head = (_row(table.columns), _row(rules))
    rows = (_row([_cell(cell, column in table.numeric) for column, cell in enumerate(row)]) for row in table.rows)
    return CommentSection(table.title, tuple(rows), head, is_folded)


def _cell(text: str, is_numeric: bool) -> str:
    """Return a cell: a number of a numeric column as it is, and any other text as a code span."""
    return text if is_numeric and NUMBER.fullmatch(text) else code(text)


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _finding_row(finding: Finding) -> str:
    """Return a finding as an item of a list. Its level is a word of dpcli; all else may come from a file."""
    place = repository_path(finding.path) + (f":{finding.line}" if finding.line else "")
    return f"- {finding.level} {code(place)} {code(finding.rule)}: {code(finding.message)}"
