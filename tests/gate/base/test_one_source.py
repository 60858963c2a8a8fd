"""Tests of files that read the same data under several dataset names: the gate reports that no sum has the costs of all."""

from __future__ import annotations

import tomllib
from pathlib import Path

from dpcli.gate.input_data import sources
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.samples import GATE

TRAINED = (ROOT / "examples" / "breast-cancer.toml").read_text()
RELEASED = (ROOT / "examples" / "clinic-weeks.toml").read_text()
SECRET = "s3cr3t"


def written(folder: Path, name: str, text: str, dataset: str | None) -> None:
    own = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("dataset = "))
    named = own if dataset is None else own.replace("[privacy]\n", f'[privacy]\ndataset = "{dataset}"\n')
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(named)


def told(folder: Path, *more: str) -> list[str]:
    result = dpcli("gate", "a.toml", "sub/b.toml", *more, "-f", "text", folder=folder)
    assert result.code == 0, result.out
    return [line for line in result.out.splitlines() if "is read as different datasets" in line]


@of_each("first, second", [("people", "tumours"), ("people", None), (None, "people")])
@of_each("there, spelled", [("breast-cancer.csv", "../breast-cancer.csv"), ("own:rows", None), ("digits", "digits")])
def test_one_source_under_two_names_is_told(
    tmp_path: Path, first: str | None, second: str | None, there: str, spelled: str | None
) -> None:
    text = TRAINED.partition("[train.columns]")[0].replace(
        'label = "diagnosis"\nlabels = ["benign", "malignant"]\n', "classes = 2\n"
    )
    text = text if there.endswith("csv") else text.replace('public = "held-out"\n', "")
    written(tmp_path, "a.toml", text.replace("breast-cancer.csv", there), first)
    written(tmp_path, "sub/b.toml", text.replace("breast-cancer.csv", spelled or there), second)
    found = told(tmp_path)
    assert len(found) == (spelled is not None), found  # a function beside another file is another one
    written(tmp_path, "sub/b.toml", text.replace("breast-cancer.csv", spelled or there), first)
    assert not told(tmp_path)


def test_a_cap_on_the_sum_does_not_silence_it(tmp_path: Path) -> None:
    written(tmp_path, "a.toml", TRAINED, "people")
    written(tmp_path, "sub/b.toml", TRAINED.replace("breast-cancer.csv", "../breast-cancer.csv"), "others")
    (found,) = told(tmp_path, "--max-together", "9")
    assert 'breast-cancer.csv is read as different datasets (a.toml: "people", sub/b.toml: "others")' in found


def test_a_table_is_known_by_its_name_and_no_password_is_said(tmp_path: Path) -> None:
    text = RELEASED.replace("[source]\n", f'[source]\nurl = "postgresql://u:{SECRET}@h/db"\ntable = "visits"\n')
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("path = "))
    written(tmp_path, "a.toml", text, "clinic")
    written(tmp_path, "sub/b.toml", text, "visits")
    (found,) = told(tmp_path)
    assert '"postgresql://..." is read as different datasets' in found and SECRET not in found
    written(tmp_path, "sub/b.toml", text.replace('table = "visits"', 'table = "stays"'), "visits")
    assert not told(tmp_path)


def test_what_is_declared_public_or_read_by_nobody_is_no_source() -> None:
    tables = tomllib.loads(GATE + '[train]\ndata = "x.csv"\npublic = "y.csv"\n[audit]\ndata = "z.csv"\n[pate]\nqueries = "q.csv"\n')
    assert sources("/f/a.toml", tables) == {"/f/x.csv"}


def test_a_link_to_a_file_or_its_folder_leads_to_the_same_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("a\n")
    (tmp_path / "linked").symlink_to("data")
    (tmp_path / "rows.csv").symlink_to("data/rows.csv")
    found = {
        sources(str(tmp_path / "a.toml"), {"source": {"path": each}}) for each in ("data/rows.csv", "linked/rows.csv", "rows.csv")
    }
    assert len(found) == 1
    rotated = {sources("a.toml", {"source": {"url": f"postgresql://u:{word}@h/d", "table": "t"}}) for word in ("one", "two")}
    assert len(rotated) == 1
