"""An account as a document: the headline sentence, the table of accountants, each mechanism's share, the budget."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from dpcli.analysis.account import Account, large_epsilon
from dpcli.analysis.account_rows import AccountRow
from dpcli.analysis.rho import warning_level
from dpcli.base.rounding import down, percent, up
from dpcli.document.document import Check, Document, Passage, Sheet, Table, jsonable
from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.file.pipeline.parts import schemes
from dpcli.file.pipeline.resolve import BillLine
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding
from dpcli.mechanisms.sampling.schemes import OncePerEpoch

MOST_SHOWN, FEW_SHOWN = 60, 20  # mechanisms in the table: all, or those with the largest shares; json has all of them


def document(
    account: Account,
    diagnostics: tuple[Diagnostic, ...] = (),
    decimals: int = 4,
    sources: bool = False,
    flags: Sequence[str] | None = None,
) -> Document:
    """Return everything that `dpcli account` says about one pipeline.

    sources: whether to say where each bound comes from.
    flags: what states the pipeline to dpcli calibrate-sigma in place of a file; None where no flags of it do.
    """
    budget, large = account.budget, large_epsilon(account, diagnostics)
    verdict = "unknown" if account.exit_code == 3 else budget.verdict if budget else ""
    return Document(
        headline=headline(account, decimals),
        data=data(account, (*diagnostics, *large)),
        verdict=verdict,
        passages=tuple(Passage(f"warning {one.rule}", (one.message,)) for one in large),
        tables=(_accountants(account, decimals), _mechanisms(account)),
        notes=(*_notes(diagnostics), *_instead(account, flags), *(_sources(account) if sources else ())),
        findings=tuple(finding(d) for d in (*diagnostics, *large)),
        checks=_checks(account, diagnostics, decimals),
        total=repr(account.upper) if math.isfinite(account.upper) else "inf",
        exit_code=exit_code(account, diagnostics),
        records=[_record(row, account) for row in account.rows],
        sheet=_sheet(account),
    )


def headline(account: Account, decimals: int = 4) -> str:
    """The guarantee in one sentence, with everything that it depends on, and the budget's verdict."""
    privacy = account.pipeline.privacy
    setting = f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, sampling: {schemes(account.pipeline)}"
    if account.group_size > 1:
        setting = f"groups of {account.group_size:,}, " + setting
    verdict = "".join(f"; {note}" for note in _budget_notes(account, decimals))
    if account.winner is None:
        from dpcli.analysis.account import needed_delta

        why = _uncapped(account) or needed_delta(account.pipeline, account.delta) or _no_bounds(account)
        return f"no finite guarantee can be certified ({setting})" + (f"; {why}" if why else "")
    name = account.winner.accountant.name
    if account.pipeline.privacy.adaptive:
        name += "; the cap, which holds whatever is chosen from outputs"
    if account.quantity == "delta":
        return f"delta <= {up(account.upper, decimals)} at epsilon = {account.epsilon!r} ({setting}; accountant: {name}){verdict}"
    return f"epsilon <= {up(account.upper, decimals)} at delta = {account.delta!r} ({setting}; accountant: {name}){verdict}"


def _uncapped(account: Account) -> str:
    """Explain why an adaptive file without a cap guarantees nothing."""
    privacy, cap = account.pipeline.privacy, account.budget
    if not privacy.adaptive or cap is not None or account.listed is None:
        return ""
    from dpcli.analysis.promised import UNCAPPED

    return UNCAPPED


