"""Tests of caps on sums: all files of the repository that name a dataset are added up, whichever were given to the gate."""

from __future__ import annotations

import json
import os
import tempfile
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from dpcli.analysis.table_changes import Change
from dpcli.gate.totals import with_report_places
from dpcli.gate.verdicts import Base, Judged, JudgedSum
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.repositories import committed, copied, git, submodule
from tests.gate.samples import GATE

CLICKS = GATE.replace("[privacy]\n", '[privacy]\ndataset = "clicks"\n')
VIEWS = CLICKS.replace('"clicks"', '"views"')
CAP = 'format = 1\n[[together]]\ndatasets = ["clicks"]\nepsilon = {}\ndelta = 1e-8\n'


@pytest.fixture(scope="module")
def datasets(first_commit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of three files about one dataset, in two folders, and one about another."""
    root = copied(first_commit, tmp_path_factory.mktemp("datasets"))
    for name, text in {"ads/a": CLICKS, "ads/b": CLICKS, "misc/c": CLICKS, "misc/v": VIEWS}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / f"{name}.toml").write_text(text)
    (root / "policy.toml").write_text(CAP.format(5.0))
    git(root, "add", ".")
    git(root, "commit", "-qm", "files")
    return root


@pytest.fixture
def folder(datasets: Path, tmp_path: Path) -> Path:
    return copied(datasets, tmp_path)


def said(folder: Path, *arguments: str, code: int) -> dict[str, Any]:
    """The one sum in the machine form; the exit code is that of the process."""
    result = dpcli("gate", *arguments, "--policy", "policy.toml", "-f", "json", folder=folder)
    assert result.code == code, result.out + result.err
    (found,) = json.loads(result.out)["together"]
    return dict(found)


def epsilon_of(folder: Path, *files: str) -> float:
    """What `dpcli account` says of one file with the mechanisms of each of these."""
    head, *entries = CLICKS.split('[[mechanism]]\nname = "')
    again = [f'[[mechanism]]\nname = "{name} {entry}' for name in files for entry in entries]
    (folder / "whole.txt").write_text("".join((head, *again)))
    result = dpcli("account", "whole.txt", "-f", "json", folder=folder)
    (folder / "whole.txt").unlink()
    return float(json.loads(result.out)["result"]["epsilon_upper"])


@of_each("given", [("ads/a.toml",), ("ads/a.toml", "ads/b.toml"), ("misc/c.toml", "misc/v.toml"), ("misc/v.toml",)])
def test_the_files_of_a_dataset_are_added_up_whichever_are_given(folder: Path, given: tuple[str, ...]) -> None:
    found = said(folder, *given, code=0)
    assert sorted(found["files"]) == ["ads/a.toml", "ads/b.toml", "misc/c.toml"]
    assert found["result"]["epsilon_upper"] == pytest.approx(epsilon_of(folder, "a", "b", "c"), rel=1e-9)
    assert found["budget"]["epsilon"] == 5.0 and found["datasets"] == ["clicks"]
    for name in {"ads/a.toml", "ads/b.toml", "misc/c.toml"} - set(given):
        assert f"{name} (not judged here)" in found["conditions"][0]["message"]


def test_each_file_is_within_its_cap_and_all_together_are_not(folder: Path) -> None:
    (folder / "policy.toml").write_text(CAP.format(2.0))
    found = said(folder, "ads/a.toml", "ads/b.toml", code=1)
    assert [one["verdict"] for one in found["conditions"]] == ["fail"]
    result = dpcli("gate", "ads/a.toml", "--policy", "policy.toml", folder=folder)
    assert result.code == 1 and "dataset clicks: 3 files" in result.err


def test_a_pure_file_at_delta_0_leaves_the_sum_at_the_delta_of_the_others(folder: Path) -> None:
    """Its guarantee holds at every delta, and no Gaussian has one at 0."""
    pure = CLICKS.replace("delta = 1e-8", "delta = 0.0").partition("[[mechanism]]")[0]
    (folder / "ads" / "b.toml").write_text(
        f'{pure}[[mechanism]]\nname = "count"\ntype = "pure-dp"\nstated_for = "unit"\nepsilon = 0.1\n'
    )
    (folder / "policy.toml").write_text(CAP.format(5.0).replace("delta = 1e-8\n", ""))
    whole = said(folder, "ads/a.toml", code=0)
    assert whole["result"]["epsilon_upper"] < inf and whole["delta"] == 1e-8, whole


def test_a_new_file_anywhere_counts_and_one_that_git_ignores_does_not(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "new" / "d.toml").write_text(CLICKS)
    (folder / "out").mkdir()
    (folder / "out" / "e.toml").write_text(CLICKS)
    (folder / ".gitignore").write_text("out/\n")
    found = said(folder, "ads/a.toml", code=0)
    assert sorted(found["files"]) == ["ads/a.toml", "ads/b.toml", "misc/c.toml", "new/d.toml"]


RELEASE = (ROOT / "examples" / "release.toml").read_text().replace("[privacy]\n", '[privacy]\ndataset = "clicks"\n')
RELEASE = RELEASE.replace('unit = "patient"', 'unit = "user"', 1).replace("max_contributions = 6", "max_contributions = 1")
RELEASE = RELEASE.replace("dataset_size = 1_400", "dataset_size = 1_000_000")


def test_a_file_of_queries_is_a_pipeline_too(folder: Path) -> None:
    (folder / "release.toml").write_text(RELEASE)
    found = said(folder, "ads/a.toml", code=3)  # it states groups whose delta is above the cap's
    assert "release.toml" in found["files"]
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "release")
    (folder / "release.toml").unlink()
    result = dpcli("gate", "ads/a.toml", "--base-ref", "HEAD", "-f", "text", folder=folder)
    assert "release.toml, a pipeline at HEAD, is deleted" in result.out
    (folder / "release.txt").write_text(RELEASE)
    result = dpcli("gate", "ads/a.toml", "--base-ref", "HEAD", "-f", "text", folder=folder)
    assert result.code == 1 and "was moved to release.txt, which is not judged: give that file to the gate too" in result.out


def test_a_file_is_one_file_however_often_and_by_whatever_name_it_is_given(folder: Path) -> None:
    os.symlink("a.toml", folder / "ads" / "link.toml")
    given = ("ads/a.toml", "./ads/a.toml", "ads/link.toml", str(folder / "ads" / "a.toml"))
    found = said(folder, *given, code=0)
    assert len(found["files"]) == 3


def test_from_a_folder_below_all_files_of_the_repository_count(folder: Path) -> None:
    result = dpcli("gate", "a.toml", "--policy", "../policy.toml", "-f", "json", folder=folder / "ads")
    (found,) = json.loads(result.out)["together"]
    assert sorted(found["files"]) == ["../misc/c.toml", "a.toml", "b.toml"]


def test_outside_of_a_repository_the_files_given_count(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.toml").write_text(CLICKS)
    (tmp_path / "policy.toml").write_text(CAP.format(5.0))
    assert said(tmp_path, "a.toml", "b.toml", code=0)["files"] == ["a.toml", "b.toml"]


HOSTILE = {
    "unreadable": (CLICKS.replace("steps = 5_000", "steps = -1"), 2, "misc/c.toml: line"),
    "a name that looks like it": (CLICKS.replace('"clicks"', '"Clicks"'), 2, "found 'Clicks'"),
    "another unit": (CLICKS.replace('unit = "user"', 'unit = "session"'), 2, "cannot be added up"),
    "another adjacency": (CLICKS.replace('"add-remove"', '"replace-one"'), 2, "cannot be added up"),
    "no TOML": (CLICKS.replace("steps = 5_000", "steps = = 1"), 2, "misc/c.toml: line"),
    "no number": (CLICKS.replace("noise_multiplier = 400.0", "noise_multiplier = 1e-300"), 3, "no finite epsilon"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_cannot_be_added_up_is_no_pass(folder: Path, case: str) -> None:
    text, code, why = HOSTILE[case]
    (folder / "misc" / "c.toml").write_text(text)
    found = said(folder, "ads/a.toml", code=code)
    assert why in found["conditions"][0]["message"]


def test_where_a_file_given_cannot_be_read_there_is_no_sum(folder: Path) -> None:
    (folder / "ads" / "a.toml").write_text(HOSTILE["unreadable"][0])
    found = said(folder, "ads/a.toml", "ads/b.toml", code=2)
    assert found["verdict"] == "unknown" and found["result"] is None


def test_a_file_of_another_dataset_that_cannot_be_read_is_not_missed(folder: Path) -> None:
    (folder / "misc" / "v.toml").write_text(VIEWS.replace("steps = 5_000", "steps = -1"))
    (folder / "misc" / "other.toml").write_text("[tool]\nmechanism = = 1\n")
    assert len(said(folder, "ads/a.toml", code=0)["files"]) == 3


@pytest.mark.parametrize("where", ["file", "policy", "flags"])
def test_a_file_counts_as_often_as_its_horizon_plans(folder: Path, where: str) -> None:
    (folder / "policy.toml").write_text(CAP.format(50.0))
    planned, more = "horizon = { runs = 3, epsilon = 90.0 }\n", ()
    files = ["ads/a.toml", "ads/b.toml", "misc/c.toml"]
    if where == "file":
        (folder / "ads" / "b.toml").write_text(CLICKS.replace("[gate]\n", "[gate]\n" + planned))
    elif where == "policy":
        (folder / "policy.toml").write_text(CAP.format(50.0).replace("[[together]]", planned + "[[together]]"))
    else:
        more = ("--horizon", "3", "--horizon-epsilon", "90")
    found = said(folder, "ads/a.toml", *more, code=0)
    runs = 5 if where == "file" else 9
    assert found["result"]["epsilon_upper"] == pytest.approx(epsilon_of(folder, *map(str, range(runs))), rel=1e-9)
    assert sorted(found["files"]) == files and "b.toml 3 times" in found["conditions"][0]["message"]


def test_datasets_with_the_same_people_in_them_are_added_up_as_one(folder: Path) -> None:
    (folder / "policy.toml").write_text(CAP.format(5.0).replace('["clicks"]', '["clicks", "views"]'))
    found = said(folder, "ads/a.toml", code=0)
    assert sorted(found["files"]) == ["ads/a.toml", "ads/b.toml", "misc/c.toml", "misc/v.toml"]
    assert found["result"]["epsilon_upper"] == pytest.approx(epsilon_of(folder, *"abcv"), rel=1e-9)


def test_a_cap_that_no_file_is_held_to_is_told(folder: Path) -> None:
    (folder / "policy.toml").write_text(CAP.format(5.0).replace('["clicks"]', '["click"]'))
    result = dpcli("gate", "ads/a.toml", "--policy", "policy.toml", folder=folder)
    assert result.code == 0 and "together[1] (dataset click): no file of the repository names it" in result.out


def test_rho_of_all_files_is_capped_too(folder: Path) -> None:
    (folder / "policy.toml").write_text(CAP.format(5.0) + "rho = 0.01\n")
    found = said(folder, "ads/a.toml", code=1)
    assert [one["verdict"] for one in found["conditions"]] == ["pass", "fail"]


@of_each("text", ["datasets = []", 'datasets = ["a", "a"]', 'datasets = [" a"]', 'datasets = ["a"]\nepsilon = -1.0'])
def test_caps_that_mean_nothing_are_refused(folder: Path, text: str) -> None:
    cap = "" if "epsilon" in text else "\nepsilon = 1.0"
    (folder / "policy.toml").write_text(f"format = 1\n[[together]]\n{text}{cap}\n")
    result = dpcli("gate", "ads/a.toml", "--policy", "policy.toml", folder=folder)
    assert result.code == 2 and "together[1]" in result.err


def test_a_change_that_drops_the_cap_is_judged_by_it(folder: Path) -> None:
    (folder / "policy.toml").write_text(CAP.format(2.0))
    git(folder, "commit", "-qam", "a cap")
    (folder / "policy.toml").write_text("format = 1\n")
    assert said(folder, "ads/a.toml", "--base-ref", "main", code=1)["verdict"] == "fail"


STATED = {"named": (GATE, CLICKS, 0), "renamed": (CLICKS, VIEWS, 1), "taken away": (CLICKS, GATE, 1)}


@pytest.mark.parametrize("case", STATED)
def test_only_a_first_name_of_a_dataset_passes(repository: Path, case: str) -> None:
    was, now, code = STATED[case]
    (repository / "train.toml").write_text(was)
    git(repository, "commit", "-qam", "was", "--allow-empty")
    (repository / "train.toml").write_text(now)
    result = dpcli("gate", "train.toml", "--base-ref", "main", folder=repository)
    assert result.code == code and "privacy.dataset" in result.out


def test_a_policy_may_want_a_dataset_named(repository: Path) -> None:
    (repository / "policy.toml").write_text('format = 1\nrequire_dataset = ["clicks"]\n')
    for text, code in ((GATE, 1), (VIEWS, 1), (CLICKS, 0)):
        (repository / "train.toml").write_text(text)
        assert dpcli("gate", "train.toml", "--policy", "policy.toml", folder=repository).code == code


@pytest.fixture
def pair(folder: Path) -> tuple[Path, float, float]:
    """Two files that are all of a dataset, what one of them costs, and what both do together."""
    (folder / "misc" / "c.toml").unlink()
    return folder, epsilon_of(folder, "a"), epsilon_of(folder, "a", "b")


def capped(folder: Path, epsilon: float) -> None:
    for name in ("a", "b"):
        text = CLICKS.replace("epsilon = 3.0", f"epsilon = {epsilon!r}")
        assert text != CLICKS
        (folder / "ads" / f"{name}.toml").write_text(text)


def test_a_sum_above_every_cap_is_told_without_a_policy(pair: tuple[Path, float, float]) -> None:
    """Each file is within its cap, and both together are not: no verdict, and no silence. One alone, or larger caps: nothing."""
    folder, one, both = pair
    for cap, told in ((1.01 * one, True), (0.999 * both, True), (1.001 * both, False)):
        capped(folder, cap)
        result = dpcli("gate", "ads/a.toml", "ads/b.toml", "-f", "text", folder=folder)
        assert result.code == 0 and ("above the cap of each file" in result.out) is told
        account = dpcli("account", "ads/a.toml", "ads/b.toml", folder=folder)
        assert ("is above the budget of each of its files" in " ".join(account.out.split())) is told
        assert "above the cap of each" not in dpcli("gate", "ads/a.toml", "-f", "text", folder=folder).out


@pytest.mark.parametrize(("share", "code"), [(0.999, 1), (1.001, 0)])
def test_a_flag_caps_the_sum_of_the_repository(pair: tuple[Path, float, float], share: float, code: int) -> None:
    folder, one, both = pair
    capped(folder, 1.01 * one)
    for files in (("ads/a.toml", "ads/b.toml"), ("ads/a.toml",)):
        result = dpcli("gate", *files, "--max-together", repr(share * both), "-f", "text", folder=folder)
        assert result.code == code and "above the cap of each" not in result.out, result.out


def test_files_that_cannot_be_added_up_are_told(folder: Path) -> None:
    (folder / "ads" / "b.toml").write_text(CLICKS.replace('"add-remove"', '"zero-out"'))
    result = dpcli("gate", "ads/a.toml", "ads/b.toml", "-f", "text", folder=folder)
    assert result.code == 0 and "no sum: ads/b.toml: privacy.adjacency" in result.out
    none = dpcli("gate", "train.toml", "--max-together", "3", folder=folder)
    assert none.code == 2 and "--max-together: no file names a dataset" in none.err


HELD = 'format = 1\n[[together]]\ndatasets = ["clicks"]\nepsilon = 9.0\n'
# What a file under a cap may become without being given: each keeps the sum within the cap, and most lower it.
CHANGES = {
    "its dataset goes": CLICKS.replace('dataset = "clicks"\n', ""),
    "its dataset has another name": VIEWS,
    "it states its own cost": CLICKS.split("[[mechanism]]")[0]
    + '[[mechanism]]\nname = "train"\ntype = "pure-dp"\nepsilon = 0.01\n',
    "it releases less": CLICKS.replace('"final-model"', '"outputs"').replace('"all-checkpoints"', '"final-model"'),
    "it cannot be read": "= [\n",
    "it is long": CLICKS + "#" * 2_000_000,
    "it costs more": CLICKS.replace("steps = 5_000", "steps = 9_000"),
    "its delta is larger": CLICKS.replace("delta = 1e-8", "delta = 1e-7"),
}


GIVEN = [
    *((name, "--policy", "policy.toml") for name in ("ads/a.toml", "misc/v.toml", "ads")),
    *((name, "--max-together", "9") for name in ("ads/a.toml", "ads")),
]


@pytest.fixture(scope="module")
def held(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same under a shared cap."""
    root = copied(datasets, tmp_path_factory.mktemp("held"))
    (root / "policy.toml").write_text(HELD)
    git(root, "commit", "-qam", "policy")
    return root


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    "cases",
    [
        [*zip(CHANGES, GIVEN, strict=False)],
        pytest.param([*product(CHANGES, GIVEN)], marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_a_file_under_a_shared_cap_is_compared_whichever_are_given(
    held: Path, cases: list[tuple[str, tuple[str, ...]]], tmp_path: Path
) -> None:
    folder, wrong = copied(held, tmp_path), []
    for change, given in cases:
        assert CHANGES[change] != CLICKS
        (folder / "misc" / "c.toml").write_text(CHANGES[change])
        result = dpcli("gate", *given, "--base-ref", "HEAD", "-f", "text", folder=folder)
        if result.code != (2 if change in ("it cannot be read", "it is long") else 1) or "misc/c.toml" not in result.out:
            wrong.append((change, given, result))
    assert wrong == []


@pytest.mark.long
def test_a_sum_is_compared_with_what_it_was(folder: Path) -> None:
    """Of all files that named the dataset then, one of which is gone now, and one is dearer."""
    (folder / "policy.toml").write_text(HELD)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "policy")
    was = epsilon_of(folder, "a", "b", "c")
    (folder / "misc" / "c.toml").unlink()
    (folder / "ads" / "b.toml").write_text(CLICKS.replace("steps = 5_000", "steps = 6_000"))
    found = said(folder, "ads/a.toml", "--base-ref", "HEAD", code=0)
    assert found["base_epsilon"] == pytest.approx(was, rel=1e-9)
    table = dpcli("gate", "ads/a.toml", "--base-ref", "HEAD", "--policy", "policy.toml", folder=folder).out
    (row,) = [line.split() for line in table.splitlines() if line.startswith(" pass") and "dataset clicks" in line]
    assert row[3].startswith(f"{was:.3f}") and row[5].startswith("-")


@pytest.mark.long
def test_what_is_not_checked_out_has_no_sum(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    inner, clone = tmp_path_factory.mktemp("inner"), tmp_path_factory.mktemp("clone") / "it"
    committed(inner, **{"in": CLICKS})
    submodule(folder, inner, "vendor")
    (folder / "policy.toml").write_text(HELD)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "submodule")
    (inner / "in.toml").write_text(CLICKS.replace("steps = 5_000", "steps = 9_000"))
    git(inner, "commit", "-qam", "dearer")
    git(folder / "vendor", "pull", "-q")
    git(folder, "commit", "-qam", "another commit")
    asked = ("gate", "ads/a.toml", "--base-ref", "HEAD~1", "-f", "text")
    git(folder.parent, "clone", "-q", str(folder), str(clone))
    whole = dpcli(*asked, "--policy", "policy.toml", folder=folder)
    assert whole.code == 1 and "vendor/in.toml:31:1: gate/increase" in whole.err
    plain = dpcli(*asked, folder=clone)
    assert plain.code == 0 and "vendor: a repository inside this one, whose commit differs" in plain.out
    summed = dpcli(*asked, "--policy", "policy.toml", folder=clone)
    assert summed.code == 3 and "no sum, as vendor is not checked out" in summed.err


@pytest.mark.sampled(1)
@pytest.mark.parametrize("changed", ["ads/a", "ads/b", "misc/c", "misc/new"])
@pytest.mark.parametrize("compared", ["--base-ref", "--baseline", ""])
def test_a_sum_above_its_cap_is_shown_where_the_change_is(datasets: Path, tmp_path: Path, changed: str, compared: str) -> None:
    """An annotation at a file that nobody touched is not seen in review."""
    folder = copied(datasets, tmp_path / "repository")
    (folder / "policy.toml").write_text(CAP.format(2.95))
    git(folder, "commit", "-qam", "lower")
    everything = ["ads/a.toml", "ads/b.toml", "misc/c.toml"]
    (folder / "before.json").write_text(dpcli("gate", *everything, "-f", "json", folder=folder).out)
    (folder / f"{changed}.toml").write_text(CLICKS.replace("steps = 5_000", "steps = 9_000"))
    files = sorted({*everything, f"{changed}.toml"})
    words = {"--base-ref": ("--base-ref", "HEAD"), "--baseline": ("--baseline", "before.json"), "": ()}[compared]
    at = f"{changed}.toml" if compared else files[0]
    formats = {"text": f"{at}:1:1: error gate/together", "github": f"file={at},", "sarif": f'"uri": "{at}"'}
    outputs = [word for format_ in (*formats, "json") for word in ("-o", f"{format_}={folder.parent / format_}")]
    result = dpcli("gate", *files, *words, "--policy", "policy.toml", *outputs, folder=folder)
    assert result.code == 1, result.out + result.err
    for format_, shown in formats.items():
        assert shown in (folder.parent / format_).read_text(), format_
    told = json.loads((folder.parent / "json").read_text())
    assert [one["path"] for one in told["together"]] == [at]


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "at"),
    [
        ({"ads/a": "4_900", "misc/v": "5_000"}, "misc/v.toml"),
        ({"ads/a": "4_900", "misc/v": "4_900"}, "misc/v.toml"),
        ({"ads/a": "4_900", "misc/v": "5_000", "ads/b": "5_100", "misc/c": "5_900"}, "misc/c.toml"),
    ],
    ids=["one joins", "one joins at less than it cost", "others rise too"],
)
def test_a_sum_is_shown_at_the_largest_rise_then_at_what_only_joins_it(folder: Path, steps: dict[str, str], at: str) -> None:
    """Several files change: one is cheaper, one joins the dataset, and others may rise."""
    (folder / "policy.toml").write_text(CAP.format(2.9))
    git(folder, "commit", "-qam", "lower")
    for name, count in steps.items():
        (folder / f"{name}.toml").write_text(CLICKS.replace("steps = 5_000", f"steps = {count}"))
    files = ["ads/a.toml", "ads/b.toml", "misc/c.toml", "misc/v.toml"]
    result = dpcli("gate", *files, "--base-ref", "HEAD", "--policy", "policy.toml", "-f", "text", folder=folder)
    (line,) = [line for line in result.out.splitlines() if " error gate/together" in line]
    assert line.startswith(at), result.out


