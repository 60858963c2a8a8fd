"""Waivers: what they let through, until when, up to where, and what they never do."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cases import of_each
from tests.command import dpcli
from tests.gate.repositories import git
from tests.gate.samples import GATE, LARGE_DELTA, OVER, SAMPLED, conditions, judged, named, waiver

DAY = ("--as-of", "2030-06-01")


def written(folder: Path, text: str) -> Path:
    path = folder / "train.toml"
    path.write_text(text)
    return path


def test_a_waiver_turns_a_fail_into_waived(tmp_path: Path) -> None:
    path = written(tmp_path, OVER + waiver("budget", epsilon="7.0"))
    found = named("budget", path, *DAY)
    assert found["verdict"] == "waived"
    assert "waived: approved by ada until 2030-06-30 (29 days left) up to epsilon 7.0: launch" in found["message"]
    assert (found["waiver"]["days_left"], found["waiver"]["new"], found["waiver"]["in_policy"]) == (29, False, False)
    assert judged(path, *DAY)["exit_code"] == 0


@of_each(
    "day, code, words",
    [
        ("2030-06-30", 0, "(0 days left)"),
        ("2030-07-01", 1, "the waiver approved by ada expired on 2030-06-30 (1 day ago)"),
        ("2031-06-30", 1, "(365 days ago)"),
    ],
)
def test_a_waiver_holds_through_its_last_day(tmp_path: Path, day: str, code: int, words: str) -> None:
    path = written(tmp_path, OVER + waiver("budget", epsilon="7.0"))
    assert judged(path, "--as-of", day)["exit_code"] == code
    assert words in named("budget", path, "--as-of", day)["message"]


def test_a_waiver_holds_only_up_to_its_epsilon(tmp_path: Path) -> None:
    path = written(tmp_path, OVER + waiver("budget", epsilon="5.5"))
    found = named("budget", path, *DAY)
    assert found["verdict"] == "fail"
    assert "the waiver approved by ada holds up to epsilon 5.5, found 6.9211" in found["message"]


@of_each("when, day", [("in 14 days", "2030-06-16"), ("in 1 day", "2030-06-29"), ("today", "2030-06-30")])
def test_a_waiver_in_its_last_fortnight_warns(tmp_path: Path, when: str, day: str) -> None:
    path = written(tmp_path, OVER + waiver("budget", epsilon="7.0"))
    found = named("waiver", path, "--as-of", day)
    assert found["verdict"] == "warn"
    assert found["message"] == f"the file's waiver of budget expires {when} (2030-06-30)"


def test_a_waiver_with_fifteen_days_does_not_warn(tmp_path: Path) -> None:
    path = written(tmp_path, OVER + waiver("budget", epsilon="7.0"))
    assert [c["name"] for c in conditions(path, "--as-of", "2030-06-15")] == ["budget"]


def test_an_unused_waiver_warns_and_passes(tmp_path: Path) -> None:
    path = written(tmp_path, GATE + waiver("budget", epsilon="7.0"))
    assert named("waiver", path, *DAY)["message"] == "the file's waiver of budget is not needed: remove it"
    assert judged(path, *DAY)["exit_code"] == 0
    assert "and expired on 2030-06-30" in named("waiver", path, "--as-of", "2031-01-01")["message"]


def test_a_waiver_of_a_lint_rule(tmp_path: Path) -> None:
    path = written(tmp_path, LARGE_DELTA + waiver("DP105"))
    assert named("DP105", path, *DAY)["verdict"] == "waived"
    assert judged(path, *DAY)["exit_code"] == 0
    assert judged(path, "--as-of", "2031-01-01")["exit_code"] == 1


def shuffled(text: str) -> str:
    """With sampling that DP101 warns of, and noise enough for a number."""
    return text.replace('scheme = "poisson"', 'scheme = "shuffle"').replace("noise_multiplier = 0.8", "noise_multiplier = 80.0")


def test_a_waiver_for_one_mechanism_does_not_reach_another(tmp_path: Path) -> None:
    text = shuffled(SAMPLED)
    assert named("DP101", written(tmp_path, text))["verdict"] == "warn"
    assert named("DP101", written(tmp_path, text + waiver("DP101", mechanism='"train"')), *DAY)["verdict"] == "waived"
    path = written(tmp_path, text + waiver("DP101", mechanism='"vocabulary"'))
    assert named("DP101", path, *DAY)["verdict"] == "warn"
    assert "not needed" in named("waiver", path, *DAY)["message"]


def test_names_that_look_the_same_in_a_message_are_not_taken_for_each_other(tmp_path: Path) -> None:
    start = SAMPLED.index('[[mechanism]]\nname = "train"')
    head, block, long = SAMPLED[:start], shuffled(SAMPLED[start:]), "m" * 70
    text = head + block.replace('"train"', f'"{long}a"') + "\n" + block.replace('"train"', f'"{long}b"')
    found = conditions(written(tmp_path, text + waiver("DP101", mechanism=f'"{long}a"')), *DAY)
    assert [c["verdict"] for c in found if c["name"] == "DP101"] == ["warn", "warn"]


def test_a_waiver_makes_no_number_where_there_is_none(tmp_path: Path) -> None:
    text = SAMPLED.replace('scheme = "poisson"', 'scheme = "fixed-size"') + waiver("DP102")
    found = judged(written(tmp_path, text), *DAY)
    assert found["files"][0]["result"] is None
    assert found["exit_code"] == 1
    assert [c["verdict"] for c in found["files"][0]["conditions"]] == ["fail"]


@of_each(
    "extra, words",
    [
        (
            waiver("DP103"),
            "gate.waiver[1].rule: expected a rule that can be waived, found DP103, without which the number itself is wrong",
        ),
        (waiver("DP001"), "expected a rule that can be waived, found DP001"),
        (
            waiver("ledger"),
            "expected a code of dpcli lint, or one of budget, increase, horizon, statement, restatement, found 'ledger'",
        ),
        (waiver("bugdet", epsilon="3.0"), "did you mean 'budget'"),
        (waiver("unknown"), "expected a code of dpcli lint"),
        (waiver("DP999"), "gate.waiver[1].rule: expected the code of a rule, found DP999"),
        (waiver("dp105"), "found 'dp105'"),
        (waiver("budget"), "gate.waiver[1].epsilon: expected the epsilon up to which 'budget' is waived, found nothing"),
        (waiver("increase"), "expected the epsilon up to which 'increase' is waived, found nothing"),
        (waiver("horizon"), "expected the epsilon up to which 'horizon' is waived, found nothing"),
        (waiver("statement", epsilon="3.0"), "expected no epsilon with the rule 'statement', found 3.0"),
        (waiver("budget", epsilon="3.0", mechanism='"train"'), "expected no mechanism with 'budget'"),
        (waiver("DP105", mechanism='"trian"'), "gate.waiver[1].mechanism: expected the name of a mechanism, found 'trian'"),
        (waiver("DP105", reason='"  "'), "gate.waiver[1].reason: expected text that is not empty"),
        (waiver("DP105", reason='""'), "gate.waiver[1].reason: expected text that is not empty"),
        (waiver("DP105", approver='""'), "gate.waiver[1].approver: expected text that is not empty"),
        (waiver("DP105", expires='"2030-06-30"'), "gate.waiver[1].expires: expected a date (2030-12-31, without quotes)"),
        (waiver("DP105", expires="2030-06-30T00:00:00Z"), "gate.waiver[1].expires: expected a date"),
        (waiver("DP105", file='"x"'), "gate.waiver[1].file: expected one of rule, reason, approver, expires, mechanism, epsilon"),
        ("\n[gate.waiver]\nrule = 'DP105'\n", "gate.waiver: expected a list"),
        ("\n[[gate.waiver]]\nrule = 'DP105'\n", "gate.waiver[1].approver: expected text in quotes, found nothing"),
    ],
)
def test_a_waiver_that_is_an_error_of_the_file(tmp_path: Path, extra: str, words: str) -> None:
    found = judged(written(tmp_path, OVER + extra), *DAY)
    assert found["exit_code"] == 2
    shown = dpcli("gate", str(tmp_path / "train.toml"), "-f", "text").out
    assert words in shown
    assert "error gate/file" not in shown  # which would say it twice


@of_each("rule", ["budget", "increase", "horizon", "statement", "restatement", "DP105"])
def test_nothing_makes_up_for_an_unknown(tmp_path: Path, rule: str) -> None:
    keys = {"epsilon": "1e300"} if rule in ("budget", "increase", "horizon") else {}
    text = OVER.replace("noise_multiplier = 400.0", "noise_multiplier = 1e-300") + waiver(rule, **keys)
    found = judged(written(tmp_path, text), *DAY, "--horizon", "5", "--horizon-epsilon", "1")
    assert found["exit_code"] == 3
    assert "waived" not in {c["verdict"] for c in found["files"][0]["conditions"]}


def test_a_waiver_that_the_change_adds_is_said_to_be_new(repository: Path) -> None:
    path = repository / "train.toml"
    path.write_text(OVER + waiver("budget", epsilon="7.0") + waiver("increase", epsilon="7.0"))
    found = judged(path, "--base-ref", "main", *DAY)["files"][0]["conditions"]
    assert [c["verdict"] for c in found] == ["waived", "waived"]
    assert all("new waiver, added by this change: approved by ada" in c["message"] for c in found)
    git(repository, "commit", "-qam", "waived")
    again = judged(path, "--base-ref", "main", *DAY)["files"][0]["conditions"]
    assert "new waiver" not in json.dumps(again)
    path.write_text(OVER + waiver("budget", expires="2031-06-30", epsilon="7.0") + waiver("increase", epsilon="7.0"))
    assert "new waiver" in named("budget", path, "--base-ref", "main", *DAY)["message"]  # an extended one counts as new


def test_a_baseline_knows_the_waivers(tmp_path: Path) -> None:
    path, baseline = written(tmp_path, OVER + waiver("budget", epsilon="7.0")), tmp_path / "base.json"
    assert dpcli("gate", str(path), *DAY, "-o", f"json={baseline}").code == 0
    assert "new waiver" not in named("budget", path, "--baseline", baseline, *DAY)["message"]
    path.write_text(OVER + waiver("budget", epsilon="8.0"))
    assert "new waiver" in named("budget", path, "--baseline", baseline, *DAY)["message"]


def test_a_new_waiver_is_a_warning_on_its_line(repository: Path) -> None:
    (repository / "train.toml").write_text(OVER + waiver("budget", epsilon="7.0") + waiver("increase", epsilon="7.0"))
    shown = dpcli("gate", str(repository / "train.toml"), "--base-ref", "main", *DAY, "-f", "github").out
    assert shown.count("::warning file=") == 2
    assert "::error" not in shown


@of_each("text", ["yesterday", "2030-02-30", "", "2030-06-30T00:00"])
def test_as_of_is_a_date(text: str) -> None:
    result = dpcli("gate", "examples/gate.toml", "--as-of", text)
    assert result.code == 2
    assert result.err == f"dpcli: --as-of: expected a date such as 2030-12-31, found {text!r}\n"