def _instead(account: Account, flags: Sequence[str] | None) -> tuple[str, ...]:
    """Return which command answers what somebody may have meant by an epsilon, where there is noise to solve for."""
    if account.quantity == "epsilon":
        return ()
    from dpcli.analysis.calibrate import parameter_key
    from dpcli.file.pipeline.flags import PLACE

    pipeline = account.pipeline
    noisy = [entry.name for entry in pipeline.mechanisms if parameter_key(entry, "noise")]
    if not 0 < len(noisy) <= FEW_SHOWN or (flags is None and pipeline.path == PLACE):
        return ()
    named = [word for name in noisy for word in ("-m", name)] if len(noisy) > 1 else []
    subject = flags if flags is not None else (str(pipeline.path), *named)
    group = () if account.group_size == 1 else ("--group-size", str(account.group_size))
    words = shlex.join((*subject, "--target-epsilon", repr(account.epsilon), *_delta(pipeline), *group))
    return (
        f"this is delta with the noise as stated; the noise that meets epsilon = {account.epsilon!r}: dpcli calibrate-sigma {words}",
    )


def _delta(pipeline: Pipeline) -> tuple[str, ...]:
    """Return a delta to solve at, where the pipeline states none at which its noise has an epsilon."""
    stated, size = pipeline.privacy.delta, pipeline.privacy.dataset_size or 1
    if stated is not None and (stated > 0.0 or not any(entry.spec.needs_delta for entry in pipeline.mechanisms)):
        return ()
    return "--delta", f"1e-{max(6, len(str(size)) + 1)}"


def _no_bounds(account: Account) -> str:
    """Explain why there is no number to sign if only approximations were asked for."""
    names = [row.accountant.name for row in account.rows]
    if any(row.accountant.sound for row in account.rows) or not names:
        return ""
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} no bound but an approximation: ask without -a"


def data(account: Account, diagnostics: tuple[Diagnostic, ...] = ()) -> dict[str, Any]:
    """The machine form dpcli/account/v1; numbers unrounded."""
    privacy, budget, q = account.pipeline.privacy, account.budget, account.quantity
    result: dict[str, Any] = {
        "schema": "dpcli/account/v1",
        "pipeline": {"name": account.pipeline.name, "path": account.pipeline.path, "sha256": account.pipeline.sha256},
        "statement": {
            "unit": privacy.unit,
            "adjacency": privacy.adjacency.value,
            "releases": privacy.releases,
            "adaptive": privacy.adaptive,
            "max_contributions": privacy.max_contributions,
            "group_size": account.group_size,
            **({} if privacy.window is None else {"window": list(privacy.window)}),
        },
        "delta" if q == "epsilon" else "epsilon": account.at,
        "result": {
            f"{q}_upper": account.upper,
            f"{q}_lower": account.lower,
            "accountant": account.winner.accountant.name if account.winner else None,
            "rho_upper": account.rho.value if account.rho.reason is None else None,
        },
        "accountants": [_row_data(row, q) for row in account.rows],
        "mechanisms": [
            {"name": charge.name, "type": charge.entries[0].type, "count": charge.count, "share": share}
            for charge, share in zip(account.charges, account.shares, strict=True)
        ],
        "budget": None,
        "diagnostics": [diagnostic_data(d) for d in diagnostics],
        "exit_code": exit_code(account, diagnostics),
    }
    if budget:
        of = budget.epsilon
        numbers = (
            dict.fromkeys(("epsilon", "delta", "spent"))
            if of is None
            else {"epsilon": of.cap, "delta": of.delta, "spent": of.spent}
        )
        result["budget"] = {**numbers, "verdict": budget.verdict}
        if budget.rho is not None:
            spent = budget.rho.spent
            result["budget"]["rho"] = {
                "cap": budget.rho.cap,
                "spent": spent.value,
                "verdict": budget.rho.verdict,
                "reason": spent.reason,
            }
    return result


def exit_code(account: Account, diagnostics: tuple[Diagnostic, ...]) -> int:
    """The account's own, and 1 where a rule calls the file unsound."""
    return account.exit_code or int(any(d.severity == "error" for d in diagnostics))


def _record(row: AccountRow, account: Account) -> dict[str, Any]:
    """A row on its own: with what it was asked at."""
    return {"delta" if account.quantity == "epsilon" else "epsilon": account.at, **_row_data(row, account.quantity)}


