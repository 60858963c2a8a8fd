"""Tests of work trees, clones and repositories inside others; git and accountants are asked once for many files."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path

import pytest

from dpcli.analysis import account as accounting
from dpcli.gate import bases, judge
from dpcli.git import command
from tests.command import dpcli
from tests.gate.repositories import committed, gate, git, submodule
from tests.gate.samples import GATE, SAMPLED

RISEN = GATE.replace("steps = 5_000", "steps = 20_000")  # within the cap, over the increase
STRICT, LOOSE = "format = 1\nepsilon = 0.5\n", "format = 1\nepsilon = 50.0\n"


def test_a_file_named_as_a_policy_at_a_revision_does_not_take_its_place(repository: Path) -> None:
    (repository / "policy.toml").write_text(STRICT)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "policy")
    (repository / "main:policy.toml").write_text(LOOSE)
    for more in ((), ("--base-ref", "main")):
        result = gate(repository, "train.toml", "--policy", "main:policy.toml", *more)
        assert result.code == 2
        assert "main:policy.toml: expected a policy file or REVISION:PATH, found both" in result.err
    assert gate(repository, "train.toml", "--policy", "./main:policy.toml").code == 0
    assert dpcli("diff", "main:policy.toml", "train.toml", folder=repository).code == 2


@pytest.mark.long
@pytest.mark.parametrize("kind", ["heads", "tags"])
@pytest.mark.parametrize("suffix", ["", "~0", "^{commit}"])
def test_a_branch_or_tag_named_as_the_base_does_not_take_its_place(repository: Path, kind: str, suffix: str) -> None:
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "update-ref", f"refs/{kind}/origin/main", "HEAD")
    (repository / "train.toml").write_text(RISEN)
    assert gate(repository, "train.toml", "--base-ref", f"origin/main{suffix}").code == 1  # two names of one commit
    git(repository, "commit", "-qam", "rise")
    git(repository, "update-ref", f"refs/{kind}/origin/main", "HEAD")
    for arguments in (("--base-ref", f"origin/main{suffix}"), ("--policy", f"origin/main{suffix}:train.toml")):
        result = gate(repository, "train.toml", *arguments)
        assert result.code == 2
        assert (
            f"'origin/main' is ambiguous: it names refs/{kind}/origin/main and refs/remotes/origin/main, which are different commits"
            in result.err
        )
    assert gate(repository, "train.toml", "--base-ref", f"refs/remotes/origin/main{suffix}").code == 1


@pytest.mark.parametrize("renamed", [False, True])
def test_what_the_clone_lacks_of_the_base_is_not_new(repository: Path, renamed: bool) -> None:
    (repository / "train.toml").write_text(RISEN)
    git(repository, "commit", "-qam", "rise")
    blob = git(repository, "rev-parse", "HEAD~1:train.toml").strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    if renamed:
        (repository / "train.toml").rename(repository / "other.toml")
    result = gate(repository, "other.toml" if renamed else "train.toml", "--base-ref", "HEAD~1")
    assert result.code == 2
    assert "is missing from this clone" in result.err


def test_an_unreadable_tree_of_the_base_is_not_an_empty_one(repository: Path) -> None:
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    (repository / "train.toml").write_text(RISEN)
    git(repository, "commit", "-qam", "rise")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    result = gate(repository, "train.toml", "--base-ref", "HEAD~1")
    assert result.code == 2
    assert "--base-ref: git cannot" in result.err


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A repository with a change, and one that has nothing to do with it."""
    folder = tmp_path_factory.mktemp("places")
    root = committed(folder / "root", ads__train=GATE, ads__other=SAMPLED)
    (root / "ads" / "train.toml").write_text(RISEN)
    (root / "ads" / "other.toml").unlink()
    return root, committed(folder / "stranger", ads__train=RISEN)


