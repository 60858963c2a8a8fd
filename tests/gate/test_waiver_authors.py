"""Waivers that somebody approves for himself, told by git blame where the policy asks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dpcli.gate.waivers import self_approved
from dpcli.git.authors import Author, authors_of
from tests.cases import of_each
from tests.gate.repositories import copied
from tests.gate.samples import OVER, judged, named, waiver

DAY = ("--as-of", "2030-06-01")


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
        ("ada", "ada", "x@y.invalid", False),
        ("ada", "ADA ", "x@y.invalid", False),
        ("ada", "\u0430da", "x@y.invalid", False),
        ("ada", "Ada Lovelace", "ada@y.invalid", False),
        ("ada@y.invalid", "Ada Lovelace", "Ada@Y.invalid", False),
        ("ada@y.invalid", "Ada Lovelace", "ada@z.invalid", True),
        ("Ada Lovelace", "ada lovelace", "x@y.invalid", False),
        ("Ada Lovelace <ada@y.invalid>", "Ada Lovelace", "x@y.invalid", False),
        ("The Countess <ada@y.invalid>", "Ada Lovelace", "ada@y.invalid", False),
        ("Eve <eve@y.invalid>", "Ada Lovelace", "ada@y.invalid", True),
        ("@ada", "Ada Lovelace", "ada@y.invalid", False),
        ("ada", "Ada Lovelace", "12345+ada@users.noreply.github.com", False),
        ("@ada", "Ada Lovelace", "ada+work@y.invalid", False),
        ("work", "Ada Lovelace", "ada+work@y.invalid", True),
        ("privacy board", "Ada Lovelace", "ada@y.invalid", True),
    ],
)
def test_nobody_approves_what_he_wrote(approver: str, name: str, mail: str, holds: bool, first: Path, tmp_path: Path) -> None:
    place = copied(first, tmp_path)
    waive(place, approver)
    commit(place, name, mail)
    found, message = verdict(place)
    assert found == ("waived" if holds else "fail")
    assert ("asks for the approval of another person" in message) == (not holds)
    assert named("budget", place / "train.toml", *DAY)["verdict"] == "waived"  # where no policy asks


SELF = (
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
    assert [each for each in SELF if self_approved(each, writers) is None] == []
    assert [each for each in OTHERS if self_approved(each, writers)] == []


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
    assert "git does not say who wrote it" in named("waiver", place / "train.toml", *policy, *DAY)["message"]
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


# How people write down who answers for something.
FORMS = (
    *("{mail}", "<{mail}>", "mailto:{mail}", "{tagged}", "Boss <{tagged}>", "{number}", "1{number}", "Boss <{number}>"),
    *("{name}", '"{name}" <boss@z.invalid>', "{name} <boss@z.invalid>", "{name} (boss)", "'{name}'", "Boss ({login})"),
    *("@{login}", "{login}", "https://forge.invalid/{login}", "forge.invalid/{login}/", "https://forge.invalid/@{login}"),
    *("Boss, {name}", "{name}; Boss", "Boss <boss@z.invalid>, {name} <{mail}>", "Boss and {login}", "{name}, head of privacy"),
)


@of_each("form", FORMS)
def test_no_form_of_a_name_makes_another_person(form: str) -> None:
    def called(login: str, name: str) -> str:
        mails = {
            "mail": f"{login}@y.invalid",
            "tagged": f"{login}+work@y.invalid",
            "number": f"12+{login}@users.noreply.forge.invalid",
        }
        return form.format(login=login, name=name, **mails)

    for mail in ("{}@y.invalid", "{}+home@y.invalid", "{}@users.noreply.forge.invalid", "7+{}@users.noreply.forge.invalid"):
        writer = Author("Ada Lovelace", mail.format("ada"))
        if "{mail}" in form or "{tagged}" in form:
            writer = Author(writer.name, writer.mail.replace("7+", "").replace("users.noreply.forge.", "y."))
        for approver in (called("ada", "Ada Lovelace"), called("ADA", "\u0410da  Lovelace")):
            assert self_approved(approver, (writer,)) == writer, (approver, writer)
        assert self_approved(called("eve", "Eve Curie"), (writer,)) is None, (form, writer)


@of_each("blank", ["\u3164", "\uffa0", "\u115f", "\u1160", "\u2800", "\U0001d159", "\u00a0"])
def test_nothing_to_be_seen_makes_no_other_person(blank: str, first: Path, tmp_path: Path) -> None:
    place = copied(first, tmp_path)
    writer = Author("ada", "x@y.invalid")
    for approver in (f"ada{blank}", f"{blank}ada", f"Boss {blank}<{blank}ada>"):
        assert self_approved(approver, (writer,)) == writer
    assert self_approved(f"Eve <{blank}>", (Author("", f"{blank}@y.invalid"),)) is None
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
