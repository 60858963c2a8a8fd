"""What a release came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcli.release.answer import QueryAnswer
    from dpcli.release.plan import ReleasePlan


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """fresh: whether the answers were drawn now; else they are those that were drawn when the release was charged."""

    plan: ReleasePlan
    folder: str
    run: str
    answers: tuple[QueryAnswer, ...]
    fresh: bool
