"""Tests of lint findings about ledgers: for each rule a ledger with the fault, and a similar one without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpcli.ledger import ledger_findings as rules
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.ledger_findings import findings
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from tests.ledger.cases import every
from tests.ledger.pipelines import HEAD, pipeline, pure

NOW = "2030-01-01T00:00:00Z"


def opened(folder: Path, dataset: str = "visits", **terms: object) -> Ledger:
    stated = {"epsilon": 1.0, "delta": 1e-9, "dataset_size": 1000, "fingerprint": "abc", **terms}
    ledger = init(str(folder / "l.db"), dataset, LedgerTerms("user", "add-remove", filter="approx-dp", parameters={}, **stated))  # type: ignore[arg-type]
    ledger.now = lambda: NOW
    return ledger


def test_a_good_ledger_gives_nothing(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.spend(pure(0.1), "a", 0.0)
    ledger.reserve(pure(0.2), "b", 0.0, expires="2030-02-01T00:00:00Z")
    assert findings(ledger) == ()


def _large_delta(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return opened(folder, delta=2e-4)


def _no_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return opened(folder, dataset_size=None)


def _large_epsilon(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return opened(folder, epsilon=10.5)


def _twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger = opened(folder)
    ledger.spend(pure(0.1), "a", 0.0)
    ledger.spend(pure(0.1), "a-retry", 0.0)
    return ledger


def _unnamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    opened(folder, "clicks", fingerprint="def")
    return opened(folder, fingerprint=None)


def _older(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setattr("dpcli.ledger.entry_log.__version__", "0.0.9")
    ledger = opened(folder)
    ledger.spend(pure(0.1), "a", 0.0)
    return ledger


def _network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger = opened(folder)
    monkeypatch.setattr(rules, "network_file_system", lambda path: "nfs4")
    return ledger


def _forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger = opened(folder)
    ledger.reserve(pure(0.1), "a", 0.0, expires="2030-01-01T00:00:01Z")
    ledger.now = lambda: "2030-01-02T00:00:00Z"
    return ledger


def _other_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger = opened(folder, dataset_size=None)
    for key, size in (("a", 1000), ("b", 10**9)):
        ledger.spend(
            pipeline(f'[[mechanism]]\nname = "{key}"\ntype = "pure-dp"\nepsilon = 0.1\n', HEAD + f"dataset_size = {size}\n"),
            key,
            0.0,
        )
    return ledger


def _amended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger = opened(folder)
    ledger.spend(pure(0.6), "a", 0.0)
    ledger.amend(0.5, "stricter", "dpo", acknowledged=True)
    return ledger


CASES: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], Ledger], str]] = {
    "DP105": (_large_delta, "1/(10 dataset_size)"),
    "DP306": (_no_size, "without dataset_size"),
    "DP304": (_large_epsilon, "epsilon = 10.5"),
    "DP304 amended": (_amended, "more is spent than the cap allows"),
    "DP005": (_other_size, '"b" states dataset_size 1000000000, but "a" (entry 2) 1000'),
    "DP404": (_twice, '"a-retry" repeats the run of "a" (entry 2)'),
    "DP406": (_unnamed, "without a fingerprint"),
    "DP408": (_older, "charged by dpcli 0.0.9"),
    "DP409": (_network, "nfs4"),
    "DP403": (_forgotten, 'the reservation "a" has expired'),
}


def test_a_bad_ledger_triggers_its_rule_alone(tmp_path: Path) -> None:
    def triggers(rule: str) -> None:
        make, words = CASES[rule]
        (tmp_path / rule).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            found = findings(make(tmp_path / rule, patch))
        found = tuple(
            finding for finding in found if (finding.rule, rule) != ("DP306", "DP005")
        )  # no size at the opening is a finding too
        assert [finding.rule for finding in found] == [rule.split()[0]]
        assert words in found[0].message

    every(CASES, triggers)


def test_every_rule_has_a_case() -> None:
    assert len(CASES) == len(rules.RULES) + 1  # _delta_for_size has two


def test_a_voided_run_may_be_made_again(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.reserve(pure(0.1), "a", 0.0)
    ledger.void("a", "never started")
    ledger.spend(pure(0.1), "b", 0.0)
    assert findings(ledger) == ()


def test_the_same_run_a_week_later_is_no_retry(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.spend(pure(0.1), "week-1", 0.0)
    ledger.now = lambda: "2030-01-08T00:00:00Z"
    ledger.spend(pure(0.1), "week-2", 0.0)
    assert findings(ledger) == ()
