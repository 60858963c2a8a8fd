"""The ledger of a sweep: what is charged before its runs start, and that a sweep that goes on does so in the same books."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, InputError
from dpcli.sweep.worker import Job

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger


@dataclass(slots=True)
class Books:
    """A ledger, or none. denied: why no further run could be paid for."""

    ledger: Ledger | None
    why: str
    denied: Denied | None = None

    def charged(self, jobs: Sequence[tuple[Job, Pipeline]]) -> Iterator[Job]:
        """Each job once it is paid for, under a key of its own; up to the first that is not."""
        for job, pipeline in jobs:
            try:
                yield replace(job, charge=self.charge(pipeline))
            except Denied as reason:  # those that are paid for and running shall end
                self.denied = reason
                return

    def charge(self, pipeline: Pipeline) -> str | None:
        """The key under which a pipeline is charged, before its first noise; None without a ledger."""
        if self.ledger is None:
            return None
        key = uuid.uuid4().hex
        self.ledger.reserve(pipeline, key, why=self.why)
        self.ledger.start(key)
        return key

    def ended(self, charge: str | None) -> None:
        """A run has ended; one that has failed stays charged."""
        if self.ledger is not None and charge is not None:
            self.ledger.commit(charge)

    def require(self, charge: str | None, folder: str) -> None:
        """What was made before must be charged where this is. Raises InputError, or LedgerError for another ledger."""
        if (charge is not None) != (self.ledger is not None):
            wanted = "no --ledger, as when its runs were made" if charge is None else "the --ledger that was charged for its runs"
            raise InputError(f"{folder}: expected {wanted}, found {'one' if charge is None else 'none'}; or name a new folder")
        if self.ledger is not None and charge is not None:
            self.ledger.state().run(charge)
