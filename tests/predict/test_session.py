"""A session: charged before it is answered, ended where it was planned to, never answered twice, and never beyond what is paid."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.rounding import up
from dpcli.predict.aggregators import ConfidentGnMax
from dpcli.predict.pate import pate_session as session_module
from dpcli.predict.pate.pate_plan import VotingPlan, plan_of
from dpcli.predict.pate.pate_session import hold_session
from dpcli.predict.pate.transcript import Transcript, path_of, read_transcript
from dpcli.predict.pate.vote_account import vote_account
from dpcli.predict.pate.vote_release import compared_numbers
from dpcli.predict.vote_counts import vote_counts
from tests.cases import fresh_random
from tests.command import ROOT, dpcli
from tests.predict.samples import CONFIDENT, GNMAX, LNMAX, counts, saved, written

ENTRIES = {"gnmax": GNMAX, "confident-gnmax": CONFIDENT, "lnmax": LNMAX}


def each_entry(test: Any) -> Any:
    """In a quick run one of them."""
    return pytest.mark.sampled(1)(pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)(test))


def planned(folder: Path, entry: str = CONFIDENT, keys: str = 'votes = "votes.npy"', table: Any = None) -> VotingPlan:
    saved(folder, table)
    output = f'\noutput = "{folder}/run"'
    return plan_of(str(written(folder, entry, keys + output)))


def holding(plan: VotingPlan, seed: int | None = None) -> Transcript:
    return hold_session(plan, None, seed, lambda put, queries: None, lambda: pytest.fail("no student is asked")).transcript


def lines(plan: VotingPlan) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path_of(plan)).read_text().splitlines()]


@pytest.mark.long
@pytest.mark.usefixtures("whole_statements")
@each_entry
def test_a_session_labels_what_it_was_planned_to_and_leaves_a_statement(entry: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, entry)
    outcome = holding(plan)
    assert outcome.queries == list(range(plan.queries)) and outcome.closed and not outcome.lost
    assert set(outcome.labels) == outcome.answered <= set(outcome.queries)
    winners = counts()[sorted(outcome.labels)].argmax(axis=1)
    assert np.mean([outcome.labels[query] == winner for query, winner in zip(sorted(outcome.labels), winners, strict=True)]) > 0.7
    statement = json.loads((tmp_path / "run" / "statement.json").read_text())
    assert statement["result"]["epsilon_upper"] == plan.account.upper and statement["answered"] == len(outcome.labels)
    assert len((tmp_path / "run" / "labels.csv").read_text().splitlines()) == 1 + len(outcome.labels)


@each_entry
def test_every_charge_is_durable_before_its_noise(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds, when noise is drawn, exactly the queries, and the answers, that it is drawn for."""
    plan = planned(tmp_path, entry)
    cls = type(plan.aggregator)
    reached, winners = cls.reached, cls.winners

    def open_now() -> tuple[int, int]:
        """Queries that were charged and have no outcome, and answers."""
        kept = read_transcript(plan)
        assert kept is not None
        return len(set(kept.queries) - kept.ended), len(kept.answered - kept.ended)

    def compare(self: Any, largest: Any, stream: Any) -> list[bool]:
        assert open_now() == (len(largest), 0)
        return reached(self, largest, stream)

    def answer(self: Any, votes: Any, stream: Any) -> list[int]:
        assert open_now()[1] == len(votes)
        return winners(self, votes, stream)

    monkeypatch.setattr(cls, "reached", compare)
    monkeypatch.setattr(cls, "winners", answer)
    monkeypatch.setattr(session_module, "PARTS", 7)
    assert holding(plan).closed
    # In the file's order every outcome comes after the charges that it rests on.
    charged: set[int] = set()
    put = 0
    for line in lines(plan)[1:]:
        if line["what"] == "ask":
            put = line["queries"][1]
        elif line["what"] == "answer":
            assert max(line["of"]) < put and not charged & set(line["of"])
            charged |= set(line["of"])
        elif line["what"] == "outcome":
            assert {int(query) for query in line["labels"]} <= charged and line["queries"][1] == put


