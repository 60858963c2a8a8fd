"""Tests that a pipeline of the base cannot disappear unseen, wherever it went and whatever is at its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import dpcli
from tests.gate.repositories import committed, copied, gate, git, submodule
from tests.gate.samples import GATE

DEARER = GATE.replace("steps = 5_000", "steps = 8_000")  # within the cap
STUBS: dict[str, bytes] = {
    "empty": b"",
    "comment": b"# moved\n",
    "toml": b'title = "it"\n',
    "broken": b"= [\n",
    "utf-16": GATE.encode("utf-16"),
    "nul": b"\0" * 10,
    "policy": b"format = 1\nepsilon = 100.0\n",
    "schedule": b'format = 1\n[[run]]\nfile = "x.toml"\n',
    "misspelt": GATE.replace("[privacy]", "[privcy]").replace("[[mechanism]]", "[[run]]").encode(),
}


@pytest.fixture(scope="module")
def two(first_commit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of two pipelines, and a policy that holds one of them to more."""
    root = copied(first_commit, tmp_path_factory.mktemp("two"))
    (root / "ads").mkdir()
    (root / "ads" / "a.toml").write_text(GATE.replace("ads-ranking", "a"))
    (root / "policy.toml").write_text('format = 1\n[[rule]]\nfiles = "ads/*.toml"\nepsilon = 2.0\nmax_increase = 0.1\n')
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    return root


IN_PLACE = (*STUBS, "gone", "folder", "link")
TO = ("x/a.toml", "x/a.conf", "ads/b.cfg")
GIVEN: tuple[tuple[str, ...], ...] = ((".",), (), ("ads", "train.toml"), ("train.toml",))


def told_of_a_move(root: Path, stub: str, to: str, given: tuple[str, ...]) -> bool:
    """Whether the gate says no to a pipeline that is dearer in another place and a stub in its own."""
    place, new = root / "ads" / "a.toml", root / to
    new.parent.mkdir(exist_ok=True)
    new.write_text(DEARER.replace("ads-ranking", "a"))
    place.unlink()
    if stub == "folder":
        place.mkdir()
    elif stub == "link":
        place.symlink_to("../train.toml")
    elif stub != "gone":
        place.write_bytes(STUBS[stub])
    result = gate(root, *given, "--base-ref", "HEAD", "--policy", "policy.toml")
    said = result.out + result.err
    return result.code in (1, 2) and any(name in said for name in ("a.toml", "a.conf", "b.cfg"))


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("stub", IN_PLACE)
def test_no_stub_in_place_of_a_pipeline_is_a_way_out(two: Path, stub: str, tmp_path: Path) -> None:
    """With every way to say which files are judged, and every new place."""
    first = IN_PLACE.index(stub)
    cases = [(TO[(first + number) % len(TO)], given) for number, given in enumerate(GIVEN)]
    assert [case for case in cases if not told_of_a_move(copied(two, tmp_path / f"{case[1]}"), stub, *case)] == []


def deleted_link(root: Path) -> None:
    (root / "link.toml").unlink()


def led_elsewhere(root: Path) -> None:
    (root / "link.toml").unlink()
    (root / "link.toml").symlink_to("train.toml")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", [deleted_link, led_elsewhere])
def test_what_a_link_led_to_does_not_leave(repository: Path, change: Callable[[Path], None]) -> None:
    (repository / "q").mkdir()
    (repository / "q" / "real.cfg").write_text(GATE.replace("ads-ranking", "real"))
    (repository / "link.toml").symlink_to("q/real.cfg")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "link")
    assert gate(repository, ".", "--base-ref", "HEAD").code == 0
    change(repository)
    (repository / "q" / "real.cfg").write_text(DEARER.replace("ads-ranking", "real"))
    result = gate(repository, ".", "--base-ref", "HEAD")
    said = result.out + result.err
    assert "link.toml" in said, said
    if change is deleted_link:
        assert result.code == 1 and f"was moved to {os.path.join('q', 'real.cfg')}" in result.err


def test_a_pipeline_that_is_written_anew_is_still_one(repository: Path) -> None:
    """What says something else than before under its own name is judged under that name; nothing was moved."""
    (repository / "train.toml").write_text(
        'format = 1\n[privacy]\nunit = "user"\nadjacency = "add-remove"\nmax_contributions = 5\ndataset_size = 2_000_000\n'
        'delta = 1e-8\nreleases = "final-model"\n[budget]\nepsilon = 3.0\n[[mechanism]]\nname = "it"\ntype = "pure-dp"\nepsilon = 0.1\n'
    )
    result = dpcli("gate", "train.toml", "--base-ref", "HEAD", "-f", "text", folder=repository)
    assert "deleted" not in result.out + result.err and "moved" not in result.out + result.err


WORDS = ("purpose", "data", "product", "code", "access", "security", "retention", "utility", "bias")
LONG = GATE + "\n[disclosure]\n" + "".join(f'{key} = "stated"\n' for key in WORDS)


