"""Documents: results of commands as tables, sentences, findings and JSON data, independent of the format that shows them.

A command returns a `Document`, and a format (formats/) such as json or html renders the fields that it can show. Tables hold words for
readers, in which whoever makes them has rounded bounds to the safe side; sheets and `data` hold unrounded numbers for programs. A *finding*
is an error or a warning about a place in a file, and a *check* a condition that holds or not, such as a budget.

Texts from files and databases may contain anything: `visible`, `safe` (for spreadsheets) and `json_text` make them harmless, and each
format that shows such texts must use one of them or a quoting of its own. `with_verdict` keeps a report for CI from saying less than the
exit code: a failure without a check would read as a pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass

if TYPE_CHECKING:
    from dpcli.document.chart import Chart


COLOR = re.compile(r"\x1b\[[0-9;]*m")  # escapes that color a text on a terminal
Level = Literal["error", "warning", "note"]

Value = str | float | int | bool | None

# Control characters, direction marks, joiners and tags. In JSON they occur only inside strings. The pattern is compiled on first use.
_UNPRINTED = "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"

Item = TypeVar("Item", covariant=True)

# The message for a report that CI systems would read as a pass although no check was made.
NOTHING_CHECKED = (
    "nothing was checked, and an empty report would look like a pass: state a [budget], or use dpcli gate --max-epsilon"
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text for readers. Whoever makes it has rounded its numbers in the safe direction.

    rows: cells of each row, in the order of the columns.
    numeric: indices of the columns that are aligned to the right.
    flagged: indices of the rows that are highlighted.
    folded: whether a format with foldable tables shows the table closed.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: frozenset[int] = frozenset()
    footnotes: tuple[str, ...] = ()
    flagged: frozenset[int] = frozenset()
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of data for programs. Column names are stable, numbers are not rounded, and a missing value is None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """Paragraphs under a heading, followed by a list of points."""

    title: str
    paragraphs: tuple[str, ...]
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suppression:
    """The justification of a suppressed finding. `external` is true if the suppression is not stated in the file itself."""

    justification: str
    external: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a file, which a CI system can show at its place in the file.

    rule: code of the rule.
    line, column: place in the file, from 1; 0 if the finding has no place.
    key: key that the finding is about. Unlike the line, it stays the same if the file is edited elsewhere.
    suppression: justification if the finding is suppressed.
    help: explanation of the rule, in paragraphs.
    link: address of a page about the rule.
    """

    path: str
    rule: str
    level: Level
    message: str
    line: int = 0
    column: int = 0
    title: str = ""
    key: str = ""
    suppression: Suppression | None = None
    help: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check that passed or failed. Formats such as junit report it as a test case.

    waived: whether the check failed and an exception was granted.
    error: whether the check could not be judged.
    """

    name: str
    passed: bool
    message: str = ""
    waived: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """The result of one command. Each format shows some of its fields (see formats/facts.py).

    headline: sentence that answers the user's question.
    data: JSON data with a schema and unrounded numbers.
    verdict: verdict, which determines the colour of the headline.
    notes: sentences below the tables.
    total: the single number of the result, for scripts; None if there is none.
    records: objects for jsonl, one for each line. If there are none, jsonl shows `data` as its only line.
    title, passages, pictures: title, passages and charts of a document that is read by itself, such as a page.
    parts: documents of the same page, each a section of its own below the rest. Only a page shows them.
    marker: word by which a bot finds its earlier comment.
    log: lines for a log, in addition to the findings.
    details: lines below the headline in the plain text format.
    why: reason for the exit code, if no finding, check or headline gives it.
    place: line and column of this reason in the file.
    sheet: table for csv. If None, csv shows the records, or the JSON data if there are no records.
    long: whether formats that can stream read the rows while they write them (see `Walked`).
    alerts: lines that are also printed to standard error in every format, since the exit code 0 does not reveal them.
    """

    headline: str
    data: Mapping[str, Any]
    verdict: Literal["pass", "warn", "fail", "unknown", ""] = ""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    total: str | None = None
    exit_code: int = 0
    records: Sequence[Mapping[str, Any]] = field(default=())
    title: str = ""
    passages: tuple[Passage, ...] = ()
    pictures: tuple[Chart, ...] = ()
    parts: tuple[Document, ...] = ()
    marker: str = ""
    log: Sequence[str] = ()
    details: tuple[str, ...] = ()
    why: str = ""
    place: tuple[int, int] = (1, 1)
    sheet: Sheet | None = None
    long: bool = False
    alerts: tuple[str, ...] = ()


def jsonable(value: Any) -> Any:
    """Return a value that JSON can represent.

    Infinities become the strings "inf" and "-inf", and NaN becomes None. Keys become strings, and sequences become lists. In a string,
    bytes of a path that are not valid text become escapes such as \\udcff. Any other value is returned unchanged.
    """
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, str):  # Python keeps the invalid bytes of a path as lone surrogates, which UTF-8 cannot encode
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [jsonable(item) for item in value]
    return value


def visible(text: str) -> str:
    """Return a text on one line in which every character that is not printable is written as a Python escape, such as \\x1b or \\n.

    Line breaks, tabs, direction marks and all spaces except " " are not printable. The text of a file thus cannot control a terminal.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def safe(text: str) -> str:
    """Return a `visible` text, with an apostrophe in front if a spreadsheet would interpret it as a formula.

    Such a text begins with =, + or @, or with - and something after it.
    """
    text = visible(text)
    is_formula = text.startswith(("=", "+", "@")) or (text.startswith("-") and text != "-")
    return f"'{text}" if is_formula else text


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, after `jsonable`.

    Beyond what JSON requires, only characters that control a terminal or are invisible are escaped. Other characters need not be ASCII.

    indent: spaces of each level; None for one line.
    """
    import json

    text = json.dumps(jsonable(value), indent=indent, ensure_ascii=False)
    return re.sub(_UNPRINTED, lambda match: json.dumps(match[0])[1:-1], text)


class Walked(Sequence[Item]):
    """A sequence that is too long for memory, such as the rows of a table with all entries of a ledger.

    Each iteration reads it anew. Access by index iterates up to the index, and a slice does so for each of its items.

    count: number of items.
    walk: function that returns a new iterator over exactly `count` items.
    """

    def __init__(self, count: int, walk: Callable[[], Iterator[Item]]) -> None:
        self._count, self._walk = count, walk

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return self._walk()

    @overload
    def __getitem__(self, at: int) -> Item: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...

    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        index = range(self._count)[at]
        if isinstance(index, range):
            return [self[i] for i in index]
        return next(islice(self._walk(), index, None))


def with_verdict(document: Document, name: str, path: str = "") -> Document:
    """Return a document for a format from which CI systems read a verdict: its checks and findings agree with its exit code.

    A document with exit code 0 is returned unchanged. For any other exit code, the verdict becomes "fail" unless it is "unknown". A check
    with an error is added if every check passed or is waived. An error finding is added unless there is one that is not suppressed. Both
    give the `reason` of the document.

    name: name of the command.
    path: path of the file that the command read; "" if it read none.

    Raises InputError if the exit code is 0 and the document has no checks.
    """
    if document.exit_code == 0:
        if not document.checks:
            raise InputError(NOTHING_CHECKED)
        return document
    why = reason(document)
    has_failed_check = any(not check.passed and not check.waived for check in document.checks)
    has_error = any(finding.level == "error" and finding.suppression is None for finding in document.findings)
    return replace(
        document,
        verdict=document.verdict if document.verdict in ("fail", "unknown") else "fail",
        checks=document.checks if has_failed_check else (*document.checks, Check(name, passed=False, message=why, error=True)),
        findings=document.findings if has_error else (*document.findings, _finding(name, path, why, document.place)),
    )


def error_document(name: str, path: str, message: str, exit_code: int, findings: tuple[Finding, ...] = ()) -> Document:
    """Return the document of a command that ended with an error and without a result. Its verdict is "unknown".

    The reason that it gives is the first error among the findings, with the number of further errors, or `message` if there is no error.

    name: name of the command.
    path: path of the file that the command read; "" if it read none.
    message: message of the error; line breaks in it become spaces.
    findings: findings in the file, if their places are known. If there are none, one finding with the reason is made.
    """
    errors = [finding for finding in findings if finding.level == "error"]
    why = _with_place(errors[0]) + _more(len(errors)) if errors else " ".join(message.split())
    return Document(
        headline=f"{name}: {why}",
        data={"error": why, "exit_code": exit_code},
        verdict="unknown",
        findings=findings or (_finding(name, path, why),),
        checks=(Check(f"{path}: {name}" if path else name, passed=False, message=why, error=True),),
        exit_code=exit_code,
    )


def reason(document: Document) -> str:
    """Return the reason why the exit code is not 0, in one line.

    The reason is the first error finding that is not suppressed, with its place. If there is none, it is the first check that failed and is
    not waived. If there is none either, it is `why` of the document, or its headline. "(and n more)" counts further errors or checks.
    """
    reasons = [words for words, _ in _reasons(document)]
    return visible(reasons[0]) + _more(len(reasons))


def shows_reason(text: str, document: Document) -> bool:
    """Return whether a printed text has the message of the reason, however it is broken into lines and colored."""
    _reason_with_place, message = _reasons(document)[0]
    return " ".join(visible(message).split()) in " ".join(COLOR.sub("", text).split())


def _reasons(document: Document) -> list[tuple[str, str]]:
    """Return the reasons why the exit code is not 0: each with its place or name in front, and then the same reason alone."""
    errors = [finding for finding in document.findings if finding.level == "error" and finding.suppression is None]
    failed = [check for check in document.checks if not check.passed and not check.waived]
    why = document.why or document.headline
    return (
        [(_with_place(finding), finding.message) for finding in errors]
        or [(f"{check.name}: {check.message}", check.message) for check in failed]
        or [(why, why)]
    )


def _more(count: int) -> str:
    """Return the number of reasons after the first, in words; "" if `count` is 1."""
    return f" (and {count - 1} more)" if count > 1 else ""


def _with_place(finding: Finding) -> str:
    """Return a finding as path:line:column: rule: message. Without a line in the file, it is path: rule: message."""
    place = f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path
    return f"{place}: {finding.rule}: {finding.message}"


def _finding(name: str, path: str, why: str, place: tuple[int, int] = (1, 1)) -> Finding:
    """Return the finding that a command did not pass. `place` is a line and column."""
    return Finding(path or ".", "dpcli/stopped", "error", why, *place, f"{name} did not pass")
