"""The facts that a disclosure states about one pipeline, gathered once and before any sentence is written.

A *disclosure* tells a reader what a release guarantees. Its facts are the *account* (the certified epsilon and delta, dpcli/analysis), the
*meaning* of the account (what an attacker can still do), the account of the same run if its batches were not drawn at random, and the
findings of the lint rules. A *certificate* is a proof of epsilon that a small program can check. statement.py and item_answers.py turn the
facts into words; train, predict and release gather them for the statements of their runs, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.analysis.account import Account, account
from dpcli.analysis.meaning import Meaning, meaning
from dpcli.base.errors import DpcliError, InternalError
from dpcli.file.pipeline.model import Disclosure, Entry, Pipeline, Privacy
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.delta import delta_errors
from dpcli.mechanisms.sampling.schemes import Batched, OncePerEpoch

if TYPE_CHECKING:
    from dpcli.certify.named_certificate import NamedProof


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """A pipeline and everything that a disclosure states about it.

    meaning: meaning of the guarantee; None if no finite epsilon is certified.
    unamplified: account of the same run with batches in a shuffled or fixed order. None if the guarantee does not rely on random batches,
        or if there is no such account (`_unamplified`).
    diagnostics: findings of the rules about the file.
    rows: description of the rows that dpcli has read in the file's window, the blocks of the dataset (such as days) that a run uses; "" if
        dpcli has read none.
    proof: the certificate that proves epsilon; None if none was given.
    """

    account: Account
    meaning: Meaning | None
    unamplified: Account | None
    diagnostics: tuple[Diagnostic, ...] = ()
    rows: str = ""
    proof: NamedProof | None = None

    @property
    def pipeline(self) -> Pipeline:
        return self.account.pipeline

    @property
    def privacy(self) -> Privacy:
        return self.pipeline.privacy

    @property
    def disclosure(self) -> Disclosure:
        """The [disclosure] table of the file."""
        return self.pipeline.disclosure

    @property
    def unit(self) -> str:
        """The name of the protected unit in sentences; "record" if the file names no unit."""
        return self.privacy.unit or "record"

    @property
    def unsound(self) -> tuple[Diagnostic, ...]:
        """The findings that call the file unsound."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")


def gather(pipeline: Pipeline, delta: float | None = None, diagnostics: tuple[Diagnostic, ...] | None = None) -> Facts:
    """Return the facts about a pipeline: its account, the meaning of the account, and the account without amplification.

    Raises InputError as `account` does.

    delta: delta at which epsilon is bounded; None for the delta of the file.
    diagnostics: findings of the rules about the file; None if no rule was checked, so that delta alone is judged.
    """
    file_account, explained = meaning(pipeline, delta)
    if diagnostics is None:
        diagnostics = delta_errors(pipeline, file_account.delta)
    return Facts(file_account, explained, _unamplified(pipeline, file_account), diagnostics)


def _unamplified(pipeline: Pipeline, file_account: Account) -> Account | None:
    """Return the account of the same run with passes in a shuffled order instead of random draws of records.

    The result is None if no records are drawn at random, if the file is adaptive, or if such a run cannot be accounted.
    """
    if pipeline.privacy.adaptive or not any(amplified(entry) for entry in pipeline.mechanisms):
        return None
    in_passes = tuple(map(_in_passes, pipeline.mechanisms))
    try:
        # The budget is dropped: it is about the run in the file, and not about this one.
        return account(replace(pipeline, budget=None, mechanisms=in_passes), delta=file_account.delta)
    except InternalError:  # a bug in dpcli must not pass for a run without an account
        raise
    except DpcliError:
        return None


def amplified(entry: Entry) -> bool:
    """Return whether the cost of an entry, a [[mechanism]] table of the file, is smaller because its records are drawn at random."""
    return entry.sampling is not None and entry.sampling.amplified


def _in_passes(entry: Entry) -> Entry:
    """Return an entry with passes over the data in a shuffled order, in place of random draws. Any other entry is returned unchanged."""
    scheme = entry.sampling
    if not amplified(entry) or not isinstance(scheme, Batched):
        return entry
    rate = scheme.rate or None  # a pass has no rate of 0
    return replace(entry, sampling=OncePerEpoch("shuffle", rate, scheme.batch_size))
