"""Tests of dpcli account: both streams, exit codes, formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.samples import OVER

GAUSSIAN = b"""format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-5
releases = "outputs"
[[mechanism]]
name = "once"
type = "gaussian"
noise_multiplier = 1.0
"""


def account(text: bytes, *arguments: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(dpcli("account", "-", "-f", "json", *arguments, stdin=text).out)
    return found


def test_json_is_the_promised_machine_form() -> None:
    result = dpcli("account", "examples/mnist.toml", "-f", "json")
    found = json.loads(result.out)
    assert result.code == 0
    assert result.err == ""
    assert found["schema"] == "dpcli/account/v1"
    assert len(found["pipeline"]["sha256"]) == 64
    assert found["result"]["accountant"] == "exact"
    assert found["result"]["epsilon_upper"] == min(
        r["epsilon_upper"] for r in found["accountants"] if r["sound"] and r["epsilon_upper"] is not None
    )
    assert found["statement"] == {
        "unit": "example",
        "adjacency": "add-remove",
        "releases": "final-model",
        "adaptive": False,
        "max_contributions": None,
        "group_size": 1,
    }
    assert [d["rule"] for d in found["diagnostics"]] == ["DP105", "DP117"]
    assert found["mechanisms"] == [{"name": "train", "type": "gaussian", "count": 14063, "share": 1.0}]


PARTS = (
    GAUSSIAN
    + b"""
