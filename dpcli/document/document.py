"""Documents: a result as tables, sentences, findings and JSON data before any format, and the checks of a report that CI reads."""

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


Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text, its numbers already rounded in the safe direction.

    numeric: columns set flush right. flagged: rows to be noticed. folded: whether a format that can shows it closed.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: frozenset[int] = frozenset()
    footnotes: tuple[str, ...] = ()
    flagged: frozenset[int] = frozenset()
    folded: bool = False


Value = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of data: unrounded numbers under stable names; None where there is no value."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """Sentences under a heading, and points under those."""

    title: str
    paragraphs: tuple[str, ...]
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suppression:
    """The reason why a finding does not count. external: whether it was granted outside of the file."""

    justification: str
    external: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding that a CI system should show at a place in a file.

    key: what it is about, wherever that stands. help: what the rule means, in paragraphs; link: an address where more is said.
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
    """A check that passed or failed, for junit.

    waived: whether it failed and an exception was granted. error: whether it could not be judged at all.
    """

    name: str
    passed: bool
    message: str = ""
    waived: bool = False
    error: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """Everything about one result.

    headline: the one sentence that answers the question; verdict: a word that colours it.
    total: the bare number, for scripts. data: the machine form (schema, version, unrounded numbers).
    title, passages, pictures: of a document that is to be read on its own.
    marker: a word by which a bot finds its earlier comment. log: lines for a log, beside the findings.
    details: lines under the headline, where text is all there is.
    sheet: for csv; the records, or the machine form, are its rows where there is none.
    why: what the exit code is for, where no finding, check or headline says so. place: line and column of it in the file.
    long: its rows are read while they are written (`Walked`), in formats that can.
    alerts: lines for standard error too, whatever the format: what nobody may miss, although the exit code is 0.
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
    marker: str = ""
    log: Sequence[str] = ()
    details: tuple[str, ...] = ()
    why: str = ""
    place: tuple[int, int] = (1, 1)
    sheet: Sheet | None = None
    long: bool = False
    alerts: tuple[str, ...] = ()


def jsonable(value: Any) -> Any:
    """Return the value with infinities as the strings "inf" and "-inf" and NaN as null, as JSON has no numbers for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, str):  # a path may hold bytes that are no text
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [jsonable(item) for item in value]
    return value


def visible(text: str) -> str:
    """Return text from a file with control characters (ANSI escapes among them) shown as escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def safe(text: str) -> str:
    """Return a text, control characters escaped, that no spreadsheet runs as a formula."""
    text = visible(text)
    return "'" + text if text[:1] in ("=", "+", "@", "\t", "\r") or (text[:1] == "-" and text != "-") else text


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON; only characters that a terminal acts on, or that nobody sees, are escaped."""
    import json

    return re.sub(
        _UNPRINTED, lambda match: json.dumps(match[0])[1:-1], json.dumps(jsonable(value), indent=indent, ensure_ascii=False)
    )


# Controls, directions, joiners and tags, which JSON has inside strings alone. A text: compiled only where JSON is written.
_UNPRINTED = "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"


Item = TypeVar("Item", covariant=True)


class Walked(Sequence[Item]):
    """A sequence too long to hold: each walk reads it anew, and an item by its index costs the walk up to it."""

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
        wanted = range(self._count)[at]
        if isinstance(wanted, range):
            return [self[i] for i in wanted]
        return next(islice(self._walk(), wanted, None))


NOTHING_CHECKED = "nothing was checked, and an empty report would read as a pass: state a [budget], or use dpcli gate --max-epsilon"


def judged(document: Document, name: str, path: str = "") -> Document:
    """Return the document with a failed check and a finding added where its exit code is not 0 but none of its own says why.

    name: of the command. path: of the file that it read. Raises InputError where the exit code is 0 and nothing was checked.
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
        checks=document.checks if has_failed_check else (*document.checks, Check(name, False, why, error=True)),
        findings=document.findings if has_error else (*document.findings, _finding(name, path, why, document.place)),
    )


def stopped(name: str, path: str, message: str, exit_code: int, findings: tuple[Finding, ...] = ()) -> Document:
    """Return the document of a command that ended without a result. findings: its errors in the file, where their places are known."""
    errors = [one for one in findings if one.level == "error"]
    why = _at(errors[0]) + _more(len(errors)) if errors else " ".join(message.split())
    return Document(
        headline=f"{name}: {why}",
        data={"error": why, "exit_code": exit_code},
        verdict="unknown",
        findings=findings or (_finding(name, path, why),),
        checks=(Check(f"{path}: {name}" if path else name, False, why, error=True),),
        exit_code=exit_code,
    )


def reason(document: Document) -> str:
    """Say in one line why the exit code is not 0: the first error at its place, the first failed check, or the document's own reason."""
    errors = [_at(f) for f in document.findings if f.level == "error" and f.suppression is None]
    failed = [f"{check.name}: {check.message}" for check in document.checks if not check.passed and not check.waived]
    result = errors or failed or [document.why or document.headline]
    return visible(result[0]) + _more(len(result))


def _more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""


def _at(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path
    return f"{place}: {finding.rule}: {finding.message}"


def _finding(name: str, path: str, why: str, place: tuple[int, int] = (1, 1)) -> Finding:
    return Finding(path or ".", "dpcli/stopped", "error", why, *place, f"{name} did not pass")