def _row_data(row: AccountRow, quantity: str = "epsilon") -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": row.accountant.name,
        "sound": row.accountant.sound,
        f"{quantity}_upper": None,
        f"{quantity}_lower": None,
    }
    if row.bound is None:
        return {**result, "reason": row.reason}
    return {**result, f"{quantity}_upper": row.bound.upper, f"{quantity}_lower": row.bound.lower, "detail": row.bound.detail}


SHEET = (
    *("file", "unit", "adjacency", "sampling", "group_size", "accountant", "sound", "headline"),
    *("epsilon", "epsilon_upper", "epsilon_lower", "delta", "delta_upper", "delta_lower", "detail", "reason"),
)


def _sheet(account: Account) -> Sheet:
    """A row per accountant; epsilon or delta is what was asked at, the bounds are those of the other."""
    privacy = account.pipeline.privacy
    place, unit, adjacency = account.pipeline.path or account.pipeline.name, privacy.unit or "record", privacy.adjacency.value
    rows = []
    for row in account.rows:
        result = {
            **_row_data(row, account.quantity),
            "epsilon": account.epsilon if account.quantity == "delta" else None,
            "delta": account.delta if account.quantity == "epsilon" else None,
        }
        result["detail"] = _as_json(result["detail"]) if result.get("detail") else None
        setting = (place, unit, adjacency, schemes(account.pipeline), account.group_size, row.accountant.name, row.accountant.sound)
        rows.append((*setting, row is account.winner, *(result.get(column) for column in SHEET[8:])))
    return Sheet(SHEET, tuple(rows))


def _as_json(detail: Mapping[str, float]) -> str:
    """Return a number as json writes it, without importing json."""
    values = {key: jsonable(value) for key, value in detail.items()}
    return (
        "{"
        + ", ".join(f'"{key}": "{value}"' if isinstance(value, str) else f'"{key}": {value!r}' for key, value in values.items())
        + "}"
    )


def _accountants(account: Account, decimals: int) -> Table:
    notes: dict[str, int] = {}
    rows = []
    for row in (row for row in account.rows if row.consulted):
        if row.bound is None:
            mark = notes.setdefault(row.reason or "", len(notes) + 1)
            rows.append(("", row.accountant.name, "-", f"[{mark}]", row.accountant.title))
        else:
            star = ">" if row is account.listed else "" if row.accountant.sound else "~"
            rows.append(
                (star, row.accountant.name, up(row.bound.upper, decimals), _detail(row, account, decimals), row.accountant.title)
            )
    approximate = "; ~ marks an approximation" if any(row.bound and not row.accountant.sound for row in account.rows) else ""
    at = f"at {'delta' if account.quantity == 'epsilon' else 'epsilon'} = {account.at!r}"
    return Table(
        f"{account.quantity} {at}, by accountant (upper bounds, rounded up{approximate})",
        ("", "accountant", account.quantity, "detail", "theorem"),
        tuple(rows),
        frozenset({2}),
        (*(f"[{number}] {reason}" for reason, number in notes.items()), *_left_out(account)),
    )


def _left_out(account: Account) -> tuple[str, ...]:
    """Name the rows that were left out, and how to ask for them."""
    names = [row.accountant.name for row in account.rows if not row.consulted]
    assert account.winner is not None or not names
    winner = account.winner.accountant.name if account.winner else ""
    return (f"not run, as {winner} is certified to within 1e-9: {', '.join(names)} (run them with -a all)",) if names else ()


def _detail(row: AccountRow, account: Account, decimals: int) -> str:
    assert row.bound is not None
    parts = [f"{key} {value:.4g}" for key, value in row.bound.detail.items()]
    if row.bound.lower is not None:
        parts.append(f"at least {down(row.bound.lower, decimals)}")
    if not row.accountant.sound:
        equal = abs(row.bound.upper - account.upper) <= 1e-9 * account.upper
        parts.append("equals the headline here" if equal else "no bound: may be too small")
    return ", ".join(parts)


