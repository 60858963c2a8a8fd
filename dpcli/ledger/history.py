"""The charge of a history, that is, of runs that were made before the ledger was opened. Either all runs are charged or none.

`dpcli budget import` reads the history from a file (history_file.py) and charges it here. The *key* of a run is its name, and the *window*
of a run is the *blocks* (parts of the dataset with caps of their own) that it read. A *quota* limits what a person or a team may charge.
`LedgerState.fullest` is the state with the spending of the fullest block, and `label` the printed name of an amount, such as rho.

The entry of such a run is a "spend" that also states when the run was made. If the ledger charged only a part of the history, its cap would
not bound the privacy loss of all runs. So a history that does not fit is refused as a whole, and the message states a cap that would
suffice. `dpcli budget amend` sets that cap, with an approver. After the import almost nothing of that cap is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpcli.base.errors import CannotCertify, Denied, InputError, NotRepresentable
from dpcli.base.rounding import down, up
from dpcli.file.pipeline.canonical import tables_of
from dpcli.ledger import amounts
from dpcli.ledger.entry_log import KeyedRequest, Receipt
from dpcli.ledger.filters.filter import label
from dpcli.ledger.history_file import PastRun, each_or_all_mistakes, refuse_repeated_keys
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.planning.needed_cap import after_charges, smallest_cap
from dpcli.ledger.requests import SCOPE, Charge, key_scope
from dpcli.ledger.state import LedgerState


def charge_history(ledger: Ledger, runs: Sequence[PastRun]) -> tuple[Receipt, ...]:
    """Charge all runs or none. A run that was charged before by an equal request is not charged again.

    Raises:
        InputError: A line is invalid for this ledger.
        LedgerError: A key belongs to another run.
        Denied: The history does not fit. The message states a cap that would suffice. Nothing was written.
    """
    file, _, _ = runs[0].place.rpartition(":")  # a place is FILE:LINE; a message that leaves out mistakes names FILE
    runs = each_or_all_mistakes(runs, file, lambda run: _with_own_key(ledger, run))
    refuse_repeated_keys(runs)  # two keys of the file may be the same name under this login
    requests = each_or_all_mistakes(runs, file, lambda run: _charge_of(ledger, run))
    try:
        return ledger.append_all([KeyedRequest(request, request.key) for request in requests])
    except Denied:
        raise Denied(_denial_message(ledger.state(), requests)) from None


def _with_own_key(ledger: Ledger, run: PastRun) -> PastRun:
    """Return the run under the key that this login charges it. In a database each login has keys of its own, which no other can take."""
    try:
        key = ledger.own_key(run.key)
    except InputError as error:
        raise InputError(f"{run.place}: {error}") from None
    scope = key_scope(ledger.who)
    if ledger.store.scopes_keys and SCOPE in key and not key.startswith(scope):
        raise InputError(f"{run.place}: key: expected one of {ledger.who}, which begins with {scope!r}, found {key[:60]!r}")
    return replace(run, key=key)


def _charge_of(ledger: Ledger, run: PastRun) -> Charge:
    """Return the charge of a run with its cost and blocks. An error about the run gets the place of its line."""
    try:
        cost, delta = ledger.cost(run.pipeline, run.delta)
        window = ledger.stated_window(run.pipeline, run.window)
    except (InputError, CannotCertify, NotRepresentable) as error:
        message = str(error)
        if not message.startswith(run.place):
            message = f"{run.place}: {message}"
        raise type(error)(message) from None
    return Charge(
        "spend",
        run.key,
        tables_of(run.pipeline),
        delta,
        cost,
        ledger.who,
        why=run.note,
        window=window,
        made=run.made,
        maker=run.maker,
    )


def _denial_message(state: LedgerState, requests: Sequence[Charge]) -> str:
    """Return the message for a history that does not fit: a retired block, else the exceeded cap with advice, else an exceeded quota."""
    new = [request for request in requests if request.key not in state.runs]
    for request in new:
        closed = state.retired_block(request.window)
        if closed is not None:
            return f"denied, and nothing was written: block {closed} was retired; import a history before its blocks are retired"
    after = after_charges(state, new)
    full = after.fullest()
    exceeded = amounts.exceeded(full.spent, full.caps)
    exceeded_quotas = (after.over_quota(request.who, request.window, {}) for request in new)  # the history is charged in `after`
    quota = next(filter(None, exceeded_quotas), None)
    if exceeded is None and quota is not None:
        return (
            f"denied, and nothing was written: the person who imports a history is charged for it, and this history exceeds {quota.words}, "
            f"{quota.share} of the cap (entry {quota.seq})\n  whoever may amend the cap may change the quota, or import the history"
        )
    name = exceeded or next(iter(full.caps))
    excess = f"with the history {up(full.spent[name])} of {label(name)} is spent, and the cap is {down(full.caps[name])}"
    return f"denied, and nothing was written: {excess}\n  {_advice(after)}"


def _advice(after: LedgerState) -> str:
    """Return advice for a history that does not fit. `after` is the state in which the history is charged."""
    if after.open_terms().mode == "declared":
        return "a set of declared runs cannot be changed: open a ledger in adaptive mode for the runs of the history"
    epsilon = smallest_cap(after)
    if epsilon is None:
        return (
            "no epsilon suffices, as the delta of the history does not fit and cannot be changed: open a ledger with a larger delta"
        )
    approval = "another person's dpcli budget approve" if after.open_terms().two_person else "--approver"
    return (
        f"the history fits a cap of epsilon {epsilon!r}, which leaves almost nothing for further runs. If such a cap is allowed, "
        f"dpcli budget amend --epsilon sets it, with --reason and {approval}; then import the history again"
    )
