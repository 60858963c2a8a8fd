"""The document of a comment on a pull request, and the decision whether a first comment is worth writing (`is_news`).

commands/comment.py gives these functions the result of the gate (`Gated`), with a verdict on each file (`Judged`) and on each *sum*, the
joint cost of the files that name one dataset (`JudgedSum`). The document is the gate's own (gate/documents/gate.py) in another order: a
comment may be too long for the forge, and its last rows are then left out, so what fails or changed comes first. A comment is *news* if a
reviewer would want to know: something fails, rises, is new or gone, or promises less than at its *base*, the earlier version. If nothing is
news, an existing comment is still updated, but none is started.
"""

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

    name: name of this comment, if a pull request has several; None otherwise.
    base: base of the comparison as the user gave it, such as "origin/main".
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

    Files with equal verdicts are in three queues: changed files, those of them with weaker promises, and new files, each by the rise of
    epsilon. The queues take turns, so that many files of one queue do not displace the others in a comment with too little room.
    """
    queues = (
        [file for file in files if file.base is not None],
        [file for file in files if file.base is not None and _has_weaker_promises(file)],
        [file for file in files if file.base is None],
    )
    turns: dict[str, tuple[int, int]] = {}  # path of a file -> its first turn: its position in a queue, and the number of the queue
    for number, queue in enumerate(queues):
        for position, file in enumerate(sorted(queue, key=_epsilon_rise, reverse=True)):
            turn = (position, number)
            turns[file.path] = min(turn, turns.get(file.path, turn))  # a file may be in the first two queues
    return tuple(sorted(files, key=lambda file: (PRECEDENCE.index(file.verdict), not _has_news(file), turns[file.path])))


def _epsilon_rise(file: Judged) -> float:
    """Return the rise of epsilon; epsilon itself for a new file; inf if the rise is unknown."""
    if file.account is None:
        return 0.0
    if file.base is None or file.epsilon_at_base_delta is None:
        return file.account.upper
    rise = file.epsilon_at_base_delta - file.base.epsilon
    return math.inf if math.isnan(rise) else rise  # NaN if epsilon is infinite before and after


def _sums_first(tables: tuple[Table, ...], file_count: int, warned_count: int) -> tuple[Table, ...]:
    """Return the tables with the rows of sums that fail or warn before the rows of files in the first table.

    The gate's table has `file_count` rows of files, then the sums, of which `warned_count` fail or warn and come first.
    """
    if not tables or len(tables[0].rows) < file_count:
        return tables
    verdicts, *other_tables = tables
    first_of_sums, end_of_warned = file_count, file_count + warned_count
    rows = verdicts.rows
    ordered = (*rows[first_of_sums:end_of_warned], *rows[:first_of_sums], *rows[end_of_warned:])
    return (replace(verdicts, rows=ordered), *other_tables)


def error_document(error: DpcliError, name: str | None) -> Document:
    """Return the document of a comment which says that nothing was judged, and why."""
    finding = Finding(".", "dpcli/stopped", "error", " ".join(str(error).split()))
    return Document(_named_headline(name, "gate: INVALID (nothing was judged)"), {}, findings=(finding,), exit_code=error.exit_code)


def _named_headline(name: str | None, headline: str) -> str:
    """Return the headline with the name of the comment, if it has one, in front."""
    return headline if name is None else f"{code(name)} {headline}"


def _meanings(gated: Gated) -> Iterator[str]:
    """Yield a note for each unit and adjacency of the files, because an epsilon has no meaning without them."""
    stated = [file.account.pipeline.privacy for file in gated.judged if file.account is not None]
    counts = Counter((privacy.unit or "record", privacy.adjacency.value) for privacy in stated)
    for (unit, adjacency), count in counts.items():
        rows = f" ({count:,} of {len(stated):,} rows)" if len(counts) > 1 else ""
        yield f"epsilon per {unit}, {adjacency}, rounded up{rows}"


def is_news(gated: Gated) -> bool:
    """Return whether a file fails, is waived, rises, is new, is removed or weakens its promises, or the policy changed."""
    has_new_policy = any(notice.name == POLICY_CHANGE for notice in gated.notices)
    unchanged = {file.path for file in gated.files if _is_unchanged(file)}
    return has_new_policy or any(map(_has_news, gated.files)) or any(_is_sum_news(total, unchanged) for total in gated.together)


def _is_sum_news(total: JudgedSum, unchanged: Set[str]) -> bool:
    """Return whether a sum fails, or has a warning that may be new because a file in it changed or was not given."""
    if total.verdict != "pass":
        return True
    is_unchanged = bool(total.members) and unchanged >= set(total.members)
    return _has_warning(total) and not is_unchanged


def _has_warning(judged: Judged) -> bool:
    """Return whether a condition of a file or sum has another verdict than "pass"."""
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
    """Return whether a file does not pass, is new or removed with a warning, rises, or weakens its promises."""
    if file.verdict != "pass":
        return True
    if file.account is None:  # removed, or nothing to judge
        return _has_warning(file)
    if file.base is None or file.epsilon_at_base_delta is None:  # new
        return True
    if not file.epsilon_at_base_delta <= file.base.epsilon:  # it rises, or a number is NaN
        return True
    may_have_changed = file.changes or file.base.data is None  # Changes are assumed if only numbers of the base are known.
    return bool(may_have_changed) and _has_weaker_promises(file)


def _has_weaker_promises(file: Judged) -> bool:
    """Return whether a condition of a file is not passed, or its statement changed."""
    return any(condition.verdict != "pass" or condition.name == "statement" for condition in file.conditions)
