"""The two tables of an account: the bound by each accountant, and the mechanisms with their shares of the cost.

documents/account.py puts them into the document of `dpcli account`. An *accountant* is a composition theorem that bounds the cost of the
whole file, and its *row* has a bound or the reason why there is none. A *charge* is a mechanism with the number of its runs; it may stand
for several *entries*, which are the [[mechanism]] tables of the file. Upper bounds are printed rounded up and lower bounds rounded down, so
that each is still a bound as printed. The approximations of unsound accountants are marked with ~.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Bound
from dpcli.analysis.account import Account
from dpcli.analysis.account_rows import AccountRow
from dpcli.base.rounding import down, percent, up
from dpcli.document.document import Table
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.resolve import BillLine
from dpcli.mechanisms.sampling.schemes import OncePerEpoch

# The table has up to MOST_ROWS mechanisms. If there are more, it has the ROWS_OF_MANY with the largest shares, which fit on a screen. Both
# numbers are arbitrary, and the JSON document has all mechanisms.
MOST_ROWS, ROWS_OF_MANY = 60, 20


def fixed_quantity(account: Account) -> str:
    """Return the name of the quantity, epsilon or delta, that `account.at` fixes."""
    return "delta" if account.quantity == "epsilon" else "epsilon"


def accountants_table(account: Account, decimals: int) -> Table:
    """Return the table of accountants. Reasons are shown as footnotes."""
    number_of_reason: dict[str, int] = {}
    rows = []
    for row in account.rows:
        name, title = row.accountant.name, row.accountant.title
        if not row.consulted:  # named in a footnote
            continue
        if row.bound is None:
            number = number_of_reason.setdefault(row.reason or "", len(number_of_reason) + 1)
            rows.append(("", name, "-", f"[{number}]", title))
        else:
            bound, detail = up(row.bound.upper, decimals), _detail(row, row.bound, account, decimals)
            rows.append((_mark(row, account), name, bound, detail, title))
    has_approximation = any(row.bound and not row.accountant.sound for row in account.rows)
    meaning = "upper bounds, rounded up" + ("; ~ marks an approximation" if has_approximation else "")
    return Table(
        f"{account.quantity} at {fixed_quantity(account)} = {account.at!r}, by accountant ({meaning})",
        ("", "accountant", account.quantity, "detail", "theorem"),
        tuple(rows),
        numeric=frozenset({2}),
        footnotes=(*(f"[{number}] {reason}" for reason, number in number_of_reason.items()), *_not_run(account)),
    )


def _mark(row: AccountRow, account: Account) -> str:
    """Return the mark in the first column: > for the smallest sound bound (`Account.listed`), and ~ for an approximation."""
    if row is account.listed:
        return ">"
    return "" if row.accountant.sound else "~"


def _not_run(account: Account) -> tuple[str, ...]:
    """Return a note that names the accountants that were not run, and says how to run them."""
    names = [row.accountant.name for row in account.rows if not row.consulted]
    if not names:
        return ()
    assert account.winner is not None
    return (f"not run, since {account.winner.accountant.name} is certified to within 1e-9: {', '.join(names)} (-a all runs them)",)


def _detail(row: AccountRow, bound: Bound, account: Account, decimals: int) -> str:
    """Return the details of a bound in words, such as the best order, and the certified lower bound, rounded down."""
    parts = [f"{key} {value:.4g}" for key, value in bound.detail.items()]
    if bound.lower is not None:
        parts.append(f"at least {down(bound.lower, decimals)}")
    if not row.accountant.sound:
        is_equal = abs(bound.upper - account.upper) <= 1e-9 * account.upper  # up to rounding, as for one Gaussian
        parts.append("equals the headline here" if is_equal else "no bound: may be too small")
    return ", ".join(parts)


def mechanisms_table(account: Account) -> Table:
    """Return the table of mechanisms. If there are many, it lists only the mechanisms with the largest shares."""
    lines = list(zip(account.charges, account.shares, strict=True))
    omitted_shares: list[float] = []
    if len(lines) > MOST_ROWS:
        lines.sort(key=lambda line: 0.0 if math.isnan(line[1]) else -line[1])  # NaN: no shares are defined, and the order stays
        omitted_shares = [share for _, share in lines[ROWS_OF_MANY:]]
        lines = lines[:ROWS_OF_MANY]
    rows = []
    for charge, share in lines:
        types = " | ".join(dict.fromkeys(entry.type for entry in charge.entries))
        rows.append((charge.name, types, _runs(charge, charge.count), _sampling_words(charge.entries[0], account), percent(share)))
    footnotes: tuple[str, ...] = ()
    if omitted_shares:
        total = math.fsum(omitted_shares)
        percentage = "" if math.isnan(total) else f", {percent(total)} of the total together"
        footnotes = (f"and {len(omitted_shares):,} more{percentage}; -f json lists all",)
    footnotes += _short_runs(account)
    title = f"mechanisms (share of the total, by {account.winner.accountant.name})" if account.winner else "mechanisms"
    return Table(
        title, ("mechanism", "type", "runs", "sampling", "share"), tuple(rows), numeric=frozenset({2, 4}), footnotes=footnotes
    )


def _short_runs(account: Account) -> tuple[str, ...]:
    """Return a note if all sampled steps together are less than one epoch, since their number may have been meant as one of epochs."""
    size = account.pipeline.privacy.dataset_size
    epochs = 0.0
    for charge in account.charges:
        entry = charge.entries[0]
        if entry.sampling is not None and entry.epochs is None and not isinstance(entry.sampling, OncePerEpoch):
            epochs += charge.count * float(entry.sampling.exact_rate(size) or 0)
    return (f"steps times rate: {epochs:.2g} epochs, which is less than one pass over the data",) if 0.0 < epochs < 1.0 else ()


def _runs(charge: BillLine, count: int) -> str:
    """Return a number of runs in words, or of passes if a pass is charged as one run. For disjoint parts, return one number for each."""
    if charge.parts:
        return " | ".join(_runs(part, count * part.count) for part in charge.parts)
    entry = charge.entries[0]
    if entry.spec.mean_trials is not None:
        trials = f"{entry.spec.mean_trials:.4g} trials on average"
        return trials if count == 1 else f"{count:,} times {trials}"
    return f"{count:,} passes" if isinstance(entry.sampling, OncePerEpoch) else f"{count:,}"


def _sampling_words(entry: Entry, account: Account) -> str:
    """Return a description of the sampling of an entry, as it is accounted."""
    if entry.sampling is None:
        return "none"
    scheme = entry.sampling.scheme
    if isinstance(entry.sampling, OncePerEpoch) and not entry.sampling.amplified:
        return f"{scheme}, no amplification"
    rate = entry.sampling.exact_rate(account.pipeline.privacy.dataset_size)
    turns = f", {entry.spec.min_separation} groups in turn" if entry.spec.takes_turns else ""  # type: ignore[attr-defined]
    return f"{scheme}, rate {float(rate):.6g}{turns}" if rate else scheme
