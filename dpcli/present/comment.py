"""A gate's verdicts as a comment on a pull request: whether there is anything to tell, and what comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from dpcli.comments.text import code
from dpcli.document.document import Document, Finding
from dpcli.errors import DpcliError
from dpcli.gate.binding import POLICY_CHANGE
from dpcli.gate.judgement import Gated, Judged
from dpcli.gate.verdicts import PRECEDENCE
from dpcli.present import gate as gate_report


def document(gated: Gated, name: str | None, base: str) -> Document:
    """What `dpcli gate` says, the files that matter most first.

    name: of the comment, where there are several. base: what the files are compared with.
    """
    files = tuple(sorted(gated.files, key=lambda file: (PRECEDENCE.index(file.verdict), not _news(file))))
    together = tuple(sorted(gated.together, key=lambda one: PRECEDENCE.index(one.verdict)))
    found = gate_report.document(replace(gated, files=files, together=together))
    return replace(found, headline=_headed(name, found.headline), notes=(*_meanings(gated), f"compared with {base}", *found.notes))


def stopped(error: DpcliError, name: str | None) -> Document:
    """That nothing was judged, and why."""
    finding = Finding(".", "dpcli/stopped", "error", " ".join(str(error).split()))
    return Document(_headed(name, "gate: INVALID (nothing was judged)"), {}, findings=(finding,), exit_code=error.exit_code)


def _headed(name: str | None, headline: str) -> str:
    return headline if name is None else f"{code(name)} {headline}"


def _meanings(gated: Gated) -> Iterator[str]:
    """Whom the numbers protect, and against what: no epsilon is one without them."""
    stated = [file.account.pipeline.privacy for file in gated.judged if file.account is not None]
    counts = Counter((privacy.unit or "record", privacy.adjacency.value) for privacy in stated)
    for (unit, adjacency), count in counts.items():
        rows = f" ({count:,} of {len(stated):,} rows)" if len(counts) > 1 else ""
        yield f"epsilon per {unit}, {adjacency}, rounded up{rows}"


def told(gated: Gated) -> bool:
    """Whether a pull request should hear of it: something fails or is waived, rises, is new, is gone, or changed what it promises.

    So is a change of the policy, whatever it does to the files of today.
    """
    policy = any(notice.name == POLICY_CHANGE for notice in gated.notices)
    return policy or any(map(_news, gated.files)) or any(one.verdict != "pass" for one in gated.together)


def _news(file: Judged) -> bool:
    if file.verdict != "pass":
        return True
    if file.account is None:  # gone, or nothing to judge
        return any(condition.verdict != "pass" for condition in file.conditions)
    if file.base is None or file.now is None:  # new
        return True
    changed = file.changes or file.base.data is None  # of a base that is known by its figures, nobody knows
    weaker = any(condition.verdict != "pass" or condition.name == "statement" for condition in file.conditions)
    return bool(changed and weaker) or not file.now <= file.base.epsilon