def _mechanisms(account: Account) -> Table:
    """All where they are few; else those with the largest shares."""
    lines = list(zip(account.charges, account.shares, strict=True))
    rest: list[float] = []
    if len(lines) > MOST_SHOWN:
        lines.sort(key=lambda line: -line[1] if line[1] == line[1] else 0.0)
        lines, rest = lines[:FEW_SHOWN], [share for _, share in lines[FEW_SHOWN:]]
    rows = tuple(
        (
            charge.name,
            " | ".join(dict.fromkeys(e.type for e in charge.entries)),
            _runs(charge),
            describe(charge.entries[0], account),
            percent(share),
        )
        for charge, share in lines
    )
    had = f", {percent(math.fsum(rest))} of the total together" if rest and not math.isnan(math.fsum(rest)) else ""
    more = (f"and {len(rest):,} more{had}: -f json has all of them",) if rest else ()
    title = f"mechanisms (share of the total, as {account.winner.accountant.name} adds it up)" if account.winner else "mechanisms"
    return Table(title, ("mechanism", "type", "runs", "sampling", "share"), rows, frozenset({2, 4}), more)


def _runs(charge: BillLine) -> str:
    """Return how often an entry counts; an entry whose passes count once says so."""
    passes = isinstance(charge.entries[0].sampling, OncePerEpoch)
    return f"{charge.count:,} passes" if passes else f"{charge.count:,}"


def describe(entry: Entry, account: Account) -> str:
    """Describe the sampling of an entry as it is accounted."""
    if entry.sampling is None:
        return "none"
    rate = entry.sampling.exact_rate(account.pipeline.privacy.dataset_size)
    scheme = entry.sampling.scheme
    return (
        f"{scheme}, no amplification"
        if isinstance(entry.sampling, OncePerEpoch) and not entry.sampling.amplified
        else f"{scheme}, rate {float(rate):.6g}"
        if rate
        else scheme
    )


def _budget_notes(account: Account, decimals: int) -> tuple[str, ...]:
    budget = account.budget
    if budget is None:
        return ()
    words = {
        "pass": "within budget",
        "warn": f"within budget, but above its {warning_level(account.pipeline)}",
        "fail": "OVER BUDGET",
        "unknown": "budget: not certified",
    }
    return (f"{words[budget.verdict]}: {budget.words(decimals)}",)


def _notes(diagnostics: tuple[Diagnostic, ...]) -> tuple[str, ...]:
    """Yield the notes on entries, each once, with the first entry that it is about."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for one in diagnostics:
        same.setdefault((one.severity, one.rule, one.message), []).append(one.key)
    return tuple(f"{severity} {rule}: {_keys(keys)}{message}" for (severity, rule, message), keys in same.items())


def _keys(keys: list[str]) -> str:
    named = [key for key in keys if key]
    return f"{named[0]}{f' and {len(named) - 1:,} more' if len(named) > 1 else ''}: " if named else ""


def _sources(account: Account) -> tuple[str, ...]:
    return tuple(f"{row.accountant.name}: {row.accountant.source}" for row in account.rows)


def _checks(account: Account, diagnostics: tuple[Diagnostic, ...], decimals: int) -> tuple[Check, ...]:
    """The budget, where the file has one; the rules that call the file unsound; and the guarantee itself, where there is none."""
    place, budget = account.pipeline.path or account.pipeline.name, account.budget
    result = [Check(f"{place}: {d.rule}", False, d.message) for d in diagnostics if d.severity == "error"]
    if account.winner is None:
        result.append(Check(f"{place}: guarantee", False, headline(account, decimals), error=True))
    if budget is not None:
        note = _budget_notes(account, decimals)[0]
        passed = budget.verdict in ("pass", "warn")
        result.append(Check(f"{place}: budget", passed, note, error=budget.verdict == "unknown"))
    return tuple(result)
