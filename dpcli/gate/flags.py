"""What the command line asks of the gate, checked."""

from __future__ import annotations

import datetime
import math
from dataclasses import field

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, DELTA, NON_NEGATIVE, POSITIVE, Constraint
from dpcli.base.values import dataclass
from dpcli.file.pipeline.gate_keys import Caps, Horizon
from dpcli.gate.ledger import LedgerSaid
from dpcli.gate.policy import NO_POLICY, Policy
from dpcli.gate.policy_read import read_policy


@dataclass(frozen=True, slots=True)
class GateTerms:
    """What all files are held to, and compared with.

    caps, horizon: from flags. as_of: the day on which waivers are judged. ledger, dataset: where to ask whether it still fits.
    base_ref, baseline: what to compare with, at most one of them. room: what the ledger said, once it was asked.
    together: cap on epsilon of each dataset that the files name, from a flag.
    """

    caps: Caps
    horizon: Horizon | None
    policy: Policy
    as_of: datetime.date
    base_ref: str | None = None
    baseline: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    room: LedgerSaid = field(default_factory=LedgerSaid)
    together: float | None = None

    @property
    def planned(self) -> Horizon | None:
        """The horizon with the most runs that flags or the policy state."""
        return max((one for one in (self.horizon, self.policy.horizon) if one is not None), key=lambda one: one.count, default=None)


def checked_terms(
    max_epsilon: float | None = None,
    delta: float | None = None,
    max_increase: float | None = None,
    allow_statement_change: bool = False,
    base_ref: str | None = None,
    baseline: str | None = None,
    policy: str | None = None,
    horizon: int | None = None,
    horizon_epsilon: float | None = None,
    ledger: str | None = None,
    dataset: str | None = None,
    as_of: str | None = None,
    max_rho: float | None = None,
    max_together: float | None = None,
) -> GateTerms:
    """The terms from flags. Raises InputError for values out of range, or flags that mean nothing beside each other."""
    caps = Caps(
        _within("--max-epsilon", max_epsilon, POSITIVE),
        _within("--delta", delta, DELTA),
        _within("--max-increase", max_increase, NON_NEGATIVE),
        allow_statement_change or None,
        _within("--max-rho", max_rho, POSITIVE),
    )
    if base_ref and baseline:
        raise InputError("expected one of --base-ref and --baseline, found both")
    if max_increase is not None and not (base_ref or baseline):
        raise InputError("--max-increase: expected --base-ref or --baseline to compare with, found neither")
    if dataset is not None and ledger is None:
        raise InputError("--dataset: expected --ledger too, found none")
    planned = _horizon(horizon, horizon_epsilon)
    held = read_policy(policy) if policy is not None else NO_POLICY
    shared = _within("--max-together", max_together, POSITIVE)
    return GateTerms(caps, planned, held, _day(as_of), base_ref, baseline, ledger, dataset, together=shared)


def _within(flag: str, value: float | None, rule: Constraint) -> float | None:
    if value is not None and not (math.isfinite(value) and rule.holds(value)):
        raise InputError(f"{flag}: expected {rule.text}, found {value!r}")
    return value


def _horizon(runs: int | None, epsilon: float | None) -> Horizon | None:
    if (runs is None) != (epsilon is None):
        raise InputError("expected both of --horizon and --horizon-epsilon, found one")
    if runs is None or epsilon is None:
        return None
    _within("--horizon", runs, COUNT)
    _within("--horizon-epsilon", epsilon, POSITIVE)
    return Horizon(epsilon, runs=runs)


def _day(text: str | None) -> datetime.date:
    if text is None:
        return datetime.datetime.now(datetime.UTC).date()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--as-of: expected a date such as 2030-12-31, found {text!r}") from None
