"""A budget from Python: charge a run, draw its noise, say that it has ended.

Arguments are taken as what they plainly are, or refused in words before a ledger is opened.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.chain import expiry_time
from dpcli.ledger.ledger import first_time
from dpcli.ledger.stores.places import absolute_url, open_ledger, without_secrets

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import Run


def text_of(name: str, given: object) -> str:
    """Return a text. Raises InputError for anything else."""
    if not isinstance(given, str):
        raise InputError(f"{name}: expected a text, found {repr(given)[:60]}")
    return given


def texts_of(name: str, given: object) -> tuple[str, ...]:
    """Return one text or several. Raises InputError for anything else."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{name}: expected a text or a list of texts, found {repr(given)[:60]}")
    return tuple(text_of(name, one) for one in given)


def path_or_url(name: str, given: object) -> str:
    """Return a text, or a path as text. Raises InputError for anything else."""
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{name}: expected a path or a URL, found {repr(given)[:60]}")
    return os.fsdecode(given)


def number_of(name: str, given: object) -> float:
    """Return a number, of whatever library, as a double. Raises InputError for anything else, a bool among it."""
    if not isinstance(given, Real) or isinstance(given, bool):
        raise InputError(f"{name}: expected a number, found {repr(given)[:60]}")
    try:
        return float(given)
    except OverflowError:
        raise InputError(f"{name}: expected a number that a double can hold, found {str(given)[:60]}") from None


def pipeline_of(name: str, given: object) -> Pipeline:
    """Return a pipeline, or what is in its file. Raises InputError for anything else."""
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.pipeline.read import load

    if isinstance(given, Pipeline):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{name}: expected a pipeline, or the path of its file, found {repr(given)[:60]}")
    return load(os.fsdecode(given))


@dataclass(frozen=True, slots=True)
class DatasetBudget(Displayed):
    """The ledger of one dataset, reached anew by each request: nothing is held while a run takes its hours.

    Attributes:
        url: A path, sqlite:///path or postgresql://..., of now: a later change of the working directory means no other file.
        dataset: Its name there; the only one if None.
    """

    url: str
    dataset: str | None = None

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        return f"dataset={self.dataset!r}, {without_secrets(self.url)!r}"

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", absolute_url(path_or_url("budget", self.url)))
        if self.dataset is not None:
            text_of("dataset", self.dataset)

    def reserve(
        self,
        pipeline: Pipeline | str | os.PathLike[str],
        key: str,
        why: str = "",
        delta: float | None = None,
        expires: str | None = None,
        window: str | Sequence[str] = (),
    ) -> ReservedRun:
        """Charge one run in full, before it starts; what is returned is for `with`.

        Args:
            pipeline: What the run does, or the path of its file.
            key: Names the run. Asked for again before the run was started, it is the same charge; afterwards it is refused, since what
                draws noise again is another run.
            why: For the log.
            delta: Delta at which the run is described, if the filter needs one; the file's if None.
            expires: A time ("2030-12-31T00:00:00Z", "14d", "36h") after which it can no longer be voided; it stays charged. Asked for again
                with another one it keeps the first, and a UserWarning says so.
            window: The blocks that it reads, if the dataset is cut into blocks: "2026-01-01..2026-01-28", one name, or several of these.
                Each is charged in full, all or none. The pipeline's own (privacy.window) where empty; another one than that is refused.
                That the run reads no other records is the caller's word, and not checked.

        Raises:
            Denied: It does not fit in what is left, on one of its blocks. Nothing was written.
            InputError: The file, the key, the time or the window is wrong or of another type, or the run is of another unit or adjacency;
                the dataset has blocks and no window is stated, or has none and one is.
            LedgerError: The ledger is missing, locked or damaged, or the key is another run's or has begun.
            CannotCertify, NotRepresentable: The ledger's filter has no cost for it.
        """
        request = _request(pipeline, key, delta, why)
        last = None if expires is None else text_of("expires", expires)
        blocks = texts_of("window", window)
        with self._open() as ledger:
            receipt = ledger.reserve(*request, expiry_time(last, ledger.now()), blocks)
            for line in receipt.notes[1:]:  # that it is the same reservation was asked for; that it ends at another time was not
                warnings.warn(f"dpcli: {line}", stacklevel=2)
            return ReservedRun(DatasetBudget(self.url, ledger.dataset), key)

    def spend(
        self,
        pipeline: Pipeline | str | os.PathLike[str],
        key: str,
        why: str = "",
        delta: float | None = None,
        window: str | Sequence[str] = (),
    ) -> None:
        """Charge a run that is made at once; when this returns, and not before, its noise may be drawn.

        Its arguments are those of `reserve`. Raises what `reserve` raises, and LedgerError if the key was charged before: its noise may
        have been drawn.
        """
        request = _request(pipeline, key, delta, why)
        blocks = texts_of("window", window)
        with self._open() as ledger:
            first_time(ledger.spend(*request, blocks), key)

    def _open(self) -> Ledger:
        return open_ledger(self.url, self.dataset)