INSIDE = ("ads", ".", "..")
HOOKS = (("GIT_DIR",), ("GIT_DIR", "GIT_WORK_TREE"), ("GIT_INDEX_FILE",))


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    "cases",
    [list(zip(INSIDE, HOOKS, strict=True)), pytest.param([*product(INSIDE, HOOKS)], marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_the_variables_of_a_hook_change_nothing(places: tuple[Path, Path], cases: list[tuple[str, tuple[str, ...]]]) -> None:
    root, changed = places[0], []
    for inside, names in cases:
        path = os.path.relpath(root / "ads" / "train.toml", root / inside)
        plain = gate(root, path, "--base-ref", "main", folder=inside)
        assert plain.code == 1
        for other in places:
            values = {
                "GIT_DIR": other / ".git",
                "GIT_WORK_TREE": other,
                "GIT_INDEX_FILE": other / ".git" / "index",
            }
            with pytest.MonkeyPatch.context() as patch:
                for name in names:
                    patch.setenv(name, str(values[name]))
                if gate(root, path, "--base-ref", "main", folder=inside) != plain:
                    changed.append((inside, names, other.name))
    assert changed == []


def test_what_git_says_of_a_repository_that_it_does_not_read_is_passed_on(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("HOME", str(repository))
    result = gate(repository, "train.toml", "--base-ref", "main")
    assert result.code == 2
    assert "is a git repository that git cannot read: detected dubious ownership" in result.err
    for words in (("gate", "train.toml", "--policy", "main:policy.toml"), ("diff", "main:train.toml", "train.toml")):
        told = dpcli(*words, folder=repository)
        assert told.code == 2 and "no git repository here: detected dubious ownership" in told.err, told.err


@pytest.mark.long
@pytest.mark.parametrize("moved", [False, True])
def test_a_pipeline_gone_from_a_repository_inside_is_told(tmp_path: Path, moved: bool) -> None:
    inner = committed(tmp_path / "inner", train=GATE, other=SAMPLED)
    root = committed(tmp_path / "root", mine=GATE)
    submodule(root, inner, "vendor")
    git(root, "commit", "-qm", "vendor")
    if moved:
        (root / "vendor" / "hidden").mkdir()
        (root / "vendor" / "other.toml").rename(root / "vendor" / "hidden" / "other.toml")
    else:
        (root / "vendor" / "other.toml").unlink()
    result = gate(root, "vendor/train.toml", "mine.toml", "--base-ref", "HEAD")
    said = "was moved to vendor/hidden/other.toml" if moved else "is deleted"
    assert f"vendor/other.toml, a pipeline at HEAD, {said}" in result.out
    assert result.code == int(moved)


def test_without_files_every_pipeline_that_differs_is_judged(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """From every folder, and in repositories inside; what git ignores or does not know is not, nor what is broken and never was one."""
    assert gate(repository).code == 2  # against nothing
    inner = committed(tmp_path_factory.mktemp("inner"), it=GATE)
    submodule(repository, inner, "vendor")
    files = {"sub/deep.TOML": GATE, "p.conf": GATE, "broken.toml": "a = = 1\n", "tool.toml": "a = 1\n", "typed.toml": "[privacy\n"}
    for name, text in files.items():
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)
    (repository / "sub" / "link.toml").symlink_to("deep.TOML")
    git(repository, "add", ".")
    (repository / "unknown.toml").write_text(GATE)
    expected = ["sub/deep.TOML", "sub/link.toml", "typed.toml", "vendor/it.toml", "p.conf", "unknown.toml"]
    for folder in (".", "sub"):
        result = dpcli("gate", "--base-ref", "HEAD", "-f", "json", folder=repository / folder)
        judged = [os.path.relpath(os.path.join(folder, file["pipeline"]["path"])) for file in json.loads(result.out)["files"]]
        assert judged == expected, folder
        assert result.code == 2  # for typed.toml, which says privacy and is no TOML


@pytest.mark.sampled(1)
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_in_a_repository_without_a_commit_all_is_new_against_head(tmp_path: Path, object_format: str) -> None:
    """Against HEAD alone: another name that git does not know is a mistake."""
    git(tmp_path, "init", "-q", "--template=", f"--object-format={object_format}")
    assert gate(tmp_path, "--base-ref", "HEAD").code == 0
    (tmp_path / "a.toml").write_text(GATE)
    (tmp_path / "over.toml").write_text(GATE.replace("5_000", "200_000"))
    git(tmp_path, "add", ".")
    result = gate(tmp_path, "--base-ref", "HEAD")
    assert result.code == 1 and "a.toml: pass" in result.out and "over.toml: FAIL" in result.out
    for ref in ("main", "HEAD~1"):
        assert "git knows no commit" in gate(tmp_path, "--base-ref", ref).err


def test_a_head_whose_commit_is_lost_is_no_empty_one(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD").strip()
    (repository / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    assert gate(repository, "train.toml", "--base-ref", "HEAD").code == 2


def test_without_files_and_without_a_pipeline_that_differs_the_gate_passes(folder: Path) -> None:
    (folder / "tool.toml").write_text("a = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    result = gate(folder, "--base-ref", "main")
    assert (result.code, result.out) == (0, "gate: pass\n")
    assert "no pipeline differs from main" in dpcli("gate", "--base-ref", "main", folder=folder).out


def test_without_files_a_pipeline_that_is_gone_fails_where_it_went_out_of_sight(repository: Path) -> None:
    (repository / "train.toml").rename(repository / "train.txt")
    for format_, sign in (("text", "error gate/moved"), ("junit", 'failures="1"'), ("sarif", '"level": "error"')):
        result = dpcli("gate", "--base-ref", "main", "-f", format_, folder=repository)
        assert result.code == 1
        assert sign in result.out


FILES = 4


@pytest.fixture
def many(repository: Path) -> Path:
    for k in range(FILES):
        (repository / f"p{k}.toml").write_text(GATE)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    return repository


def test_git_is_asked_as_often_for_many_files_as_for_one(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def counted(folder: str, *arguments: str, **given: bytes) -> object:
        asked.append(arguments)
        return plain(folder, *arguments, **given)

    plain = command.run_git
    monkeypatch.setattr(command, "run_git", counted)
    paths = [f"p{k}.toml" for k in range(FILES)]
    assert dpcli("gate", "--base-ref", "HEAD", *paths, folder=many).code == 0
    assert sum(arguments[0] == "rev-parse" and "--verify" in arguments for arguments in asked) == 1
    assert sum("--show-toplevel" in arguments for arguments in asked) <= 2
    before = len(asked)
    assert dpcli("gate", "--base-ref", "HEAD", *paths, folder=many).code == 0
    assert len(asked) == 2 * before  # another call asks again: the repository may have moved on
    assert dpcli("gate", "--base-ref", "HEAD", paths[0], folder=many).code == 0
    assert len(asked) == 3 * before  # as often for one file as for many


def test_an_unchanged_file_is_accounted_for_once(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def counted(pipeline: object, **given: object) -> object:
        asked.append(pipeline)
        return plain(pipeline, **given)  # type: ignore[arg-type]

    plain = accounting.headline
    monkeypatch.setattr(judge, "headline", counted)
    monkeypatch.setattr(bases, "headline", counted)
    (many / "p0.toml").write_text(GATE.replace("[privacy]", "# a comment\n[privacy]"))
    paths = [f"p{k}.toml" for k in range(FILES)]
    whole = dpcli("gate", "--base-ref", "HEAD", *paths, "-f", "json", folder=many)
    assert whole.code == 0 and len(asked) == FILES
    (many / "p1.toml").write_text(GATE.replace("steps = 5_000", "steps = 5_001"))
    asked.clear()
    dpcli("gate", "--base-ref", "HEAD", *paths, "-f", "json", folder=many)
    assert len(asked) == FILES + 1
