"""Tests of changes that would pass without less privacy loss: the exit code, the words, and the waiver of each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.cases import of_each
from tests.command import Result, dpcli
from tests.gate.repositories import committed, copied, git
from tests.gate.samples import GATE, waiver

DAY = ("--as-of", "2030-06-01")
POLICY = 'format = 1\n\n[[rule]]\nfiles = "ads/*.toml"\nepsilon = 2.0\n'
RESTATED = GATE.replace('type = "gaussian"', 'type = "pure-dp"').replace("noise_multiplier = 400.0", "epsilon = 0.00001")


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ads/train.toml under a policy that caps ads."""
    return committed(tmp_path_factory.mktemp("capped"), ads__train=GATE, policy=POLICY)


@pytest.fixture
def repository(capped: Path, tmp_path: Path) -> Path:
    return copied(capped, tmp_path)


def edit(old: str, new: str) -> Callable[[Path], None]:
    def made(root: Path) -> None:
        file = root / "ads" / "train.toml"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return made


def write(text: str, *, name: str = "ads/train.toml") -> Callable[[Path], None]:
    return lambda root: Path(root / name).write_text(text) and None


def deleted(root: Path) -> None:
    (root / "ads" / "other.toml").write_text(OTHER)
    (root / "ads" / "train.toml").unlink()


OTHER = """format = 1
privacy = { adjacency = "add-remove", unit = "example", releases = "outputs", delta = 0.0 }
budget = { epsilon = 1 }
mechanism = [{ name = "count", type = "discrete-laplace", scale = 9, sensitivity = 1 }]
"""


def moved(root: Path) -> None:
    (root / "ads" / "other.toml").write_text(OTHER)
    (root / "old").mkdir()
    (root / "ads" / "train.toml").rename(root / "old" / "train.toml")


def renamed(root: Path) -> None:
    (root / "misc").mkdir()
    (root / "ads" / "train.toml").rename(root / "misc" / "train.toml")


def linked(root: Path) -> None:
    outside = root.parent / f"{root.name}-outside.toml"
    outside.write_text(GATE)
    (root / "ads" / "train.toml").unlink()
    (root / "ads" / "train.toml").symlink_to(outside)


PULLS: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "restated": (
        write(RESTATED),
        1,
        "restatement: train: it states its own cost, and as gaussian it had a cost that followed from its noise",
    ),
    "deleted": (
        deleted,
        0,
        "ads/train.toml, a pipeline at main, is deleted: its outputs remain released, and are not counted here",
    ),
    "moved out of the glob": (
        moved,
        1,
        "ads/train.toml, a pipeline at main, was moved to old/train.toml, which is not judged: give that file to the gate too",
    ),
    "renamed out of the policy's rule": (renamed, 1, "statement: the policy's epsilon 2 -> none"),
    "a link out of the repository": (linked, 1, "link: a link out of the repository, to "),
    "the policy weakened": (
        write(POLICY.replace("2.0", "9.0"), name="policy.toml"),
        0,
        "policy.toml: warning: the policy changed: its version at main applies",
    ),
    "a waiver for itself": (
        write(RESTATED + waiver("restatement")),
        1,
        "is not valid: the policy accepts no waivers in pipeline files",
    ),
    "releases widened": (edit('releases = "final-model"', 'releases = "outputs"'), 1, "privacy.releases final-model -> outputs"),
}


def judged(root: Path, format_: str = "text", *more: str) -> tuple[int, str]:
    files = sorted(str(path.relative_to(root)) for folder in ("ads", "misc") for path in (root / folder).glob("*.toml"))
    arguments = (*files, "--base-ref", "main", "--policy", "policy.toml", *DAY, *more, "-f", format_)
    result = dpcli("gate", *arguments, folder=root)
    return result.code, result.out if result.out else result.err


def commented(root: Path) -> Result:
    """The comment on the pull request, as it would be written."""
    files = sorted(str(path.relative_to(root)) for folder in ("ads", "misc") for path in (root / folder).glob("*.toml"))
    arguments = (*files, "--base-ref", "main", "--policy", "policy.toml", *DAY, "--dry-run")
    return dpcli("comment", "github", *arguments, folder=root)