class ReservedRun(Displayed):
    """A run that is charged. `start` it before the first noise; the end of the `with` commits it.

    Whatever goes wrong, it stays charged: an exception in the block, one that was not started, a process that dies. `void` gives back what
    was not started. Threads and processes may hold the same run; one of them starts it. `with` refuses, with LedgerError, one that has
    ended.
    """

    def __init__(self, budget: DatasetBudget, key: str) -> None:
        self.budget, self.key = budget, key

    def _line(self) -> str:
        return f"key={self.key!r}, dataset={self.budget.dataset!r}"

    @property
    def run(self) -> Run:
        """The run as the ledger has it now: status is reserved, started, committed or void."""
        with self.budget._open() as ledger:
            return ledger.state().run(self.key)

    def start(self) -> None:
        """Noise is about to be drawn; granted once. Raises LedgerError if it was started before or voided: then draw nothing."""
        with self.budget._open() as ledger:
            receipt = ledger.start(self.key)
        assert not receipt.repeated  # a second start is refused by the ledger

    def commit(self, why: str = "") -> None:
        """The run has ended; it stays charged.

        Args:
            why: The reason, needed if it was never started.

        Raises:
            LedgerError: If it was voided.
            InputError: If it was never started and there is no reason.
        """
        reason = text_of("why", why)
        with self.budget._open() as ledger:
            ledger.commit(self.key, reason)

    def void(self, why: str) -> None:
        """Give it back, as no noise was drawn. Raises LedgerError if it was started or has expired, InputError without a reason.

        In a ledger of two persons it is proposed, and stays charged until another person approves.
        """
        reason = text_of("why", why)
        with self.budget._open() as ledger:
            ledger.void(self.key, reason)

    def __enter__(self) -> Self:
        status = self.run.status
        if status in ("committed", "void"):
            raise LedgerError(
                f'key "{self.key}": expected a reservation that has not ended, found one that is {status}: a run that draws noise again '
                "needs a key of its own"
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f'dpcli: the run "{self.key}" stays charged; where no noise was drawn, void it with the reason')
            return
        with self.budget._open() as ledger:
            state = ledger.state()
            status, proposed = state.run(self.key).status, f"run {self.key}" in state.proposals
        if status == "started":
            self.commit()
        elif status == "reserved" and not proposed:
            raise InputError(
                f'run "{self.key}": expected start() before the first noise, or void(), found the end of the block; it stays charged'
            )


def budget(url: str | os.PathLike[str], dataset: str | None = None) -> DatasetBudget:
    """The ledger of a dataset, to charge runs from a program.

    Args:
        url: A path, sqlite:///path or postgresql://...
        dataset: Its name there; the only one if None.

    Raises:
        LedgerError: If it is not there.
        InputError: If it is not named.
    """
    named = DatasetBudget(path_or_url("budget", url), dataset)
    with named._open() as ledger:
        return DatasetBudget(named.url, ledger.dataset)


def _request(
    pipeline: Pipeline | str | os.PathLike[str], key: str, delta: float | None, why: str
) -> tuple[Pipeline, str, float | None, str]:
    at = None if delta is None else number_of("delta", delta)
    return pipeline_of("pipeline", pipeline), text_of("key", key), at, text_of("why", why)
