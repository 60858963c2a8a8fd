"""markdown: headline, passages, tables and notes, for a comment on a pull request.

All texts are escaped (`escape`), because names and messages come from files: none may become HTML, a link with other words, or a mention
that notifies someone. The format summary and the statements of releases, models and predictions use these functions too. `dpcli comment`
has a stricter renderer of its own (comments/comment_text.py), because it writes with a token.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.document.document import Document, Passage, Table, visible

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".md",)
COMPLETE_FIELDS = ("title", "headline", "passages", "tables", "notes")  # shown in full


def render(document: Document) -> str:
    """Return the document as Markdown with the table syntax of GitHub."""
    return "".join(stream(document))


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    if document.marker:
        yield f"<!-- {document.marker} -->\n\n"
    if document.title:
        yield f"# {escape(document.title)}\n\n"
    yield f"**{escape(document.headline)}**"
    for passage in document.passages:
        yield f"\n\n{_passage(passage)}"
    for table in document.tables:
        yield "\n\n"
        yield from _table(table)
    for note in document.notes:
        yield f"\n\n> {escape(note)}"
    yield "\n"


def _passage(passage: Passage) -> str:
    points = ["\n".join(f"- {escape(point)}" for point in passage.points)] if passage.points else []
    return "\n\n".join([f"## {escape(passage.title)}", *map(escape, passage.paragraphs), *points])


def table(table: Table) -> str:
    """Return a table under its title. A click on the title opens a folded table."""
    return "".join(_table(table))


def _table(table: Table) -> Iterator[str]:
    """Yield the pieces of `table`."""
    rules = ["---:" if i in table.numeric else "---" for i in range(len(table.columns))]
    yield f"<details><summary>{escape(table.title)}</summary>\n\n" if table.folded else f"### {escape(table.title)}\n\n"
    yield f"{_row(table.columns)}\n| {' | '.join(rules)} |"
    for row in table.rows:
        yield f"\n{_row(row)}"
    for note in table.footnotes:
        yield f"\n\n{escape(note)}"
    if table.folded:
        yield "\n\n</details>"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def escape(text: str) -> str:
    """Return a `visible` text with escapes, so that Markdown gives no meaning to characters within a line.

    Marks that have a meaning only at the start of a line, such as #, are not escaped.
    """
    text = visible(text)
    for character in "\\`*_<>|[]~":
        text = text.replace(character, "\\" + character)
    # An "@name" from a file must not notify a user of the forge.
    return text.replace("&", "&amp;").replace("@", "@<!-- -->")
