"""Tests of waivers: what they pardon, until when, and whether their approver wrote them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dpcli.gate.waivers import self_approver
from dpcli.git.authors import Author, authors_of
from tests.cases import of_each
from tests.command import dpcli
from tests.gate.repositories import copied, git
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
    assert "the waiver approved by ada is valid up to epsilon 5.5, found 6.9211" in found["message"]


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
            "gate.waiver[1].rule: expected a rule that can be waived, found DP103, whose findings mean that epsilon itself is wrong",
        ),
        (waiver("DP001"), "expected a rule that can be waived, found DP001"),
        (
            waiver("ledger"),
            "expected a code of dpcli lint, or one of budget, increase, horizon, statement, restatement, found 'ledger'",
        ),
        (waiver("bugdet", epsilon="3.0"), "did you mean 'budget'"),
        (waiver("DP999"), "gate.waiver[1].rule: expected the code of a rule, found DP999"),
        (waiver("dp105"), "found 'dp105'"),
        (waiver("budget"), "gate.waiver[1].epsilon: expected the epsilon up to which 'budget' is waived, found nothing"),
        (waiver("statement", epsilon="3.0"), "expected no epsilon with the rule 'statement', found 3.0"),
        (waiver("budget", epsilon="3.0", mechanism='"train"'), "expected no mechanism with 'budget'"),
        (waiver("DP105", mechanism='"trian"'), "gate.waiver[1].mechanism: expected the name of a mechanism, found 'trian'"),
        (waiver("DP105", reason='"  "'), "gate.waiver[1].reason: expected text that is not empty"),
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


@pytest.mark.long
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


def commit(folder: Path, name: str, mail: str = "x@y.invalid", message: str = "change") -> None:
    who = ("-c", f"user.name={name}", "-c", f"user.email={mail}", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
    subprocess.run(["git", "-C", str(folder), *who, "commit", "-qm", message], check=True)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which bob wrote a file that is over its budget, without a waiver; and a policy beside it."""
    folder = tmp_path_factory.mktemp("bob")
    subprocess.run(["git", "-C", str(folder), "init", "-q", "--template=", "-b", "main"], check=True)
    (folder / "train.toml").write_text(OVER)
    (folder / "policy.toml").write_text('format = 1\nwaiver_author = "another"\n')
    commit(folder, "bob")
    return folder


@pytest.fixture
def place(first: Path, tmp_path: Path) -> Path:
    return copied(first, tmp_path)


def waive(place: Path, approver: str = "ada", **keys: str) -> Path:
    path = place / "train.toml"
    path.write_text(OVER + waiver("budget", epsilon="7.0", approver=f'"{approver}"', **keys))
    return path


def verdict(place: Path, *flags: str) -> tuple[str, str]:
    found = named("budget", place / "train.toml", "--policy", str(place / "policy.toml"), *DAY, *flags)
    return found["verdict"], found["message"]


@pytest.mark.long
@of_each(
    "approver, name, mail, holds",
    [
        ("ada", "bob", "bob@y.invalid", True),
        ("ada", "\u0430DA ", "x@y.invalid", False),
        ("ada", "Ada Lovelace", "12345+ada@users.noreply.github.com", False),
        ("The Countess <ada@y.invalid>", "Ada Lovelace", "Ada@Y.invalid", False),
        ("work", "Ada Lovelace", "ada+work@y.invalid", True),
    ],
)
def test_nobody_approves_what_he_wrote(approver: str, name: str, mail: str, holds: bool, first: Path, tmp_path: Path) -> None:
    place = copied(first, tmp_path)
    waive(place, approver)
    commit(place, name, mail)
    found, message = verdict(place)
    assert found == ("waived" if holds else "fail")
    assert ("asks for another person's approval" in message) == (not holds)
    assert named("budget", place / "train.toml", *DAY)["verdict"] == "waived"  # where no policy asks


SELF = (
    *(
        "mailto:ada+gate@y.invalid",
        "boss (ada)",
        "https://forge.invalid/@ada",
        "Boss <12+ada@users.noreply.forge.invalid>",
        "Boss, Ada Lovelace",
    ),
    *("ada+gate@y.invalid", "ADA@Y.INVALID", "mailto:ada@y.invalid", "ada@y.invalid (Ada)", "1234+ada@users.noreply.github.com"),
    *("ada@users.noreply.github.com", "Ada Lovelace ada@z.invalid", "Lovelace, Ada", "Ada Lovelace, CTO", "Ada Lovelace (CTO)"),
    *(
        "Ada Lovelace / DPO",
        "Eve and Ada Lovelace",
        "eve & ada",
        "eve; @ada",
        "Ada Lovelace.",
        "(ada)",
        "by Ada Lovelace",
        "'Ada Lovelace'",
    ),
    *("CTO: Ada Lovelace", "Ada Lovelace - CTO", "Ada Lovelace for the board", "[ada]"),
)
OTHERS = (
    *(
        "eve",
        "Eve Lovelace",
        "Ada Byron",
        "eve+ada@y.invalid",
        "eve@ada.invalid",
        "1234+eve@users.noreply.github.com",
    ),
    *("@board/privacy", "privacy board", "Eve (CTO)", "ada@z.invalid", "Adam", "Sandra", "Ada Byron <ada@z.invalid>", "@", "<>"),
)


@of_each("mail", ["ada@y.invalid", "ada+git@y.invalid"])
def test_a_text_that_names_the_writer_in_any_form_is_his_own(mail: str) -> None:
    writers = (Author("Ada Lovelace", mail),)
    assert [each for each in SELF if self_approver(each, writers) is None] == []
    assert [each for each in OTHERS if self_approver(each, writers)] == []
    assert self_approver("Lovelace, Ada", (Author("Ada Lovelace", "x@y.invalid"),))