steps = 10
partition = { of = "region", part = "east" }
[[mechanism]]
name = "west"
type = "gaussian"
noise_multiplier = 4.0
steps = 5
partition = { of = "region", part = "west" }
"""
)


def test_runs_of_parts_and_of_trials_are_shown() -> None:
    assert "10 | 5" in dpcli("account", "-", "-a", "zcdp", stdin=PARTS).out
    assert "10 trials on average" in dpcli("account", "examples/tuning.toml", "-a", "basic").out


def test_analytic_row_prints_the_exact_value_rounded_up() -> None:
    result = dpcli("account", "-", "-a", "analytic", "--digits", "6", stdin=GAUSSIAN)
    assert "4.377179" in result.out  # 4.3771780957
    assert "at least 4.377178" in result.out
    tiny = dpcli("account", "-", "-a", "analytic", "--digits", "6", "--delta", "1e-30", stdin=GAUSSIAN)
    assert "11.743884" in tiny.out  # 11.7438830252


def test_delta_at_epsilon() -> None:
    found = account(GAUSSIAN, "--epsilon", "1")
    assert found["result"]["delta_upper"] == pytest.approx(0.12693673750664397, rel=1e-12)  # type: ignore[index]
    assert found["result"]["delta_lower"] <= found["result"]["delta_upper"]  # type: ignore[index]


@of_each(
    "text, code, said",
    [
        (GAUSSIAN.replace(b"noise_multiplier = 1.0", b"noise_multiplier = 1e-300"), 3, "no finite guarantee"),
        (GAUSSIAN + b"[budget]\nepsilon = 4.0\n", 1, "OVER BUDGET"),
        (GAUSSIAN + b"[budget]\nepsilon = 5.0\n", 0, "above its warning level (0.8 of the cap)"),
        (GAUSSIAN + b"[budget]\nepsilon = 50.0\n", 0, "within budget"),
    ],
)
def test_exit_code_says_what_the_table_says(text: bytes, code: int, said: str) -> None:
    for format_ in ("table", "json", "total", "markdown", "csv"):
        assert dpcli("account", "-", "-f", format_, stdin=text).code == code
    assert said in " ".join(dpcli("account", "-", stdin=text).out.split())


@of_each(
    "arguments, message",
    [
        (("account", "missing.toml"), "missing.toml"),
        (("account", "examples"), "directory"),
        (("account", "examples/mnist.toml", "-a", "rpd"), "did you mean 'rdp'"),
        (("account", "examples/mnist.toml", "--delta", "nan"), "expected a delta in [0, 1), found nan"),
        (("account", "examples/mnist.toml", "--delta", "1.5"), "expected a delta"),
        (("account", "examples/mnist.toml", "--epsilon", "-1"), "expected a finite epsilon >= 0"),
        (("account", "examples/mnist.toml", "--group-size", "0"), "expected a group size"),
        (("account", "examples/mnist.toml", "-o", "xml=x"), "expected FORMAT=PATH"),
        (("account", "examples/mnist.toml", "-o", "json=/nowhere/x"), "cannot be written"),
        (("acount", "examples/mnist.toml"), "did you mean 'account'"),
        (("explain", "adjacancy"), "did you mean adjacency"),
        (("explain", "DP999"), "DP999"),
    ],
)
def test_bad_use_is_one_clear_message(arguments: tuple[str, ...], message: str) -> None:
    result = dpcli(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err


def test_several_outputs_in_one_run(tmp_path: Path) -> None:
    result = dpcli("account", "examples/mnist.toml", "-f", "total", "-o", f"json={tmp_path}/a.json", "-o", f"csv={tmp_path}/a.csv")
    assert float(result.out) == json.loads((tmp_path / "a.json").read_text())["result"]["epsilon_upper"]
    rows = list(csv.reader(io.StringIO((tmp_path / "a.csv").read_text())))
    assert "accountant" in rows[0]
    assert len(rows) == 1 + len(ACCOUNTANTS)


@of_each("flags", [(), ("-v",), ("-vv",), ("-v", "-v"), ("-qvv",), ("--verbose", "-v")])
def test_internal_error_is_70_with_a_trace_only_if_v_is_given_twice(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import dpcli.analysis.account

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(dpcli.analysis.account, "account", broken)
    from tests.command import dpcli as run

    result = run("account", "examples/mnist.toml", *flags)
    assert result.code == 70
    assert result.out == ""
    assert "internal error (ZeroDivisionError: boom)" in result.err
    assert ("Traceback" in result.err) == ("".join(flags).count("v") >= 2)


def test_the_smallest_delta_there_is_has_an_epsilon(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text((ROOT / "examples" / "mnist.toml").read_text().replace("delta = 1e-5", "delta = 5e-324"))
    result = dpcli("account", str(file), "-f", "total")
    assert result.code == 0
    assert 40.0 < float(result.out) < 1000.0


@of_each("above", [0, 1, 5])
def test_a_spent_budget_is_shown_at_its_line(above: int, tmp_path: Path) -> None:
    """However far down the file states it."""
    text = "# a line\n" * above + OVER
    (tmp_path / "over.toml").write_text(text)
    line = text[: text.index("epsilon = ", text.index("[budget]"))].count("\n") + 1
    region = json.loads(dpcli("account", "over.toml", "-f", "sarif", folder=tmp_path).out)["runs"][0]["results"][-1]
    assert region["locations"][0]["physicalLocation"]["region"] == {"startLine": line, "startColumn": 1}
    assert f"::error file=over.toml,line={line},col=1," in dpcli("account", "over.toml", "-f", "github", folder=tmp_path).out


@of_each("format_", ["text", "table", "json"])
def test_what_a_rule_says_of_flags_has_no_line(format_: str) -> None:
    flags = ("--noise-multiplier", "1", "--steps", "9", "--delta", "0.01", "--dataset-size", "1000")
    found = dpcli("account", *flags, "-f", format_)
    assert found.code == 1 and "DP105" in found.err
    assert "the command line:" not in (found.out + found.err).replace("the command line: ", "")
    assert '"line": 9' not in found.out


@of_each("names", [(name,) for name in ACCOUNTANTS] + [tuple(ACCOUNTANTS)])
def test_a_number_that_is_no_bound_is_said_to_be_none(names: tuple[str, ...], tmp_path: Path) -> None:
    """Exit code 3 of an approximation alone would look like a fault of the file."""
    (tmp_path / "x.toml").write_bytes(GAUSSIAN)
    done = dpcli("account", str(tmp_path / "x.toml"), *(word for name in names for word in ("-a", name)))
    bounds = [name for name in names if load(ACCOUNTANTS[name]).sound]
    if not bounds:
        assert done.code == 3
    assert (f"{names[0]} gives an approximation and no bound: leave out -a" in " ".join(done.out.split())) == (not bounds)


def test_the_central_limit_theorem_is_not_warned_of_where_it_is_exact() -> None:
    flags = ("account", "--noise-multiplier", "2", "--steps", "3", "--delta", "1e-6")
    assert "equals the headline here" in dpcli(*flags).out
    sampled = dpcli(*flags, "--sampling-rate", "0.01").out
    assert "no bound: may be too" in sampled and "equals the headline" not in sampled


@pytest.mark.long
def test_a_number_that_a_rule_calls_unsound_is_not_within_budget() -> None:
    text = GAUSSIAN.replace(b"[privacy]\n", b"[privacy]\ndataset_size = 1000\n") + b"[budget]\nepsilon = 50.0\n"
    for command in ("account", "explain", "report"):
        result = dpcli(command, "-", "--delta", "0.01", stdin=text)
        words = " ".join(result.out.split())
        assert result.code == 1 and "within budget" not in words and "NOT SOUND" in words, command
    assert dpcli("account", "-", "--delta", "0.01", "-f", "summary", stdin=text).out.startswith("## FAIL")
