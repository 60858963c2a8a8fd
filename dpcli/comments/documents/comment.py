"""The document of a comment on a pull request, from the gate's verdicts, and the decision whether a comment is needed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from dpcli.base.errors import DpcliError
from dpcli.comments.comment_text import code
from dpcli.document.document import Document, Finding, Table
from dpcli.gate.documents import gate as gate_report
from dpcli.gate.policy import POLICY_CHANGE
from dpcli.gate.verdicts import PRECEDENCE, Gated, Judged, JudgedSum


def document(gated: Gated, name: str | None, base: str) -> Document:
    """Return the report of `dpcli gate` with the most important files first.

    name: name of this comment, if a pull request has several. base: base of the comparison, in words.
    """
    files = _sort_files(gated.files)
    together = tuple(sorted(gated.together, key=lambda total: (PRECEDENCE.index(total.verdict), not _has_warning(total))))
    report = gate_report.document(replace(gated, files=files, together=together))
    file_findings = len(report.findings) - len(gated.notices)  # The findings about the policy are the last ones.
    return replace(
        report,
        headline=_named_headline(name, report.headline),
        tables=_sums_first(report.tables, len(files), sum(map(_has_warning, together))),
        findings=(*report.findings[file_findings:], *report.findings[:file_findings]),
        notes=(*_meanings(gated), f"compared with {base}", *report.notes),
    )


def _sort_files(files: Sequence[Judged]) -> tuple[Judged, ...]:
    """Sort files by verdict, and files with news before the others.

    There are three kinds of news: files whose epsilon rises most, files with weaker promises, and new files with the largest epsilon. The
    kinds take turns, so that many files of one kind do not displace the others in a comment with too little room.
    """
    kinds = (
        [file for file in files if file.base is not None],
        [file for file in files if file.base is not None and _weaker(file)],
        [file for file in files if file.base is None],
    )
    rank: dict[str, tuple[int, int]] = {}
    for kind, members in enumerate(kinds):
        for position, file in enumerate(sorted(members, key=_epsilon_rise, reverse=True)):
            rank[file.path] = min((position, kind), rank.get(file.path, (position, kind)))
    return tuple(sorted(files, key=lambda file: (PRECEDENCE.index(file.verdict), not _has_news(file), rank[file.path])))


def _epsilon_rise(file: Judged) -> float:
    """Return the rise of epsilon; epsilon itself for a new file; inf if the rise is unknown."""
    if file.account is None:
        return 0.0
    rise = (
        file.account.upper
        if file.base is None or file.epsilon_at_base_delta is None
        else file.epsilon_at_base_delta - file.base.epsilon
    )
    return math.inf if math.isnan(rise) else rise


def _sums_first(tables: tuple[Table, ...], files: int, warned: int) -> tuple[Table, ...]:
    """Move the rows of sums that fail or warn before the rows of files."""
    if not tables or len(tables[0].rows) < files:
        return tables
    rows = tables[0].rows
    ordered = (*rows[files : files + warned], *rows[:files], *rows[files + warned :])
    return (replace(tables[0], rows=ordered), *tables[1:])


def error_document(error: DpcliError, name: str | None) -> Document:
    """Return the document of a comment that nothing was judged, with the reason."""
    finding = Finding(".", "dpcli/stopped", "error", " ".join(str(error).split()))
    return Document(_named_headline(name, "gate: INVALID (nothing was judged)"), {}, findings=(finding,), exit_code=error.exit_code)


def _named_headline(name: str | None, headline: str) -> str:
    return headline if name is None else f"{code(name)} {headline}"


def _meanings(gated: Gated) -> Iterator[str]:
    """Yield a note for each unit and adjacency of the files, as an epsilon has no meaning without them."""
    stated = [file.account.pipeline.privacy for file in gated.judged if file.account is not None]
    counts = Counter((privacy.unit or "record", privacy.adjacency.value) for privacy in stated)
    for (unit, adjacency), count in counts.items():
        rows = f" ({count:,} of {len(stated):,} rows)" if len(counts) > 1 else ""
        yield f"epsilon per {unit}, {adjacency}, rounded up{rows}"


def is_news(gated: Gated) -> bool:
    """Return whether a file fails, is waived, rises, is new, is removed or weakens its promises, or the policy changed."""
    policy = any(notice.name == POLICY_CHANGE for notice in gated.notices)
    unchanged = {file.path for file in gated.files if _is_unchanged(file)}
    return policy or any(map(_has_news, gated.files)) or any(_sum_news(total, unchanged) for total in gated.together)


def _sum_news(total: JudgedSum, unchanged: Set[str]) -> bool:
    """Return whether a sum fails, or has a warning that may be new, as a file in it changed or was not given."""
    return total.verdict != "pass" or (_has_warning(total) and not (total.members and unchanged >= set(total.members)))


def _has_warning(judged: Judged) -> bool:
    return any(condition.verdict != "pass" for condition in judged.conditions)


def _is_unchanged(file: Judged) -> bool:
    """Return whether a file is unchanged and has the epsilon that it had at the base."""
    return (
        file.base is not None
        and file.base.data is not None
        and not file.changes
        and file.epsilon_at_base_delta == file.base.epsilon
    )


def _has_news(file: Judged) -> bool:
    if file.verdict != "pass":
        return True
    if file.account is None:  # removed, or nothing to judge
        return _has_warning(file)
    if file.base is None or file.epsilon_at_base_delta is None:  # new
        return True
    has_changes = file.changes or file.base.data is None  # Changes are assumed if only numbers of the base are known.
    return bool(has_changes and _weaker(file)) or not file.epsilon_at_base_delta <= file.base.epsilon


def _weaker(file: Judged) -> bool:
    return any(condition.verdict != "pass" or condition.name == "statement" for condition in file.conditions)
