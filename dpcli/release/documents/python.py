"""The pages of releases in a notebook: the documents that `dpcli release` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.release.documents.release import outcome_document, plan_document

if TYPE_CHECKING:
    from dpcli.document.document import Document
    from dpcli.release.table_release import PlannedRelease, ReleasedAnswers


def answers_page(result: ReleasedAnswers) -> Document:
    """Return the document of the answers."""
    return outcome_document(result.outcome)


def plan_page(result: PlannedRelease) -> Document:
    """Return the document of the cost and the expected errors."""
    return plan_document(result.plan)
