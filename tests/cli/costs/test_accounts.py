"""Tests of dpcli account with several files: each alone, and those of one dataset as if they were one file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.account import headline
from dpcli.analysis.dataset_sum import account_of_dataset
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from tests.cases import of_each
from tests.command import dpcli

HEAD = (
    'format = 1\n[privacy]\nunit = "example"\ndataset = "clicks"\nadjacency = "add-remove"\ndelta = 1e-6\ndataset_size = 10_000\n'
)
POISSON = 'sampling = { scheme = "poisson", rate = 0.01 }'
ENTRIES = (
    'type = "gaussian"\nnoise_multiplier = 2.0',
    f'type = "gaussian"\nnoise_multiplier = 1.1\nsteps = 50\n{POISSON}',
    'type = "laplace"\nnoise_multiplier = 4.0\nsteps = 2',
    'type = "zcdp"\nrho = 0.05',
    'type = "approx-dp"\nepsilon = 0.2\ndelta = 1e-8',
    'type = "pure-dp"\nepsilon = 0.3',
    'type = "post-processing"',
)


def text_of(*entries: int, head: str = HEAD) -> str:
    return head + "".join(f'[[mechanism]]\nname = "entry-{index}"\n{ENTRIES[index]}\n' for index in entries)


def pipeline(*entries: int, head: str = HEAD, path: str = "a.toml") -> Pipeline:
    return parse(text_of(*entries, head=head).encode(), path)


def report(folder: Path, *texts: str, arguments: tuple[str, ...] = ("-f", "json")) -> Any:
    paths = [folder / f"file-{index}.toml" for index in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return dpcli("account", *map(str, paths), *arguments)


@pytest.mark.long
@of_each("cut", [((0,), (1,)), ((0, 2), (3,)), ((0,), (3,), (4, 5)), ((2, 6), (5,))])
def test_the_sum_is_the_composition_of_one_file_that_holds_all(cut: tuple[tuple[int, ...], ...]) -> None:
    parts = [pipeline(*entries, path=f"{index}.toml") for index, entries in enumerate(cut)]
    whole = pipeline(*(index for entries in cut for index in entries))
    found, expected = account_of_dataset([(part, 1) for part in parts], with_rows=False), headline(whole)
    assert found.delta == expected.delta
    assert found.upper == expected.upper
    assert max(headline(part).upper for part in parts) <= found.upper
    assert math.isfinite(found.upper)


def test_a_sum_says_that_its_files_were_fixed_before_the_first_ran(tmp_path: Path) -> None:
    """In each form that has room for a sentence, for each dataset that is added up and no other."""
    texts = [text_of(0), text_of(1), text_of(0).replace('dataset = "', 'dataset = "other-')]
    for count in (2, 3):
        (one,) = json.loads(report(tmp_path, *texts[:count]).out)["datasets"]
        assert "fixed before the first" in one["premise"]
    for form in ("table", "markdown", "html"):
        said = " ".join(dpcli("account", "file-0.toml", "file-1.toml", "-f", form, folder=tmp_path).out.split())
        assert said.count("fixed before the first") == 1, form
    assert "fixed before the first" not in dpcli("account", "file-0.toml", "file-2.toml", folder=tmp_path).out


def test_runs_count_as_the_horizon_of_one_file_does() -> None:
    part = pipeline(0, 3)
    assert account_of_dataset([(part, 3)], with_rows=False).upper == headline(part, runs=3).upper


def test_each_file_keeps_its_own_contributions_and_size() -> None:
    """What one file says of its records says nothing of another's."""
    user = HEAD.replace('"example"', '"user"') + "max_contributions = "
    files = [pipeline(0, head=f"{user}{most}\n", path=f"{most}.toml") for most in (1, 5)]
    both = account_of_dataset([(file, 1) for file in files], with_rows=False)
    assert [c.mechanism for c in both.charges] == [c.mechanism for file in files for c in headline(file).charges]


def test_the_smallest_delta_holds_for_all(tmp_path: Path) -> None:
    found = json.loads(report(tmp_path, text_of(0), text_of(3, head=HEAD.replace("1e-6", "1e-9"))).out)
    assert [dataset["delta"] for dataset in found["datasets"]] == [1e-9]
    assert [file["delta"] for file in found["files"]] == [1e-6, 1e-9]


def test_files_without_a_dataset_stand_alone(tmp_path: Path) -> None:
    plain = HEAD.replace('dataset = "clicks"\n', "")
    found = json.loads(report(tmp_path, text_of(0), text_of(0, head=plain), text_of(3), text_of(3, head=plain)).out)
    assert [file["dataset"] for file in found["files"]] == ["clicks", None, "clicks", None]
    assert [(d["dataset"], [Path(p).name for p in d["files"]]) for d in found["datasets"]] == [
        ("clicks", ["file-0.toml", "file-2.toml"])
    ]
    assert report(tmp_path, text_of(0), text_of(0, head=plain), arguments=("-f", "total")).code == 2
    other = HEAD.replace("clicks", "views")
    for third in (plain, other):  # a number that leaves a file out is no total
        assert report(tmp_path, text_of(0), text_of(3), text_of(1, head=third), arguments=("-f", "total")).code == 2
    total = report(tmp_path, text_of(0), text_of(3), arguments=("-f", "total"))
    assert float(total.out) == headline(pipeline(0, 3)).upper


@of_each(
    "old, new, words",
    [
        ('"example"', '"record"\nmax_contributions = 1', "privacy.unit: expected 'example', as "),
        ("add-remove", "zero-out", "privacy.adjacency: expected 'add-remove', as "),
        ('unit = "example"\n', "", "found none: the costs of such files cannot be added up"),
        ('"clicks"', '"Clicks"', "or a name that does not look like it, found 'Clicks'"),
        ('"clicks"', '"cl1cks"', "or a name that does not look like it, found 'cl1cks'"),
        ('"clicks"', '"сliсks"', "privacy.dataset: expected a name in one script"),
        ('"clicks"', '"clicks "', "privacy.dataset: expected a name of at most 100 visible characters"),
        ('"clicks"', '"clicks\\u200b"', "privacy.dataset: expected text without control or invisible characters"),
        ('"clicks"', '""', "privacy.dataset: expected"),
    ],
)
def test_what_cannot_be_added_up_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    result = report(tmp_path, text_of(0), text_of(3, head=HEAD.replace(old, new)), arguments=())
    assert (result.code, result.out) == (2, "")
    assert words in " ".join(result.err.split())


def test_a_file_counts_once_by_any_name(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text_of(0))
    (tmp_path / "b.toml").symlink_to(tmp_path / "a.toml")
    result = dpcli("account", str(tmp_path / "a.toml"), str(tmp_path / "b.toml"))
    assert (result.code, result.out) == (2, "")
    assert "expected each file once" in result.err