def told(root: Path) -> tuple[int, str]:
    """The exit code, and all conditions and notices, one a line."""
    code, out = judged(root, "json")
    found = json.loads(out)
    lines = [f"{c['name']}: {c['message']}" for file in found["files"] for c in file["conditions"]]
    return code, "\n".join([*lines, *(f"policy.toml: warning: {text}" for text in found["policy"]["warnings"])])


def test_nothing_hostile_passes_without_a_word(repository: Path) -> None:
    code, out = judged(repository)
    assert code == 0
    assert "warning" not in out
    assert "nothing rises" in commented(repository).err


@pytest.mark.sampled(2, 4)
@pytest.mark.parametrize("name", PULLS)
def test_a_hostile_change(repository: Path, name: str) -> None:
    """Before it is committed and on its branch; a no stands at a line of the pull request, and a comment tells of all."""
    make, code, words = PULLS[name]
    make(repository)
    found, said = told(repository)
    assert words in said and found == code
    git(repository, "add", "-A")
    git(repository, "checkout", "-qb", "change")
    git(repository, "commit", "-qm", "hostile")
    found, said = told(repository)
    assert words in said and found == code
    if code == 1:
        assert "::error file=" in judged(repository, "github")[1]
    # The pull request hears of it, whatever the exit code.
    result = commented(repository)
    assert result.code == code and words.rpartition(": ")[2] in result.out
    assert not result.err or code


@pytest.mark.long
def test_the_policy_of_the_base_judges(repository: Path) -> None:
    edit("steps = 5_000", "steps = 30_000")(repository)  # epsilon 2.7: over the policy's cap, under the file's own
    assert "error gate/budget" in judged(repository, "text")[1]
    (repository / "policy.toml").write_text(POLICY.replace("2.0", "9.0"))
    assert "error gate/budget" in judged(repository, "text")[1]
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "both")
    asked = ("ads/train.toml", "--base-ref", "main~1", "-f", "text", "--policy", "main:policy.toml")
    assert "error gate/budget" not in dpcli("gate", *asked, folder=repository).out  # the caller's own choice


def test_a_new_policy_is_told(repository: Path) -> None:
    (repository / "fresh.toml").write_text("format = 1\nepsilon = 9.0\n")
    result = dpcli("gate", "ads/train.toml", "--base-ref", "main", "--policy", "fresh.toml", "-f", "json", folder=repository)
    assert result.code == 0
    assert json.loads(result.out)["policy"]["warnings"] == [
        "the policy is new in this change, as main does not have it: it applies as written"
    ]


RULES = [
    ('files = "ad/*.toml"', 'rule[1] (files = "ad/*.toml") matches no file, and has no effect'),
    ('unit = "usr"', 'rule[1] (unit = "usr") applies to none of the judged files'),
    ('files = "ads/*"\nunit = "usr"', 'rule[1] (files = "ads/*", unit = "usr") applies to none of the judged files'),
    ('adjacency = "zero-out"', 'rule[1] (adjacency = "zero-out") applies to none of the judged files'),
    ('files = "ads/*.toml"', None),
    ('files = "policy.toml"', None),  # a file of the repository that was not asked about
]


@of_each("selector, words", RULES)
def test_a_rule_that_holds_for_nothing_is_told(repository: Path, selector: str, words: str | None) -> None:
    (repository / "policy.toml").write_text(f"format = 1\n[[rule]]\n{selector}\nepsilon = 2.0\n")
    result = dpcli("gate", "ads/train.toml", "--policy", "policy.toml", "-f", "json", folder=repository)
    assert json.loads(result.out)["policy"]["warnings"] == ([] if words is None else [words])


def test_a_guarantee_in_a_part_is_found_out(repository: Path) -> None:
    part = RESTATED.replace('name = "train"', 'name = "claim"')
    write(part + '\n[[mechanism]]\nname = "train"\ntype = "composed"\nmechanisms = ["claim"]\n')(repository)
    assert (
        "restatement: train: it states its own cost, and as gaussian it had a cost that followed from its noise"
        in told(repository)[1]
    )


def test_a_guarantee_under_a_new_name_is_found_out(repository: Path) -> None:
    write(RESTATED.replace('name = "train"', 'name = "model"'))(repository)
    assert (
        "restatement: model: it states its own cost, and train, which was removed, as gaussian it had a cost that followed from its noise"
        in told(repository)[1]
    )