@pytest.mark.parametrize(("changed", "holds"), [("epsilon", False), ("expires", False), ("reason", True)])
def test_what_a_waiver_grants_is_what_counts(changed: str, holds: bool, place: Path) -> None:
    """Somebody else wrote it, and its approver changed a line."""
    path = waive(place)
    commit(place, "bob")
    was, now = {"epsilon": ("7.0", "7.5"), "expires": ("2030-06-30", "2030-06-29"), "reason": ("launch", "Launch")}[changed]
    assert path.read_text().count(was) == 1
    path.write_text(path.read_text().replace(was, now))
    commit(place, "ada")
    assert verdict(place)[0] == ("waived" if holds else "fail")


def test_where_git_does_not_know_the_waiver_holds_and_a_warning_says_so(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    waive(place)
    policy = ("--policy", str(place / "policy.toml"))
    assert "git does not know its author" in named("waiver", place / "train.toml", *policy, *DAY)["message"]
    commit(place, "ada")
    assert verdict(place)[0] == "fail"
    (place / "other").write_text("x")
    commit(place, "bob")
    shallow = tmp_path_factory.mktemp("clone") / "c"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{place}", str(shallow)], check=True)
    assert verdict(shallow)[0] == "waived"
    assert "fetch-depth: 0" in named("waiver", shallow / "train.toml", "--policy", str(shallow / "policy.toml"), *DAY)["message"]
    alone = tmp_path_factory.mktemp("alone")
    for name in ("train.toml", "policy.toml"):
        (alone / name).write_bytes((place / name).read_bytes())
    assert verdict(alone)[0] == "waived"
    assert judged(alone / "train.toml", *policy, *DAY)["exit_code"] == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("committed", [True, False])
def test_a_mailmap_makes_nobody_another_person(committed: bool, place: Path) -> None:
    """Whoever writes the waiver may write that file too; who is one person by it stays one."""
    waive(place)
    commit(place, "ada", "ada@y.invalid")
    (place / ".mailmap").write_text("Bob <bob@y.invalid> <ada@y.invalid>\n")
    if committed:
        commit(place, "ada", "ada@y.invalid")
    assert verdict(place)[0] == "fail"
    waive(place, "bob")
    commit(place, "ada", "ada@y.invalid")
    assert verdict(place)[0] == "fail"


@of_each(
    "message, holds",
    [
        ("one\n\nCo-authored-by: Ada Lovelace <ada@y.invalid>", False),
        ("one\n\nco-authored-by: A. L. <ada+work@y.invalid>\nCo-authored-by: Eve <eve@y.invalid>", False),
        ("one\n\nCo-authored-by: Eve <eve@y.invalid>\nCo-Authored-By: Ada <>", False),
        ("one\n\nCo-authored-by: Eve <eve@y.invalid>", True),
        ("one\n\nReviewed-by: Ada Lovelace <ada@y.invalid>", True),
        ("one\n\nCo-authored-by:", True),
    ],
)
def test_who_wrote_it_with_another_does_not_approve_it(message: str, holds: bool, first: Path, tmp_path: Path) -> None:
    """A forge makes one commit of several people's: its author is one of them."""
    place = copied(first, tmp_path)
    waive(place)
    commit(place, "bob", "bob@y.invalid", message)
    assert verdict(place)[0] == ("waived" if holds else "fail")


def test_authors_of_lines(place: Path) -> None:
    """A first commit is one; a line that stands nowhere in git is nobody's, whatever it holds."""
    path = place / "train.toml"
    path.write_text("author mallory\n" + path.read_text())
    commit(place, "eve", "eve@y.invalid")
    path.write_text(path.read_text() + "# more\n")
    last = len(path.read_text().splitlines())
    found = authors_of(str(path), [1, 2, last])
    assert found == {1: Author("eve", "eve@y.invalid"), 2: Author("bob", "x@y.invalid")}
    assert authors_of(str(place / "nowhere.toml"), [1]) == {} == authors_of(str(path), [10**6]) == authors_of(str(path), [])


@of_each("blank", ["\u3164", "\uffa0", "\u115f", "\u1160", "\u2800", "\U0001d159", "\u00a0"])
def test_nothing_to_be_seen_makes_no_other_person(blank: str, first: Path, tmp_path: Path) -> None:
    place = copied(first, tmp_path)
    writer = Author("ada", "x@y.invalid")
    for approver in (f"ada{blank}", f"{blank}ada", f"Boss {blank}<{blank}ada>"):
        assert self_approver(approver, (writer,)) == writer
    assert self_approver(f"Eve <{blank}>", (Author("", f"{blank}@y.invalid"),)) is None
    if blank.isprintable():
        waive(place, f"a{blank}da")
        commit(place, "ada")
        assert verdict(place)[0] == "fail"


def test_a_link_is_of_whoever_wrote_what_it_leads_to(place: Path) -> None:
    waive(place)
    (place / "train.toml").rename(place / "real.toml")
    (place / "train.toml").symlink_to("real.toml")
    commit(place, "ada")
    assert verdict(place)[0] == "fail"
    (place / "train.toml").unlink()
    (place / "folder").mkdir()
    (place / "real.toml").rename(place / "folder" / "real.toml")
    (place / "train.toml").symlink_to("folder/real.toml")
    commit(place, "bob")
    assert verdict(place)[0] == "fail"  # moved by another, and as it was
    waive(place, "bob")
    commit(place, "ada")
    assert verdict(place)[0] == "waived"
