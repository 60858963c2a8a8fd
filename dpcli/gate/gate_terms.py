"""The terms by which the gate judges all files, and the verdict of a privacy-budget ledger on the room for their runs.

The commands call `checked_terms` with the flags of a call (`GateFlags`), before any file is judged, and get `GateTerms` or an InputError.
judge.py then calls `room` with the files. A *horizon* is a number of runs that is planned for each file, with a cap on all of them
together. The *room* is what is left in the ledger: `room` asks whether the runs of all files together would fit, and charges nothing. The
ledger and the other conditions must judge the same bytes of a file, so the bytes that were read here are kept (`LedgerRoom.contents`).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify, InputError, LedgerError, NotRepresentable
from dpcli.base.extras import require
from dpcli.base.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, Constraint
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Caps, Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import read_bytes
from dpcli.gate.policy import NO_POLICY, Policy, read_policy
from dpcli.gate.requirements import runs_of
from dpcli.gate.verdicts import Condition, LedgerShares

if TYPE_CHECKING:
    from dpcli.ledger.planning.quote import Quote

REFUSED_AT = ("privacy",)  # the table of a file at which reports show that the ledger cannot price its runs


@dataclass(frozen=True, slots=True)
class LedgerRoom:
    """The verdicts of a ledger on all files.

    Attributes:
        conditions: The verdict on each file, by path.
        contents: The content of each file that the ledger judged, so that later conditions judge the same content.
    """

    conditions: Mapping[str, Condition] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """Return the content of a file that the ledger judged. If the ledger judged no content of it, return the current content."""
        return self.contents[path] if path in self.contents else read_bytes(path)


@dataclass(frozen=True, slots=True)
class GateTerms:
    """The terms by which all files are judged.

    Attributes:
        caps, horizon: The caps and the horizon that flags state.
        as_of: The day on which the expiry of waivers is judged.
        base_ref, baseline: The git revision, or the JSON of an earlier gate, to compare with. At most one of them is stated.
        ledger, dataset: The ledger and its dataset. The ledger judges whether the runs of the files still fit.
        room: The verdicts of the ledger.
        together: The cap, from a flag, on the epsilon of each dataset that the files name.
        require_proof: Whether the epsilon of each file must have a proof.
        certificates: Paths of certificates, one of which must prove the epsilon of each file. If there is none, a proof is searched for.
    """

    caps: Caps
    horizon: Horizon | None
    policy: Policy
    as_of: datetime.date
    base_ref: str | None = None
    baseline: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    room: LedgerRoom = field(default_factory=LedgerRoom)
    together: float | None = None
    require_proof: bool = False
    certificates: tuple[str, ...] = ()

    @property
    def planned(self) -> Horizon | None:
        """The horizon with the most runs that flags or the policy state."""
        stated = [horizon for horizon in (self.horizon, self.policy.horizon) if horizon is not None]
        return max(stated, key=lambda horizon: horizon.count, default=None)


@dataclass(frozen=True, slots=True)
class GateFlags:
    """The flags of `dpcli gate` under their names on the command line, as the user gave them (commands/gate.py explains each)."""

    max_epsilon: float | None = None
    delta: float | None = None
    max_increase: float | None = None
    allow_statement_change: bool = False
    base_ref: str | None = None
    baseline: str | None = None
    policy: str | None = None
    horizon: int | None = None
    horizon_epsilon: float | None = None
    ledger: str | None = None
    dataset: str | None = None
    as_of: str | None = None
    max_rho: float | None = None
    max_together: float | None = None
    require_proof: bool = False
    certificates: tuple[str, ...] = ()


def checked_terms(flags: GateFlags) -> GateTerms:
    """Return the terms that the flags state.

    Raises InputError if a value is out of range, if a flag needs or excludes another, if the policy or a certificate cannot be read, or if
    a proof needs a package that is not installed.
    """
    caps = Caps(
        epsilon=_within("--max-epsilon", flags.max_epsilon, POSITIVE),
        delta=_within("--delta", flags.delta, DELTA),
        max_increase=_within("--max-increase", flags.max_increase, NON_NEGATIVE),
        allow_statement_change=flags.allow_statement_change or None,  # without the flag, the policy decides
        rho=_within("--max-rho", flags.max_rho, POSITIVE),
    )
    if flags.base_ref and flags.baseline:
        raise InputError("--base-ref, --baseline: expected one of the two, found both")
    if flags.max_increase is not None and not (flags.base_ref or flags.baseline):
        raise InputError("--max-increase: needs --base-ref or --baseline to compare with")
    if flags.dataset is not None and flags.ledger is None:
        raise InputError("--dataset: needs --ledger")
    terms = GateTerms(
        caps,
        _horizon(flags.horizon, flags.horizon_epsilon),
        read_policy(flags.policy) if flags.policy is not None else NO_POLICY,
        together=_within("--max-together", flags.max_together, POSITIVE),
        as_of=_day(flags.as_of),
        base_ref=flags.base_ref,
        baseline=flags.baseline,
        ledger=flags.ledger,
        dataset=flags.dataset,
        require_proof=flags.require_proof,
        certificates=flags.certificates,
    )
    if flags.require_proof:
        require("flint")  # python-flint, in whose ball arithmetic proofs are checked
    if flags.certificates:
        from dpcli.certify.named_certificate import read_certificate

        for path in flags.certificates:  # an unreadable certificate is an error of the call, and not a verdict on a file
            read_certificate(path)
    return terms


def _within(flag: str, value: float | None, rule: Constraint) -> float | None:
    """Return the value of a flag; None if it is not given. Raises InputError if it is not finite or breaks the rule."""
    if value is not None and not (math.isfinite(value) and rule.holds(value)):
        raise InputError(f"{flag}: expected {rule.text}, found {value!r}")
    return value


def _horizon(runs: int | None, epsilon: float | None) -> Horizon | None:
    """Return the horizon of --horizon and --horizon-epsilon; None without them. Raises InputError for one alone or an invalid value."""
    if (runs is None) != (epsilon is None):
        raise InputError("--horizon, --horizon-epsilon: expected both, found one")
    if runs is None or epsilon is None:
        return None
    _within("--horizon", runs, COUNT)
    _within("--horizon-epsilon", epsilon, POSITIVE)
    return Horizon(epsilon, runs=runs)


def _day(text: str | None) -> datetime.date:
    """Return the day of --as-of, or today in UTC without the flag. Raises InputError if the text is not a date."""
    if text is None:
        return datetime.datetime.now(datetime.UTC).date()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--as-of: expected a date such as 2030-12-31, found {text!r}") from None


def room(paths: Sequence[str], url: str | None, dataset: str | None, horizon: Horizon | None) -> LedgerRoom:
    """Return the verdicts of a ledger on all files, whose runs are added up. Nothing is charged.

    A file that cannot be read gets no verdict here, because judge.py reports it. Without a ledger there are no verdicts.

    Args:
        url: Path or URL of the ledger; None if there is none.
        dataset: The dataset of the ledger; None for its only dataset.
        horizon: The horizon of flags or policy. If a file states a horizon too, the horizon with more runs counts.
    """
    if url is None:
        return LedgerRoom()
    contents: dict[str, bytes] = {}
    readable_paths: list[str] = []
    runs: list[tuple[Pipeline, int]] = []
    for path in paths:
        with suppress(InvalidFile, InputError):
            if path not in contents:  # a file that is named twice is charged twice, with one content
                contents[path] = read_bytes(path)
            pipeline = parse(contents[path], path)
            runs.append((pipeline, runs_of(pipeline, horizon)))
            readable_paths.append(path)
    answers = ledger_conditions(runs, url, dataset)
    return LedgerRoom(dict(zip(readable_paths, answers, strict=True)), contents)


def ledger_conditions(runs: Sequence[tuple[Pipeline, int]], url: str, dataset: str | None) -> tuple[Condition, ...]:
    """Return a condition for each pipeline: the runs of all pipelines together must fit in the remaining budget of the ledger.

    If the ledger itself cannot be used, all pipelines get the same condition.
    """
    if not runs:
        return ()
    from dpcli.ledger.planning.quote import quotes

    try:
        answers = quotes(url, dataset, runs)
    except (LedgerError, InputError) as error:
        return (_condition_for_error(error),) * len(runs)
    return tuple(
        _condition_for_error(answer) if isinstance(answer, Exception) else _condition_for_quote(answer) for answer in answers
    )


def _condition_for_quote(quote: Quote) -> Condition:
    """Return the condition on a file, whose runs the ledger could price. A *quote* is the ledger's answer on these runs."""
    shares = LedgerShares(quote.share, quote.left)
    return Condition("ledger", "pass" if quote.fits else "fail", quote.message, ("mechanism",), shares=shares, delta=quote.delta)


def _condition_for_error(error: Exception) -> Condition:
    """Return a condition: "error" if the ledger cannot be used, "unknown" if no accountant bounds the runs, otherwise "invalid"."""
    if isinstance(error, LedgerError):
        return Condition("ledger", "error", str(error), ())
    if isinstance(error, CannotCertify | NotRepresentable):
        return Condition("ledger", "unknown", str(error), REFUSED_AT)
    from dpcli.file.pipeline.datasets import without_flag  # the gate has no --window, at which the ledger's message may hint

    return Condition("ledger", "invalid", without_flag(str(error)), REFUSED_AT)