@each_entry
def test_a_session_that_ended_is_not_held_again(entry: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, entry)
    first, before = holding(plan), Path(path_of(plan)).read_bytes()
    assert holding(plan).labels == first.labels
    assert Path(path_of(plan)).read_bytes() == before


@each_entry
def test_what_is_paid_for_and_was_not_there_is_told_with_what_it_would_cost(entry: str, tmp_path: Path) -> None:
    """The note is shown when it is held, and when it is asked for again; nothing is told where all that is paid for was there."""
    plan = planned(tmp_path, entry, table=counts()[:15])
    key = plan.aggregator.queries_key
    fewer = tmp_path / "fewer.toml"
    fewer.write_text(
        re.sub(rf"^{key} = \d+$", f"{key} = 15", Path(plan.path).read_text(), flags=re.MULTILINE).replace("/run", "/fewer")
    )
    cost = up(plan_of(str(fewer)).account.upper)
    message = f"the file pays for {plan.queries} queries, but there are only 15: {key} = 15 would cost epsilon <= {cost}\n"
    for path, shown in ((plan.path, True), (plan.path, True), (str(fewer), False), (str(fewer), False)):
        outcome = dpcli("pate", "label", path, folder=tmp_path)
        assert outcome.code == 0 and (message in outcome.out) is shown is ("there are only" in outcome.out)
        assert "no ledger was charged: the costs of sessions on the same data add up (use --ledger)\n" in outcome.out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("answers", [7, 1, 20])