@pytest.mark.long
def test_a_stub_that_keeps_most_of_the_words_is_none(repository: Path) -> None:
    (repository / "p").mkdir()
    (repository / "p" / "b.toml").write_text(LONG)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "b")
    head, _, rest = LONG.partition("[privacy]")
    (repository / "p" / "b.toml").write_text(head + rest[rest.index("[disclosure]") :])
    (repository / "p" / "b.conf").write_text(LONG.replace("steps = 5_000", "steps = 8_000"))
    for given in ((".",), ("train.toml",), ()):
        result = gate(repository, *given, "--base-ref", "HEAD")
        assert result.code in (1, 2) and "p/b" in result.out + result.err, (given, result.out)


def test_one_file_that_is_gone_became_one_other(repository: Path) -> None:
    (repository / "train.toml").unlink()
    for name in ("one", "two", "three"):
        (repository / f"{name}.toml").write_text(GATE)
    result = gate(repository, ".", "--base-ref", "HEAD", "--max-increase", "0.1")
    assert result.out.count("new file: no earlier version") == 2, result.out


def test_what_the_base_alone_has_is_not_gone_and_not_renamed(repository: Path) -> None:
    git(repository, "branch", "change")
    (repository / "later.toml").write_text(GATE.replace("ads-ranking", "later"))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "later")
    git(repository, "checkout", "-q", "change")
    (repository / "new.toml").write_text(GATE.replace("ads-ranking", "later"))
    (repository / "train.toml").write_text(GATE + "# a comment\n")
    result = gate(repository, ".", "--base-ref", "main", "--max-increase", "0.1")
    assert result.code == 0 and "later.toml" not in result.out and "new file: no earlier version" in result.out


@pytest.fixture(scope="module")
def surrounded(tmp_path_factory: pytest.TempPathFactory, first_commit: Path) -> Path:
    """A repository with another one inside, which holds a pipeline."""
    inner = committed(tmp_path_factory.mktemp("inner"), s=GATE.replace("ads-ranking", "inside"))
    git(inner, "branch", "-m", "trunk")
    root = copied(first_commit, tmp_path_factory.mktemp("around"))
    submodule(root, inner, "sub")
    git(root, "commit", "-qam", "submodule")
    return root


@pytest.fixture
def around(surrounded: Path, tmp_path: Path) -> Path:
    return copied(surrounded, tmp_path)


def bumped(root: Path) -> None:
    """The repository inside is linked to a commit with a dearer pipeline."""
    (root / "sub" / "s.toml").write_text(DEARER.replace("ads-ranking", "inside"))
    git(root / "sub", "commit", "-qam", "dearer")


def replaced(root: Path) -> None:
    git(root / "sub", "rm", "-q", "s.toml")
    (root / "sub" / "s.conf").write_text(DEARER.replace("ads-ranking", "inside"))
    git(root / "sub", "add", ".")
    git(root / "sub", "commit", "-qm", "moved")


def removed(root: Path) -> None:
    git(root, "rm", "-qf", "sub")


@pytest.mark.long
def test_a_repository_inside_that_does_not_change_is_no_matter(around: Path) -> None:
    (around / "x.txt").write_text("it")
    git(around, "add", ".")
    git(around, "commit", "-qm", "innocent")
    given: list[tuple[str, ...]] = [(), (".",), ("train.toml",), ("sub/s.toml",)]
    for files, ref in [*((files, "HEAD~1") for files in given), ((".",), "main"), (("sub/s.toml",), "main")]:
        result = gate(around, *files, "--base-ref", ref)
        said = result.out + result.err
        assert result.code == 0 and "sub" not in result.out.replace("sub/s.toml: pass", ""), (files, ref, said)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", [bumped, replaced, removed])
def test_a_repository_inside_is_part_of_the_change(around: Path, change: Callable[[Path], None]) -> None:
    change(around)
    if change is not removed:
        git(around, "commit", "-qam", "another commit")
    base = "HEAD" if change is removed else "HEAD~1"
    given: list[tuple[str, ...]] = [(), (".",), ("train.toml",)]
    for files in given:
        result = gate(around, *files, "--base-ref", base)
        assert "sub" in result.out + result.err, (files, result.out + result.err)


@pytest.mark.parametrize("stubs", [[*STUBS][::6], pytest.param([*STUBS], marks=pytest.mark.long)], ids=["some", "all"])
def test_a_file_that_is_given_and_is_no_pipeline_is_not_called_deleted(repository: Path, stubs: list[str]) -> None:
    for stub in stubs:
        (repository / "train.toml").write_bytes(STUBS[stub])
        found = gate(repository, "train.toml", "--base-ref", "main")
        assert found.code == 2 and "gate: INVALID" in found.out and "is deleted" not in found.out, stub
        whole = gate(repository, "--base-ref", "main")
        unreadable = stub in ("broken", "utf-16", "nul", "misspelt")
        assert ("train.toml, a pipeline at main, is no longer a pipeline" in whole.out) != unreadable, stub
        assert whole.code == (2 if unreadable else 0), stub