def judged_as(path: str, now: float | None, before: float | None, changed: bool = False) -> Judged:
    base = None if before is None else Base(before, None, {}, {}, {})
    return Judged(path, None, (), base=base, epsilon_at_base_delta=now, changes=(cast(Any, Mock(change=Change(()))),) * changed)


def test_nothing_is_shown_at_a_file_whose_epsilon_stays_infinite() -> None:
    files = [
        judged_as("a", inf, inf),
        judged_as("b", 2.0, 1.0),
        judged_as("c", inf, 1.0),
        judged_as("d", 1.0, 2.0, True),
        judged_as("e", 1.0, 1.0, True),
    ]
    for given, at in (("ab", "b"), ("ba", "b"), ("abc", "c"), ("a", "z"), ("ad", "z"), ("ade", "e"), ("eb", "b"), ("", "z")):
        one = JudgedSum("sum", None, (), reported_at="z", members=tuple(given))
        assert [found.reported_at for found in with_report_places([one], files)] == [at], given


# What a change does to the files of a dataset, and whether one of them is in the sum later than the others.
COMING = {
    "a new file": (lambda folder: (folder / "ads" / "new.toml").write_text(CLICKS), ["ads/new.toml"]),
    "a file names the dataset": (lambda folder: (folder / "misc" / "v.toml").write_text(CLICKS), ["misc/v.toml"]),
    "two come": (
        lambda folder: [(folder / "misc" / f"{name}.toml").write_text(CLICKS) for name in "vw"],
        ["misc/v.toml", "misc/w.toml"],
    ),
    "a file changes": (lambda folder: (folder / "ads" / "a.toml").write_text(CLICKS + "# more\n"), []),
    "a file has another name": (lambda folder: git(folder, "mv", "ads/a.toml", "ads/z.toml"), []),
    "one goes": (lambda folder: (folder / "ads" / "a.toml").unlink(), []),
    "a file of another dataset": (lambda folder: (folder / "new.toml").write_text(CLICKS.replace('"clicks"', '"calls"')), []),
}


