"""The document of dpcli explain FILE: attacks, beliefs and groups under the guarantee, and what it does not cover."""

from __future__ import annotations

import math
from typing import Any

from dpcli.analysis.account import Account
from dpcli.analysis.documents import account as account_report
from dpcli.analysis.meaning import Meaning
from dpcli.base.rounding import down, up
from dpcli.disclosure.item_answers import adversary_note
from dpcli.document.document import Document, Sheet, Table
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding
from dpcli.mechanisms.neighbours import Adjacency

LARGEST_EXPONENT = 30.0  # e^x is written as a number only for smaller x
SHOWN_RATES = (0.001, 0.01, 0.1, 0.5)  # false positive rates in the table; the JSON data have more


def document(account: Account, meaning: Meaning | None, diagnostics: tuple[Diagnostic, ...] = ()) -> Document:
    """Return the document of `dpcli explain FILE`.

    The exit code is 3 without a finite epsilon, and 1 if a rule calls the file unsound.
    """
    code = 3 if meaning is None else int(any(d.severity == "error" for d in diagnostics))
    findings = tuple(f"{d.severity} {d.rule}: {d.key + ': ' if d.key else ''}{d.message}" for d in diagnostics)
    return Document(
        headline=account_report.headline(account),
        data=data(account, meaning, diagnostics, code),
        verdict="unknown" if meaning is None else "fail" if code else "",
        tables=() if meaning is None else (_attacks(meaning), _beliefs(meaning), _groups(meaning)),
        notes=(
            *findings,
            *(
                _no_bound(account)
                if meaning is None
                else (*_summary(meaning), *adversary_note(account.pipeline), *_limits(account))
            ),
        ),
        findings=tuple(finding(d) for d in diagnostics),
        total=repr(account.upper) if meaning is not None else "inf",
        exit_code=code,
        sheet=_sheet(account, meaning),
    )


def _sheet(account: Account, meaning: Meaning | None) -> Sheet:
    """Return the bounds on attacks as rows of data, one for each false positive rate."""
    privacy = account.pipeline.privacy
    setting = (account.upper, account.delta, privacy.unit or "record", privacy.adjacency.value)
    rates = () if meaning is None else zip(meaning.alphas, meaning.false_negatives, strict=True)
    columns = ("false_positive_rate", "true_positive_rate_upper", "false_negative_rate_lower")
    rows = tuple((a, 1.0 - f, f, *setting) for a, f in rates)
    return Sheet((*columns, "epsilon_upper", "delta", "unit", "adjacency"), rows)


def data(account: Account, meaning: Meaning | None, diagnostics: tuple[Diagnostic, ...], code: int) -> dict[str, Any]:
    """Return the JSON document dpcli/meaning/v1. Its numbers are not rounded."""
    report = account_report.data(account, diagnostics)
    return {
        "schema": "dpcli/meaning/v1",
        **{key: report[key] for key in ("pipeline", "statement", "delta", "result")},
        "meaning": None if meaning is None else _meaning_data(meaning),
        "diagnostics": [diagnostic_data(d) for d in diagnostics],
        "exit_code": code,
    }


def _meaning_data(meaning: Meaning) -> dict[str, Any]:
    rates = zip(meaning.alphas, meaning.false_negatives, strict=True)
    return {
        "trade_off": [
            {"false_positive_rate": a, "false_negative_rate_lower": f, "true_positive_rate_upper": 1.0 - f} for a, f in rates
        ],
        "advantage_upper": meaning.advantage,
        "posterior": {
            "log_odds_upper": meaning.pointwise,
            "exception_probability": meaning.exception,
            "beliefs": [
                {"prior": b.prior, "posterior_upper": b.posterior, "success_upper": b.success, "success_blind": b.blind}
                for b in meaning.beliefs
            ],
        },
        "gaussian": {"mu_upper": meaning.gaussian, "epsilon_range": [0.0, meaning.reach]},
        "groups": [{"size": g.size, "epsilon_upper": None if g.reason else g.epsilon, "reason": g.reason} for g in meaning.groups],
        "profile": [
            {"epsilon": e, "delta_upper": u, "delta_lower": low}
            for e, u, low in zip(
                meaning.curve.epsilons.tolist(), meaning.curve.upper.tolist(), meaning.curve.lower.tolist(), strict=True
            )
        ],
    }


