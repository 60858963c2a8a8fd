"""Tests of one file under other names (links, submodules, other spellings): none avoids a comparison, a cap or a policy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpcli.git.past_files import contents_at
from tests.cases import of_each
from tests.gate.repositories import committed, copied, gate, git, submodule
from tests.gate.samples import GATE, OVER, waiver

LOOSE = OVER.replace("epsilon = 3.0", "epsilon = 9.0").replace("max_increase = 0.25", "max_increase = 90.0")
POLICY = "format = 1\nepsilon = 2.0\n"
BOUND = "format = 1\nepsilon = 99.0\n"


def in_place(root: Path, other: Path, name: str) -> None:
    git(root, "rm", "-rq", name)
    submodule(root, other, name)


def behind_a_link(root: Path, other: Path, name: str) -> None:
    submodule(root, other, "vendor")
    git(root, "rm", "-rq", name)
    (root / name).symlink_to("vendor")


def behind_a_link_to_what_was_there(root: Path, other: Path, name: str) -> None:
    git(root, "stash", "-q")
    submodule(root, other, "vendor")
    git(root, "commit", "-qam", "vendor")
    git(root, "rm", "-rq", name)
    (root / name).symlink_to("vendor")


def outside(root: Path, other: Path, name: str) -> None:
    git(root, "rm", "-rq", name)
    (root / name).symlink_to(other)


NESTED: tuple[Callable[[Path, Path, str], None], ...] = (in_place, behind_a_link, behind_a_link_to_what_was_there, outside)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A repository of a pipeline and a policy, and one that holds looser ones at its root."""
    folder = tmp_path_factory.mktemp("others")
    root = committed(folder / "root", ads__train=GATE, ads__over=OVER, docs__x="", policies__p=POLICY)
    return root, committed(folder / "other", train=LOOSE, over=LOOSE, p=BOUND)


@pytest.mark.long
@pytest.mark.parametrize(
    "nested", [NESTED[0], NESTED[3], *(pytest.param(nested, marks=pytest.mark.long) for nested in NESTED[1:3])]
)
def test_a_branch_of_a_repository_inside_is_no_base(others: tuple[Path, Path], nested: Callable[..., None], tmp_path: Path) -> None:
    root = copied(others[0], tmp_path / "root")
    nested(root, others[1], "ads")
    for folder in (".", "docs"):
        result = gate(root, os.path.relpath("ads/train.toml", folder), "--base-ref", "main", folder=folder)
        assert result.code == 1, folder
        assert ("max_increase 0.25 -> 90" in result.out) or ("a link out of the repository" in result.out), folder


@pytest.mark.sampled(1)
@pytest.mark.parametrize("nested", [*NESTED[1:3], *(pytest.param(NESTED[place], marks=pytest.mark.long) for place in (0, 3))])
def test_a_policy_of_a_repository_inside_does_not_bind(
    others: tuple[Path, Path], nested: Callable[..., None], tmp_path: Path
) -> None:
    root = copied(others[0], tmp_path / "root")
    nested(root, others[1], "policies")
    result = gate(root, "ads/over.toml", "--base-ref", "main", "--policy", "policies/p.toml")
    assert result.code == 1
    assert "cap 2.0" in result.out
    assert "its version at main applies" in result.out


@pytest.mark.long
def test_a_submodule_is_compared_with_the_commit_that_the_base_links_to(tmp_path: Path) -> None:
    other = committed(tmp_path / "other", train=GATE)
    root = committed(tmp_path / "root", x="")
    submodule(root, other, "ads")
    git(root, "commit", "-qam", "linked")
    assert gate(root, "ads/train.toml", "--base-ref", "main").code == 0
    (root / "ads" / "train.toml").write_text(LOOSE)
    git(root / "ads", "commit", "-qam", "looser")
    result = gate(root, "ads/train.toml", "--base-ref", "main")
    assert result.code == 1
    assert "max_increase 0.25 -> 90" in result.out
    # From within, the repository inside is the one under review.
    assert gate(root, "train.toml", "--base-ref", "HEAD~1", folder="ads").code == 1


