"""The document of an account: the headline sentence, JSON and spreadsheet data, notes and checks. account_tables.py has its tables.

`dpcli account` prints the document of `account`, a result of analysis/account.py; other commands use `headline` or `data` for the cost that
they computed. The *headline* is the smallest sound bound or, for an adaptive file, the cap that a filter enforces. A *charge* is a
mechanism with the number of its runs, and a *row* the answer of one accountant. Upper bounds are printed rounded up, so that someone may
sign what is printed. A *diagnostic* is a finding of a lint rule about the file. Sentences may be reworded. The keys of the JSON document
and of the spreadsheet are read by programs and stay.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from dpcli.analysis.account import Account, large_epsilon, why_delta_is_needed
from dpcli.analysis.account_rows import AccountRow
from dpcli.analysis.budget_verdict import BudgetVerdict, warning_level
from dpcli.analysis.documents.account_tables import ROWS_OF_MANY, accountants_table, fixed_quantity, mechanisms_table
from dpcli.base.rounding import up
from dpcli.document.document import Check, Document, Passage, Sheet, jsonable
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.parts import scheme_names
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.delta import delta_errors
from dpcli.lint.documents.diagnostics import diagnostic_data, finding

# Columns of the spreadsheet: what was asked, and the bounds.
SETTING_COLUMNS = ("file", "unit", "adjacency", "sampling", "group_size", "accountant", "sound", "headline")
BOUND_COLUMNS = ("epsilon", "epsilon_upper", "epsilon_lower", "delta", "delta_upper", "delta_lower", "detail", "reason")
SHEET = (*SETTING_COLUMNS, *BOUND_COLUMNS)


def document(
    account: Account,
    diagnostics: tuple[Diagnostic, ...] = (),
    decimals: int = 4,
    cite_sources: bool = False,
    flags: Sequence[str] | None = None,
) -> Document:
    """Return the output of `dpcli account` for one pipeline.

    diagnostics: findings of lint rules about the file or the flags. An error among them makes the exit code at least 1.
    decimals: decimal places of the printed bounds. The JSON document has all digits.
    cite_sources: whether to cite the theorem of each bound.
    flags: the flags that describe the pipeline to dpcli calibrate-sigma; None if no flags do.
    """
    large = large_epsilon(account, diagnostics)  # a warning about a large epsilon, or ()
    verdict = account.budget.verdict if account.budget else ""
    if account.exit_code == 3:
        verdict = "unknown"
    elif exit_code(account, diagnostics):
        verdict = "fail"
    notes = [*lint_notes(diagnostics), *_calibration_hint(account, flags)]
    if cite_sources:
        notes += [f"{row.accountant.name}: {row.accountant.source}" for row in account.rows]
    return Document(
        headline=headline(account, decimals, diagnostics),
        data=data(account, (*diagnostics, *large)),
        verdict=verdict,
        passages=tuple(Passage(f"warning {diagnostic.rule}", (diagnostic.message,)) for diagnostic in large),
        tables=(accountants_table(account, decimals), mechanisms_table(account)),
        notes=tuple(notes),
        findings=tuple(map(finding, (*diagnostics, *large))),
        checks=_checks(account, diagnostics, decimals),
        total=repr(account.upper) if math.isfinite(account.upper) else "inf",
        exit_code=exit_code(account, diagnostics),
        records=[_record(row, account) for row in account.rows],
        sheet=_sheet(account),
    )


def headline(account: Account, decimals: int = 4, diagnostics: Sequence[Diagnostic] = ()) -> str:
    """Return the guarantee in one sentence, with everything that it depends on, and the budget's verdict.

    If an error among the findings calls the file unsound, the sentence says so in place of a verdict that the budget allows it.
    """
    pipeline, privacy = account.pipeline, account.pipeline.privacy
    setting = f"per {privacy.unit or 'record'}, {privacy.adjacency.value}, sampling: {scheme_names(pipeline)}"
    if account.group_size > 1:
        setting = f"groups of {account.group_size:,}, {setting}"
    if account.winner is None:
        why = _why_uncapped(account) or why_delta_is_needed(pipeline, account.delta) or _no_bounds(account)
        return f"no finite guarantee can be certified ({setting})" + (f"; {why}" if why else "")
    accountant = account.winner.accountant.name
    if privacy.adaptive:
        accountant += "; the cap, which holds for every choice based on outputs"
    given = f"delta = {account.delta!r}" if account.quantity == "epsilon" else f"epsilon = {account.epsilon!r}"
    bound = f"{account.quantity} <= {up(account.upper, decimals)} at {given}"
    verdict = "" if account.budget is None else f"; {_budget_note(account, account.budget, decimals)}"
    errors = dict.fromkeys(diagnostic.rule for diagnostic in diagnostics if diagnostic.severity == "error")
    if errors and not account.exit_code:
        verdict = f"; NOT SOUND: {', '.join(errors)}"
    return f"{bound} ({setting}; accountant: {accountant}){verdict}"


def headline_of_run(account: Account) -> str:
    """Return the headline for a command that does the work of a file and checks no rule about it, except that about delta."""
    return headline(account, diagnostics=delta_errors(account.pipeline, account.delta))


def _why_uncapped(account: Account) -> str:
    """Return why an adaptive file without a cap guarantees nothing; "" for other files."""
    if not account.pipeline.privacy.adaptive or account.budget is not None or account.listed is None:
        return ""
    from dpcli.analysis.adaptive_cap import UNCAPPED

    return UNCAPPED


def _calibration_hint(account: Account, flags: Sequence[str] | None) -> tuple[str, ...]:
    """Return a note with the command that solves for the noise, since --epsilon may be meant as a target. Empty without noise."""
    if account.quantity == "epsilon":
        return ()
    from dpcli.analysis.solved_keys import parameter_key
    from dpcli.file.pipeline.flags import PLACE

    pipeline = account.pipeline
    names_with_noise = [entry.name for entry in pipeline.mechanisms if parameter_key(entry, "noise")]
    # No note with very many names, or for flags that calibrate-sigma does not take (PLACE is the path of a pipeline of flags).
    if not 0 < len(names_with_noise) <= ROWS_OF_MANY or (flags is None and pipeline.path == PLACE):
        return ()
    words = [str(pipeline.path)] if flags is None else list(flags)
    if flags is None and len(names_with_noise) > 1:
        for name in names_with_noise:
            words += ["-m", name]
    words += ["--target-epsilon", repr(account.epsilon), *_delta_flag(pipeline)]
    if account.group_size != 1:
        words += ["--group-size", str(account.group_size)]
    command = f"dpcli calibrate-sigma {shlex.join(words)}"
    return (f"this is delta with the stated noise; to find the noise that meets epsilon = {account.epsilon!r}: {command}",)


def _delta_flag(pipeline: Pipeline) -> tuple[str, ...]:
    """Return a --delta flag to solve at, if the pipeline states no delta at which its noise has a finite epsilon; () otherwise.

    The delta is 1e-6 or, for 100,000 records or more, a power of ten below a tenth of 1 / dataset_size. Its exponent is one more than the
    number of digits of the size.
    """
    stated, size = pipeline.privacy.delta, pipeline.privacy.dataset_size or 1
    if stated is not None and (stated > 0.0 or not any(entry.spec.needs_delta for entry in pipeline.mechanisms)):
        return ()
    return "--delta", f"1e-{max(6, len(str(size)) + 1)}"


def _no_bounds(account: Account) -> str:
    """Return the reason that there is no bound because all accountants are approximations; empty otherwise."""
    names = [row.accountant.name for row in account.rows]
    if any(row.accountant.sound for row in account.rows) or not names:
        return ""
    return (
        f"{' and '.join(names)} {'gives an approximation' if len(names) == 1 else 'give approximations'} and no bound: leave out -a"
    )


def data(account: Account, diagnostics: tuple[Diagnostic, ...] = ()) -> dict[str, Any]:
    """Return the JSON document dpcli/account/v1. Its numbers are not rounded."""
    pipeline, quantity = account.pipeline, account.quantity
    return {
        "schema": "dpcli/account/v1",
        "pipeline": {"name": pipeline.name, "path": pipeline.path, "sha256": pipeline.sha256},
        "statement": _statement_data(account),
        fixed_quantity(account): account.at,
        "result": {
            f"{quantity}_upper": account.upper,
            f"{quantity}_lower": account.lower,
            "accountant": None if account.winner is None else account.winner.accountant.name,
            "rho_upper": account.rho.value if account.rho.reason is None else None,
        },
        "accountants": [_row_data(row, quantity) for row in account.rows],
        "mechanisms": _charges_data(account),
        "budget": None if account.budget is None else _budget_data(account.budget),
        "diagnostics": [diagnostic_data(diagnostic) for diagnostic in diagnostics],
        "exit_code": exit_code(account, diagnostics),
    }


def _statement_data(account: Account) -> dict[str, Any]:
    """Return what the guarantee is about, as JSON values. It has the key "window" only if the file states one."""
    privacy = account.pipeline.privacy
    statement = {
        "unit": privacy.unit,
        "adjacency": privacy.adjacency.value,
        "releases": privacy.releases,
        "adaptive": privacy.adaptive,
        "max_contributions": privacy.max_contributions,
        "group_size": account.group_size,
    }
    return statement if privacy.window is None else {**statement, "window": list(privacy.window)}


def _charges_data(account: Account) -> list[dict[str, Any]]:
    """Return each charge with its share of the cost, which is NaN if the accountant defines none."""
    shares = zip(account.charges, account.shares, strict=True)
    return [
        {"name": charge.name, "type": charge.entries[0].type, "count": charge.count, "share": share} for charge, share in shares
    ]


def _budget_data(budget: BudgetVerdict) -> dict[str, Any]:
    """Return the verdict as JSON values. A missing cap on epsilon is null, and a missing cap on rho has no key."""
    epsilon, rho = budget.epsilon, budget.rho
    result: dict[str, Any] = {
        "epsilon": None if epsilon is None else epsilon.cap,
        "delta": None if epsilon is None else epsilon.delta,
        "spent": None if epsilon is None else epsilon.spent,
        "verdict": budget.verdict,
    }
    if rho is not None:
        result["rho"] = {"cap": rho.cap, "spent": rho.spent.value, "verdict": rho.verdict, "reason": rho.spent.reason}
    return result


def exit_code(account: Account, diagnostics: tuple[Diagnostic, ...]) -> int:
    """Return the exit code of the account, or 1 if a lint rule finds an error."""
    return account.exit_code or int(any(d.severity == "error" for d in diagnostics))


def _record(row: AccountRow, account: Account) -> dict[str, Any]:
    """Return the row of an accountant as JSON values, with the fixed delta or epsilon."""
    return {fixed_quantity(account): account.at, **_row_data(row, account.quantity)}


def _row_data(row: AccountRow, quantity: str) -> dict[str, Any]:
    """Return the bounds of an accountant with their details, or null bounds with the reason."""
    result: dict[str, Any] = {
        "name": row.accountant.name,
        "sound": row.accountant.sound,
        f"{quantity}_upper": None,
        f"{quantity}_lower": None,
    }
    if row.bound is None:
        return {**result, "reason": row.reason}
    return {**result, f"{quantity}_upper": row.bound.upper, f"{quantity}_lower": row.bound.lower, "detail": row.bound.detail}


def _sheet(account: Account) -> Sheet:
    """Return a sheet with a row per accountant, in which one of epsilon and delta is given and the other has bounds.

    The columns of `BOUND_COLUMNS` are keys of a record; of the bounds, those of the given quantity stay empty.
    """
    pipeline, privacy = account.pipeline, account.pipeline.privacy
    setting = (
        pipeline.path or pipeline.name,
        privacy.unit or "record",
        privacy.adjacency.value,
        scheme_names(pipeline),
        account.group_size,
    )
    rows = []
    for row in account.rows:
        values = _record(row, account)
        values["detail"] = _as_json(values["detail"]) if values.get("detail") else None
        accountant = (row.accountant.name, row.accountant.sound, row is account.winner)
        rows.append((*setting, *accountant, *(values.get(column) for column in BOUND_COLUMNS)))
    return Sheet(SHEET, tuple(rows))


def _as_json(detail: Mapping[str, float]) -> str:
    """Return numbers by name as the text of a JSON object. The json module is not used, since its import takes time."""
    values = ((key, jsonable(value)) for key, value in detail.items())
    members = (f'"{key}": "{value}"' if isinstance(value, str) else f'"{key}": {value!r}' for key, value in values)
    return "{" + ", ".join(members) + "}"


def _budget_note(account: Account, budget: BudgetVerdict, decimals: int) -> str:
    """Return the verdict on the budget in words, with what was spent of each cap."""
    words = {
        "pass": "within budget",
        "warn": f"within budget, but above its {warning_level(account.pipeline)}",
        "fail": "OVER BUDGET",
        "unknown": "budget: not certified",
    }
    return f"{words[budget.verdict]}: {budget.words(decimals)}"


def lint_notes(diagnostics: tuple[Diagnostic, ...]) -> tuple[str, ...]:
    """Return the findings of lint as notes. A finding about several entries appears once, with the key of the first of them."""
    keys_of: dict[tuple[str, str, str], list[str]] = {}
    for diagnostic in diagnostics:
        keys_of.setdefault((diagnostic.severity, diagnostic.rule, diagnostic.message), []).append(diagnostic.key)
    return tuple(f"{severity} {rule}: {_first_key(keys)}{message}" for (severity, rule, message), keys in keys_of.items())


def _first_key(keys: list[str]) -> str:
    """Return the start of a note: the first of the keys that it is about, and the number of the others; "" if no key is named."""
    named = [key for key in keys if key]
    if not named:
        return ""
    more = f" and {len(named) - 1:,} more" if len(named) > 1 else ""
    return f"{named[0]}{more}: "


def _checks(account: Account, diagnostics: tuple[Diagnostic, ...], decimals: int) -> tuple[Check, ...]:
    """Return the checks for CI: rules that call the file unsound, a missing guarantee, and the budget."""
    place, budget = account.pipeline.path or account.pipeline.name, account.budget
    result = [Check(f"{place}: {d.rule}", passed=False, message=d.message) for d in diagnostics if d.severity == "error"]
    if account.winner is None:
        result.append(Check(f"{place}: guarantee", passed=False, message=headline(account, decimals), error=True))
    if budget is not None:
        note = _budget_note(account, budget, decimals)
        result.append(Check(f"{place}: budget", not budget.over, note, error=budget.verdict == "unknown"))
    return tuple(result)
