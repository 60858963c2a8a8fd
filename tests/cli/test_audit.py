"""Tests of dpcli audit: inputs, exit codes, formats, pictures, and trials that are interrupted and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit.attacks import canaries, one_sum, runs
from tests.cases import of_each
from tests.command import ROOT, Result, dpcli
from tests.waiting import PATIENCE, until

GAUSSIAN = """format = 1
name = "sum"
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-5
releases = "outputs"
[[mechanism]]
name = "sum"
type = "gaussian"
noise_multiplier = 1.0
"""
EXAMPLE = str(ROOT / "examples" / "audit" / "laplace-mean.toml")


def scores_file(path: Path, noise: float, count: int = 4000, name: str = "scores.csv") -> str:
    scores = canaries(one_sum(noise=noise), count, 1)
    rows = zip(scores.members.astype(int).tolist(), scores.values.tolist(), strict=True)
    (path / name).write_text("member,score\n" + "".join(f"{m},{s!r}\n" for m, s in rows))
    return str(path / name)


def pipeline(path: Path, section: str = "", text: str = GAUSSIAN) -> str:
    (path / "p.toml").write_text(text + section)
    return str(path / "p.toml")


def data_of(*arguments: str) -> tuple[int, dict[str, object]]:
    result = dpcli("audit", *arguments, "-f", "json")
    assert ("VIOLATION" in result.err) == (result.code == 1)
    assert bool(result.err) == (result.code != 0)
    return result.code, json.loads(result.out)


def test_right_program_passes_and_half_the_noise_fails(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    code, found = data_of(file, "--scores", scores_file(tmp_path, 1.0))
    assert (code, found["verdict"], found["exit_code"]) == (0, "no violation found", 0)
    code, found = data_of(file, "--scores", scores_file(tmp_path, 0.5))
    assert (code, found["verdict"], found["exit_code"]) == (1, "violation", 1)
    assert found["schema"] == "dpcli/audit/v1"
    assert found["claim"]["epsilon_upper"] == pytest.approx(4.377178, abs=1e-5)  # type: ignore[index]


def test_counts_against_a_stated_claim() -> None:
    counts = ("--canaries", "1000", "--guesses", "100", "--correct", "95", "--delta", "1e-5")
    code, found = data_of(*counts, "--epsilon", "2")
    assert code == 1
    assert found["epsilon_lower"] == pytest.approx(2.165175799714052, abs=1e-6)
    assert data_of(*counts, "--epsilon", "2.2")[0] == 0


def test_printed_bounds_are_rounded_down_and_claims_up() -> None:
    flags = "--canaries 1000 --guesses 100 --correct 95 --delta 1e-5 --epsilon 2.20001 -f text"
    out = dpcli("audit", *flags.split()).out
    assert "epsilon >= 2.1651 proven, epsilon <= 2.2001 claimed" in out
    assert "no violation found at 95 %" in out
    assert "is private" not in out


@pytest.mark.long
def test_a_pass_is_never_called_private(tmp_path: Path) -> None:
    for format_ in ("table", "text", "markdown", "html"):
        out = dpcli("audit", pipeline(tmp_path), "--scores", scores_file(tmp_path, 1.0), "-f", format_).out
        assert "no violation found at" in out
        assert "is private" not in out
        assert "fair coin" in out


def test_counts_of_two_runs_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    path.write_text(json.dumps({"members": 1000, "others": 1000, "true_positives": 500, "false_positives": 10}))
    code, found = data_of("--kind", "two-run", "--scores", str(path), "--epsilon", "3", "--delta", "1e-5")
    assert code == 1
    assert found["epsilon_lower"] == pytest.approx(3.241995249440985, abs=1e-6)
    assert data_of("--kind", "two-run", "--scores", str(path), "--epsilon", "3.25", "--delta", "1e-5")[0] == 0


def test_finished_run_is_read_by_its_folder(tmp_path: Path) -> None:
    scores = canaries(one_sum(noise=0.5), 4000, 1)
    rows = [{"member": bool(m), "score": float(s)} for m, s in zip(scores.members, scores.values, strict=True)]
    document = {"schema": "dpcli/canaries/v1", "neighbours": "add-remove", "canaries": rows}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "audit.json").write_text(json.dumps(document))
    assert data_of(pipeline(tmp_path), "--scores", str(tmp_path / "run"))[0] == 1


def test_guesses_instead_of_scores(tmp_path: Path) -> None:
    path = tmp_path / "guesses.csv"
    path.write_text("member,guess\n" + "1,1\n" * 48 + "0,1\n" * 2 + "0,0\n" * 47 + "1,0\n" * 3 + "1,\n" * 450 + "0,\n" * 450)
    code, found = data_of("--scores", str(path), "--epsilon", "2", "--delta", "1e-5")
    assert code == 1
    assert found["counts"] == {"canaries": 1000, "guesses": 100, "correct": 95, "tests": 1}


def test_section_of_the_file_says_the_same_as_flags(tmp_path: Path) -> None:
    name = scores_file(tmp_path, 1.0)
    section = f'[audit]\nkind = "one-run"\nscores = "{name}"\ncanaries = 4000\nguesses = 400\nconfidence = 0.99\n'
    code, found = data_of(pipeline(tmp_path, section))
    assert (code, found["confidence"]) == (0, 0.99)
    assert found["counts"]["guesses"] == 400  # type: ignore[index]
    assert data_of(pipeline(tmp_path, section), "--guesses", "200")[1]["counts"]["guesses"] == 200  # type: ignore[index]
    result = dpcli("audit", pipeline(tmp_path, section.replace("4000", "4001")))
    assert result.code == 2
    assert "expected 4001 canaries as stated, found 4000 scores" in result.err


def test_section_is_read_strictly_by_every_command(tmp_path: Path) -> None:
    file = pipeline(tmp_path, '[audit]\nconfidnce = 0.9\nguesses = 0\nkind = "three-run"\n')
    result = dpcli("audit", file)
    assert result.code == 2
    assert (
        "p.toml:13:1: error DP002: audit.confidnce: expected a known key, found 'confidnce'; did you mean 'confidence'"
        in result.err
    )
    assert "p.toml:14:1: error DP004: audit.guesses: expected a whole number from 1 to 10^18, found 0" in result.err
    assert "p.toml:15:1: error DP004: audit.kind: expected one of" in result.err
    assert dpcli("account", file).code == dpcli("gate", file).code == dpcli("lint", file).code == 2


@of_each(
    "arguments, message",
    [
        ((), "nothing to audit"),
        (
            ("--scores", "nowhere.csv", "--epsilon", "1", "--delta", "0"),
            "nowhere.csv: no such file",
        ),
        (("--correct", "3", "--epsilon", "1", "--delta", "0"), "--correct: expected --canaries and --guesses"),
        (("--canaries", "9", "--guesses", "9", "--correct", "9"), "expected a claim"),
        (("--canaries", "9", "--guesses", "9", "--correct", "9", "--epsilon", "1"), "expected --delta with it"),
        (("--canaries", "9", "--guesses", "9", "--correct", "9", "--epsilon", "-1", "--delta", "0"), "--epsilon: expected"),
        (("--canaries", "9", "--guesses", "10", "--epsilon", "1", "--delta", "0"), "--guesses: expected at most"),
        (("--confidence", "1.5", "--epsilon", "1", "--delta", "0"), "--confidence: expected a number in (0.5, 1), found 1.5"),
        (
            ("--function", "no_such_module:f", "--data", "x:y", "--epsilon", "1", "--delta", "0"),
            "no_such_module:f: cannot be imported",
        ),
        (("--function", "json:nothing", "--data", "x:y", "--epsilon", "1", "--delta", "0"), "expected a function, found nothing"),
        (("--function", "json:loads", "--epsilon", "1", "--delta", "0"), "--function needs --data"),
    ],
)
def test_wrong_input_is_refused_in_words(arguments: tuple[str, ...], message: str) -> None:
    result = dpcli("audit", *arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


@of_each(
    "name, text, message",
    [
        ("a.csv", "", "found no rows"),
        ("a.csv", "member,score\n1,2\n2,3\n", "row 2: member: expected 0 or 1, found '2'"),
        ("a.csv", "member,score\n1,x\n", "row 1: score: expected a number, found 'x'"),
        ("a.csv", "member\n1\n", "expected columns member and score"),
        ("a.json", "{", "this is not json"),
        ("a.json", "[" * 100_000, "this is not json"),
        ("a.json", "3", "expected a table or a list"),
        ("a.json", '{"schema": "other/v1"}', "expected schema 'dpcli/canaries/v1'"),
        ("a.json", '{"canaries": 10, "guesses": 5, "correct": true}', "correct: expected a whole number"),
        ("a.json", '{"canaries": 10, "guesses": 5, "correct": 6}', "correct <= guesses <= canaries"),
    ],
)
def test_wrong_scores_are_refused_in_words(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    result = dpcli("audit", "--scores", str(tmp_path / name), "--epsilon", "1", "--delta", "1e-5")
    assert result.code == 2
    assert message in result.err


def test_claim_about_other_neighbours_is_not_judged(tmp_path: Path) -> None:
    """Canaries that come and go say nothing about records that are replaced."""
    file = pipeline(tmp_path, text=GAUSSIAN.replace("add-remove", "replace-one"))
    result = dpcli("audit", file, "--scores", scores_file(tmp_path, 1.0))
    assert result.code == 3
    assert "the claim says nothing about these" in result.err
    code, found = data_of(pipeline(tmp_path, '[audit]\nneighbours = "replace-one"\n'), "--scores", scores_file(tmp_path, 1.0))
    assert code == 0
    assert found["claim"]["epsilon_upper"] == pytest.approx(9.997256, abs=1e-4)  # type: ignore[index]


def test_what_the_run_varied_is_believed_over_the_default(tmp_path: Path) -> None:
    rows = [{"member": i % 2 == 0, "score": float(i % 2 == 0)} for i in range(100)]
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"canaries": rows, "neighbours": "zero-out"}))
    assert dpcli("audit", pipeline(tmp_path), "--scores", str(path)).code == 3
    assert dpcli("audit", pipeline(tmp_path, text=GAUSSIAN.replace("add-remove", "zero-out")), "--scores", str(path)).code == 1
    result = dpcli("audit", pipeline(tmp_path, '[audit]\nneighbours = "add-remove"\n'), "--scores", str(path))
    assert (result.code, "expected zero-out, as in the scores' file, found add-remove" in result.err) == (2, True)
    path.write_text(json.dumps({"canaries": rows, "neighbours": "nearby"}))
    result = dpcli("audit", pipeline(tmp_path), "--scores", str(path))
    assert (result.code, "neighbours: expected one of add-remove" in result.err) == (2, True)


def test_a_handful_of_canaries_that_were_all_in_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("member,score\n" + "1,1.0\n" * 3)
    assert data_of(pipeline(tmp_path), "--scores", str(path))[0] == 0


def test_uncertified_claim_is_exit_3(tmp_path: Path) -> None:
    file = pipeline(tmp_path, text=GAUSSIAN.replace("1e-5", "0.0"))
    assert dpcli("audit", file, "--scores", scores_file(tmp_path, 1.0)).code == 3


@pytest.mark.long
def test_picture_and_page(tmp_path: Path) -> None:
    file, scores = pipeline(tmp_path), scores_file(tmp_path, 0.5)
    out = [str(tmp_path / name) for name in ("a.svg", "a.txt", "a.html")]
    result = dpcli("audit", file, "--scores", scores, "--picture", out[0], "--picture", out[1], "-o", f"html={out[2]}")
    assert result.code == 1
    svg = Path(out[0]).read_text()
    assert "VIOLATION at 95 %" in svg
    assert "ruled out by the claim" in svg
    assert "no information" in Path(out[1]).read_text()
    assert "<svg" in Path(out[2]).read_text()
    result = dpcli(
        "audit", "--canaries", "9", "--guesses", "9", "--correct", "9", "--epsilon", "9", "--delta", "0", "--picture", out[0]
    )
    assert result.code == 2
    assert "found counts or a replay" in result.err


def test_band_of_independent_runs(tmp_path: Path) -> None:
    scores = runs(one_sum(), 500, 1)
    rows = [{"member": bool(m), "score": float(s)} for m, s in zip(scores.members, scores.values, strict=True)]
    (tmp_path / "s.json").write_text(json.dumps(rows))
    out = tmp_path / "a.csv"
    file = pipeline(tmp_path)
    assert dpcli("audit", file, "--kind", "two-run", "--scores", str(tmp_path / "s.json"), "--picture", str(out)).code == 0
    assert "95 % at each threshold" in out.read_text()
    assert dpcli("audit", file, "--scores", str(tmp_path / "s.json"), "--picture", str(out)).code == 0
    assert "95 % at each threshold" not in out.read_text()


def test_example_program_passes_and_the_careless_one_fails() -> None:
    assert dpcli("audit", EXAMPLE, "--jobs", "1").code == 0
    result = dpcli("audit", EXAMPLE, "--jobs", "1", "--function", "laplace_mean:careless_mean")
    assert result.code == 1
    assert "VIOLATION at 95 %: epsilon >= " in result.out


@pytest.mark.long
def test_trials_are_the_same_in_one_process_and_in_several(tmp_path: Path) -> None:
    kept = [str(tmp_path / f"{jobs}.jsonl") for jobs in (1, 2)]
    found = [data_of(EXAMPLE, "--jobs", jobs, "--trials", "200", "--scores", path) for jobs, path in zip("12", kept, strict=True)]
    assert found[0][1]["counts"] == found[1][1]["counts"]
    assert found[0][1]["epsilon_lower"] == found[1][1]["epsilon_lower"]


def test_kept_trials_are_continued_and_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    whole = data_of(EXAMPLE, "--jobs", "1", "--trials", "200", "--scores", str(path))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:20]) + lines[20][:15])  # as a crash would leave it
    assert data_of(EXAMPLE, "--jobs", "1", "--trials", "200", "--scores", str(path)) == whole
    assert len(path.read_text().splitlines()) == len(lines) + 1
    size = path.stat().st_size
    assert data_of(EXAMPLE, "--jobs", "1", "--trials", "200", "--scores", str(path)) == whole
    assert path.stat().st_size == size


def test_trials_of_another_audit_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t.jsonl")
    data_of(EXAMPLE, "--jobs", "1", "--trials", "100", "--scores", path)
    for flags in (("--trials", "101"), ("--trials", "100", "--function", "laplace_mean:careless_mean")):
        result = dpcli("audit", EXAMPLE, "--jobs", "1", "--scores", path, *flags)
        assert result.code == 2
        assert "holds trials of another audit" in result.err


def test_kept_trials_of_other_code_are_refused(tmp_path: Path) -> None:
    """Also where a module that the function imports is what has changed."""
    (tmp_path / "parts.py").write_text("SCALE = 1.0\n")
    pair = "def pair(rng):\n    return 1.0, 0.0\n"
    program = f"from parts import SCALE\n{pair}def score(data, rng):\n    return data + SCALE * rng.laplace()\n"
    (tmp_path / "kept.py").write_text(program)
    (tmp_path / "kept.toml").write_text(Path(EXAMPLE).read_text().replace("laplace_mean:", "kept:"))
    flags = (
        "audit",
        "kept.toml",
        "--function",
        "kept:score",
        "--data",
        "kept:pair",
        "--jobs",
        "1",
        "--trials",
        "100",
        "--scores",
        "t.jsonl",
    )
    assert dpcli(*flags, folder=tmp_path).code == dpcli(*flags, folder=tmp_path).code == 0
    (tmp_path / "parts.py").write_text("SCALE = 0.5\n")
    result = dpcli(*flags, folder=tmp_path)
    assert result.code == 2 and "holds trials of another audit" in result.err


@of_each(
    "flags, hint",
    [
        (("--function", "slow:score", "--data", "slow:pair", "--scores", "t.jsonl"), "the trials so far are in t.jsonl"),
        (("--function", "slow:score", "--data", "slow:pair"), "the trials so far are lost"),
        (("--kind", "one-run", "--scores", "t.jsonl"), None),
        (("--kind", "two-run", "--scores", "t.jsonl"), None),
    ],
)
def test_ctrl_c_is_told_of_trials_only_where_a_function_has_some(
    flags: tuple[str, ...], hint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(request: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpcli.audit.audit_run.audit", interrupted)
    result = dpcli("audit", *flags, "--epsilon", "1", "--delta", "0", folder=tmp_path)
    assert result.code == 130
    assert hint in result.err if hint else "trials" not in result.err


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\ndef pair(rng):\n    return 1.0, 0.0\ndef score(data, rng):\n    time.sleep(0.02)\n    return data + rng.laplace()\n"
    )
    command = [sys.executable, "-m", "dpcli", "audit", "--function", "slow:score", "--data", "slow:pair", "--trials", "400"]
    command += ["--epsilon", "1", "--delta", "0", "--scores", "t.jsonl", "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert until(lambda: _lines(tmp_path / "t.jsonl") >= 5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "the trials so far are in t.jsonl" in err
    kept = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()[1:]]
    assert 0 < sum(len(record["scores"]) for record in kept) < 800


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


BROKEN = """
import os
def pair(rng): return 1, 0
def one(rng): return 3
def raises(d, rng): return 1 / d
def words(d, rng): return "x"
def leaves(d, rng): os._exit(3)
def nan(d, rng): return float("nan")
"""


@pytest.mark.long
def test_function_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    claim = ("--epsilon", "1", "--delta", "0", "--trials", "50")

    def audited(function: str, data: str = "broken:pair", jobs: str = "1") -> Result:
        return dpcli("audit", "--function", f"broken:{function}", "--data", data, "--jobs", jobs, *claim, folder=tmp_path)

    for found, message in (
        (audited("raises"), "broken:raises: raised ZeroDivisionError: division by zero"),
        (audited("raises", jobs="2"), "broken:raises: raised ZeroDivisionError: division by zero"),
        (audited("words"), "broken:words: expected a number as score, found str"),
        (audited("raises", "broken:one"), "broken:one: expected a pair (with the record, without it), found int"),
        (audited("leaves", jobs="2"), "broken:leaves: ended its process during a trial"),
    ):
        assert found.code == 2
        assert message in found.err


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom dpcli.cli.main import main\nmain(['audit', '--help'])\n"
    code += "assert not {'scipy.special', 'numpy.random'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
