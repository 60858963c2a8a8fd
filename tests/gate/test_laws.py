"""Laws of the gate for any file: caps are monotone, formats change nothing, waivers can only waive."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpcli.document.formats.facts import renderable
from dpcli.file.pipeline.gate_keys import Caps, Gate, Waiver
from dpcli.file.pipeline.read import parse
from dpcli.gate.gate_terms import GateFlags, GateTerms, checked_terms
from dpcli.gate.judge import gate
from dpcli.gate.policy import NO_POLICY
from dpcli.gate.verdicts import EXIT_CODES, PRECEDENCE, Condition, worst_verdict
from dpcli.gate.waivers import apply_waivers
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.samples import GATE, LARGE_DELTA, OVER, waiver

DAY = datetime.date(2030, 6, 1)
PLAIN = parse(GATE.encode(), "train.toml")
FORMATS = renderable(("findings", "checks", "records"))
HARSH = {code: rank for rank, code in enumerate((0, 1, 3, 2, 4))}

waivers = st.builds(
    Waiver,
    rule=st.sampled_from(["budget", "increase", "horizon", "statement", "restatement", "DP105", "DP101"]),
    reason=st.just("why"),
    approver=st.just("who"),
    expires=st.dates(datetime.date(2030, 5, 1), datetime.date(2030, 7, 1)),
    mechanism=st.sampled_from([None, None, "train", "vocabulary"]),
    epsilon=st.one_of(st.none(), st.floats(0.1, 10.0)),
)
conditions = st.builds(
    Condition,
    name=st.sampled_from(
        ["budget", "increase", "horizon", "statement", "restatement", "policy", "ledger", "file", "DP105", "DP101"]
    ),
    verdict=st.sampled_from(["pass", "warn", "fail", "unknown", "invalid", "error"]),
    message=st.just("words"),
    mechanism=st.sampled_from([None, "train", "vocabulary"]),
    measured=st.one_of(st.none(), st.floats(0.1, 10.0), st.just(float("nan")), st.just(float("inf"))),
)


def code_of(found: list[Condition], held: list[Waiver]) -> int:
    after = apply_waivers(found, "train.toml", replace(PLAIN, gate=Gate(waiver=tuple(held))), NO_POLICY, None, DAY, b"")
    return EXIT_CODES[worst_verdict(c.verdict for c in after.conditions)]


@settings(max_examples=120, deadline=None)
@given(st.lists(conditions, min_size=1, max_size=4), st.lists(waivers, max_size=4))
def test_a_waiver_turns_only_a_no_into_a_pass(found: list[Condition], held: list[Waiver]) -> None:
    after = apply_waivers(found, "train.toml", replace(PLAIN, gate=Gate(waiver=tuple(held))), NO_POLICY, None, DAY, b"")
    for before, now in zip(found, after.conditions, strict=False):
        if before.verdict in ("unknown", "invalid", "error", "pass"):
            assert now.verdict == before.verdict
        if now.verdict == "waived":
            assert now.pardon is not None
            assert now.pardon.waiver.rule == before.name
            assert now.pardon.waiver.expires >= DAY
            bound = now.pardon.waiver.epsilon
            assert bound is None or (before.measured is not None and before.measured <= bound)
        if before.name in ("policy", "ledger", "file"):
            assert now.verdict == before.verdict
    assert all(notice.verdict == "warn" for notice in after.conditions[len(found) :])


@settings(max_examples=120, deadline=None)
@given(st.lists(conditions, min_size=1, max_size=4), st.lists(waivers, min_size=1, max_size=4), st.data())
def test_taking_a_waiver_away_never_makes_a_no_a_pass(found: list[Condition], held: list[Waiver], data: st.DataObject) -> None:
    fewer = list(held)
    fewer.pop(data.draw(st.integers(0, len(held) - 1)))
    assert HARSH[code_of(found, fewer)] >= HARSH[code_of(found, held)]


@pytest.mark.nightly
@pytest.mark.long
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0.05, 20.0), min_size=2, max_size=3), st.sampled_from([GATE, OVER, LARGE_DELTA]))
@example([1.37393, 1.37394], GATE)
def test_a_higher_cap_is_never_harsher(tmp_path: Path, caps: list[float], text: str) -> None:
    path = tmp_path / "train.toml"
    path.write_text(text)
    terms = [GateTerms(Caps(epsilon=cap), None, NO_POLICY, DAY) for cap in sorted(caps)]
    codes = [HARSH[EXIT_CODES[gate([str(path)], one).verdict]] for one in terms]
    assert codes == sorted(codes, reverse=True)


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        GATE,
        OVER,
        LARGE_DELTA,
        OVER + waiver("budget", epsilon="7.0"),
        OVER + waiver("DP103"),
        GATE.replace("noise_multiplier = 400.0", "noise_multiplier = 1e-300"),
        "x = ",
    ],
)
def test_no_format_changes_the_exit_code_or_its_own_bytes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.toml"
    path.write_text(text)
    arguments = ("gate", str(path), "--as-of", "2030-06-01")
    results = {format_: dpcli(*arguments, "-f", format_) for format_ in FORMATS}
    assert len({result.code for result in results.values()}) == 1
    for format_ in ("json", "sarif", "gitlab", "markdown"):
        assert dpcli(*arguments, "-f", format_).out == results[format_].out


@of_each("pair", list(itertools.combinations(PRECEDENCE, 2)))
def test_the_worst_decides(pair: tuple[str, str]) -> None:
    assert worst_verdict(pair[::-1]) == pair[0]  # type: ignore[arg-type]


def test_today_is_the_default() -> None:
    assert checked_terms(GateFlags()).as_of == datetime.datetime.now(datetime.UTC).date()
