"""The folder of a run works without the training file and after it was moved."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpcli as package
from dpcli.base.errors import InputError
from dpcli.train.run.description import RUN_FILES
from tests.command import ROOT, dpcli
from tests.train.samples import FILE


def test_a_moved_run_gives_the_accuracy_that_it_was_left_with(run: Path) -> None:
    left = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["accuracy"]
    found = dpcli("evaluate", str(run), "-f", "json")
    assert found.code == 0
    data = json.loads(found.out)
    assert (data["metrics"]["accuracy"], data["declared_public"]) == (left, True)
    assert "declares these data public" in dpcli("evaluate", str(run)).out


def test_what_was_measured_on_data_that_nobody_declared_says_so(run: Path) -> None:
    said = dpcli("evaluate", str(run), "digits")
    assert said.code == 0 and "without noise: the epsilon of the run does not cover it" in said.out
    assert json.loads(dpcli("evaluate", str(run), "digits", "-f", "json").out)["declared_public"] is False


@pytest.mark.parametrize("ending", ["npz", "function"])
def test_predictions_are_those_of_the_module_on_inputs_less_the_shift(run: Path, ending: str, tmp_path: Path) -> None:
    import torch

    model = package.load_model(run)
    images = np.random.default_rng(0).random((5, 1, 8, 8))
    expected = torch.softmax(model.module(torch.tensor(images - 0.25).float()), 1).detach().numpy()
    np.testing.assert_allclose(model.probabilities(images), expected, atol=1e-6)  # float32  # type: ignore[attr-defined]
    np.savez(tmp_path / "new.npz", inputs=images)
    (tmp_path / "new_images.py").write_text(
        f"import numpy\ndef all_():\n    return numpy.load({str(tmp_path / 'new.npz')!r})['inputs']\n"
    )
    source = "new.npz" if ending == "npz" else "new_images:all_"
    out = dpcli("predict", str(run), source, "-f", "csv", folder=tmp_path).out
    rows = list(csv.DictReader(io.StringIO(out)))
    found = np.array([[float(row[f"p_{label}"]) for label in range(10)] for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert [int(row["label"]) for row in rows] == expected.argmax(1).tolist()
    data = json.loads(dpcli("predict", str(run), source, "-f", "json", folder=tmp_path).out)
    assert [answer["label"] for answer in data["answers"]] == expected.argmax(1).tolist()
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    assert dpcli("predict", str(run), source, "--parquet", "out.parquet", folder=tmp_path).code == 0
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist()[0].keys() == rows[0].keys()


def test_only_the_first_rows_are_in_a_table(run: Path) -> None:
    out = dpcli("predict", str(run), "digits").out
    assert "1,777 more rows" in out and "cost no epsilon" in out


@pytest.mark.parametrize("name", RUN_FILES)
def test_a_changed_file_is_refused(run: Path, name: str) -> None:
    content = bytearray((run / name).read_bytes())
    content[-1] ^= 1
    (run / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: changed or removed after training"):
        package.load_model(run)


def test_a_run_of_an_earlier_version_is_refused_with_what_to_do(run: Path) -> None:
    (run / "model.json").unlink()
    for words in (("predict", str(run), "digits"), ("evaluate", str(run)), ("attest", str(run))):
        found = dpcli(*words)
        assert found.code == 2
        assert "no model.json: an earlier version of dpcli trained the model" in found.err
        assert "training it again with this version costs epsilon again" in found.err
    (run / "model.safetensors").unlink()
    assert "expected a run that has ended" in dpcli("evaluate", str(run)).err
    assert "give the folder of a run" in dpcli("evaluate", str(run / "nowhere")).err


@pytest.mark.parametrize(
    ("key", "value"),
    [("schema", "dpcli/run/v9"), ("files", {}), ("guarantee", {}), ("repeated", [1]), ("origin", None), ("ledger", "none")],
)
def test_what_is_no_description_is_refused(run: Path, key: str, value: object) -> None:
    path = run / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match="not a description that this version of dpcli train writes"):
        package.load_model(run)


@pytest.mark.parametrize("key", ["inputs", "classes"])
def test_no_value_of_a_model_is_an_internal_error(run: Path, key: str) -> None:
    path = run / "model.json"
    content = json.loads(path.read_text())
    for value in (
        None,
        True,
        -1,
        0,
        1e308,
        math.nan,
        10**400,
        "",
        "8",
        [],
        {},
        [[1]],
        [None],
        ["8"],
        [1.5],
        [-1, 8, 8],
        [8, 8, 1e9],
    ):
        path.write_text(json.dumps(content | {"model": content["model"] | {key: value}}))
        with pytest.raises(InputError, match=r"not as dpcli train wrote it|expected|takes"):
            package.load_model(run)
    del content["model"][key]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"model.{key}: not as dpcli train wrote it"):
        package.load_model(run)


OUTSIDE = ["../../etc/passwd", "/etc/passwd", "./model.safetensors", "adapter/../x.json", "", "a\0b"]
PLANTED = ["adapter/README.md", "adapter/statement.md", "adapter/evil.py", "adapter/adapter_model.bin", "sub/model.safetensors"]


@pytest.mark.parametrize("file", [*OUTSIDE, *PLANTED])
def test_a_description_leads_nowhere_else_and_names_what_a_run_leaves(run: Path, file: str) -> None:
    path = run / "model.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"files": content["files"] | {file: "0" * 64}}))
    with pytest.raises(InputError, match="not a description that this version of dpcli train writes"):
        package.load_model(run)


MODULE = "import torch\ndef make():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"


def test_a_module_of_the_users_own_must_be_the_one_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(FILE.replace('"logistic"', '"own_linear:make"').replace("steps = 30", "steps = 1"))
    code = tmp_path / "own_linear.py"
    code.write_text(MODULE)
    assert dpcli("train", "tiny.toml", folder=tmp_path).code == 0
    run = tmp_path / "runs" / "tiny"
    assert type(package.load_model(run).module).__name__ == "Sequential"
    sys.modules.pop("own_linear")
    code.write_text("open('was_run', 'w')\n" + MODULE)
    with pytest.raises(InputError, match="own_linear:make: expected the module with which the model was trained"):
        package.load_model(run)
    assert "own_linear" not in sys.modules and not (tmp_path / "was_run").exists()
    code.unlink()
    with pytest.raises(InputError, match="own_linear:make: cannot be imported: ModuleNotFoundError"):
        package.load_model(run)


def test_columns_are_found_with_and_without_the_label(tmp_path: Path) -> None:
    from dpcli.train.plan.plan import plan_of
    from dpcli.train.trained.classifier import inputs_in

    text = FILE.replace('data = "digits"', 'data = "new.csv"\nclasses = 2').replace('public = "held-out"\n', "")
    for stated, header, rows in (
        ("", "a,b,label", "1,2,0\n3,4,1\n"),
        ("", "a,b", "1,2\n3,4\n"),
        ('label = "y"\n', "y,a,b", "0,1,2\n1,3,4\n"),
        ('label = "y"\nunits = "who"\n', "who,a,b", "ana,1,2\nbo,3,4\n"),
    ):
        (tmp_path / "tiny.toml").write_text(text + stated)
        (tmp_path / "new.csv").write_text(f"{header}\n{rows}")
        train = plan_of(str(tmp_path / "tiny.toml")).train
        found = inputs_in(str(tmp_path / "new.csv"), train, (2,))  # type: ignore[arg-type]
        assert found.tolist() == [[1, 2], [3, 4]]
        with pytest.raises(InputError, match="expected 7 columns of numbers"):
            inputs_in(str(tmp_path / "new.csv"), train, (7,))  # type: ignore[arg-type]


def test_torch_is_not_imported_before_a_model_is_loaded() -> None:
    code = (
        "import sys, dpcli; dpcli.load_model; "
        "from dpcli.train.commands.trained import evaluate, predict; "
        "from dpcli.train.trained import attestation; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("words", [("predict", "digits"), ("evaluate",), ("attest",)])
def test_an_answer_is_never_written_over_the_run(run: Path, words: tuple[str, ...]) -> None:
    before = {path: path.read_bytes() for path in run.iterdir() if path.name != "attestation.json"}
    for path in before:
        found = dpcli(words[0], str(run), *words[1:], "-o", f"json={path}")
        assert found.code == 2 and "found a file of the run" in found.err
        if words[0] == "predict":
            assert dpcli("predict", str(run), "digits", "--parquet", str(path)).code == 2
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("portions", ["[[1e999, 2]]", "[[0, 1e999]]", "[[NaN, 1]]"])
def test_a_portion_without_end_is_no_internal_error(run: Path, portions: str) -> None:
    described = (run / "model.json").read_text()
    changed = re.sub(r'"repeated": ?\[\]', f'"repeated": {portions}', described)
    assert changed != described
    (run / "model.json").write_text(changed)
    for words in (("attest", str(run)), ("predict", str(run), "digits")):
        assert dpcli(*words).code == 2
