"""The Python interface to a ledger (`dpcli.budget`): a program charges a run, draws its noise, and records that the run has ended.

    with dpcli.budget("budget.db").reserve("train.toml", key="week-7") as run:
        run.start()
        ...  # draw noise

A *ledger* is the account book of a dataset's privacy budget (dpcli/ledger/ledger.py), in a file or a database. The life of a run is
`reserve` (it is charged in full), `start` (noise may be drawn from now on), and the end of the `with` block (it is committed, unless the
block raised an exception). Only a run that was never started can be voided and refunded. A repeated request with the same key charges
nothing twice. A dataset may be cut into *blocks*, each with a budget of its own; the *window* of a run is the blocks that it reads.
Arguments of a wrong type raise InputError before a ledger is opened; the last functions of this module check the types.
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
from dpcli.ledger.ledger import require_first_charge
from dpcli.ledger.stores.places import absolute_url, open_ledger, without_secrets

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.charges.ledger_run import Run
    from dpcli.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class DatasetBudget(Displayed):
    """The ledger of one dataset. Each request opens the ledger again, so that no connection or lock is held during a long run.

    Attributes:
        url: A path, sqlite:///path or postgresql://... A relative path is made absolute, so that a later change of the working directory
            does not lead to another file.
        dataset: The name of the dataset; None for the only dataset of the ledger.
    """

    url: str
    dataset: str | None = None

    __repr__ = Displayed.__repr__  # else `dataclass` would make one that shows the URL, which may contain a password

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
        """Charge one run in full before it starts, and return a context manager for the run.

        Args:
            pipeline: The pipeline of the run, or the path of its file.
            key: Name of the run. If the request is repeated before the run is started, the run is not charged again. After the start the
                request is refused, because a run that draws noise again is another run.
            why: Reason, which the entry records.
            delta: The delta at which the run is described, if the filter needs one. If None, it is the delta of the file.
            expires: A time ("2030-12-31T00:00:00Z", "14d", "36h") after which the reservation cannot be voided and stays charged. If the
                request is repeated with another time, the first time remains valid and a UserWarning is issued.
            window: The blocks that the run reads, if the dataset is cut into blocks: a name, a range "2026-01-01..2026-01-28", or several
                names and ranges. If empty, the blocks are those of the pipeline (privacy.window), which `window` must not contradict.
                Either all blocks are charged in full or none. The caller guarantees that the run reads no other records; this is not
                checked.

        Raises:
            Denied: The run does not fit in the remaining budget of the dataset or of one of its blocks. Nothing was written.
            InputError: An argument or the file is invalid, or the run states another unit or adjacency than the ledger. A window is stated
                for a dataset without blocks, or missing for a dataset with blocks.
            LedgerError: The ledger is missing, locked or damaged, or the key belongs to another run or to a run that was started.
            CannotCertify, NotRepresentable: The filter of the ledger has no cost for the run.
        """
        pipeline, key, described_at, why = _checked_arguments(pipeline, key, delta, why)
        last = None if expires is None else text_of("expires", expires)
        blocks = texts_of("window", window)
        with self._open() as ledger:
            name = ledger.own_key(key)  # in a database it begins with the login
            receipt = ledger.reserve(pipeline, name, described_at, why, expiry_time(last, ledger.now()), blocks)
            for line in receipt.notes[1:]:  # the first note, that the request was granted before, is no surprise to the caller
                warnings.warn(f"dpcli: {line}", stacklevel=2)
            return ReservedRun(DatasetBudget(self.url, ledger.dataset), name)

    def spend(
        self,
        pipeline: Pipeline | str | os.PathLike[str],
        key: str,
        why: str = "",
        delta: float | None = None,
        window: str | Sequence[str] = (),
    ) -> None:
        """Charge a run that is made at once. Noise may be drawn only after this method returns.

        The arguments and errors are as in `reserve`. LedgerError is also raised if the key was charged before, because the noise of that
        run may have been drawn already.
        """
        pipeline, key, described_at, why = _checked_arguments(pipeline, key, delta, why)
        blocks = texts_of("window", window)
        with self._open() as ledger:
            require_first_charge(ledger.spend(pipeline, ledger.own_key(key), described_at, why, blocks), key)

    def _open(self) -> Ledger:
        return open_ledger(self.url, self.dataset)


class ReservedRun(Displayed):
    """A charged run, as a context manager. Call `start` before the first noise is drawn. The end of the `with` block commits the run.

    The run stays charged if the block raises an exception, if `start` is never called, and if the process dies. Only a run that was not
    started can be voided. Several threads and processes may use one run, but only one of them can start it.

    The `with` statement raises LedgerError at its beginning if the run has ended. It raises InputError at the end of a block without an
    exception if the run was neither started nor voided, and no proposal to void it is open.
    """

    def __init__(self, budget: DatasetBudget, key: str) -> None:
        self.budget, self.key = budget, key

    def _line(self) -> str:
        return f"key={self.key!r}, dataset={self.budget.dataset!r}"

    @property
    def run(self) -> Run:
        """The run as it is now in the ledger. Its status is "reserved", "started", "committed" or "void"."""
        with self.budget._open() as ledger:
            return ledger.state().run(self.key)

    def start(self) -> None:
        """Record that noise is about to be drawn. Raises LedgerError if the run was started or voided before. Draw no noise then."""
        with self.budget._open() as ledger:
            receipt = ledger.start(self.key)
        assert not receipt.repeated  # a second start is refused by the ledger

    def commit(self, why: str = "") -> None:
        """Record that the run has ended. It stays charged.

        Args:
            why: Reason. Required if the run was never started.

        Raises:
            LedgerError: The run was voided.
            InputError: The run was never started and there is no reason.
        """
        reason = text_of("why", why)
        with self.budget._open() as ledger:
            ledger.commit(self.key, reason)

    def void(self, why: str) -> None:
        """Cancel the reservation, because no noise was drawn. In a two-person ledger the run stays charged until another person approves.

        Raises:
            LedgerError: The run was started, or the reservation has expired.
            InputError: There is no reason.
        """
        reason = text_of("why", why)
        with self.budget._open() as ledger:
            ledger.void(self.key, reason)

    def __enter__(self) -> Self:
        status = self.run.status
        if status in ("committed", "void"):
            raise LedgerError(
                f'key "{self.key}": expected a reservation that has not ended, found a run that is {status}: a run that draws noise again '
                "needs a key of its own"
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f'dpcli: the run "{self.key}" stays charged; if no noise was drawn, void it with a reason')
            return
        with self.budget._open() as ledger:
            state = ledger.state()
            status = state.run(self.key).status
            is_void_proposed = f"run {self.key}" in state.proposals  # the subject of a proposal about this run
        if status == "started":
            self.commit()
        elif status == "reserved" and not is_void_proposed:
            raise InputError(
                f'run "{self.key}": expected start() before the first noise, or void(), found the end of the block; the run stays charged'
            )


def budget(url: str | os.PathLike[str], dataset: str | None = None) -> DatasetBudget:
    """Return the ledger of a dataset, to which a program can charge runs.

    Args:
        url: A path, sqlite:///path or postgresql://...
        dataset: The name of the dataset; None for the only dataset of the ledger.

    Raises:
        LedgerError: The ledger does not exist. Whether it has a dataset of the given name is checked by the first request.
        InputError: No dataset is named, and the ledger does not have exactly one. Or an argument is invalid.
    """
    unresolved = DatasetBudget(path_or_url("budget", url), dataset)
    with unresolved._open() as ledger:
        return DatasetBudget(unresolved.url, ledger.dataset)


def _checked_arguments(
    pipeline: Pipeline | str | os.PathLike[str], key: str, delta: float | None, why: str
) -> tuple[Pipeline, str, float | None, str]:
    """Return the arguments of a charge, with the pipeline read from its file. Raises InputError if one has a wrong type."""
    checked_delta = None if delta is None else number_of("delta", delta)
    return pipeline_of("pipeline", pipeline), text_of("key", key), checked_delta, text_of("why", why)


def text_of(name: str, given: object) -> str:
    """Return the value of argument `name` if it is a str. Raises InputError otherwise."""
    if not isinstance(given, str):
        raise InputError(f"{name}: expected a text, found {repr(given)[:60]}")
    return given


def texts_of(name: str, given: object) -> tuple[str, ...]:
    """Return the value of argument `name`, a str or a list or tuple of str, as a tuple. Raises InputError otherwise."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{name}: expected a text or a list of texts, found {repr(given)[:60]}")
    return tuple(text_of(name, text) for text in given)


def path_or_url(name: str, given: object) -> str:
    """Return the value of argument `name`, a str or a path, as a str. Raises InputError otherwise."""
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{name}: expected a path or a URL, found {repr(given)[:60]}")
    return os.fsdecode(given)


def number_of(name: str, given: object) -> float:
    """Return the value of argument `name`, a real number of any library, as a float. Raises InputError otherwise, also for a bool."""
    if not isinstance(given, Real) or isinstance(given, bool):
        raise InputError(f"{name}: expected a number, found {repr(given)[:60]}")
    try:
        return float(given)
    except OverflowError:
        raise InputError(f"{name}: expected a number that a double can hold, found {str(given)[:60]}") from None


def pipeline_of(name: str, given: object) -> Pipeline:
    """Return the value of argument `name`, a pipeline or the path of its file, as a pipeline. Raises InputError otherwise."""
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.pipeline.read import load

    if isinstance(given, Pipeline):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{name}: expected a pipeline, or the path of its file, found {repr(given)[:60]}")
    return load(os.fsdecode(given))
