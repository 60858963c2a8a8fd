"""Files that have been judged, and the policy that they were judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.values import dataclass

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.analysis.difference import Priced
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.toml.findings import Diagnostic
    from dpcli.gate.bases import Base
from dpcli.gate.verdicts import Condition, Verdict, worst


@dataclass(frozen=True, slots=True)
class Judged:
    """One file: its account (None where it cannot be read), the conditions, and how it compares with the base.

    now: epsilon at the base's delta, where there is a base. changes: what each change costs, made alone to the base.
    granting: positions of the policy's waivers that had something to say here. own: the file as it stands, where it can be read: with its
    own caps, which the account's pipeline has only where no others hold. sources: the private data that it has commands read.
    """

    path: str
    account: Account | None
    conditions: tuple[Condition, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    base: Base | None = None
    now: float | None = None
    changes: tuple[Priced, ...] = ()
    granting: frozenset[int] = frozenset()
    own: Pipeline | None = None
    sources: frozenset[str] = frozenset()

    @property
    def verdict(self) -> Verdict:
        """The worst of the conditions."""
        return worst(condition.verdict for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class JudgedTogether(Judged):
    """All files of some datasets, added up; path: what a table calls them.

    base, now: as of a file, where all that was in the sum at the revision can be added up.
    at: the file where reports for a place in the source show it. members: every file that is in the sum. told: the sum where no cap holds
    it, and a condition only tells of it.
    """

    at: str = ""
    datasets: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    told: Account | None = None


@dataclass(frozen=True, slots=True)
class Gated:
    """All files, sums over files, and what there is to say of the policy itself."""

    files: tuple[Judged, ...]
    policy: str | None = None
    notices: tuple[Condition, ...] = ()
    together: tuple[JudgedTogether, ...] = ()

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Everything that has a verdict."""
        return (*self.files, *self.together)

    @property
    def verdict(self) -> Verdict:
        return worst(one.verdict for one in self.judged)
