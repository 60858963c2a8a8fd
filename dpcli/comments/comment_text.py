"""A document as the Markdown of a comment, in which text from files can neither mention people nor make links.

Whatever may come out of a file, a branch or a policy stands in a code span, where GitHub and GitLab know no mention, link, reference,
emoji, formula or HTML. What would end the span or a cell, and what nobody sees, stands there as an escape. No line begins with it.
"""

from __future__ import annotations

import re

from dpcli.base.values import dataclass
from dpcli.document.document import Document, Finding, Table, visible
from dpcli.document.fingerprint import repository_path

LIMIT = 65_536  # characters that GitHub takes; kept in bytes, as of one character there may be four
LONGEST = 1_000  # characters of one cell
NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?(e[+-]?\d+)?|inf)|-|")
LEVELS = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class CommentSection:
    """Rows under a title, the first ones shown if not all fit. head: what a table begins with."""

    title: str
    rows: tuple[str, ...]
    head: tuple[str, ...] = ()
    folded: bool = False

    def text(self, count: int) -> str:
        """Return the first rows, and how many more there are."""
        rows = "\n".join((*self.head, *self.rows[:count])) if count else ""
        left = len(self.rows) - count
        more = f"and {left:,} more" if left else ""
        body = "\n\n".join(part for part in (rows, more) if part)
        if self.folded:
            return f"<details><summary>{self.title}</summary>\n\n{body}\n\n</details>"
        return f"### {self.title}\n\n{body}"


def comment_text(document: Document, marker: str, limit: int = LIMIT) -> str:
    """Return the headline, the first table, the findings, and the other tables folded; at most `limit` bytes of UTF-8.

    Headline, titles and columns are taken as they are: they must be words of dpcli's own. The marker is the first line, which readers do
    not see. Rows come in the order in which they matter: the last ones are left out, and counted.
    """
    top = f"{marker}\n\n**{document.headline}**"
    return fitted(top, _sections(document), limit)


def fitted(top: str, sections: list[CommentSection], limit: int) -> str:
    """Fit text into a limit in bytes: if all of it is too long, a section has half of what is left, and the last one all of it."""
    full = [top, *(section.text(len(section.rows)) for section in sections)]
    if sum(map(_size, full)) <= limit:
        return "\n\n".join(full) + "\n"
    parts, left = [top], limit - _size(top)
    for place, section in enumerate(sections, 1):
        later = sections[place:]
        free = left - sum(_size(other.text(0)) for other in later)
        text = _shortened(section, free // 2 if later else free)
        parts.append(text)
        left -= _size(text)
    return "\n\n".join(parts) + "\n"


def _shortened(section: CommentSection, room: int) -> str:
    """Return as many of the rows as there is room for."""
    low, high = 0, len(section.rows)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(section.text(middle)) <= room else (low, middle - 1)
    return section.text(low)


def _size(text: str) -> int:
    """Return the size in bytes, with the line breaks after it."""
    return len(text.encode()) + 2


def code(text: str) -> str:
    """Return text as a code span on one line, cut if it is too long; nothing if there is none."""
    escaped_text = visible(text).replace("`", "\\x60").replace("|", "\\x7c")
    if len(escaped_text) > LONGEST:
        escaped_text = f"{escaped_text[: LONGEST - 1]}…"
    return f"`{escaped_text}`" if escaped_text.strip() else ""


def _sections(document: Document) -> list[CommentSection]:
    tables = [_of_table(table, place > 0) for place, table in enumerate(document.tables)]
    findings = sorted(document.findings, key=lambda finding: LEVELS.index(finding.level))
    listed = CommentSection("findings", tuple(map(_of_finding, findings)))
    notes = CommentSection("notes", tuple(f"- {code(note)}" for note in document.notes))
    return [section for section in (*tables[:1], listed, *tables[1:], notes) if section.rows]


def _of_table(table: Table, is_folded: bool) -> CommentSection:
    rules = ["---:" if column in table.numeric else "---" for column in range(len(table.columns))]
    head = (_row(table.columns), _row(rules))
    rows = (_row([_cell(cell, column in table.numeric) for column, cell in enumerate(row)]) for row in table.rows)
    return CommentSection(table.title, tuple(rows), head, is_folded)


def _cell(text: str, is_numeric: bool) -> str:
    return text if is_numeric and NUMBER.fullmatch(text) else code(text)


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _of_finding(finding: Finding) -> str:
    place = repository_path(finding.path) + (f":{finding.line}" if finding.line else "")
    return f"- {finding.level} {code(place)} {code(finding.rule)}: {code(finding.message)}"
