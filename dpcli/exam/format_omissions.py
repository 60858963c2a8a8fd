"""Tests of output formats by random documents, in whose words an omission can be recognised.

examine.py asks about each registered format, such as sarif. A `Document` is the result of a command, and a format declares which of its
parts, such as notes or findings, it shows (`shows`). `rendering_faults` looks in the text for the words that these parts must show. Words
are marked (zq0001qz), unique, and next to characters that some format must escape. Each of OMISSIONS leaves out or changes one item before
a document is rendered, and `rendering_faults` must detect this (`undetected_in_format`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from dpcli.base.lazy import load
from dpcli.base.registry import FORMATS
from dpcli.document.document import Check, Document, Finding, Passage, Sheet, Suppression, Table
from dpcli.document.formats.facts import ci_reads_verdict, is_for_screen, shows

# Characters that have a special meaning in some format, or are not in ASCII. The last one is a space of no width.
AWKWARD = ("", " ", "<b>", "&", "|", "`", "%", ": ", ", ", "=", "\n", "\x1b[31m", "@", "]]>", '"', "'", "é", "​")
WIDTH = 200  # number of columns of the screen; no marked word is broken at this width
DOCUMENTS = 16  # number of documents that are drawn for one format; more find rarer faults, and take longer
EXACT_PARTS = {"data", "records", "sheet"}  # parts that programs read, so that their numbers must not be rounded
# A number in a text that is not a part of a word.
NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
PARTS_WITH_VERDICTS = {"checks", "failures", "findings"}  # a format that reports verdicts must show at least one of these parts

# For each part, a function that removes the fault of an item. A format must render the result differently from the faulty item.
MILDER: dict[str, Callable[[Any], Any]] = {
    "checks": lambda check: replace(check, passed=True, waived=False, error=False),
    "findings": lambda finding: finding if finding.suppression else replace(finding, level="note"),
}

Render = Callable[[Document], str]


@dataclass
class DrawnDocument:
    """A generator of random documents.

    Every word is unique. A word of `text` stands between two of the AWKWARD characters.

    Attributes:
        words: Number of words and numbers that have been drawn.
    """

    random: Random
    words: int = field(default=0)

    def text(self) -> str:
        self.words += 1
        return f"{self.random.choice(AWKWARD)}zq{self.words:04}qz{self.random.choice(AWKWARD)}"

    def texts(self, most: int = 3) -> tuple[str, ...]:
        """Draw 1 to `most` new words."""
        return tuple(self.text() for _ in range(self.random.randint(1, most)))

    def number(self) -> float | int:
        """Draw a number of any size that occurs nowhere else in the document."""
        self.words += 1
        size = self.random.randint(-12, 12)
        return self.random.randint(10**15, 10**16) if size == 0 else self.random.uniform(1.0, 9.0) * 10.0**size

    def finding(self, waived: float = 0.3) -> Finding:
        """Draw a finding, which is suppressed with probability `waived`."""
        waiver = Suppression(self.text(), external=self.random.random() < 0.5) if self.random.random() < waived else None
        rule, path = (f"zq{name}{self.words}qz" for name in ("rule", "path"))
        line = self.random.choice([0, 1, 7])
        return Finding(f"{path}.toml", rule, "error", self.text(), line, line, suppression=waiver)

    def check(self) -> Check:
        """Draw a check that passed, failed, could not be judged, or was waived."""
        passed, waived, error = self.random.choice(
            [(True, False, False), (False, False, False), (False, False, True), (True, True, False)]
        )
        return Check(self.text(), passed, self.text(), waived, error)

    def table(self) -> Table:
        columns = self.texts()
        rows = tuple(tuple(self.text() for _ in columns) for _ in range(self.random.randint(1, 3)))
        return Table(self.text(), columns, rows, footnotes=self.texts(), folded=self.random.random() < 0.5)

    def record(self) -> dict[str, Any]:
        return {self.text(): self.text(), self.text(): self.number()}

    def sheet(self) -> Sheet:
        """Draw a sheet whose last column has numbers."""
        columns = self.texts()
        rows = tuple((*(self.text() for _ in columns), self.number()) for _ in range(self.random.randint(1, 3)))
        return Sheet((*columns, self.text()), rows)

    def document(self) -> Document:
        """Draw a document that has every part."""
        repeats = range(self.random.randint(1, 4))
        return Document(
            headline=self.text(),
            data={self.text(): self.number(), self.text(): [self.record() for _ in repeats]},
            verdict="fail",
            tables=tuple(self.table() for _ in repeats),
            notes=self.texts(),
            findings=(self.finding(0.0), *(self.finding() for _ in repeats)),
            checks=(Check(self.text(), False, self.text()), *(self.check() for _ in repeats)),
            total=f"zq{self.random.randint(10**8, 10**9)}qz",  # a number of dpcli, so it has no special characters
            exit_code=1,
            records=[self.record() for _ in repeats],
            title=self.text(),
            passages=tuple(Passage(self.text(), self.texts(), self.texts()) for _ in repeats),
            log=self.texts(),
            details=self.texts(),
            sheet=self.sheet(),
            parts=tuple(self.part() for _ in repeats),
        )

    def part(self) -> Document:
        """Draw a document that is a section of a page."""
        return Document(self.text(), {}, tables=(self.table(),), notes=self.texts(), title=self.text())


def words(value: Any) -> set[str]:
    """Return every marked word in a part of a document."""
    return set(re.findall(r"zq\w+?qz", repr(value)))


def numbers(value: Any) -> set[float]:
    """Return every number in a part of a document. Names of keys and columns are not numbers."""
    if isinstance(value, Sheet):
        value = value.rows
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return set().union(*map(numbers, value))
    return {float(value)} if isinstance(value, float | int) else set()


def must_show(document: Document, part: str) -> set[str]:
    """Return the words that a format must show if it shows a part. Of a check that passed, it must show only the name.

    The part "failures" is not a field of a document: it consists of the failed checks.
    """
    if part == "checks":
        failures = [check.message for check in document.checks if check.waived or not check.passed]
        return words([check.name for check in document.checks]) | words(failures)
    if part == "failures":
        return words([check.message for check in document.checks if not check.passed and not check.waived])
    if part == "findings":
        return words([(finding.path, finding.rule, finding.message) for finding in document.findings])
    return words(getattr(document, part))


def _divided_by_ten(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _divided_by_ten(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_divided_by_ten(item) for item in value]
    return 0.1 * value if isinstance(value, float | int) else value


def _without_exact_numbers(document: Document) -> Document:
    sheet = document.sheet
    if sheet is not None:
        sheet = replace(sheet, rows=tuple(tuple(_divided_by_ten(row)) for row in sheet.rows))
    return replace(document, data=_divided_by_ten(document.data), records=_divided_by_ten(document.records), sheet=sheet)


def _without_last_cells(table: Table) -> Table:
    return replace(table, rows=tuple((*row[:-1], "") for row in table.rows))


def _each(items: tuple[Any, ...], **changes: Any) -> tuple[Any, ...]:
    return tuple(replace(item, **changes) for item in items)


# Functions that leave out or change one item of a document, by a description of the item.
OMISSIONS: dict[str, Callable[[Document], Document]] = {
    "a failed check": lambda d: replace(d, checks=d.checks[1:]),
    "the last check": lambda d: replace(d, checks=d.checks[:-1]),
    "the message of a check": lambda d: replace(d, checks=_each(d.checks, message="")),
    "the failure of checks": lambda d: replace(d, checks=_each(d.checks, passed=True, error=False)),
    "the error of a check": lambda d: replace(
        d, checks=tuple(replace(c, passed=c.passed or c.error, error=False) for c in d.checks)
    ),
    "the level of the first finding": lambda d: replace(d, findings=(*_each(d.findings[:1], level="note"), *d.findings[1:])),
    "the first finding": lambda d: replace(d, findings=d.findings[1:]),
    "the last finding": lambda d: replace(d, findings=d.findings[:-1]),
    "the message of a finding": lambda d: replace(d, findings=_each(d.findings, message="")),
    "the level of findings": lambda d: replace(d, findings=_each(d.findings, level="note")),
    "a table": lambda d: replace(d, tables=d.tables[:-1]),
    "a row": lambda d: replace(d, tables=tuple(replace(t, rows=t.rows[:-1]) for t in d.tables)),
    "a cell": lambda d: replace(d, tables=tuple(map(_without_last_cells, d.tables))),
    "footnotes": lambda d: replace(d, tables=_each(d.tables, footnotes=())),
    "a note": lambda d: replace(d, notes=d.notes[:-1]),
    "a record": lambda d: replace(d, records=d.records[:-1] or [{}]),
    "a key": lambda d: replace(d, data=dict(list(d.data.items())[:-1])),
    "a passage": lambda d: replace(d, passages=d.passages[:-1]),
    "a part": lambda d: replace(d, parts=d.parts[:-1]),
    "the points of passages": lambda d: replace(d, passages=_each(d.passages, points=())),
    "a row of the sheet": lambda d: replace(d, sheet=d.sheet and replace(d.sheet, rows=d.sheet.rows[:-1])),
    "the exact numbers": _without_exact_numbers,
    "the headline": lambda d: replace(d, headline=""),
    "the title": lambda d: replace(d, title="-"),
    "the log": lambda d: replace(d, log=()),
    "details": lambda d: replace(d, details=()),
    "the total": lambda d: replace(d, total="0"),
}


def rendering_faults(name: str, render: Render, document: Document) -> Iterator[str]:
    """Yield each fault of a rendering: omitted words or numbers, failures that it shows as milder ones, and invisible characters.

    Args:
        name: Name of the format, which determines the parts that it must show.
        render: Function that renders a document in this format, perhaps with a planted omission.
    """
    text = render(document)
    for part in shows(name):
        missing_words = {word for word in must_show(document, part) if word not in text}
        if missing_words:
            yield f"{part}: {sorted(missing_words)}"
        missing_numbers = numbers(getattr(document, part, None)) - {float(number) for number in NUMBER.findall(text)}
        if part in EXACT_PARTS and missing_numbers:
            yield f"{part}: {sorted(missing_numbers)}"
    for part, milder in MILDER.items():
        items: tuple[Any, ...] = getattr(document, part) if part in shows(name) else ()
        for index, item in enumerate(items):
            mild_item = milder(item)
            changes: dict[str, Any] = {part: (*items[:index], mild_item, *items[index + 1 :])}
            if mild_item != item and render(replace(document, **changes)) == text:
                yield f"{part}: {item} is shown as {mild_item}"
    if control_characters := {character for character in text if not character.isprintable()} - {"\n", "\r"}:
        yield f"invisible characters, or characters that control a terminal: {sorted(control_characters)}"
    if ci_reads_verdict(name) and not PARTS_WITH_VERDICTS & set(shows(name)):
        yield "checks, failures and findings, although the format reports verdicts"


@functools.cache
def drawn_documents(name: str, seed: str) -> tuple[tuple[Document, str], ...]:
    """Draw DOCUMENTS random documents, and render each by the format. They are cached, because every omission is tried on the same ones."""
    drawn = [DrawnDocument(Random(f"{seed}/{name}/{k}")).document() for k in range(DOCUMENTS)]
    return tuple((document, renderer(name)(document)) for document in drawn)


def renderer(name: str) -> Render:
    """Return the rendering function of a registered format. A format for a screen gets a wide screen."""
    render = load(FORMATS[name])
    if is_for_screen(name):
        return functools.partial(render, width=WIDTH)
    return cast("Render", render)


def undetected_in_format(name: str, omission: str, seed: str) -> bool:
    """Return whether an omission before rendering changes the format's output, and the exam does not detect it.

    It is detected if it gives a fault in one of the documents whose output it changes.
    """
    render, omit = renderer(name), OMISSIONS[omission]

    def render_without_item(document: Document) -> str:
        return render(omit(document))

    affected = [document for document, text in drawn_documents(name, seed) if render_without_item(document) != text]
    has_fault = (any(True for _ in rendering_faults(name, render_without_item, document)) for document in affected)
    return bool(affected) and not any(has_fault)