@pytest.mark.sampled(1, 2)
@of_each("caps, given", [(("--policy", "policy.toml"), False), (("--max-together", "5"), True), ((), True)])
@pytest.mark.parametrize("case", COMING)
def test_a_file_that_joins_a_sum_later_is_told_and_no_other(
    datasets: Path, tmp_path: Path, case: str, caps: tuple[str, ...], given: bool
) -> None:
    """A notice, not a no: the file may be chosen for what the others showed, or may not. Without a cap, where the sum is told at all."""
    change, later = COMING[case]
    folder = copied(datasets, Path(tempfile.mkdtemp(dir=tmp_path)))
    (folder / "policy.toml").write_text(CAP.format(9.0))
    change(folder)
    files = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*.toml")) if given else ["misc/c.toml"]
    result = dpcli("gate", *files, *caps, "--base-ref", "main", "--allow-statement-change", "-f", "text", folder=folder)
    lines = [line for line in result.out.splitlines() if "gate/joined" in line]
    told = bool(caps) or "above the cap of each file" in result.out
    assert result.code == 0 and len(lines) == (told and bool(later)), result.out
    for line in lines:
        assert "dataset clicks: " in line
        assert (
            f"these files were not in the sum at the base: {', '.join(later)}; " in line
            and "warning" in line
            and "fixed before" in line
        )


def test_files_that_all_come_at_once_are_fixed_before_the_first(folder: Path) -> None:
    for name in ("x", "y"):
        (folder / f"{name}.toml").write_text(CLICKS.replace('"clicks"', '"calls"'))
    (folder / "policy.toml").write_text(CAP.format(9.0).replace("clicks", "calls"))
    result = dpcli("gate", "x.toml", "y.toml", "--policy", "policy.toml", "--base-ref", "main", folder=folder)
    assert "gate/joined" not in result.out and "the sum is valid if all files were fixed" in " ".join(result.out.split())