def _attacks(meaning: Meaning) -> Table:
    missed = dict(zip(meaning.alphas, meaning.false_negatives, strict=True))
    rows = tuple((_percent(a), _percent_up(1.0 - missed[a]), _percent_down(missed[a])) for a in SHOWN_RATES)
    return Table(
        f'attacks: claims that "{_claim(meaning.account)}"',
        ("false positives", "true positives: at most", "missed: at least"),
        rows,
        frozenset({0, 1, 2}),
    )


def _beliefs(meaning: Meaning) -> Table:
    rows = tuple((_percent(b.prior), _percent_up(b.posterior), _percent_up(b.success), _percent(b.blind)) for b in meaning.beliefs)
    return Table(
        f'belief that "{_claim(meaning.account)}"',
        ("before the release", "after it: at most [1]", "best guess right: at most", "right without the release"),
        rows,
        frozenset({0, 1, 2, 3}),
        (_odds(meaning),),
    )


def _odds(meaning: Meaning) -> str:
    probability = "[1] always" if meaning.exception == 0.0 else f"[1] except with probability {meaning.exception!r}"
    if math.isinf(meaning.pointwise):
        return f"{probability}: nothing follows from this guarantee"
    power = f"e^{up(meaning.pointwise)}"
    factor = f"{up(math.exp(meaning.pointwise), 2)}x ({power})" if meaning.pointwise < LARGEST_EXPONENT else power
    more = (
        ". This exceeds e^epsilon because it must hold except with probability delta"
        if meaning.exception > 0.0 and meaning.pointwise > meaning.account.upper
        else ""
    )
    return f"{probability}; the odds grow by at most {factor}{more}"


def _groups(meaning: Meaning) -> Table:
    rows = tuple((f"{group.size}", "-" if group.reason else up(group.epsilon)) for group in meaning.groups)
    reasons = dict.fromkeys(group.reason for group in meaning.groups if group.reason)
    sizes = {why: ", ".join(str(group.size) for group in meaning.groups if group.reason == why) for why in reasons}
    footnotes = tuple(f"{group_sizes}: {why}" for why, group_sizes in sizes.items())
    return Table("groups", (f"{_unit(meaning.account)}s together", "epsilon"), rows, frozenset({0, 1}), footnotes)


def _summary(meaning: Meaning) -> tuple[str, ...]:
    return (
        f"advantage: true positives minus false positives are at most {_percent_up(meaning.advantage)}, at any threshold (0 % is blind "
        "guessing, 100 % is certainty)",
        "every attack: by the Neyman-Pearson lemma, no test of the release beats comparing its likelihoods under the two datasets; the "
        "numbers bound that test, and so hold whatever else the attacker knows or computes, as long as the run's random draws "
        "(noise, batches, the number of trials) stay secret",
        _gaussian(meaning),
    )


def _gaussian(meaning: Meaning) -> str:
    reach = f"epsilon from 0 to {up(meaning.reach)}"
    if math.isinf(meaning.gaussian):
        return f"Gaussian scale: no single Gaussian release leaks as much over {reach}"
    return (
        f"Gaussian scale, to compare with papers: one Gaussian release with mu = {up(meaning.gaussian)} (sensitivity over noise) leaks "
        f"at least as much, computed over {reach}"
    )


def _limits(account: Account) -> tuple[str, ...]:
    unit = _unit(account)
    return (
        f"not covered: inferences about one {unit} from all the others",
        f"not covered: other releases from the same data, whose costs add up, and larger groups of {unit}s",
        "not covered: a program that differs from the file (noise, sampling, bounds on contributions)",
    )


def _claim(account: Account) -> str:
    """Return the claim that an attacker tests: a statement about which of two neighbouring datasets the release came from."""
    unit = _unit(account)
    claims = {
        Adjacency.ADD_REMOVE: f"this {unit} was in the data",
        Adjacency.REPLACE_ONE: f"it was this {unit} in the data, and not that one",
        Adjacency.ZERO_OUT: f"this {unit} was in the data, and not blanked",
    }
    return claims[account.pipeline.privacy.adjacency]


def _no_bound(account: Account) -> tuple[str, ...]:
    more = "; at delta = 0 Gaussian noise has no finite epsilon: set delta > 0" if account.delta == 0.0 else ""
    return (f"without a finite epsilon there is no bound on any attack{more}; dpcli account prints the reason for each accountant",)


def _unit(account: Account) -> str:
    return account.pipeline.privacy.unit or "record"


def _percent(x: float) -> str:
    return f"{100.0 * x:.6g} %"


def _percent_up(x: float) -> str:
    return f"{up(100.0 * x, 2)} %"


def _percent_down(x: float) -> str:
    return f"{down(100.0 * x, 2)} %"
