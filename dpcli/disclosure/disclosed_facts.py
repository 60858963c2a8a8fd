"""The facts that a disclosure states: a pipeline, its account, the meaning of the account, and the findings of the rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpcli.analysis.account import Account, account
from dpcli.analysis.meaning import Meaning, meaning
from dpcli.base.errors import DpcliError, InternalError
from dpcli.file.pipeline.model import Disclosure, Entry, Pipeline, Privacy
from dpcli.file.toml.findings import Diagnostic
from dpcli.mechanisms.sampling.schemes import Batched, OncePerEpoch


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """A pipeline and everything that is known about it.

    Attributes:
        meaning: None if no finite epsilon is certified.
        unamplified: The account if batches came in shuffled or fixed order; None if none are drawn at random, or where that cannot be
            accounted.
        rows: The rows of the window that dpcli has read itself, "" if the file states them.
    """

    account: Account
    meaning: Meaning | None
    unamplified: Account | None
    diagnostics: tuple[Diagnostic, ...] = ()
    rows: str = ""

    @property
    def pipeline(self) -> Pipeline:
        return self.account.pipeline

    @property
    def privacy(self) -> Privacy:
        return self.pipeline.privacy

    @property
    def disclosure(self) -> Disclosure:
        """The file's [disclosure]."""
        return self.pipeline.disclosure

    @property
    def unit(self) -> str:
        """The unit as a word for sentences."""
        return self.privacy.unit or "record"

    @property
    def unsound(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of rules that refuse the file."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")


def gather(pipeline: Pipeline, delta: float | None = None, diagnostics: tuple[Diagnostic, ...] = ()) -> Facts:
    """Account for a pipeline, interpret the account, and account again without amplification. Raises InputError as `account` does."""
    spent, explained = meaning(pipeline, delta)
    return Facts(spent, explained, _unamplified(pipeline, spent), diagnostics)


def _unamplified(pipeline: Pipeline, spent: Account) -> Account | None:
    """Account for the same run with every random draw of records replaced by passes in an order that is not the records' own."""
    if pipeline.privacy.adaptive or not any(amplified(entry) for entry in pipeline.mechanisms):  # a cap is not amplified
        return None
    try:
        return account(replace(pipeline, budget=None, mechanisms=tuple(map(_in_passes, pipeline.mechanisms))), delta=spent.delta)
    except InternalError:
        raise
    except DpcliError:
        return None  # nothing is said about a run that cannot be accounted; the headline does not depend on it


def amplified(entry: Entry) -> bool:
    """Tell whether an entry's cost is smaller because its records are drawn at random."""
    return entry.sampling is not None and entry.sampling.amplified


def _in_passes(entry: Entry) -> Entry:
    scheme = entry.sampling
    if not amplified(entry) or not isinstance(scheme, Batched):
        return entry
    return replace(entry, sampling=OncePerEpoch("shuffle", scheme.rate or None, scheme.batch_size))