def test_it_stops_at_the_last_answer(answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session stops within a part of the queries, of which more would be answered."""
    monkeypatch.setattr(session_module, "PARTS", 5)
    outcome = holding(planned(tmp_path, f"{CONFIDENT}\nanswers = {answers}"))
    assert len(outcome.answered) == len(outcome.labels) == answers


@pytest.mark.long
@each_entry
def test_it_stops_at_the_budget(entry: str, tmp_path: Path) -> None:
    """A session gives as many answers as fit, fixed beforehand; one more would not."""
    from dpcli.analysis.account import account
    from dpcli.predict.aggregators import aggregator_class
    from dpcli.predict.prediction_plan import with_entry

    complete = planned(tmp_path, entry)
    path = tmp_path / "votes.toml"
    path.write_text(path.read_text().replace("epsilon = 8.0", f"epsilon = {0.7 * complete.account.upper}"))
    plan = plan_of(str(path))
    assert (
        0 < plan.answers < plan.stated_answers
        and plan.account.budget is not None
        and plan.account.budget.verdict in ("pass", "warn")
    )
    more = aggregator_class(plan.entry).limit(plan.entry, plan.answers + 1)
    outcome = account(with_entry(plan.pipeline, more)).budget
    assert outcome is not None and outcome.verdict == "fail"
    assert len(holding(plan).answered) <= plan.answers
    filed, shown = (dpcli(*command, str(path), "-f", "json", folder=tmp_path) for command in (("account",), ("pate", "account")))
    of_file, of_session = json.loads(filed.out), json.loads(shown.out)
    assert filed.code == shown.code == of_session["exit_code"] == 1
    assert all(of_file[key] == of_session[key] for key in ("result", "budget", "statement"))
    assert of_session["session"]["answers"] == plan.answers < of_session["answers"] == plan.stated_answers
    for form in ("text", "table", "markdown", "total"):
        filed, shown = (dpcli(*command, str(path), "-f", form, folder=tmp_path) for command in (("account",), ("pate", "account")))
        assert filed.code == shown.code == 1 and shown.out.startswith(filed.out.split("\n\n")[0])
        stops = f"a session stops at {plan.answers} answers: epsilon <= {up(plan.account.upper)}"
        assert (stops in shown.out.replace("\\", "").replace("\n", " ")) is (form != "total")
    path.write_text(path.read_text().replace(f"epsilon = {0.7 * complete.account.upper}", "epsilon = 0.001"))
    result = dpcli("pate", "label", str(path), folder=tmp_path)
    assert result.code == 1 and "expected at most epsilon 0.001" in result.err


def test_a_transcript_of_another_file_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    holding(plan)
    path = tmp_path / "votes.toml"
    path.write_text(path.read_text().replace("sigma = 40.0", "sigma = 41.0"))
    with pytest.raises(InputError, match="expected a transcript of this file"):
        holding(plan_of(str(path)))


DAMAGE = {
    "not json": b"hello\n",
    "another schema": b'{"schema": "x/v1"}\n',
    "a list": b"[1]\n",
    "binary": b"\xff\xfe\n",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_transcript_is_refused(name: str, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    holding(plan)
    Path(path_of(plan)).write_bytes(DAMAGE[name])
    with pytest.raises(InputError, match="expected a transcript"):
        holding(plan)
    assert Path(path_of(plan)).read_bytes() == DAMAGE[name]


PUBLISHED = {"labels.csv", "statement.md", "statement.json", "votes.json"}


def test_what_is_private_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Every file that a session leaves, but those that hold what was released."""
    holding(planned(tmp_path))
    os.chmod(tmp_path / "run", 0o755)
    open_to_all = {one.name for one in (tmp_path / "run").rglob("*") if one.is_file() and one.stat().st_mode & 0o077}
    assert open_to_all <= PUBLISHED


@each_entry
def test_votes_that_changed_since_are_neither_asked_nor_priced(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is changed, and wherever the session was: before its end, and after it."""
    plan = planned(tmp_path, entry)
    other = counts()
    other[-1, :2] += [1, -1]  # of the last query alone
    with pytest.raises(RuntimeError):
        hold_session(plan, None, None, stopping, lambda: pytest.fail("no student is asked"))
    for ended in (False, True):
        saved(tmp_path, other)
        if not ended:
            with pytest.raises(InputError, match="expected the votes with which its session began"):
                holding(plan)
        with pytest.raises(InputError, match="expected the votes with which its session began"):
            vote_account(plan)
        saved(tmp_path)
        assert holding(plan).closed and vote_account(plan).realised is not None


def stopping(put: int, queries: int) -> None:
    raise RuntimeError


def test_a_transcript_whose_first_line_lacks_something_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, GNMAX.replace("40\n", "4\n", 1))
    holding(plan)
    head, *rest = Path(path_of(plan)).read_text().splitlines()
    for key in json.loads(head):
        cut = json.dumps({name: value for name, value in json.loads(head).items() if name != key})
        Path(path_of(plan)).write_text("\n".join([cut, *rest, ""]))
        with pytest.raises(InputError, match="expected a transcript"):
            holding(plan)


def test_what_is_compared_with_the_threshold_is_what_is_priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a student that predicts: whole votes, of which a vote that moves changes one at most, in the session and in its price alike."""
    seen: list[float] = []
    complete = ConfidentGnMax.reached
    monkeypatch.setattr(
        ConfidentGnMax, "reached", lambda self, largest, stream: seen.extend(largest) or complete(self, largest, stream)
    )
    random = np.random.default_rng(7)
    message = random.dirichlet(np.full(10, 0.3), 60)
    (tmp_path / "queries.csv").write_text("a,b\n" + "0.5,1.5\n" * 60)
    message[:20] = 0.1  # half votes, where each label is as likely
    plan = planned(tmp_path, keys='votes = "votes.npy"\nqueries = "queries.csv"\ncheck = "student"')
    outcome = hold_session(
        plan, None, 3, lambda put, queries: None, lambda: lambda holding, first, stop: message[first:stop]
    ).transcript
    votes = vote_counts(counts(), 250, 10, "votes")
    assert seen == compared_numbers(votes, outcome).tolist() and all(value == int(value) >= 0 for value in seen)
    for teachers in (5, 15, 250):
        table = random.multinomial(teachers, random.dirichlet(np.ones(4), 60))
        before = vote_counts(table, teachers, 4, "votes")
        moved = table.copy()
        moved[np.arange(60), table.argmax(axis=1)] -= 1
        moved[np.arange(60), random.integers(0, 4, 60)] += 1
        after = vote_counts(moved, teachers, 4, "votes")
        for guess in (np.full((60, 4), 0.25), np.full((60, 4), 0.1), random.dirichlet(np.ones(4), 60)):
            steps = before.differences(0, guess) - after.differences(0, guess)
            assert np.abs(steps).max() <= 1.0


def test_a_cut_transcript_goes_on_from_wherever_it_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each line, and at its ends, also where an older one is put back: no query is put twice, what is gone is lost."""
    monkeypatch.setattr(session_module, "_write_outputs", lambda plan, content: None)
    plan = planned(tmp_path, GNMAX.replace("40\n", "4\n", 1))
    holding(plan)
    complete = Path(path_of(plan)).read_bytes()
    ends = [place + 1 for place, byte in enumerate(complete) if byte == ord("\n")]
    for cut in sorted({cut for end in ends[1:] for cut in (end - 20, end - 2, end - 1, end)}):
        Path(path_of(plan)).write_bytes(complete[:cut])
        before = read_transcript(plan)
        assert before is not None
        session, labels, charged = list(before.queries), dict(before.labels), set(before.answered)
        outcome = holding(plan)
        assert outcome.queries == list(range(4)) and outcome.closed
        assert outcome.queries[: len(session)] == session and charged <= outcome.answered
        assert labels.items() <= outcome.labels.items()
        assert outcome.labels == labels and outcome.answered == set(range(4))  # what has no label here any more is charged and lost


def test_what_a_student_had_predicted_of_lost_queries_is_not_priced(tmp_path: Path) -> None:
    """The guarantee is told all the same."""
    (tmp_path / "queries.csv").write_text("a,b\n" + "0.5,1.5\n" * 60)
    plan = planned(tmp_path, keys='votes = "votes.npy"\nqueries = "queries.csv"\ncheck = "student"')
    message = np.full((60, 10), 0.1)

    def again() -> Transcript:
        return hold_session(plan, None, None, lambda *_: None, lambda: lambda holding, first, stop: message[first:stop]).transcript

    again()
    complete = Path(path_of(plan)).read_bytes().splitlines(keepends=True)
    assert vote_account(plan).realised is not None
    Path(path_of(plan)).write_bytes(b"".join(complete[: len(complete) // 2]))
    assert again().lost and vote_account(plan).realised is None


def test_an_interrupted_write_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(tmp_path)
    monkeypatch.setattr(os, "write", lambda file, text: len(text) - 1)
    with pytest.raises(OSError, match="No space left"):
        holding(plan)


@pytest.mark.long
def test_seeded_noise_is_marked_and_repeats(tmp_path: Path) -> None:
    first = holding(planned(tmp_path), 7)
    shutil.rmtree(tmp_path / "run")
    assert holding(planned(tmp_path), 7).labels == first.labels and not first.private
    assert "NOT PRIVATE" in (tmp_path / "run" / "statement.md").read_text()
    with pytest.raises(InputError, match="--insecure-seed"):
        holding(planned(tmp_path))
    result = dpcli(
        "pate", "label", str(tmp_path / "votes.toml"), "--insecure-seed", "7", "--ledger", opened(tmp_path), folder=tmp_path
    )
    assert result.code == 2 and "cannot be used with --ledger" in result.err


@each_entry
@pytest.mark.parametrize("agreed", [True, False])
def test_the_guarantee_is_told_apart_from_what_depends_on_the_votes(entry: str, agreed: bool, tmp_path: Path) -> None:
    """Even if this is the larger: where no teachers agree, it is what Renyi divergences alone can say."""
    table = np.zeros((60, 10), dtype=int)
    table[:] = [250, *[0] * 9] if agreed else 25
    plan = planned(tmp_path, entry, table=table)
    outcome = holding(plan)
    shown = dpcli("pate", "account", plan.path, "-f", "json", folder=tmp_path)
    given = [one["epsilon"] for one in json.loads(shown.out)["unsanitised_do_not_publish"].values()]
    text = " ".join(dpcli("pate", "account", plan.path, folder=tmp_path).out.split())
    larger = max(given) > plan.account.upper
    assert (
        ("exceeds the guarantee, which still holds" in text) is larger is (not agreed and entry != CONFIDENT)
    )  # which leaves these without an answer
    if outcome.answered:
        beforehand = (
            f"had {len(outcome)} queries and {len(outcome.answered)} answers been declared beforehand, the session would cost"
        )
        assert f"{beforehand} epsilon <= {up(json.loads(shown.out)['held']['epsilon_had_it_been_planned_so'])} whatever" in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("begin_session", "no query was answered; run the same command again to begin"),
        ("QueryParts.ask_part", "run the same command again to continue with the next query"),
        ("_write_outputs", "run the same command again to write the labels and the statement"),
    ],
)
def test_who_interrupts_is_told_what_the_same_command_does_next(
    at: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **keywords: Any) -> None:
        raise KeyboardInterrupt

    plan = planned(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(f"dpcli.predict.pate.pate_session.{at}", interrupted)
        outcome = dpcli("pate", "label", plan.path, folder=tmp_path)
    assert outcome.code == 130 and message in outcome.err and outcome.out == ""
    before = read_transcript(plan)
    assert (before is None, before is not None and before.closed) == (at == "begin_session", at == "_write_outputs")
    assert dpcli("pate", "label", plan.path, folder=tmp_path).code == 0 and (tmp_path / "run" / "labels.csv").exists()


def opened(folder: Path, epsilon: float = 20.0) -> str:
    place = str(folder / "spent.db")
    arguments = ["--epsilon", str(epsilon), "--delta", "1e-6", "--unit", "example", "--adjacency", "add-remove", "--filter", "rdp"]
    assert dpcli("budget", "init", place, "--dataset", "people", *arguments).code == 0
    return place


def entries(place: str) -> list[str]:
    log = json.loads(dpcli("budget", "export", place, "-f", "json").out)
    kinds = [entry["content"]["kind"] if "content" in entry else entry["kind"] for entry in log["entries"]]
    return [kind for kind in kinds if kind != "count"]


def test_the_ledger_is_charged_once_and_before(tmp_path: Path) -> None:
    place, path = opened(tmp_path), str(planned(tmp_path).path)
    for _ in range(2):
        outcome = dpcli("pate", "label", path, "--ledger", place, folder=tmp_path)
        assert outcome.code == 0 and "ledger" not in outcome.out
    assert entries(place)[1:] == ["reserve", "start", "commit"]
    refused = dpcli("pate", "label", path, folder=tmp_path)
    assert refused.code == 2 and "expected the --ledger that was charged" in refused.err


def test_a_session_that_crashed_goes_on_in_its_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, plan = opened(tmp_path), planned(tmp_path)
    winners, calls = type(plan.aggregator).winners, []

    def failing(self: Any, votes: Any, stream: Any) -> list[int]:
        calls.append(len(votes))
        if len(calls) == 5:
            raise RuntimeError("crash")
        return winners(self, votes, stream)

    monkeypatch.setattr(type(plan.aggregator), "winners", failing)
    assert dpcli("pate", "label", plan.path, "--ledger", place, folder=tmp_path).code == 70
    assert entries(place)[1:] == ["reserve", "start"]
    before = read_transcript(plan)
    assert before is not None and len(before.lost) == 1 and before.lost[0] in before.answered
    assert dpcli("pate", "label", plan.path, folder=tmp_path).code == 2  # not without its books
    assert dpcli("pate", "label", plan.path, "--ledger", place, folder=tmp_path).code == 0
    assert entries(place)[1:] == ["reserve", "start", "commit"]
    after = read_transcript(plan)
    assert after is not None and after.lost == before.lost and before.lost[0] not in after.labels
    complete = Path(path_of(plan)).read_bytes()
    Path(path_of(plan)).write_bytes(complete[: len(complete) // 2])  # a copy from before its end
    kept = read_transcript(plan)
    assert kept is not None and dpcli("pate", "label", plan.path, "--ledger", place, folder=tmp_path).code == 0
    after = read_transcript(plan)
    assert after is not None and after.labels == kept.labels and after.lost  # it answers nothing, whatever folder it is in


SLOW = """
import sys, time
from dpcli.predict.pate import transcript
add = transcript.TranscriptFile.add
def slowly(self, line):
    time.sleep(0.004)
    add(self, line)
    time.sleep(0.004)
transcript.TranscriptFile.add = slowly
from dpcli.cli.main import run
run(sys.argv[1:])
"""


@pytest.mark.parametrize("kills", [pytest.param(1, marks=pytest.mark.long), pytest.param(8, marks=pytest.mark.nightly)])
def test_kill_at_any_moment_gives_no_answer_that_was_not_charged(kills: int, tmp_path: Path) -> None:
    """Killed again and again until it has ended: what stands there at each moment is checked."""
    plan, random = planned(tmp_path), np.random.default_rng(fresh_random().getrandbits(32))
    seen: dict[int, int] = {}
    charged: set[int] = set()
    for turn in range(kills + 1):
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW, "pate", "label", plan.path], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if turn < kills:
            begun = len(Path(path_of(plan)).read_bytes()) if Path(path_of(plan)).exists() else 0
            deadline = time.monotonic() + 300.0
            while process.poll() is None and time.monotonic() < deadline:
                if Path(path_of(plan)).exists() and len(Path(path_of(plan)).read_bytes()) > begun:
                    break
                time.sleep(0.002)
            time.sleep(float(random.uniform(0.0, 0.06)))
            process.send_signal(signal.SIGKILL)
        process.wait(300)
        outcome = read_transcript(plan)
        assert outcome is not None
        assert set(outcome.labels) <= outcome.answered <= set(outcome.queries)
        assert len(set(outcome.queries)) == len(outcome.queries) <= plan.queries
        assert seen.items() <= outcome.labels.items() and charged <= set(outcome.queries)
        assert all(query in seen for query in outcome.labels if query in charged), "a lost query was answered after all"
        seen, charged = dict(outcome.labels), {*charged, *outcome.queries}
    assert outcome.closed and outcome.queries == list(range(plan.queries))


def test_the_file_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    from dpcli.sessions.folder import exclusive

    plan = planned(tmp_path)
    with exclusive(plan.folder), pytest.raises(InputError, match="no other run"):
        holding(plan)


def test_a_copy_of_a_session_answers_nothing_wherever_it_was_made(tmp_path: Path) -> None:
    """A second set of answers to what was charged once; the first goes on, under another name of its folder too."""
    plan = planned(tmp_path)
    full = plan_of(str(tmp_path / "votes.toml"))
    with pytest.raises(RuntimeError):
        hold_session(plan, None, None, stopping, lambda: pytest.fail("no student is asked"))
    complete = Path(path_of(plan)).read_bytes().splitlines(keepends=True)
    for kept in range(len(complete) + 1):
        folder = tmp_path / f"copy{kept}"
        shutil.copytree(tmp_path / "run", folder)
        (folder / "transcript.jsonl").write_bytes(b"".join(complete[:kept]))
        other = dataclasses.replace(full, pate=dataclasses.replace(full.pate, output=str(folder)))
        with pytest.raises(LedgerError, match="a copy of"):
            holding(other)
        assert (folder / "transcript.jsonl").read_bytes() == b"".join(complete[:kept])
    (tmp_path / "run").rename(tmp_path / "moved")
    moved = dataclasses.replace(full, pate=dataclasses.replace(full.pate, output=str(tmp_path / "moved")))
    assert holding(moved).closed
