"""The documents that a notebook shows of the results of dpcli.release and dpcli.plan_release. The command prints the same documents.

The functions are registered by the names of the results' classes (`displayed` in release/plugin.py). They are not in documents/release.py,
to avoid a circle of imports: release_run.py imports that module, and table_release.py, which has these classes, imports release_run.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.document.document import Document
from dpcli.release.documents.release import outcome_document, plan_document

if TYPE_CHECKING:
    from dpcli.release.table_release import PlannedRelease, ReleasedAnswers


def answers_page(result: ReleasedAnswers) -> Document:
    return outcome_document(result.outcome)


def plan_page(result: PlannedRelease) -> Document:
    return plan_document(result.plan)