RULES = 'format = 1\n[[rule]]\nfiles = "ads/*.toml"\nepsilon = 1.0\n[[rule]]\nfiles = "lab/**"\nepsilon = 50.0\n'


@pytest.mark.long
@pytest.mark.parametrize("target", ["misc", "lab"])
def test_a_link_leads_out_of_no_rule(tmp_path: Path, target: str) -> None:
    root = committed(tmp_path / "root", ads__train=GATE, policy=RULES)
    git(root, "mv", "ads", target)
    (root / "ads").symlink_to(target)
    for path in ("ads/train.toml", f"{root}/ads/train.toml", f"{target}/train.toml"):
        result = gate(root, path, "--base-ref", "main", "--policy", "policy.toml")
        assert result.code == 1, path
        assert "cap 1.0" in result.out or "the policy's epsilon 1 -> " in result.out, path


def test_a_link_leads_into_no_looser_rule_and_no_waiver(tmp_path: Path) -> None:
    rules = "format = 1\nepsilon = 3.0\n" + RULES[RULES.index('[[rule]]\nfiles = "lab') :]
    loose = OVER.replace("epsilon = 3.0", "epsilon = 60.0")
    granted = waiver("budget", epsilon="9.0", file='"lab/**"').replace("gate.waiver", "waiver")
    root = committed(tmp_path / "root", ads__train=loose, policy=rules, again=f"format = 1\nepsilon = 3.0\n{granted}")
    git(root, "mv", "ads", "lab")
    (root / "ads").symlink_to("lab")
    for policy, code in (("policy.toml", 0), ("again.toml", 0)):
        assert gate(root, "lab/train.toml", "--policy", policy).code == code
        result = gate(root, "ads/train.toml", "--policy", policy)
        assert result.code == 1
        assert "cap 3.0" in result.out


def dotted(text: str) -> str:
    return text.replace("[budget]\nepsilon = 3.0\nwarn_at = 0.9", "[budget]\nepsilon = 3e0\nwarn_at = 9e-1").replace(
        "5_000", "5000"
    )


REWRITTEN: dict[str, Callable[[str], str]] = {
    "comments": lambda text: "".join(f"{line} # x\n" if line.strip() else "\n" for line in text.splitlines()),
    "spelling": lambda text: dotted(text).replace('"', "'").replace(" = ", "\t=  "),
    "line ends": lambda text: text.replace("\n", "\r\n"),
    "one table a line": lambda text: (
        text.replace("[privacy]\n", "")
        .replace("unit =", "privacy.unit =")
        .replace(
            "\n".join(text.split("[privacy]\n")[1].split("\n\n")[0].splitlines()[1:]),
            "\n".join("privacy." + line for line in text.split("[privacy]\n")[1].split("\n\n")[0].splitlines()[1:]),
        )
    ),
    "order": lambda text: "[[mechanism]]".join([(parts := text.split("[[mechanism]]"))[0], "\n" + parts[2] + "\n", parts[1]]),
}


@pytest.mark.long
@of_each("how", REWRITTEN)
def test_a_rewritten_file_under_a_new_name_is_the_same_file(first_commit: Path, tmp_path: Path, how: str) -> None:
    root = copied(first_commit, tmp_path)
    (root / "train.toml").unlink()
    (root / "new.toml").write_bytes(REWRITTEN[how](LOOSE).encode())
    result = gate(root, "new.toml", "--base-ref", "main")
    assert result.code == 1
    assert "renamed from train.toml" in result.out


def test_a_name_of_several_lines_is_read_and_nothing_is_read_behind_one(folder: Path) -> None:
    """git repeats the name of what it does not have: it must not pass for what it has."""
    files = {"a\nb.toml": b"it", "c.toml": b"other", " blob": b"x"}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "names")
    absent = ["x blob 3\nabc", "x blob", "d.toml", "x\nblob 3"]
    names = [name for pair in zip(files, absent, strict=False) for name in pair] + absent[3:]
    found = contents_at(str(folder), [f"main:{name}" for name in names])
    assert found == [files.get(name) for name in names]
