"""The document of dpcli explain FILE: attacks, beliefs and groups under the guarantee, and what it does not cover.

Readers take these sentences for the guarantee, so what it does not cover is part of the document. The numbers come from
analysis/meaning.py: the best rates of a membership attack, how far a belief may move, and the epsilon of several units together. A *unit*
is what the guarantee protects, such as a user. Each number is an upper bound on what an attacker can do and is rounded up; the rate at
which an attacker misses is rounded down.

Attributes of `Meaning`: the logarithm of the odds grows by at most `pointwise`, except with probability `exception`. `gaussian` is the mu
of a Gaussian release that leaks at least as much as the pipeline at every epsilon up to `reach`. In a `Belief`, `success` bounds the
probability that the best guess is right, and `blind` is the same probability without the release.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from dpcli.analysis.account import Account
from dpcli.analysis.documents import account as account_report
from dpcli.analysis.meaning import Belief, Meaning
from dpcli.base.rounding import down, percent_up, stated_percent, up
from dpcli.disclosure.item_answers import adversary_note
from dpcli.document.document import Document, Sheet, Table
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.documents.diagnostics import diagnostic_data, finding
from dpcli.mechanisms.neighbours import Adjacency

# Both are arbitrary, and affect what is shown alone.
LARGEST_EXPONENT = 30.0  # e^x is written as a number only for smaller x
SHOWN_RATES = (0.001, 0.01, 0.1, 0.5)  # false positive rates in the table; the JSON data have more


def document(account: Account, meaning: Meaning | None, diagnostics: tuple[Diagnostic, ...] = ()) -> Document:
    """Return the document of `dpcli explain FILE`. The exit code is 3 without a finite epsilon, and 1 if a rule calls the file unsound."""
    findings = tuple(_finding_note(diagnostic) for diagnostic in diagnostics)
    unsound = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    verdict: Literal["unknown", "fail", ""]
    tables: tuple[Table, ...]
    if meaning is None:
        code, verdict, total = 3, "unknown", "inf"
        tables, notes = (), _no_bound(account)
    else:
        code, verdict, total = int(unsound), "fail" if unsound else "", repr(account.upper)
        tables = (_attacks(meaning), _beliefs(meaning), _groups(meaning))
        notes = (*_summary(meaning), *adversary_note(account.pipeline), *_limits(account))
    return Document(
        headline=account_report.headline(account, diagnostics=diagnostics),
        data=data(account, meaning, diagnostics, code),
        verdict=verdict,
        tables=tables,
        notes=(*findings, *notes),
        findings=tuple(map(finding, diagnostics)),
        total=total,
        exit_code=code,
        sheet=_sheet(account, meaning),
    )


def _finding_note(diagnostic: Diagnostic) -> str:
    place = f"{diagnostic.key}: " if diagnostic.key else ""
    return f"{diagnostic.severity} {diagnostic.rule}: {place}{diagnostic.message}"


def _sheet(account: Account, meaning: Meaning | None) -> Sheet:
    """Return the bounds on attacks as rows of data, one for each false positive rate."""
    rate_columns = ("false_positive_rate", "true_positive_rate_upper", "false_negative_rate_lower")
    setting = (account.upper, account.delta, _unit(account), account.pipeline.privacy.adjacency.value)
    rates = () if meaning is None else zip(meaning.alphas, meaning.false_negatives, strict=True)
    rows = tuple((false_positive, 1.0 - missed, missed, *setting) for false_positive, missed in rates)
    return Sheet((*rate_columns, "epsilon_upper", "delta", "unit", "adjacency"), rows)


def data(account: Account, meaning: Meaning | None, diagnostics: tuple[Diagnostic, ...], code: int) -> dict[str, Any]:
    """Return the JSON document dpcli/meaning/v1. Its numbers are not rounded."""
    report = account_report.data(account, diagnostics)
    return {
        "schema": "dpcli/meaning/v1",
        **{key: report[key] for key in ("pipeline", "statement", "delta", "result")},
        "meaning": None if meaning is None else _meaning_data(meaning),
        "diagnostics": list(map(diagnostic_data, diagnostics)),
        "exit_code": code,
    }


def _meaning_data(meaning: Meaning) -> dict[str, Any]:
    curve = meaning.curve
    bounds = zip(curve.epsilons.tolist(), curve.upper.tolist(), curve.lower.tolist(), strict=True)
    return {
        "trade_off": [
            {"false_positive_rate": alpha, "false_negative_rate_lower": missed, "true_positive_rate_upper": 1.0 - missed}
            for alpha, missed in zip(meaning.alphas, meaning.false_negatives, strict=True)
        ],
        "advantage_upper": meaning.advantage,
        "posterior": {
            "log_odds_upper": meaning.pointwise,
            "exception_probability": meaning.exception,
            "beliefs": list(map(_belief_data, meaning.beliefs)),
        },
        "gaussian": {"mu_upper": meaning.gaussian, "epsilon_range": [0.0, meaning.reach]},
        "groups": [
            {"size": group.size, "epsilon_upper": None if group.reason else group.epsilon, "reason": group.reason}
            for group in meaning.groups
        ],
        "profile": [{"epsilon": epsilon, "delta_upper": upper, "delta_lower": lower} for epsilon, upper, lower in bounds],
    }


def _belief_data(belief: Belief) -> dict[str, float]:
    return {
        "prior": belief.prior,
        "posterior_upper": belief.posterior,
        "success_upper": belief.success,
        "success_blind": belief.blind,
    }


def _attacks(meaning: Meaning) -> Table:
    """Return the table of the best rates of an attack at SHOWN_RATES, which are among the rates of every `Meaning`."""
    missed = dict(zip(meaning.alphas, meaning.false_negatives, strict=True))
    rows = tuple(
        (stated_percent(rate), percent_up(1.0 - missed[rate]), f"{down(100.0 * missed[rate], 2)} %") for rate in SHOWN_RATES
    )
    return Table(
        f'attacks: claims that "{_claim(meaning.account)}"',
        ("false positives", "true positives: at most", "missed: at least"),
        rows,
        numeric=frozenset({0, 1, 2}),
    )


def _beliefs(meaning: Meaning) -> Table:
    """Return the table of how far the release may move a belief, and of how often a guess is right."""
    rows = tuple(
        (stated_percent(belief.prior), percent_up(belief.posterior), percent_up(belief.success), stated_percent(belief.blind))
        for belief in meaning.beliefs
    )
    return Table(
        f'belief that "{_claim(meaning.account)}"',
        ("before the release", "after it: at most [1]", "best guess right: at most", "right without the release"),
        rows,
        numeric=frozenset({0, 1, 2, 3}),
        footnotes=(_odds(meaning),),
    )


def _odds(meaning: Meaning) -> str:
    """Return the footnote on the growth of the odds, with the probability of the exception."""
    probability = "[1] always" if meaning.exception == 0.0 else f"[1] except with probability {meaning.exception!r}"
    if math.isinf(meaning.pointwise):
        return f"{probability}: nothing follows from this guarantee"
    factor = f"e^{up(meaning.pointwise)}"
    if meaning.pointwise < LARGEST_EXPONENT:
        factor = f"{up(math.exp(meaning.pointwise), 2)}x ({factor})"
    limit = f"{probability}; the odds grow by at most {factor}"
    if meaning.exception > 0.0 and meaning.pointwise > meaning.account.upper:
        return f"{limit}. This exceeds e^epsilon because it must hold except with probability delta"
    return limit


def _groups(meaning: Meaning) -> Table:
    """Return the table of the epsilon of groups. For a group without an epsilon, a footnote gives the reason."""
    rows = tuple((f"{group.size}", "-" if group.reason else up(group.epsilon)) for group in meaning.groups)
    sizes_by_reason: dict[str, list[str]] = {}
    for group in meaning.groups:
        if group.reason:
            sizes_by_reason.setdefault(group.reason, []).append(str(group.size))
    footnotes = tuple(f"{', '.join(sizes)}: {reason}" for reason, sizes in sizes_by_reason.items())
    return Table("groups", (f"{_unit(meaning.account)}s together", "epsilon"), rows, numeric=frozenset({0, 1}), footnotes=footnotes)


def _summary(meaning: Meaning) -> tuple[str, ...]:
    return (
        f"advantage: true positives minus false positives are at most {percent_up(meaning.advantage)}, at any threshold (0 % is blind "
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