def test_a_baseline_finds_a_restatement_out_too(repository: Path) -> None:
    (repository / "base.json").write_text(dpcli("gate", "ads/train.toml", "-f", "json", folder=repository).out)
    asked = ("ads/train.toml", "--baseline", "base.json")
    assert dpcli("gate", *asked, folder=repository).code == 0
    write(RESTATED)(repository)
    assert dpcli("gate", *asked, folder=repository).code == 1


@pytest.mark.parametrize("evidence", [3, -1, 10**30, True, "2"])
def test_a_baseline_with_an_unknown_evidence_is_refused(repository: Path, evidence: object) -> None:
    baseline = json.loads(dpcli("gate", "ads/train.toml", "-f", "json", folder=repository).out)
    baseline["files"][0]["base_form"]["mechanisms"]["train"][1] = evidence
    (repository / "base.json").write_text(json.dumps(baseline))
    result = dpcli("gate", "ads/train.toml", "--baseline", "base.json", folder=repository)
    assert result.code == 2 and f"evidence {evidence!r} in place of one of 0, 1, 2" in result.err


def test_places_count_from_the_root_of_the_repository(repository: Path) -> None:
    (repository / "a b%").mkdir()
    edit("steps = 5_000", "steps = 300_000")(repository)
    shown = {"github": "file=ads/train.toml,", "sarif": '"uri": "ads/train.toml"', "gitlab": '"path": "ads/train.toml"'}
    for format_, folder in product(shown, (".", "ads", "a b%")):
        path = os.path.relpath(repository / "ads" / "train.toml", repository / folder)
        result = dpcli("gate", path, "-f", format_, folder=repository / folder).out
        assert shown[format_] in result and ".." not in result, (format_, folder)


def test_a_place_in_sarif_is_encoded(repository: Path) -> None:
    (repository / "ads" / "rank é%:1.toml").write_text("format = 1\n")
    result = dpcli("lint", "rank é%:1.toml", "-f", "sarif", folder=repository / "ads").out
    assert '"uri": "ads/rank%20%C3%A9%25%3A1.toml"' in result


def test_no_repository_and_a_shallow_clone_are_called_so(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    alone = tmp_path_factory.mktemp("alone")
    (alone / "train.toml").write_text(GATE)
    outside = dpcli("gate", "train.toml", "--base-ref", "main", folder=alone)
    assert outside.code == 2
    assert "is not a git repository" in outside.err
    for words in (("gate", "train.toml", "--policy", "main:policy.toml"), ("diff", "main:train.toml", "train.toml")):
        none = dpcli(*words, folder=alone)
        assert none.code == 2 and "no git repository here: not a git repository" in none.err, none.err
    edit("steps = 5_000", "steps = 5_001")(repository)
    git(repository, "commit", "-qam", "second")
    git(alone, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    shallow = dpcli("gate", "ads/train.toml", "--base-ref", "main~1", folder=alone / "shallow")
    assert shallow.code == 2
    assert "this clone is shallow: fetch all of its history (fetch-depth: 0 in CI" in shallow.err
    for words in (("--policy", "main~1:policy.toml"), ("--policy", "main~1:policy.toml", "--base-ref", "main~1")):
        told = dpcli("gate", "ads/train.toml", *words, folder=alone / "shallow")
        assert told.code == 2 and "fetch-depth: 0 in CI" in told.err, words
        based = () if "--base-ref" in words else ("--base-ref", "HEAD")
        told = dpcli("comment", "github", "ads/train.toml", *based, *words, "--dry-run", folder=alone / "shallow")
        assert told.code == 2 and "fetch-depth: 0 in CI" in told.err and "fetch-depth: 0 in CI" in told.out, words
    for a, b in (("main~1:ads/train.toml", "ads/train.toml"), ("ads/train.toml", "main~1:ads/train.toml")):
        told = dpcli("diff", a, b, folder=alone / "shallow")
        assert told.code == 2 and "fetch-depth: 0 in CI" in told.err
    known = dpcli("gate", "ads/train.toml", "--policy", "HEAD:no-policy.toml", folder=alone / "shallow")
    assert known.code == 2 and "no such revision, or no such file in it" in known.err and "shallow" not in known.err
